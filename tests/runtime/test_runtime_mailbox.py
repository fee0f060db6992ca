"""Bounds, lanes, conflation, the queue of blocked senders, dead letters, statistics."""

from operator import attrgetter
from typing import Any

import attrs
import pytest
import trio
from runtime_probe import Ask, Boom, Crash, Events, Finish, Hang, Log, Note, settle

from actors.events import runtime as events
from actors.runtime import (
    Actor,
    ActorDown,
    ChildSpec,
    MailboxFull,
    MailboxSpec,
    Overflow,
    ReplyTo,
    Restart,
    SpecError,
    StopReason,
    SupervisorSpec,
    System,
    describe,
    open_system,
)
from actors.runtime.mailbox import GONE_MIN, Mailbox


@attrs.frozen(kw_only=True)
class Acked:
    connection: int
    offset_bytes: int = 0


@attrs.frozen(kw_only=True)
class Gone:
    connection: int


@attrs.frozen(kw_only=True)
class Data:
    body: bytes
    reply_to: ReplyTo[str] | None = None


@attrs.frozen(kw_only=True)
class Role:
    name: str


@attrs.frozen(kw_only=True)
class Pass:
    """Let the next batch be handled."""


def box(**spec: Any) -> Mailbox:
    return Mailbox(MailboxSpec(**spec), "/n0/a")


CONFLATE = {Acked: attrgetter("connection")}


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


# Through a running actor. `Gate` handles nothing until it is told Pass, so that its mailbox fills.


@attrs.define
class Gate(Actor[Any]):
    mailbox = MailboxSpec(capacity=3, control=(Role,), control_capacity=1, conflate=CONFLATE)
    log: list[Any]
    gate: trio.Semaphore

    async def handle_batch(self, messages: list[Any]) -> None:
        await self.gate.acquire()
        self.log.append(tuple(messages))
        for message in messages:
            if isinstance(message, Crash):
                raise Boom


@attrs.define
class RefusingGate(Gate):
    mailbox = MailboxSpec(capacity=3, overflow=Overflow.REFUSE)


@attrs.define
class BytesGate(Gate):
    mailbox = MailboxSpec(capacity_bytes=10, size_of=lambda m: len(getattr(m, "body", b"")))


class Held:
    """A system with one gate whose first batch is in work, so that its mailbox fills."""

    def __init__(self, kind: type[Gate] = Gate, **child: Any) -> None:
        self.log: list[Any] = []
        self.seen = Events()
        self.gate = trio.Semaphore(0)
        start = ChildSpec(name="g", start=lambda: kind(self.log, self.gate), **child)
        self.context = open_system("n0", SupervisorSpec(children=(start,)), events=self.seen)

    async def __aenter__(self) -> "Held":
        self.system: System = await self.context.__aenter__()
        self.ref = self.system.ref("/n0/g")
        await self.ref.tell("first")
        await settle()
        return self

    async def __aexit__(self, *error: Any) -> None:
        for _ in range(1000):
            self.gate.release()
        await self.context.__aexit__(*error)

    async def next_batches(self, count: int = 1) -> list[Any]:
        for _ in range(count):
            self.gate.release()
        await settle()
        batches = self.log[:]
        self.log.clear()
        return batches

    def statistics(self):
        return self.system.tree().children[0].mailbox


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


async def test_a_cancelled_large_message_lets_small_ones_in_behind_it(autojump_clock):
    async with Held(BytesGate) as held:
        await held.ref.tell(Data(body=b"x" * 5))
        scope = trio.CancelScope()
        passed: list[int] = []

        async def send(size: int, own: trio.CancelScope) -> None:
            with own:
                await held.ref.tell(Data(body=b"x" * size))
                passed.append(size)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, 9, scope)
            await settle()
            nursery.start_soon(send, 3, trio.CancelScope())
            await settle()
            assert passed == []
            scope.cancel()
            await settle()
            assert passed == [3]
        sizes = [[len(m.body) for m in batch] for batch in (await held.next_batches(2))[1:]]
        assert sizes == [[5, 3]]


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
        held.system.registry.flush_dead_letters()
    dead = {(e.message_type, e.count) for e in held.seen.of(events.DeadLettered)}
    counts: dict[str, int] = {}
    for event in held.seen.of(events.DeadLettered):
        counts[event.message_type] = counts.get(event.message_type, 0) + event.count
    assert counts == {"str": 3, "Note": 1, "Acked": 1}, dead


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


async def test_an_actor_never_waits_for_room_in_its_own_mailbox(autojump_clock):
    @attrs.define
    class Narcissus(Actor[int]):
        mailbox = MailboxSpec(capacity=2)

        async def handle(self, message: int) -> None:
            for number in range(3):
                await self.ctx.self_ref.tell(number)

    spec = SupervisorSpec(intensity=0, children=(ChildSpec(name="a", start=Narcissus),))
    with pytest.raises(ExceptionGroup) as caught:
        async with open_system("n0", spec) as system:
            await system.ref("/n0/a").tell(0)
            await trio.sleep_forever()
    assert "its own mailbox for ever" in describe(caught.value)


async def test_what_is_sent_between_two_lives_is_a_dead_letter(autojump_clock):
    from actors.runtime import Backoff

    log, seen = Log(), Events()
    child = log.child("a", backoff=Backoff(first_s=5.0, max_s=5.0))
    async with open_system("n0", SupervisorSpec(children=(child,)), events=seen) as system:
        a = system.ref("/n0/a")
        await a.tell(Crash())
        await a.tell(Note(text="unread, in the mailbox of the first life"))
        await settle()
        for _ in range(3):
            await a.tell(Note(text="in the gap"))
        assert not a.offer(Note(text="in the gap"))
        with pytest.raises(ActorDown):
            await a.ask(str, lambda r: Ask(reply_to=r), timeout_s=1.0)
        await trio.sleep(6.0)
        await a.tell(Note(text="second life"))
        await settle()
        assert log == ["+a#1", "-a crashed", "+a#2", "second life"]
    counts = [e.count for e in seen.of(events.DeadLettered)]
    assert counts == [1, 4]  # the first at once, the rest with the end (nothing came after 1 s)


async def test_dead_letters_are_told_at_most_once_a_second_and_counted_exactly(autojump_clock):
    seen = Events()
    async with open_system("n0", SupervisorSpec(), events=seen) as system:
        nobody = system.ref("/n0/nobody")
        for _ in range(30):
            await nobody.tell(Note(text=""))
            await trio.sleep(0.1)
        told = [e.count for e in seen.of(events.DeadLettered)]
        assert len(told) in (3, 4)
        await nobody.tell(Gone(connection=1))
    assert sum(e.count for e in seen.of(events.DeadLettered)) == 31
    assert [p for p, _, e in seen if isinstance(e, events.DeadLettered)][0] == "/n0/nobody"


async def test_messages_that_come_during_on_start_are_kept(autojump_clock):
    log = Log()

    async def tell_early(system: System) -> None:
        await trio.sleep(1.0)
        await system.registry.ref("/n0/b").tell(Note(text="early"))

    registries: list[Any] = []

    def build(registry):
        registries.append(registry)
        return SupervisorSpec(children=(log.child("b", probe={"start_s": 3.0}),))

    async with trio.open_nursery() as nursery:

        async def early() -> None:
            await trio.sleep(1.0)
            await registries[0].ref("/n0/b").tell(Note(text="early"))

        nursery.start_soon(early)
        async with open_system("n0", build):
            await settle()
    assert log == ["+b#1", "early", "-b shutdown"]


async def test_stop_takes_effect_after_the_current_message(autojump_clock):
    log, seen = Log(), Events()
    child = log.child("a", restart=Restart.TEMPORARY)
    async with open_system("n0", SupervisorSpec(children=(child,)), events=seen) as system:
        a = system.ref("/n0/a")
        failed: list[Any] = []
        for message in (Note(text="1"), Finish(), Note(text="2"), Note(text="3")):
            await a.tell(message)
        await a.tell(Data(body=b"", reply_to=ReplyTo.local(failed.append)))
        await settle()
        assert log == ["+a#1", "1", "-a normal"]
        assert isinstance(failed[0], ActorDown)
    counts: dict[str, int] = {}
    for event in seen.of(events.DeadLettered):
        counts[event.message_type] = counts.get(event.message_type, 0) + event.count
    assert counts == {"Note": 2, "Data": 1}


async def test_control_is_dealt_with_between_two_messages_of_a_batch(autojump_clock):
    log: list[Any] = []

    @attrs.define
    class Careful(Actor[Any]):
        mailbox = MailboxSpec(control=(Role,))

        async def handle(self, message: Any) -> None:
            log.append(message)
            if message == "b":
                await self.ctx.self_ref.tell(Role(name="slave"))

    spec = SupervisorSpec(children=(ChildSpec(name="a", start=Careful),))
    async with open_system("n0", spec) as system:
        for message in "abcd":
            await system.ref("/n0/a").tell(message)
        await settle()
    assert log == ["a", "b", Role(name="slave"), "c", "d"]


async def test_statistics(autojump_clock):
    async with Held() as held:
        await held.ref.tell("a")
        await trio.sleep(2.0)
        await held.ref.tell("b")
        box = held.statistics()
        assert (box.depth, box.received, box.peak, box.senders_waiting) == (2, 1, 2, 0)
        assert box.oldest_age_s == pytest.approx(2.0, abs=0.01)
        await held.next_batches(2)
        box = held.statistics()
        assert (box.depth, box.received, box.peak, box.oldest_age_s) == (0, 3, 2, 0.0)


async def test_a_busy_loop_lets_others_run(autojump_clock):
    """Virtual time stands still while work is done, so the count of messages must bound it."""

    @attrs.define
    class Restless(Actor[int]):
        count: int = 0

        async def handle(self, message: int) -> None:
            self.count += 1
            if self.count < 100_000 and not stop:
                await self.ctx.self_ref.tell(message)

    stop: list[int] = []
    spec = SupervisorSpec(children=(ChildSpec(name="a", start=Restless),))
    async with open_system("n0", spec) as system:
        await system.ref("/n0/a").tell(0)
        for _ in range(5):
            await trio.lowlevel.checkpoint()
        stop.append(1)
        received = system.tree().children[0].mailbox.received
        assert 0 < received < 100_000


def test_long_work_checkpoints_every_ten_milliseconds():
    """Each message costs 1 ms of a clock of our own; no step of the actor's task takes much more."""

    class Clock(trio.abc.Clock):
        now_s = 0.0

        def start_clock(self) -> None: ...
        def current_time(self) -> float:
            return self.now_s

        def deadline_to_sleep_time(self, deadline: float) -> float:
            return 0.0

    class Steps(trio.abc.Instrument):
        def __init__(self) -> None:
            self.took_s: list[float] = []

        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            self.began_s = clock.now_s

        def after_task_step(self, task: trio.lowlevel.Task) -> None:
            if task.name == "/n0/a#1":
                self.took_s.append(clock.now_s - self.began_s)

    @attrs.define
    class Slow(Actor[int]):
        async def handle(self, message: int) -> None:
            clock.now_s += 0.001

    async def main() -> None:
        spec = SupervisorSpec(children=(ChildSpec(name="a", start=Slow),))
        async with open_system("n0", spec) as system:
            for number in range(1000):
                await system.ref("/n0/a").tell(number)
            while clock.now_s < 0.9995:
                await trio.lowlevel.checkpoint()

    clock, steps = Clock(), Steps()
    trio.run(main, clock=clock, instruments=[steps])
    assert sum(steps.took_s) == pytest.approx(1.0)
    assert max(steps.took_s) <= 0.0125
    assert sum(1 for took_s in steps.took_s if took_s > 0) <= 102


async def test_hang_is_no_problem_of_others(autojump_clock):
    log = Log()
    spec = SupervisorSpec(children=(log.child("a", shutdown_s=0.0), log.child("b")))
    async with open_system("n0", spec) as system:
        await system.ref("/n0/a").tell(Hang())
        await system.ref("/n0/b").tell(Note(text="b runs"))
        await settle()
        assert log[2:] == ["b runs"]


async def test_the_simulators_hook_yields_before_each_tell(autojump_clock):
    log = Log()
    hooked: list[float] = []

    async def hook() -> None:
        hooked.append(trio.current_time())
        await trio.sleep(1.0)

    spec = SupervisorSpec(children=(log.child("a"),))
    async with open_system("n0", spec, tell_hook=hook) as system:
        a = system.ref("/n0/a")
        await a.tell(Note(text="1"))
        await a.tell(Note(text="2"))
        assert await a.ask(str, lambda r: Ask(reply_to=r), timeout_s=1.0) == "a#1"
        assert log == ["+a#1", "1", "2"]
    assert hooked == pytest.approx([0.0, 1.0, 2.0])
