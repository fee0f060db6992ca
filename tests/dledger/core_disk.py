"""What a member of `core_world` keeps: a vote, and a log of which a part is synced."""

from __future__ import annotations

import attrs

from actors.dledger.core.member_state import LedgerEnd, SavedVote
from wire.dledger_entry import Entry

ENTRY_BYTES = 100
"""What `Ledger` says of every entry."""


@attrs.frozen(kw_only=True)
class Append:
    """A client's append that waits."""

    name: str
    last: int
    deadline_s: float
    appends: int = 1


@attrs.define
class Disk:
    """What survives a restart, as far as it is synced.

    Attributes:
        log: by index; what is below `begin` has expired.
        synced: so many of them, expired ones counted, are on the disk.
    """

    vote: SavedVote = attrs.field(factory=lambda: SavedVote(term=0))
    log: list[Entry] = attrs.field(factory=list)
    begin: int = 0
    synced: int = 0

    def holds(self, entry: Entry) -> bool:
        log = self.log
        return self.begin <= entry.index < len(log) and log[entry.index] == entry

    def fits(self, first: int, last_max: int, bytes_max: int) -> int:
        return min(last_max, first + bytes_max // ENTRY_BYTES)

    def bytes_from(self, first: int) -> int:
        return ENTRY_BYTES * (len(self.log) - first)

    @property
    def first(self) -> int:
        """As the core says it: -1 for an empty log."""
        return self.begin if self.log else -1

    def end_of(self, count: int) -> LedgerEnd:
        """Where a log of so many entries ends."""
        log = self.log
        return LedgerEnd(index=count - 1, term=log[count - 1].term) if count else LedgerEnd()

    @property
    def end(self) -> LedgerEnd:
        return self.end_of(len(self.log))
