"""Three simulated nodes whose files are full of records, to damage them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from actors.node.classic import ClassicPart
from actors.sim.classic.atlas import FaultAtlas
from actors.sim.classic.log_bytes import DiskLogBytes
from actors.sim.cluster import SimCluster, classic_config
from actors.sim.network import NetworkOptions
from actors.sim.world import World, open_world
from actors.storage.layout import StoreLayout
from actors.storage.scrub.scrubber import ROUND_FIRST_S, ROUND_PAUSE_S, SYNC_S

GROUP = "orders"
SEGMENT = 16 << 10
SCRUBBED_S = ROUND_FIRST_S + ROUND_PAUSE_S + 5.0


@attrs.frozen
class Filled:
    """Three nodes with four full files of records, all digested."""

    world: World
    cluster: SimCluster
    atlas: FaultAtlas

    def events(self, node: str, kind: type) -> list[Any]:
        return [e.event for e in self.world.events if e.node == node and isinstance(e.event, kind)]

    def layout(self, node: str) -> StoreLayout:
        return StoreLayout(self.cluster.config.group_dir(node, GROUP))

    def flip(self, node: str, place: int) -> None:
        """Change one bit of the log on that node's disk."""
        path = f"{self.layout(node).commit_log}/{place - place % SEGMENT:020d}"
        self.cluster.world.node(node).disk.inode(path).flip_bit(place % SEGMENT, 3)

    async def empty(self, node: str) -> None:
        await self.cluster.kill(node)
        self.world.node(node).disk.rmtree(self.layout(node).root)
        await self.cluster.start(node)

    async def written(self, node: str) -> int:
        return (await self.cluster.offsets(node, GROUP)).written

    def view(self, node: str) -> Any:
        running = self.cluster.running(node)
        assert running is not None
        part = running.part(GROUP)
        assert isinstance(part, ClassicPart)
        return part.role_status.view


@asynccontextmanager
async def filled(
    seed: int = 1, *, network: NetworkOptions | None = None, **settings: Any
) -> AsyncIterator[Filled]:
    async with open_world(seed, network=network or NetworkOptions()) as world:
        cluster = SimCluster(world, classic_config(**{"segment_bytes": SEGMENT} | settings))
        await cluster.start()
        for number in range(90):
            await cluster.log(GROUP).append([b"%d;" % number + b"x" * 700])
        await cluster.converged(GROUP)
        await trio.sleep(SYNC_S + 1)
        group = cluster.config.classic_groups[GROUP]
        atlas = FaultAtlas(cluster=cluster, group=group, logs=DiskLogBytes(cluster, group))
        yield Filled(world, cluster, atlas)
        await cluster.stop()


HEAD, BODY = 20, 200
"""Into a record: its queue offset, which no CRC covers, and its body."""
