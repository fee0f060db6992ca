"""The client against a node that answers by script: order, bounds, credit, every error path."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from client_kit import (
    NODE,
    PORT,
    ScriptedNode,
    appended,
    batch,
    client_of,
    machines,
    offsets,
    scripted,
    welcome,
)

from actors.api import convert
from actors.api.failures import RequestRefused
from actors.client import Client, connect
from actors.client.following import WATCH_IDLE_PUSHES
from actors.client.requests import PROBE_INTERVAL_S, PROBE_TIMEOUT_S
from actors.errors import Closed, LogFull, NodeStopped, NotMaster, ReplicationTimeout, TooLarge
from actors.log_types import Message, Receipt
from wire import api

Outcome = Receipt | Exception


async def sleep_for_ever(node: ScriptedNode) -> None:
    await trio.sleep_forever()


async def take_all(node: ScriptedNode) -> None:
    """Read requests and answer none."""
    while True:
        await node.next()


def kinds(outcomes: list[Outcome]) -> list[str]:
    return [type(outcome).__name__ for outcome in outcomes]


# Connecting.


async def test_welcome_tells_who_the_node_is(autojump_clock: trio.testing.MockClock) -> None:
    async with client_of(sleep_for_ever) as client:
        assert (client.identity.cluster, client.identity.node) == ("demo", "n0")
        assert (client.identity.boot, client.identity.groups) == (3, ("orders", "bills"))
        assert client.in_flight_requests_max == 4
        assert repr(client) == "<Client of n0 at 10.0.0.1:10911>"
        assert client.log("bills").name == "bills"
        with pytest.raises(KeyError, match="n0 is no member of group 'x'"):
            client.log("x")


async def test_nobody_listens(autojump_clock: trio.testing.MockClock) -> None:
    async with machines() as found:
        with pytest.raises(ConnectionRefusedError):
            async with connect((NODE, PORT), network=found.home):
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
        with pytest.raises(TimeoutError, match=r"10\.0\.0\.1:10911: no answer within 3 s"):
            async with connect((NODE, PORT), network=found.home, timeout_s=3.0):
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
        with pytest.raises(ConnectionError, match="not a node's API socket"):
            async with connect((NODE, PORT), network=found.home):
                raise AssertionError("not reached")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("hello", "error", "text"),
    [
        (welcome(version=2), RequestRefused, "the node chose version 2"),
        (api.Failed(id=0, error=api.ERROR_VERSION, message="too old"), RequestRefused, "too old"),
        (api.Stopping(id=0), ConnectionError, "Stopping where a welcome was due"),
    ],
)
async def test_a_hello_without_welcome(
    autojump_clock: trio.testing.MockClock, hello: api.Answer, error: type, text: str
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
        async with connect((NODE, PORT), network=found.home) as client:
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

    async def script(node: ScriptedNode) -> None:
        requests = [await node.next() for _ in range(4)]
        for number, request in enumerate(requests):
            assert isinstance(request, api.Append)
            (body,) = request.records
            assert isinstance(body, bytes)
            order.append(body)
            await node.send(appended(request.id, 100 * number))
        await take_all(node)

    outcomes: list[Outcome] = []
    async with client_of(script) as client:
        for number in range(4):
            await client.submit("orders", (b"%d" % number,), outcomes.append)
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
            assert isinstance(request, api.Append)
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
        (api.Failed(id=1, error="NotMaster", message="m", hint="n1"), NotMaster),
        (api.Failed(id=1, error="LogFull", message="m"), LogFull),
        (
            api.Failed(id=1, error="ReplicationTimeout", message="m", first=100, last=300),
            ReplicationTimeout,
        ),
        (api.Failed(id=1, error=api.ERROR_UNKNOWN_GROUP, message="m"), RequestRefused),
        (api.Failed(id=1, error="SomethingNew", message="m"), RequestRefused),
    ],
)
async def test_errors_are_raised_as_the_node_raised_them(
    autojump_clock: trio.testing.MockClock, failed: api.Failed, expected: type[Exception]
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
    seen: list[api.Request] = []

    async def script(node: ScriptedNode) -> None:
        while True:
            seen.append(await node.next())

    async with client_of(script) as client:
        with pytest.raises(TooLarge, match="1001 records is above the node's limit, 1000"):
            await client.append("orders", (b"",) * 1001)
        with pytest.raises(TooLarge, match="above"):
            await client.append("orders", (bytes(api.FRAME_BYTES_MAX),))
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


# The end of a connection.


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
        assert waiting == []  # it was raised, so it is not told again
        with pytest.raises(Closed, match="the connection to n0 has ended: connection lost"):
            await client.append("orders", (b"x",))


async def test_what_was_never_sent_is_not_stored(autojump_clock: trio.testing.MockClock) -> None:
    outcomes: list[Outcome] = []
    async with scripted(sleep_for_ever, hello=welcome(in_flight_bytes_max=10**8)) as (found, _):
        async with connect((NODE, PORT), network=found.home) as client:
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
        api.Stopping(id=1),
        appended(99),
        api.Ended(id=1000),
        api.Failed(id=1000, error="Internal", message="of nothing"),
    ],
)
async def test_an_answer_that_nobody_asked_for_ends_the_connection(
    autojump_clock: trio.testing.MockClock, answer: api.Answer
) -> None:
    async def script(node: ScriptedNode) -> None:
        await node.next()
        await node.send(answer)
        await take_all(node)

    async with client_of(script) as client:
        with pytest.raises(NodeStopped):
            await client.append("orders", (b"x",))
        with pytest.raises(Closed, match="does not keep to the protocol"):
            await client.status()


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
        await node.send(api.Failed(id=None, error=api.ERROR_BAD_FRAME, message="byte 3"))
        await node.frames.close(1002)

    async with client_of(script) as client:
        with pytest.raises(Closed, match="BadFrame: byte 3"):
            await client.status()


async def test_a_machine_that_is_gone_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    async with scripted(take_all) as (found, _):
        async with connect((NODE, PORT), network=found.home) as client:
            found.sim.cut_both("home", "n0")
            started_s = trio.current_time()
            with pytest.raises(NodeStopped, match="no word for 40 s"):
                await client.append("orders", (b"x",))
            waited_s = trio.current_time() - started_s
    assert PROBE_TIMEOUT_S <= waited_s <= 2 * PROBE_INTERVAL_S + PROBE_TIMEOUT_S


async def test_a_node_that_lives_may_take_its_time(autojump_clock: trio.testing.MockClock) -> None:
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


# Following.


async def test_offsets_are_watched_once_for_all_who_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[api.Request] = []

    async def script(node: ScriptedNode) -> None:
        seen.append(await node.next())
        for end in (0, 100, 200, 300):
            await node.send(offsets(seen[0].id, end))
            await trio.sleep(1)
        for _ in range(WATCH_IDLE_PUSHES):
            await node.send(offsets(seen[0].id, 300))
        seen.append(await node.next())
        await node.send(api.Ended(id=seen[1].id))
        seen.append(await node.next())
        await node.send(offsets(seen[2].id, 500))
        await take_all(node)

    ends: list[int] = []

    async def wait(client: Client, above: int) -> None:
        ends.append((await client.wait_acknowledged("orders", above)).acknowledged)

    async with client_of(script) as client:
        async with trio.open_nursery() as nursery:
            for above in (250, 50, 150, 50):
                nursery.start_soon(wait, client, above)
        assert ends == [100, 100, 200, 300]
        await trio.sleep(5)
        await wait(client, 400)
    assert ends[-1] == 500
    assert [type(one).__name__ for one in seen] == ["WatchOffsets", "Cancel", "WatchOffsets"]


async def test_offsets_that_differ(autojump_clock: trio.testing.MockClock) -> None:
    async def script(node: ScriptedNode) -> None:
        await node.send(offsets((await node.next()).id, 100))
        watch = await node.next()
        for end in (100, 100, 200):
            await trio.sleep(1)
            await node.send(offsets(watch.id, end))
        await take_all(node)

    async with client_of(script) as client:
        known = await client.wait_offsets("orders", None)
        assert known.acknowledged == 100
        assert (await client.wait_offsets("orders", known)).acknowledged == 200


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (api.Failed(id=1, error=api.ERROR_UNKNOWN_GROUP, message="no such"), RequestRefused),
        (api.Ended(id=1), Closed),
    ],
)
async def test_a_watch_that_ends_is_told_and_begun_anew(
    autojump_clock: trio.testing.MockClock, word: api.Answer, expected: type[Exception]
) -> None:
    async def script(node: ScriptedNode) -> None:
        await node.next()
        await node.send(word)
        await node.send(offsets((await node.next()).id, 100))
        await take_all(node)

    async with client_of(script) as client:
        with pytest.raises(expected):
            await client.wait_acknowledged("orders", 0)
        assert (await client.wait_acknowledged("orders", 0)).acknowledged == 100


async def test_tail_grants_what_it_has_received(autojump_clock: trio.testing.MockClock) -> None:
    granted: list[int] = []

    async def script(node: ScriptedNode) -> None:
        request = await node.next()
        assert isinstance(request, api.Tail)
        assert (request.start, request.credit_bytes) == (200, 1000)
        credit, start = request.credit_bytes, 200
        while True:
            while credit > 0:
                await node.send(batch(request.id, start, cost_bytes=300))
                credit, start = credit - 300, start + 100
            grant = await node.next()
            assert isinstance(grant, api.Grant)
            granted.append(grant.credit)
            credit += grant.credit

    async with client_of(script) as client:
        async with client.tail("orders", 200, credit_bytes=1000) as batches:
            starts = [(await batches.receive()).records[0].position for _ in range(20)]
    assert starts == [200 + 100 * number for number in range(20)]
    assert set(granted) == {600}


async def test_tail_sends_no_grant_before_something_is_received(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[api.Request] = []

    async def script(node: ScriptedNode) -> None:
        request = await node.next()
        await node.send(*(batch(request.id, 100 * n, cost_bytes=300) for n in range(4)))
        while True:
            seen.append(await node.next())

    async with client_of(script) as client:
        tail = client.tail("orders", 0, credit_bytes=1000)
        await trio.sleep(10)
        assert seen == []
        await tail.aclose()
        await tail.aclose()
        await trio.sleep(1)
        assert seen == [api.Cancel(id=1)]
        with pytest.raises(trio.ClosedResourceError):
            await tail.receive()


async def test_pushing_without_credit_ends_the_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(node: ScriptedNode) -> None:
        request = await node.next()
        await node.send(*(batch(request.id, 100 * n, cost_bytes=500) for n in range(3)))
        await take_all(node)

    async with client_of(script) as client:
        tail = client.tail("orders", 0, credit_bytes=1000)
        await trio.sleep(1)
        with pytest.raises(Closed, match="pushed more than the credit of 1000"):
            for _ in range(3):
                await tail.receive()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (api.Failed(id=1, error=api.ERROR_BAD_REQUEST, message="no record"), RequestRefused),
        (api.Ended(id=1), trio.EndOfChannel),
        (api.Stopping(id=1), Closed),
    ],
)
async def test_what_came_before_the_end_is_received_first(
    autojump_clock: trio.testing.MockClock, word: api.Answer, expected: type[Exception]
) -> None:
    async def script(node: ScriptedNode) -> None:
        request = await node.next()
        await node.send(batch(request.id, 0, cost_bytes=1), word)
        await take_all(node)

    async with client_of(script) as client:
        tail = client.tail("orders", 0)
        await trio.sleep(1)
        assert (await tail.receive()).next == 100
        with pytest.raises(expected):
            await tail.receive()


async def test_a_late_word_about_what_has_ended_is_harmless(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(node: ScriptedNode) -> None:
        request = await node.next()
        await node.send(api.Ended(id=request.id))
        cancel = await node.next()  # it crossed with the end
        await node.send(api.Failed(id=cancel.id, error=api.ERROR_BAD_REQUEST, message="is none"))
        await node.send(api.Status(id=(await node.next()).id, value={"node": "n0"}))
        await take_all(node)

    async with client_of(script) as client:
        tail = client.tail("orders", 0)
        await tail.aclose()
        assert await client.status() == {"node": "n0"}


async def test_events_are_pushed_within_a_credit_of_lines(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(node: ScriptedNode) -> None:
        request = await node.next()
        assert isinstance(request, api.TailEvents)
        assert request.credit_lines == 4
        await node.send(api.Events(id=request.id, lines=("a", "b"), missed=0))
        assert await node.next() == api.Grant(id=request.id, credit=2)
        await node.send(api.Events(id=request.id, lines=("f",), missed=3))
        await take_all(node)

    async with client_of(script) as client, client.events(credit_lines=4) as events:
        assert (await events.receive()).lines == ("a", "b")
        received = await events.receive()
        assert (received.lines, received.missed) == (("f",), 3)
