"""A member that hangs, its connections standing, is left by clients. Real nodes, virtual time."""

from __future__ import annotations

import pytest
import trio
from test_service_group_backend import (
    HOME,
    MEMBERS,
    cluster_config,
    members,
    opened,
    slow_disks,
    three_nodes,
)
from test_service_ledger import GROUP, bodies

from actors.client.bench import measure
from actors.client.requests import SILENT_S
from actors.client.silence import LEADER_SILENT_S
from actors.errors import NodeStopped, TriologError
from actors.sim.cluster import SimCluster

__all__ = ["cluster_config", "three_nodes"]

pytest_plugins = ["actors.sim.plugin"]


async def test_a_leader_that_hangs_is_left_for_the_next(cluster: SimCluster) -> None:
    """Its process is stopped and its connections stand: others say that it leads no more."""
    notes: list[str] = []
    async with opened(cluster) as (backend, log):
        backend.leading.members.note = notes.append
        await log.append([b"one"])
        old = cluster.master_of(GROUP)
        cluster.pause(old)
        begun_s = trio.current_time()
        with pytest.raises(NodeStopped, match=f"{old} was silent for 1 s, and n[012] leads by"):
            await log.append([b"two"])
        # an election took 6 to 8 s of it
        assert LEADER_SILENT_S <= trio.current_time() - begun_s < 12.0
        await log.append([b"three"])
        assert trio.current_time() - begun_s < 13.0
        assert cluster.master_of(GROUP) != old
        cluster.resume(old)
        await cluster.converged(GROUP)
        await log.append([b"four"])
        await cluster.converged(GROUP)
        found = await bodies(log)
    assert [record for record in found if record != b"two"] == [b"one", b"three", b"four"]
    assert found.count(b"two") <= 1
    assert sum("looks for the next leader" in note for note in notes) == 1


async def test_a_leader_that_only_this_client_misses_is_not_left(cluster: SimCluster) -> None:
    """The others follow it still: what it owes may come yet."""
    async with opened(cluster) as (backend, log):
        backend.leading.members.note = pytest.fail
        await log.append([b"one"])
        old = cluster.master_of(GROUP)
        client = await backend.leading.client()
        cluster.cut(HOME, old)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.append, [b"two"])
            await trio.sleep(5 * SILENT_S)
            assert client.unanswered_count == 1
            cluster.heal(HOME, old)
        assert await backend.leading.client() is client
        await cluster.converged(GROUP)
        assert await bodies(log) == [b"one", b"two"]


async def test_a_reader_leaves_a_member_that_hangs(cluster: SimCluster) -> None:
    sent = [b"%d" % number for number in range(100)]
    found: list[bytes] = []
    async with opened(cluster) as (backend, log), trio.open_nursery() as nursery:

        async def follow() -> None:
            async with log.reader(follow=True) as batches:
                async for batch in batches:
                    found.extend(record.body for record in batch.records)

        await log.append(sent[:1])
        leader = cluster.master_of(GROUP)
        follower = next(name for name in MEMBERS if name != leader)
        backend.reading.members._order.sort(key=lambda name: name != follower)
        nursery.start_soon(follow)
        await trio.sleep(1)
        assert backend.reading.node == follower
        cluster.pause(follower)
        for record in sent[1:]:
            await log.append([record])
        await trio.sleep(SILENT_S + 2)
        assert found == sent
        assert backend.reading.node != follower
        nursery.cancel_scope.cancel()


async def test_a_master_that_hangs_is_left_for_who_is_promoted(cluster: SimCluster) -> None:
    async with opened(cluster, "orders") as (_, log):
        await log.append([b"one"])
        await cluster.converged("orders")
        cluster.pause("n0")
        failures: list[TriologError] = []

        async def append() -> None:
            try:
                await log.append([b"two"])
            except TriologError as error:
                failures.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            await trio.sleep(20)
            assert failures == []  # nobody else is master
            await cluster.node("n1").promote("orders", None, True)
            promoted_s = trio.current_time()
        assert trio.current_time() - promoted_s < 2.0
        assert [type(failure) for failure in failures] == [NodeStopped]
        await log.append([b"three"])
        assert await bodies(log) == [b"one", b"three"]


async def test_bench_leaves_a_leader_that_hangs(cluster: SimCluster) -> None:
    slow_disks(cluster)
    of = members(cluster)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def pause() -> None:
            await trio.sleep(1)
            cluster.pause(cluster.master_of(GROUP))

        found = await measure(
            of.leader, GROUP, window=2, size_bytes=10, batch_count=1, seconds=11, members=of
        )
    assert not found.ended_early
    assert found.outcome_unknown >= 1
    assert 10.9 < found.seconds < 11.1
