"""The client against a node that answers by script: order, bounds, credit, every error path."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from client_kit import (
    NODE,
    PORT,
    Outcome,
    ScriptedNode,
    appended,
    client_of,
    kinds,
    machines,
    scripted,
    sleep_for_ever,
    take_all,
    welcome,
)
from proof_kit import N0

from actors.api.failures import RequestRefused
from actors.client import connect
from actors.errors import Closed, LogFull, NotMaster, ReplicationTimeout, TooLarge, UnknownName
from actors.log_types import Chain, Message, Receipt
from wire.api import frames

# Connecting.


async def test_welcome_shows_who_the_node_is(autojump_clock: trio.testing.MockClock) -> None:
    async with client_of(sleep_for_ever) as client:
        assert (client.identity.cluster, client.identity.node) == ("demo", "n0")
        assert (client.identity.boot, client.identity.groups) == (3, ("orders", "bills"))
        assert client.in_flight_requests_max == 4
        assert repr(client) == "<Client of n0 at 10.0.0.1:10911>"
        assert client.log("bills").name == "bills"
        with pytest.raises(UnknownName, match=r"^n0: no group 'x'; it has orders, bills$"):
            client.log("x")


async def test_nobody_listens(autojump_clock: trio.testing.MockClock) -> None:
    async with machines() as found:
        with pytest.raises(ConnectionRefusedError):
            async with connect((NODE, PORT), identity=N0, network=found.home):
                raise AssertionError("not reached")
        with pytest.raises(FileNotFoundError):
            async with connect("/data/n0/api.sock", network=found.home):
                raise AssertionError("not reached")


@pytest.mark.parametrize("accepts", [False, True])
async def test_an_answer_that_never_comes(
    autojump_clock: trio.testing.MockClock, accepts: bool
) -> None:
    async with machines() as found:
        if accepts:
            await found.node.listen(NODE, PORT)
        else:
            found.sim.cut("home", "n0")
        with pytest.raises(TimeoutError, match=r"0\.1:10911: no answer within 3 s.*api_port"):
            async with connect((NODE, PORT), identity=N0, network=found.home, timeout_s=3.0):
                raise AssertionError("not reached")
        assert trio.current_time() == pytest.approx(3.0, abs=0.5)


async def test_another_protocol(autojump_clock: trio.testing.MockClock) -> None:
    async def talk(found: Any, *, task_status: trio.TaskStatus[None]) -> None:
        listener = await found.node.listen(NODE, PORT)
        task_status.started()
        stream = await listener.accept()
        await stream.halves()[1].send_all(b"220 mail.example ESMTP\r\n\r\n")
        await trio.sleep_forever()

    async with machines() as found, trio.open_nursery() as nursery:
        await nursery.start(talk, found)
        with pytest.raises(ConnectionError, match=r"not a node's API socket \(its .*api_port"):
            async with connect((NODE, PORT), identity=N0, network=found.home):
                raise AssertionError("not reached")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("hello", "error", "text"),
    [
        (welcome(version=4), RequestRefused, "the node chose version 4"),
        (
            frames.Failed(id=0, error=frames.ERROR_VERSION, message="too old"),
            RequestRefused,
            "too old",
        ),
        (frames.Stopping(id=0), ConnectionError, "expected a welcome, found Stopping"),
    ],
)
async def test_a_hello_without_welcome(
    autojump_clock: trio.testing.MockClock, hello: frames.Answer, error: type, text: str
) -> None:
    with pytest.raises(error, match=text):
        async with client_of(sleep_for_ever, hello=hello):
            raise AssertionError("not reached")


async def test_errors_of_the_block_are_not_wrapped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with client_of(sleep_for_ever):
            raise KeyError("mine")


async def test_leaving_says_goodbye(autojump_clock: trio.testing.MockClock) -> None:
    async with scripted(take_all) as (found, ended):
        async with connect((NODE, PORT), identity=N0, network=found.home) as client:
            await trio.sleep(1)
        with trio.fail_after(1):
            await ended.wait()
        with pytest.raises(Closed, match="closed on this side"):
            await client.status()
        with pytest.raises(Closed, match="closed on this side"):
            client.tail("orders")


# Appending.


async def test_appends_are_pipelined_in_order(autojump_clock: trio.testing.MockClock) -> None:
    order: list[bytes] = []
    chain = Chain()

    async def script(node: ScriptedNode) -> None:
        requests = [await node.next() for _ in range(4)]
        for number, request in enumerate(requests):
            assert isinstance(request, frames.Append)
            assert request.chain == (chain.number if number < 3 else 0)
            (body,) = request.records
            assert isinstance(body, bytes)
            order.append(body)
            await node.send(appended(request.id, 100 * number))
        await take_all(node)

    outcomes: list[Outcome] = []
    async with client_of(script) as client:
        for number in range(4):
            own = chain if number < 3 else None
            await client.submit("orders", (b"%d" % number,), outcomes.append, own)
        assert outcomes == []  # all four are under way before one is answered
        await trio.sleep(1)
    assert order == [b"0", b"1", b"2", b"3"]
    assert [one.first for one in outcomes if isinstance(one, Receipt)] == [0, 100, 200, 300]


async def test_room_in_requests(autojump_clock: trio.testing.MockClock) -> None:
    came: list[int] = []

    async def script(node: ScriptedNode) -> None:
        for _ in range(4):
            await node.next()
        await trio.sleep(10)
        for request in list(node.received):
            await node.send(appended(request.id))
        came.append((await node.next()).id)
        await node.send(appended(came[0]))
        await take_all(node)

    outcomes: list[Outcome] = []
    async with client_of(script) as client:
        for _ in range(4):
            await client.submit("orders", (b"x",), outcomes.append)
        started_s = trio.current_time()
        await client.submit("orders", (b"x",), outcomes.append)
        assert trio.current_time() - started_s > 9
        await trio.sleep(1)
    assert came == [5]
    assert kinds(outcomes) == ["Receipt"] * 5


async def test_room_in_bytes_is_given_in_order(autojump_clock: trio.testing.MockClock) -> None:
    seen: list[int] = []

    async def script(node: ScriptedNode) -> None:
        while True:
            request = await node.next()
            assert isinstance(request, frames.Append)
            (body,) = request.records
            assert isinstance(body, bytes)
            seen.append(len(body))
            await trio.sleep(1)
            await node.send(appended(request.id))

    async with client_of(script) as client, trio.open_nursery() as nursery:
        # The second has to wait for room; the third would find some, and waits behind it.
        for size in (6000, 5000, 100):
            nursery.start_soon(client.append, "orders", (bytes(size),))
            await trio.sleep(0.1)
    assert seen == [6000, 5000, 100]


async def test_room_comes_back_with_every_answer(autojump_clock: trio.testing.MockClock) -> None:
    async def script(node: ScriptedNode) -> None:
        while True:
            pair = [await node.next(), await node.next()]  # both are under way each time
            await node.send(*(appended(request.id) for request in pair))

    async with client_of(script) as client:
        for _ in range(10):
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(client.append, "orders", (bytes(4000),))


async def test_one_request_above_the_bound_goes_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(node: ScriptedNode) -> None:
        while True:
            await node.send(appended((await node.next()).id))

    async with client_of(script) as client:
        assert (await client.append("orders", (bytes(20_000),))).count == 1


async def test_a_cancelled_append_leaves_the_connection_whole(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(node: ScriptedNode) -> None:
        first = await node.next()
        await trio.sleep(5)
        await node.send(appended(first.id))
        while True:
            await node.send(appended((await node.next()).id, 700))

    async with client_of(script) as client:
        with trio.move_on_after(1) as scope:
            await client.append("orders", (b"x",))
        assert scope.cancelled_caught
        assert (await client.append("orders", (b"y",))).first == 700


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        (frames.Failed(id=1, error="NotMaster", message="m", hint="n1"), NotMaster),
        (frames.Failed(id=1, error="LogFull", message="m"), LogFull),
        (
            frames.Failed(id=1, error="ReplicationTimeout", message="m", first=100, last=300),
            ReplicationTimeout,
        ),
        (frames.Failed(id=1, error=frames.ERROR_UNKNOWN_GROUP, message="m"), RequestRefused),
        (frames.Failed(id=1, error="SomethingNew", message="m"), RequestRefused),
    ],
)
async def test_errors_are_raised_as_the_node_raised_them(
    autojump_clock: trio.testing.MockClock, failed: frames.Failed, expected: type[Exception]
) -> None:
    async def script(node: ScriptedNode) -> None:
        assert (await node.next()).id == 1
        await node.send(failed)
        await take_all(node)

    async with client_of(script) as client:
        with pytest.raises(expected) as raised:
            await client.append("orders", (b"x",))
    if isinstance(raised.value, NotMaster):
        assert raised.value.hint == "n1"
    if isinstance(raised.value, ReplicationTimeout):
        assert (raised.value.first, raised.value.last) == (100, 300)


async def test_what_the_node_would_refuse_is_refused_here(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[frames.Request] = []

    async def script(node: ScriptedNode) -> None:
        while True:
            seen.append(await node.next())

    async with client_of(script) as client:
        with pytest.raises(TooLarge, match="1001 records is above the node's limit, 1000"):
            await client.append("orders", (b"",) * 1001)
        with pytest.raises(TooLarge, match="above"):
            await client.append("orders", (bytes(frames.FRAME_BYTES_MAX),))
        assert client.unanswered_count == 0
        for bad in (Message("t", b"", queue_id=-1), Message("t" * 256, b""), Message("", b"")):
            with pytest.raises(RequestRefused):
                await client.append("orders", (bad,))
        for group in ("", "g" * 256):
            with pytest.raises(RequestRefused):
                await client.append(group, (b"x",))
        with pytest.raises(RequestRefused):
            await client.append("orders", ())
        with pytest.raises(RequestRefused):
            await client.read("orders", -1, 1000, False)
        with pytest.raises(RequestRefused):
            await client.read("orders", 2**70, 1000, False)
        with pytest.raises(RequestRefused):
            client.tail("orders", -1)
        await trio.sleep(1)
    assert seen == []
