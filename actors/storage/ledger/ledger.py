"""The interface of a DLedger store, its values and its errors, whatever holds the entries.

Upstream: openmessaging/dledger, store/DLedgerStore.java (0.3.1.2).

Differs:
- A call takes a batch: appended wholly, by one write per file, or refused with nothing written.
- The store knows what is on the disk (`synced_index`); upstream answers before it is.
- Nothing at or below the committed index is ever cut.
- A truncation removes; upstream's also writes the leader's entry, which is an append here.

The owner is one actor. Methods never await; those that may take long are generators, which yield at
least every 4 MiB.

A `Batch` is a leader's bodies or a leader's entries, made into what the files take (upstream:
store/file/DLedgerMmapFileStore.java, appendAsLeader and appendAsFollower, one entry at a time).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence

import attrs

from actors.errors import LogFull, StorageError, TooLarge, TriologError
from actors.events.store import RangeRepaired
from actors.log_types import Membership
from actors.storage.ledger.per_index import CHECK_MASK, SUM_RECORD
from actors.storage.ledger.term_files import TermVote
from wire.crc import crc32
from wire.dledger.entry import (
    BLANK_BYTES,
    ENTRY_HEAD,
    ENTRY_HEAD_BYTES,
    INDEX_RECORD,
    MAGIC_NORMAL,
    Entry,
    entry_bytes_max,
    entry_problem,
    fits_in_file,
)

__all__ = [
    "NONE",
    "Batch",
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
    """The entry's position is not where the own log goes on (upstream: 414)."""


class IndexNotThere(TriologError):
    """No entry with this index was appended (upstream: 410)."""


class IndexGone(IndexNotThere):
    """The index is below the first entry that is kept (upstream: 419)."""


class FileGone(IndexGone):
    """The entry's file is not there: expired, or lost; the store finds out which."""


class BelowCommitted(StorageError):
    """A truncation would cut what is committed: something is wrong that no cutting mends."""


@attrs.frozen(kw_only=True)
class SyncWork:
    """What a syncer has to make durable: `begin_sync` returns it, and `end_sync` takes it back.

    Attributes:
        paths: files to sync; () if all is on the disk.
        gone: files that were deleted, which a syncer closes.
        index: the last entry's index when it was made, or -1.
        end_bytes: the log's end at that time.
        whole: whether it covers what is derived from the entries as well.
        risky: whether it covers entries that a start could not know to be whole without the mark.
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
    """Check that none of the log's entries from `index` on, which are to be removed, is committed.

    The committed index may be above the log's end, if the log has begun anew.

    Args:
        begin, end: the indexes of the first and the last entry.

    Raises: BelowCommitted.
    """
    if max(index, begin) <= min(committed, end):
        raise BelowCommitted(f"entries from {index} on were to go, but {committed} is committed")


def check_vote(was: TermVote, now: TermVote) -> None:
    """Check that the term does not fall, and that a vote does not change within a term."""
    assert now.term >= was.term  # TermMonotonic
    bound = now.term == was.term and was.voted_for != ""
    assert not bound or now.voted_for == was.voted_for  # OneVotePerTerm


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


GRANULE_BYTES = 512
"""The smallest piece of a file that a power loss keeps or loses as a whole."""
_ZERO_RUN = bytes(GRANULE_BYTES - ENTRY_HEAD_BYTES)
"""Every whole granule of zeros in an entry holds so many zeros of its body."""


@attrs.frozen(kw_only=True)
class Batch:
    """Entries ready to be written, or that the log holds now: at least one.

    Attributes:
        first_index: of the first one.
        term: of the last one.
        positions: of each, in bytes.
        runs: (first position, bytes) for each file that takes some.
        records: their index records.
        sums: the records of their checksums.
        risky: a granule of one of them may be all zeros. What a power loss has left of it may then
            look whole, or the whole look torn.
    """

    first_index: int
    term: int
    positions: tuple[int, ...]
    runs: tuple[tuple[int, bytes], ...]
    records: bytes
    sums: bytes
    risky: bool

    @property
    def last_index(self) -> int:
        return self.first_index + len(self.positions) - 1

    @property
    def end_bytes(self) -> int:
        start, data = self.runs[-1]
        return start + len(data)


@attrs.define
class _Builder:
    """Collects the parts of a batch; a new run begins where a file does.

    The two functions that fill it append to its lists themselves: a call for each entry costs as
    much as the entry.
    """

    start: int
    parts: list[bytes] = attrs.field(factory=list)
    runs: list[tuple[int, bytes]] = attrs.field(factory=list)
    positions: list[int] = attrs.field(factory=list)
    records: list[bytes] = attrs.field(factory=list)
    sums: list[bytes] = attrs.field(factory=list)
    risky: bool = False

    def roll(self, pos: int) -> None:
        if self.parts:
            self._end_run()
        self.start = pos

    def _end_run(self) -> None:
        data = b"".join(self.parts)
        self.parts.clear()
        self.risky = self.risky or _ZERO_RUN in data
        self.runs.append((self.start, data))

    def batch(self, first_index: int, term: int) -> Batch:
        self._end_run()
        return Batch(
            first_index=first_index,
            term=term,
            positions=tuple(self.positions),
            runs=tuple(self.runs),
            records=b"".join(self.records),
            sums=b"".join(self.sums),
            risky=self.risky,
        )


def of_bodies(
    bodies: Sequence[bytes], *, index: int, term: int, end_bytes: int, file_bytes: int
) -> Batch:
    """What a leader appends at `end_bytes`.

    Raises: TooLarge.
    """
    assert bodies
    out = _Builder(end_bytes)
    size_max = entry_bytes_max(file_bytes)
    pos, file_end = end_bytes, end_bytes - end_bytes % file_bytes + file_bytes
    add_part, add_record, add_sum = out.parts.append, out.records.append, out.sums.append
    add_position = out.positions.append
    pack, pack_record, pack_sum = ENTRY_HEAD.pack, INDEX_RECORD.pack, SUM_RECORD.pack
    first_index = index
    for body in bodies:
        body_bytes = len(body)
        size = ENTRY_HEAD_BYTES + body_bytes
        if size > size_max:
            raise TooLarge(f"an entry of {size} bytes, at most {size_max}")
        if not fits_in_file(size, file_end - pos):
            pos, file_end = file_end, file_end + file_bytes
            out.roll(pos)
        head = pack(MAGIC_NORMAL, size, index, term, pos, 0, 0, 0, body_bytes)
        add_part(head)
        add_part(body)
        crc = crc32(body, crc32(head))
        add_sum(pack_sum(crc, crc ^ CHECK_MASK))
        add_record(pack_record(MAGIC_NORMAL, pos, size, index, term))
        add_position(pos)
        if body_bytes and not body[-1]:
            out.risky = True
        pos += size
        index += 1
    return out.batch(first_index, term)


def of_entries(
    entries: Sequence[Entry], *, index: int, term: int, end_bytes: int, file_bytes: int
) -> Batch:
    """What a follower appends: each entry where its leader has it.

    Args:
        index: the first one's must be this.
        term: no entry's is lower, nor lower than the one before.
        end_bytes: the log's end. An entry lies there, or at the start of the next file: also if it
            would have fitted, for a leader that crashed behind a BLANK goes on there.

    Raises: NotInSequence, WrongPlace, EntryRefused.
    """
    assert entries
    out = _Builder(end_bytes)
    size_max = entry_bytes_max(file_bytes)
    pos, file_end = end_bytes, end_bytes - end_bytes % file_bytes + file_bytes
    add_part, add_record, add_sum = out.parts.append, out.records.append, out.sums.append
    add_position = out.positions.append
    pack, pack_record, pack_sum = ENTRY_HEAD.pack, INDEX_RECORD.pack, SUM_RECORD.pack
    first_index = index
    for entry in entries:
        body, size = entry.body, entry.size
        body_bytes = len(body)
        if entry.magic != MAGIC_NORMAL or size != ENTRY_HEAD_BYTES + body_bytes or size > size_max:
            raise EntryRefused(
                entry_problem(entry) or f"entry {entry.index} of {size} bytes, at most {size_max}"
            )
        if entry.index != index:
            raise NotInSequence(f"entry {entry.index} where {index} belongs")
        if entry.term < term:
            raise NotInSequence(f"entry {index} of term {entry.term} behind term {term}")
        if entry.pos != pos or size + BLANK_BYTES > file_end - pos:
            if entry.pos != file_end:
                raise WrongPlace(
                    f"entry {index} at {entry.pos}, our log goes on at {pos} in files of"
                    f" {file_bytes} bytes"
                )
            pos, file_end = file_end, file_end + file_bytes
            out.roll(pos)
        term = entry.term
        head = pack(
            MAGIC_NORMAL, size, index, term, pos,
            entry.channel, entry.chain_crc, entry.body_crc, body_bytes,
        )  # fmt: skip
        add_part(head)
        add_part(body)
        crc = crc32(body, crc32(head))
        add_sum(pack_sum(crc, crc ^ CHECK_MASK))
        add_record(pack_record(MAGIC_NORMAL, pos, size, index, term))
        add_position(pos)
        if body_bytes and not body[-1]:
            out.risky = True
        pos += size
        index += 1
    return out.batch(first_index, term)


def may_be_torn(data: bytes | memoryview, pos: int) -> bool:
    """Whether a piece of this whole entry at `pos` may never have come: a granule's part is zeros,
    or the last byte of its body is.

    What a power loss takes reads as zeros, and comes and goes by granules. A write that the system
    broke off may end at any byte, and zeros follow. The head says by itself whether it is there.
    """
    size = len(data)
    if size > ENTRY_HEAD_BYTES and data[-1] == 0:
        return True
    start = GRANULE_BYTES - pos % GRANULE_BYTES
    piece_start = 0
    while piece_start < size:
        piece_end = min(start, size)
        piece = bytes(data[piece_start:piece_end])
        if piece_end > ENTRY_HEAD_BYTES and piece.count(0) == len(piece):
            return True
        piece_start, start = piece_end, start + GRANULE_BYTES
    return False


@attrs.define(eq=False, kw_only=True)
class LedgerStore(ABC):
    """One member's log of entries, its term and vote, and its committed index.

    Only the store changes it.

    Attributes:
        membership: whether it held what this member has acknowledged when it was opened; set then
            by whoever knows more than its files say.
        file_bytes: of a data file: it decides about positions.
        begin_index: the index of the first entry kept; -1 if there is none.
        end_index, end_term: the last entry's; -1 if there is none.
        next_index: the next entry's; `end_index + 1` but in an empty log that goes on elsewhere.
        synced_index: all up to here survives a power loss; -1: nothing.
        committed_index: as last said by `commit`; -1: nothing, or not known.
        vote: as last saved.
    """

    file_bytes: int
    vote: TermVote
    membership: Membership = Membership.FULL
    begin_index: int = NONE
    end_index: int = NONE
    end_term: int = NONE
    next_index: int = 0
    synced_index: int = NONE
    committed_index: int = NONE

    @property
    @abstractmethod
    def begin_bytes(self) -> int:
        """Offset of the first byte kept."""

    @property
    @abstractmethod
    def end_bytes(self) -> int:
        """The end of the last entry. The next one may begin at the next file's start instead."""

    def opening_events(self) -> tuple[object, ...]:
        """The events about what the start found."""
        return ()

    # ---- writing ----

    def append_as_leader(self, bodies: Sequence[bytes], term: int) -> Batch:
        """Make an entry of each body and append them.

        Args:
            bodies: at least one; an empty one is an entry too.
            term: the leader's, at least `end_term`.

        Raises: TooLarge: one makes an entry that no file or frame holds. LogFull: no room. Nothing
            was written then. StorageError: the write failed; the store is not used any further.
        """
        assert term >= max(self.end_term, 0)  # TermMonotonic
        batch = of_bodies(
            bodies,
            index=self.next_index,
            term=term,
            end_bytes=self.end_bytes,
            file_bytes=self.file_bytes,
        )
        self._append(batch)
        return batch

    def append_as_follower(self, entries: Sequence[Entry]) -> Batch:
        """Append a leader's entries, which begin with `next_index`, at the leader's positions.

        Args:
            entries: at least one.

        Raises: NotInSequence, WrongPlace, EntryRefused, LogFull: nothing was written. StorageError:
            as `append_as_leader`.
        """
        batch = of_entries(
            entries,
            index=self.next_index,
            term=max(self.end_term, 0),
            end_bytes=self.end_bytes,
            file_bytes=self.file_bytes,
        )
        self._append(batch)
        return batch

    @abstractmethod
    def _append(self, batch: Batch) -> None:
        """Write what was made for the log's end, wholly or not at all."""

    @abstractmethod
    def truncate(self, index: int) -> Generator[None, None, None]:
        """Remove the entries from `index` on; afterwards the next one is `index`.

        Args:
            index: of an entry that is there.

        When it ends, no crash and no restart can bring the entries back. No sync may be under way.
        Raises: IndexNotThere, IndexGone; BelowCommitted; LogFull: no room to keep them aside. The
            log is as it was then. StorageError: as `append_as_leader`.
        """

    @abstractmethod
    def restart_at(self, index: int, pos_bytes: int) -> Generator[None, None, None]:
        """Drop all entries; the next one is `index` at `pos_bytes` (a follower is re-based).

        Until that entry is appended, a restart finds an empty log that goes on with index 0. No
        sync may be under way. Raises: BelowCommitted: one that is there, from `index` on, is
            committed.
            StorageError: as `append_as_leader`.
        """

    @abstractmethod
    def delete_expired(self, floor_index: int, *, snapshot: bool = False) -> str | None:
        """Delete the oldest file if it is to go by age or by room. Returns: the reason.

        Args:
            floor_index: entries from here on are kept, and from the committed one on in any case.
            snapshot: a snapshot stands for all before it: they go whatever their age.

        Raises: StorageError: as `append_as_leader`. CorruptLog: what comes behind is damaged.
        """

    @property
    def no_room(self) -> str:
        """Why the log takes nothing more, for people, as far as the last look at the disk, or the
        last write, showed; "" if it does.
        """
        return ""

    def look_for_room(self) -> None:
        """Look at the disk, for `no_room` and what is appended next."""

    @abstractmethod
    def save_vote(self, vote: TermVote) -> None:
        """Have term and vote on the disk when this returns.

        Args:
            vote: of no earlier term; in the same term nobody else's.

        Raises: LogFull: no room; the old one stays. StorageError: as `append_as_leader`.
        """

    def commit(self, index: int) -> None:
        """Say that all up to `index`, which is there, is committed. A lower one changes nothing."""
        assert index <= self.end_index
        self.committed_index = max(self.committed_index, index)

    @abstractmethod
    def save_checkpoint(self) -> None:
        """Write the committed index down. Raises: as `save_vote`."""

    @abstractmethod
    async def save_checkpoint_beside(self) -> None:
        """As `save_checkpoint`, beside the loop. A second call brings what the first did not, and
        may return sooner than it. Not cancellable within a sync. Raises: as `save_vote`.
        """

    # ---- durability ----

    @property
    @abstractmethod
    def is_synced(self) -> bool:
        """Whether nothing was written, cut or deleted since the last sync began."""

    @abstractmethod
    def begin_sync(self, *, whole: bool = False) -> SyncWork:
        """Begin a sync of what is not synced. There is one at a time; `end_sync` ends it.

        Args:
            whole: with what derives from the entries; once a second is enough.
        """

    @abstractmethod
    def end_sync(self, work: SyncWork) -> bool:
        """The files of `work` are on the disk. Returns: whether anything waits for a whole sync.

        Raises: StorageError: as `append_as_leader`.
        """

    # ---- reading ----

    @abstractmethod
    def read(self, index: int, bytes_max: int) -> bytes:
        """Entries from `index` on as they lie in the log: from one file, at least one of them, and
        as many more as `bytes_max` holds.

        Raises: IndexNotThere, IndexGone; StorageError: the entry is not what the index says.
        """

    @abstractmethod
    def verify(self, index: int, end_index: int, bytes_max: int) -> None:
        """Read again what a reader beside the writer could not; do nothing if it was removed since.

        Args: as of `reader.EntryReader.read`.

        Raises: CorruptLog: a file of it is damaged or missing. StorageError: it cannot be read.
        """

    @abstractmethod
    def mend(self, index: int, data: bytes, source: str) -> RangeRepaired | str:
        """Put the entry in the place of a damaged one, and have it on the disk.

        Args:
            data: as it lies in another member's log.
            source: that member.

        Returns: what was done; or why nothing was, for people: it is not what was written here, or
            not committed and synced; no room to keep aside what was there.
        Raises: StorageError: as `append_as_leader`.
        """

    @abstractmethod
    def close(self, *, ordered: bool) -> None:
        """Release all files; at an ordered stop sync first, and remove the spare file."""
