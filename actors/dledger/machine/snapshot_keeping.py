"""Which snapshots a member keeps, and from which entry on it therefore has to keep its log.

Upstream: openmessaging/dledger, snapshot/SnapshotManager.java, deleteExpiredSnapshot and
truncatePrefix, tag 0.4.0.

Differs: a snapshot that is being sent is kept, and so is the entry at a snapshot's index: the end
by which a member votes, and the entry at which a follower is compared, are always in the log.
"""

from __future__ import annotations

from collections.abc import Generator

import attrs

from actors.events.dledger import SnapshotFailed
from actors.storage.ledger.snapshots import Snapshot, SnapshotDamaged, SnapshotFolder


@attrs.define
class SnapshotKeeping:
    """The snapshots that a member keeps. See the module's text.

    Attributes:
        keep: how many of the newest are kept.
        good: the snapshots that are kept, the newest first.
    """

    folder: SnapshotFolder
    keep: int
    good: list[Snapshot] = attrs.field(factory=list)
    _held: dict[str, Snapshot] = attrs.field(factory=dict)

    def find(self) -> Generator[None, None, list[SnapshotFailed]]:
        """Read through all snapshots. Returns: an event for each damaged one. Raises: OSError."""
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
        """The newest good snapshot; None if there is none."""
        return self.good[0] if self.good else None

    @property
    def floor(self) -> int | None:
        """The first entry that has to stay in the log; None if all entries have to stay."""
        indexes = [one.index for one in (*self.good, *self._held.values())]
        return min(indexes, default=None)

    def added(self, snapshot: Snapshot, *, alone: bool) -> None:
        """Note a new snapshot, and remove those that are not kept any more. Raises: OSError.

        Args:
            alone: whether no older one is of use, because the log will begin with this one's entry.
        """
        self.good = [snapshot] if alone else [snapshot, *self.good[: self.keep - 1]]
        self._prune()

    def hold(self, holder: str) -> Snapshot | None:
        """Keep the newest snapshot for an actor that sends it.

        Returns: that snapshot; None if there is none.
        """
        if self.newest is not None:
            self._held[holder] = self.newest
        return self.newest

    def release(self, holder: str) -> None:
        """Keep a snapshot for that actor no longer. Raises: OSError."""
        if self._held.pop(holder, None) is not None:
            self._prune()

    def _prune(self) -> None:
        kept = (one.index for one in (*self.good, *self._held.values()))
        self.folder.prune(frozenset(kept))
