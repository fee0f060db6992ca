"""The client and the real API server, back to back over the simulated network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from api_kit import NODE, PORT, SOCKET, MemoryNode, Served, serving
from proof_kit import N0

from actors.api.failures import RequestRefused
from actors.api.limits import ApiLimits
from actors.client import Client, connect
from actors.errors import Closed, NodeStopped, NotEnoughReplicas, ReplicationTimeout
from actors.events.node import NodeStarted
from actors.log_types import Message, Receipt


@asynccontextmanager
async def both(
    node: MemoryNode | None = None, *, limits: ApiLimits | None = None
) -> AsyncIterator[tuple[Served, Client]]:
    async with serving(node, limits=limits) as served:
        async with connect(SOCKET, network=served.host, name="test") as client:
            yield served, client


async def test_by_either_socket(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as served:
        async with connect(
            (NODE, PORT), identity=N0, network=served.member, name="other"
        ) as client:
            assert client.identity == served.node.identity
            receipt = await client.log("orders").append([b"one", b"two"])
            assert (receipt.first, receipt.last, receipt.next) == (0, 100, 200)
        async with connect(SOCKET, network=served.host, name="own") as client:
            batch = await client.log("orders").read(100)
            assert [record.body for record in batch.records] == [b"two"]
        opened = served.events("APIConnectionOpened")
        assert [event.client for event in opened] == ["other", "own"]


async def test_a_stranger_is_not_heard(autojump_clock: trio.testing.MockClock) -> None:
    async with serving() as served:
        with pytest.raises(OSError, match=NODE):
            async with connect((NODE, PORT), network=served.stranger):
                raise AssertionError("not reached")


async def test_messages_keep_all_their_fields(autojump_clock: trio.testing.MockClock) -> None:
    message = Message("topic", b"\x00\xff", "tag", "k1 k2", {"a": "b"}, queue_id=3)
    async with both() as (served, client):
        await client.append("orders", (message,))
        (record,) = (await client.read("orders", 0, 1000, False)).records
        assert served.node.stored == [message]
    assert (record.topic, record.body, record.tags) == ("topic", b"\x00\xff", "tag")
    assert (record.keys, record.properties) == (("k1", "k2"), (("a", "b"),))


async def test_the_appender_keeps_order_and_bounds(autojump_clock: trio.testing.MockClock) -> None:
    bodies = [b"%d" % number for number in range(20_000)]
    limits = ApiLimits(in_flight_requests=2, in_flight_bytes=1000)
    async with both(limits=limits) as (served, client):
        async with client.log("orders").appender(in_flight_bytes=4 << 20) as out:
            for body in bodies:
                await out.send(body)
        assert out.acknowledged_count == 20_000
        assert served.node.stored == bodies


async def test_a_reader_follows(autojump_clock: trio.testing.MockClock) -> None:
    found: list[bytes] = []

    async def follow(client: Client) -> None:
        async with client.log("orders").reader(follow=True) as batches:
            async for batch in batches:
                found.extend(record.body for record in batch.records)

    async with both() as (_served, client), trio.open_nursery() as nursery:
        nursery.start_soon(follow, client)
        for number in range(30):
            await client.append("orders", (b"%d" % number,))
            await trio.sleep(0.01 * number)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert found == [b"%d" % number for number in range(30)]


async def test_a_tail_is_pushed_all_of_it_in_order(autojump_clock: trio.testing.MockClock) -> None:
    found: list[bytes] = []
    bodies = [bytes([number % 256]) * 100 for number in range(2000)]
    async with both() as (_served, client):
        async with client.log("orders").appender() as out:
            for body in bodies:
                await out.send(body)
        async with client.tail("orders", 0, batch_bytes=1000, credit_bytes=3000) as batches:
            async for batch in batches:
                found += [record.body for record in batch.records]
                if len(found) == len(bodies):
                    break
        assert await client.status()  # the connection is as good as before
    assert found == bodies


async def test_a_size_above_the_bound_is_cut_to_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with both() as (_, client):
        await client.append("orders", (b"x",))
        assert len((await client.log("orders").read(0, max_bytes=1 << 40)).records) == 1
        async with client.tail("orders", 0, batch_bytes=1 << 40) as batches:
            assert len((await batches.receive()).records) == 1


async def test_a_tail_from_now_on(autojump_clock: trio.testing.MockClock) -> None:
    async with both() as (_, client):
        await client.append("orders", (b"old",))
        async with client.tail("orders") as batches:
            await trio.sleep(1)
            await client.append("orders", (b"new",))
            assert [record.body for record in (await batches.receive()).records] == [b"new"]


async def test_many_tasks_share_one_connection(autojump_clock: trio.testing.MockClock) -> None:
    receipts: list[Receipt] = []

    async def append(client: Client, body: bytes) -> None:
        receipts.append(await client.append("orders", (body,)))

    async with both() as (_served, client), trio.open_nursery() as nursery:
        for number in range(1000):
            nursery.start_soon(append, client, b"%d" % number)
    assert sorted(receipt.first for receipt in receipts) == [100 * n for n in range(1000)]


async def test_offsets_status_tree_promote_stop_events(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with both() as (served, client):
        async with client.events() as events:
            await trio.sleep(1)
            known = await client.wait_offsets("orders", None)
            assert (known.acknowledged, known.master) == (0, "n0")
            await client.append("orders", (b"x",))
            assert (await client.wait_offsets("orders", known)).acknowledged == 100
            assert (await client.wait_acknowledged("orders", 0)).acknowledged == 100
            assert (await client.status())["node"] == "n0"
            assert (await client.tree())["path"] == "/n0"
            assert (await client.promote("orders", "n1"))["node"] == "n1"
            started = NodeStarted(cluster="demo", version="0", groups=())
            served.node.sink("/n0", 1, started)
            received = await events.receive()
            assert any("NodeStarted" in line for line in received.lines)
        await client.stop()
        assert served.node.stopped


async def test_errors_cross_the_socket(autojump_clock: trio.testing.MockClock) -> None:
    async with both() as (served, client):
        with pytest.raises(RequestRefused, match="no group 'x'"):
            await client.append("x", (b"x",))
        with pytest.raises(RequestRefused, match="no group 'x'"):
            await client.wait_acknowledged("x", 0)
        with pytest.raises(RequestRefused, match="no record begins at 5"):
            await client.read("orders", 5, 100, False)
        with pytest.raises(RequestRefused, match="no record begins at 7"):
            await client.log("orders").append([b"x"])
            async with client.tail("orders", 7) as batches:
                await batches.receive()
        served.node.refuse = NotEnoughReplicas("one of two")
        with pytest.raises(NotEnoughReplicas, match="one of two"):
            await client.append("orders", (b"x",))
        served.node.refuse, served.node.hold = None, True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_in_doubt, client)
            await trio.sleep(1)
            served.node.answer(ReplicationTimeout("late", 100, 300, 350))


async def _in_doubt(client: Client) -> None:
    with pytest.raises(ReplicationTimeout) as raised:
        await client.append("orders", (b"x",))
    assert (raised.value.first, raised.value.last, raised.value.next) == (100, 300, 350)


async def test_a_node_that_stops_leaves_appends_in_doubt(
    autojump_clock: trio.testing.MockClock,
) -> None:
    node = MemoryNode(hold=True)

    async def append(client: Client) -> None:
        with pytest.raises(NodeStopped):
            await client.append("orders", (b"x",))
        with pytest.raises(Closed):
            await client.append("orders", (b"x",))

    async with serving(node) as served, trio.open_nursery() as nursery:
        async with connect(SOCKET, network=served.host) as client:
            nursery.start_soon(append, client)
            await trio.sleep(1)
            await served.system.stop()
            await trio.sleep(1)
