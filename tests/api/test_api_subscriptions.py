"""Tails and watches over the API socket: credit, ends, what a slow client costs."""

import attrs
import pytest
import trio
from api_kit import BareClient, MemoryNode, bare_client, serving
from trio.testing import MockClock

from actors.api.convert import RECORD_COST_BYTES, from_group_state
from actors.api.limits import ApiLimits
from actors.events.codec import decode_line
from actors.events.runtime import ActorRestarted
from wire.api import frames


def filled(count: int, size: int = 100) -> MemoryNode:
    return MemoryNode(stored=[bytes(size)] * count, acknowledged=100 * count)


def tail(number: int = 1, start: int | None = 0, credit: int = 1 << 20) -> frames.Tail:
    return frames.Tail(id=number, group="orders", start=start, max_bytes=1000, credit_bytes=credit)


async def batches(client: BareClient, records: int) -> list[frames.Batch]:
    """The next batches, up to so many records in all."""
    found: list[frames.Batch] = []
    while sum(len(batch.records) for batch in found) < records:
        batch = await client.receive()
        assert isinstance(batch, frames.Batch), batch
        found.append(batch)
    return found


async def quiet(client: BareClient, seconds: float = 5.0) -> None:
    """Nothing comes."""
    with trio.move_on_after(seconds):
        raise AssertionError(await client.socket.receive())


async def test_a_tail_gives_what_is_there_and_what_comes(autojump_clock: MockClock) -> None:
    node = filled(25)
    async with serving(node) as served, bare_client(served) as client:
        await client.send(tail())
        got = await batches(client, 25)
        assert [record.position for batch in got for record in batch.records] == list(
            range(0, 2500, 100)
        )
        assert [len(batch.records) for batch in got] == [10, 10, 5]
        assert got[0].cost_bytes == 10 * (100 + RECORD_COST_BYTES)
        await quiet(client)
        await client.send(frames.Append(id=2, group="orders", records=(b"new",)))
        answers = [await client.receive(), await client.receive()]
        assert {type(answer) for answer in answers} == {frames.Appended, frames.Batch}


async def test_a_watched_part_is_pushed_at_once_and_when_it_changes(
    autojump_clock: MockClock,
) -> None:
    node = MemoryNode()
    async with serving(node) as served, bare_client(served) as client:
        first = await client.ask(frames.WatchGroup(id=1, group="orders"))
        assert first == from_group_state(1, node.state)
        node.stir()
        await quiet(client)
        node.state = attrs.evolve(node.state, state="fenced", reason="n1 is ahead")
        node.stir()
        assert await client.receive() == from_group_state(1, node.state)
        await client.send(frames.Cancel(id=1))
        assert await client.receive() == frames.Ended(id=1)


async def test_a_tail_from_the_end_gives_only_what_comes(autojump_clock: MockClock) -> None:
    node = filled(25)
    async with serving(node) as served, bare_client(served) as client:
        await client.send(tail(start=None))
        await quiet(client)
        await client.send(frames.Append(id=2, group="orders", records=(b"new",)))
        await client.receive()
        await client.receive()
        await client.send(frames.Cancel(id=1))
        assert await client.receive() == frames.Ended(id=1)


@pytest.mark.parametrize("text", [False, True])
async def test_a_tail_sends_no_more_than_its_credit(text: bool, autojump_clock: MockClock) -> None:
    node = filled(100)
    async with serving(node) as served, bare_client(served, text=text) as client:
        cost = 10 * (100 + RECORD_COST_BYTES)
        await client.send(tail(credit=2 * cost))
        await batches(client, 20)
        await quiet(client)
        assert node.reads == 2, "what cannot be sent is not read"
        await client.send(frames.Grant(id=1, credit=1))
        await batches(client, 10)
        await quiet(client)
        await client.send(frames.Grant(id=1, credit=cost))
        await batches(client, 10)
        await quiet(client)


async def test_a_tail_waits_for_what_is_acknowledged_and_not_yet_here(
    autojump_clock: MockClock,
) -> None:
    node = filled(20)
    node.held_end = 500
    async with serving(node) as served, bare_client(served) as client:
        await client.send(tail())
        await batches(client, 5)
        await quiet(client, 3600.0)
        assert node.reads < 5, "it does not ask again and again"
        node.held_end = 2000
        node.stir()
        await batches(client, 15)


async def test_a_tail_over_more_than_a_frame_loses_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = filled(40)
    async with serving(node) as served, bare_client(served) as client:
        monkeypatch.setattr(frames, "FRAME_BYTES_MAX", 900)
        await client.send(tail())
        got = await batches(client, 40)
        assert [record.position for batch in got for record in batch.records] == list(
            range(0, 4000, 100)
        )
        assert len(got) == 8


async def test_offsets_are_reported_at_once_and_as_they_change(autojump_clock: MockClock) -> None:
    node = filled(1)
    async with serving(node) as served, bare_client(served) as client:
        first = await client.ask(frames.WatchOffsets(id=1, group="orders"))
        assert isinstance(first, frames.Offsets)
        assert (first.acknowledged, first.master) == (100, "n0")
        await quiet(client)
        for acknowledged in range(200, 2000, 100):
            node.acknowledged = acknowledged
            node.stir()
        second = await client.receive()
        assert isinstance(second, frames.Offsets)
        assert second.acknowledged == 1900, "those between were never sent"
        await quiet(client)
        assert await client.ask(frames.Cancel(id=1)) == frames.Ended(id=1)


async def test_events_are_reported_within_their_credit(autojump_clock: MockClock) -> None:
    node = MemoryNode()
    async with serving(node) as served, bare_client(served) as client:
        await client.send(frames.TailEvents(id=1, credit_lines=10))
        await trio.sleep(1)
        for number in range(30):
            node.sink("/n0/x", 1, ActorRestarted(restarts=number))
        first = await client.receive()
        assert isinstance(first, frames.Events)
        assert len(first.lines) == 10
        await quiet(client)
        await client.send(frames.Grant(id=1, credit=100))
        second = await client.receive()
        assert isinstance(second, frames.Events)
        events = [decode_line(line).event for line in (*first.lines, *second.lines)]
        assert events == [ActorRestarted(restarts=number) for number in range(30)]
        node.sink.close()
        assert isinstance(await client.receive(), frames.Events)
        assert await client.receive() == frames.Ended(id=1)


async def test_subscriptions_are_bounded(autojump_clock: MockClock) -> None:
    limits = ApiLimits(subscriptions=2)
    async with serving(limits=limits) as served, bare_client(served) as client:
        await client.send(tail(1, None), tail(2, None))
        failed = await client.ask(tail(3, None))
        assert isinstance(failed, frames.Failed)
        assert (failed.id, failed.error) == (3, "BadRequest")
        assert "2 subscriptions" in failed.message
        assert await client.ask(frames.Cancel(id=1)) == frames.Ended(id=1)
        await client.send(tail(3, None))
        await quiet(client)


async def test_a_number_of_a_subscription_is_in_use(autojump_clock: MockClock) -> None:
    async with serving() as served, bare_client(served) as client:
        await client.send(tail(1, None))
        failed = await client.ask(frames.GetStatus(id=1))
        assert isinstance(failed, frames.Failed)
        assert failed.message == "request number 1 is in use"


async def test_what_does_not_run_cannot_be_cancelled(autojump_clock: MockClock) -> None:
    async with serving() as served, bare_client(served) as client:
        failed = await client.ask(frames.Cancel(id=9))
        assert isinstance(failed, frames.Failed)
        assert failed.message == "request number 9 is not a running subscription"
        await client.send(frames.Grant(id=9, credit=1))
        await quiet(client)


async def test_a_subscription_that_fails_says_so_and_is_over(autojump_clock: MockClock) -> None:
    async with serving(filled(3)) as served, bare_client(served) as client:
        failed = await client.ask(tail(1, 50))
        assert failed == frames.Failed(id=1, error="BadRequest", message="no record begins at 50")
        await client.send(tail(1, 0))
        await batches(client, 3)


async def test_a_slow_client_costs_one_batch_per_subscription(
    autojump_clock: MockClock,
) -> None:
    node = MemoryNode(stored=[bytes(900_000)] * 50, acknowledged=5000)
    async with serving(node, limits=ApiLimits(send_timeout_s=1000)) as served:
        async with bare_client(served) as client:
            await client.send(tail(credit=60 << 20))
            await trio.sleep(100)
            assert node.reads <= 6
            await batches(client, 50)
