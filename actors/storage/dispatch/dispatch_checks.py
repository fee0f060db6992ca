"""What the dispatcher may derive from: bytes of the log that were compared, or written, just now.

What is derived from damaged bytes stays wrong when the log was mended: a record whose queue offset
has rotted makes a queue a million units longer, one with another topic makes another queue, or has
one lack a unit each time that it is built anew. So old bytes, which are read when something is
built anew, are compared first, and at damage the dispatcher stands until it is mended. The
scrubber compares; at an ordered stop it has gone first, and the dispatcher compares the rest
itself. There is no upstream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from actors.runtime import ActorRef
from actors.storage.scrub.approval import Approval
from actors.storage.scrub.log_check import LogCheck, Steps
from actors.storage.scrub.scrubber_messages import CHECK_BYTES, RECHECK_S, Check, Checked

CHECK_TIMEOUT_S: Final = 60.0
"""A file without digests is parsed first."""
ASK_AGAIN_S: Final = 0.2
"""The scrubber starts after the dispatcher, and may start again."""


@attrs.define(kw_only=True)
class DispatchChecks:
    """What one dispatcher checks before it derives.

    Attributes:
        scrubber: compares; None: nothing is compared.
        damaged_bytes: damage begins there, or nobody knows; None: none is known.
    """

    scrubber: ActorRef[Check] | None
    damaged_bytes: int | None = attrs.field(default=None, init=False)
    _approval: Approval = attrs.field(factory=lambda: Approval(ahead_bytes=CHECK_BYTES), init=False)
    _old_bytes: int | None = attrs.field(default=None, init=False)
    _is_asking: bool = attrs.field(default=False, init=False)
    _is_ending: bool = attrs.field(default=False, init=False)
    _reported_bytes: int | None = attrs.field(default=None, init=False)  # it waits at this damage

    def grew(self, limit_bytes: int, since_s: float) -> None:
        """The log reaches to there; what is new of it was written at `since_s` or later."""
        if self._old_bytes is None:
            self._old_bytes = limit_bytes
        self._approval.grew(limit_bytes, since_s)

    def rewind(self, at_bytes: int) -> None:
        """What lies below is read once more."""
        self._old_bytes = max(self._old_bytes or 0, at_bytes)

    def end(self) -> None:
        """The scrubber has gone, and what it was asked stays without an answer. What this start has
        seen being written need not be compared.
        """
        self._is_ending, self._is_asking = True, False
        self._approval.is_bad(0, 0.0)  # ask at once

    def limit(self, at_bytes: int, limit_bytes: int, now_s: float) -> int:
        """The offset up to which the log may be read from `at_bytes` on."""
        if self.scrubber is None or self._is_ending_with(at_bytes):
            return limit_bytes
        return min(limit_bytes, self._approval.limit(at_bytes, now_s)[0])

    def begin_ask(self, at_bytes: int, now_s: float) -> int | None:
        """The offset from which on bytes have to be compared now; None: none have to be."""
        if self.scrubber is None or self._is_asking or self._is_ending_with(at_bytes):
            return None
        start = self._approval.ask_from(at_bytes, now_s)
        self._is_asking = start is not None
        return start

    def _is_ending_with(self, at_bytes: int) -> bool:
        """Whether what was compared ends there, and all after it is new."""
        return self._is_ending and self._old_bytes is not None and at_bytes >= self._old_bytes

    def answered(self, start: int, outcome: Checked | Exception, now_s: float) -> float:
        """Take the scrubber's answer. Returns: in how many seconds to ask again; 0: when needed."""
        self._is_asking = False
        if isinstance(outcome, Exception):
            self._approval.is_bad(start, now_s + ASK_AGAIN_S)
            return ASK_AGAIN_S
        self._approval.answered(start, outcome.until_bytes, outcome.compared_s)
        if not outcome.rotten:
            return 0.0
        self.damaged_bytes = outcome.until_bytes
        self._approval.is_bad(outcome.until_bytes, now_s + RECHECK_S)
        return RECHECK_S

    def look_again(self) -> None:
        """Ask again at once, because something was mended."""
        if self.damaged_bytes is not None:
            self._approval.is_bad(self.damaged_bytes, 0.0)

    def stands(self, limit_bytes: int) -> int | None:
        """It has come to `limit_bytes`, and may read no further: which damage that is, if it is one
        that was not reported yet. None, too, while what comes next is being compared.
        """
        damaged = self.damaged_bytes
        if damaged is None or damaged != limit_bytes or damaged == self._reported_bytes:
            return None
        self._reported_bytes = damaged
        return damaged

    def goes_on(self, at_bytes: int) -> bool:
        """It has come to `at_bytes`: whether that is behind damage at which it stood."""
        if self.damaged_bytes is not None and at_bytes > self.damaged_bytes:
            self.damaged_bytes = None
        if self._reported_bytes is None or at_bytes <= self._reported_bytes:
            return False
        self._reported_bytes = None
        return True


def compared_alone(
    check: LogCheck, start: int, end: int, is_late: Callable[[], bool]
) -> Steps[int]:
    """How far the bytes from `start` on are what was written, `end` at most, where no scrubber can
    be asked: files without digests are parsed. As the scrubber does, it takes a last range that is
    not complete for good: the start has parsed it, or this process has written it.

    Args:
        is_late: asked between two steps of a few milliseconds; if so, what was seen is given.

    Raises: OffsetGone.
    """
    until = yield from check.check(start, end)
    while until < end and check.is_unknown(until) and not is_late():
        before = until
        walk = check.walk_anew(until - until % check.digests.segment_bytes)
        while not (walk.broken or is_late()) and (yield from check.step(walk)):
            pass
        until = yield from check.check(before, end)
        if until == before:
            break  # it is damaged
    return until
