"""A classic cluster of real nodes in a world: what tests and workloads may do with it."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors.errors import Closed, NodeStopped, NotMaster, UnknownName
from actors.log_types import Offsets
from actors.sim.classic.log_bytes import DiskLogBytes
from actors.sim.cluster import SimCluster, classic_config
from actors.sim.machines import NotConverged
from actors.sim.scheduler import Starve
from actors.sim.world import EndedWhileStarting, World, open_world


def cluster_in(world: World, **settings: Any) -> SimCluster:
    return SimCluster(world, classic_config(**settings))


async def test_the_same_log_from_every_node(autojump_clock: object) -> None:
    async with open_world(1) as world:
        cluster = cluster_in(world)
        await cluster.start()
        receipt = await cluster.log("orders").append([b"one", b"two"])
        assert (receipt.count, receipt.copies, receipt.durability) == (2, 2, "synced")
        end = await cluster.converged("orders")
        assert end.written == end.acknowledged == receipt.next
        for name in cluster.names:
            batch = await cluster.log("orders", name).read(0)
            assert [record.body for record in batch.records] == [b"one", b"two"]
        with pytest.raises(NotMaster):
            await cluster.log("orders", "n1").append([b"three"])
        await cluster.stop()
        assert not any(cluster.runs(name) for name in cluster.names)
        with pytest.raises(Closed):
            await cluster.log("orders").append([b"three"])


async def test_names_that_are_none_say_which_there_are(autojump_clock: object) -> None:
    async with open_world(1) as world:
        cluster = cluster_in(world)
        for ask in (cluster.log, cluster.master_of):
            with pytest.raises(UnknownName, match=r"^sim: no group 'nosuch'; it has orders$"):
                ask("nosuch")
        with pytest.raises(UnknownName):
            await cluster.converged("nosuch")
        with pytest.raises(UnknownName, match=r"^orders: no member 'n9'; it has n0, n1, n2$"):
            cluster.log("orders", "n9")
        for act in (cluster.node, cluster.cut, lambda name: cluster.heal("n0", name)):
            with pytest.raises(UnknownName, match=r"^sim: no node 'n9'; it has n0, n1, n2$"):
                act("n9")
        for wait in (cluster.start, cluster.stop, cluster.kill, cluster.power_loss):
            with pytest.raises(UnknownName, match=r"no node 'n9'; it has n0, n1, n2$") as caught:
                await wait("n9")
            assert (caught.value.name, caught.value.known) == ("n9", ("n0", "n1", "n2"))


async def test_a_log_outlives_kills_and_power_losses(autojump_clock: object) -> None:
    async with open_world(2) as world:
        cluster = cluster_in(world)
        await cluster.start()
        log = cluster.log("orders")
        bodies = [b"before", b"killed", b"power"]
        await log.append([bodies[0]])
        await cluster.kill("n0")
        await cluster.restart("n0")
        await cluster.converged("orders")
        await log.append([bodies[1]])
        await cluster.power_loss("n0")
        await cluster.power_loss("n1")
        await cluster.start()
        await cluster.converged("orders")
        await log.append([bodies[2]])
        await cluster.restart("n1")
        await cluster.converged("orders")
        batch = await cluster.log("orders", "n1").read(0)
        assert [record.body for record in batch.records] == bodies


async def test_an_answer_of_a_killed_node_is_not_heard(autojump_clock: object) -> None:
    """However far the append was, who asked learns that the node died."""
    async with open_world(3) as world:
        cluster = cluster_in(world)
        await cluster.start()
        outcomes: list[Exception] = []

        async def append() -> None:
            try:
                await cluster.log("orders").append([b"x"])
            except NodeStopped as error:
                outcomes.append(error)

        async def pipelined() -> None:
            try:
                async with cluster.log("orders").appender() as out:
                    await out.send(b"y")
            except NodeStopped as error:
                outcomes.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            nursery.start_soon(pipelined)
            await trio.sleep(0.0005)
            await cluster.kill("n0")
        assert len(outcomes) == 2


async def test_cut_heal_and_converge(autojump_clock: object) -> None:
    async with open_world(4) as world:
        cluster = cluster_in(world, copies=2)
        await cluster.start()
        cluster.cut("n2")
        await cluster.log("orders").append([b"x"])
        with pytest.raises(NotConverged, match="n2: written 0"):
            await cluster.converged("orders", within_s=10.0)
        cluster.heal("n2")
        end = await cluster.converged("orders")
        assert await cluster.offsets("n2", "orders") == end


async def test_a_node_killed_while_it_starts(autojump_clock: object) -> None:
    async with open_world(5) as world:
        cluster = cluster_in(world)
        ended = []

        async def start() -> None:
            try:
                await cluster.start("n1")
            except EndedWhileStarting as error:
                ended.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(start)
            for _ in range(5):
                await trio.lowlevel.checkpoint()
            await cluster.kill("n1")
        assert len(ended) == 1
        await cluster.start()
        await cluster.log("orders").append([b"x"])


async def test_tells_of_a_node_yield_as_the_world_says(autojump_clock: object) -> None:
    """The same appends take more passes of the scheduler, and end alike."""
    steps = []
    for share in (0.0, 1.0):
        async with open_world(9, tell_yields=share) as world:
            cluster = cluster_in(world)
            await cluster.start()
            before = world.fingerprint.steps
            for _ in range(20):
                await cluster.log("orders").append([b"x"])
            await cluster.converged("orders")
            steps.append(world.fingerprint.steps - before)
            await cluster.stop()
    assert steps[1] > 1.2 * steps[0]


async def test_a_stop_sends_what_the_store_had_not_written_yet(autojump_clock: object) -> None:
    """Who gave the append up is gone; the store, slow to run, still has it in its mailbox."""
    async with open_world(11, policy=Starve("/store", passes_max=500)) as world:
        cluster = cluster_in(world)
        await cluster.start()
        await cluster.log("orders").append([b"first"])
        await cluster.converged("orders")
        world.node("n0").disk.faults.slow_syncs(0.5, 2.0)
        with trio.move_on_after(0):
            await cluster.log("orders").append([b"late"])
        await cluster.stop("n0")  # by cancelling who holds it
        logs = DiskLogBytes(cluster, cluster.config.groups["orders"])
        await trio.sleep(1)
        held = [logs.written(name, 0, 1 << 16) for name in cluster.names]
        assert b"late" in held[0]
        assert held[1] == held[2] == held[0]
        await cluster.stop()


async def test_a_group_that_is_started_again_is_waited_for(autojump_clock: object) -> None:
    """A promotion restarts the groups of the nodes that change their roles."""
    async with open_world(12) as world:
        cluster = cluster_in(world)
        await cluster.start()
        await cluster.log("orders").append([b"x"])
        await cluster.converged("orders")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.node("n1").promote, "orders", "n1", False)
            for _ in range(3000):
                await trio.sleep(0.0002)
                await cluster.converged("orders")
        assert cluster.master_of("orders") == "n1"
        await cluster.stop()


async def test_who_dies_while_it_is_asked_is_asked_again(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_world(1) as world:
        cluster = cluster_in(world)
        await cluster.start()
        real, errors = cluster.offsets, [NodeStopped("n1 died before it answered")]

        async def offsets(name: str, group: str) -> Offsets:
            if name == "n1" and errors:
                raise errors.pop()
            return await real(name, group)

        monkeypatch.setattr(cluster, "offsets", offsets)
        await cluster.converged("orders")
        assert errors == []
