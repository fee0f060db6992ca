"""ReplyTo: answers once, belongs to an incarnation, can be handed on."""

from typing import Any

import attrs
import pytest
import trio
from runtime_probe import Ask, Boom, Crash, Finish, Keep, Log, settle

from actors.runtime import (
    Actor,
    ActorDown,
    ActorRef,
    ChildSpec,
    ReplyTo,
    Restart,
    StopReason,
    SupervisorSpec,
    open_system,
)


def ask(reply_to: ReplyTo[str]) -> Ask:
    return Ask(reply_to=reply_to)


def keep(reply_to: ReplyTo[str]) -> Keep:
    return Keep(reply_to=reply_to)


def one(log: Log, **child: Any) -> SupervisorSpec:
    return SupervisorSpec(children=(log.child("a", **child),))


async def test_a_reply_answers_once(autojump_clock):
    got: list[Any] = []
    reply: ReplyTo[str] = ReplyTo.local(got.append)
    assert not reply.answered
    assert reply.send("first")
    assert reply.answered
    assert not reply.send("second")
    assert not reply.fail(Boom())
    assert got == ["first"]
    failed: ReplyTo[str] = ReplyTo.local(got.append)
    error = Boom()
    assert failed.fail(error)
    assert got == ["first", error]


async def test_a_callback_that_raises_does_not_hurt_who_answers(autojump_clock, caplog):
    def callback(value: object) -> None:
        raise Boom("in the callback")

    reply: ReplyTo[str] = ReplyTo.local(callback)
    assert reply.send("x")
    assert "the callback of a local reply raised" in caplog.text


async def test_an_error_answer_is_raised(autojump_clock):
    @attrs.define
    class Refuses(Actor[Ask]):
        async def handle(self, message: Ask) -> None:
            message.reply_to.fail(Boom("no"))

    spec = SupervisorSpec(children=(ChildSpec(name="a", start=Refuses),))
    async with open_system("n0", spec) as system:
        with pytest.raises(Boom, match="no"):
            await system.ref("/n0/a").ask(str, ask, timeout_s=1.0)


@pytest.mark.parametrize("message", [Finish(), Crash()])
async def test_kept_replies_fail_when_their_actor_ends(autojump_clock, message):
    log = Log()
    async with open_system("n0", one(log, restart=Restart.TEMPORARY)) as system:
        a = system.ref("/n0/a")
        errors: list[BaseException] = []

        async def asker() -> None:
            with pytest.raises(ActorDown) as caught:
                await a.ask(str, keep, timeout_s=100.0)
            errors.append(caught.value)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(asker)
            await settle()
            await a.tell(message)
        assert [str(e) for e in errors] == ["/n0/a#1 ended before it answered"] * 3
        assert trio.current_time() < 1.0


async def test_on_stop_may_still_answer(autojump_clock):
    @attrs.define
    class Polite(Actor[Keep]):
        kept: list[ReplyTo[str]] = attrs.field(factory=list)

        async def handle(self, message: Keep) -> None:
            self.kept.append(message.reply_to)

        async def on_stop(self, reason: StopReason) -> None:
            for reply_to in self.kept:
                reply_to.send(f"stopped: {reason.value}")

    spec = SupervisorSpec(children=(ChildSpec(name="a", start=Polite),))
    got: list[str] = []
    async with trio.open_nursery() as nursery:
        async with open_system("n0", spec) as system:
            ref = system.ref("/n0/a")

            async def asker() -> None:
                got.append(await ref.ask(str, keep, timeout_s=9.0))

            nursery.start_soon(asker)
            await settle()
    assert got == ["stopped: shutdown"]


async def test_a_reply_that_is_passed_on_fails_with_its_new_actor(autojump_clock):
    @attrs.frozen(kw_only=True)
    class Forward:
        reply_to: ReplyTo[str]

    @attrs.define
    class Front(Actor[Forward | Crash]):
        back: ActorRef[Keep]

        async def handle(self, message: Forward | Crash) -> None:
            if isinstance(message, Crash):
                raise Boom
            await self.back.tell(Keep(reply_to=message.reply_to.bound_to(self.back)))

    log = Log()

    def build(registry: Any) -> SupervisorSpec:
        back = registry.ref("/n0/a")
        return SupervisorSpec(
            children=(log.child("a"), ChildSpec(name="front", start=lambda: Front(back)))
        )

    async with open_system("n0", build) as system:
        outcome: list[object] = []

        async def asker() -> None:
            with pytest.raises(ActorDown, match="/n0/a#1"):
                await system.ref("/n0/front").ask(
                    str, lambda reply_to: Forward(reply_to=reply_to), timeout_s=50.0
                )
            outcome.append("down")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(asker)
            await settle()
            await system.ref("/n0/front").tell(Crash())  # no longer its concern
            await settle()
            assert outcome == []
            await system.ref("/n0/a").tell(Crash())
        assert outcome == ["down"]


async def test_binding_to_an_actor_that_is_down_fails_at_once(autojump_clock):
    got: list[Any] = []
    async with open_system("n0", SupervisorSpec()) as system:
        ReplyTo.local(got.append, asked=system.ref("/n0/nobody"))
        with pytest.raises(ActorDown):
            await system.ref("/n0/nobody").ask(str, ask, timeout_s=1.0)
    assert isinstance(got[0], ActorDown)


async def test_a_reply_bound_twice_belongs_to_the_last(autojump_clock):
    got: list[Any] = []
    log = Log()
    spec = SupervisorSpec(children=(log.child("a"), log.child("b")))
    async with open_system("n0", spec) as system:
        a, b = system.ref("/n0/a"), system.ref("/n0/b")
        reply: ReplyTo[str] = ReplyTo.local(got.append, asked=a).bound_to(b)
        assert (len(a.mailbox.replies), len(b.mailbox.replies)) == (0, 1)
        assert reply.send("x")
        assert b.mailbox.replies == {}
        assert reply.bound_to(a) is reply  # answered: nothing to bind
        assert a.mailbox.replies == {}
    assert got == ["x"]
