"""One incarnation of one actor: its receive loop, from `on_start` to `on_stop`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import trio

from actors.events import runtime as events
from actors.runtime.actor import Actor
from actors.runtime.context import ActorContext
from actors.runtime.errors import ActorDown, StopFailed
from actors.runtime.mailbox import Mailbox, MailboxStatistics, StopReason
from actors.runtime.ref import Registry
from actors.runtime.tree import TreeNode

WORK_S = 0.010  # a receive loop checkpoints at least this often
LOOK_S = 0.002  # how much work may pass between two looks at the clock
LOOK_MAX = 64  # messages between two looks at the clock, at most
UNCHECKED_MAX = 4096  # messages without a checkpoint, for clocks that stand still while we work
LAG_S = 1.0  # a timer that fires this late is reported as LoopLagged


class ActorProcess:
    """Runs one actor instance. Its supervisor owns the cancel scope around it."""

    kind = "actor"

    def __init__(self, registry: Registry, path: str, incarnation: int, actor: Actor[Any]) -> None:
        self.path = path
        self.incarnation = incarnation
        self.type = type(actor).__name__
        self.stopped_as = StopReason.KILLED
        self._registry = registry
        self._actor = actor
        self._ref = registry.ref(path)
        self._mailbox = Mailbox(actor.mailbox, path, registry.deadlines)
        self._ctx: ActorContext[Any] = ActorContext(
            registry, self._ref, incarnation, self._mailbox, self._fail, actor.asks_max
        )
        self._failure: Exception | None = None
        self._killed = False
        self._one_by_one = type(actor).handle_batch is Actor.handle_batch
        self._batch: Iterator[Any] = iter(())
        self._control: Iterator[Any] = iter(())
        self._look_every = 1
        self._unchecked = 0
        self._since_s = 0.0
        self._looked_s = 0.0
        actor.ctx = self._ctx

    def request_stop(self) -> None:
        self._mailbox.stop(StopReason.SHUTDOWN)

    def open_to_kill(self) -> None:
        self._killed = True

    def shutdown_s(self, own_s: float) -> float:
        return own_s

    def statistics(self) -> MailboxStatistics:
        return self._mailbox.statistics()

    def snapshot_children(self) -> tuple[TreeNode, ...]:
        return ()

    def running_paths(self) -> list[str]:
        return []

    def failure(self) -> Exception | None:
        return self._failure

    async def run(self, started: Callable[[], None]) -> None:
        """Run the actor from its start to its end.

        In this order: `on_start`; `started`; messages; the mailbox is closed; feeders end;
        `on_stop`; unanswered replies fail.
        """
        ready = False
        crash: Exception | None = None
        self._ref.attach(self._mailbox)
        task = self._mailbox.receiver_task = trio.lowlevel.current_task()
        try:
            async with trio.open_nursery() as nursery:
                self._ctx.open(nursery)
                await self._actor.on_start()
                ready = True
                started()
                self._registry.receivers[task] = self.path
                try:
                    self.stopped_as = await self._receive()
                finally:
                    del self._registry.receivers[task]
                self._close()
                nursery.cancel_scope.cancel()
        except Exception as exc:  # noqa: BLE001 - raised again after on_stop
            crash = exc
            self.stopped_as = StopReason.CRASHED
        finally:
            if self._killed:
                self.stopped_as = StopReason.KILLED
            self._close(crash)
            try:
                if ready:
                    await self._stop(crash)
            finally:
                self._fail_replies(crash)
        if crash is not None:
            raise crash

    async def _stop(self, crash: Exception | None) -> None:
        try:
            await self._actor.on_stop(self.stopped_as)
        except Exception as exc:
            reason, self.stopped_as = self.stopped_as, StopReason.CRASHED
            if reason is StopReason.SHUTDOWN:
                raise StopFailed(f"{self.path} failed in on_stop", [exc]) from None
            if crash is None:
                raise
            raise ExceptionGroup(
                f"{self.path} crashed, and again in on_stop", [crash, exc]
            ) from None

    def _close(self, crash: Exception | None = None) -> None:
        """Close the mailbox, and dead-letter what was not read; harmless if it is closed."""
        if self._mailbox.open:
            self._ref.detach()
            unread = [*self._control, *self._batch, *self._mailbox.close()]
            self._registry.dead_letters(self.path, unread, crash=crash)

    def _fail_replies(self, crash: Exception | None) -> None:
        self._ctx.close()
        for reply in list(self._mailbox.replies):
            error = ActorDown(f"{self.path}#{self.incarnation} ended before it answered")
            error.__cause__ = crash
            reply.fail(error)

    def _fail(self, error: Exception) -> None:
        """Have the receive loop raise `error`, which happened in another task."""
        self._failure = error
        self._mailbox.alert()

    # The receive loop. Nothing here may yield between finding both lanes empty and parking.

    async def _receive(self) -> StopReason:
        mailbox = self._mailbox
        lane = mailbox.lane
        timers = self._ctx.timers
        handle = self._actor.handle
        park = mailbox.receiver.park
        deal = self._deal_one_by_one if self._one_by_one else self._actor.handle_batch
        while True:
            if mailbox.urgent and await self._look_up():
                assert mailbox.stopping is not None
                return mailbox.stopping
            batch = mailbox.take() if lane.items else []
            if timers.next_s != math.inf and timers.next_s <= trio.current_time():
                batch = self._due() + batch
            if len(batch) == 1 and self._one_by_one:
                await handle(batch[0])
            elif batch:
                await deal(batch)
            else:
                mailbox.timer_s = timers.next_s
                wakes_s = min(timers.next_s, mailbox.deferred_s)
                if wakes_s < mailbox.alarm.at_s:
                    mailbox.alarm.set(wakes_s)
                await park()
                self._woken()
                continue
            if lane.items or mailbox.urgent:
                await self._look_at_clock(1)

    def _woken(self) -> None:
        mailbox = self._mailbox
        now_s = mailbox.first_s if mailbox.lane.items else trio.current_time()
        self._since_s = self._looked_s = now_s
        self._unchecked = 0

    def _due(self) -> list[Any]:
        due, lag_s = self._ctx.timers.take_due(trio.current_time())
        if lag_s > LAG_S:
            self._ctx.emit(events.LoopLagged(lag_s=lag_s))
        return due

    async def _look_up(self) -> bool:
        """Handle what is urgent: failure, stop, control messages. Returns: whether to end."""
        mailbox = self._mailbox
        while mailbox.urgent:
            if self._failure is not None:
                raise self._failure
            if mailbox.stopping is not None:
                return True
            control = mailbox.take_control()
            if not self._one_by_one:
                if control:
                    await self._actor.handle_batch(control)
                continue
            self._control = iter(control)
            for message in self._control:
                await self._actor.handle(message)
                if mailbox.stopping is not None:
                    break
        return False

    async def _deal_one_by_one(self, batch: list[Any]) -> None:
        mailbox = self._mailbox
        handle = self._actor.handle
        rest = self._batch = iter(batch)
        left = len(batch)
        while left > 0:
            count = self._look_every
            for message in islice(rest, count):
                await handle(message)
                if mailbox.urgent and await self._look_up():
                    return  # what is left in `rest` becomes dead letters
            left -= count
            if left > 0:
                await self._look_at_clock(count)

    async def _look_at_clock(self, count: int) -> None:
        """Checkpoint if it is time, after `count` messages; adapt how often to check."""
        now_s = trio.current_time()
        took_s = now_s - self._looked_s
        self._unchecked += count
        if now_s - self._since_s >= WORK_S or self._unchecked >= UNCHECKED_MAX:
            await trio.lowlevel.checkpoint()
            now_s = self._since_s = trio.current_time()
            self._unchecked = 0
        self._looked_s = now_s
        if took_s > LOOK_S:
            self._look_every = max(1, int(count * LOOK_S / took_s))
        elif self._look_every < LOOK_MAX:
            self._look_every *= 2
