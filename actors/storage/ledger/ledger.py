"""What a DLedger store offers, whatever it keeps its entries in; the values and errors of it.

Upstream: openmessaging/dledger, store/DLedgerStore.java (0.3.1.2).

Differs:
- A call takes a batch: appended wholly, by one write per file, or refused with nothing written.
- The store knows what is on the disk (`synced_index`); upstream answers before it is.
- Nothing at or below the committed index is ever cut.
- A truncation removes; upstream's also writes the leader's entry, which is an append here.

The owner is one actor. Methods never await; those that may take long are generators, which yield at
least every 4 MiB.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

import attrs

from actors.errors import LogFull, StorageError, TooLarge, TriologError
from actors.events.store import RangeRepaired
from actors.log_types import Membership
from actors.storage.ledger.term_files import TermVote
from wire.dledger.entry import Entry

__all__ = [
    "NONE",
    "AppendedEntries",
    "BelowCommitted",
    "EntryRefused",
    "IndexGone",
    "IndexNotThere",
    "LedgerStore",
    "LogFull",
    "NotInSequence",
    "StorageError",
    "SyncWork",
    "TermVote",
    "TooLarge",
    "WrongPlace",
]

NONE = -1
"""Index and term of an empty log's end, as upstream says them."""


class EntryRefused(TriologError):
    """An entry that a leader sent does not belong here. Nothing was written."""


class NotInSequence(EntryRefused):
    """Its index does not follow our last one, or its term is lower (upstream: 408, 407)."""


class WrongPlace(EntryRefused):
    """Its position is not where our log goes on (upstream: 414)."""


class IndexNotThere(TriologError):
    """Nothing with this index was appended (upstream: 410)."""


class IndexGone(IndexNotThere):
    """It is below the first entry kept (upstream: 419)."""


class FileGone(IndexGone):
    """The file that it lies in is not there: deleted in order, or lost; the store can tell."""


class BelowCommitted(StorageError):
    """A truncation would cut what is committed: something is wrong that no cutting mends."""


@attrs.frozen(kw_only=True)
class AppendedEntries:
    """A batch that the log holds now.

    Attributes:
        first_index, last_index: of its entries; at least one.
        term: of the last one.
        positions: of each entry in the log, in bytes.
        runs: the entries as they lie in the log, one element for each file that took some.
    """

    first_index: int
    last_index: int
    term: int
    positions: tuple[int, ...]
    runs: tuple[bytes, ...]


@attrs.frozen(kw_only=True)
class SyncWork:
    """What a syncer is to make durable, taken by `begin_sync`, given back to `end_sync`.

    Attributes:
        paths: files to sync; none if all is on the disk.
        gone: files that were deleted: a syncer closes them.
        index: the last entry's when it was taken, or -1.
        end_bytes: the log's end then.
        whole: it covers what derives from the entries as well.
        risky: it covers entries of which a start could not tell without the mark that they are
            whole.
    """

    paths: tuple[str, ...]
    gone: tuple[str, ...] = ()
    index: int
    end_bytes: int
    whole: bool = False
    risky: bool = False


def check_there(index: int, begin: int, end: int) -> None:
    """Args: begin, end: indexes of the log's entries. Raises: IndexNotThere, IndexGone."""
    if not 0 <= index <= end:
        raise IndexNotThere(f"entry {index}, the log ends at {end}")
    if index < begin:
        raise IndexGone(f"entry {index}, the log begins at {begin}")


def check_uncommitted(index: int, begin: int, end: int, committed: int) -> None:
    """Check that none of the log's entries from `index` on, which are to go, is committed.

    More may be known to be committed than there is: a log that begins anew has let go of it.

    Args: begin, end: indexes of the log's entries. Raises: BelowCommitted.
    """
    if max(index, begin) <= min(committed, end):
        raise BelowCommitted(f"entries from {index} on were to go, but {committed} is committed")


def check_vote(was: TermVote, now: TermVote) -> None:
    """A term never falls, and in one term nobody else gets the vote."""
    assert now.term >= was.term  # TermMonotonic
    bound = now.term == was.term and was.voted_for != ""
    assert not bound or now.voted_for == was.voted_for  # OneVotePerTerm


class LedgerStore(Protocol):
    """One member's log of entries, its term and vote, and its committed index.

    Attributes:
        membership: whether it held, when it was opened, what this member has vouched for: whoever
            knows more than its files say sets it then.
    """

    membership: Membership

    @property
    def begin_index(self) -> int:
        """The index of the first entry kept; -1 if there is none."""

    @property
    def begin_bytes(self) -> int:
        """Offset of the first byte kept."""

    @property
    def end_index(self) -> int:
        """The last entry's; -1 if there is none."""

    @property
    def end_term(self) -> int:
        """The last entry's; -1 if there is none."""

    @property
    def next_index(self) -> int:
        """The next entry's index; `end_index + 1` but in an empty log that goes on elsewhere."""

    @property
    def end_bytes(self) -> int:
        """Offset behind the last entry. The next one may lie at the next file's start instead."""

    @property
    def synced_index(self) -> int:
        """All up to here survives a power loss; -1: nothing."""

    @property
    def committed_index(self) -> int:
        """As last said by `commit`; -1: nothing, or not known."""

    @property
    def vote(self) -> TermVote:
        """As last saved."""

    def opening_events(self) -> tuple[object, ...]:
        """What to emit about what the start found."""

    # ---- writing ----

    def append_as_leader(self, bodies: Sequence[bytes], term: int) -> AppendedEntries:
        """Make an entry of each body and append them.

        Args:
            bodies: at least one; an empty one is an entry too.
            term: the leader's, at least `end_term`.

        Raises: TooLarge: one makes an entry that no file or frame holds. LogFull: no room. Nothing
            was written then. StorageError: the write failed; the store is not used any further.
        """

    def append_as_follower(self, entries: Sequence[Entry]) -> AppendedEntries:
        """Append a leader's entries, which begin with `next_index`, at the leader's positions.

        Args:
            entries: at least one.

        Raises: NotInSequence, WrongPlace, EntryRefused, LogFull: nothing was written. StorageError:
            as `append_as_leader`.
        """

    def truncate(self, index: int) -> Generator[None, None, None]:
        """Remove the entries from `index` on; afterwards the next one is `index`.

        Args:
            index: of an entry that is there.

        When it ends, no crash and no restart can bring the entries back. No sync may be under way.
        Raises: IndexNotThere, IndexGone; BelowCommitted; LogFull: no room to keep them aside. The
            log is as it was then. StorageError: as `append_as_leader`.
        """

    def restart_at(self, index: int, pos_bytes: int) -> Generator[None, None, None]:
        """Drop all entries; the next one is `index` at `pos_bytes` (a follower is re-based).

        Until that entry is appended, a restart finds an empty log that goes on with index 0. No
        sync may be under way. Raises: BelowCommitted: one that is there, from `index` on, is
            committed.
            StorageError: as `append_as_leader`.
        """

    def delete_expired(self, floor_index: int, *, snapshot: bool = False) -> str | None:
        """Delete the oldest file if it is to go by age or by room; gives the reason.

        Args:
            floor_index: entries from here on are kept, and from the committed one on in any case.
            snapshot: a snapshot stands for all before it: they go whatever their age.

        Raises: StorageError: as `append_as_leader`. CorruptLog: what comes behind is damaged.
        """

    def save_vote(self, vote: TermVote) -> None:
        """Have term and vote on the disk when this returns.

        Args:
            vote: of no earlier term; in the same term nobody else's.

        Raises: LogFull: no room; the old one stays. StorageError: as `append_as_leader`.
        """

    def commit(self, index: int) -> None:
        """Say that all up to `index`, which is there, is committed. A lower one changes nothing."""

    def save_checkpoint(self) -> None:
        """Write the committed index down. Raises: as `save_vote`."""

    async def save_checkpoint_beside(self) -> None:
        """As `save_checkpoint`, beside the loop. A second call brings what the first did not, and
        may return sooner than it. Not cancellable within a sync. Raises: as `save_vote`.
        """

    # ---- durability ----

    def begin_sync(self, *, whole: bool = False) -> SyncWork:
        """What is to be synced now. One at a time, and each is given to `end_sync`.

        Args:
            whole: with what derives from the entries; once a second is enough.
        """

    def end_sync(self, work: SyncWork) -> bool:
        """The files of `work` are on the disk. Gives whether anything waits for a whole sync.

        Raises: StorageError: as `append_as_leader`.
        """

    # ---- reading ----

    def read(self, index: int, bytes_max: int) -> bytes:
        """Entries from `index` on as they lie in the log: from one file, at least one of them, and
        as many more as `bytes_max` holds.

        Raises: IndexNotThere, IndexGone; StorageError: the entry is not what the index says.
        """

    def verify(self, index: int, end_index: int, bytes_max: int) -> None:
        """Read anew what somebody beside the writer could not read. Nothing, if it has left since.

        Args: as of `reader.EntryReader.read`.

        Raises: CorruptLog: a file of it is damaged or missing. StorageError: it cannot be read.
        """

    def mend(self, index: int, data: bytes, source: str) -> RangeRepaired | str:
        """Put the entry in the place of a damaged one, and have it on the disk.

        Args:
            data: as it lies in another member's log.
            source: that member.

        Returns: what was done; or why nothing was, for people: it is not what was written here, or
            not committed and synced; no room to keep aside what was there.
        Raises: StorageError: as `append_as_leader`.
        """

    def close(self, *, ordered: bool) -> None:
        """Release everything; at an ordered stop sync first, and leave no spare file."""


def is_equal(ours: Entry, theirs: Entry) -> bool:
    """Whether a stored entry is what a leader sent: DLedgerEntry.equals, all but the checksums."""
    return (
        ours.index == theirs.index
        and ours.term == theirs.term
        and ours.pos == theirs.pos
        and ours.size == theirs.size
        and ours.magic == theirs.magic
        and ours.channel == theirs.channel
        and ours.body == theirs.body
    )
