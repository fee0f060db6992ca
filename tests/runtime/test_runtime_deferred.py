"""Deferred messages, which wake nobody, and the alarm that wakes the actor in the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs
import trio

from actors.events import runtime as events
from actors.runtime import Actor, ChildSpec, MailboxSpec, ReplyTo, SupervisorSpec, open_system
from actors.runtime.deadlines import STALE_MIN, Alarm, Deadlines
from actors.runtime.mailbox import DEFERRED_MAX, Mailbox
from actors.runtime.process import ActorProcess


@attrs.frozen
class Grew:
    """Conflated by name."""

    name: str
    size: int = 0


Batches = list[tuple[float, list[Any]]]


def reader(batches: Batches, busy_s: float = 0.0) -> SupervisorSpec:
    @attrs.define
    class Reader(Actor[Any]):
        mailbox = MailboxSpec(conflate={Grew: lambda message: message.name}, control=(int,))

        async def handle_batch(self, messages: list[Any]) -> None:
            batches.append((round(self.ctx.now_s(), 3), messages))
            if "timer" in messages:
                self.ctx.timers.start("t", 1.0, "tick")
            await trio.sleep(busy_s)

    return SupervisorSpec(children=(ChildSpec(name="a", start=Reader),))


def box(**spec: Any) -> Mailbox:
    return Mailbox(MailboxSpec(conflate={Grew: lambda message: message.name}, **spec), "/n0/a")


async def test_what_is_left_wakes_nobody_and_is_read_before_what_comes_later(autojump_clock):
    batches: Batches = []
    async with open_system("n0", reader(batches)) as system:
        ref = system.ref("/n0/a")
        ref.defer(Grew("a", 1))
        ref.defer(Grew("b", 1))
        ref.defer(Grew("a", 2))
        await trio.sleep(100.0)
        assert batches == []
        await ref.tell("mail")
        await trio.sleep(1.0)
        assert batches == [(100.0, [Grew("b", 1), Grew("a", 2), "mail"])]


async def test_what_is_left_for_a_time_is_read_when_it_is_over(autojump_clock):
    batches: Batches = []
    async with open_system("n0", reader(batches)) as system:
        ref = system.ref("/n0/a")
        ref.defer(Grew("never"))
        ref.defer(Grew("a", 1), within_s=2.0)
        await trio.sleep(1.5)
        ref.defer(Grew("a", 2), within_s=2.0)
        await trio.sleep(10.0)
        ref.defer(Grew("a", 3), within_s=1.0)
        await trio.sleep(10.0)
    assert batches == [(2.0, [Grew("never"), Grew("a", 2)]), (12.0, [Grew("a", 3)])]


async def test_an_actor_in_a_hurry_reads_deferred_messages_sooner_than_their_senders_say(
    autojump_clock,
):
    batches: Batches = []

    @attrs.define
    class Waiting(Actor[Any]):
        mailbox = MailboxSpec(conflate={Grew: lambda message: message.name})

        async def handle_batch(self, messages: list[Any]) -> None:
            batches.append((round(self.ctx.now_s(), 3), messages))
            if "meanwhile" in messages:
                self.ctx.self_ref.defer(Grew("d"), within_s=50.0)  # before the hurry
            for message in messages:
                if isinstance(message, float):
                    self.ctx.limit_delay(message)

    spec = SupervisorSpec(children=(ChildSpec(name="a", start=Waiting),))
    async with open_system("n0", spec) as system:
        ref = system.ref("/n0/a")
        await ref.tell(2.0)
        await trio.sleep(0.5)
        ref.defer(Grew("a"), within_s=50.0)
        await trio.sleep(3.5)
        ref.defer(Grew("b"), within_s=1.0)  # who is more in a hurry counts
        await trio.sleep(2.5)  # 6.5
        await ref.tell(math.inf)
        await trio.sleep(0.5)
        ref.defer(Grew("c"), within_s=5.0)
        await trio.sleep(13.0)  # 20.0
        await ref.tell("meanwhile")
        await ref.tell(3.0)
        await trio.sleep(30.0)
    assert batches == [
        (0.0, [2.0]),
        (2.0, [Grew("a")]),
        (5.0, [Grew("b")]),
        (6.5, [math.inf]),
        (10.0, [Grew("c")]),
        (20.0, ["meanwhile", 3.0]),
        (21.0, [Grew("d")]),
    ]


async def test_an_actor_that_allows_no_delay_is_woken_at_once(autojump_clock):
    """Also for what was deferred before it said so, and no more once it allows one again."""
    batches: Batches = []

    @attrs.define
    class Waiting(Actor[Any]):
        async def handle_batch(self, messages: list[Any]) -> None:
            batches.append((round(self.ctx.now_s(), 3), messages))
            if "meanwhile" in messages:
                self.ctx.self_ref.defer("a", within_s=50.0)
            for message in messages:
                if isinstance(message, float):
                    self.ctx.limit_delay(message)

    spec = SupervisorSpec(children=(ChildSpec(name="a", start=Waiting),))
    async with open_system("n0", spec) as system:
        ref = system.ref("/n0/a")
        await ref.tell("meanwhile")
        await ref.tell(0.0)
        await trio.sleep(1.5)
        ref.defer("b")
        await trio.sleep(1.5)
        await ref.tell(math.inf)
        ref.defer("c")
        await trio.sleep(9.0)
    assert batches == [
        (0.0, ["meanwhile", 0.0]),
        (0.0, ["a"]),
        (1.5, ["b"]),
        (3.0, [math.inf, "c"]),
    ]


async def test_a_control_message_and_a_timer_read_no_deferred_messages(autojump_clock):
    batches: Batches = []
    async with open_system("n0", reader(batches)) as system:
        ref = system.ref("/n0/a")
        await ref.tell("timer")
        await trio.testing.wait_all_tasks_blocked()
        ref.defer(Grew("a"), within_s=3.0)
        await ref.tell(7)
        await trio.sleep(10.0)
    assert batches == [(0.0, ["timer"]), (0.0, [7]), (1.0, ["tick"]), (3.0, [Grew("a")])]


async def test_an_actor_is_not_woken_for_messages_that_it_has_read(autojump_clock, monkeypatch):
    batches: Batches = []
    woken: list[float] = []
    real = ActorProcess._woken

    def look(process: ActorProcess) -> None:
        if process.path == "/n0/a":
            woken.append(round(trio.current_time(), 3))
        real(process)

    monkeypatch.setattr(ActorProcess, "_woken", look)
    async with open_system("n0", reader(batches)) as system:
        ref = system.ref("/n0/a")
        ref.defer(Grew("a"), within_s=3.0)
        await trio.sleep(1.0)
        await ref.tell("mail")
        await trio.sleep(1.5)
        ref.defer(Grew("b"), within_s=4.0)  # the alarm rings for nothing at 3.0
        await trio.sleep(2.5)
        await ref.tell("timer")
        await trio.sleep(10.0)
    assert woken == [1.0, 4.0, 5.0, 6.0, 15.0]
    assert batches == [
        (1.0, [Grew("a"), "mail"]),
        (4.0, [Grew("b")]),
        (5.0, ["timer"]),
        (6.0, ["tick"]),
    ]


async def test_a_deferred_message_for_a_busy_actor_is_read_in_time(autojump_clock):
    batches: Batches = []
    async with open_system("n0", reader(batches, busy_s=5.0)) as system:
        ref = system.ref("/n0/a")
        await ref.tell("mail")
        await trio.sleep(1.0)
        ref.defer(Grew("a"), within_s=1.0)
        await trio.sleep(20.0)
    assert batches == [(0.0, ["mail"]), (5.0, [Grew("a")])]


async def test_deferred_messages_of_an_actor_that_stops_are_no_dead_letters(autojump_clock):
    batches: Batches = []
    seen: list[object] = []
    sink: Callable[..., None] = lambda path, incarnation, event: seen.append(event)  # noqa: E731
    async with open_system("n0", reader(batches), events=sink) as system:
        ref = system.ref("/n0/a")
        ref.defer(Grew("a"), within_s=1.0)
    assert not ref.defer(Grew("a"), within_s=1.0)
    assert not any(isinstance(event, events.DeadLettered) for event in seen)
    assert batches == []


async def test_the_most_urgent_deferred_message_says_when_all_are_read(autojump_clock):
    batches: Batches = []
    async with open_system("n0", reader(batches)) as system:
        ref = system.ref("/n0/a")
        ref.defer(Grew("a"), within_s=7.0)
        ref.defer(Grew("b"), within_s=3.0)
        ref.defer(Grew("c"), within_s=5.0)
        await trio.sleep(10.0)
        assert batches == [(3.0, [Grew("a"), Grew("b"), Grew("c")])]


async def test_deferred_messages_keep_their_order_among_conflated_and_plain_messages(
    autojump_clock,
):
    mailbox = box()
    mailbox.defer(Grew("a", 1))
    mailbox.defer(Grew("b", 1))
    assert mailbox.statistics().depth == 2
    assert mailbox.offer(Grew("a", 2))  # a deferred message is replaced like any other
    assert mailbox.offer("mail")
    mailbox.defer(Grew("b", 2))  # "mail" may rely on the older one
    mailbox.defer(Grew("b", 3))
    assert mailbox.offer("more")
    mailbox.defer(Grew("c", 1))
    assert mailbox.take() == [Grew("b", 1), Grew("a", 2), "mail", Grew("b", 3), "more"]
    assert mailbox.statistics().conflated == 2
    mailbox.defer(Grew("a", 3))
    mailbox.defer(Grew("a", 4))
    mailbox.push("mail")
    assert mailbox.take() == [Grew("c", 1), Grew("a", 4), "mail"]
    assert mailbox.deferred == {}
    assert mailbox.statistics().conflated == 3


async def test_who_waits_for_room_or_finds_mail_comes_behind_deferred_messages(autojump_clock):
    mailbox = box(capacity=2)
    mailbox.offer("1")
    mailbox.offer("2")
    mailbox.defer(Grew("a"))
    mailbox.enqueue("3")
    mailbox.defer(Grew("b"))
    assert mailbox.take() == ["1", "2", Grew("a")]
    assert mailbox.take() == ["3"]
    batches: Batches = []
    async with open_system("n0", reader(batches)) as system:
        ref = system.ref("/n0/a")
        await ref.tell("1")
        ref.defer(Grew("a"))
        await ref.tell("2")
        await ref.tell("3")
        await trio.sleep(1.0)
    assert batches == [(0.0, ["1", Grew("a"), "2", "3"])]


async def test_what_is_left_and_not_conflated_is_bounded_and_never_lost(autojump_clock):
    mailbox = box(capacity=DEFERRED_MAX + 2)
    for number in range(DEFERRED_MAX):
        assert mailbox.defer(number)
    assert not mailbox.defer("too much")
    assert mailbox.offer("mail")
    assert mailbox.take() == [*range(DEFERRED_MAX), "mail"]
    mailbox.defer(Grew("a"))
    mailbox.defer("unread")
    assert mailbox.close() == ["unread"]


async def test_deferred_messages_count_their_bytes_once_they_are_mail(autojump_clock):
    mailbox = box(capacity_bytes=100, size_of=lambda message: 10)
    mailbox.defer(Grew("a", 1))
    mailbox.defer(Grew("b", 1))
    assert mailbox.statistics().size_bytes == 0
    assert mailbox.offer("mail")
    assert mailbox.statistics().size_bytes == 30
    mailbox.defer(Grew("a", 2))
    assert mailbox.statistics().size_bytes == 30
    assert mailbox.take() == [Grew("a", 1), Grew("b", 1), "mail"]
    assert mailbox.statistics().size_bytes == 0


async def test_an_answer_is_deferred_if_its_asker_says_so_and_an_error_is_not(autojump_clock):
    batches: Batches = []

    @attrs.frozen
    class Question:
        reply_to: ReplyTo[str]
        error: str

    class Answering(Actor[Question]):
        async def handle(self, message: Question) -> None:
            if message.error:
                message.reply_to.fail(KeyError(message.error))
            else:
                message.reply_to.send("answer")

    class Asking(Actor[Any]):
        async def handle_batch(self, messages: list[Any]) -> None:
            batches.append((round(self.ctx.now_s(), 3), messages))
            for message in messages:
                if isinstance(message, Grew):
                    self.ctx.ask_later(
                        self.ctx.ref("/n0/answering"),
                        str,
                        lambda reply_to, error=message.name: Question(reply_to, error),
                        timeout_s=1.0,
                        on_reply=str,
                        within_s=math.inf,
                    )

    children = (ChildSpec(name="answering", start=Answering), ChildSpec(name="a", start=Asking))
    async with open_system("n0", SupervisorSpec(children=children)) as system:
        ref = system.ref("/n0/a")
        await ref.tell(Grew(""))
        await trio.sleep(5.0)
        await ref.tell("mail")
        await trio.sleep(1.0)
        await ref.tell(Grew("wrong"))
        await trio.sleep(1.0)
    assert batches == [
        (0.0, [Grew("")]),
        (5.0, ["answer", "mail"]),
        (6.0, [Grew("wrong")]),
        (6.0, ["'wrong'"]),
    ]


async def test_an_alarm_rings_once_and_at_the_earliest_time(autojump_clock):
    deadlines = Deadlines()
    rung: list[float] = []
    alarm = Alarm(deadlines, lambda: rung.append(trio.current_time()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        alarm.set(5.0)
        alarm.set(3.0)
        alarm.set(7.0)
        await trio.sleep(10.0)
        assert rung == [3.0]
        alarm.set(12.0)
        alarm.cancel()
        await trio.sleep(10.0)
        alarm.set(21.0)
        await trio.sleep(10.0)
        deadlines.close()
    assert rung == [3.0, 21.0]


async def test_alarms_that_are_set_again_and_again_keep_the_heap_small(autojump_clock):
    deadlines = Deadlines()
    alarm = Alarm(deadlines, lambda: None)
    for number in range(20 * STALE_MIN):
        alarm.set(1e6 - number)
    assert len(deadlines._heap) <= 2 * STALE_MIN


async def test_an_earlier_alarm_wakes_nobody_before_its_time(autojump_clock, monkeypatch):
    looks: list[float] = []
    real = Deadlines._expire

    def expire(self: Deadlines, now_s: float) -> None:
        looks.append(now_s)
        real(self, now_s)

    monkeypatch.setattr(Deadlines, "_expire", expire)
    deadlines = Deadlines()
    alarms = [Alarm(deadlines, lambda: None) for _ in range(3)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        for number, alarm in enumerate(alarms):
            alarm.set(9.0 - number)
            await trio.sleep(1.0)
        await trio.sleep(20.0)
        deadlines.close()
    assert looks == [0.0, 7.0, 8.0, 9.0]
