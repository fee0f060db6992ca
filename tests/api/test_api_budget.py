"""The bytes that all connections share: they bound, they come back, nobody waits for ever."""

from __future__ import annotations

import math
from pathlib import Path

import attrs
import pytest
import trio
from api_kit import SOCKET, MemoryNode, Served, bare_client, serving
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from actors.api.connection import Connection
from actors.api.limits import OWN_BYTES, READ_COST_BYTES, ApiLimits, limits_of
from actors.config import load
from actors.runtime.pool import Pool
from wire.api import frames

ONE = ApiLimits(received_bytes=frames.FRAME_BYTES_MAX, read_bytes=READ_COST_BYTES, send_timeout_s=5)
LARGE = b"x" * (OWN_BYTES * 20)


def append(number: int, body: bytes = LARGE) -> frames.Append:
    return frames.Append(id=number, group="orders", records=(body,))


async def test_a_pool_serves_in_order_and_takes_back_from_who_gives_up(
    autojump_clock: MockClock,
) -> None:
    pool = Pool(10)
    order: list[int] = []

    async def take(size: int) -> None:
        await pool.take(size)
        order.append(size)

    await pool.take(8)
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(1):
            await pool.take(9)
        nursery.start_soon(take, 5)
        await trio.sleep(1)
        nursery.start_soon(take, 1)
        await trio.sleep(1)
        assert order == [], "a small one does not overtake, or a large one might wait for ever"
        pool.give_back(8)
    assert sorted(order) == [1, 5]
    assert pool.free_bytes == 4
    pool.give_back(6)
    with pytest.raises(AssertionError):
        pool.give_back(1)


async def test_large_messages_of_all_clients_share_the_room(autojump_clock: MockClock) -> None:
    node = MemoryNode(hold=True)
    async with (
        serving(node, limits=ONE) as served,
        bare_client(served) as first,
        bare_client(served) as second,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(first.send, append(1), append(2))
        await trio.sleep(1)
        nursery.start_soon(second.send, append(1))
        for count in (1, 2, 3):
            await trio.sleep(2)
            assert len(node.stored) == count, "there is room for the largest, once"
            node.answer()
        with trio.fail_after(10):
            assert isinstance(await first.receive(), frames.Appended)
            assert isinstance(await second.receive(), frames.Appended)


async def test_small_requests_wait_too_when_all_is_used(autojump_clock: MockClock) -> None:
    node = MemoryNode(hold=True)
    limits = attrs.evolve(ONE, in_flight_bytes=2 * frames.FRAME_BYTES_MAX)
    async with (
        serving(node, limits=limits) as served,
        bare_client(served) as first,
        bare_client(served) as second,
    ):
        await first.send(append(1, bytes(frames.FRAME_BYTES_MAX - 100)))
        await trio.sleep(1)
        await second.send(append(1, bytes(1000)))
        await trio.sleep(1)
        assert len(node.stored) == 1
        node.answer()
        await trio.sleep(1)
        assert len(node.stored) == 2


async def test_a_client_that_stalls_in_a_large_message_is_closed(
    autojump_clock: MockClock,
) -> None:
    node = MemoryNode()
    async with serving(node, limits=ONE) as served, bare_client(served) as other:
        raw = (await served.host.connect_unix(SOCKET)).trio_stream()
        await raw.send_all(
            b"GET /triolog HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade"
            b"\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert (await raw.receive_some(1000)).startswith(b"HTTP/1.1 101")
        await raw.send_all(b"\x82\xff" + (1 << 20).to_bytes(8, "big") + bytes(4) + bytes(500_000))
        await trio.sleep(1)
        assert isinstance(await other.ask(append(1, b"small")), frames.Failed | frames.Appended)
        await trio.sleep(10)
        assert isinstance(await other.ask(append(2)), frames.Appended)
        assert len(served.events("APIConnectionClosed")) == 1
        await raw.aclose()


async def test_a_client_that_does_not_read_keeps_nobody_from_reading(
    autojump_clock: MockClock,
) -> None:
    node = MemoryNode(stored=[LARGE] * 10, acknowledged=1000)
    async with (
        serving(node, limits=ONE) as served,
        bare_client(served) as idle,
        bare_client(served) as other,
    ):
        tail = frames.Tail(
            id=99, group="orders", start=0, max_bytes=1 << 20, credit_bytes=frames.CREDIT_MAX
        )
        await idle.send(
            tail,
            *(frames.Read(id=n, group="orders", start=0, max_bytes=1 << 20) for n in range(50)),
        )
        await trio.sleep(0.1)
        with trio.fail_after(20):
            batch = await other.ask(frames.Read(id=1, group="orders", start=0, max_bytes=1 << 20))
        assert isinstance(batch, frames.Batch)


async def test_everything_comes_back(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    made: list[Connection] = []
    init = Connection.on_start

    async def on_start(self: Connection) -> None:
        made.append(self)
        await init(self)

    monkeypatch.setattr(Connection, "on_start", on_start)
    node = MemoryNode(hold=True)
    async with serving(node, limits=ONE) as served:
        await _one_of_everything(served, node)
        await trio.sleep(10)
        budget = made[0]._budget
        assert budget.received.free_bytes == ONE.received_bytes
        assert budget.read.free_bytes == ONE.read_bytes


async def _one_of_everything(served: Served, node: MemoryNode) -> None:
    async with bare_client(served) as client:
        await client.send(append(1), frames.GetStatus(id=3), frames.Cancel(id=4))
        await trio.sleep(1)
        node.answer()
        for _ in range(3):
            await client.receive()
        await client.send(frames.Read(id=5, group="orders", start=0, max_bytes=10))
        await client.send(frames.Read(id=6, group="orders", start=1, max_bytes=10))
        await client.send(frames.Tail(id=7, group="orders", start=0, max_bytes=1, credit_bytes=1))
        await trio.sleep(1)
        await client.send(append(8))  # unanswered when the client leaves
        await trio.sleep(1)


@given(st.integers(1, 200))
def test_the_bound_is_what_a_person_accepts(connections: int) -> None:
    limits = ApiLimits(clients=connections, silent=0)
    own = (limits.memory_bytes() - limits.received_bytes - limits.read_bytes) / connections
    assert own < 1 << 20
    assert math.isfinite(own)


def test_a_node_of_the_example_holds_less_than_256_mib() -> None:
    config = load(Path(__file__).resolve().parents[2] / "tests" / "three_nodes.toml")
    assert max(limits_of(config, node).memory_bytes() for node in config.nodes) <= 256 << 20
