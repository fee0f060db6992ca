"""Decides from which bytes of the log the dispatcher may derive: those that were compared or
written just now.

What is derived from damaged bytes stays wrong after the log is mended: a record whose queue offset
is damaged makes a queue a million units longer, and one whose topic is damaged makes a new queue,
or leaves a queue without a unit each time that it is built anew. So old bytes, which are read when
something is built anew, are compared with their digests first, and the dispatcher halts at damage
until it is mended. The scrubber compares; at an ordered stop it stops first, and the dispatcher
compares the rest itself. Upstream has nothing like it.
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
"""How long to wait for an answer: a file without digests is parsed first."""
ASK_AGAIN_S: Final = 0.2
"""How long to wait before asking again: the scrubber starts after the dispatcher, and may
restart."""


@attrs.define(kw_only=True)
class DispatchChecks:
    """The state of one dispatcher's checks.

    Attributes:
        scrubber: the actor that compares; None: nothing is compared.
        damaged_bytes: the offset at which bytes are damaged, or cannot be judged; None: no such
            bytes are known.
    """

    scrubber: ActorRef[Check] | None
    damaged_bytes: int | None = attrs.field(default=None, init=False)
    _approval: Approval = attrs.field(factory=lambda: Approval(ahead_bytes=CHECK_BYTES), init=False)
    _old_bytes: int | None = attrs.field(default=None, init=False)
    _is_asking: bool = attrs.field(default=False, init=False)
    _is_ending: bool = attrs.field(default=False, init=False)
    # the damage at which it waits
    _reported_bytes: int | None = attrs.field(default=None, init=False)

    def grew(self, limit_bytes: int, since_s: float) -> None:
        """Record that the log reaches to `limit_bytes`; new bytes were written at `since_s` or
        later.
        """
        if self._old_bytes is None:
            self._old_bytes = limit_bytes
        self._approval.grew(limit_bytes, since_s)

    def rewind(self, at_bytes: int) -> None:
        """Record that what lies below `at_bytes` is read once more."""
        self._old_bytes = max(self._old_bytes or 0, at_bytes)

    def end(self) -> None:
        """Record that the scrubber has stopped and will not answer.

        Bytes that were written since this start need not be compared.
        """
        self._is_ending, self._is_asking = True, False
        self._approval.is_bad(0, 0.0)  # ask at once

    def limit(self, at_bytes: int, limit_bytes: int, now_s: float) -> int:
        """Return the offset up to which the log may be read from `at_bytes` on."""
        if self.scrubber is None or self._is_ending_with(at_bytes):
            return limit_bytes
        return min(limit_bytes, self._approval.limit(at_bytes, now_s)[0])

    def begin_ask(self, at_bytes: int, now_s: float) -> int | None:
        """Return the offset from which on bytes have to be compared now; None: none have to be."""
        if self.scrubber is None or self._is_asking or self._is_ending_with(at_bytes):
            return None
        start = self._approval.ask_from(at_bytes, now_s)
        self._is_asking = start is not None
        return start

    def _is_ending_with(self, at_bytes: int) -> bool:
        """Whether all old bytes were compared, and everything from `at_bytes` on is new."""
        return self._is_ending and self._old_bytes is not None and at_bytes >= self._old_bytes

    def answered(self, start: int, outcome: Checked | Exception, now_s: float) -> float:
        """Take the scrubber's answer. Returns: in how many seconds to ask again; 0: when it is
        needed.
        """
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
        """Return the damage at which the dispatcher halts at `limit_bytes`, if it was not reported
        yet.

        None also while the next bytes are being compared.
        """
        damaged = self.damaged_bytes
        if damaged is None or damaged != limit_bytes or damaged == self._reported_bytes:
            return None
        self._reported_bytes = damaged
        return damaged

    def goes_on(self, at_bytes: int) -> bool:
        """Whether `at_bytes`, to which the dispatcher has come, is behind damage at which it had
        halted.
        """
        if self.damaged_bytes is not None and at_bytes > self.damaged_bytes:
            self.damaged_bytes = None
        if self._reported_bytes is None or at_bytes <= self._reported_bytes:
            return False
        self._reported_bytes = None
        return True


def compared_alone(
    check: LogCheck, start: int, end: int, is_late: Callable[[], bool]
) -> Steps[int]:
    """Return up to where the bytes from `start` to `end` are what was written, when no scrubber can
    be asked.

    Files without digests are parsed. A last range that is not complete counts as good, as for the
    scrubber: the start has parsed it, or this process has written it.

    Args:
        is_late: called between steps of a few milliseconds; if it is true, the result so far is
            returned.

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
            break  # the bytes there are damaged
    return until
