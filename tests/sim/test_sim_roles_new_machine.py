"""A slave is replaced by a machine that remembers nothing: it follows while appends go on."""

from __future__ import annotations

import pytest
import trio
from node_roles_kit import GROUP, becomes, lose_disk, promote, started

from actors.control.member_link import REFRESH_S
from actors.sim.cluster import SimCluster
from actors.sim.world import open_world

FOLLOWS_S = 2 * REFRESH_S
"""A question may be lost with its connection; the next one is not."""


@pytest.mark.parametrize("when", ["before", "meanwhile", "after"])
@pytest.mark.parametrize("seed", range(3))
async def test_a_new_machine_follows_while_appends_flow(
    autojump_clock: object, seed: int, when: str
) -> None:
    """What members said of a promotion before it listened they say again."""
    async with open_world(seed) as world:
        cluster = await started(world)
        if when == "before":
            await promote(cluster, 1, "n1", "n0", "n2")
            await becomes(cluster, "n1", "open")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_appending, cluster)
            await lose_disk(cluster, "n2")
            if when == "meanwhile":
                await promote(cluster, 1, "n1", "n0")
            await cluster.start("n2")
            if when == "after":
                await promote(cluster, 1, "n1", "n0", "n2")
            found = await becomes(cluster, "n2", "following", FOLLOWS_S)
            assert (found.number, found.master) == (1, "n1")
            nursery.cancel_scope.cancel()
        await cluster.converged(GROUP)


async def keep_appending(cluster: SimCluster) -> None:
    """So that the master's connections are never quiet."""
    while True:
        await trio.sleep(0.2)
        with trio.move_on_after(1.0):
            for name in ("n0", "n1"):
                if cluster.node(name).is_open(GROUP):
                    await cluster.log(GROUP, name).append([b"on"])
