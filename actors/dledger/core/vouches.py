"""A follower's answers that vouch for entries, until these are stored.

There is no upstream: a member there answers what it has written (bug B9).
"""

from __future__ import annotations

import heapq

import attrs

from actors.dledger.core.intake_effects import Pushed


@attrs.define(kw_only=True)
class Vouches:
    """See the module's text. In the order of the entries, then of the pushes.

    Attributes:
        most: so many may wait.
    """

    most: int
    _waiting: list[tuple[int, int, Pushed]] = attrs.field(factory=list, init=False)  # a heap
    _order: int = attrs.field(default=0, init=False)  # of those of one index

    def add(self, index: int, pushed: Pushed) -> bool:
        """It is answered once the log is stored up to there. Whether there is room for it."""
        if len(self._waiting) >= self.most:
            return False
        self._order += 1
        heapq.heappush(self._waiting, (index, self._order, pushed))
        return True

    def stored(self, index: int) -> list[Pushed]:
        """Those that wait for nothing behind that entry; they wait no more."""
        found = []
        while self._waiting and self._waiting[0][0] <= index:
            found.append(heapq.heappop(self._waiting)[2])
        return found

    def leaving(self, first: int) -> list[Pushed]:
        """Those that wait for that entry or one behind it, which leave; they wait no more."""
        waiting = sorted(self._waiting)
        self._waiting = [each for each in waiting if each[0] < first]  # what is sorted is a heap
        return [pushed for index, _, pushed in waiting if index >= first]

    def clear(self) -> list[Pushed]:
        """All of them; none waits any more."""
        return self.leaving(-1)
