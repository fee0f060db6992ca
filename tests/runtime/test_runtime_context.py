"""Timers, feeders, events, the context's small things."""

import random
from typing import Any

import attrs
import pytest
import trio
from runtime_probe import Boom, Events, Log, settle

from actors.events import runtime as events
from actors.runtime import (
    Actor,
    ActorError,
    ChildSpec,
    MailboxSpec,
    Restart,
    StopReason,
    SupervisorSpec,
    Timers,
    open_system,
)
from actors.runtime import timers as timers_module
from actors.runtime.mailbox import Mailbox
from actors.runtime.timers import STALE_MIN


@attrs.define
class Clockwork(Actor[str]):
    """Notes what comes and when; `script` runs in on_start."""

    log: list[str]
    script: Any

    async def on_start(self) -> None:
        self.script(self.ctx)

    async def handle(self, message: str) -> None:
        self.log.append(f"{message} at {self.ctx.now_s():.1f}")
        if message == "busy":
            await trio.sleep(3.0)

    async def on_stop(self, reason: StopReason) -> None:
        self.log.append(f"stop at {self.ctx.now_s():.1f}")


def clockwork(log: Log, script: Any, **child: Any) -> SupervisorSpec:
    start = ChildSpec(name="a", start=lambda: Clockwork(log, script), **child)
    return SupervisorSpec(children=(start,))


async def test_timers_come_in_the_order_of_their_deadlines(autojump_clock):
    log = Log()

    def script(ctx: Any) -> None:
        ctx.timers.start("late", 3.0, "late")
        ctx.timers.start("early", 1.0, "early")
        ctx.timers.start_at("middle", 2.0, "middle")
        ctx.timers.start("same time", 2.0, "second")

    async with open_system("n0", clockwork(log, script)):
        await trio.sleep(10.0)
    assert log == ["early at 1.0", "middle at 2.0", "second at 2.0", "late at 3.0", "stop at 10.0"]


async def test_a_timer_replaces_the_one_of_its_key_and_can_be_cancelled(autojump_clock):
    log = Log()
    cancelled: list[bool] = []

    def script(ctx: Any) -> None:
        ctx.timers.start("k", 1.0, "replaced")
        ctx.timers.start("k", 2.0, "kept")
        ctx.timers.start("c", 1.0, "cancelled")
        cancelled.append(ctx.timers.active("c"))
        cancelled.append(ctx.timers.cancel("c"))
        cancelled.append(ctx.timers.cancel("c"))
        cancelled.append(ctx.timers.active("c"))

    async with open_system("n0", clockwork(log, script)):
        await trio.sleep(10.0)
    assert log == ["kept at 2.0", "stop at 10.0"]
    assert cancelled == [True, True, False, False]


async def test_a_replaced_timer_does_not_fire_beside_one_that_is_due(autojump_clock):
    log = Log()

    def script(ctx: Any) -> None:
        ctx.timers.start("due", 1.0, "due")
        ctx.timers.start("k", 1.0, "replaced")
        ctx.timers.start("k", 5.0, "kept")

    async with open_system("n0", clockwork(log, script)):
        await trio.sleep(10.0)
    assert log == ["due at 1.0", "kept at 5.0", "stop at 10.0"]


async def test_a_deadline_moves_its_timer_only_to_an_earlier_time(autojump_clock):
    log = Log()

    def script(ctx: Any) -> None:
        now_s = ctx.now_s()
        ctx.timers.start_by("k", now_s + 2.0, "first")
        ctx.timers.start_by("k", now_s + 3.0, "later")
        ctx.timers.start_by("k", now_s + 1.0, "earlier")
        ctx.timers.start_by("k", now_s + 1.0, "the same")
        ctx.timers.start_by("c", now_s + 1.0, "cancelled")
        ctx.timers.cancel("c")
        ctx.timers.start_by("c", now_s + 4.0, "new")

    async with open_system("n0", clockwork(log, script)):
        await trio.sleep(10.0)
    assert log == ["earlier at 1.0", "new at 4.0", "stop at 10.0"]


async def test_a_feeder_may_start_an_earlier_timer(autojump_clock):
    log = Log()

    def script(ctx: Any) -> None:
        async def feed() -> None:
            await trio.sleep(1.0)
            ctx.timers.start("early", 1.0, "early")

        ctx.timers.start("late", 5.0, "late")
        ctx.spawn(feed)

    async with open_system("n0", clockwork(log, script)):
        await trio.sleep(10.0)
    assert log == ["early at 2.0", "late at 5.0", "stop at 10.0"]


async def test_a_timer_never_fires_inside_handle_and_its_lag_is_reported(autojump_clock):
    log, seen = Log(), Events()

    def script(ctx: Any) -> None:
        ctx.timers.start("k", 1.0, "tick")
        ctx.timers.start("l", 2.5, "tock")

    async with open_system("n0", clockwork(log, script), events=seen) as system:
        await system.ref("/n0/a").tell("busy")
        await trio.sleep(10.0)
    assert log == ["busy at 0.0", "tick at 3.0", "tock at 3.0", "stop at 10.0"]
    lags = seen.of(events.LoopLagged)
    assert [round(event.lag_s, 3) for event in lags] == [2.0]


async def test_due_timers_come_before_the_mail_in_one_batch(autojump_clock):
    batches: list[list[str]] = []

    @attrs.define
    class Batches(Actor[str]):
        async def on_start(self) -> None:
            self.ctx.timers.start("k", 1.0, "tick")

        async def handle_batch(self, messages: list[str]) -> None:
            batches.append(messages)
            if messages == ["busy"]:
                await trio.sleep(2.0)

    spec = SupervisorSpec(children=(ChildSpec(name="a", start=Batches),))
    async with open_system("n0", spec) as system:
        await system.ref("/n0/a").tell("busy")
        await trio.sleep(0.5)
        await system.ref("/n0/a").tell("mail")
        await trio.sleep(5.0)
    assert batches == [["busy"], ["tick", "mail"]]


async def test_no_tick_survives_a_stop(autojump_clock):
    log, seen = Log(), Events()

    def script(ctx: Any) -> None:
        if ctx.incarnation == 1:
            ctx.timers.start("k", 5.0, "of the first life")

    async with open_system("n0", clockwork(log, script), events=seen) as system:
        system.ref("/n0/a").mailbox.stop(StopReason.NORMAL)
        await trio.sleep(20.0)
    assert log == ["stop at 0.0", "stop at 20.0"]
    assert seen.of(events.DeadLettered) == []


async def test_restarting_a_timer_for_ever_keeps_the_heap_small(autojump_clock):
    timers: Timers[str] = Timers(Mailbox(MailboxSpec(), "/n0/a"))
    timers.start("first", 1.0, "first")
    for number in range(20 * STALE_MIN):
        timers.start("k", 2.0 + number, f"{number}")
    assert len(timers._heap) <= 2 * 2 + STALE_MIN + 1
    assert timers.take_due(1.5) == (["first"], 0.5)
    assert timers.next_s == pytest.approx(2.0 + 20 * STALE_MIN - 1)


async def test_timers_are_bounded(autojump_clock, monkeypatch):
    monkeypatch.setattr(timers_module, "TIMERS_MAX", 3)
    timers: Timers[str] = Timers(Mailbox(MailboxSpec(), "/n0/a"))
    for key in range(3):
        timers.start(key, 1.0, "x")
    timers.start(2, 1.0, "replaced")
    with pytest.raises(ActorError, match="3 timers"):
        timers.start(3, 1.0, "x")


# Feeders


@attrs.define
class Fed(Actor[str]):
    log: list[str]
    source: trio.MemoryReceiveChannel[str]

    async def on_start(self) -> None:
        self.ctx.spawn(self._feed, self.source)

    async def _feed(self, source: trio.MemoryReceiveChannel[str]) -> None:
        try:
            async for text in source:
                await self.ctx.self_ref.tell(text)
        finally:
            self.log.append("feeder ends")

    async def handle(self, message: str) -> None:
        self.log.append(message)

    async def on_stop(self, reason: StopReason) -> None:
        self.log.append(f"on_stop {reason.value}")


async def test_a_feeder_tells_its_actor_and_ends_before_on_stop(autojump_clock):
    log = Log()
    send, receive = trio.open_memory_channel[str](10)
    spec = SupervisorSpec(children=(ChildSpec(name="a", start=lambda: Fed(log, receive)),))
    async with open_system("n0", spec):
        await send.send("one")
        await send.send("two")
        await settle()
    assert log == ["one", "two", "feeder ends", "on_stop shutdown"]


async def test_the_mailbox_is_closed_before_the_feeders_have_ended(autojump_clock):
    log = Log()

    @attrs.define
    class SlowFeeder(Fed):
        async def _feed(self, source: trio.MemoryReceiveChannel[str]) -> None:
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(2.0)

    _, receive = trio.open_memory_channel[str](0)
    start = ChildSpec(name="a", start=lambda: SlowFeeder(log, receive))
    async with open_system("n0", SupervisorSpec(children=(start,))) as system:
        await settle()
        system.request_stop()
        await trio.sleep(1.0)
        assert not system.ref("/n0/a").alive
        assert log == []
    assert log == ["on_stop shutdown"]


async def test_a_feeder_that_returns_ends_nothing(autojump_clock):
    log = Log()
    send, receive = trio.open_memory_channel[str](10)
    spec = SupervisorSpec(children=(ChildSpec(name="a", start=lambda: Fed(log, receive)),))
    async with open_system("n0", spec) as system:
        await send.aclose()
        await settle()
        assert log == ["feeder ends"]
        await system.ref("/n0/a").tell("still there")
        await settle()
        assert log == ["feeder ends", "still there"]


async def test_a_feeders_crash_is_the_actors_crash(autojump_clock):
    log, seen = Log(), Events()

    @attrs.define
    class Sore(Fed):
        async def _feed(self, source: trio.MemoryReceiveChannel[str]) -> None:
            await source.receive()
            raise Boom("feeder")

    send, receive = trio.open_memory_channel[str](10)
    start = ChildSpec(name="a", start=lambda: Sore(log, receive), restart=Restart.TEMPORARY)
    async with open_system("n0", SupervisorSpec(children=(start,)), events=seen):
        await send.send("go")
        await settle()
    assert log == ["on_stop crashed"]
    assert [e.error for e in seen.of(events.ActorCrashed)] == ["Boom: feeder"]


async def test_a_feeder_waits_for_room_so_that_pressure_reaches_the_source(autojump_clock):
    log = Log()

    @attrs.define
    class Slow(Fed):
        mailbox = MailboxSpec(capacity=2)

        async def handle(self, message: str) -> None:
            await trio.sleep(1.0)
            self.log.append(message)

    send, receive = trio.open_memory_channel[str](0)
    spec = SupervisorSpec(children=(ChildSpec(name="a", start=lambda: Slow(log, receive)),))
    async with open_system("n0", spec):
        for number in range(8):
            await send.send(str(number))
        assert trio.current_time() >= 2.0
        await trio.sleep(20.0)
    assert log[:8] == [str(number) for number in range(8)]


async def test_the_feeders_task_bears_the_path(autojump_clock):
    log, names = Log(), []
    send, receive = trio.open_memory_channel[str](0)

    class Collect(trio.abc.Instrument):
        def task_spawned(self, task: trio.lowlevel.Task) -> None:
            names.append(task.name)

    instrument = Collect()
    trio.lowlevel.add_instrument(instrument)
    spec = SupervisorSpec(children=(ChildSpec(name="a", start=lambda: Fed(log, receive)),))
    async with open_system("n0", spec):
        await send.aclose()
    trio.lowlevel.remove_instrument(instrument)
    assert "/n0/a#1 feeder _feed" in names


# Small things


async def test_emit_bears_path_and_incarnation(autojump_clock):
    seen = Events()

    def script(ctx: Any) -> None:
        ctx.emit(events.LoopLagged(lag_s=1.5))

    async with open_system("n0", clockwork(Log(), script), events=seen):
        pass
    assert ("/n0/a", 1, events.LoopLagged(lag_s=1.5)) in seen


async def test_the_systems_randomness_is_injected_and_seeded_by_name(autojump_clock):
    drawn: list[float] = []

    def script(ctx: Any) -> None:
        drawn.append(ctx.rng.random())

    async with open_system("n0", clockwork(Log(), script)):
        pass
    async with open_system("n0", clockwork(Log(), script), rng=random.Random(7)):
        pass
    assert drawn == [random.Random("n0").random(), random.Random(7).random()]


async def test_refs_are_the_same_object_and_outlive_their_actor(autojump_clock):
    async with open_system("n0", clockwork(Log(), lambda ctx: None)) as system:
        a = system.ref("/n0/a")
        assert system.registry.ref("/n0/a") is a
        assert system.registry.lookup("/n0/a") is a
        assert system.registry.lookup("/n0/nobody") is None
        assert repr(a) == "<ActorRef /n0/a>"
    assert not a.alive


async def test_two_systems_in_one_program_do_not_meet(autojump_clock):
    log = Log()
    async with (
        open_system("n0", SupervisorSpec(children=(log.child("a"),))) as one,
        open_system("n0", SupervisorSpec(children=(log.child("b"),))) as two,
    ):
        assert one.registry.lookup("/n0/b") is None
        assert two.registry.lookup("/n0/a") is None
        assert one.ref("/n0/a") is not two.ref("/n0/a")


async def test_without_a_sink_events_go_to_the_logger(autojump_clock, caplog):
    caplog.set_level("DEBUG", logger="triolog.runtime")
    async with open_system("n0", clockwork(Log(), lambda ctx: None)):
        pass
    assert "/n0/a#1 ActorStarted" in caplog.text
