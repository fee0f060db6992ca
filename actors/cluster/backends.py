"""The two ways in which one run has its nodes: all in this process, or one process for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import attrs
import trio

from actors.cluster.processes import Watcher, child_command, tree
from actors.cluster.run import Backend
from actors.config import ClusterConfig
from actors.config.check import ports
from actors.env.local_disk import lock_holder
from actors.env.tcp import TcpNetwork
from actors.errors import ConfigError
from actors.node.node import Node
from actors.runtime import State, System, open_system
from actors.service import open_node

PARENT = "processes"
STOP_EXTRA_S = 10.0
"""More than a child may need to leave the interpreter: the parent's budget is not what ends it."""


def start_order(config: ClusterConfig, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Masters last, so that they stop first and can still send their slaves what these lack."""
    masters = [group.master for group in config.classic_groups.values()]
    return tuple(sorted(nodes, key=masters.count))


def data_holder(config: ClusterConfig, node: str) -> int | None:
    """The other process of this machine that has a node's data open; None: none."""
    return lock_holder(f"{config.node_dir(node)}/lock")


async def refuse_what_is_in_use(config: ClusterConfig, nodes: tuple[str, ...]) -> None:
    """Look before anything starts whether each directory and port is free.

    A slave that starts first would otherwise follow a foreign master on its own master's port, and
    the nodes of another run would be taken for those that this one starts.

    Raises: ConfigError: a directory in use. OSError: a port in use, an address that is not ours.
    """
    for node in nodes:
        holder = data_holder(config, node)
        if holder is not None:
            folder = config.node_dir(node)
            raise ConfigError(
                f"{config.path}: key data_dir: expected a free data directory, found that of node"
                f" {node} in use by process {holder} ({folder}); `status` asks what runs there"
            )
    network = TcpNetwork()
    for use in ports(config):
        if use.node in nodes:
            listener = await network.listen(use.address, use.port)
            await listener.aclose()


@attrs.define
class _InProcess:
    _nodes: list[Node]

    def restarts(self, node: str) -> int:
        return 0

    def expected(self, node: str) -> bool:
        return True

    async def wait_ended(self) -> str:
        asked: list[str] = []
        async with trio.open_nursery() as nursery:
            for node in self._nodes:
                nursery.start_soon(self._wait_for, node, asked, nursery.cancel_scope)
        return f"{asked[0]} was asked to stop"

    async def _wait_for(self, node: Node, asked: list[str], scope: trio.CancelScope) -> None:
        await node.wait_stop_requested()
        asked.append(node.name)
        scope.cancel()

    def failed(self) -> Mapping[str, str]:
        return {}  # a node that fails here ends the run

    async def wait_failed(self) -> None:
        await trio.sleep_forever()

    def hurry(self) -> None:
        for node in self._nodes:
            node.hurry()


@asynccontextmanager
async def in_process(
    config: ClusterConfig, nodes: tuple[str, ...], note: Callable[[str], None]
) -> AsyncIterator[Backend]:
    """All nodes in this Trio run.

    Raises: ConfigError, OSError: something is in use.
    """
    await refuse_what_is_in_use(config, nodes)
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(open_node(config, name))
            for name in start_order(config, nodes)
        ]
        yield _InProcess(opened)


@attrs.define
class _Processes:
    _system: System
    _watcher: Watcher

    def restarts(self, node: str) -> int:
        found = self._system.tree().find(f"/{PARENT}/{node}")
        return found.restarts if found is not None else 0

    def expected(self, node: str) -> bool:
        found = self._system.tree().find(f"/{PARENT}/{node}")
        return found is not None and found.state is not State.STOPPED

    async def wait_ended(self) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wait_for_refusal, nursery.cancel_scope)
            await self._system.wait_ended()
            nursery.cancel_scope.cancel()
        return "a node refused to start" if self._watcher.refused else "the nodes have stopped"

    async def _wait_for_refusal(self, scope: trio.CancelScope) -> None:
        await self._watcher.something_refused.wait()
        scope.cancel()

    def failed(self) -> Mapping[str, str]:
        return self._watcher.failed

    async def wait_failed(self) -> None:
        await self._watcher.one_failed.wait()

    def hurry(self) -> None:
        self._watcher.hurry.set()


@asynccontextmanager
async def in_processes(
    config: ClusterConfig, nodes: tuple[str, ...], note: Callable[[str], None]
) -> AsyncIterator[Backend]:
    """One supervised process for each node.

    Raises:
        ConfigError: something is in use; the words of children that ended with a user's mistake.
        OSError: a port is in use.
    """
    await refuse_what_is_in_use(config, nodes)
    watcher = Watcher(note=note)
    stop_timeout_s = config.drain_timeout_s + config.stop_timeout_s
    spec = tree(
        start_order(config, nodes),
        lambda node: child_command(config.path, node),
        watcher,
        stop_timeout_s,
    )
    budget_s = len(nodes) * (stop_timeout_s + STOP_EXTRA_S)
    async with open_system(PARENT, spec, stop_timeout_s=budget_s) as system:
        yield _Processes(system, watcher)
    if watcher.refused:
        raise ConfigError(tuple(line.removeprefix("triolog: ") for line in watcher.refused))
