"""When a DLedger store looks for files that are to go, and lets go of them one at a time.

Upstream: openmessaging/dledger, DLedgerMmapFileStore.java, CleanSpaceService (0.3.1.2).
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from actors.events.store import SegmentExpired
from actors.storage.ledger.ledger import LedgerStore

CLEAN_S = 10.0
"""Between two looks at the disk. Upstream looks ten times a second."""
BETWEEN_FILES_S = 0.1
FILES_PER_ROUND_MAX = 10


@attrs.frozen(kw_only=True)
class CleanDue:
    """Timer: look at the disk and at the age of the oldest file. `deleted`: in this round."""

    deleted: int


@attrs.define(kw_only=True)
class CleaningRounds:
    """The rounds in which one store is cleaned.

    Attributes:
        ledger: the store's.
        by_snapshot: entries leave for a snapshot alone; otherwise committed ones expire by age.
        floor_index: a snapshot stands for all below.
    """

    ledger: LedgerStore
    by_snapshot: bool
    floor_index: int = 0
    _start: Callable[[float, CleanDue], None]
    _emit: Callable[[object], None]
    _goes_on: bool = attrs.field(default=False, init=False)

    def begin(self) -> None:
        """The first look is due in a while."""
        self._start(CLEAN_S, CleanDue(deleted=0))

    def hurry(self) -> None:
        """The disk filled up between two looks. A round that goes on is not hurried."""
        if not self._goes_on:
            self._goes_on = True
            self._start(0.0, CleanDue(deleted=0))

    def step(self, due: CleanDue) -> bool:
        """Delete at most one file, then look again soon, or in the next round. Whether one went.

        Raises: as `LedgerStore.delete_expired`.
        """
        reason = None
        if due.deleted < FILES_PER_ROUND_MAX:
            reason = self.ledger.delete_expired(self.floor_index, snapshot=True)
            if reason is None and not self.by_snapshot:
                reason = self.ledger.delete_expired(self.ledger.committed_index + 1)
        self._goes_on = reason is not None
        if reason is None:
            self.begin()
            return False
        self._emit(SegmentExpired(min_bytes=self.ledger.begin_bytes, reason=reason))
        self._start(BETWEEN_FILES_S, CleanDue(deleted=due.deleted + 1))
        return True
