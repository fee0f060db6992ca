"""Who lives: heartbeats, connections that end, silence, and bounds."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controller.core import liveness
from actors.controller.core.liveness import DEFAULT_TIMEOUT_S, Liveness, ReplicaKey
from wire.broker.controller import LEAST_PRIORITY, ControllerHeartbeat


def beat(broker_id: int | None = 1, **fields: Any) -> ControllerHeartbeat:
    return ControllerHeartbeat(
        broker_addr="b:1", broker_id=broker_id, broker_name="set1", cluster_name="C", **fields
    )


def ids(table: Liveness) -> list[int]:
    return sorted(table.of("C", "set1"))


def test_a_replica_lives_as_long_as_it_announced() -> None:
    table = Liveness()
    assert table.next_expiry_s is None
    assert table.heartbeat(beat(1, heartbeat_timeout_mills=3000), 1, 100.0)
    assert table.heartbeat(beat(2), 2, 100.0)
    assert table.next_expiry_s == 103.0
    assert table.expire(103.0) == ()
    assert ids(table) == [1, 2]
    assert table.expire(103.5) == (ReplicaKey("C", "set1", 1),)
    assert table.expire(100.0 + DEFAULT_TIMEOUT_S) == ()
    assert ids(table) == [2]


def test_the_end_of_its_connection_is_its_end() -> None:
    table = Liveness()
    for broker_id in (1, 2):
        table.heartbeat(beat(broker_id), 5, 0.0)
    table.heartbeat(beat(3), 6, 0.0)
    assert {each.broker_id for each in table.closed(5)} == {1, 2}
    assert ids(table) == [3]


def test_the_end_of_a_connection_that_was_replaced_is_not() -> None:
    """autoswitch-ha.md T33: upstream keeps the first connection of a replica."""
    table = Liveness()
    table.heartbeat(beat(1), 5, 0.0)
    table.heartbeat(beat(1), 6, 1.0)
    assert table.closed(5) == ()
    assert ids(table) == [1]


def test_the_newest_heartbeat_counts_also_with_a_shorter_log() -> None:
    """autoswitch-ha.md T33: upstream's offsets only grow within an epoch."""
    table = Liveness()
    table.heartbeat(beat(1, epoch=2, max_offset=900, confirm_offset=800), 5, 0.0)
    table.heartbeat(beat(1, epoch=2, max_offset=700, election_priority=3), 5, 1.0)
    found = table.of("C", "set1")[1]
    assert (found.epoch, found.max_offset, found.confirm_offset, found.priority) == (2, 700, -1, 3)


def test_what_is_not_said_is_not_known() -> None:
    table = Liveness()
    table.heartbeat(beat(1), 5, 0.0)
    found = table.of("C", "set1")[1]
    assert (found.epoch, found.max_offset, found.priority) == (-1, -1, LEAST_PRIORITY)


def test_a_heartbeat_without_an_id_does_not_count() -> None:
    table = Liveness()
    assert not table.heartbeat(beat(None), 5, 0.0)
    assert table.next_expiry_s is None


@pytest.mark.parametrize(
    ("millis", "seconds"), [(-5, 0.0), (0, 0.0), (2**62, liveness.TIMEOUT_MAX_S)]
)
def test_announced_times_are_bounded(millis: int, seconds: float) -> None:
    table = Liveness()
    table.heartbeat(beat(1, heartbeat_timeout_mills=millis), 5, 10.0)
    assert table.next_expiry_s == 10.0 + seconds


def test_other_clusters_and_sets_are_others() -> None:
    table = Liveness()
    table.heartbeat(beat(1), 5, 0.0)
    assert table.of("X", "set1") == {}
    assert table.of("C", "set2") == {}


def test_there_is_a_bound_for_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "REPLICAS_MAX", 2)
    table = Liveness()
    assert table.heartbeat(beat(1), 5, 0.0)
    assert table.heartbeat(beat(2), 5, 0.0)
    assert not table.heartbeat(beat(3), 5, 0.0)
    assert table.heartbeat(beat(2), 6, 1.0)
    assert ids(table) == [1, 2]
