"""Reading entries beside their writer: own handles, positions from the index.

Upstream: openmessaging/dledger, DLedgerMmapFileStore.java, get (0.3.1.2), one entry at a time.

Differs: an entry that its checksum contradicts is not given to anybody (`sums`).

A reader may hold files that a truncation has removed: its owner calls `forget` when it hears of
one, and asks only for what the store has published.
"""

from __future__ import annotations

from bisect import bisect_right

import attrs

from actors.env.protocols import Disk
from actors.errors import StorageError
from actors.storage.dledger.layout import LedgerLayout
from actors.storage.dledger.ledger import IndexGone
from actors.storage.dledger.settings import LedgerSettings
from actors.storage.dledger.sums import SUM_BYTES, contradicted, sums_at, sums_file_bytes
from actors.storage.log_reader import LogReader, OffsetGone
from wire.dledger_entry import (
    ENTRY_BYTES_MAX,
    ENTRY_HEAD_BYTES,
    INDEX_BYTES,
    MAGIC_NORMAL,
    IndexRecord,
    decode_index,
)

RECORDS_READ = 1024
"""Index records looked at for one read: so many entries at most are in it."""


@attrs.define
class EntryReader:
    """One reader's view of a store. Not shared between owners."""

    _data: LogReader
    _index: LogReader
    _sums: LogReader

    @classmethod
    def of(cls, disk: Disk, layout: LedgerLayout, settings: LedgerSettings) -> EntryReader:
        """A reader of the store that lies there."""
        return cls(
            LogReader(disk, layout.commit_log, settings.data_file_bytes),
            LogReader(disk, layout.index, settings.index_file_bytes),
            LogReader(disk, layout.sums, sums_file_bytes(settings.index_file_bytes)),
        )

    def record(self, index: int) -> IndexRecord:
        """The index record of an entry that is there. Raises: IndexGone; StorageError; OSError."""
        return self._records(index, 1)[0]

    def read(self, index: int, end_index: int, bytes_max: int) -> bytes:
        """Entries `index` to at most `end_index`, from one file; at least one of them.

        Args:
            end_index: of the last entry that may be read; it is there.
            bytes_max: how many bytes more than one entry may make.

        Raises: IndexGone: a file that was deleted. StorageError: what lies there is not the entry.
            OSError.
        """
        assert 0 <= index <= end_index
        count = min(end_index + 1 - index, RECORDS_READ, 1 + bytes_max // ENTRY_HEAD_BYTES)
        records = self._records(index, count)
        first = records[0]
        file_bytes = self._data.segment_bytes
        file_end = first.pos - first.pos % file_bytes + file_bytes
        limit = min(first.pos + max(bytes_max, first.size), file_end)
        fitting = bisect_right(records, limit, key=lambda record: record.pos + record.size)
        del records[max(fitting, 1) :]
        last = records[-1]
        end = last.pos + last.size
        try:
            data = self._data.read(first.pos, end - first.pos, end)
        except OffsetGone:
            raise IndexGone(f"entry {index} is gone") from None
        self._check(data, first, end - first.pos)
        self._check_sums(data, records)
        return data

    def _records(self, index: int, count: int) -> list[IndexRecord]:
        """Of entries from `index` on, as many of `count` as lie in one file."""
        at = index * INDEX_BYTES
        try:
            data = self._index.read(at, count * INDEX_BYTES, at + count * INDEX_BYTES)
        except OffsetGone:
            raise IndexGone(f"entry {index} is gone") from None
        records = decode_index(data)
        first = records[0]
        if first.index != index or not ENTRY_HEAD_BYTES <= first.size <= ENTRY_BYTES_MAX:
            raise StorageError(f"{self._index.folder}: record {index} says {first}")
        return records

    def _check(self, data: bytes, first: IndexRecord, size: int) -> None:
        """The entry that the index leads to says the same of itself."""
        head = (MAGIC_NORMAL, first.size, first.index, first.term, first.pos)
        said = tuple(
            int.from_bytes(data[start:end], "big")
            for start, end in ((0, 4), (4, 8), (8, 16), (16, 24), (24, 32))
        )
        if len(data) != size or said != head:
            raise StorageError(
                f"{self._data.folder}: offset {first.pos}: expected entry {first.index}, found "
                f"{said} in {len(data)} of {size} bytes"
            )

    def _check_sums(self, data: bytes, records: list[IndexRecord]) -> None:
        """What is not known agrees."""
        start, at = records[0].pos, records[0].index * SUM_BYTES
        size = len(records) * SUM_BYTES
        try:
            known = self._sums.read(at, size, at + size)
        except OffsetGone:
            return
        ends = [record.pos - start for record in records[1:]] + [len(data)]
        wanted = sums_at(data, list(zip([0, *ends], ends, strict=False)))
        for number in contradicted(known[: len(known) // SUM_BYTES * SUM_BYTES], wanted)[:1]:
            record = records[number]
            raise StorageError(
                f"{self._data.folder}: offset {record.pos}: entry {record.index} is not what was"
                " written"
            )

    def drop_below(self, pos_bytes: int, index: int) -> None:
        """Release the files that hold nothing from there on."""
        self._data.drop_below(pos_bytes)
        self._index.drop_below(index * INDEX_BYTES)
        self._sums.drop_below(index * SUM_BYTES)

    def forget(self) -> None:
        """Release all files: what was under their names may be another one now."""
        self._data.close()
        self._index.close()
        self._sums.close()
