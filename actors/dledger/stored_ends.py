"""Up to which entry a log is kept, with that entry's term: what the store says is index only.

Source: openmessaging/dledger, MemberState.java, updateLedgerIndexAndTerm (0.3.1.2), which counts
what is written; here a synced member's log ends where its disk does.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from actors.dledger.core.member_state import LedgerEnd

ENDS_MAX: Final = 64
"""Ends that wait for their sync; between two of them one may be left out."""


@attrs.define
class StoredEnds:
    """Fed with each news of the log; `kept` trails it by what is not synced."""

    synced: bool
    kept: LedgerEnd
    _waiting: deque[LedgerEnd] = attrs.field(factory=deque, init=False)

    def grew(self, end: LedgerEnd, synced_index: int) -> LedgerEnd:
        """Gives the newest end known to be kept."""
        if not self.synced:
            self.kept = end
            return end
        while self._waiting and self._waiting[-1].index >= end.index:
            self._waiting.pop()  # cut, or the same again
        if len(self._waiting) >= ENDS_MAX:
            self._waiting.pop()
        self._waiting.append(end)
        while self._waiting and self._waiting[0].index <= synced_index:
            self.kept = self._waiting.popleft()
        if self.kept.index > end.index:
            self.kept = end  # a cut is on the disk before it is told
        return self.kept
