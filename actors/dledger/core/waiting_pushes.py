"""A follower's pushes that wait for the entries before them, by their first index.

Source: openmessaging/dledger, DLedgerEntryPusher.java (EntryHandler.writeRequestMap,
checkAbnormalFuture), 0.3.1.2; dledger.md 7.

Differs: a newer push of the same index replaces the older one; a push that waits too long is
answered and forgotten. With `sticks` (`CompatSettings.pushes_stick`) neither is so (bug V2).
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
        most: how many may wait.
        gap_s: how long each may wait.
    """

    most: int
    gap_s: float
    sticks: bool = False
    _by_first: dict[int, tuple[float, Pushed]] = attrs.field(factory=dict, init=False)
    _answered: set[int] = attrs.field(factory=set, init=False)  # tokens, of those still queued

    @property
    def deadline_s(self) -> float | None:
        """The time from which on `late` has pushes to return; None if none waits."""
        waiting = (
            since_s for since_s, one in self._by_first.values() if not self._is_answered(one)
        )
        since_s = next(waiting, None)  # the oldest is first
        return None if since_s is None else since_s + self.gap_s

    def keep(self, now_s: float, pushed: Pushed) -> Refused | None:
        """Keep a push until the entries before it have come.

        Returns: the push that is refused for lack of room, an older one or this one; None if none.
        """
        held = self._by_first
        if self.sticks and pushed.first in held:
            return pushed, ResponseCode.REPEATED_PUSH
        older = held.pop(pushed.first, None)
        if older is None and len(held) >= self.most:
            return pushed, ResponseCode.PUSH_REQUEST_IS_FULL
        held[pushed.first] = now_s, pushed
        return None if older is None else (older[1], ResponseCode.REPEATED_PUSH)

    def next(self, last: int) -> Pushed | None:
        """Remove and return a push that begins right after that entry, or before."""
        first = min(self._by_first, default=None)
        return None if first is None or first > last + 1 else self._by_first.pop(first)[1]

    def late(self, now_s: float) -> list[Pushed]:
        """Return the pushes that have waited too long.

        The caller answers each of them and passes it to `answered`.
        """
        held = self._by_first.values()
        return [
            pushed
            for since_s, pushed in held
            if now_s >= since_s + self.gap_s and not self._is_answered(pushed)
        ]

    def answered(self, pushed: Pushed) -> None:
        """Note that a push was answered although the entries before it did not come."""
        if self.sticks:
            self._answered.add(pushed.token)
        else:
            del self._by_first[pushed.first]

    def take_answered(self, pushed: Pushed) -> bool:
        """Return whether a push was answered already, and forget it: True once for each push."""
        was = self._is_answered(pushed)
        self._answered.discard(pushed.token)
        return was

    def clear(self) -> list[Pushed]:
        """Remove and return all of them."""
        left = [pushed for _, pushed in self._by_first.values()]
        self._by_first.clear()
        return left

    def _is_answered(self, pushed: Pushed) -> bool:
        return pushed.token in self._answered
