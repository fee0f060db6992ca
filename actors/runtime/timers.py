"""The timers of one actor: its receive loop checks them, and its mailbox's alarm wakes it in time.

No tasks, so no tick survives a stop.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable
from typing import Generic, TypeVar

import trio

from actors.runtime.errors import ActorError
from actors.runtime.mailbox import Mailbox

M = TypeVar("M")

TIMERS_MAX = 16_384  # keys in use at once in one actor; more is a leak
STALE_MIN = 64  # replaced entries that stay in the heap before it is rebuilt


class Timers(Generic[M]):
    """Messages to the actor itself at times of `trio.current_time()`.

    There is one timer for each key; a new one replaces the old.

    The actor's own hooks and feeders use them. A timer fires between batches, never inside
    `handle`; it may be late if the actor is busy, but is never early. Timers that are due together
    fire in the order of their deadlines, then of their starts.
    """

    __slots__ = ("_entries", "_heap", "_mailbox", "_seq", "next_s")

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._entries: dict[Hashable, tuple[int, M, float]] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._seq = 0
        self.next_s = math.inf

    def start(self, key: Hashable, after_s: float, message: M) -> None:
        """Have `message` come after `after_s` seconds, in place of this key's earlier timer."""
        self.start_at(key, trio.current_time() + after_s, message)

    def start_at(self, key: Hashable, deadline_s: float, message: M) -> None:
        """Have `message` come at `deadline_s` of Trio's time."""
        if key not in self._entries and len(self._entries) >= TIMERS_MAX:
            raise ActorError(f"{self._mailbox.path} has {TIMERS_MAX} timers running")
        self._seq += 1
        self._entries[key] = (self._seq, message, deadline_s)
        heap = self._heap
        heapq.heappush(heap, (deadline_s, self._seq, key))
        if len(heap) > 2 * len(self._entries) + STALE_MIN:
            self._rebuild()
        if deadline_s < self.next_s:
            self.next_s = deadline_s
            self._mailbox.receiver.wake()  # only a feeder finds the loop parked here

    def start_by(self, key: Hashable, deadline_s: float, message: M) -> None:
        """Have `message` come at `deadline_s` at the latest: an earlier timer of the key stays.

        This is for a caller that copes with a message that comes too early: it finds nothing due,
        and sets the timer anew. Most deadlines are settled before they come, so moving the timer
        for each would cost more.
        """
        entry = self._entries.get(key)
        if entry is None or deadline_s < entry[2]:
            self.start_at(key, deadline_s, message)

    def cancel(self, key: Hashable) -> bool:
        """Stop the key's timer. Returns: False if there was none."""
        return self._entries.pop(key, None) is not None

    def active(self, key: Hashable) -> bool:
        return key in self._entries

    def take_due(self, now_s: float) -> tuple[list[M], float]:
        """Remove and return the messages that are due, and how many seconds the first is late."""
        due: list[M] = []
        lag_s = 0.0
        heap = self._heap
        while heap and heap[0][0] <= now_s:
            deadline_s, seq, key = heapq.heappop(heap)
            entry = self._entries.get(key)
            if entry is not None and entry[0] == seq:
                del self._entries[key]
                lag_s = max(lag_s, now_s - deadline_s)
                due.append(entry[1])
        self._drop_stale()
        return due, lag_s

    def _drop_stale(self) -> None:
        heap = self._heap
        while heap:
            entry = self._entries.get(heap[0][2])
            if entry is not None and entry[0] == heap[0][1]:
                break
            heapq.heappop(heap)
        self.next_s = heap[0][0] if heap else math.inf

    def _rebuild(self) -> None:
        self._heap = [each for each in self._heap if self._entries.get(each[2], (0,))[0] == each[1]]
        heapq.heapify(self._heap)
