"""The pushes to one peer that it has not acknowledged, bounded in number and in bytes.

Source: openmessaging/dledger, DLedgerEntryPusher.java (EntryDispatcher.pendingMap,
batchPendingMap, doCheckAppendResponse), 0.3.1.2; dledger.md 6.1 and 6.2.

Differs: a peer that refuses what follows on the same entry again is sent less at once, until that
has gone well for a while. Heartbeats share its way: behind all that a long log has to give it would
call its leader silent, forget what matches, and never catch up.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

import attrs

from actors.dledger.core.settings import PushSettings

HOLD_S: Final = 30.0
"""After so long without a refusal twice as much is tried."""
EASED: Final = 4
"""That part is tried after a refusal that the comparison before it has not helped against."""


@attrs.define(kw_only=True)
class UnderWay:
    """One of them: entries first to last, sent last at `sent_s`."""

    first: int
    last: int
    size_bytes: int
    sent_s: float


@attrs.define
class PushWindow:
    """See the module's text. Pushes are added in the order of their entries."""

    _settings: PushSettings
    _pushes: deque[UnderWay] = attrs.field(factory=deque, init=False)
    _size_bytes: int = attrs.field(default=0, init=False)
    _bytes_max: int = attrs.field(
        default=attrs.Factory(lambda window: window._settings.in_flight_bytes_max, takes_self=True),
        init=False,
    )
    _calm_s: float = attrs.field(default=0.0, init=False)  # no refusal, and no more tried, since

    @property
    def full(self) -> bool:
        """A further one has to wait; the one that reached the bound in bytes may exceed it."""
        return (
            len(self._pushes) >= self._settings.pending_max or self._size_bytes >= self._bytes_max
        )

    @property
    def batch_bytes_max(self) -> int:
        """The most bytes of one push of several entries."""
        return min(self._settings.batch_bytes_max, self._bytes_max)

    @property
    def due_s(self) -> float:
        """When the first of them is to be sent again; inf if there is none."""
        if not self._pushes:
            return math.inf
        return self._pushes[0].sent_s + self._settings.push_timeout_s

    def add(self, push: UnderWay) -> None:
        """It leaves now."""
        self._pushes.append(push)
        self._size_bytes += push.size_bytes

    def again(self, now_s: float) -> UnderWay:
        """The first of them, which is sent once more."""
        head = self._pushes[0]
        head.sent_s = now_s
        return head

    def acknowledged(self, now_s: float, last: int) -> None:
        """The peer has all up to there."""
        while self._pushes and self._pushes[0].last <= last:
            self._size_bytes -= self._pushes.popleft().size_bytes
        most = self._settings.in_flight_bytes_max
        if self._bytes_max < most and now_s >= self._calm_s + HOLD_S:
            self._bytes_max, self._calm_s = min(most, 2 * self._bytes_max), now_s

    def refused(self, now_s: float, times: int) -> None:
        """The peer took nothing of what follows on an entry, so many times in a row."""
        least, self._calm_s = self._settings.in_flight_bytes_least, now_s
        if least is not None and times > 1:
            self._bytes_max = max(least, self._bytes_max // EASED)

    def clear(self) -> None:
        """No answer to any of them is waited for."""
        self._pushes.clear()
        self._size_bytes = 0
