"""The search by COMPARE for the last entry that a leader's log and a follower's share.

Source: openmessaging/dledger, DLedgerEntryPusher.java (EntryDispatcher.doCompare), 0.3.1.2;
dledger.md 6.2, whose table is `judge`; bug V12.

Differs from upstream:
- After a first step down by one the steps double, but never go below the first entry that both logs
  have; then the part that was jumped over is searched by halves. Logs that agree at one entry agree
  on all before it (Log Matching), so thousands of conflicting entries take some tens of round
  trips, and an entry that the peer shares is never cut. `by_one` (`compat`) walks as upstream does.
"""

from __future__ import annotations

import attrs

from actors.dledger.core.push_effects import PushAnswer
from wire.dledger.codes import ResponseCode


@attrs.frozen(kw_only=True)
class CommonEntry:
    """The result of a search.

    Attributes:
        index: the entry up to which both logs are equal, or are made so by TRUNCATE.
        truncate: whether the peer has to be sent the entry `index` by TRUNCATE, and keep nothing
            behind it.
    """

    index: int
    truncate: bool


@attrs.define(kw_only=True)
class Search:
    """One search, which begins at the end of the leader's log.

    Attributes:
        at: the entry to compare next.
        by_one: whether it goes down one entry at a time, as upstream does.
    """

    at: int
    by_one: bool = False
    _same: int | None = attrs.field(default=None, init=False)  # the highest known to agree
    _differs: int | None = attrs.field(default=None, init=False)  # the lowest known to differ
    _step: int = attrs.field(default=1, init=False)

    @property
    def agrees(self) -> bool:
        """Whether one of the compared entries was the same on both sides."""
        return self._same is not None

    def judge(self, answer: PushAnswer, begin: int, end: int) -> CommonEntry | None:
        """Take the answer to the COMPARE of `at`.

        Args:
            answer: SUCCESS or INCONSISTENT_STATE.
            begin, end: the first and the last entry of the leader's log, which is not empty.

        Returns: the result; None if the new `at` has to be compared.
        """
        assert 0 <= begin <= end
        if answer.code is ResponseCode.SUCCESS:
            self._same = self.at
        elif answer.end < begin or answer.begin > end or self.at < answer.begin:
            return CommonEntry(
                index=begin, truncate=True
            )  # no overlap, or below the follower's log
        elif self.at > answer.end:
            self.at = answer.end
            return None
        else:
            self._differs = self.at
        return self._next(answer, begin)

    def _next(self, answer: PushAnswer, begin: int) -> CommonEntry | None:
        """Choose the next `at` between the entries known to agree and to differ, or end."""
        same, differs = self._same, self._differs
        if same is None:
            assert differs is not None
            low = max(begin, answer.begin)
            self.at = max(differs - self._step, low) if differs > low else differs - 1
            self._step = 1 if self.by_one else self._step * 2
            return CommonEntry(index=begin, truncate=True) if self.at < begin else None
        if differs is None or differs <= same + 1:
            return CommonEntry(index=same, truncate=same != answer.end)
        self.at = (same + differs) // 2
        return None
