"""The pushes to one peer that it has not acknowledged, bounded in number and in bytes.

Source: openmessaging/dledger, DLedgerEntryPusher.java (EntryDispatcher.pendingMap,
batchPendingMap, doCheckAppendResponse), 0.3.1.2; dledger.md 6.1 and 6.2.

Differs: a peer that refuses what follows on the same entry again, or again does not answer what is
sent of it, is sent less at once, until that has gone well for a while. Heartbeats share its
connection: behind all that a long log has to send, the peer would take its leader for silent,
forget what matches, and never catch up.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

import attrs

from actors.dledger.core.settings import PushSettings

HOLD_S: Final = 30.0
"""The time without a refusal, in seconds, after which twice as many bytes are sent at once."""
EASED: Final = 4
"""The divisor of the bytes sent at once after a refusal, or a silence, that a comparison did not
resolve.
"""


@attrs.define(kw_only=True)
class UnderWay:
    """One unacknowledged push: of the entries first to last, last sent at `sent_s`."""

    first: int
    last: int
    size_bytes: int
    sent_s: float


@attrs.define
class PushWindow:
    """The unacknowledged pushes to one peer. They are added in the order of their entries."""

    _settings: PushSettings
    _pushes: deque[UnderWay] = attrs.field(factory=deque, init=False)
    _size_bytes: int = attrs.field(default=0, init=False)
    _bytes_max: int = attrs.field(
        default=attrs.Factory(lambda window: window._settings.in_flight_bytes_max, takes_self=True),
        init=False,
    )
    _calm_s: float = attrs.field(default=0.0, init=False)  # of the last refusal or increase

    @property
    def full(self) -> bool:
        """Whether a further push has to wait. The last push may exceed the bound in bytes."""
        return (
            len(self._pushes) >= self._settings.pending_max or self._size_bytes >= self._bytes_max
        )

    @property
    def batch_bytes_max(self) -> int:
        """The largest size in bytes of a push of several entries."""
        return min(self._settings.batch_bytes_max, self._bytes_max)

    @property
    def due_s(self) -> float:
        """The time at which the oldest push has to be sent again; infinity if there is none."""
        if not self._pushes:
            return math.inf
        return self._pushes[0].sent_s + self._settings.push_timeout_s

    def add(self, push: UnderWay) -> None:
        """Add a push that is sent now."""
        self._pushes.append(push)
        self._size_bytes += push.size_bytes

    def again(self, now_s: float) -> UnderWay:
        """Mark the oldest push as sent again now, and return it."""
        head = self._pushes[0]
        head.sent_s = now_s
        return head

    def acknowledged(self, now_s: float, last: int) -> None:
        """Remove the pushes up to that entry: the peer has acknowledged them."""
        while self._pushes and self._pushes[0].last <= last:
            self._size_bytes -= self._pushes.popleft().size_bytes
        most = self._settings.in_flight_bytes_max
        if self._bytes_max < most and now_s >= self._calm_s + HOLD_S:
            self._bytes_max, self._calm_s = min(most, 2 * self._bytes_max), now_s

    def refused(self, now_s: float, times: int) -> None:
        """Note that the peer refused what follows on one entry, `times` times in a row."""
        least, self._calm_s = self._settings.in_flight_bytes_least, now_s
        if least is not None and times > 1:
            self._bytes_max = max(least, self._bytes_max // EASED)

    def unanswered(self, now_s: float, times: int) -> None:
        """Note that the peer has answered nothing of what is under way, `times` times in a row."""
        least, self._calm_s = self._settings.in_flight_bytes_least, now_s
        if least is not None and times > 1 and self._size_bytes > least:
            self._bytes_max = max(least, min(self._bytes_max, self._size_bytes) // EASED)

    def clear(self) -> None:
        """Remove all pushes: no answer to them is waited for any more."""
        self._pushes.clear()
        self._size_bytes = 0
