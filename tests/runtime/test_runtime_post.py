"""`ref.post`: sending without waiting, in line with those who wait."""

from typing import Any

import attrs
import trio
from runtime_probe import Ask, Events

from actors.events import runtime as events
from actors.runtime import (
    Actor,
    ActorDown,
    ChildSpec,
    MailboxSpec,
    Overflow,
    ReplyTo,
    SupervisorSpec,
    Unread,
    open_system,
)


@attrs.define
class Narrow(Actor[Any]):
    """Has room for one message, and works only while the gate is open."""

    mailbox = MailboxSpec(capacity=1)
    gate: trio.Event
    seen: list[Any]

    async def handle(self, message: Any) -> None:
        await self.gate.wait()
        self.seen.append(message)


@attrs.define
class Refusing(Narrow):
    mailbox = MailboxSpec(capacity=1, overflow=Overflow.REFUSE)


async def test_a_post_waits_in_line_by_itself(autojump_clock):
    gate, seen = trio.Event(), []
    spec = SupervisorSpec(children=(ChildSpec(name="a", start=lambda: Narrow(gate, seen)),))
    async with open_system("n0", spec) as system, trio.open_nursery() as nursery:
        a = system.ref("/n0/a")
        assert a.post(0)
        await trio.sleep(1)  # it is being worked on
        assert a.post(1)
        assert a.post(2)
        nursery.start_soon(a.tell, 3)
        await trio.sleep(1)
        assert a.post(4)
        assert not a.offer(5)
        gate.set()
        await trio.sleep(1)
        assert seen == [0, 1, 2, 3, 4]


async def test_a_mailbox_that_refuses_refuses_a_post(autojump_clock):
    gate, seen = trio.Event(), []
    spec = SupervisorSpec(children=(ChildSpec(name="a", start=lambda: Refusing(gate, seen)),))
    async with open_system("n0", spec) as system:
        a = system.ref("/n0/a")
        assert a.post(0)
        await trio.sleep(1)
        assert [a.post(number) for number in (1, 2)] == [True, False]
        gate.set()
        await trio.sleep(1)
        assert seen == [0, 1]


async def test_a_post_that_nobody_reads_is_a_dead_letter(autojump_clock):
    """To nobody, and from the line of an actor that crashes."""
    seen, answers = Events(), []

    @attrs.define
    class Crashing(Actor[Any]):
        mailbox = MailboxSpec(capacity=1)

        async def handle(self, message: Any) -> None:
            await trio.sleep(2)
            raise RuntimeError("crash")

    spec = SupervisorSpec(children=(ChildSpec(name="a", start=Crashing),))
    async with open_system("n0", spec, events=seen) as system:
        assert not system.ref("/n0/b").post(Ask(reply_to=ReplyTo.local(answers.append)))
        assert isinstance(answers.pop(), ActorDown)
        a = system.ref("/n0/a")
        assert a.post(0)
        await trio.sleep(1)  # it is being worked on
        for _ in range(2):
            assert a.post(Ask(reply_to=ReplyTo.local(answers.append)))
        assert answers == []
        await trio.sleep(2)
        assert [type(answer) for answer in answers] == [Unread, Unread]
    assert sum(event.count for event in seen.of(events.DeadLettered)) == 3
