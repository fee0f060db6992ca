"""The DLedger store in memory: for tests, and for groups that are configured so.

Upstream: openmessaging/dledger, store/DLedgerMemoryStore.java (0.3.1.2).

Differs: it keeps upstream's positions, so that a group may mix it with stores on disk; a follower's
entries are checked; a truncation removes exactly the entries that it names. Nothing is deleted by
age, and no entry outlives the process, so all entries count as synced. Term and vote outlive it, as
upstream's do, but synced (`term_files`): a member that forgot them could elect two leaders of one
term.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator

import attrs

from actors.env.protocols import Disk
from actors.errors import LogFull
from actors.events.store import RangeRepaired
from actors.log_types import Membership
from actors.storage.layout import LedgerLayout
from actors.storage.ledger.ledger import (
    NONE,
    Batch,
    LedgerStore,
    SyncWork,
    WrongPlace,
    check_there,
    check_uncommitted,
    check_vote,
)
from actors.storage.ledger.term_files import (
    NOTHING_LEFT,
    NOTHING_LEFT_DO,
    LostVote,
    TermVote,
    read_term,
    settle_term,
    write_term,
)
from wire.dledger.entry import DATA_FILE_BYTES, ENTRY_HEAD_BYTES, IndexRecord, decode_index

MEMORY_BYTES_MAX = 1 << 30
"""How many bytes of entries may be held; an append beyond that is refused."""


@attrs.define(eq=False)
class MemoryEntries:
    """The entries that a `MemoryLedger` holds.

    The ledger alone writes them; readers of the same node read them, as they would read files.

    Attributes:
        first: the index of the first entry, or of the next one if there is none.
        entries, records: the bytes and the index record of each entry.
    """

    first: int = 0
    entries: list[bytes] = attrs.field(factory=list)
    records: list[IndexRecord] = attrs.field(factory=list)


@attrs.frozen
class MemoryReader:
    """One reader's view of a `MemoryLedger`; `entry_window.EntrySource`."""

    _held: MemoryEntries
    _file_bytes: int = DATA_FILE_BYTES

    def record(self, index: int) -> IndexRecord:
        """Implements `reader.EntryReader.record`."""
        held = self._held
        check_there(index, held.first, held.first + len(held.records) - 1)
        return held.records[index - held.first]

    def read(self, index: int, end_index: int, bytes_max: int) -> bytes:
        """Implements `reader.EntryReader.read`."""
        held = self._held
        check_there(index, held.first, held.first + len(held.records) - 1)
        first, behind = index - held.first, end_index + 1 - held.first
        start = held.records[first].pos
        file_end = start - start % self._file_bytes + self._file_bytes
        limit = min(start + bytes_max, file_end)
        fitting = bisect_right(
            held.records, limit, lo=first, hi=behind, key=lambda each: each.pos + each.size
        )
        return b"".join(held.entries[first : max(fitting, first + 1)])

    def forget(self) -> None:
        """Do nothing: this reader holds nothing of the log."""


def open_memory_ledger(
    disk: Disk,
    layout: LedgerLayout,
    held: MemoryEntries,
    *,
    file_bytes: int,
    unsynced: bool,
    had_vote: bool = False,
) -> MemoryLedger:
    """Open an empty log, with the term and the vote that this member has on the disk.

    Args:
        held: the place for the entries; what it holds is removed.
        unsynced: whether term and vote are read and written in upstream's way (bug B8).
        had_vote: whether term and vote were once on the disk.

    Raises: LostVote: term and vote cannot be read, or are lost. LogFull: there is no room. OSError.
    """
    disk.mkdir(layout.root)
    vote = read_term(disk, layout.term, unsynced=unsynced)
    if vote is None and had_vote and not unsynced:
        raise LostVote(layout.term, NOTHING_LEFT, NOTHING_LEFT_DO)
    if vote is None:
        # from now on it is no new member
        write_term(disk, layout.term, TermVote(), unsynced=unsynced)
    elif not unsynced:
        settle_term(disk, layout.term, vote)
    return MemoryLedger(
        file_bytes=file_bytes,
        held=held,
        vote=vote,
        keep=lambda vote: write_term(disk, layout.term, vote, unsynced=unsynced),
    )


class MemoryLedger(LedgerStore):
    """A `LedgerStore` in memory.

    Args:
        file_bytes: the size that data files would have, which determines positions.
        bytes_max: how many bytes of entries may be held.
        held: the place for the entries; what it holds is removed.
        vote: the vote of an earlier incarnation; None if there was none.
        keep: saves term and vote, on the disk when it returns; None: they are in memory too.
    """

    def __init__(
        self,
        *,
        file_bytes: int = DATA_FILE_BYTES,
        bytes_max: int = MEMORY_BYTES_MAX,
        held: MemoryEntries | None = None,
        vote: TermVote | None = None,
        keep: Callable[[TermVote], None] | None = None,
    ) -> None:
        super().__init__(file_bytes=file_bytes, vote=vote or TermVote())
        self.membership = Membership.FULL if vote is None else Membership.FORGOT
        self._bytes_max = bytes_max
        self._held = held if held is not None else MemoryEntries()
        self._held.entries.clear()
        self._held.records.clear()
        self._held.first = 0
        self._reader = MemoryReader(self._held, file_bytes)
        self._held_bytes = 0
        self._end_bytes = 0
        self._keep = keep

    @property
    def begin_bytes(self) -> int:
        return self._held.records[0].pos if self._held.records else self._end_bytes

    @property
    def end_bytes(self) -> int:
        return self._end_bytes

    def _append(self, batch: Batch) -> None:
        size = sum(len(data) for _, data in batch.runs)
        if self._held_bytes + size > self._bytes_max:
            raise LogFull(f"the log holds {self._held_bytes} bytes, at most {self._bytes_max}")
        at = 0
        joined = b"".join(data for _, data in batch.runs)
        for record in decode_index(batch.records):
            self._held.entries.append(joined[at : at + record.size])
            self._held.records.append(record)
            at += record.size
        self._held_bytes += size
        self._end_bytes = batch.end_bytes
        self._now()

    def _now(self) -> None:
        """Set the indexes after `_held` has changed."""
        held = self._held
        self.next_index = held.first + len(held.entries)
        self.begin_index = held.first if held.entries else NONE
        self.end_index = self.synced_index = self.next_index - 1 if held.entries else NONE
        self.end_term = held.records[-1].term if held.records else NONE

    def truncate(self, index: int) -> Generator[None, None, None]:
        check_there(index, self._held.first, self.end_index)
        check_uncommitted(index, self.begin_index, self.end_index, self.committed_index)
        yield
        kept = index - self._held.first
        self._end_bytes = self._held.records[0].pos
        if kept:
            self._end_bytes = self._held.records[kept - 1].pos + self._held.records[kept - 1].size
        del self._held.entries[kept:], self._held.records[kept:]
        self._held_bytes = sum(record.size for record in self._held.records)
        self._now()

    def restart_at(self, index: int, pos_bytes: int) -> Generator[None, None, None]:
        check_uncommitted(index, self.begin_index, self.end_index, self.committed_index)
        if 0 < pos_bytes % self.file_bytes < ENTRY_HEAD_BYTES:
            raise WrongPlace(
                f"entry {index} cannot begin at {pos_bytes}: no entry fits before it in its file"
            )
        yield
        self._held.entries.clear()
        self._held.records.clear()
        self._held_bytes, self._held.first, self._end_bytes = 0, index, pos_bytes
        self._now()

    def delete_expired(self, floor_index: int, *, snapshot: bool = False) -> str | None:
        """Delete nothing by age; entries before a snapshot are removed one by one."""
        held = self._held
        count = min(floor_index, self.committed_index, self.end_index) - held.first
        if not snapshot or count <= 0:
            return None
        self._held_bytes -= sum(record.size for record in held.records[:count])
        del held.entries[:count], held.records[:count]
        held.first += count
        self._now()
        return "snapshot"

    def save_vote(self, vote: TermVote) -> None:
        check_vote(self.vote, vote)
        if self._keep is not None:
            self._keep(vote)
        self.vote = vote

    def save_checkpoint(self) -> None:
        """Do nothing: there is no file for it."""

    async def save_checkpoint_beside(self) -> None:
        """As `save_checkpoint`."""

    @property
    def is_synced(self) -> bool:
        return True

    def begin_sync(self, *, whole: bool = False) -> SyncWork:
        return SyncWork(paths=(), index=self.end_index, end_bytes=self._end_bytes, whole=whole)

    def end_sync(self, work: SyncWork) -> bool:
        return False  # nothing waits: entries in memory need no sync

    def read(self, index: int, bytes_max: int) -> bytes:
        return self._reader.read(index, self.end_index, bytes_max)

    def verify(self, index: int, end_index: int, bytes_max: int) -> None:
        """Do nothing: no reader can have failed beside the memory."""

    def mend(self, index: int, data: bytes, source: str) -> RangeRepaired | str:
        return "it is in memory, and not damaged"

    def close(self, *, ordered: bool) -> None:
        """Do nothing: no file is open."""
