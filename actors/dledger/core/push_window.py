"""The pushes to one peer that it has not acknowledged, bounded in number and in bytes.

Source: openmessaging/dledger, DLedgerEntryPusher.java (EntryDispatcher.pendingMap,
batchPendingMap, doCheckAppendResponse), 0.3.1.2; specification 6.1 and 6.2.
"""

from __future__ import annotations

import math
from collections import deque

import attrs

from actors.dledger.core.settings import PushSettings


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

    @property
    def full(self) -> bool:
        """A further one has to wait; the one that reached the bound in bytes may exceed it."""
        settings = self._settings
        many = len(self._pushes) >= settings.pending_max
        return many or self._size_bytes >= settings.in_flight_bytes_max

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

    def acknowledged(self, last: int) -> None:
        """The peer has all up to there."""
        while self._pushes and self._pushes[0].last <= last:
            self._size_bytes -= self._pushes.popleft().size_bytes

    def clear(self) -> None:
        """No answer to any of them is waited for."""
        self._pushes.clear()
        self._size_bytes = 0
