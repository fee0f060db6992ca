"""The judges of auto-switch groups object to data that is broken, and to no other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from actors.config import AutoSwitchGroup
from actors.events import broker, controller, ha
from actors.sim.autoswitch.judges import AcknowledgedIsOnTheSet
from actors.sim.history import FaultInjected, Invariant, Observation
from actors.sim.world import SimEvent

GROUP = AutoSwitchGroup(name="orders", members=("n0", "n1", "n2"))


@attrs.frozen
class Logs:
    """Logs of nodes that are all on their disks; implements `LogBytes`."""

    held: dict[str, bytes]
    master: str = "n0"

    def begin(self, node: str) -> int:
        return 0

    def written(self, node: str, start: int, end: int) -> bytes:
        return self.held.get(node, b"")[start:end]

    durable = written


def told(node: str, event: Any, path: str = "orders/group_transfer") -> SimEvent:
    """Return an event of a node."""
    return SimEvent(at_s=1.0, node=node, boot=1, path=f"/{node}/{path}", incarnation=1, event=event)


def fault(kind: str, where: str) -> FaultInjected:
    return FaultInjected(at_s=1.0, kind=kind, where=where)


def objections(judge: Invariant, seen: Iterable[Observation]) -> list[str]:
    """Return all that a judge says about some observations."""
    return [text for each in seen for text in judge.see(each)]


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
    for observed, held, wrong in (
        (seen, {"n0": b"abcd"}, False),
        (grown, {"n0": b"abcd"}, True),
        (grown, {"n0": b"abcd", "n1": b"abc"}, True),
        (grown, {"n0": b"abcd", "n1": b"abxd"}, True),
        (grown, {"n0": b"abcd", "n1": b"abcd"}, False),
    ):
        judge = AcknowledgedIsOnTheSet(group=GROUP, logs=Logs(held))
        assert bool(objections(judge, (*observed, ACKNOWLEDGED))) is wrong


def test_bytes_that_have_rotted_are_not_compared_until_they_are_put_back() -> None:
    seen = (*NAMED, told("n0", ELECTED, "controllers/controller"), told("n0", BOTH, "c/controller"))
    logs = Logs({"n0": b"abcd", "n1": b"abxd"})
    rotten = fault("damaged", "n1 2 to 3")
    assert not objections(
        AcknowledgedIsOnTheSet(group=GROUP, logs=logs), (*seen, rotten, ACKNOWLEDGED)
    )
    for more in (
        (fault("damaged", "n1 1 to 2"),),
        (fault("damaged", "n2 2 to 3"),),
        (rotten, fault("repaired", "n1 2 to 3")),
        (rotten, fault("wiped", "n1")),
    ):
        judge = AcknowledgedIsOnTheSet(group=GROUP, logs=logs)
        assert objections(judge, (*seen, *more, ACKNOWLEDGED))
