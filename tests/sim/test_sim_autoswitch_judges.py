"""The judges of auto-switch groups object to data that is broken, and to no other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from actors.config import AutoSwitchGroup
from actors.events import broker, controller, ha, store
from actors.log_types import Batch, Record
from actors.sim.autoswitch.judges import Known, judges
from actors.sim.history import FaultInjected, Observation, RecordsRead
from actors.sim.world import SimEvent

WITHOUT_LEASE = "n9"
GROUP = AutoSwitchGroup(name="orders", members=("n0", "n1", "n2"), min_in_sync_replicas=1)


@attrs.frozen
class Logs:
    """Logs of nodes, all on their disks but for those of `unsynced`; implements `LogBytes`."""

    held: dict[str, bytes]
    unsynced: str = ""
    master: str = "n0"

    def begin(self, node: str) -> int:
        return 0

    def written(self, node: str, start: int, end: int) -> bytes:
        return self.held.get(node, b"")[start:end]

    def durable(self, node: str, start: int, end: int) -> bytes:
        held = self.written(node, start, end)
        return bytes(len(held)) if node == self.unsynced else held


def told(node: str, event: Any, path: str = "orders/group_transfer") -> SimEvent:
    """Return an event of a node."""
    return SimEvent(at_s=1.0, node=node, boot=1, path=f"/{node}/{path}", incarnation=1, event=event)


def fault(kind: str, where: str) -> FaultInjected:
    return FaultInjected(at_s=1.0, kind=kind, where=where)


def objections(
    logs: Logs, seen: Iterable[Observation], group: AutoSwitchGroup = GROUP
) -> list[str]:
    """Return the names of the judges who object to some observations, in order."""
    known = Known(group=group, logs=logs)
    asked = judges(known, lambda node: node != WITHOUT_LEASE)
    return [type(judge).__name__ for each in seen for judge in asked for _ in judge.see(each)]


NAMED = tuple(
    told(f"n{number}", broker.ReplicaIdentified(broker="orders", broker_id=number + 1))
    for number in range(3)
)
ELECTED = controller.MasterElected(
    cluster="sim", broker="orders", broker_id=1, address="", epoch=1, asked_by="1"
)
BOTH = controller.SyncStateSetChanged(
    cluster="sim", broker="orders", in_sync=(1, 2), epoch=2, master_epoch=1
)
ACKNOWLEDGED = told("n0", ha.AppendsAcknowledged(first_bytes=0, next_bytes=4, appends=1, records=1))


def test_what_a_member_of_the_set_lacks_must_not_be_acknowledged() -> None:
    seen = (*NAMED, told("n0", ELECTED, "controllers/controller"))
    grown = (*seen, told("n0", BOTH, "controllers/controller"))
    for observed, held, objects in (
        (seen, {"n0": b"abcd"}, False),
        (grown, {"n0": b"abcd"}, True),
        (grown, {"n0": b"abcd", "n1": b"abc"}, True),
        (grown, {"n0": b"abcd", "n1": b"abxd"}, True),
        (grown, {"n0": b"abcd", "n1": b"abcd"}, False),
    ):
        expected = ["AcknowledgedIsOnTheSet"] * objects
        assert objections(Logs(held), (*observed, ACKNOWLEDGED)) == expected
    for unsynced in ("n0", "n1"):
        logs = Logs({"n0": b"abcd", "n1": b"abcd"}, unsynced)
        assert objections(logs, (*grown, ACKNOWLEDGED)) == ["AcknowledgedIsOnTheSet"]


def test_fewer_than_the_group_needs_in_the_set_acknowledge_nothing() -> None:
    group = attrs.evolve(GROUP, min_in_sync_replicas=2)
    logs, seen = Logs({"n0": b"abcd", "n1": b"abcd"}), (*NAMED, told("n0", ELECTED))
    assert objections(logs, (*seen, ACKNOWLEDGED), group) == ["AcknowledgedIsOnTheSet"]
    assert objections(logs, (*seen, told("n0", BOTH), ACKNOWLEDGED), group) == []


def test_bytes_that_have_rotted_are_not_compared_until_they_are_put_back() -> None:
    seen = (*NAMED, told("n0", ELECTED, "controllers/controller"), told("n0", BOTH, "c/controller"))
    logs = Logs({"n0": b"abcd", "n1": b"abxd"})
    rotten = fault("damaged", "n1 2 to 3")
    assert not objections(logs, (*seen, rotten, ACKNOWLEDGED))
    for more in (
        (fault("damaged", "n1 1 to 2"),),
        (fault("damaged", "n2 2 to 3"),),
        (rotten, fault("repaired", "n1 2 to 3")),
    ):
        assert objections(logs, (*seen, *more, ACKNOWLEDGED))


def begun(node: str, epoch: int, start: int) -> SimEvent:
    return told(node, ha.EpochBegun(epoch=epoch, start_bytes=start), "orders/epochs")


def acknowledged(node: str) -> SimEvent:
    return attrs.evolve(ACKNOWLEDGED, node=node, path=f"/{node}/orders/group_transfer")


def test_an_epoch_has_one_master_and_one_begin() -> None:
    logs, again = Logs({}), attrs.evolve(ELECTED, broker_id=2)
    objection = ["OneMasterPerEpoch"]
    assert objections(logs, (begun("n0", 1, 0), begun("n0", 1, 0), begun("n1", 2, 0))) == []
    assert objections(logs, (begun("n0", 1, 0), begun("n1", 1, 0))) == objection
    assert objections(logs, (begun("n0", 1, 4), begun("n0", 1, 0))) == objection
    assert objections(logs, (told("n0", ELECTED), told("n0", ELECTED))) == []
    assert objections(logs, (told("n0", ELECTED), told("n1", again))) == objection


def test_a_new_master_has_what_was_acknowledged() -> None:
    seen = (*NAMED, begun("n0", 1, 0), acknowledged("n0"))
    for held, start, objects in (
        (b"abcd", 4, False),
        (b"abcd", 3, True),
        (b"abxd", 4, True),
        (b"abc", 4, True),
    ):
        logs = Logs({"n0": b"abcd", "n1": held})
        assert (
            objections(logs, (*seen, begun("n1", 2, start))) == ["AcknowledgedIsInEpochs"] * objects
        )


def test_what_is_written_may_be_lost_with_the_power_of_all_who_had_it() -> None:
    group = attrs.evolve(GROUP, durability="written")
    seen = (
        *NAMED,
        told("n0", ELECTED),
        begun("n0", 1, 0),
        acknowledged("n0"),
        told("n0", BOTH),
        begun("n1", 2, 3),
    )
    cut = (*seen[:-1], fault("power_loss", "n1 for 1.00 s"), seen[-1])
    objection = ["AcknowledgedIsInEpochs"]
    for observed, held, objects in (
        (seen, {"n1": b"abc"}, True),
        (cut, {"n1": b"abc"}, False),
        (cut, {"n1": b"abc", "n0": b"abc"}, False),
        (cut, {"n1": b"abc", "n0": b"abcd"}, True),
        (cut, {"n1": b"abc", "n2": b"abcd"}, False),  # it is not of the set
    ):
        logs = Logs({"n0": b"abcd", "n1": b"abcd"})
        known = Known(group=group, logs=logs)
        asked = judges(known, lambda node: True)
        for each in observed[:-1]:
            assert not [text for judge in asked for text in judge.see(each)]
        object.__setattr__(logs, "held", held)
        found = [type(judge).__name__ for judge in asked for _ in judge.see(observed[-1])]
        assert found == objection * objects


def test_a_master_without_a_lease_or_of_an_older_epoch_acknowledges_nothing() -> None:
    logs = Logs({"n0": b"abcd", "n1": b"abcd", WITHOUT_LEASE: b"abcd"})
    seen = (begun("n0", 1, 0), acknowledged("n0"), begun("n1", 2, 4))
    assert objections(logs, (*seen, acknowledged("n0"), acknowledged("n1"))) == []
    objection = ["NewestMasterAcknowledges"]
    assert objections(logs, (*seen, acknowledged("n1"), acknowledged("n0"))) == objection
    assert objections(logs, (begun(WITHOUT_LEASE, 1, 0), acknowledged(WITHOUT_LEASE))) == objection


def test_no_learner_is_elected_or_in_the_set() -> None:
    group = attrs.evolve(GROUP, learners=("n1",))
    seen = (*NAMED, told("n0", ELECTED))
    assert objections(Logs({}), seen, group) == []
    assert objections(Logs({}), (*seen, told("n0", BOTH)), group) == ["LearnersStayOut"]
    elected = attrs.evolve(ELECTED, broker_id=2)
    assert objections(Logs({}), (*NAMED, told("n0", elected)), group) == ["LearnersStayOut"]


RECORD = (20).to_bytes(4, "big") + bytes(16)


def test_what_was_acknowledged_is_neither_cut_nor_lost_by_a_restart() -> None:
    answered = attrs.evolve(ACKNOWLEDGED, event=attrs.evolve(ACKNOWLEDGED.event, next_bytes=40))
    other = RECORD[:-1] + b"x"
    for held, objects in ((RECORD * 2, True), (RECORD + other, False), (RECORD, False)):
        logs = Logs({"n0": RECORD * 2, "n1": held})
        cut = ha.LogCutAsked(epoch=2, written_bytes=len(held), end_bytes=20)
        seen = (answered, told("n1", cut, "owners/orders"))
        assert objections(logs, seen) == ["CutsSpareAcknowledged"] * objects
    logs = Logs({"n0": RECORD * 2, "n1": RECORD * 2})
    ends = store.RecoveryFinished(
        was_clean=False,
        scanned_from_bytes=0,
        end_bytes=20,
        record_count=1,
        kept_bytes=0,
        reason="",
    )
    for synced, objects in ((40, True), (39, False), (20, False)):
        on_disk = told("n1", store.LogSynced(offset_bytes=synced), "orders/storage/store")
        seen = (answered, on_disk, told("n1", ends, "orders/storage/store"))
        assert objections(logs, seen) == ["SyncedSurvives"] * objects


def test_a_fixed_number_of_replicas_has_what_is_acknowledged() -> None:
    group = attrs.evolve(GROUP, all_ack_in_sync_state_set=False, in_sync_replicas=2)
    seen = (begun("n0", 1, 0), acknowledged("n0"))
    for held, objects in ((b"abcd", False), (b"abc", True), (b"abxd", True)):
        logs = Logs({"n0": b"abcd", "n2": held})
        assert objections(logs, seen, group) == ["AcknowledgedIsOnEnough"] * objects
    for unsynced in ("n0", "n2"):
        logs = Logs({"n0": b"abcd", "n2": b"abcd"}, unsynced)
        assert objections(logs, seen, group) == ["AcknowledgedIsOnEnough"]


def test_what_is_shown_is_on_the_whole_set() -> None:
    record = Record(
        position=0,
        next_position=4,
        topic="orders",
        queue_id=0,
        queue_offset=0,
        body=b"b",
        tags="",
        keys="",
        properties={},
        store_timestamp_ms=0,
        born_timestamp_ms=0,
    )
    batch = Batch(records=(record,), next=4, acknowledged=4, end=4, lag_bytes=0)
    read = RecordsRead(at_s=1.0, node="n2", boot=1, asked=0, start=0, batch=batch)
    seen = (*NAMED, told("n0", ELECTED), told("n0", BOTH), read)
    for held, objects in ((b"abcd", False), (b"abc", True), (b"abxd", True)):
        logs = Logs({"n0": b"abcd", "n1": held, "n2": b"abcd"})
        assert objections(logs, seen) == ["ShownIsOnTheSet"] * objects
