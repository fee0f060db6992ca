"""Runs one supervised process for each node; this process imports nothing that a node is
made of.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import attrs
import trio

from actors.api.credentials import prepare
from actors.cluster.child import child_command
from actors.cluster.in_use import refuse_what_is_in_use, start_order
from actors.cluster.processes import Watcher, tree
from actors.cluster.run import Backend
from actors.config import ClusterConfig
from actors.env.local_secrets import LocalSecretStore
from actors.errors import ConfigError
from actors.runtime import State, System, open_system

PARENT = "processes"
STOP_EXTRA_S = 10.0
"""How much more than a node's own stop a child may need to leave the interpreter: the parent's
budget must not end it."""


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

    def end_appends(self) -> None:
        pass

    def waits_for(self) -> str:
        return ""  # each node says that itself

    def hurry(self) -> None:
        self._watcher.hurry.set()


@asynccontextmanager
async def in_processes(
    config: ClusterConfig, nodes: tuple[str, ...], note: Callable[[str], None]
) -> AsyncIterator[Backend]:
    """Run one supervised process for each node.

    Raises:
        ConfigError: a directory is in use; or children ended with a user's mistake, which its text
            has.
        OSError: a port is in use.
    """
    await refuse_what_is_in_use(config, nodes)
    if set(nodes) == set(config.python_nodes):
        prepare(config, LocalSecretStore(), all_here=True)
    watcher = Watcher(note=note)
    stop_timeout_s = config.drain_timeout_s + config.stop_timeout_s
    spec = tree(
        start_order(config, nodes),
        lambda node: child_command(config.named_by, node),
        watcher,
        stop_timeout_s,
    )
    budget_s = len(nodes) * (stop_timeout_s + STOP_EXTRA_S)
    async with open_system(PARENT, spec, stop_timeout_s=budget_s) as system:
        yield _Processes(system, watcher)
    if watcher.refused:
        raise ConfigError(tuple(line.removeprefix("triolog: ") for line in watcher.refused))
