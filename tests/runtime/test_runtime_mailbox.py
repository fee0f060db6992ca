"""Bounds, lanes, conflation, the queue of blocked senders, dead letters, statistics."""

from typing import Any

import pytest
import trio
from runtime_gate import CONFLATE, Acked, BytesGate, Data, Gone, Held, RefusingGate, Role
from runtime_probe import Ask, Note, settle

from actors.events import runtime as events
from actors.runtime import (
    MailboxFull,
    MailboxSpec,
    ReplyTo,
    Restart,
    SpecError,
    StopReason,
)
from actors.runtime.mailbox import GONE_MIN, Mailbox


def box(**spec: Any) -> Mailbox:
    return Mailbox(MailboxSpec(**spec), "/n0/a")


async def test_conflation_keeps_the_order_of_a_session(autojump_clock):
    """Replacing in place would put 8's first acknowledgement before Gone(7)."""
    mailbox = box(conflate={Acked: lambda m: "the slave"})
    for message in (Acked(connection=7), Gone(connection=7), Acked(connection=8)):
        assert mailbox.offer(message)
    assert mailbox.take() == [Gone(connection=7), Acked(connection=8)]
    mailbox = box(conflate=CONFLATE)
    for message in (Acked(connection=7), Gone(connection=7), Acked(connection=8)):
        assert mailbox.offer(message)
    assert mailbox.take() == [Acked(connection=7), Gone(connection=7), Acked(connection=8)]


async def test_the_newer_takes_the_tail_and_the_older_leaves(autojump_clock):
    mailbox = box(conflate=CONFLATE)
    sent = [
        Acked(connection=c, offset_bytes=o) for c, o in ((1, 1), (2, 1), (1, 2), (3, 1), (2, 2))
    ]
    for message in sent:
        assert mailbox.offer(message)
    assert mailbox.statistics().depth == 3
    assert mailbox.take() == [sent[2], sent[3], sent[4]]
    assert mailbox.statistics().conflated == 2
    assert mailbox.offer(sent[0])  # a new batch begins without memory of the last
    assert mailbox.take() == [sent[0]]


async def test_conflated_messages_never_wait_and_leave_no_trace(autojump_clock):
    mailbox = box(capacity=2, conflate=CONFLATE)
    assert mailbox.offer(Note(text="1"))
    assert mailbox.offer(Note(text="2"))
    for offset in range(10 * GONE_MIN):
        assert mailbox.offer(Acked(connection=1, offset_bytes=offset))
        assert len(mailbox.lane.items) <= 3 + 2 * GONE_MIN
    assert not mailbox.offer(Note(text="3"))
    kept = [Note(text="1"), Note(text="2"), Acked(connection=1, offset_bytes=10 * GONE_MIN - 1)]
    assert mailbox.take() == kept


async def test_places_that_were_left_take_no_room(autojump_clock):
    mailbox = box(capacity=3, conflate=CONFLATE)
    for offset in range(5):
        mailbox.offer(Acked(connection=1, offset_bytes=offset))
    assert mailbox.offer(Note(text="1"))
    assert mailbox.offer(Note(text="2"))
    assert not mailbox.offer(Note(text="3"))


async def test_conflation_counts_the_bytes_of_what_stays(autojump_clock):
    mailbox = box(
        capacity_bytes=10, size_of=lambda m: getattr(m, "offset_bytes", 1), conflate=CONFLATE
    )
    mailbox.offer(Acked(connection=1, offset_bytes=9))
    mailbox.offer(Acked(connection=1, offset_bytes=4))
    assert mailbox.statistics().size_bytes == 4


async def test_bytes_are_bounded_but_one_large_message_passes_when_empty(autojump_clock):
    mailbox = box(capacity_bytes=10, size_of=lambda m: len(m.body))
    large, small = Data(body=b"x" * 50), Data(body=b"x" * 5)
    assert mailbox.offer(large)
    assert not mailbox.offer(small)
    assert mailbox.take() == [large]
    assert mailbox.offer(small)
    assert mailbox.offer(small)
    assert not mailbox.offer(Data(body=b"x"))
    assert mailbox.offer(Data(body=b"")) is True
    assert mailbox.statistics().size_bytes == 10


def test_a_mailbox_that_contradicts_itself_is_refused():
    with pytest.raises(SpecError, match="at least one"):
        MailboxSpec(capacity=0)
    with pytest.raises(SpecError, match="go together"):
        MailboxSpec(capacity_bytes=1)
    with pytest.raises(SpecError, match="either control or conflated"):
        MailboxSpec(control=(Acked,), conflate=CONFLATE)


async def test_the_whole_mailbox_comes_as_one_batch_with_control_first(autojump_clock):
    async with Held() as held:
        for message in ("a", Role(name="slave"), "b"):
            await held.ref.tell(message)
        assert await held.next_batches(3) == [("first",), (Role(name="slave"),), ("a", "b")]


async def test_control_finds_room_in_a_full_mailbox_and_is_bounded_itself(autojump_clock):
    async with Held() as held:
        for message in "abc":
            await held.ref.tell(message)
        assert not held.ref.offer("d")
        assert held.ref.offer(Role(name="1"))
        assert not held.ref.offer(Role(name="2"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(held.ref.tell, Role(name="2"))
            await settle()
            assert held.statistics().senders_waiting == 1
            assert await held.next_batches(4) == [
                ("first",),
                (Role(name="1"),),
                (Role(name="2"),),
                ("a", "b", "c"),
            ]


async def test_blocked_senders_are_served_in_order(autojump_clock):
    async with Held() as held:
        done: list[int] = []

        async def send(number: int) -> None:
            await held.ref.tell(number)
            done.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(send, number)
                await settle()
            assert done == [0, 1, 2]
            assert not held.ref.offer("overtaking")
            assert await held.next_batches() == [("first",)]
            assert sorted(done) == [0, 1, 2, 3, 4, 5]  # taken, and the next three let in
            assert not held.ref.offer("overtaking")
            batches = await held.next_batches(4)
            assert batches == [(0, 1, 2), (3, 4, 5), (6, 7, 8), (9,)]
        assert sorted(done) == list(range(10))


async def test_a_tell_in_a_burst_after_a_block_does_not_overtake(autojump_clock):
    async with Held() as held, trio.open_nursery() as nursery:
        for message in "abc":
            await held.ref.tell(message)
        nursery.start_soon(held.ref.tell, "blocked")
        await settle()
        await held.next_batches()
        for message in "xy":
            await held.ref.tell(message)
        batches = await held.next_batches(3)
        assert batches == [("a", "b", "c"), ("blocked", "x", "y")]


async def test_a_sender_that_is_cancelled_while_it_waits_has_sent_nothing(autojump_clock):
    async with Held() as held:
        for message in "abc":
            await held.ref.tell(message)
        with trio.move_on_after(1.0) as scope:
            await held.ref.tell("cancelled")
        assert scope.cancelled_caught
        assert held.statistics().senders_waiting == 0
        assert await held.next_batches(3) == [("first",), ("a", "b", "c")]
        assert held.ref.offer("free again")


async def test_cancel_while_waking_sends_exactly_once(autojump_clock):
    """The sender was let in, and is cancelled before its task has run again: it did send."""
    async with Held() as held:
        for message in "abc":
            await held.ref.tell(message)
        scope = trio.CancelScope()
        passed: list[str] = []

        async def send() -> None:
            with scope:
                await held.ref.tell("woken")
                passed.append("returned")
                await trio.lowlevel.checkpoint()
                passed.append("never")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await settle()
            mailbox = held.ref.mailbox
            assert mailbox is not None
            assert mailbox.take() == ["a", "b", "c"]  # wakes the sender
            scope.cancel()
        assert passed == ["returned"]
        assert mailbox.take() == ["woken"]


async def test_cancel_before_waking_lets_the_next_one_in(autojump_clock):
    """The one at the head is cancelled in the same tick in which room appears."""
    async with Held() as held:
        for message in "abc":
            await held.ref.tell(message)
        scope = trio.CancelScope()
        passed: list[str] = []

        async def send(name: str, own: trio.CancelScope) -> None:
            with own:
                await held.ref.tell(name)
                passed.append(name)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, "head", scope)
            await settle()
            nursery.start_soon(send, "next", trio.CancelScope())
            await settle()
            scope.cancel()
            mailbox = held.ref.mailbox
            assert mailbox is not None
            assert mailbox.take() == ["a", "b", "c"]
        assert passed == ["next"]
        assert mailbox.take() == ["next"]


async def test_those_behind_a_cancelled_sender_stay_in_line(autojump_clock):
    """Who was sent must not depend on the order in which one cancellation reaches several tasks."""
    async with Held(BytesGate) as held:
        await held.ref.tell(Data(body=b"x" * 5))
        scope = trio.CancelScope()
        passed: list[int] = []

        async def send_one(size: int) -> None:
            await held.ref.tell(Data(body=b"x" * size))
            passed.append(size)

        async def send(own: trio.CancelScope, *sizes: int) -> None:
            with own:
                async with trio.open_nursery() as both:
                    for each in sizes:
                        both.start_soon(send_one, each)
                        await settle()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, scope, 9, 3)
            await settle()
            nursery.start_soon(send, trio.CancelScope(), 4)
            await settle()
            scope.cancel()
            await settle()
            assert passed == []
            assert not held.ref.offer(Data(body=b""))  # nor does anybody overtake
            batches = await held.next_batches(3)
            assert [[len(m.body) for m in batch] for batch in batches[1:]] == [[5], [4]]
        assert passed == [4]


async def test_a_stop_wakes_blocked_senders_whose_messages_are_dead_letters(autojump_clock):
    async with Held(restart=Restart.TEMPORARY) as held:
        for message in "ab":
            await held.ref.tell(message)
        await held.ref.tell(Note(text="c"))
        returned: list[str] = []

        async def send() -> None:
            await held.ref.tell(Acked(connection=1))  # conflated: does not wait
            await held.ref.tell("blocked")
            returned.append("blocked")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await settle()
            held.ref.mailbox.stop(StopReason.NORMAL)
            await held.next_batches()
        assert returned == ["blocked"]
        held.system.registry.flush()
    dead = {(e.message_type, e.count) for e in held.seen.of(events.DeadLettered)}
    counts: dict[str, int] = {}
    for event in held.seen.of(events.DeadLettered):
        counts[event.message_type] = counts.get(event.message_type, 0) + event.count
    assert counts == {"str": 3, "Note": 1, "Acked": 1}, dead


async def test_the_first_reason_to_stop_counts(autojump_clock):
    mailbox = box()
    mailbox.stop(StopReason.NORMAL)
    mailbox.stop(StopReason.SHUTDOWN)
    assert mailbox.stopping is StopReason.NORMAL


async def test_a_mailbox_that_refuses(autojump_clock):
    async with Held(RefusingGate) as held:
        for message in "abc":
            await held.ref.tell(message)
        await held.ref.tell("dead")  # does not wait
        assert not held.ref.offer("no")
        with pytest.raises(MailboxFull):
            await held.ref.ask(str, lambda r: Ask(reply_to=r), timeout_s=1.0)
        failed: list[Any] = []
        await held.ref.tell(Data(body=b"", reply_to=ReplyTo.local(failed.append)))
        assert isinstance(failed[0], MailboxFull)
        assert held.statistics().refused == 4
        assert [e.message_type for e in held.seen.of(events.DeadLettered)] == ["str", "Data"]
