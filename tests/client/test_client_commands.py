"""What the commands do, against a node in memory: reading, tailing, measuring, and the reports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import attrs
import pytest
import trio
from api_kit import SOCKET, MemoryNode, Served, serving

from actors.api.failures import RequestRefused
from actors.api.limits import ApiLimits
from actors.client import Client, connect, reading
from actors.client.bench import Figures, measure
from actors.client.group_backend import GroupBackend, open_backend
from actors.client.members import MemberFinder
from actors.errors import (
    Closed,
    NotEnoughReplicas,
    ReplicationTimeout,
)
from actors.log_types import Chain, NewRecord, Receipt


@attrs.define
class Output:
    """Where a command writes; `pause_s` for each piece, as a slow terminal."""

    data: bytes = b""
    pause_s: float = 0.0

    async def write(self, data: bytes) -> None:
        await trio.sleep(self.pause_s)
        self.data += data


@asynccontextmanager
async def both(
    node: MemoryNode | None = None, *, limits: ApiLimits | None = None
) -> AsyncIterator[tuple[Served, GroupBackend]]:
    """A node, and the backend of one that was named: no other is looked for."""
    async with serving(node, limits=limits) as served:
        async with connect(SOCKET, network=served.host) as client:
            only = MemberFinder.only(client, "orders")
            async with open_backend(only, only) as backend:
                yield served, backend


def holding(count: int) -> MemoryNode:
    return MemoryNode(stored=[b"%d" % n for n in range(count)], acknowledged=100 * count)


# read and tail


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [
        (0, None, range(1000)),
        (0, 3, range(3)),
        (99_700, None, range(997, 1000)),
        (500, 2, range(5, 7)),
        (0, 0, range(0)),
        (100_000, None, range(0)),
        (0, 5000, range(1000)),
    ],
)
async def test_read(
    autojump_clock: trio.testing.MockClock, start: int, count: int | None, expected: range
) -> None:
    out = Output()
    async with both(holding(1000)) as (served, backend):
        last = await reading.read(
            backend, "orders", out.write, start=start, count=count, fresh=False, json=False
        )
        assert served.node.reads == (1 if count != 5000 else 2)
    assert out.data == b"".join(b"%d\n" % number for number in expected)
    assert last.acknowledged == 100_000


async def test_read_shows_only_what_is_acknowledged(
    autojump_clock: trio.testing.MockClock,
) -> None:
    node = holding(3)
    node.acknowledged = 200
    out = Output()
    async with both(node) as (_, backend):
        await reading.read(
            backend, "orders", out.write, start=0, count=None, fresh=False, json=False
        )
    assert out.data == b"0\n1\n"


async def test_read_ends_at_what_was_acknowledged_when_it_began(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The log grows faster than it is read."""
    node = holding(100_000)
    node.acknowledged = 50_000
    out = Output()

    async def write(data: bytes) -> None:
        node.acknowledged += 5_000_000
        await out.write(data)

    async with both(node) as (served, backend):
        await reading.read(backend, "orders", write, start=0, count=None, fresh=False, json=False)
        assert served.node.reads == 1
    assert out.data == b"".join(b"%d\n" % number for number in range(500))


async def test_read_from_where_no_record_begins(autojump_clock: trio.testing.MockClock) -> None:
    async with both(holding(3)) as (_, backend):
        with pytest.raises(RequestRefused, match="no record begins at 5"):
            await reading.read(
                backend, "orders", Output().write, start=5, count=None, fresh=False, json=False
            )


async def test_tail_prints_what_comes_and_lets_a_slow_terminal_be(
    autojump_clock: trio.testing.MockClock,
) -> None:
    out = Output(pause_s=100.0)  # longer than any time-out of the node's for a client's stream
    async with both(holding(2)) as (_, backend), trio.open_nursery() as nursery:
        nursery.start_soon(
            partial(reading.tail, backend, "orders", out.write, start=100, json=False)
        )
        for number in range(2, 20):
            await backend.append("orders", (b"%d" % number,))
            await trio.sleep(10)
        await trio.sleep(5000)
        nursery.cancel_scope.cancel()
    assert out.data == b"".join(b"%d\n" % number for number in range(1, 20))


async def test_tail_ends_with_the_connection(autojump_clock: trio.testing.MockClock) -> None:
    async with both() as (served, backend):
        with pytest.RaisesGroup(pytest.RaisesExc(Closed)):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(
                    partial(reading.tail, backend, "orders", Output().write, start=None, json=False)
                )
                await trio.sleep(1)
                await served.system.stop()


# bench


def connector(served: Served) -> Callable[[], AbstractAsyncContextManager[Client]]:
    return partial(connect, SOCKET, network=served.host)


@attrs.define(eq=False)
class SlowNode(MemoryNode):
    """Answers each append 3 s after it came."""

    open_count: int = 0
    open_count_max: int = 0
    nursery: trio.Nursery | None = None

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Callable[[Receipt | Exception], None],
        chain: Chain | None = None,
    ) -> None:
        assert self.nursery is not None
        self.open_count += 1
        self.open_count_max = max(self.open_count_max, self.open_count)
        self.nursery.start_soon(self.later, records, on_done)

    async def later(
        self, records: tuple[NewRecord, ...], on_done: Callable[[Receipt | Exception], None]
    ) -> None:
        await trio.sleep(3)
        self.open_count -= 1
        if self.refuse is not None:
            on_done(self.refuse)
            return
        on_done(Receipt(first=0, last=0, next=1, count=len(records), copies=2, durability="synced"))


@pytest.mark.parametrize(("window", "connections"), [(1, 1), (8, 1), (9, 2), (20, 3)])
async def test_bench_keeps_its_window_full(
    autojump_clock: trio.testing.MockClock, window: int, connections: int
) -> None:
    async with trio.open_nursery() as nursery:
        node = SlowNode(nursery=nursery)
        async with serving(node, limits=ApiLimits(in_flight_requests=8)) as served:
            figures = await measure(
                connector(served), "orders", window=window, size_bytes=10, batch_count=5, seconds=10
            )
    assert (figures.window, figures.connections) == (window, connections)
    assert node.open_count_max == window
    assert figures.appends == 3 * window  # the last round's answers come too late to count
    assert figures.seconds == 10
    assert figures.appends_per_s == pytest.approx(figures.appends / 10)
    assert figures.records_per_s == pytest.approx(5 * figures.appends_per_s)
    assert figures.mb_per_s == pytest.approx(figures.appends * 50 / 10 / 1e6, abs=0.001)
    assert figures.p50_ms == pytest.approx(3000, abs=10)
    assert figures.first_error is None


@pytest.mark.parametrize(
    ("refuse", "counts"),
    [
        (NotEnoughReplicas("one of two"), (4, 0)),
        (ReplicationTimeout("late"), (0, 4)),
        (RequestRefused("BadRequest", "no"), (4, 0)),
    ],
)
async def test_bench_ends_with_the_first_failure(
    autojump_clock: trio.testing.MockClock, refuse: Exception, counts: tuple[int, int]
) -> None:
    async with trio.open_nursery() as nursery:
        node = SlowNode(nursery=nursery, refuse=refuse)
        async with serving(node) as served:
            figures = await measure(
                connector(served), "orders", window=4, size_bytes=0, batch_count=1, seconds=1000
            )
    assert figures.seconds < 4
    assert figures.appends == 0
    assert figures.p50_ms is None
    assert 0 < figures.not_stored + figures.outcome_unknown <= 4
    assert (figures.not_stored > 0, figures.outcome_unknown > 0) == (counts[0] > 0, counts[1] > 0)
    assert figures.first_error == f"{type(refuse).__name__}: {refuse}"


async def test_bench_of_a_node_that_ends(autojump_clock: trio.testing.MockClock) -> None:
    found: list[Figures] = []

    async def bench(served: Served) -> None:
        found.append(
            await measure(
                connector(served), "orders", window=3, size_bytes=1, batch_count=1, seconds=1000
            )
        )

    async with serving(MemoryNode(hold=True)) as served, trio.open_nursery() as nursery:
        nursery.start_soon(bench, served)
        await trio.sleep(5)
        await served.system.stop()
    assert found[0].outcome_unknown == 3
    assert str(found[0].first_error).startswith("NodeStopped: the connection to n0 ended")
