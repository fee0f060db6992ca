"""Decides what the master sends next on one connection: a frame, a heartbeat, or nothing for now.

Source: apache/rocketmq store/ha/DefaultHAConnection.WriteSocketService.run (5.3.3);
classic-ha.md 2.4.

Differs from upstream: every growth of the log wakes it (upstream polls every 100 ms on an
ASYNC_MASTER, T19). The frame size is clamped to what a Java slave can take (T10). The connection of
a slave whose next byte was deleted by age ends, instead of sending heartbeats for ever (T2; with
`upstream` it sends them).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs

from actors.ha.core.rate_limiter import RateLimiter
from actors.ha.core.sent_mark import SentMark


@attrs.frozen
class Frame:
    """Send these bytes of the log, at least one."""

    offset_bytes: int
    size_bytes: int


@attrs.frozen
class Heartbeat:
    """Send an empty frame with the next offset."""

    offset_bytes: int


@attrs.frozen
class Wait:
    """There is nothing to send before `until_s`, unless the log grows; None: without a limit."""

    until_s: float | None


@attrs.frozen
class Expired:
    """The next byte was deleted by age, because this slave was too far behind."""

    next_bytes: int
    min_bytes: int


Step: TypeAlias = Frame | Heartbeat | Wait | Expired


@attrs.define(kw_only=True)
class TransferProgress:
    """How far the log was sent on one connection, and what comes next.

    Attributes:
        frame_bytes: the largest body of a frame.
        header_bytes: the bytes of a frame beside its body, for the rate limit.
        segment_bytes: no frame crosses a multiple of it.
        stretch_end: gives, for an offset, where a frame from there on ends at the latest, as the
            dialect says at that moment; None: it says nothing.
        heartbeat_s: an idle connection gets an empty frame so often.
        mark: raised to a frame's end before the frame is sent.
        upstream: whether a slave whose next byte is gone gets heartbeats (`compat`).
    """

    frame_bytes: int
    header_bytes: int
    segment_bytes: int
    heartbeat_s: float
    mark: SentMark = attrs.field(factory=SentMark)
    stretch_end: Callable[[int], int] | None = None
    upstream: bool = False
    limiter: RateLimiter = attrs.field(factory=RateLimiter)
    _next_bytes: int | None = None
    _min_bytes: int = 0
    _limit_bytes: int = 0
    _last_write_s: float = 0.0

    def __attrs_post_init__(self) -> None:
        assert self.frame_bytes > 0
        assert self.segment_bytes > 0
        assert self.heartbeat_s > 0

    @property
    def next_bytes(self) -> int | None:
        """The first byte that is not sent yet; None before the first report."""
        return self._next_bytes

    def start(self, start_bytes: int, now_s: float) -> None:
        """Begin to send at `start_bytes`, because the first report came."""
        assert self._next_bytes is None
        self._next_bytes = start_bytes
        self._last_write_s = now_s

    def grew(self, min_bytes: int, limit_bytes: int) -> None:
        """Note the store's new range; `limit_bytes` is the end of what the master may send."""
        self._min_bytes = min_bytes
        self._limit_bytes = limit_bytes

    def next_step(self, now_s: float) -> Step:
        """What to do now. It changes nothing: call `sending` before a frame or heartbeat is sent,
        and `sent` after it.
        """
        if self._next_bytes is None:
            return Wait(None)
        if self._next_bytes < self._min_bytes and not self.upstream:
            return Expired(self._next_bytes, self._min_bytes)
        heartbeat_at_s = self._last_write_s + self.heartbeat_s
        size_bytes = self._sendable_bytes(self._next_bytes)
        if size_bytes > 0:
            budget_bytes = self.limiter.budget_bytes(now_s)
            if budget_bytes is None:
                return Frame(self._next_bytes, size_bytes)
            if budget_bytes > 0:
                # At least one byte, so that the transfer goes on under the smallest limit.
                fitting_bytes = max(budget_bytes - self.header_bytes, 1)
                return Frame(self._next_bytes, min(size_bytes, fitting_bytes))
        if now_s >= heartbeat_at_s:
            return Heartbeat(self._next_bytes)
        if size_bytes > 0:
            return Wait(min(heartbeat_at_s, self.limiter.next_tick_s()))
        return Wait(heartbeat_at_s)

    def sending(self, step: Frame | Heartbeat) -> None:
        """Note that the step is about to be sent: from now on the slave may have it."""
        assert step.offset_bytes == self._next_bytes  # FramesContiguous
        if isinstance(step, Frame):
            self.mark.raise_to(step.offset_bytes + step.size_bytes)

    def sent(self, step: Frame | Heartbeat, now_s: float) -> None:
        """Note that the whole step was sent."""
        assert step.offset_bytes == self._next_bytes  # FramesContiguous
        size_bytes = step.size_bytes if isinstance(step, Frame) else 0
        self._next_bytes = step.offset_bytes + size_bytes
        self._last_write_s = now_s
        self.limiter.count(self.header_bytes + size_bytes, now_s)

    def _sendable_bytes(self, next_bytes: int) -> int:
        if next_bytes < self._min_bytes:
            return 0
        in_segment = self.segment_bytes - next_bytes % self.segment_bytes
        size_bytes = min(self._limit_bytes - next_bytes, in_segment, self.frame_bytes)
        if self.stretch_end is None:
            return size_bytes
        return min(size_bytes, self.stretch_end(next_bytes) - next_bytes)
