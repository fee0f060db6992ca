"""Upstream's acknowledgement policies beside ours: one test per row of classic-ha.md 3.3, on
the pure rules, in the waits that use them, and on whole nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
import trio
from ha_cluster import Cluster
from ha_kit import cluster, until

from actors.errors import (
    NotEnoughReplicas,
    ReplicationTimeout,
    SlaveNotAvailable,
    SyncTimeout,
)
from actors.events import ha as events
from actors.ha.core.ack_policy import (
    ALL_IN_SYNC,
    AckPolicy,
    Copies,
    FurthestSlave,
    InSyncReplicas,
    Replica,
)
from actors.ha.core.extent import LogExtent
from actors.ha.core.transfer_wait import TransferWait
from actors.sim.world import open_world

MAX = 100


def at(*ends: int) -> tuple[Replica, ...]:
    """Replicas that end there."""
    return tuple(Replica(f"n{place}", end, 0.0) for place, end in enumerate(ends, 1))


def five(n: int = 1, least: int = 1, **keys: bool) -> InSyncReplicas:
    given = {"acting_master": False, "auto": False, "all_ack": False, **keys}
    return InSyncReplicas(in_sync_replicas=n, min_in_sync_replicas=least, gap_bytes=MAX, **given)


@pytest.mark.checklist(32)
@pytest.mark.parametrize(
    ("next_bytes", "offsets", "connected", "reason"),
    [
        (10, [], 0, "no slave is connected"),
        (10, [10], 0, "no slave is connected"),
        (1099, [1000, 5], 2, ""),
        (1100, [1000, 5], 2, "the furthest slave is 100 bytes behind"),
        (99, [], 1, ""),
        (100, [], 1, "the furthest slave is 100 bytes behind"),
    ],
)
def test_4_x_looks_at_connections_and_lag_after_the_write(
    next_bytes: int, offsets: Sequence[int], connected: int, reason: str
) -> None:
    policy = FurthestSlave(MAX)
    assert policy.unavailable(next_bytes, at(*offsets), connected) == reason
    assert policy.refusal(next_bytes, at(*offsets)) == ""
    assert policy.need(next_bytes, at(*offsets)) == 2


@pytest.mark.checklist(33)
@pytest.mark.parametrize(
    ("policy", "offsets", "refusal", "need"),
    [
        (five(), [], "", 1),
        (five(3), [], "", 3),  # plain: waits in vain, refuses nothing
        (five(2, acting_master=True), [900], "nodes in sync: 1, required: 2", 2),
        (five(2, acting_master=True), [901], "", 2),
        (five(3, 2, acting_master=True, auto=True), [1000, 901], "", 3),
        (five(3, 2, acting_master=True, auto=True), [1000, 900], "", 2),
        (
            five(3, 2, acting_master=True, auto=True),
            [900, 900],
            "nodes in sync: 1, required: 2",
            2,
        ),
        (five(3, 1, acting_master=True, auto=True), [], "", 1),
        (five(least=2, all_ack=True), [1000, 901], "", ALL_IN_SYNC),
        (five(least=2, all_ack=True), [900], "nodes in sync: 1, required: 2", ALL_IN_SYNC),
    ],
)
def test_5_x_counts_who_is_in_sync_before_the_write(
    policy: InSyncReplicas, offsets: Sequence[int], refusal: str, need: int
) -> None:
    assert policy.refusal(1000, at(*offsets)) == refusal
    assert policy.need(1000, at(*offsets)) == need
    assert policy.unavailable(1000, at(*offsets), 0) == ""


def test_all_that_are_in_sync_are_counted_when_the_answer_is_due() -> None:
    policy = five(least=2, all_ack=True)
    assert policy.needed(ALL_IN_SYNC, 1000, at(1000, 950)) == 3
    assert policy.needed(ALL_IN_SYNC, 1000, at(1000, 900)) == 2
    assert policy.needed(ALL_IN_SYNC, 1000, at()) == 2, "never fewer than the minimum"


def test_copies_asks_nothing_but_the_number() -> None:
    policy = Copies(3)
    assert policy.refusal(1000, []) == ""
    assert policy.unavailable(1000, [], 0) == ""
    assert policy.needed(policy.need(1000, []), 1000, []) == 3


@attrs.frozen
class Put:
    next_bytes: int
    deadline_s: float = 3.0


def waits(policy: AckPolicy, *, copies: int = 2, **keys: bool) -> TransferWait[Put]:
    return TransferWait(copies=copies, synced=False, counted=("n1", "n2"), policy=policy, **keys)


def held(wait: TransferWait[Put], slave: str, connection: int, offset: int) -> None:
    wait.joined(slave, connection, 0)
    wait.acked(slave, connection, offset, 0.0)


@pytest.mark.checklist(32)
def test_what_4_x_does_not_wait_for_is_answered_at_once() -> None:
    wait = waits(FurthestSlave(MAX))
    first, second, third = Put(50), Put(110), Put(149)
    wait.wait([first])
    assert wait.settle(0.0).unavailable == ((first, "no slave is connected"),)
    wait.grew(LogExtent(0, 149, 149))
    held(wait, "n1", 1, 50)
    wait.wait([second, third])
    effects = wait.settle(0.0)
    assert (effects.done, effects.unavailable, effects.deadline_s) == ((), (), 3.0)
    wait.acked("n1", 1, 110, 0.0)
    assert wait.settle(0.0).done == ((second, 2),)


@pytest.mark.checklist(33)
def test_a_need_is_fixed_when_the_records_are_written() -> None:
    wait = waits(five(3, 1, acting_master=True, auto=True), copies=1)
    wait.grew(LogExtent(0, 10, 10))
    held(wait, "n1", 1, 10)
    two = Put(20)
    wait.wait([two])
    wait.gone("n1", 1)
    one = Put(30)
    wait.wait([one])
    wait.grew(LogExtent(0, 30, 30))
    assert wait.settle(0.0).done == ((one, 1),), "the earlier one still waits for its second node"
    held(wait, "n2", 2, 30)
    assert wait.settle(0.0).done == ((two, 2),)
    assert wait.waiting_count == 0


def test_readers_see_what_needed_fewer_nodes_than_an_append_needs_now() -> None:
    wait = waits(five(2, 1, acting_master=True, auto=True), copies=1)
    wait.grew(LogExtent(0, 10, 10))
    one = Put(20)
    wait.wait([one])
    held(wait, "n1", 1, 10)  # it is in sync before the master has written the record
    wait.grew(LogExtent(0, 20, 20))
    assert wait.held_bytes() == 10, "the next append needs both nodes"
    effects = wait.settle(0.0)
    assert effects.done == ((one, 1),)
    assert effects.acknowledged_bytes == wait.acknowledged_bytes == 20
    two = Put(30)
    wait.wait([two])
    wait.grew(LogExtent(0, 30, 30))
    assert wait.settle(0.0).acknowledged_bytes is None, "its second node is missing"
    wait.acked("n1", 1, 30, 0.0)
    assert wait.settle(0.0).acknowledged_bytes == 30


def test_waits_of_different_needs_are_answered_in_log_order() -> None:
    wait = waits(five(2, 1, acting_master=True, auto=True), copies=1)
    held(wait, "n1", 1, 0)
    first = Put(10)
    wait.wait([first])
    wait.gone("n1", 1)
    second = Put(20)
    wait.wait([second])
    held(wait, "n1", 2, 0)
    third = Put(30)
    wait.wait([third])
    wait.acked("n1", 2, 30, 0.0)
    wait.grew(LogExtent(0, 30, 30))
    assert [put for put, _ in wait.settle(0.0).done] == [first, second, third]


def test_all_in_sync_follows_a_slave_that_falls_behind() -> None:
    wait = waits(five(all_ack=True), copies=1)
    wait.grew(LogExtent(0, 150, 150))
    held(wait, "n1", 1, 150)
    held(wait, "n2", 2, 60)
    put = Put(150)
    wait.wait([put])
    assert wait.settle(0.0).done == ()
    wait.grew(LogExtent(0, 160, 160))
    assert wait.settle(0.0).done == ((put, 2),), "n2 is 100 bytes behind now: not in sync"


# ---- with compat: as upstream judges ----


def test_with_compat_each_connection_is_a_copy() -> None:
    """T12."""
    for upstream in (False, True):
        wait = waits(Copies(3), copies=3, upstream=upstream)
        wait.grew(LogExtent(0, 100, 100))
        held(wait, "n1", 1, 100)
        held(wait, "n1", 2, 100)
        assert wait.held_bytes() == (100 if upstream else 0)
        wait.gone("n1", 2)
        wait.acked("n1", 2, 100, 0.0)
        assert wait.held_bytes() == 0


def test_with_compat_4_x_never_forgets_the_furthest_report() -> None:
    """T7."""
    for upstream in (False, True):
        wait = waits(FurthestSlave(MAX), upstream=upstream)
        wait.grew(LogExtent(0, 100, 100))
        held(wait, "n1", 1, 500)
        wait.gone("n1", 1)
        held(wait, "n2", 2, 0)
        put = Put(100)
        wait.wait([put])
        effects = wait.settle(0.0)
        if upstream:
            assert effects.done == ((put, 2),)
        else:
            assert effects.unavailable == ((put, "the furthest slave is 100 bytes behind"),)


def test_with_compat_the_deadline_is_looked_at_first() -> None:
    """T11."""
    for upstream in (False, True):
        wait = waits(Copies(2), upstream=upstream)
        wait.grew(LogExtent(0, 100, 100))
        put = Put(100)
        wait.wait([put])
        held(wait, "n1", 1, 100)
        effects = wait.settle(3.0)
        assert (effects.timed_out if upstream else effects.done[0][:1]) == (put,)


# ---- whole nodes ----


async def written(nodes: Cluster) -> int:
    return await nodes.written("n0")


def of(world: Any, kind: type[Any]) -> list[Any]:
    return [seen.event for seen in world.events if isinstance(seen.event, kind)]


@pytest.mark.checklist(32)
async def test_a_node_with_4_x_says_slave_not_available_and_has_it(autojump_clock: object) -> None:
    async with open_world(1) as world:
        nodes = Cluster(world, cluster('ack_policy = "4.x"'))
        await nodes.start()
        await nodes.until_in_sync(2)
        assert (await nodes.append(b"copied")).copies >= 2
        for slave in ("n1", "n2"):
            await world.kill_node(slave)
        end = await written(nodes)

        async def alone() -> bool:
            return (await nodes.status("n0")).connections_count == 0

        await until(alone)
        began_s = trio.current_time()
        with pytest.raises(SlaveNotAvailable, match="stored, but no slave is connected") as caught:
            await nodes.append(b"alone")
        assert trio.current_time() - began_s < 1.0
        assert isinstance(caught.value, ReplicationTimeout)
        assert (caught.value.status, caught.value.first) == ("SLAVE_NOT_AVAILABLE", end)
        assert await written(nodes) > end
        [reported] = of(world, events.SlaveNotAvailable)
        assert (reported.first_bytes, reported.appends) == (end, 1)
        await nodes.start("n1", "n2")
        await nodes.assert_logs_equal()


@pytest.mark.checklist(33)
async def test_a_node_with_5_x_refuses_before_a_byte_is_written(autojump_clock: object) -> None:
    keys = (
        'ack_policy = "5.x"',
        "in_sync_replicas = 2",
        "enable_slave_acting_master = true",
    )
    async with open_world(1) as world:
        nodes = Cluster(world, cluster(*keys))
        await nodes.start()
        await nodes.until_in_sync(2)
        assert (await nodes.append(b"copied")).copies >= 2
        end = await nodes.until_equal()
        for slave in ("n1", "n2"):
            await world.kill_node(slave)

        async def alone() -> bool:
            return (await nodes.status("n0")).connections_count == 0

        await until(alone)
        with pytest.raises(NotEnoughReplicas, match="nodes in sync: 1, required: 2") as caught:
            await nodes.append(b"alone")
        assert caught.value.status == "IN_SYNC_REPLICAS_NOT_ENOUGH"
        assert await written(nodes) == end
        await nodes.start("n1")
        await nodes.until_in_sync(1)
        assert (await nodes.append(b"again")).copies == 2


@pytest.mark.checklist(33)
async def test_a_node_with_5_x_waits_for_nobody_by_default(autojump_clock: object) -> None:
    """T13."""
    async with open_world(1) as world:
        nodes = Cluster(world, cluster('ack_policy = "5.x"'))
        await nodes.start()
        for slave in ("n1", "n2"):
            await world.kill_node(slave)
        assert (await nodes.append(b"alone")).copies == 1


@pytest.mark.checklist(36)
@pytest.mark.parametrize(
    ("keys", "slaves_up", "kind", "status"),
    [
        (("copies = 1",), True, SyncTimeout, "FLUSH_DISK_TIMEOUT"),
        (("copies = 2", 'compat = "upstream"'), True, SyncTimeout, "FLUSH_DISK_TIMEOUT"),
        (("copies = 2", 'compat = "upstream"'), False, ReplicationTimeout, "FLUSH_SLAVE_TIMEOUT"),
        (("copies = 2",), False, ReplicationTimeout, "FLUSH_SLAVE_TIMEOUT"),
    ],
)
async def test_what_was_late_gives_the_status_replication_first(
    autojump_clock: object,
    keys: tuple[str, ...],
    slaves_up: bool,
    kind: type[ReplicationTimeout],
    status: str,
) -> None:
    async with open_world(1) as world:
        nodes = Cluster(world, cluster(*keys))
        await nodes.start()
        await nodes.until_in_sync(2)
        if not slaves_up:
            for slave in ("n1", "n2"):
                await world.kill_node(slave)
        world.node("n0").disk.faults.slow_syncs(60.0, 5.0)
        with pytest.raises(ReplicationTimeout) as caught:
            await nodes.append(b"late", timeout_s=2.0)
        assert (type(caught.value), caught.value.status) == (kind, status)
