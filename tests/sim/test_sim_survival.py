"""Copies judged by disks, failures and what excuses them, stalls and queues: seen to object."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from test_sim_checkers import (
    GROUP,
    SEGMENT,
    WRITTEN,
    Bytes,
    acknowledged,
    encoded,
    noted,
    recovered,
    reported,
)

from actors.config import ClassicGroup
from actors.events import ha, runtime, store
from actors.sim.classic.judges.survival import AcknowledgedIsOnDisks, FurthestHolds
from actors.sim.history import FaultInjected, Invariant, NodeLooked, Observation
from actors.sim.judges.failures import Excuses, NothingFails
from actors.sim.judges.liveness import (
    MAILBOX_BYTES_MAX,
    MAILBOX_MAX,
    STALL_S,
    WAITING_MAX,
    NoSilentStall,
    QueuesBounded,
)
from wire.files.record_encoder import encode_blank

ACK = acknowledged(0, 300)


def fault(kind: str, where: str) -> FaultInjected:
    return FaultInjected(at_s=1.0, kind=kind, where=where)


def problems(invariant: Invariant, *seen: Observation) -> list[str]:
    return [text for each in seen for text in invariant.see(each)]


def short(logs: Bytes, *nodes: str, size: int = 299) -> Bytes:
    for node in nodes:
        logs.cache[node] = logs.cache[node][:size]
        logs.disk[node] = logs.disk[node][:size]
    return logs


def on_disks(logs: Bytes, group: ClassicGroup = GROUP) -> AcknowledgedIsOnDisks:
    return AcknowledgedIsOnDisks(group=group, logs=logs)


def furthest(logs: Bytes, group: ClassicGroup = GROUP) -> FurthestHolds:
    return FurthestHolds(group=group, logs=logs)


# ---- AcknowledgedIsOnDisks ----


def test_two_of_three_disks_are_enough() -> None:
    assert problems(on_disks(short(Bytes().all_hold(300), "n2")), ACK) == []
    (text,) = problems(on_disks(short(Bytes().all_hold(300), "n1", "n2")), ACK)
    assert text == "all before 300 was acknowledged, but 1 of 2 nodes have it: n0"


def test_the_cache_is_no_disk() -> None:
    logs = Bytes().all_hold(300)
    logs.disk.update(n1=b"", n2=b"")
    assert problems(on_disks(logs), ACK) != []
    assert problems(on_disks(logs, WRITTEN), ACK) == []


def test_zeros_that_nobody_wrote_are_no_record() -> None:
    """A file has its full size from the beginning, on all nodes alike."""
    logs = Bytes().all_hold(400)
    for node in GROUP.members:
        logs.disk[node] = logs.cache[node] = logs.cache[node][:300] + bytes(SEGMENT - 300)
    alone = attrs.evolve(WRITTEN, copies=1)
    for group in (GROUP, WRITTEN, alone):
        checker = on_disks(logs, group)
        assert problems(checker, ACK) == []
        (text,) = problems(checker, acknowledged(300, 400))
        assert text == "all before 400 was acknowledged, but n0 has no record at 300"
        damage = fault("damaged", "n0 300 to 301")
        assert problems(on_disks(logs, group), damage, acknowledged(300, 400)) == []


@pytest.mark.parametrize("filler", [SEGMENT - 300, SEGMENT - 301])
def test_a_filler_leads_to_the_next_file(filler: int) -> None:
    logs = Bytes().all_hold(SEGMENT + 104)
    for node in GROUP.members:
        log = bytearray(logs.cache[node][:300] + bytes(SEGMENT - 300))
        log[300:308] = encode_blank(filler)
        logs.disk[node] = logs.cache[node] = bytes(log) + encoded(SEGMENT)
    wanted = [] if filler == SEGMENT - 300 else [300]
    found = problems(on_disks(logs), acknowledged(0, SEGMENT + 100))
    assert [int(text.split()[-1]) for text in found] == wanted


def test_all_before_it_counts_too() -> None:
    """A slave that has the batch and not what lies before it holds nothing."""
    logs = Bytes().all_hold(300)
    for node in ("n1", "n2"):
        logs.disk[node] = bytes(200) + logs.disk[node][200:]
    assert problems(on_disks(logs), acknowledged(200, 300)) != []


def test_what_a_restart_left_is_looked_at_again() -> None:
    logs = Bytes().all_hold(400)
    checker = on_disks(logs)
    assert problems(checker, ACK) == []
    for node in ("n1", "n2"):
        logs.disk[node] = logs.cache[node] = bytes(300) + logs.disk[node][300:]
    assert problems(checker, acknowledged(300, 400)) == []  # nobody restarted
    again = (recovered("n1", 100), recovered("n2", 100), acknowledged(300, 400))
    assert problems(checker, *again) != []


def test_an_acknowledgement_under_way_counts_what_a_power_loss_took() -> None:
    logs = short(Bytes().all_hold(300), "n1", "n2", size=0)
    lost = (reported("n1", 300), fault("power_loss", "n1 for 1.00 s"))
    assert problems(on_disks(logs, WRITTEN), *lost, ACK) == []
    assert problems(on_disks(logs), *lost, ACK) != []  # it had synced it: nothing may go
    less = (reported("n1", 299), fault("power_loss", "n1 for 1.00 s"))
    assert problems(on_disks(logs, WRITTEN), *less, ACK) != []
    begun = ha.HATransferStarted(slave="n1", connection=2, report_bytes=0, start_bytes=0)
    assert problems(on_disks(logs, WRITTEN), *lost, noted("n0", begun), ACK) != []
    assert problems(on_disks(logs), reported("n1", 300), fault("wiped", "n1"), ACK) == []


def test_damage_is_the_atlas_business() -> None:
    logs = Bytes().all_hold(300)
    logs.disk["n0"] = bytes(300)
    logs.cache["n0"] = bytes(300)
    damage = fault("damaged", "n0 20 to 30")
    assert problems(on_disks(logs), damage, ACK) == []
    assert problems(on_disks(logs), damage, fault("repaired", "n0 20 to 30"), ACK) != []
    assert problems(on_disks(logs), fault("damaged", "n0 300 to 301"), ACK) != []


# ---- FurthestHolds ----


def test_the_loss_of_the_others_is_survived() -> None:
    kill = fault("kill", "n0 for 1.00 s")
    assert problems(furthest(short(Bytes().all_hold(300), "n2")), ACK, kill) == []
    checker = furthest(short(Bytes().all_hold(300), "n1", "n2"))
    (text,) = problems(checker, ACK, kill, kill)
    assert "n1, n2 lack some of it: the loss of 1 others would lose it" in text
    assert problems(furthest(short(Bytes().all_hold(300), "n1", "n2")), kill) == []
    one = attrs.evolve(GROUP, copies=1)
    assert problems(furthest(short(Bytes().all_hold(300), "n1", "n2"), one), ACK, kill) == []


def test_a_master_without_its_own_bytes_is_others_business() -> None:
    assert problems(furthest(short(Bytes().all_hold(300), "n0")), ACK, fault("heal", "all")) == []


# ---- NothingFails ----


def crashed(node: str, error: str) -> Any:
    return noted(node, runtime.ActorCrashed(error=error, starting=False))


EIO = "OSError: [Errno 5] Input/output error: '/x'"


@pytest.mark.parametrize(
    ("seen", "is_wrong"),
    [
        ([crashed("n1", EIO)], True),
        ([fault("felt", "n1 write:5"), crashed("n1", EIO)], False),
        ([fault("felt", "n1 write:5"), crashed("n2", EIO)], True),
        ([fault("felt", "n1 write:5"), crashed("n1", "AssertionError: x")], True),
        ([fault("felt", "n1 write:5"), fault("start", "n1"), crashed("n1", EIO)], True),
        ([crashed("n1", "CorruptLog: x")], True),
        ([fault("damaged", "n1 1 to 2"), crashed("n1", "CorruptLog: x")], False),
        (
            [fault("damaged", "n1 1 to 2"), fault("start", "n1"), crashed("n1", "CorruptLog: x")],
            False,
        ),
        ([fault("damaged", "n1 1 to 2"), crashed("n2", "CorruptLog: x")], True),
        ([fault("damaged", "n1 1 to 2"), crashed("n1", EIO)], True),
        (
            [
                fault("damaged", "n1 1 to 2"),
                fault("wiped", "n1"),
                fault("start", "n1"),
                crashed("n1", "CorruptLog: x"),
            ],
            True,
        ),
        (
            [
                fault("damaged", "n1 1 to 2"),
                fault("repaired", "n1 1 to 2"),
                fault("start", "n1"),
                crashed("n1", "CorruptLog: x"),
            ],
            True,
        ),
        (
            [
                fault("damaged", "n1 1 to 2"),
                fault("start", "n1"),
                fault("repaired", "n1 1 to 2"),
                crashed("n1", "CorruptLog: x"),
            ],
            False,
        ),
        ([fault("repaired", "n1 1 to 2"), crashed("n1", "CorruptLog: x")], True),
    ],
)
def test_only_what_was_broken_may_fail_and_only_so(seen: list[Any], is_wrong: bool) -> None:
    assert bool(problems(NothingFails(), *seen)) is is_wrong


def test_who_asked_what_a_disk_has_ended_may_fail_with_it() -> None:
    down = "ActorDown: /n1/storage/store is not running"

    def at(path: str, error: str, boot: int = 1) -> Any:
        event = runtime.ActorCrashed(error=error, starting=True)
        return attrs.evolve(noted("n1", event), path=path, boot=boot)

    felt, ended = fault("felt", "n1 read:5"), at("/n1/storage/store", EIO)
    asks, later = at("/n1/maintainer", down), at("/n1/maintainer", down, boot=2)
    assert problems(NothingFails(), felt, ended, asks) == []
    assert problems(NothingFails(), felt, asks) != []
    assert problems(NothingFails(), felt, ended, fault("start", "n1"), later) != []


def test_a_supervisor_may_give_up_on_a_bad_disk() -> None:
    gave_up = noted("n1", runtime.RestartIntensityExceeded(child="x", intensity=1, period_s=1.0))
    assert problems(NothingFails(), gave_up)
    assert not problems(NothingFails(), fault("felt", "n1 read:5"), gave_up)
    assert not Excuses().disk_failed("n1")


def test_a_full_slave_refuses_and_says_so() -> None:
    reason = "[Errno 28] No space left on device: '/x'"
    refused = store.RawAppendRefused(session=1, offset_bytes=0, reason=reason)
    assert not problems(NothingFails(), noted("n1", refused))


# ---- NoSilentStall, QueuesBounded ----


def looked(
    node: str,
    at_s: float,
    written: int,
    session: int = 1,
    state: str = "TRANSFER",
    damage: str = "",
) -> NodeLooked:
    link = {"is_up": state == "TRANSFER", "details": {"session": session}}
    status = {
        "leads": node == "n0",
        "written": written,
        "link": None if node == "n0" else link,
        "findings": {"damaged": damage} if damage else {},
    }
    return NodeLooked(
        at_s=at_s, node=node, boot=1, status={"groups": {"orders": status}}, tree=tree_of()
    )


def tree_of(**mailbox: int) -> dict[str, Any]:
    box = {"depth": 0, "size_bytes": 0, "senders_waiting": 0, **mailbox}
    leaf = {"path": "/n0/a", "mailbox": box, "children": []}
    return {"path": "/n0", "mailbox": None, "children": [leaf]}


LATE_S = STALL_S + 3.0


@pytest.mark.parametrize(
    ("seen", "is_wrong"),
    [
        ([looked("n1", 2, 100), looked("n1", LATE_S, 100)], True),
        ([looked("n1", 2, 100), looked("n1", LATE_S, 100, state="READY")], True),
        ([looked("n1", 2, 100), looked("n1", LATE_S - 2, 100)], False),
        ([looked("n1", 2, 100), looked("n1", 9, 101), looked("n1", LATE_S, 101)], False),
        ([looked("n1", 2, 100), looked("n1", 9, 100, session=2), looked("n1", LATE_S, 100)], False),
        ([looked("n1", 2, 300), looked("n1", LATE_S, 300)], False),
        ([looked("n1", 2, 100), looked("n1", LATE_S, 100, damage="bytes 0 to 9")], False),
    ],
)
def test_a_slave_that_stands_still_is_seen(seen: list[NodeLooked], is_wrong: bool) -> None:
    found = problems(NoSilentStall(group=GROUP), looked("n0", 1, 300), *seen)
    assert bool(found) is is_wrong


@pytest.mark.parametrize("damage", ["bytes 0 to 9 are damaged", ""])
def test_a_slave_of_a_damaged_master_waits_for_who_mends_it(damage: str) -> None:
    master = looked("n0", 1, 300, damage=damage)
    found = problems(
        NoSilentStall(group=GROUP), master, looked("n1", 1, 9), looked("n1", 2 + STALL_S, 9)
    )
    assert bool(found) is not bool(damage)


def test_looks_at_other_groups_are_no_concern() -> None:
    other = attrs.evolve(looked("n1", 1, 1), status={"groups": {}})
    assert problems(NoSilentStall(group=GROUP), other, looked("n2", 1, 1)) == []


@pytest.mark.parametrize(
    ("key", "most"),
    [("depth", MAILBOX_MAX), ("size_bytes", MAILBOX_BYTES_MAX), ("senders_waiting", WAITING_MAX)],
)
def test_a_queue_above_its_bound_is_seen(key: str, most: int) -> None:
    for size, count in ((most, 0), (most + 1, 1)):
        seen = attrs.evolve(looked("n0", 1, 1), tree=tree_of(**{key: size}))
        assert len(problems(QueuesBounded(), seen)) == count
