"""Questions of outsiders: ask, ReplyTo and its binding, time-outs."""

from typing import Any

import attrs
import pytest
import trio
from runtime_gate import Held
from runtime_probe import Ask, Boom, Crash, Events, Hang, Keep, Log, settle

from actors.events import runtime as events
from actors.runtime import (
    Actor,
    ActorDown,
    ActorRef,
    AskInsideHandle,
    AskTimeout,
    ChildSpec,
    MailboxSpec,
    ReplyTo,
    Restart,
    StopReason,
    SupervisorSpec,
    Unread,
    describe,
    open_system,
)
from actors.runtime.deadlines import STALE_MIN


def ask(reply_to: ReplyTo[str]) -> Ask:
    return Ask(reply_to=reply_to)


def keep(reply_to: ReplyTo[str]) -> Keep:
    return Keep(reply_to=reply_to)


def one(log: Log, **child: Any) -> SupervisorSpec:
    return SupervisorSpec(children=(log.child("a", **child),))


async def test_ask_returns_the_answer(autojump_clock):
    log = Log()
    async with open_system("n0", one(log)) as system:
        a = system.ref("/n0/a")
        assert await a.ask(str, ask, timeout_s=1.0) == "a#1"
        await a.tell(Crash())
        with pytest.raises(ActorDown):
            await a.ask(str, ask, timeout_s=1.0)
        await settle()
        assert await a.ask(str, ask, timeout_s=1.0) == "a#2"  # the ref outlives the incarnation


async def test_a_question_that_fails_by_a_crash_has_it_as_its_cause(autojump_clock):
    """Both one that was read, and one that was still unread."""
    log = Log()
    causes: list[BaseException | None] = []

    async def asks(ref: ActorRef[Any], make: Any, kind: type[ActorDown]) -> None:
        with pytest.raises(ActorDown) as caught:
            await ref.ask(str, make, timeout_s=1.0)
        assert type(caught.value) is kind
        causes.append(caught.value.__cause__)

    async with open_system("n0", one(log)) as system, trio.open_nursery() as nursery:
        a = system.ref("/n0/a")
        nursery.start_soon(asks, a, keep, ActorDown)
        await settle()
        await a.tell(Crash())
        nursery.start_soon(asks, a, ask, Unread)
        await trio.lowlevel.checkpoint()
    first, second = causes
    assert isinstance(first, ExceptionGroup)
    assert first is second
    assert first.subgroup(Boom) is not None
    assert describe(ActorDown("x")) == "ActorDown: x"


async def test_a_question_that_fails_by_an_ordered_stop_has_no_cause(autojump_clock):
    log = Log()
    async with trio.open_nursery() as nursery, open_system("n0", one(log)) as system:

        async def asks() -> None:
            with pytest.raises(ActorDown) as caught:
                await system.ref("/n0/a").ask(str, keep, timeout_s=9.0)
            assert caught.value.__cause__ is None
            log.append("asked")

        nursery.start_soon(asks)
        await settle()
    assert log[-1] == "asked"


async def test_ask_times_out_and_drops_a_late_answer(autojump_clock):
    log, seen = Log(), Events()
    late: list[ReplyTo[str]] = []

    @attrs.define
    class Slow(Actor[Keep]):
        async def handle(self, message: Keep) -> None:
            late.append(message.reply_to)

    spec = SupervisorSpec(children=(ChildSpec(name="a", start=Slow),))
    async with open_system("n0", spec, events=seen) as system:
        with pytest.raises(AskTimeout, match=r"/n0/a did not answer Keep within 2\.0 s"):
            await system.ref("/n0/a").ask(str, keep, timeout_s=2.0)
        assert trio.current_time() == pytest.approx(2.0)
        assert late[0].answered
        assert late[0].send("late") is False
        assert seen.of(events.AskTimedOut) == [
            events.AskTimedOut(message_type="Keep", timeout_s=2.0)
        ]
        assert system.ref("/n0/a").mailbox.replies == {}
    assert log == []


async def test_questions_expire_in_the_order_of_their_deadlines(autojump_clock):
    log = Log()
    ended: list[tuple[float, float]] = []

    async def one_question(ref: ActorRef[Any], timeout_s: float) -> None:
        with pytest.raises(AskTimeout):
            await ref.ask(str, keep, timeout_s=timeout_s)
        ended.append((timeout_s, trio.current_time()))

    async with open_system("n0", one(log)) as system, trio.open_nursery() as nursery:
        for timeout_s in (3.0, 1.0, 2.0):
            nursery.start_soon(one_question, system.ref("/n0/a"), timeout_s)
    assert ended == [(t, pytest.approx(t)) for t in (1.0, 2.0, 3.0)]


async def test_answered_questions_do_not_pile_up(autojump_clock):
    log = Log()
    async with open_system("n0", one(log)) as system:
        for _ in range(10 * STALE_MIN):
            await system.ref("/n0/a").ask(str, ask, timeout_s=5.0)
        deadlines = system.registry.deadlines
        assert len(deadlines._heap) <= STALE_MIN
        await trio.sleep(6.0)
        assert deadlines._heap == []


async def test_a_question_waits_for_room_within_its_time(autojump_clock):
    @attrs.define
    class Tight(Actor[Any]):
        mailbox = MailboxSpec(capacity=1)

        async def handle(self, message: Any) -> None:
            if isinstance(message, Ask):
                message.reply_to.send("answer")
            else:
                await trio.sleep(3.0)

    spec = SupervisorSpec(children=(ChildSpec(name="a", start=Tight),))
    async with open_system("n0", spec) as system:
        a = system.ref("/n0/a")
        await a.tell("work")
        await settle()
        await a.tell("work")
        with pytest.raises(AskTimeout):
            await a.ask(str, ask, timeout_s=1.0)
        box = system.tree().children[0].mailbox
        assert (box.depth, box.senders_waiting) == (1, 0)  # it was taken back
        assert await a.ask(str, ask, timeout_s=10.0) == "answer"
        assert trio.current_time() == pytest.approx(6.0)


async def test_a_cancelled_question_is_given_up(autojump_clock):
    log = Log()
    async with open_system("n0", one(log)) as system:
        a = system.ref("/n0/a")
        with trio.move_on_after(1.0) as scope:
            await a.ask(str, keep, timeout_s=100.0)
        assert scope.cancelled_caught
        assert a.mailbox.replies == {}


async def test_a_question_cancelled_while_it_waits_for_room_is_taken_back(autojump_clock):
    async with Held() as held:
        for message in "abc":
            await held.ref.tell(message)
        with trio.move_on_after(1.0) as scope:
            await held.ref.ask(str, ask, timeout_s=100.0)
        assert scope.cancelled_caught
        assert held.statistics().senders_waiting == 0
        assert await held.next_batches(3) == [("first",), ("a", "b", "c")]


async def test_an_answer_and_a_cancellation_in_the_same_tick(autojump_clock):
    """The asker was woken with its answer; the cancellation comes at its next checkpoint."""
    held: list[ReplyTo[str]] = []

    @attrs.define
    class Holder(Actor[Keep]):
        async def handle(self, message: Keep) -> None:
            held.append(message.reply_to)

    got: list[str] = []
    scope = trio.CancelScope()
    spec = SupervisorSpec(children=(ChildSpec(name="a", start=Holder),))
    async with open_system("n0", spec) as system, trio.open_nursery() as nursery:

        async def asker() -> None:
            with scope:
                got.append(await system.ref("/n0/a").ask(str, keep, timeout_s=9.0))

        nursery.start_soon(asker)
        await settle()
        assert held[0].send("answer")
        scope.cancel()
    assert got == ["answer"]


async def test_a_make_that_raises_leaves_nothing_behind(autojump_clock):
    log = Log()
    async with open_system("n0", one(log)) as system:
        a = system.ref("/n0/a")

        def make(reply_to: ReplyTo[str]) -> Ask:
            raise Boom

        with pytest.raises(Boom):
            await a.ask(str, make, timeout_s=1.0)
        assert a.mailbox.replies == {}


async def test_ask_inside_handle_is_refused_with_a_clear_error(autojump_clock):
    log, seen = Log(), Events()

    @attrs.define
    class Asks(Actor[str]):
        other: ActorRef[Any]

        async def handle(self, message: str) -> None:
            await self.other.ask(str, ask, timeout_s=1.0)

    def build(registry: Any) -> SupervisorSpec:
        other = registry.ref("/n0/a")
        start = ChildSpec(name="b", start=lambda: Asks(other), restart=Restart.TEMPORARY)
        return SupervisorSpec(children=(log.child("a"), start))

    async with open_system("n0", build, events=seen) as system:
        await system.ref("/n0/b").tell("go")
        await settle()
    assert [event.error for event in seen.of(events.ActorCrashed)] == [
        "AskInsideHandle: /n0/a was asked inside handle; use ctx.ask_later"
    ]


async def test_an_actor_that_asks_itself_in_on_start_is_refused(autojump_clock):
    @attrs.define
    class AsksItself(Actor[Ask]):
        async def on_start(self) -> None:
            await self.ctx.self_ref.ask(str, ask, timeout_s=1.0)

    spec = SupervisorSpec(children=(ChildSpec(name="a", start=AsksItself),))
    with pytest.RaisesGroup(AskInsideHandle, flatten_subgroups=True):
        async with open_system("n0", spec):
            pass


async def test_on_start_and_feeders_may_ask(autojump_clock):
    log = Log()

    @attrs.define
    class Asks(Actor[str]):
        async def on_start(self) -> None:
            other = self.ctx.ref("/n0/a")
            log.append(await other.ask(str, ask, timeout_s=1.0))
            self.ctx.spawn(self._feed)

        async def _feed(self) -> None:
            answer = await self.ctx.ref("/n0/a").ask(str, ask, timeout_s=1.0)
            await self.ctx.self_ref.tell(f"fed {answer}")

        async def handle(self, message: str) -> None:
            log.append(message)

    spec = SupervisorSpec(children=(log.child("a"), ChildSpec(name="b", start=Asks)))
    async with open_system("n0", spec):
        await settle()
    assert log == ["+a#1", "a#1", "fed a#1", "-a shutdown"]


async def test_a_hung_actor_does_not_keep_a_question_beyond_its_time(autojump_clock):
    log = Log()
    async with open_system("n0", one(log, shutdown_s=0.0)) as system:
        a = system.ref("/n0/a")
        await a.tell(Hang())
        with pytest.raises(AskTimeout):
            await a.ask(str, ask, timeout_s=1.0)


async def test_questions_still_expire_while_the_system_stops(autojump_clock):
    """on_stop may ask elder siblings, and the host is cancelled already."""
    log = Log()

    @attrs.define
    class AsksLate(Actor[object]):
        async def on_stop(self, reason: StopReason) -> None:
            with pytest.raises(AskTimeout):
                await self.ctx.ref("/n0/a").ask(str, keep, timeout_s=2.0)
            log.append(f"expired at {trio.current_time():.1f}")

    spec = SupervisorSpec(children=(log.child("a"), ChildSpec(name="b", start=AsksLate)))
    with trio.move_on_after(1.0):
        async with open_system("n0", spec):
            await trio.sleep_forever()
    assert log == ["+a#1", "expired at 3.0", "-a shutdown"]
