"""Calls that wait for their answers on one connection: by number, and by deadline.

Source: apache/rocketmq, remoting/netty/NettyRemotingAbstract (responseTable, scanResponseTable),
4.9.4, where a scan each second looks for calls whose time is over.
"""

from __future__ import annotations

import heapq
import math
from typing import Final, Generic, TypeVar

import attrs

IN_FLIGHT_MAX: Final = 65_535
"""How many calls of one connection may be unanswered. Upstream: clientAsyncSemaphoreValue."""
OPAQUE_MAX: Final = 2**31 - 1
UNANSWERED_OPAQUE: Final = 0
"""The number of all one-way requests, which no call has."""
STALE_MIN: Final = 64  # deadlines of answered calls that stay in the heap before it is rebuilt

C = TypeVar("C")


@attrs.define
class OpenCalls(Generic[C]):
    """See the module's text.

    Numbers go on from one connection to the next, so no late answer is mistaken for another's.

    Attributes:
        limit: how many calls may be open.
    """

    limit: int = IN_FLIGHT_MAX
    _open: dict[int, tuple[float, C]] = attrs.field(factory=dict, init=False)
    _heap: list[tuple[float, int]] = attrs.field(factory=list, init=False)
    _opaque: int = attrs.field(default=0, init=False)

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, opaque: int) -> bool:
        return opaque in self._open

    @property
    def deadline_s(self) -> float:
        """When the next open call times out; infinity if none is open."""
        heap, known = self._heap, self._open
        while heap and known.get(heap[0][1], (math.nan,))[0] != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else math.inf

    def add(self, call: C, deadline_s: float) -> int | None:
        """Add a call.

        Returns: the number to send it with, 1 .. OPAQUE_MAX; None if too many are open.
        """
        if len(self._open) >= self.limit:
            return None
        self._opaque = self._opaque % OPAQUE_MAX + 1
        while self._opaque in self._open:  # only after 2**31 calls
            self._opaque = self._opaque % OPAQUE_MAX + 1
        self._open[self._opaque] = (deadline_s, call)
        if len(self._heap) >= 2 * len(self._open) + STALE_MIN:
            self._heap = [(each_s, number) for number, (each_s, _) in self._open.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (deadline_s, self._opaque))
        return self._opaque

    def take(self, opaque: int) -> C | None:
        """Remove and return the call of this number; None if it was answered or given up before."""
        found = self._open.pop(opaque, None)
        return None if found is None else found[1]

    def expire(self, now_s: float) -> list[C]:
        """Remove and return the calls whose deadline has passed, ordered by deadline."""
        due = []
        while self.deadline_s <= now_s:
            due.append(self._open.pop(heapq.heappop(self._heap)[1])[1])
        return due

    def clear(self) -> list[C]:
        """Remove and return all calls, in the order in which they came."""
        left = [call for _, call in self._open.values()]
        self._open.clear()
        self._heap.clear()
        return left
