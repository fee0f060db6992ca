"""Expires questions and wakes actors in time, with one heap and one task for each system.

A cancel scope per question would cost more than the question itself (measured: 5.7 of 14 us), and
one for each time that an actor parks a tenth of what an append costs. So they park without one;
this task fails the replies, and wakes the actors, whose time has come. What is answered, or was
replaced by an earlier time, stays in the heap until it is rebuilt or its time comes. The task
sleeps until the earliest time of all; an earlier one moves that and does not wake it (measured: an
alarm costs 86 us of processor time, and 115 where it does).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Protocol

import trio

from actors.runtime.parking import Parker

STALE_MIN = 64  # answered questions that stay in the heap before it is rebuilt


class Expiring(Protocol):
    """A question, or one ring of an alarm.

    Attributes:
        answered: whether it is settled, so that nothing is left to do.
    """

    answered: bool

    def expire(self) -> None:
        """Fail the question, because its time is over; harmless if it is answered."""


class Deadlines:
    """The deadlines of one system's unanswered questions and parked actors."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Expiring]] = []
        self._rebuild_at = STALE_MIN
        self._seq = 0
        self._scope = trio.CancelScope()  # until the next deadline
        self._parker = Parker()
        self._open = True

    def add(self, deadline_s: float, question: Expiring) -> None:
        """Have the question expire at `deadline_s`, unless it is answered before."""
        self._seq += 1
        heap = self._heap
        if len(heap) >= self._rebuild_at:
            heap = self._rebuild()
        heapq.heappush(heap, (deadline_s, self._seq, question))
        if deadline_s < self._scope.deadline:
            self._scope.deadline = deadline_s

    async def run(self) -> None:
        """Let questions expire in time, until `close`; shielded, because stops need it, too."""
        with trio.CancelScope(shield=True):
            while self._open:
                self._expire(trio.current_time())
                due_s = self._heap[0][0] if self._heap else math.inf
                with trio.CancelScope(deadline=due_s) as self._scope:
                    await self._parker.park()

    def close(self) -> None:
        """Let `run` return."""
        self._open = False
        self._parker.wake()

    def _expire(self, now_s: float) -> None:
        while (heap := self._heap) and (heap[0][0] <= now_s or heap[0][2].answered):
            heapq.heappop(heap)[2].expire()  # an alarm may be set again by that

    def _rebuild(self) -> list[tuple[float, int, Expiring]]:
        self._heap = heap = [entry for entry in self._heap if not entry[2].answered]
        heapq.heapify(heap)
        self._rebuild_at = STALE_MIN + 2 * len(heap)
        return heap


class Alarm:
    """Calls `ring` at the earliest time that was set, once; it may be set again from there.

    Attributes:
        at_s: when it rings next; inf: not set.
    """

    __slots__ = ("_deadlines", "_next", "_ring", "at_s")

    def __init__(self, deadlines: Deadlines, ring: Callable[[], None]) -> None:
        self._deadlines = deadlines
        self._ring = ring
        self._next: _Ring | None = None
        self.at_s = math.inf

    def set(self, at_s: float) -> None:
        """Have the alarm ring at `at_s`, or earlier if it is set to an earlier time."""
        if at_s < self.at_s:
            self.cancel()
            self.at_s = at_s
            self._next = _Ring(self)
            self._deadlines.add(at_s, self._next)

    def cancel(self) -> None:
        """Unset the alarm; harmless if it is not set."""
        if self._next is not None:
            self._next.answered = True
            self._next = None
        self.at_s = math.inf

    def rung(self) -> None:
        """Note that the alarm rang; only the deadlines call it."""
        self.cancel()
        self._ring()


class _Ring:
    """One time at which an alarm has to ring."""

    __slots__ = ("_alarm", "answered")

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self.answered = False

    def expire(self) -> None:
        if not self.answered:
            self._alarm.rung()
