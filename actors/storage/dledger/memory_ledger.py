"""The DLedger store in memory: for tests, and for groups that say so.

Upstream: openmessaging/dledger, store/DLedgerMemoryStore.java (0.3.1.2).

Differs: it keeps upstream's positions, so that a group may mix it with stores on disk; a follower's
entries are checked; a truncation removes what it says. Nothing is deleted by age, and nothing
outlives the process: all that is held counts as synced.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Sequence

from actors.errors import LogFull
from actors.storage.dledger import batches, compare
from actors.storage.dledger.batches import Batch
from actors.storage.dledger.ledger import (
    NONE,
    AppendedEntries,
    SyncWork,
    WrongPlace,
    check_there,
    check_uncommitted,
    check_vote,
)
from actors.storage.dledger.term_files import TermVote
from wire.dledger_entry import DATA_FILE_BYTES, ENTRY_HEAD_BYTES, Entry, IndexRecord, decode_index

MEMORY_BYTES_MAX = 1 << 30
"""An append beyond it is refused."""


class MemoryLedger:
    """`LedgerStore` of `ledger`, in memory.

    Args:
        file_bytes: size that data files would have: it decides about positions.
        bytes_max: room for entries.
    """

    def __init__(
        self, *, file_bytes: int = DATA_FILE_BYTES, bytes_max: int = MEMORY_BYTES_MAX
    ) -> None:
        self._file_bytes = file_bytes
        self._bytes_max = bytes_max
        self._entries: list[bytes] = []
        self._records: list[IndexRecord] = []
        self._held_bytes = 0
        self._first = 0  # index of the first entry, or of the next one if there is none
        self._end_bytes = 0
        self._committed = NONE
        self._vote = TermVote()

    @property
    def begin_index(self) -> int:
        return self._first if self._entries else NONE

    @property
    def begin_bytes(self) -> int:
        return self._records[0].pos if self._records else self._end_bytes

    def opening_events(self) -> tuple[object, ...]:
        return ()

    @property
    def end_index(self) -> int:
        return self.next_index - 1 if self._entries else NONE

    @property
    def end_term(self) -> int:
        return self._records[-1].term if self._entries else NONE

    @property
    def next_index(self) -> int:
        return self._first + len(self._entries)

    @property
    def end_bytes(self) -> int:
        return self._end_bytes

    @property
    def synced_index(self) -> int:
        return self.end_index

    @property
    def committed_index(self) -> int:
        return self._committed

    @property
    def vote(self) -> TermVote:
        return self._vote

    def append_as_leader(self, bodies: Sequence[bytes], term: int) -> AppendedEntries:
        assert term >= max(self.end_term, 0)  # TermMonotonic
        batch = batches.of_bodies(
            bodies,
            index=self.next_index,
            term=term,
            end_bytes=self._end_bytes,
            file_bytes=self._file_bytes,
        )
        return self._append(batch)

    def append_as_follower(self, entries: Sequence[Entry]) -> AppendedEntries:
        batch = batches.of_entries(
            entries,
            index=self.next_index,
            term=max(self.end_term, 0),
            end_bytes=self._end_bytes,
            file_bytes=self._file_bytes,
        )
        return self._append(batch)

    def _append(self, batch: Batch) -> AppendedEntries:
        size = sum(len(data) for _, data in batch.runs)
        if self._held_bytes + size > self._bytes_max:
            raise LogFull(f"{self._held_bytes} bytes are held, at most {self._bytes_max}")
        at = 0
        joined = b"".join(data for _, data in batch.runs)
        for record in decode_index(batch.records):
            self._entries.append(joined[at : at + record.size])
            self._records.append(record)
            at += record.size
        self._held_bytes += size
        self._end_bytes = batch.end_bytes
        return batch.appended()

    def truncate(self, index: int) -> Generator[None, None, None]:
        check_there(index, self._first, self.end_index)
        check_uncommitted(index, self._committed)
        yield
        kept = index - self._first
        self._end_bytes = self._records[0].pos
        if kept:
            self._end_bytes = self._records[kept - 1].pos + self._records[kept - 1].size
        del self._entries[kept:], self._records[kept:]
        self._held_bytes = sum(record.size for record in self._records)

    def restart_at(self, index: int, pos_bytes: int) -> Generator[None, None, None]:
        check_uncommitted(index, self._committed)
        if 0 < pos_bytes % self._file_bytes < ENTRY_HEAD_BYTES:
            raise WrongPlace(f"entry {index} cannot lie at {pos_bytes}")
        yield
        self._entries.clear()
        self._records.clear()
        self._held_bytes, self._first, self._end_bytes = 0, index, pos_bytes

    def delete_expired(self, floor_index: int) -> str | None:
        return None

    def save_vote(self, vote: TermVote) -> None:
        check_vote(self._vote, vote)
        self._vote = vote

    def commit(self, index: int) -> None:
        assert index <= self.end_index
        self._committed = max(self._committed, index)

    def save_checkpoint(self) -> None:
        """There is nowhere to write it to."""

    def begin_sync(self, *, whole: bool = False) -> SyncWork:
        return SyncWork(paths=(), index=self.end_index, end_bytes=self._end_bytes, whole=whole)

    def end_sync(self, work: SyncWork) -> bool:
        return False  # all is as durable as it gets

    def read(self, index: int, bytes_max: int) -> bytes:
        check_there(index, self._first, self.end_index)
        first = index - self._first
        start = self._records[first].pos
        file_end = start - start % self._file_bytes + self._file_bytes
        limit = min(start + bytes_max, file_end)
        records = self._records
        behind = bisect_right(records, limit, lo=first, key=lambda each: each.pos + each.size)
        return b"".join(self._entries[first : max(behind, first + 1)])

    def term_at(self, index: int) -> int:
        check_there(index, self._first, self.end_index)
        return self._records[index - self._first].term

    def equal_count(self, entries: Sequence[Entry]) -> int:
        return compare.equal_count(entries, self.begin_index, self.end_index, self.read)

    def close(self, *, ordered: bool) -> None:
        """Nothing is held outside of memory."""
