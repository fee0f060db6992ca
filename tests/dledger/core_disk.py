"""What a member of `core_world` keeps: a vote, and a log of which a part is synced."""

from __future__ import annotations

import attrs

from actors.dledger.core.member_state import LedgerEnd, SavedVote
from actors.log_types import Membership
from wire.dledger.entry import Entry

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
        noted: what the member's vote is worth, as it was reported last; None: it has not run.
        lost: what it had vouched for is gone, and it has not got it again.
        forgot: its vote was lost once, too.
    """

    vote: SavedVote = attrs.field(factory=lambda: SavedVote(term=0))
    log: list[Entry] = attrs.field(factory=list)
    begin: int = 0
    synced: int = 0
    noted: Membership | None = None
    lost: bool = False
    forgot: bool = False

    def begun(self) -> Membership:
        """What the vote of a member that starts on it is worth, as `MemberNote` has it."""
        noted = self.noted or Membership.FULL
        if not self.log and noted is Membership.FULL:
            lived = self.noted is not None or self.vote != SavedVote(term=0)
            noted = Membership.FORGOT if lived else Membership.NEW
        self.noted = noted
        return noted

    def has(self, index: int, term: int) -> bool:
        """Written, whether synced or not, and not expired."""
        return self.begin <= index < len(self.log) and self.log[index].term == term

    def lose(self, *, vote: bool) -> None:
        """The log, or the vote and that there was one as well."""
        self.log.clear()
        self.begin = self.synced = 0
        self.lost = True
        self.forgot = self.forgot or vote
        if vote:
            self.vote, self.noted = SavedVote(term=0), None

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
