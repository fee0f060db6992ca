"""What tests share in which whole simulated nodes change roles."""

from __future__ import annotations

from typing import Any

import attrs
import trio

from actors.log_types import Claim, GroupState
from actors.sim.cluster import SimCluster, classic_config
from actors.sim.world import World

GROUP = "orders"
CLAIM = Claim(number=1, token=7, by="n2", master="n1")


def cluster_in(world: World, **settings: Any) -> SimCluster:
    return SimCluster(world, classic_config(**settings))


async def started(world: World, **settings: Any) -> SimCluster:
    """Three nodes that all hold one record, b"one"."""
    cluster = cluster_in(world, **settings)
    await cluster.start()
    await cluster.log(GROUP).append([b"one"])
    await cluster.converged(GROUP)
    return cluster


async def state(cluster: SimCluster, name: str) -> GroupState:
    return await cluster.node(name).group_state(GROUP)


async def becomes(
    cluster: SimCluster, name: str, wanted: str, within_s: float = 60.0
) -> GroupState:
    """Wait until the node's part in the group is in that state."""
    found = await state(cluster, name)
    with trio.move_on_after(within_s):
        while found.state != wanted:
            found = await cluster.node(name).wait_group_state(GROUP, found)
        return found
    raise AssertionError(f"{name} is no {wanted} after {within_s} s: {found}")


async def promote(cluster: SimCluster, number: int, name: str, *others: str) -> None:
    """What an operator's command does in the end: the chosen one confirms the claim, and hears of
    the promotion first.
    """
    claim = attrs.evolve(CLAIM, number=number, master=name)
    await cluster.node(name).fence(GROUP, claim, True)
    await cluster.node(name).fence(GROUP, attrs.evolve(claim, kept=True), True)
    for each in (name, *others):
        await cluster.node(each).record(GROUP, number, name, claim.token, False)


async def lose_disk(cluster: SimCluster, name: str) -> None:
    """The node is killed and put back without anything that it had."""
    await cluster.kill(name)
    disk, path = cluster.world.node(name).disk, cluster.config.node_dir(name)
    disk.rmtree(path)
    with disk.faults.spared():
        disk.sync_dir(path.rpartition("/")[0])


def emitted(world: World, kind: type[Any]) -> list[Any]:
    return [seen.event for seen in world.events if isinstance(seen.event, kind)]
