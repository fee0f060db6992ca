"""A group that waits for room while its node runs: it is said wherever somebody asks for it."""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import Any

import pytest
import trio
from node_roles_kit import GROUP, becomes

from actors.api.failures import RequestRefused
from actors.errors import Closed, LogFull
from actors.group_status import group_statuses
from actors.sim.cluster import SimCluster

pytest_plugins = ["actors.sim.plugin"]
LONG_S = 3600.0
LOOKED_S = 11.0
"""The disk has been looked at."""


async def promoted(cluster: SimCluster, name: str, *, force: bool = False) -> dict[str, object]:
    return await cluster.node("n2").promote(GROUP, name, force)


async def ready(cluster: SimCluster) -> None:
    await cluster.log(GROUP).append([b"one"])
    await cluster.converged(GROUP)
    await trio.sleep(3)


@pytest.mark.parametrize("name", ["n1", "n2"])
async def test_a_promotion_needs_no_room(cluster: SimCluster, name: str) -> None:
    """Neither of the one that is to be master, nor of a slave that only follows another one."""
    await ready(cluster)
    cluster.world.node("n1").disk.faults.fill(LONG_S)
    with trio.fail_after(20):
        await promoted(cluster, name, force=name == "n1")
        await becomes(cluster, "n1", "open" if name == "n1" else "following")
        assert (await cluster.node("n1").log(GROUP).read(0)).records


@pytest.mark.parametrize("by", ["all", "files"])
async def test_a_node_that_will_find_no_room_is_promoted_by_force_only(
    cluster: SimCluster, by: str
) -> None:
    """Nothing has failed there yet, and nobody has looked since the disk was filled."""
    await ready(cluster)
    faults = cluster.world.node("n1").disk.faults
    (faults.fill if by == "all" else faults.use_up_inodes)(LONG_S)
    why = "the disk is 100% full, 0 bytes free, " if by == "all" else "the disk has no inode left"
    with pytest.raises(RequestRefused) as refused:
        await promoted(cluster, "n1")
    assert str(refused.value).startswith(f"n1 would take no appends: no room: {why}")
    await cluster.log(GROUP).append([b"two"])
    faults.clear()
    await promoted(cluster, "n1")
    await becomes(cluster, "n1", "open")


async def test_a_master_without_room_says_so_to_whoever_looks(cluster: SimCluster) -> None:
    await ready(cluster)
    cluster.world.node("n0").disk.faults.fill(LONG_S)
    await trio.sleep(LOOKED_S)
    with pytest.raises(LogFull):
        await cluster.log(GROUP).append([b"x" * 20_000])
    said = await cluster.node("n0").status()
    assert said["groups"][GROUP]["reason"].startswith("no room: ")


async def says_no_room(cluster: SimCluster, name: str) -> bool:
    own = group_statuses(await cluster.node(name).status())[GROUP]
    words = (own.reason, *own.troubles, *own.findings.values())
    ended = "" if own.link is None or own.link.is_up else own.link.error
    return any("no room" in each for each in (*words, ended))


@pytest.mark.parametrize("name", ["n0", "n1"])
@pytest.mark.parametrize("by", ["all", "files"])
async def test_room_that_was_made_is_known_at_once(cluster: SimCluster, name: str, by: str) -> None:
    """Of a master and of a slave; whether the disk was too full or took no file more."""
    await ready(cluster)
    faults = cluster.world.node(name).disk.faults
    (faults.fill if by == "all" else faults.use_up_inodes)(LONG_S)
    await trio.sleep(LOOKED_S)
    with suppress(LogFull):
        for _ in range(100):
            await cluster.log(GROUP).append([b"x" * 3000])
    await trio.sleep(LOOKED_S + LOOKED_S / 2)  # long after the last try, before the next round
    assert await says_no_room(cluster, name)
    faults.clear()
    await trio.sleep(1.1)
    assert not await says_no_room(cluster, name)
    await cluster.log(GROUP).append([b"two"])
    await cluster.converged(GROUP)


@pytest.mark.parametrize(
    ("operation", "part"), [("rename", "abort.spare"), ("write", "dispatched")]
)
async def test_what_opens_and_waits_for_room_says_so(
    cluster: SimCluster, operation: Any, part: str
) -> None:
    """The store, and what derives from it: on a file system on which each change needs room."""
    await ready(cluster)
    faults = cluster.world.node("n1").disk.faults
    faults.fail(operation, errno.ENOSPC, path_part=f"{GROUP}/{part}", times=10_000)
    node, words = cluster.node("n1"), "no room: "
    with trio.fail_after(200), pytest.raises(RequestRefused, match=words) as refused:
        await promoted(cluster, "n1")
    assert "n1 is master of orders by promotion 1" in str(refused.value)
    with trio.fail_after(1.0):
        status = (await node.status())["groups"][GROUP]
    assert words in status["reason"]
    with pytest.raises(Closed, match=words):
        await node.log(GROUP).read(0)
    with pytest.raises(Closed, match=words):
        await node.group_state(GROUP)
    faults.clear()
    await trio.sleep(5)
    status = (await node.status())["groups"][GROUP]
    assert (status["state"], status["reason"]) == ("open", "")
    await cluster.log(GROUP).append([b"two"])
    await cluster.converged(GROUP)
