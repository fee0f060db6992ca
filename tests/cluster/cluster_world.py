"""Nodes in memory that a run can start, ask, lose and stop: for tests in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio
from cluster_samples import master, node_tree, slave_group
from status_samples import said

from actors.client.slot_retries import NoSlot
from actors.cluster.feed import Feed
from actors.cluster.links import Links
from actors.cluster.run import Feeding, Run
from actors.cluster.summary import Summary
from actors.config import load
from actors.errors import CorruptLog
from actors.log import AppendOutcome
from actors.log_types import Chain, NewRecord, Receipt

CONFIG = load(Path(__file__).parents[2] / "tests" / "three_nodes.toml")
NODES = ("n0", "n1", "n2")


@attrs.define
class Node:
    """A node's API in memory."""

    name: str
    group: dict[str, Any]
    up: bool = True
    state: str = "running"
    status_s: float = 0.0
    asked: int = 0
    appended: list[NewRecord] = attrs.field(factory=list)
    answers: bool = True
    slots: bool = True
    waits_for: str = ""

    async def status(self) -> dict[str, Any]:
        self.asked += 1
        group = said(self.group).plain()
        await trio.sleep(self.status_s)
        if not self.up:
            raise trio.BrokenResourceError("it has gone")
        return {"state": self.state, "waits_for": self.waits_for, "groups": {"orders": group}}

    async def tree(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return node_tree(self.name)

    async def stop(self) -> None:
        self.up = False

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Callable[[AppendOutcome], None],
        chain: Chain | None = None,
    ) -> None:
        await trio.sleep(0.1)
        first = len(self.appended)
        self.appended += records
        if self.answers:
            end = len(self.appended)
            on_done(
                Receipt(
                    first=first,
                    last=end - 1,
                    next=end,
                    count=len(records),
                    copies=2,
                    durability="synced",
                )
            )


@attrs.define
class World:
    """Three nodes and what became of them."""

    nodes: dict[str, Node]
    log: list[str] = attrs.field(factory=list)
    ended: trio.Event = attrs.field(factory=trio.Event)
    opening_s: float = 0.0
    fails_at_s: float | None = None
    error: Exception = attrs.field(factory=lambda: CorruptLog("damage"))
    again: int = 0
    closing_s: float = 0.0
    drains_for: str = ""
    gone: dict[str, str] = attrs.field(factory=dict)
    one_gone: trio.Event = attrs.field(factory=trio.Event)

    @asynccontextmanager
    async def connect(self, name: str) -> AsyncIterator[Node]:
        await trio.lowlevel.checkpoint()
        if not self.nodes[name].up:
            raise ConnectionRefusedError(f"{name} does not listen")
        if not self.nodes[name].slots:
            raise NoSlot(f"{name}: all 64 client slots are taken")
        yield self.nodes[name]

    def restarts(self, node: str) -> int:
        return self.again

    def expected(self, node: str) -> bool:
        return True

    async def wait_ended(self) -> str:
        await self.ended.wait()
        return "n1 was asked to stop"

    def failed(self) -> dict[str, str]:
        return self.gone

    async def wait_failed(self) -> None:
        await self.one_gone.wait()

    def lose(self, node: str, why: str) -> None:
        """It ends, and is not started again."""
        self.nodes[node].up = False
        self.gone[node] = why
        one_gone, self.one_gone = self.one_gone, trio.Event()
        one_gone.set()

    def end_appends(self) -> None:
        self.log.append("end appends")

    def waits_for(self) -> str:
        return self.drains_for

    def hurry(self) -> None:
        self.log.append("hurry")

    @asynccontextmanager
    async def open(self, note: Callable[[str], None]) -> AsyncIterator[World]:
        try:
            await trio.sleep(self.opening_s)
            note("opened")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._fail)
                yield self
                self.log.append("closing")
                await trio.sleep(self.closing_s)
                nursery.cancel_scope.cancel()
        finally:
            self.log.append("closed")

    async def _fail(self) -> None:
        if self.fails_at_s is not None:
            await trio.sleep(self.fails_at_s)
            raise self.error


@attrs.define
class MemoryRecord:
    noted: int = 0
    ended: bool = False
    closed: bool = False

    async def note(self, receipts: list[tuple[int, Receipt, int]]) -> None:
        await trio.lowlevel.checkpoint()
        self.noted += sum(receipt.count for _, receipt, _ in receipts)

    async def end(self) -> None:
        self.ended = True

    def close(self) -> None:
        assert not self.closed
        self.closed = True


def three_nodes() -> World:
    """The example's nodes."""
    return World(
        {
            "n0": Node("n0", master()),
            "n1": Node("n1", slave_group()),
            "n2": Node("n2", slave_group()),
        }
    )


def make(world: World, **keys: Any) -> Run:
    return Run(config=CONFIG, links=Links(names=NODES, connect=world.connect), **keys)


def feeding(world: World, chunks: int | None, record: MemoryRecord, rate_per_s: int = 0) -> Feeding:
    """A feed of so many chunks of two lines; None: without end."""

    def open_feed() -> tuple[tuple[Feed, ...], tuple[Any, ...]]:
        assert world.nodes["n0"].asked > 0  # the master answers before the feed begins
        send, receive = trio.open_memory_channel[tuple[bytes, ...]](0)

        async def read() -> None:
            sent = 0
            async with send:
                while chunks is None or sent < chunks:
                    await send.send((b"a", b"b"))
                    sent += 1

        feed = Feed(
            group="orders",
            source="s",
            lines=receive,
            connect=lambda: connected(world),
            record=record,  # type: ignore[arg-type]
            rate_per_s=rate_per_s,
        )
        return (feed,), (read,)

    return Feeding(("n0",), open_feed)


def connected(world: World) -> AbstractAsyncContextManager[Node]:
    return world.connect("n0")


async def started(nursery: trio.Nursery, run: Run, world: World) -> list[Summary]:
    found: list[Summary] = []

    async def go() -> None:
        found.append(await run.run(world.open))

    nursery.start_soon(go)
    await trio.sleep(0.5)
    return found
