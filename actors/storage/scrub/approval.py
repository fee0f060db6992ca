"""Decides which bytes of a log may be sent now: those that were compared or written a moment ago.

Bytes may rot after they were compared with their digests, so an answer of the scrubber's is used
for HOLDS_S, and bytes that were not sent by then are compared again. A slave that keeps up gets
what was just written, which is not compared; one that catches up fast uses an answer up long
before.

There is no upstream.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

HOLDS_S: Final = 1.0
"""How many seconds after they were written or compared bytes count as good. If bytes rot in
between, a slave may get them; its own scrub finds that.
"""
RENEW_S: Final = HOLDS_S / 2
"""How many seconds before its end an answer is asked for again, so that a slow link never waits."""


@attrs.frozen
class _Compared:
    """All from `start_bytes` up to `until_bytes` was compared, and good, at `at_s`."""

    start_bytes: int
    until_bytes: int
    at_s: float


@attrs.frozen
class _Written:
    """All from `start_bytes` on was written at `at_s` or later."""

    start_bytes: int
    at_s: float


@attrs.define(kw_only=True)
class Approval:
    """The bytes that one connection may send. All times are of one clock, which never goes back.

    Attributes:
        ahead_bytes: when fewer compared bytes than this remain, the next ones are asked for.
    """

    ahead_bytes: int
    _leaves_bytes: int | None = None
    _compared: deque[_Compared] = attrs.field(factory=deque)
    _written: deque[_Written] = attrs.field(factory=lambda: deque(maxlen=2))
    _bad_bytes: int | None = None
    _bad_until_s: float = 0.0

    def grew(self, leaves_bytes: int, since_s: float) -> None:
        """Note that the master may send all bytes below `leaves_bytes`.

        Args:
            since_s: when the new part of them was written, or earlier.
        """
        before, self._leaves_bytes = self._leaves_bytes, leaves_bytes
        marks = self._written
        if before is None or leaves_bytes < before:
            marks.clear()
        elif leaves_bytes > before and (not marks or since_s - marks[-1].at_s > HOLDS_S / 2):
            marks.append(_Written(before, since_s))

    def answered(self, start_bytes: int, until_bytes: int, at_s: float) -> None:
        """Note that bytes [start_bytes, until_bytes) were compared at `at_s`, and are good."""
        compared = self._compared
        while compared and compared[-1].until_bytes > start_bytes:
            compared.pop()  # an older answer, to the same question
        if until_bytes > start_bytes:
            compared.append(_Compared(start_bytes, until_bytes, at_s))

    def is_bad(self, at_bytes: int, until_s: float) -> None:
        """Note that nothing from `at_bytes` on may be sent; do not ask again before `until_s`."""
        self._bad_bytes, self._bad_until_s = at_bytes, until_s

    def limit(self, next_bytes: int, now_s: float) -> tuple[int, float]:
        """Return the offset up to which bytes from `next_bytes` on may be sent, and until when."""
        leaves = self._leaves_bytes or 0
        compared = self._compared
        while compared and compared[0].until_bytes <= next_bytes:
            compared.popleft()
        if compared and (
            now_s >= compared[0].at_s + HOLDS_S or compared[0].start_bytes > next_bytes
        ):
            compared.clear()
        until = compared[-1].until_bytes if compared else next_bytes
        new_from, new_until_s = self._new_from(now_s)
        holds_until_s = compared[0].at_s + HOLDS_S if compared else new_until_s
        if until >= new_from:
            return leaves, min(holds_until_s, new_until_s)
        return min(until, leaves), holds_until_s

    def ask_from(self, next_bytes: int, now_s: float) -> int | None:
        """Return the offset from which bytes have to be compared next; None if none have to be."""
        leaves = self._leaves_bytes or 0
        limit, _ = self.limit(next_bytes, now_s)
        start: int | None = None
        if next_bytes >= leaves:
            return None
        if not self._compared:
            start = next_bytes if limit < leaves else None
        elif now_s >= self._compared[0].at_s + RENEW_S and next_bytes < self._new_from(now_s)[0]:
            start = next_bytes
        elif limit < leaves and limit <= next_bytes + self.ahead_bytes:
            start = limit
        if start is not None and start == self._bad_bytes and now_s < self._bad_until_s:
            return None
        return start

    def _new_from(self, now_s: float) -> tuple[int, float]:
        """Return the offset from which all was written within HOLDS_S, and until when it was."""
        for mark in self._written:
            if now_s < mark.at_s + HOLDS_S:
                return mark.start_bytes, mark.at_s + HOLDS_S
        return self._leaves_bytes or 0, float("inf")
