"""Comparisons in simulated worlds: the machines, networks and disks of `actors.sim`, virtual time.

Seeds draw the network, the disk and the moments of the faults, alike for all contenders.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import attrs
import trio
from bench_kit import GROUP
from compare_links import METER_BYTES, Meter, WatchedNetwork
from compare_load import Load
from compare_run import CONTENDERS, Run, elects, run_on
from compare_script import Api, Hit, Stage

from actors.config import ClusterConfig
from actors.env.protocols import Env
from actors.log import Log
from actors.sim.cluster import API_PORT, SimCluster, classic_config
from actors.sim.dledger.members import ledger_config
from actors.sim.plan import draw_disk, draw_network
from actors.sim.scheduler import virtual_clock
from actors.sim.world import World, open_world

OUTSTANDING: Final = 4
PAUSE_S: Final = 0.05
"""Virtual time costs nothing, but an append does."""
DATA_FILE_BYTES: Final = 64 << 10
INDEX_FILE_BYTES: Final = 32 << 10


def sim_config(contender: str) -> ClusterConfig:
    """Three nodes with small files."""
    settings = {"durability": "synced", **CONTENDERS[contender]}
    if not elects(contender):
        return classic_config(nodes=3, group=GROUP, **settings)
    sizes = {"data_file_bytes": DATA_FILE_BYTES, "index_file_bytes": INDEX_FILE_BYTES}
    config = ledger_config(3, {GROUP: {**sizes, **settings}})
    return attrs.evolve(config, api_port=API_PORT)


class WatchedCluster(SimCluster):
    """Every node's network is watched.

    Attributes:
        meters: by node; they outlive its processes.
    """

    def __init__(self, world: World, config: ClusterConfig) -> None:
        super().__init__(world, config)
        self.meters = {name: Meter(bytearray(METER_BYTES)) for name in config.nodes}

    def main(self, name: str) -> Callable[[Env, trio.TaskStatus[Any]], Awaitable[object]]:
        inner, group = super().main(name), self.config.groups[GROUP]

        async def main(env: Env, task_status: trio.TaskStatus[Any]) -> None:
            network = WatchedNetwork(
                env.network,
                group.port,
                GROUP not in self.config.classic_groups,
                self.meters[name],
            )
            await inner(attrs.evolve(env, network=network), task_status)

        return main


@attrs.define(eq=False)
class SimStage(Stage):
    """See `Stage`."""

    cluster: WatchedCluster

    def log(self, name: str) -> Log:
        return self.cluster.log(GROUP, name)

    async def ask(self, name: str, call: Callable[[Api], Awaitable[Any]]) -> Any:
        return await call(self.cluster.node(name))

    async def kill(self, name: str) -> None:
        await self.cluster.kill(name)

    async def start(self, *names: str) -> None:
        await self.cluster.start(*names)

    async def pause(self, name: str) -> None:
        self.cluster.pause(name)
        await trio.lowlevel.checkpoint()

    async def resume(self, name: str) -> None:
        self.cluster.resume(name)
        await trio.lowlevel.checkpoint()

    async def cut(self, one: str, other: str) -> None:
        self.cluster.cut(one, other)
        await trio.lowlevel.checkpoint()

    async def heal(self, one: str, other: str) -> None:
        self.cluster.heal(one, other)
        await trio.lowlevel.checkpoint()

    def again_bytes(self) -> int:
        return sum(meter.again_bytes for meter in self.cluster.meters.values())


def simulate(
    contender: str, seed: str, faults: Callable[[Stage, Load], Awaitable[list[Hit]]]
) -> Run:
    """The whole run, on a virtual clock of its own."""
    run: Run = trio.run(partial(_simulate, contender, seed, faults), clock=virtual_clock())
    return run


async def _simulate(
    contender: str, seed: str, faults: Callable[[Stage, Load], Awaitable[list[Hit]]]
) -> Run:
    opened = open_world(
        seed,
        network=draw_network(random.Random(f"{seed}:network")),
        disk=draw_disk(random.Random(f"{seed}:disk")),
    )
    async with opened as world:
        cluster = WatchedCluster(world, sim_config(contender))
        await cluster.start()
        stage = SimStage(cluster.names, elects(contender), cluster)
        run = await run_on(stage, Load(stage.names, stage.log, OUTSTANDING, PAUSE_S), faults)
        await cluster.stop()
        return run
