"""The feed while a copy is away: what is stored for nothing is bounded. In virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from group_states import status_of

from actors.cluster import feed as feed_module
from actors.cluster.feed import Feed
from actors.errors import NodeStopped, ReplicationTimeout
from actors.group_status import Peer
from actors.log import AppendOutcome
from actors.log_types import Chain, NewRecord, Receipt

TIMEOUT_S = 3.0
Answer = Callable[[AppendOutcome], None]


@attrs.define
class Record:
    """A feed record in memory."""

    noted: list[tuple[int, Receipt]] = attrs.field(factory=list)

    async def note(self, receipts: list[tuple[int, Receipt, int]]) -> None:
        await trio.lowlevel.checkpoint()
        self.noted += [(line, receipt) for line, receipt, _ in receipts]

    async def end(self) -> None:
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Nothing is kept open."""


@attrs.define
class Master:
    """A master in memory with one slave; it counts in records. It stores what it is given.

    Attributes:
        slave: whether it is there: then everything is acknowledged.
        role: what it says that it is.
        lose: so many appends that are cut off with their connection.
        sent: appends of each connection.
    """

    slave: bool = True
    role: str = "master"
    lose: int = 0
    stored: list[bytes] = attrs.field(factory=list)
    acknowledged: int = 0
    sent: list[int] = attrs.field(factory=list)
    back: trio.Event = attrs.field(factory=trio.Event)
    looks: int = 0
    nursery: trio.Nursery | None = None

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Master]:
        self.sent.append(0)
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            yield self
            nursery.cancel_scope.cancel()

    async def status(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        self.looks += 1
        slave = Peer(node="n1", is_well=self.slave, has_copy=self.slave, awaited=self.slave)
        group = status_of(
            role=self.role,
            leads=self.role == "master",
            copies=2,
            written=len(self.stored),
            acknowledged=self.acknowledged,
            peers=(slave,),
        )
        return {"groups": {"g": group}}

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Answer,
        chain: Chain | None = None,
    ) -> None:
        await trio.sleep(0.01)
        self.sent[-1] += 1
        first = len(self.stored)
        self.stored += [record for record in records if isinstance(record, bytes)]
        assert self.nursery is not None
        self.nursery.start_soon(self._answer, first, len(self.stored), on_done)

    async def _answer(self, first: int, end: int, on_done: Answer) -> None:
        if self.lose:
            self.lose -= 1
            self.acknowledged = end if self.slave else self.acknowledged
            await trio.sleep(TIMEOUT_S)
            on_done(NodeStopped("the connection ended"))
            return
        with trio.move_on_after(TIMEOUT_S):
            if not self.slave:
                await self.back.wait()
            self.acknowledged = max(self.acknowledged, end)
        if self.acknowledged < end:
            on_done(ReplicationTimeout("too late", first, end - 1))
            return
        on_done(
            Receipt(
                first=first, last=end - 1, next=end, count=end - first, copies=2, durability="x"
            )
        )

    async def away(self, at_s: float, for_s: float) -> None:
        await trio.sleep(at_s)
        self.slave, self.back = False, trio.Event()
        await trio.sleep(for_s)
        self.slave = True
        self.back.set()
        self.acknowledged = len(self.stored)


CHUNKS = 400


def make(master: Master) -> tuple[Feed, Record]:
    send, receive = trio.open_memory_channel[tuple[bytes, ...]](CHUNKS)
    for number in range(CHUNKS):
        send.send_nowait(tuple(b"%d" % (number * 100 + one) for one in range(100)))
    send.close()
    record = Record()
    feed = Feed(
        group="g",
        source="s",
        lines=receive,
        connect=master.connect,
        record=record,  # type: ignore[arg-type]
    )
    return feed, record


LINES = CHUNKS * 100


async def test_an_hour_without_the_slave_stores_nothing_twice(
    autojump_clock: trio.abc.Clock,
) -> None:
    master = Master()
    feed, record = make(master)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(master.away, 0.5, 3600.0)
        nursery.start_soon(feed.run)
    assert len(master.stored) == LINES
    assert trio.current_time() > 3600
    view = feed.view()
    assert (view.acknowledged_count, view.unknown_count, view.state) == (LINES, 0, "ended")
    assert sum(receipt.count for _, receipt in record.noted) == LINES
    assert {receipt.first for _, receipt in record.noted} == set(range(0, LINES, 100))
    assert all(receipt.next > receipt.last for _, receipt in record.noted)
    assert master.looks < 2.1 * 3600 / feed_module.RETRY_S_MAX


async def test_a_slave_that_comes_and_goes_stores_nothing_twice(
    autojump_clock: trio.abc.Clock,
) -> None:
    master = Master()
    feed, _ = make(master)
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(master.away, 0.2 + 10 * number, 8.0)
        nursery.start_soon(feed.run)
    assert len(master.stored) == LINES


async def test_lost_connections_store_a_window_and_then_single_batches(
    autojump_clock: trio.abc.Clock,
) -> None:
    master = Master(lose=310)
    feed, _ = make(master)
    await feed.run()
    assert 200 < master.sent[0] < 310  # what could be sent before the first loss was seen
    further = 310 - master.sent[0]
    assert master.sent[1 : further + 1] == [1] * further
    assert len(master.sent) == further + 2
    assert len(master.stored) == LINES + 310 * 100
    assert feed.view().acknowledged_count == LINES


async def test_nothing_is_sent_again_while_the_copies_are_away(
    autojump_clock: trio.abc.Clock,
) -> None:
    master = Master(lose=1000)
    feed, _ = make(master)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(master.away, 0.1, 1000.0)
        nursery.start_soon(feed.run)
        await trio.sleep(900.0)
        stored = len(master.stored)
        assert stored <= LINES
        assert feed.view().state == "waits for copies, 1 of 2"
        master.lose = 0
        await trio.sleep(90.0)
        assert len(master.stored) == stored
    assert feed.view().acknowledged_count == LINES
    assert len(master.stored) <= 2 * LINES


async def test_stop_while_the_copies_are_away(autojump_clock: trio.abc.Clock) -> None:
    master = Master(slave=False)
    feed, record = make(master)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(feed.run)
        await trio.sleep(60.0)
        assert feed.view().in_flight_count == len(master.stored) > 0
        feed.stop()
    assert trio.current_time() == pytest.approx(60.0, abs=0.01)
    assert record.noted == []
    view = feed.view()
    assert (view.in_flight_count, view.unknown_count) == (0, len(master.stored))


async def test_a_node_that_is_no_master_any_more_settles_nothing(
    autojump_clock: trio.abc.Clock,
) -> None:
    master = Master(slave=False)
    feed, record = make(master)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(feed.run)
        await trio.sleep(30.0)
        master.role, master.slave, master.acknowledged = "slave", True, 10**9
        await trio.sleep(60.0)
        assert record.noted == []
        assert "not the group's master" in feed.view().state
        feed.stop()
