"""A node whose log went its own way: it stays away until its tail is set aside."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator
from typing import Any

import pytest
import trio
from node_roles_kit import GROUP, becomes, cluster_in, promote, started, state

from actors.api.failures import RequestRefused
from actors.errors import Closed, NodeStopped, OutcomeUnknown
from actors.log_types import GroupRecord
from actors.node.classic_groups import ClassicGroups
from actors.sim.cluster import SimCluster
from actors.sim.world import World, open_world
from actors.storage.commitlog.set_aside import set_aside
from actors.storage.node.identity import identity_path


async def test_an_old_master_with_a_tail_of_its_own_is_refused_whatever_its_length(
    autojump_clock: object,
) -> None:
    async with open_world(2) as world:
        cluster = await started(world, slave_timeout_s=0.5)
        shared = (await cluster.converged(GROUP)).written
        cluster.cut("n0")
        with pytest.raises(OutcomeUnknown):
            await cluster.log(GROUP).append([b"a tail that nobody else holds"])
        await promote(cluster, 1, "n1", "n2")
        await becomes(cluster, "n1", "open")
        await cluster.log(GROUP, "n1").append([b"x"])
        cluster.heal()
        refused = await becomes(cluster, "n0", "diverged")
        assert f"equal up to {shared} only" in refused.reason
        for _ in range(50):
            await cluster.log(GROUP, "n1").append([b"the new master outgrows the tail"])
        await trio.sleep(120.0)
        assert (await state(cluster, "n0")).state == "diverged"
        batch = await cluster.log(GROUP, "n0").read(0)
        assert batch.records == (), "nobody knows what of it is still true"


async def diverged(world: World, tail: int = 1) -> SimCluster:
    """n1 is master; n0 holds `tail` records of 20 KB that nobody else has."""
    cluster = await started(world, slave_timeout_s=0.5)
    cluster.cut("n0")
    for _ in range(tail):
        with pytest.raises(OutcomeUnknown):
            await cluster.log(GROUP).append([b"t" * 20_000])
    await promote(cluster, 1, "n1", "n2")
    await becomes(cluster, "n1", "open")
    await cluster.log(GROUP, "n1").append([b"two"])
    cluster.heal()
    await becomes(cluster, "n0", "diverged")
    return cluster


@pytest.mark.parametrize("tail", [1, 9])  # within a file, and over several
async def test_resync_sets_the_tail_aside_and_follows(tail: int, autojump_clock: object) -> None:
    async with open_world(10) as world:
        cluster = await diverged(world, tail)
        before = await state(cluster, "n0")
        shared = (await state(cluster, "n1")).history[-1].start_bytes
        result = await cluster.node("n0").resync(GROUP)
        assert result == {
            "group": GROUP,
            "node": "n0",
            "master": "n1",
            "end_bytes": before.written,
            "cut_bytes": shared,
        }
        await becomes(cluster, "n0", "following")
        await trio.sleep(2.0)
        batch = await cluster.log(GROUP, "n0").read(0)
        assert [record.body for record in batch.records] == [b"one", b"two"]
        assert (await cluster.node("n0").resync(GROUP))["cut_bytes"] is None
        disk, root = world.node("n0").disk, cluster.config.group_dir("n0", GROUP)
        (folder,) = disk.listdir(f"{root}/aside")
        kept = b""
        for name in disk.listdir(f"{root}/aside/{folder}"):
            file = disk.open(f"{root}/aside/{folder}/{name}", "r")
            kept += file.pread(0, file.size_bytes)
            file.close()
        assert kept.count(b"t" * 20_000) == tail
        await cluster.kill("n0")
        await cluster.start("n0")
        await becomes(cluster, "n0", "following")
        record = _record(cluster)
        assert record.cut_bytes is None


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 16, 64])
async def test_a_power_loss_in_a_resync_is_made_up_for(
    steps: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    """So many rounds of the scheduler after the store began to set the tail aside."""
    begun = trio.Event()

    def watched(*arguments: Any) -> Generator[None, None, None]:
        if arguments[-1] is not None:
            begun.set()
        yield  # the node may die before the first step
        yield from set_aside(*arguments)

    monkeypatch.setattr("actors.storage.commitlog.opening.set_aside", watched)
    async with open_world(20 + steps) as world:
        cluster = await diverged(world, 5)
        async with trio.open_nursery() as nursery:

            async def resync() -> None:
                with contextlib.suppress(Closed, NodeStopped):
                    await cluster.node("n0").resync(GROUP)

            nursery.start_soon(resync)
            await begun.wait()
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            to_be_cut = _record(cluster).cut_bytes is not None
            assert to_be_cut or steps > 2, "the power goes before it is done"
            await cluster.power_loss("n0")
            nursery.cancel_scope.cancel()
        await cluster.start("n0")
        await becomes(cluster, "n0", "following")
        await cluster.log(GROUP, "n1").append([b"three"])
        await trio.sleep(2.0)
        batch = await cluster.log(GROUP, "n0").read(0)
        assert [record.body for record in batch.records] == [b"one", b"two", b"three"]


async def test_a_log_that_shares_nothing_is_set_aside_as_a_whole(autojump_clock: object) -> None:
    async with open_world(30) as world:
        cluster = await started(world)
        await cluster.stop("n2")
        path = identity_path(cluster.config.node_dir("n2"))
        disk = world.node("n2").disk
        file = disk.open(path, "r")
        identity = json.loads(file.pread(0, file.size_bytes))
        file.close()
        identity["records"][GROUP]["history"][0]["token"] += 1
        disk.unlink(path)
        file = disk.open(path, "x")
        file.pwrite(json.dumps(identity).encode(), 0)
        file.close()
        await cluster.start("n2")
        refused = await becomes(cluster, "n2", "diverged")
        assert "up to 0 only" in refused.reason
        assert (await cluster.node("n2").resync(GROUP))["cut_bytes"] == 0
        await becomes(cluster, "n2", "following")
        await trio.sleep(2.0)
        batch = await cluster.log(GROUP, "n2").read(0)
        assert [record.body for record in batch.records] == [b"one"]
        folder = f"{cluster.config.group_dir('n2', GROUP)}/aside/{0:020d}.1"
        assert "commitlog" in disk.listdir(folder)


async def test_a_resync_that_makes_no_sense_is_refused(autojump_clock: object) -> None:
    async with open_world(31) as world:
        cluster = cluster_in(world)
        await cluster.start()
        with pytest.raises(RequestRefused, match="n0 is the master"):
            await cluster.node("n0").resync(GROUP)
        await promote(cluster, 1, "n2", "n1")
        cluster.cut("n1")
        with pytest.raises(RequestRefused, match="n2 does not answer"):
            await cluster.node("n1").resync(GROUP)


def _record(cluster: SimCluster) -> GroupRecord:
    """What n0 remembers of the group."""
    groups = cluster.node("n0").groups["classic"]
    assert isinstance(groups, ClassicGroups)
    return groups.roles[GROUP].record()
