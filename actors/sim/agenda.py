"""Timed actions of the simulated hardware: one heap, one task, no thread and no task per action."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

import trio

from actors.runtime.parking import Parker
from actors.sim.scheduler import Alarm


class Agenda:
    """Runs actions at their virtual times, those of equal time in the order they were entered.

    Actions are synchronous, and act on simulated hardware only.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._parker = Parker()
        self._running = False
        self._ended = False

    def at(self, when_s: float, action: Callable[[], None]) -> None:
        """Run `action` at virtual time `when_s`, or as soon as possible after it; never, if `run`
        has ended: tasks of a world that breaks off end in any order, and some use it then.
        """
        if self._ended:
            return
        assert self._running, "the simulated network needs its run() in a nursery"
        heapq.heappush(self._heap, (when_s, next(self._order), action))
        if self._heap[0][2] is action:
            self._parker.wake()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        self._running = True
        alarm = Alarm(self._parker.wake)  # rings for most of the actions
        try:
            task_status.started()
            while True:
                now_s = trio.current_time()
                while self._heap and self._heap[0][0] <= now_s:
                    heapq.heappop(self._heap)[2]()
                alarm.set(self._heap[0][0] if self._heap else math.inf)
                await self._parker.park()
        finally:
            alarm.set(math.inf)
            self._running, self._ended = False, True
