"""A connection that ends, in every state of what is under way on it."""

from __future__ import annotations

import math
from functools import partial

import pytest
import trio
from client_kit import (
    NODE,
    PORT,
    Outcome,
    ScriptedNode,
    appended,
    batch,
    client_of,
    kinds,
    scripted,
    sleep_for_ever,
    take_all,
    welcome,
)
from proof_kit import N0

from actors.api import convert
from actors.api.frame_socket import SocketClosed
from actors.client import Client, connect
from actors.client.requests import PROBE_INTERVAL_S, PROBE_TIMEOUT_S, SILENT_S
from actors.errors import Closed, NodeStopped
from actors.sim.network import NetworkOptions
from wire.api import frames


async def test_appends_under_way_are_in_doubt_and_waiting_ones_are_not(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(node: ScriptedNode) -> None:
        for _ in range(4):
            await node.next()
        node.abort()
        await trio.sleep_forever()

    sent: list[Outcome] = []
    waiting: list[Outcome] = []

    async def submit_fifth(client: Client) -> None:
        with pytest.raises(Closed, match="connection lost"):
            await client.submit("orders", (b"5",), waiting.append)

    async with client_of(script) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                await client.submit("orders", (b"x",), sent.append)
            nursery.start_soon(submit_fifth, client)
        assert kinds(sent) == ["NodeStopped"] * 4
        assert waiting == []  # it was raised, so it is not raised again
        with pytest.raises(Closed, match="the connection to n0 has ended: connection lost"):
            await client.append("orders", (b"x",))


async def test_what_was_never_sent_is_not_stored(autojump_clock: trio.testing.MockClock) -> None:
    outcomes: list[Outcome] = []
    async with scripted(sleep_for_ever, hello=welcome(in_flight_bytes_max=10**8)) as (found, _):
        async with connect((NODE, PORT), identity=N0, network=found.home) as client:
            for _ in range(4):  # the node reads none, and its buffers do not hold all
                await client.submit("orders", (bytes(5 << 20),), outcomes.append)
            await trio.sleep(1)
            found.sim.reset("home", "n0")
            await trio.sleep(1)
    assert kinds(outcomes) == ["NodeStopped", "NodeStopped", "NodeStopped", "Closed"]


async def test_leaving_the_block_settles_what_is_open(
    autojump_clock: trio.testing.MockClock,
) -> None:
    outcomes: list[Outcome] = []
    async with client_of(take_all) as client:
        await client.submit("orders", (b"x",), outcomes.append)
        await trio.sleep(1)
    assert kinds(outcomes) == ["NodeStopped"]
    assert "closed on this side" in str(outcomes[0])


async def test_questions_that_were_lost_may_be_asked_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(node: ScriptedNode) -> None:
        await node.next()
        node.abort()

    for ask in (
        Client.status,
        Client.tree,
        Client.stop,
        partial(Client.read, group="orders", start=0, max_bytes=10, fresh=False),
        partial(Client.wait_offsets, group="orders", known=None),
        partial(Client.wait_acknowledged, group="orders", above=5),
    ):
        async with client_of(script) as client:
            with pytest.raises(Closed, match="connection lost"):
                await ask(client)


async def test_a_lost_promotion_is_in_doubt(autojump_clock: trio.testing.MockClock) -> None:
    async def script(node: ScriptedNode) -> None:
        await node.next()
        node.abort()

    async with client_of(script) as client:
        with pytest.raises(NodeStopped):
            await client.promote("orders")


@pytest.mark.parametrize(
    "answer",
    [
        frames.Stopping(id=1),
        appended(99),
        frames.Ended(id=1000),
        frames.Failed(id=1000, error="Internal", message="of nothing"),
    ],
)
async def test_an_answer_that_nobody_asked_for_ends_the_connection(
    autojump_clock: trio.testing.MockClock, answer: frames.Answer
) -> None:
    async def script(node: ScriptedNode) -> None:
        await node.next()
        await node.send(answer)
        await take_all(node)

    reported: list[str] = []

    async def listening(node: ScriptedNode) -> None:
        try:
            await script(node)
        except SocketClosed as error:
            reported.append(error.reason)
            raise

    async with client_of(listening) as client:
        with pytest.raises(NodeStopped):
            await client.append("orders", (b"x",))
        with pytest.raises(Closed, match="does not keep to the protocol"):
            await client.status()
        await trio.sleep(1)
    assert "code 1002" in reported[0]


async def test_an_unreadable_frame_ends_the_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(node: ScriptedNode) -> None:
        await node.next()
        await node.frames.send(b"\x93what is this")
        await take_all(node)

    async with client_of(script) as client:
        with pytest.raises(Closed, match="does not keep to the protocol: unreadable answer"):
            await client.status()


async def test_the_node_finds_a_frame_unreadable(autojump_clock: trio.testing.MockClock) -> None:
    async def script(node: ScriptedNode) -> None:
        await node.next()
        await node.send(frames.Failed(id=None, error=frames.ERROR_BAD_FRAME, message="byte 3"))
        await node.frames.close(1002)

    async with client_of(script) as client:
        with pytest.raises(Closed, match="BadFrame: byte 3"):
            await client.status()


async def test_a_machine_that_is_gone_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    async with scripted(take_all) as (found, _):
        async with connect((NODE, PORT), identity=N0, network=found.home) as client:
            found.sim.cut_both("home", "n0")
            started_s = trio.current_time()
            with pytest.raises(NodeStopped, match="sent nothing for 40 s"):
                await client.append("orders", (b"x",))
            waited_s = trio.current_time() - started_s
    assert PROBE_TIMEOUT_S <= waited_s <= 2 * PROBE_INTERVAL_S + PROBE_TIMEOUT_S


async def test_a_line_so_slow_that_the_probe_is_late(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(node: ScriptedNode) -> None:
        request = await node.next()
        assert isinstance(request, frames.Tail)
        for start in (0, 100):
            await node.send(batch(request.id, start, cost_bytes=1, body=bytes(2_500_000)))
        await take_all(node)

    slow = NetworkOptions(fragment_share=0.0, bandwidth_bytes_per_s=100_000)
    async with client_of(script, options=slow) as client:
        async with client.tail("orders", 0) as batches:
            assert (await batches.receive()).next == 100
            assert (await batches.receive()).next == 200
            assert trio.current_time() > PROBE_INTERVAL_S + PROBE_TIMEOUT_S


async def test_nothing_is_probed_that_owes_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async def script(node: ScriptedNode) -> None:
        await node.send(appended((await node.next()).id))

    async with scripted(script) as (found, _):
        async with connect((NODE, PORT), identity=N0, network=found.home) as client:
            found.sim.cut_both("home", "n0")
            await trio.sleep(500)
            found.sim.heal_both("home", "n0")
            assert (await client.append("orders", (b"x",))).count == 1


async def test_a_node_that_runs_may_take_its_time(autojump_clock: trio.testing.MockClock) -> None:
    async def script(node: ScriptedNode) -> None:
        request = await node.next()
        await trio.sleep(500)
        await node.send(appended(request.id))
        await node.send(appended((await node.next()).id, 100))
        await take_all(node)

    async with client_of(script) as client:
        assert (await client.append("orders", (b"x",))).count == 1
        await trio.sleep(500)  # nothing is owed: nothing is asked
        assert await client.append("orders", (b"y",)) == convert.to_receipt(appended(2, 100))


async def test_since_when_a_node_is_silent(autojump_clock: trio.testing.MockClock) -> None:
    """What it owes nothing for does not count, nor does what is short of an answer."""

    async def script(node: ScriptedNode) -> None:
        request = await node.next()
        await trio.sleep(1)
        await node.send(appended(request.id))
        await take_all(node)

    async with scripted(script) as (found, _):
        async with connect((NODE, PORT), identity=N0, network=found.home) as client:
            await trio.sleep(50)
            assert client.quiet_since_s == math.inf
            begun_s = trio.current_time()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.append, "orders", (b"x",))
                await trio.sleep(0.5)
                assert client.quiet_since_s == begun_s
            assert client.quiet_since_s == math.inf
            tail = client.tail("orders", 0)
            await trio.sleep(500)  # it owes a tail, and says each time that it lives
            assert trio.current_time() - client.quiet_since_s < PROBE_INTERVAL_S + 1
            found.sim.cut_both("home", "n0")
            cut_s = trio.current_time()
            await client.wait_silent(SILENT_S)
            assert SILENT_S - PROBE_INTERVAL_S <= trio.current_time() - cut_s <= SILENT_S
            await tail.aclose()


async def test_nothing_that_waits_is_sent_after_a_node_was_given_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It comes to again, and reads what had been sent."""
    received: list[frames.Request] = []

    async def script(node: ScriptedNode) -> None:
        node.received = received
        await trio.sleep(100)
        await take_all(node)

    sent: list[Outcome] = []
    late: list[Outcome] = []
    async with scripted(script) as (found, ended):
        async with connect((NODE, PORT), identity=N0, network=found.home) as client:
            await client.submit("orders", (b"sent",), sent.append)
            await trio.sleep(1)
            await client.submit("orders", (b"waits",), late.append)
            client.give_up("n1 leads")
            assert kinds(sent) == ["NodeStopped"]
            assert kinds(late) == ["Closed"]
            assert "ended before the answer: n1 leads" in str(sent[0])
            with pytest.raises(Closed, match="the connection to n0 has ended: n1 leads"):
                await client.append("orders", (b"later",))
            await trio.sleep(1)
        await ended.wait()
    assert [request.records for request in received if isinstance(request, frames.Append)] == [
        (b"sent",)
    ]
