"""Runs all nodes in this process, in one Trio run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import attrs
import trio

from actors.api.credentials import prepare
from actors.cluster.in_use import refuse_what_is_in_use, start_order
from actors.cluster.run import Backend
from actors.config import ClusterConfig
from actors.env.local_secrets import LocalSecretStore
from actors.node.node import Node
from actors.service import open_node


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
        return {}  # a node that fails in this process ends the run

    async def wait_failed(self) -> None:
        await trio.sleep_forever()

    def end_appends(self) -> None:
        for node in self._nodes:
            node.end_appends()

    def waits_for(self) -> str:
        return ", ".join(node.drains_for for node in self._nodes if node.drains_for)

    def hurry(self) -> None:
        for node in self._nodes:
            node.hurry()


@asynccontextmanager
async def in_process(
    config: ClusterConfig, nodes: tuple[str, ...], note: Callable[[str], None]
) -> AsyncIterator[Backend]:
    """Run all nodes in this Trio run.

    Raises: ConfigError, OSError: a directory or a port is in use.
    """
    await refuse_what_is_in_use(config, nodes)
    if set(nodes) == set(config.python_nodes):
        prepare(config, LocalSecretStore(), all_here=True)
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(open_node(config, name))
            for name in start_order(config, nodes)
        ]
        yield _InProcess(opened)
