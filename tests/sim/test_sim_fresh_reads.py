"""Whole nodes: a fresh read misses nothing that was acknowledged before, or is refused."""

from __future__ import annotations

import pytest
import trio
from node_roles_kit import GROUP, becomes, cluster_in, promote, started

from actors.api.failures import RequestRefused
from actors.node.classic import ClassicPart
from actors.sim.actions.process import Crash
from actors.sim.cluster import SimCluster
from actors.sim.world import open_world


async def bodies(cluster: SimCluster, name: str) -> list[bytes]:
    batch = await cluster.log(GROUP, name).read(0, fresh=True)
    return [record.body for record in batch.records]


async def test_every_member_reads_fresh_while_all_is_well(autojump_clock: object) -> None:
    async with open_world(1) as world:
        cluster = await started(world)
        for name in cluster.names:
            assert await bodies(cluster, name) == [b"one"]


async def test_a_master_that_was_cut_off_while_another_was_promoted_is_not_fresh(
    autojump_clock: object,
) -> None:
    async with open_world(2) as world:
        cluster = await started(world)
        cluster.cut("n0")
        await promote(cluster, 1, "n1", "n2")
        await becomes(cluster, "n1", "open")
        await cluster.log(GROUP, "n1").append([b"two"])
        stale = await cluster.log(GROUP, "n0").read(0)
        assert [record.body for record in stale.records] == [b"one"]
        with pytest.raises(RequestRefused, match="n0 may have been replaced as its master"):
            await bodies(cluster, "n0")
        assert await bodies(cluster, "n1") == [b"one", b"two"]
        assert await bodies(cluster, "n2") == [b"one", b"two"]
        cluster.heal()
        await becomes(cluster, "n0", "following")
        assert await bodies(cluster, "n0") == [b"one", b"two"]


async def test_a_master_that_stood_still_answers_with_what_its_successor_acknowledged(
    autojump_clock: object,
) -> None:
    async with open_world(3) as world:
        cluster = await started(world)
        cluster.pause("n0")
        await promote(cluster, 1, "n1", "n2")
        await becomes(cluster, "n1", "open")
        await cluster.log(GROUP, "n1").append([b"two"])
        found: list[list[bytes] | str] = []

        async def read() -> None:
            try:
                found.append(await bodies(cluster, "n0"))
            except RequestRefused as refused:
                found.append(str(refused))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.sleep(0.1)
            cluster.resume("n0")
        (answer,) = found
        assert answer == [b"one", b"two"] or "does not know what is fresh" in answer


async def test_a_master_that_is_not_open_says_so_instead_of_nothing(
    autojump_clock: object,
) -> None:
    async with open_world(4) as world:
        cluster = await started(world)
        for name in ("n1", "n2"):
            cluster.pause(name)
        await cluster.kill("n0")
        await cluster.start("n0")
        with pytest.raises(RequestRefused, match="n0 is its master and not open: has not heard"):
            await bodies(cluster, "n0")
        for name in ("n1", "n2"):
            cluster.resume(name)
        await becomes(cluster, "n0", "open")
        assert await bodies(cluster, "n0") == [b"one"]


async def test_a_fresh_read_waits_until_copies_of_what_was_there_are_back(
    autojump_clock: object,
) -> None:
    """n1 answers for n2, whose log it does not have: nothing is acknowledged here yet."""
    async with open_world(5) as world:
        cluster = await started(world, copies=3, slave_timeout_s=0.5)
        await cluster.kill("n2")
        await cluster.kill("n0")
        await cluster.start("n0")
        await becomes(cluster, "n0", "open")
        with pytest.raises(RequestRefused, match="n0 has not got within"):
            await bodies(cluster, "n0")
        with pytest.raises(RequestRefused, match="has not got the copies yet"):
            await bodies(cluster, "n1")
        await cluster.start("n2")
        await becomes(cluster, "n2", "following")
        assert await bodies(cluster, "n0") == [b"one"]


@pytest.mark.parametrize(("copies", "silent", "fresh"), [(1, 1, False), (2, 1, True), (3, 2, True)])
async def test_how_many_members_have_to_agree(
    autojump_clock: object, copies: int, silent: int, fresh: bool
) -> None:
    async with open_world(6) as world:
        cluster = await started(world, copies=copies, slave_timeout_s=0.5)
        for name in cluster.names[-silent:]:
            await cluster.kill(name)
        if fresh:
            assert await bodies(cluster, "n0") == [b"one"]
        else:
            with pytest.raises(RequestRefused, match="1 of the other members, 2 have to"):
                await bodies(cluster, "n0")


async def test_after_a_promotion_by_force_all_have_to_agree(autojump_clock: object) -> None:
    async with open_world(7) as world:
        cluster = cluster_in(world, nodes=4, copies=2, slave_timeout_s=0.5)
        await cluster.start()
        await cluster.log(GROUP).append([b"one"])
        await cluster.converged(GROUP)
        for name in ("n0", "n2", "n3"):
            await cluster.kill(name)
        await cluster.node("n1").promote(GROUP, "n1", True)
        for name in ("n2", "n3"):
            await cluster.start(name)
            await becomes(cluster, name, "following")
        with pytest.raises(RequestRefused, match="2 of the other members, 3 have to"):
            await bodies(cluster, "n1")
        await cluster.kill("n1")
        await cluster.start("n1")
        await becomes(cluster, "n1", "open")
        for name in ("n1", "n2"):
            with pytest.raises(RequestRefused, match="2 of the other members, 3 have to"):
                await bodies(cluster, name)
        await cluster.start("n0")
        await becomes(cluster, "n0", "following")
        for name in cluster.names:
            assert await bodies(cluster, name) == [b"one"]


async def test_readers_that_crash_on_the_master_do_not_make_it_forget_what_it_acknowledged(
    autojump_clock: object,
) -> None:
    async with open_world(5) as world:
        cluster = await started(world)
        await cluster.log(GROUP).append([b"two"])
        await cluster.converged(GROUP)
        for name in ("n1", "n2"):  # no slave reports anything any more, and all still answer
            await cluster.node(name).system.ref(f"/{name}/{GROUP}/ha_client").tell(Crash())
        await cluster.node("n0").system.ref(f"/n0/{GROUP}/pull_service").tell(Crash())
        for name in cluster.names:
            for _ in range(20):
                assert await bodies(cluster, name) == [b"one", b"two"]
                await trio.sleep(0.01)


@pytest.mark.parametrize("step", ["wait_acknowledged", "_read"])
async def test_a_fresh_read_that_meets_a_promotion_shows_what_the_old_master_acknowledged(
    step: str, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old master has proved that it is fresh, and is a slave by the time that it waits for the
    offset, or reads the log.
    """
    begun, promoted = trio.Event(), trio.Event()
    real = getattr(ClassicPart, step)

    async def late(*args: object, **named: object) -> object:
        begun.set()
        await promoted.wait()
        return await real(*args, **named)

    async with open_world(6) as world:
        cluster = await started(world)
        monkeypatch.setattr(ClassicPart, step, late)
        found: list[list[bytes]] = []

        async def read() -> None:
            found.append(await bodies(cluster, "n0"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await begun.wait()
            await promote(cluster, 1, "n1", "n2", "n0")
            promoted.set()
        assert found == [[b"one"]]
