"""Which snapshots a member keeps, and so from where on its log must stay.

Upstream: openmessaging/dledger, snapshot/SnapshotManager.java, deleteExpiredSnapshot and
truncatePrefix, tag 0.4.0.

Differs: one that is being sent stays, and the entry at a snapshot's index stays in the log: the
end that a member votes by, and what a follower is compared at, is always an entry that is there.
"""

from __future__ import annotations

from collections.abc import Generator

import attrs

from actors.events.dledger import SnapshotFailed
from actors.storage.ledger.snapshots import Snapshot, SnapshotDamaged, SnapshotFolder


@attrs.define
class SnapshotKeeping:
    """See the module's text.

    Attributes:
        keep: so many of the newest stay.
        good: those that stay, the newest first.
    """

    folder: SnapshotFolder
    keep: int
    good: list[Snapshot] = attrs.field(factory=list)
    _held: dict[str, Snapshot] = attrs.field(factory=dict)

    def find(self) -> Generator[None, None, list[SnapshotFailed]]:
        """Read through what is there. Gives what is damaged. Raises: OSError."""
        failed = []
        for index in self.folder.indexes():
            try:
                snapshot = self.folder.snapshot(index)
                yield from self.folder.check(snapshot)
            except SnapshotDamaged as damaged:
                failed.append(SnapshotFailed(index=index, reason=str(damaged)))
            else:
                self.good.append(snapshot)
        return failed

    @property
    def newest(self) -> Snapshot | None:
        """The last one that is good."""
        return self.good[0] if self.good else None

    @property
    def floor(self) -> int | None:
        """Entries from here on stay in the log; None: all of them."""
        indexes = [one.index for one in (*self.good, *self._held.values())]
        return min(indexes, default=None)

    def added(self, snapshot: Snapshot, *, alone: bool) -> None:
        """It is there now; what is not kept goes. Raises: OSError.

        Args:
            alone: no older one is of use: the log will begin with this one's entry.
        """
        self.good = [snapshot] if alone else [snapshot, *self.good[: self.keep - 1]]
        self._prune()

    def hold(self, holder: str) -> Snapshot | None:
        """The newest, for whoever sends it; None if there is none."""
        if self.newest is not None:
            self._held[holder] = self.newest
        return self.newest

    def release(self, holder: str) -> None:
        """It is not sent any more. Raises: OSError."""
        if self._held.pop(holder, None) is not None:
            self._prune()

    def _prune(self) -> None:
        kept = (one.index for one in (*self.good, *self._held.values()))
        self.folder.prune(frozenset(kept))
