"""Every invariant is fed a history that is right, then one that is broken, and names the break."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import pytest

from actors.config import ClassicGroup
from actors.events import ha, runtime, store
from actors.log_types import Batch, Offsets, Receipt, Record
from actors.sim.classic.judges import checkers
from actors.sim.classic.judges.checkers import NoDamagedCopyCounts
from actors.sim.cluster import classic_config
from actors.sim.history import (
    AppendAnswered,
    FaultInjected,
    History,
    Observation,
    OffsetsSeen,
    RecordsRead,
    line,
)
from actors.sim.world import SimEvent
from wire.files.hosts import Host
from wire.files.record_encoder import RecordEncoder, encode_blank

HOST: Host = ("10.0.0.1", 10911)
SEGMENT = 4096
GROUP = classic_config(segment_bytes=SEGMENT, copies=2).groups["orders"]
WRITTEN = classic_config(segment_bytes=SEGMENT, copies=2, durability="written").groups["orders"]


def encoded(offset: int) -> bytes:
    """A record of 100 bytes, as it lies there in the log."""
    out, encoder = bytearray(), RecordEncoder("orders", HOST, HOST)
    body = b"x" * (100 - encoder.record_size(0))
    encoder.encode_into(
        out, body, queue_id=0, queue_offset=0, physical_offset=offset, store_ts=1, born_ts=1
    )
    return bytes(out)


@attrs.define
class Bytes:
    """Logs as strings: `disk` is what is durable of `cache`."""

    cache: dict[str, bytes] = attrs.field(factory=dict)
    disk: dict[str, bytes] = attrs.field(factory=dict)
    master: str = "n0"
    begins: dict[str, int] = attrs.field(factory=dict)

    def begin(self, node: str) -> int:
        return self.begins.get(node, 0)

    def written(self, node: str, start: int, end: int) -> bytes:
        return self.cache.get(node, b"")[start:end]

    def durable(self, node: str, start: int, end: int) -> bytes:
        return self.disk.get(node, b"")[start:end]

    def all_hold(self, size: int) -> Bytes:
        log = b"".join(map(encoded, range(0, size, 100)))[:size]
        for node in GROUP.members:
            self.cache[node] = self.disk[node] = log
        return self


def noted(node: str, event: Any, *, path: str = "", boot: int = 1) -> SimEvent:
    path = path or f"/{node}/orders/storage/store"
    return SimEvent(at_s=1.0, node=node, boot=boot, path=path, incarnation=1, event=event)


def synced(node: str, offset: int) -> SimEvent:
    return noted(node, store.LogSynced(offset_bytes=offset))


def reported(node: str, offset: int, session: int = 1) -> SimEvent:
    event = ha.OffsetReported(session=session, offset_bytes=offset)
    return noted(node, event, path=f"/{node}/orders/ha_client")


def received(node: str, first: int, end: int) -> SimEvent:
    return noted(node, store.BytesReceived(session=1, first_bytes=first, next_bytes=end))


def appended(first: int, end: int) -> SimEvent:
    event = store.RecordsAppended(first_bytes=first, next_bytes=end, appends=1, records=1)
    return noted("n0", event)


def acknowledged(first: int, end: int) -> SimEvent:
    event = ha.AppendsAcknowledged(first_bytes=first, next_bytes=end, appends=1, records=1)
    return noted("n0", event, path="/n0/orders/group_transfer")


def recovered(node: str, end: int) -> SimEvent:
    event = store.RecoveryFinished(
        was_clean=False,
        scanned_from_bytes=0,
        end_bytes=end,
        record_count=1,
        kept_bytes=0,
        reason="",
    )
    return noted(node, event)


def offsets(node: str, acknowledged: int, boot: int = 1, asked: int = 99) -> OffsetsSeen:
    seen = Offsets(min=0, written=9999, synced=9999, acknowledged=acknowledged, master="n0")
    return OffsetsSeen(at_s=1.0, node=node, boot=boot, asked=asked, offsets=seen)


def record(position: int, size: int = 100, body: bytes = b"") -> Record:
    return Record(
        position=position,
        next_position=position + size,
        topic="orders",
        queue_id=0,
        queue_offset=0,
        body=body or b"%d" % position,
        tags="",
        keys=(),
        properties=(),
        store_timestamp_ms=0,
        born_timestamp_ms=0,
    )


def read(*records: Record, start: int = 0, acknowledged: int = 0) -> RecordsRead:
    end = records[-1].next_position if records else start
    batch = Batch(records=records, next=end, acknowledged=acknowledged, end=9999, lag_bytes=0)
    return RecordsRead(at_s=1.0, node="n1", boot=1, asked=99, start=start, batch=batch)


def answered(first: int, end: int) -> AppendAnswered:
    receipt = Receipt(first=first, last=first, next=end, count=1, copies=2, durability="synced")
    return AppendAnswered(at_s=1.0, client="c0", operation=1, receipt=receipt)


def found(seen: Iterable[Observation], logs: Bytes, group: ClassicGroup = GROUP) -> list[str]:
    """Which invariants object, once each, in the order in which they first do."""
    history = History(checkers.invariants(group, logs))
    for each in seen:
        assert line(each)
        history.add(each)
    return list(dict.fromkeys(violation.checker for violation in history.violations))


GOOD = (
    appended(0, 300),
    synced("n0", 300),
    received("n1", 0, 300),
    synced("n1", 300),
    reported("n1", 300),
    acknowledged(0, 300),
    answered(0, 300),
    offsets("n0", 300),
    offsets("n1", 300),
    read(record(0), record(100), record(200), acknowledged=300),
    read(record(100), start=100, acknowledged=300),
)


@pytest.mark.parametrize("group", [GROUP, WRITTEN], ids=["synced", "written"])
def test_a_good_history_passes(group: ClassicGroup) -> None:
    assert found(GOOD, Bytes().all_hold(300), group) == []


def test_what_a_master_held_counts_when_another_one_leads() -> None:
    """A master that slept through its successor's promotion hears late that all have its bytes."""
    logs = Bytes().all_hold(300)
    history = History(checkers.invariants(GROUP, logs))
    for seen in GOOD[:2]:
        history.add(seen)
    logs.master = "n1"
    for seen in (received("n1", 0, 300), synced("n1", 300), offsets("n0", 300)):
        history.add(seen)
    assert history.violations == []


def without(*left_out: Observation) -> list[Observation]:
    return [seen for seen in GOOD if seen not in left_out]


@pytest.mark.parametrize(
    ("seen", "checker"),
    [
        (without(GOOD[4]), "AcknowledgedOnEnoughNodes"),
        (without(GOOD[1]), "AcknowledgedOnEnoughNodes"),
        ([*GOOD[:5], answered(0, 301)], "AcknowledgedOnEnoughNodes"),
        ([*GOOD[:4], read(record(0), acknowledged=0)], "ReadsOnlyAcknowledged"),
        ([*GOOD[:4], read(acknowledged=300)], "ReadsOnlyAcknowledged"),
        ([*GOOD[:4], offsets("n2", 300)], "ReadsOnlyAcknowledged"),
        ([*GOOD, read(record(100, body=b"other"), start=100, acknowledged=300)], "ReadsAgree"),
        ([*GOOD, read(record(100, size=101), start=100, acknowledged=300)], "ReadsAgree"),
        ([*GOOD, read(record(0), record(200), acknowledged=300)], "ReadsAgree"),
        ([*GOOD, read(record(200), start=100, acknowledged=300)], "ReadsAgree"),
        ([*GOOD, offsets("n1", 299)], "AcknowledgedMonotonic"),
        ([*GOOD, read(acknowledged=299)], "AcknowledgedMonotonic"),
        ([*GOOD, reported("n1", 299)], "ReportedIsHeld"),
        ([*GOOD, reported("n2", 301)], "ReportedIsHeld"),
        ([*GOOD, appended(301, 400)], "LogTiles"),
        ([*GOOD, appended(299, 400)], "LogTiles"),
        ([*GOOD, appended(300, 300)], "LogTiles"),
        ([*GOOD, appended(300, 4092), appended(4096, 5000)], "LogTiles"),
        ([*GOOD, recovered("n0", 299)], "SyncedSurvives"),
        ([*GOOD, noted("n1", runtime.ActorCrashed(error="x", starting=False))], "NothingFails"),
        ([noted("n1", runtime.StopTimedOut(paths=("/n1",)))], "NothingFails"),
        ([noted("n1", runtime.ChildKilled(shutdown_s=1.0))], "NothingFails"),
        (
            [noted("n1", runtime.RestartIntensityExceeded(child="x", intensity=1, period_s=1.0))],
            "NothingFails",
        ),
        ([noted("n1", ha.SlaveDiverged(session=1, mismatches=3))], "NothingFails"),
        (
            [noted("n1", store.RawAppendRefused(session=1, offset_bytes=0, reason="x"))],
            "NothingFails",
        ),
    ],
)
def test_a_broken_history_is_caught(seen: list[Observation], checker: str) -> None:
    assert checker in found(seen, Bytes().all_hold(300))


@pytest.mark.parametrize(
    ("node", "where", "checker"),
    [
        ("n0", "disk", "AcknowledgedOnEnoughNodes"),
        ("n0", "disk", "ReceivedIsOnMaster"),
        ("n1", "disk", "ReportedIsHeld"),
        ("n1", "cache", "ReportedIsHeld"),
        ("n1", "cache", "ReceivedIsOnMaster"),
    ],
)
def test_a_disk_that_lacks_what_its_node_says_is_caught(
    node: str, where: str, checker: str
) -> None:
    logs = Bytes().all_hold(300)
    getattr(logs, where)[node] = getattr(logs, where)[node][:299]
    assert checker in found(GOOD, logs)


def test_bytes_that_differ_are_caught() -> None:
    logs = Bytes().all_hold(300)
    logs.cache["n1"] = logs.disk["n1"] = bytes(300)
    assert found(GOOD, logs) == ["ReceivedIsOnMaster"]


def test_what_has_rotted_on_the_master_is_not_compared() -> None:
    logs = Bytes().all_hold(300)
    rotted = bytearray(logs.disk["n0"])
    rotted[7] ^= 1
    logs.cache["n0"] = logs.disk["n0"] = bytes(rotted)
    assert "ReceivedIsOnMaster" in found(GOOD, logs)
    damage = FaultInjected(at_s=0.0, kind="damaged", where="n0 7 to 8")
    assert "ReceivedIsOnMaster" not in found([damage, *GOOD], logs)


def test_a_written_group_may_lack_syncs() -> None:
    logs = Bytes().all_hold(300)
    logs.disk.clear()
    assert found(without(GOOD[1], GOOD[3]), logs, WRITTEN) == []
    assert found(without(GOOD[4]), logs, WRITTEN) != []


def test_a_filler_up_to_the_next_file_is_no_gap() -> None:
    seen = [appended(0, 4000), appended(4096, 4196), read(record(4096), start=4000)]
    logs = Bytes().all_hold(5000)
    assert found(seen, logs) == ["ReadsOnlyAcknowledged"]
    assert found([appended(0, 4000), appended(8192, 9000)], logs) == ["LogTiles"]
    assert "ReadsAgree" in found([read(record(8192), start=4000)], logs)


def test_what_was_only_begun_may_go() -> None:
    """The master has a record at 100 to 400 there, and a filler in front of one at 4096."""
    logs = Bytes()
    log = bytearray(b"\0" * 8192)
    log[100:108] = (300).to_bytes(4, "big") + b"\xda\xa3\x20\xa7"
    log[4000:4096] = encode_blank(96)
    log[4096:4104] = (200).to_bytes(4, "big") + b"\xda\xa3\x20\xa7"
    logs.cache["n0"] = bytes(log)
    assert found([synced("n1", 399), recovered("n1", 100)], logs) == []
    assert found([synced("n1", 400), recovered("n1", 100)], logs) == ["SyncedSurvives"]
    assert found([synced("n1", 4200), recovered("n1", 4000)], logs) == []
    assert found([synced("n1", 4296), recovered("n1", 4000)], logs) == ["SyncedSurvives"]
    logs.cache["n2"], logs.cache["n0"] = logs.cache["n0"], bytes(8192)  # n0 by force, and shorter
    assert found([synced("n1", 399), recovered("n1", 100)], logs) == []
    assert found([synced("n1", 400), recovered("n1", 100)], logs) == ["SyncedSurvives"]


def test_a_resync_takes_what_the_master_does_not_have() -> None:
    """Both have records at 0 to 100 and 100 to 300, n1 another one up to 400, n2 half of that."""
    head = b"\xda\xa3\x20\xa7"
    shared = (100).to_bytes(4, "big") + head + b"x" * 92 + (200).to_bytes(4, "big") + head
    shared += b"y" * 192
    logs = Bytes()
    logs.cache["n0"] = shared + bytes(3796)
    logs.cache["n1"] = shared + (100).to_bytes(4, "big") + head + b"z" * 92 + bytes(3696)
    logs.cache["n2"] = shared + (100).to_bytes(4, "big") + head
    for node in ("n1", "n2"):
        resync = FaultInjected(at_s=1.0, kind="resync", where=node)
        assert found([synced(node, 400), resync, recovered(node, 300)], logs) == []
        broken = [synced(node, 400), resync, recovered(node, 100)]
        assert found(broken, logs) == ["SyncedSurvives"]
        assert found([synced(node, 400), recovered(node, 300)], logs) == ["SyncedSurvives"]
        logs.begins[node] = 200
        assert found([synced(node, 400), resync, recovered(node, 300)], logs) == []
        logs.begins[node] = 300  # it has let go of all that both have
        assert found([synced(node, 400), resync, recovered(node, 0)], logs) == []


def test_what_is_no_concern_of_a_group() -> None:
    other = noted("n1", store.LogSynced(offset_bytes=9), path="/n1/other/storage/store")
    again = noted("n1", runtime.ChildKilled(shutdown_s=2.0), path="/n1/api/connections/c1")
    assert found([other, again, offsets("n1", 0), offsets("n1", 0, boot=2)], Bytes()) == []


def test_answers_that_overlap_may_come_in_any_order() -> None:
    logs = Bytes().all_hold(300)
    assert found([*GOOD, offsets("n0", 299, asked=7)], logs) == []
    assert found([*GOOD, offsets("n0", 299, asked=8)], logs) == ["AcknowledgedMonotonic"]


def test_only_the_first_violations_are_kept() -> None:
    history = History()
    for number in range(100):
        history.violated("X", str(number), 1.0)
    assert [violation.text for violation in history.violations] == [str(n) for n in range(20)]
    assert str(history.violations[0]) == "X at 1.000000 s: 0"


def test_what_a_slave_never_had_is_no_damaged_copy() -> None:
    logs = Bytes().all_hold(400)
    good = logs.written("n2", 100, 200)
    logs.cache["n1"] = logs.cache["n1"][:100] + bytes(100) + logs.cache["n1"][200:]
    checker = NoDamagedCopyCounts(group=GROUP, logs=logs)
    where = "n2 100 to 200"
    assert not list(checker.see(FaultInjected(at_s=0.5, kind="damaged", where=where, good=good)))
    assert len(list(checker.see(reported("n1", 400)))) == 1
    logs.begins["n1"] = 200  # it was emptied since, and what came before had expired by then
    assert not list(checker.see(reported("n1", 400)))
