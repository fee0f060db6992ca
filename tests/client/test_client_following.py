"""What the client follows: offsets watched once for all, credit given as it is used."""

from __future__ import annotations

import pytest
import trio
from client_kit import (
    ScriptedNode,
    batch,
    client_of,
    offsets,
    take_all,
)

from actors.api.failures import RequestRefused
from actors.client import Client
from actors.client.following import WATCH_IDLE_PUSHES
from actors.errors import Closed
from wire.api import frames


async def test_offsets_are_watched_once_for_all_who_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[frames.Request] = []

    async def script(node: ScriptedNode) -> None:
        seen.append(await node.next())
        for end in (0, 100, 200, 300):
            await node.send(offsets(seen[0].id, end))
            await trio.sleep(1)
        for _ in range(WATCH_IDLE_PUSHES):
            await node.send(offsets(seen[0].id, 300))
        seen.append(await node.next())
        await node.send(frames.Ended(id=seen[1].id))
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
        (frames.Failed(id=1, error=frames.ERROR_UNKNOWN_GROUP, message="no such"), RequestRefused),
        (frames.Ended(id=1), Closed),
    ],
)
async def test_a_watch_that_ends_is_reported_and_begun_anew(
    autojump_clock: trio.testing.MockClock, word: frames.Answer, expected: type[Exception]
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
        assert isinstance(request, frames.Tail)
        assert (request.start, request.credit_bytes) == (200, 1000)
        credit, start = request.credit_bytes, 200
        while True:
            while credit > 0:
                await node.send(batch(request.id, start, cost_bytes=300))
                credit, start = credit - 300, start + 100
            grant = await node.next()
            assert isinstance(grant, frames.Grant)
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
    seen: list[frames.Request] = []

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
        assert seen == [frames.Cancel(id=1)]
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
        (frames.Failed(id=1, error=frames.ERROR_BAD_REQUEST, message="no record"), RequestRefused),
        (frames.Ended(id=1), trio.EndOfChannel),
        (frames.Stopping(id=1), Closed),
    ],
)
async def test_what_came_before_the_end_is_received_first(
    autojump_clock: trio.testing.MockClock, word: frames.Answer, expected: type[Exception]
) -> None:
    async def script(node: ScriptedNode) -> None:
        request = await node.next()
        await node.send(batch(request.id, 0, cost_bytes=1), word)
        while True:
            seen.append(await node.next())

    seen: list[frames.Request] = []

    async with client_of(script) as client:
        tail = client.tail("orders", 0)
        await trio.sleep(1)
        assert (await tail.receive()).next == 100
        with pytest.raises(expected):
            await tail.receive()
        await tail.aclose()
        await trio.sleep(1)
    assert not any(isinstance(request, frames.Cancel) for request in seen)


async def test_a_late_word_about_what_has_ended_is_harmless(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(node: ScriptedNode) -> None:
        request = await node.next()
        await node.send(frames.Ended(id=request.id))
        cancel = await node.next()  # it crossed with the end
        await node.send(
            frames.Failed(id=cancel.id, error=frames.ERROR_BAD_REQUEST, message="is none")
        )
        await node.send(frames.Status(id=(await node.next()).id, value={"node": "n0"}))
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
        assert isinstance(request, frames.TailEvents)
        assert request.credit_lines == 4
        await node.send(frames.Events(id=request.id, lines=("a", "b"), missed=0))
        assert await node.next() == frames.Grant(id=request.id, credit=2)
        await node.send(frames.Events(id=request.id, lines=("f",), missed=3))
        await take_all(node)

    async with client_of(script) as client, client.events(credit_lines=4) as events:
        assert (await events.receive()).lines == ("a", "b")
        received = await events.receive()
        assert (received.lines, received.missed) == (("f",), 3)
