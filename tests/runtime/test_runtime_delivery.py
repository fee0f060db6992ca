"""Delivery through running actors: dead letters, stops, control, statistics, yielding."""

from typing import Any

import attrs
import pytest
import trio
from runtime_gate import Data, Gone, Held, Role
from runtime_probe import Ask, Boom, Crash, Events, Finish, Hang, Log, Note, settle

from actors.events import runtime as events
from actors.runtime import (
    Actor,
    ActorDown,
    ChildSpec,
    MailboxSpec,
    ReplyTo,
    Restart,
    SupervisorSpec,
    System,
    describe,
    open_system,
)
from actors.runtime import ref as ref_module
from actors.runtime.process import LOOK_MAX


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


async def test_what_is_sent_between_two_incarnations_is_a_dead_letter(autojump_clock):
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


async def test_dead_letters_are_reported_at_most_once_a_second_and_counted_exactly(autojump_clock):
    seen = Events()
    async with open_system("n0", SupervisorSpec(), events=seen) as system:
        nobody = system.ref("/n0/nobody")
        for _ in range(30):
            await nobody.tell(Note(text=""))
            await trio.sleep(0.1)
        reported = [e.count for e in seen.of(events.DeadLettered)]
        assert len(reported) in (3, 4)
        await nobody.tell(Gone(connection=1))
    assert sum(e.count for e in seen.of(events.DeadLettered)) == 31
    assert next(p for p, _, e in seen if isinstance(e, events.DeadLettered)) == "/n0/nobody"


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


async def test_control_that_a_stop_leaves_unread_is_a_dead_letter_too(autojump_clock):
    seen = Events()

    @attrs.define
    class Stopper(Actor[Role]):
        mailbox = MailboxSpec(control=(Role,))

        async def handle(self, message: Role) -> None:
            self.ctx.stop()

    start = ChildSpec(name="a", start=Stopper, restart=Restart.TEMPORARY)
    async with open_system("n0", SupervisorSpec(children=(start,)), events=seen) as system:
        for name in "abc":
            await system.ref("/n0/a").tell(Role(name=name))
        await settle()
    assert sum(event.count for event in seen.of(events.DeadLettered)) == 2


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


@pytest.mark.parametrize("fast", [0, 2000])
def test_long_work_checkpoints_every_ten_milliseconds(fast):
    """Each message costs 1 ms of a clock of our own; no step of the actor's task takes more."""

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
        mailbox = MailboxSpec(capacity=10_000)

        async def handle(self, message: int) -> None:
            if message >= fast:
                clock.now_s += 0.001

    async def main() -> None:
        spec = SupervisorSpec(children=(ChildSpec(name="a", start=Slow),))
        async with open_system("n0", spec) as system:
            for number in range(fast + 1000):
                await system.ref("/n0/a").tell(number)
            while clock.now_s < 0.9995:
                await trio.lowlevel.checkpoint()

    clock, steps = Clock(), Steps()
    trio.run(main, clock=clock, instruments=[steps])
    assert sum(steps.took_s) == pytest.approx(1.0)
    worked = sorted(took_s for took_s in steps.took_s if took_s > 0)
    assert worked[-2] <= 0.0125
    # After many fast messages it takes LOOK_MAX slow ones to notice.
    assert worked[-1] <= (0.0125 if not fast else (LOOK_MAX + 12) / 1000)
    assert len(worked) <= 102


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


async def test_kinds_of_dead_letters_are_bounded_and_still_counted(autojump_clock, monkeypatch):
    monkeypatch.setattr(ref_module, "DEAD_LETTER_KINDS_MAX", 2)
    seen = Events()
    async with open_system("n0", SupervisorSpec(), events=seen) as system:
        for _ in range(3):
            for name in "abc":
                await system.ref(f"/n0/{name}").tell(Note(text=""))
        reported = [path for path, _, e in seen if isinstance(e, events.DeadLettered)]
        assert reported == [
            "/n0/a",
            "/n0/b",
            "/n0/c",
            "/n0/c",
            "/n0/c",
        ]  # c has no place of its own
        await trio.sleep(2.0)
        await system.ref("/n0/c").tell(
            Note(text="")
        )  # makes room: a and b are reported, and forgotten
        assert len(system.registry._dead) == 1
    counts: dict[str, int] = {}
    for path, _, event in seen:
        if isinstance(event, events.DeadLettered):
            counts[path] = counts.get(path, 0) + event.count
    assert counts == {"/n0/a": 3, "/n0/b": 3, "/n0/c": 4}


async def test_the_simulators_hook_does_not_break_waiting_for_room(autojump_clock):
    log: list[Any] = []

    @attrs.define
    class Tight(Actor[int]):
        mailbox = MailboxSpec(capacity=1)

        async def handle(self, message: int) -> None:
            await trio.sleep(1.0)
            log.append(message)

    spec = SupervisorSpec(children=(ChildSpec(name="a", start=Tight),))
    async with open_system("n0", spec, tell_hook=trio.lowlevel.checkpoint) as system:
        for number in range(5):
            await system.ref("/n0/a").tell(number)
        assert trio.current_time() >= 3.0
        await trio.sleep(5.0)
    assert log == [0, 1, 2, 3, 4]


async def test_the_default_batch_handler_can_be_called_by_an_override(autojump_clock):
    log: list[Any] = []

    @attrs.define
    class Counts(Actor[str]):
        async def handle_batch(self, messages: list[str]) -> None:
            log.append(len(messages))
            await super().handle_batch(messages)

        async def handle(self, message: str) -> None:
            log.append(message)

    spec = SupervisorSpec(children=(ChildSpec(name="a", start=Counts),))
    async with open_system("n0", spec) as system:
        for text in "xy":
            await system.ref("/n0/a").tell(text)
        await settle()
    assert log == [2, "x", "y"]


async def test_a_tell_may_be_a_task_of_its_own(autojump_clock):
    log = Log()
    async with open_system("n0", SupervisorSpec(children=(log.child("a"),))) as system:
        async with trio.open_nursery() as nursery:
            for text in "xyz":
                nursery.start_soon(system.ref("/n0/a").tell, Note(text=text))
        await settle()
        assert sorted(log[1:]) == ["x", "y", "z"]
        sent = system.ref("/n0/a").tell(Note(text="by hand"))
        with pytest.raises(StopIteration):
            sent.send(None)
        sent.close()
        with pytest.raises(Boom):
            sent.throw(Boom())
