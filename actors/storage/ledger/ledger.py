"""The interface of a DLedger store, on disk or in memory, with its values and its errors.

Upstream: openmessaging/dledger, store/DLedgerStore.java (0.3.1.2).

Differs:
- A call takes a batch, which is appended as a whole, by one write per file, or refused before
  anything is written.
- The store knows which entries are on the disk (`synced_index`); upstream answers an append before
  its entries are.
- Nothing at or below the committed index is ever cut.
- A truncation only removes entries; upstream's also writes the leader's entry, which is an append
  here.

The owner is one actor. Methods do not await, but for `save_checkpoint_beside`; those that may take
long are generators, which yield at least every 4 MiB.

A `Batch` is what the files take, made of the bodies that a leader appends or of the entries that a
leader sent (upstream: store/file/DLedgerMmapFileStore.java, appendAsLeader and appendAsFollower,
one entry at a time).
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
"""The index and the term of an empty log's end, as upstream writes them."""


class EntryRefused(TriologError):
    """An entry that a leader sent cannot be appended here. Nothing was written."""


class NotInSequence(EntryRefused):
    """The entry's index does not follow our last one, or its term is lower than the last one's
    (upstream: 408, 407).
    """


class WrongPlace(EntryRefused):
    """The entry's position is not where this log goes on (upstream: 414)."""


class IndexNotThere(TriologError):
    """No entry with this index was appended (upstream: 410)."""


class IndexGone(IndexNotThere):
    """The index is below the first entry that is kept (upstream: 419)."""


class FileGone(IndexGone):
    """The file with the entry is missing: it has expired, or it is lost. The store finds out
    which.
    """


class BelowCommitted(StorageError):
    """A truncation would remove committed entries: no truncation makes the two logs equal."""


@attrs.frozen(kw_only=True)
class SyncWork:
    """What a syncer has to make durable. `begin_sync` returns it, and `end_sync` takes it back.

    Attributes:
        paths: the files to sync; () if everything is on the disk.
        gone: files that were deleted, which a syncer closes.
        index: the log's last index when the sync began; -1 if the log was empty.
        end_bytes: the log's end at that time; 0 if the log was empty.
        whole: whether it also covers the index and the checksums of entries.
        risky: whether it covers entries of which a start without the mark could not tell whether
            they are whole.
    """

    paths: tuple[str, ...]
    gone: tuple[str, ...] = ()
    index: int
    end_bytes: int
    whole: bool = False
    risky: bool = False


def check_there(index: int, begin: int, end: int) -> None:
    """Check that the log has an entry.

    Args:
        begin, end: the indexes of the log's first and last entry.

    Raises: IndexNotThere: it was never appended. IndexGone: it has left the log.
    """
    if not 0 <= index <= end:
        raise IndexNotThere(f"no entry {index}: the log ends with entry {end}")
    if index < begin:
        raise IndexGone(f"no entry {index} any more: the log begins with entry {begin}")


def check_uncommitted(index: int, begin: int, end: int, committed: int) -> None:
    """Check that no committed entry would be removed with the log's entries from `index` on.

    The committed index may be above the log's end, if the log has begun anew.

    Args:
        begin, end: the indexes of the first and the last entry.

    Raises: BelowCommitted: one would.
    """
    if max(index, begin) <= min(committed, end):
        raise BelowCommitted(f"entries from {index} on cannot go: entry {committed} is committed")


def check_vote(was: TermVote, now: TermVote) -> None:
    """Check that the term does not fall, and that a vote does not change within a term."""
    assert now.term >= was.term  # TermMonotonic
    bound = now.term == was.term and was.voted_for != ""
    assert not bound or now.voted_for == was.voted_for  # OneVotePerTerm


def is_equal(ours: Entry, theirs: Entry) -> bool:
    """Whether a stored entry is the one that a leader sent.

    The checksums are not compared, as in upstream's DLedgerEntry.equals.
    """
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
"""A whole granule of zeros inside an entry has at least as many zeros of the entry's body."""


@attrs.frozen(kw_only=True)
class Batch:
    """At least one entry, as bytes that are ready to be written or were just written.

    Attributes:
        first_index: the index of the first entry.
        term: the term of the last entry.
        positions: the offset of each entry in the log.
        runs: a pair (offset of the first byte, bytes) for each data file that is written.
        records: the index records of the entries.
        sums: the checksum records of the entries (`per_index`).
        risky: whether a granule of one of them may be all zeros: after a power loss a torn entry
            may look whole, or a whole one torn.
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
    """Collects the parts of a batch; a new run begins with each data file.

    `of_bodies` and `of_entries` append to its lists directly, because a method call for each entry
    would cost as much as the entry itself.
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
    """Make the batch that a leader appends at `end_bytes`.

    Args:
        index: the index of the first entry.
        end_bytes: the log's end, where the first entry begins if it fits in the rest of its file.

    Raises: TooLarge: a body makes an entry that no file or frame can hold.
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
            raise TooLarge(f"an entry of {size} bytes; at most {size_max} are possible")
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
    """Make the batch that a follower appends: each entry at the position where its leader has it.

    Args:
        index: the index that the first entry must have.
        term: the term of the log's last entry. Terms must not fall, from this one on.
        end_bytes: the log's end. The first entry lies there, or at the start of the next file even
            if it would fit, because a leader that crashed behind a BLANK goes on there.

    Raises: NotInSequence, WrongPlace, EntryRefused: the leader's fault.
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
                entry_problem(entry) or f"entry {entry.index} has {size} bytes, at most {size_max}"
            )
        if entry.index != index:
            raise NotInSequence(f"entry {entry.index} came, expected entry {index}")
        if entry.term < term:
            raise NotInSequence(f"entry {index} is of term {entry.term}, the one before of {term}")
        if entry.pos != pos or size + BLANK_BYTES > file_end - pos:
            if entry.pos != file_end:
                raise WrongPlace(
                    f"entry {index} begins at {entry.pos}, this log goes on at {pos} in files of"
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
    """Return whether a part of this complete entry at `pos` may be missing.

    If a part is missing, one of the entry's granules is all zeros, or the last byte of its body is
    zero. A power loss replaces whole granules by zeros. A write that the system broke off may end
    at any byte, and zeros follow it. The head itself shows whether it is complete.
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

    Its owner is the group's store (`store.Store`); only the owner changes it.

    Attributes:
        membership: whether the log held, when it was opened, everything that this member has
            acknowledged. Whoever opens it sets this from notes kept outside of the store
            (`member_opening`).
        file_bytes: the size of a data file, which determines positions.
        begin_index: the index of the first entry; -1 if the log is empty.
        end_index, end_term: index and term of the last entry; -1 if the log is empty.
        next_index: the index of the next entry: `end_index + 1`, except in an empty log that goes
            on elsewhere.
        synced_index: the last entry that survives a power loss; -1: none.
        committed_index: the last committed entry, as `commit` was told; -1: none, or it is unknown.
        vote: the term and the vote that were saved last.
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
        """The offset of the first byte of the log."""

    @property
    @abstractmethod
    def end_bytes(self) -> int:
        """The end of the last entry. The next entry begins there, or at the start of the
        next file.
        """

    def opening_events(self) -> tuple[object, ...]:
        """Return the events about what the start found."""
        return ()

    # ---- writing ----

    def append_as_leader(self, bodies: Sequence[bytes], term: int) -> Batch:
        """Make an entry of each body and append them.

        Args:
            bodies: at least one; an empty one is an entry too.
            term: the leader's term, at least `end_term`.

        Raises: TooLarge: a body makes an entry that no file or frame can hold. LogFull: there is no
            room. Nothing was written in either case. StorageError: the write failed; the store is
            not used any more.
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
        """Write a batch that was made for the log's end, as a whole or not at all."""

    @abstractmethod
    def truncate(self, index: int) -> Generator[None, None, None]:
        """Remove the entries from `index` on; afterwards the next one is `index`.

        Args:
            index: the index of an entry of the log.

        When it ends, no crash and no restart can bring the entries back. No sync may be under way.
        Raises: IndexNotThere, IndexGone: the log has no such entry. BelowCommitted: it is
            committed. LogFull: there is no room to keep a copy of the entries. The log is unchanged
            in these cases. StorageError: as `append_as_leader`.
        """

    @abstractmethod
    def restart_at(self, index: int, pos_bytes: int) -> Generator[None, None, None]:
        """Remove all entries; the next one is `index` at `pos_bytes` (a follower is re-based).

        Until that entry is appended, a restart finds an empty log that goes on with index 0. No
        sync may be under way.

        Raises: BelowCommitted: an entry of the log from `index` on is committed. WrongPlace: no
            entry can begin at `pos_bytes`. StorageError: as `append_as_leader`.
        """

    @abstractmethod
    def delete_expired(self, floor_index: int, *, snapshot: bool = False) -> str | None:
        """Delete the oldest file if it is too old or the disk too full. Returns: the reason; None
        if nothing was deleted.

        Args:
            floor_index: entries from this index on are kept, and in any case the last committed
                entry and those after it.
            snapshot: whether a snapshot replaces all entries below `floor_index`: then age does not
                matter.

        Raises: StorageError: as `append_as_leader`. CorruptLog: the files after it are damaged.
        """

    @property
    def no_room(self) -> str:
        """Why the log takes nothing more, for people, as far as the last look at the disk, or the
        last write, showed; "" if it does.
        """
        return ""

    def lacks_next(self) -> str:
        """Return why the log takes nothing more, or soon, as the disk is now; "" if it does."""
        return ""

    def look_for_room(self) -> None:
        """Look at the disk, for `no_room` and what is appended next."""

    @abstractmethod
    def save_vote(self, vote: TermVote) -> None:
        """Save term and vote; they are on the disk when this returns.

        Args:
            vote: its term must not be lower than the saved one; within a term a vote cannot change.

        Raises: LogFull: there is no room; the old vote stays. StorageError: as `append_as_leader`.
        """

    def commit(self, index: int) -> None:
        """Record that all entries up to `index`, which the log has, are committed.

        An index below the committed one changes nothing.
        """
        assert index <= self.end_index
        self.committed_index = max(self.committed_index, index)

    @abstractmethod
    def save_checkpoint(self) -> None:
        """Write the committed index to its file. Raises: as `save_vote`."""

    @abstractmethod
    async def save_checkpoint_beside(self) -> None:
        """Save the checkpoint as `save_checkpoint` does, in a thread beside the event loop.

        A call during another one makes that one write the newest value, and may return before it is
        written. It cannot be cancelled within a sync. Raises: as `save_vote`.
        """

    # ---- durability ----

    @property
    @abstractmethod
    def is_synced(self) -> bool:
        """Whether nothing was written, cut or deleted since the last sync began."""

    @abstractmethod
    def begin_sync(self, *, whole: bool = False) -> SyncWork:
        """Begin a sync of what is not synced. Only one may be under way; `end_sync` ends it.

        Args:
            whole: whether to sync the index and the checksums as well; once a second is enough.
        """

    @abstractmethod
    def end_sync(self, work: SyncWork) -> bool:
        """Record that the files of `work` are on the disk.

        Returns: whether anything is left for a sync with `whole`.

        Raises: StorageError: as `append_as_leader`.
        """

    # ---- reading ----

    @abstractmethod
    def read(self, index: int, bytes_max: int) -> bytes:
        """Return entries from `index` on, as they lie in one file of the log.

        Args:
            bytes_max: how many bytes to return at most; one entry is returned even if it is larger.

        Raises: IndexNotThere, IndexGone; StorageError: the entry is not what its index record says.
        """

    @abstractmethod
    def verify(self, index: int, end_index: int, bytes_max: int) -> None:
        """Read entries again that a reader beside the writer could not read.

        It does nothing if the entry has been removed since. Args: as of `reader.EntryReader.read`.

        Raises: CorruptLog: a file of the log is damaged or missing. StorageError: the disk gave an
            error.
        """

    @abstractmethod
    def mend(self, index: int, data: bytes, source: str) -> RangeRepaired | str:
        """Replace a damaged entry by a good copy, and sync it.

        Args:
            data: the entry's bytes in another member's log.
            source: the name of that member.

        Returns: what was done; or, for people, why nothing was: the bytes are not what was written
            here, the entry is not committed and synced, or there is no room to keep the old bytes.

        Raises: StorageError: as `append_as_leader`.
        """

    @abstractmethod
    def close(self, *, ordered: bool) -> None:
        """Close all files. An ordered stop syncs everything first, and removes the spare file."""
