"""A follower's pushes that wait for the entries before them, by their first index.

Source: openmessaging/dledger, DLedgerEntryPusher.java (EntryHandler.writeRequestMap,
checkAbnormalFuture), 0.3.1.2; dledger.md 7.

Differs: a newer one of the same index takes the place of the older; who waits too long is answered
and forgotten. With `sticks` (`CompatSettings.pushes_stick`) neither (bug V2).
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from actors.dledger.core.intake_effects import Pushed
from wire.dledger.codes import ResponseCode

Refused: TypeAlias = tuple[Pushed, ResponseCode]


@attrs.define(kw_only=True)
class WaitingPushes:
    """See the module's text.

    Attributes:
        most: so many may wait.
        gap_s: and so long.
    """

    most: int
    gap_s: float
    sticks: bool = False
    _by_first: dict[int, tuple[float, Pushed]] = attrs.field(factory=dict, init=False)
    _told: set[int] = attrs.field(factory=set, init=False)  # tokens: answered, and still in the way

    @property
    def deadline_s(self) -> float | None:
        """When `late` has something to give; None: nothing waits for that."""
        waiting = (since_s for since_s, one in self._by_first.values() if not self._is_told(one))
        since_s = next(waiting, None)  # the oldest is first
        return None if since_s is None else since_s + self.gap_s

    def keep(self, now_s: float, pushed: Pushed) -> Refused | None:
        """Have it wait. Gives what is refused for that, an older one or itself, and how."""
        held = self._by_first
        if self.sticks and pushed.first in held:
            return pushed, ResponseCode.REPEATED_PUSH
        older = held.pop(pushed.first, None)
        if older is None and len(held) >= self.most:
            return pushed, ResponseCode.PUSH_REQUEST_IS_FULL
        held[pushed.first] = now_s, pushed
        return None if older is None else (older[1], ResponseCode.REPEATED_PUSH)

    def next(self, last: int) -> Pushed | None:
        """One that follows on that entry, or begins before it; it waits no more."""
        first = min(self._by_first, default=None)
        return None if first is None or first > last + 1 else self._by_first.pop(first)[1]

    def late(self, now_s: float) -> list[Pushed]:
        """Those that have waited too long, to be answered. Each is given to `answered` then."""
        held = self._by_first.values()
        return [
            pushed
            for since_s, pushed in held
            if now_s >= since_s + self.gap_s and not self._is_told(pushed)
        ]

    def answered(self, pushed: Pushed) -> None:
        """It is over, though what it waited for has not come."""
        if self.sticks:
            self._told.add(pushed.token)
        else:
            del self._by_first[pushed.first]

    def take_answered(self, pushed: Pushed) -> bool:
        """Whether it was answered before, and must not be again. Asked once."""
        was = self._is_told(pushed)
        self._told.discard(pushed.token)
        return was

    def clear(self) -> list[Pushed]:
        """None waits any more. Gives those that did."""
        left = [pushed for _, pushed in self._by_first.values()]
        self._by_first.clear()
        return left

    def _is_told(self, pushed: Pushed) -> bool:
        return pushed.token in self._told
