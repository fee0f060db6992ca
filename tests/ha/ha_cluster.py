"""Whole nodes with real stores in a simulated world: one master, two slaves, the group `orders`."""

from __future__ import annotations

from functools import partial

import trio
from ha_kit import until

from actors.config import ClusterConfig
from actors.env import Env
from actors.ha import connection_state
from actors.log_types import Offsets
from actors.runtime import Registry, SupervisorSpec, System, open_system
from actors.sim.world import World
from actors.storage.commitlog import pull_service, store_messages
from actors.storage.log.commit_log import segment_bases, segment_path
from actors.trees.classic import classic_trees
from actors.trees.group_setup import GroupPaths, GroupSetup
from actors.trees.node import node_tree

NODES = {"n0": "127.0.0.1", "n1": "127.0.0.2", "n2": "127.0.0.3"}


def setups(config: ClusterConfig, name: str, env: Env, registry: Registry) -> list[GroupSetup]:
    """Of a node's classic groups, of which the cluster file alone says who is master."""
    return [
        GroupSetup.of(config, name, group, env, registry)
        for group in config.classic_groups.values()
        if name in group.members
    ]


async def run_node(
    config: ClusterConfig, name: str, env: Env, task_status: trio.TaskStatus[System]
) -> None:
    def build(registry: Registry) -> SupervisorSpec:
        return node_tree([classic_trees(setups(config, name, env, registry))])

    async with open_system(name, build, rng=env.rng, events=env.events) as system:
        task_status.started(system)
        await system.wait_ended()


class Cluster:
    """Three machines, and what a test does with them."""

    def __init__(self, world: World, config: ClusterConfig) -> None:
        self.world = world
        self.config = config
        self.systems: dict[str, System] = {}
        for name, address in NODES.items():
            world.add_node(name, address)

    async def start(self, *names: str) -> None:
        for name in names or tuple(NODES):
            self.systems[name] = await self.world.start_node(
                name, partial(run_node, self.config, name)
            )

    def paths(self, name: str) -> GroupPaths:
        return GroupPaths(f"/{name}/orders")

    async def append(
        self, *bodies: bytes, timeout_s: float = 3.0, master: str = "n0"
    ) -> store_messages.Appended:
        ref = self.systems[master].ref(self.paths(master).store)
        answer: store_messages.Appended = await ref.ask(
            store_messages.Appended,
            lambda reply_to: store_messages.Append(
                records=bodies, deadline_s=trio.current_time() + timeout_s, reply_to=reply_to
            ),
            timeout_s=timeout_s + 5.0,
        )
        return answer

    async def status(self, name: str) -> connection_state.HaStatus:
        answer: connection_state.HaStatus = (
            await self.systems[name]
            .ref(self.paths(name).connection_state)
            .ask(
                connection_state.HaStatus,
                lambda reply_to: connection_state.GetStatus(reply_to=reply_to),
                timeout_s=5.0,
            )
        )
        return answer

    async def written(self, name: str) -> int:
        answer: store_messages.LogRange = (
            await self.systems[name]
            .ref(self.paths(name).store)
            .ask(
                store_messages.LogRange,
                lambda reply_to: store_messages.GetRange(reply_to=reply_to),
                timeout_s=5.0,
            )
        )
        return answer.written_bytes

    async def acknowledged(self, name: str) -> int:
        """What the node's readers may see."""
        answer: Offsets = (
            await self.systems[name]
            .ref(self.paths(name).pull_service)
            .ask(
                Offsets,
                lambda reply_to: pull_service.WatchOffsets(reply_to=reply_to),
                timeout_s=5.0,
            )
        )
        return answer.acknowledged

    async def until_equal(self, within_s: float = 60.0) -> int:
        """Wait until all three logs end where the master's does."""

        async def equal() -> bool:
            return len({await self.written(name) for name in NODES}) == 1

        with trio.fail_after(within_s):
            await until(equal)
        return await self.written("n0")

    def log(self, name: str, end: int) -> bytes:
        """The bytes of the node's commit log, from its files."""
        disk = self.world.node(name).disk
        folder = f"{self.config.group_dir(name, 'orders')}/commitlog"
        data = b""
        for base in segment_bases(disk, folder):
            file = disk.open(segment_path(folder, base), "r")
            data += file.pread(0, file.size_bytes)
            file.close()
        return data[:end]

    async def until_in_sync(self, count: int, within_s: float = 60.0) -> None:
        """Wait until the master calls so many slaves in sync."""

        async def enough() -> bool:
            return (await self.status("n0")).in_sync_count >= count

        with trio.fail_after(within_s):
            await until(enough)

    async def assert_logs_equal(self) -> None:
        end = await self.until_equal()
        logs = [self.log(name, end) for name in NODES]
        assert len(logs[0]) == end
        assert logs[0] == logs[1] == logs[2]  # SlaveIsPrefix
