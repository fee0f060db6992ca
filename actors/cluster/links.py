"""The links of a run to its nodes: one API connection each, over which it asks for status again and
again.

A node that does not answer is "away"; its last answer stays visible until it is back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeAlias

import attrs
import trio

from actors.client import Client, connect_node
from actors.cluster.feed import AppendTarget
from actors.cluster.view import NodeView, node_view
from actors.config import ClusterConfig
from actors.errors import TriologError, leaves
from actors.readable import readable, readable_values

LOOK_S = 0.5
"""How often a node is asked while it runs; four answers are small, but not free."""
FIRST_LOOK_S = 0.05
"""How often a connection is tried while a node starts."""
ANSWER_S = 5.0
ANSWERING = ("running", "stopping")
LOST = (OSError, TriologError, trio.BrokenResourceError, trio.TooSlowError)
"""The failures of a node that is away."""


class NodeApi(AppendTarget, Protocol):
    """The methods of a client that a run needs."""

    async def status(self) -> dict[str, Any]: ...
    async def tree(self) -> dict[str, Any]: ...
    async def stop(self) -> None: ...
    async def promote(
        self, group: str, node: str | None = None, *, force: bool = False
    ) -> dict[str, Any]: ...
    async def resync(self, group: str) -> dict[str, Any]: ...
    async def repair(self, group: str, source: str | None = None) -> dict[str, Any]: ...
    async def transfer_leader(self, group: str, node: str | None = None) -> dict[str, Any]: ...


Connect: TypeAlias = Callable[[str], AbstractAsyncContextManager[NodeApi]]
"""Connects to the node with this name."""


@asynccontextmanager
async def connect_own(config: ClusterConfig, node: str) -> AsyncIterator[Client]:
    """Connect to a node of the file, and to no other node that has its address and port.

    Raises: as `connect_node`; ConnectionError: another node, or one of another cluster, answers.
    """
    async with connect_node(config, node, wait_s=0.0) as client:  # callers try again themselves
        found = client.identity
        if (found.cluster, found.node) != (config.name, node):
            raise ConnectionError(
                f"expected node {node} of cluster {config.name}, found node {found.node} of cluster"
                f" {found.cluster}"
            )
        yield client


@attrs.define(kw_only=True)
class Links:
    """The links to all nodes of a run.

    Attributes:
        names: the names of the nodes, in the file's order.
        restarts: returns how often a node's process was started again, as the run's backend knows.
    """

    names: tuple[str, ...]
    connect: Connect
    restarts: Callable[[str], int] = lambda node: 0
    _views: dict[str, NodeView] = attrs.field(factory=dict)
    _seen: trio.Event = attrs.field(factory=trio.Event)
    _hasten: trio.Event = attrs.field(factory=trio.Event)
    _round: int = 0
    _answered: dict[str, int] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for name in self.names:
            self._views[name] = NodeView(node=name, state="starting", groups={}, tree=None)
            self._answered[name] = -1

    def views(self) -> tuple[NodeView, ...]:
        """Return the newest view of every node, in the file's order."""
        return tuple(
            attrs.evolve(self._views[name], process_restarts=self.restarts(name))
            for name in self.names
        )

    async def run(self) -> None:
        """Ask all nodes until cancelled."""
        async with trio.open_nursery() as nursery:
            for name in self.names:
                nursery.start_soon(self._follow, name)

    async def wait_for(self, names: Iterable[str]) -> None:
        """Return when each of these nodes has answered once."""
        for name in names:
            while self._views[name].state == "starting":
                await self._seen.wait()

    def silent(self) -> tuple[str, ...]:
        """The nodes that have never answered."""
        return tuple(name for name in self.names if self._views[name].state == "starting")

    async def wait_changed(self) -> None:
        """Return when some node has answered, or was lost."""
        await self._seen.wait()

    async def look_again(self, timeout_s: float) -> None:
        """Ask every node once more that is not away. A node that has never answered is tried once:
        it may be up by now.

        Returns: when all have answered or were tried, or the time is over.
        """
        self._round += 1
        self._hasten, hasten = trio.Event(), self._hasten
        hasten.set()
        with trio.move_on_after(timeout_s):
            while any(
                self._views[name].state != "away" and self._answered[name] < self._round
                for name in self.names
            ):
                await self._seen.wait()

    async def _follow(self, name: str) -> None:
        while True:
            tried = self._round
            try:
                async with self.connect(name) as api:
                    while True:
                        with trio.fail_after(ANSWER_S):
                            await self._look(name, api)
                        if self._answered[name] == self._round:
                            with trio.move_on_after(LOOK_S):
                                await self._hasten.wait()
            except* LOST as group:
                self._lose(name, group, tried)
            pause_s = FIRST_LOOK_S if self._views[name].state == "starting" else LOOK_S / 2
            await trio.sleep(pause_s)

    async def _look(self, name: str, api: NodeApi) -> None:
        asked, asked_s = self._round, trio.current_time()
        status, tree = readable_values((await api.status(), await api.tree()))
        view = node_view(name, status, tree, asked_s)
        self._answered[name] = asked
        self._put(name, view)

    def _lose(self, name: str, group: BaseExceptionGroup[Exception], tried: int) -> None:
        before = self._views[name]
        if before.state == "starting":
            if self._answered[name] < tried:
                self._answered[name] = tried
                self._put(name, before)
            return
        detail = readable(str(next(leaves(group))))
        self._put(name, attrs.evolve(before, state="away", detail=detail))

    def _put(self, name: str, view: NodeView) -> None:
        self._views[name] = view
        seen, self._seen = self._seen, trio.Event()
        seen.set()
