"""Questions of actors: ask_later."""

from typing import Any

import attrs
import trio
from runtime_probe import Ask, Boom, Events, Finish, Keep, Log, Note, settle

from actors.events import runtime as events
from actors.runtime import (
    Actor,
    ActorError,
    ChildSpec,
    MailboxFull,
    MailboxSpec,
    Overflow,
    ReplyTo,
    Restart,
    StopReason,
    SupervisorSpec,
    describe,
    open_system,
)
from actors.runtime import context as context_module


def ask(reply_to: ReplyTo[str]) -> Ask:
    return Ask(reply_to=reply_to)


def keep(reply_to: ReplyTo[str]) -> Keep:
    return Keep(reply_to=reply_to)


@attrs.frozen(kw_only=True)
class Go:
    path: str
    timeout_s: float = 5.0


@attrs.frozen(kw_only=True)
class Answer:
    outcome: Any


@attrs.define
class Later(Actor[Go | Answer | Note]):
    log: list[str]

    async def handle(self, message: Go | Answer | Note) -> None:
        match message:
            case Go():
                self.ctx.ask_later(
                    self.ctx.ref(message.path),
                    str,
                    keep if message.path.endswith("mute") else ask,
                    timeout_s=message.timeout_s,
                    on_reply=lambda outcome: Answer(outcome=outcome),
                )
                self.log.append("asked")
            case Answer(outcome=outcome):
                reported = describe(outcome) if isinstance(outcome, Exception) else outcome
                self.log.append(f"{reported} at {trio.current_time():.1f}")
            case Note(text=text):
                self.log.append(text)


def with_later(log: Log, **probe: Any) -> SupervisorSpec:
    return SupervisorSpec(
        children=(
            log.child("a"),
            log.child("mute", restart=Restart.TEMPORARY),
            ChildSpec(name="later", start=lambda: Later(log), restart=Restart.TEMPORARY),
        )
    )


async def test_ask_later_brings_the_answer_as_a_message_and_blocks_nothing(autojump_clock):
    log = Log()
    async with open_system("n0", with_later(log)) as system:
        log.new()
        later = system.ref("/n0/later")
        await later.tell(Go(path="/n0/mute"))
        await later.tell(Go(path="/n0/a"))
        await later.tell(Note(text="served meanwhile"))
        await settle()
        assert log.new() == ["asked", "asked", "served meanwhile", "a#1 at 0.0"]
        await trio.sleep(6.0)
        assert log.new() == ["AskTimeout: /n0/mute did not answer Keep within 5.0 s at 5.0"]


async def test_ask_later_hears_of_an_actor_that_is_down_or_ends(autojump_clock):
    log = Log()
    async with open_system("n0", with_later(log)) as system:
        log.new()
        later = system.ref("/n0/later")
        await later.tell(Go(path="/n0/nobody"))
        await settle()
        assert log.new() == ["asked", "ActorDown: /n0/nobody is not running at 0.0"]
        await later.tell(Go(path="/n0/mute"))
        await settle()
        await system.ref("/n0/mute").tell(Finish())
        await settle()
        assert log.new() == [
            "asked",
            "-mute normal",
            "ActorDown: /n0/mute#1 ended before it answered at 0.0",
        ]


async def test_ask_later_waits_in_line_and_is_taken_back_in_time(autojump_clock):
    log = Log()

    @attrs.define
    class Tight(Actor[Any]):
        mailbox = MailboxSpec(capacity=1)

        async def handle(self, message: Any) -> None:
            if isinstance(message, Ask):
                message.reply_to.send("answer")
            else:
                await trio.sleep(3.0)

    spec = SupervisorSpec(
        children=(
            ChildSpec(name="tight", start=Tight),
            ChildSpec(name="later", start=lambda: Later(log)),
        )
    )
    async with open_system("n0", spec) as system:
        tight, later = system.ref("/n0/tight"), system.ref("/n0/later")
        await tight.tell("work")
        await settle()
        await tight.tell("work")
        await later.tell(Go(path="/n0/tight", timeout_s=1.0))
        await later.tell(Go(path="/n0/tight", timeout_s=20.0))
        await trio.sleep(2.0)
        assert log.new() == [
            *["asked", "asked"],
            "AskTimeout: /n0/tight did not answer Ask within 1.0 s at 1.0",
        ]
        assert system.tree().children[0].mailbox.senders_waiting == 1
        await trio.sleep(8.0)
        assert log.new() == ["answer at 6.0"]


async def test_ask_later_to_a_mailbox_that_refuses(autojump_clock):
    log = Log()

    @attrs.define
    class Refusing(Actor[Any]):
        mailbox = MailboxSpec(capacity=1, overflow=Overflow.REFUSE)

        async def handle(self, message: Any) -> None:
            await trio.sleep(3.0)

    spec = SupervisorSpec(
        children=(
            ChildSpec(name="full", start=Refusing),
            ChildSpec(name="later", start=lambda: Later(log)),
        )
    )
    async with open_system("n0", spec) as system:
        full = system.ref("/n0/full")
        await full.tell("work")
        await settle()
        await full.tell("work")
        await system.ref("/n0/later").tell(Go(path="/n0/full"))
        await settle()
    assert log == ["asked", f"{MailboxFull.__name__}: /n0/full is full at 0.0"]


async def test_an_answer_to_an_actor_that_has_ended_is_dropped(autojump_clock):
    log = Log()
    async with open_system("n0", with_later(log)) as system:
        later = system.ref("/n0/later")
        await later.tell(Go(path="/n0/mute"))
        await settle()
        kept = next(iter(system.ref("/n0/mute").mailbox.replies))
        later.mailbox.stop(StopReason.NORMAL)
        await settle()
        assert kept.answered
        assert not kept.send("late")


async def test_an_on_reply_that_raises_is_the_askers_crash(autojump_clock):
    log, seen = Log(), Events()

    @attrs.define
    class Careless(Actor[str]):
        async def handle(self, message: str) -> None:
            def on_reply(outcome: object) -> str:
                raise Boom("on_reply")

            ref = self.ctx.ref("/n0/a")
            self.ctx.ask_later(ref, str, ask, timeout_s=1.0, on_reply=on_reply)

    spec = SupervisorSpec(
        children=(
            log.child("a"),
            ChildSpec(name="b", start=Careless, restart=Restart.TEMPORARY),
        )
    )
    async with open_system("n0", spec, events=seen) as system:
        await system.ref("/n0/b").tell("go")
        await settle()
        crashes = [(p, e.error) for p, _, e in seen if isinstance(e, events.ActorCrashed)]
        assert crashes == [("/n0/b", "Boom: on_reply")]
        assert system.ref("/n0/a").alive


async def test_unanswered_questions_of_one_actor_are_bounded(autojump_clock, monkeypatch):
    monkeypatch.setattr(context_module, "ASKS_PENDING_MAX", 2)
    log, seen = Log(), Events()
    async with open_system("n0", with_later(log), events=seen) as system:
        for _ in range(3):
            await system.ref("/n0/later").tell(Go(path="/n0/mute"))
        await settle()
    crash = seen.of(events.ActorCrashed)[0]
    assert crash.error == f"{ActorError.__name__}: /n0/later has 2 unanswered questions"
