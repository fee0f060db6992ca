"""Reads entries while their writer writes, with file handles of its own and positions from the
index.

Upstream: openmessaging/dledger, DLedgerMmapFileStore.java, get (0.3.1.2), which reads one entry at
a time.

Differs: an entry that its checksum contradicts is not returned (`per_index`).

A reader may hold files that a truncation has removed: its owner calls `forget` when it learns of a
truncation, and asks only for what the store has published.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NoReturn

import attrs

from actors.env.protocols import Disk
from actors.errors import CorruptLog, StorageError
from actors.storage.layout import LedgerLayout
from actors.storage.ledger.ledger import FileGone
from actors.storage.ledger.per_index import (
    SUM_BYTES,
    all_known,
    contradicted,
    sums_at,
    sums_file_bytes,
)
from actors.storage.ledger.settings import LedgerSettings
from actors.storage.ledger.term_files import GUIDE
from actors.storage.log.commit_log import segment_path
from actors.storage.log.log_reader import LogReader, OffsetGone
from wire.dledger.entry import (
    ENTRY_BYTES_MAX,
    ENTRY_HEAD_BYTES,
    ENTRY_POSITION,
    INDEX_BYTES,
    MAGIC_NORMAL,
    IndexRecord,
    decode_index,
)

RECORDS_READ = 1024
"""How many index records are read for one read of entries, and so how many entries it returns at
most."""
HEAD_FIELDS: Final = ("magic", "size", "index", "term", "position")
INDEX_DO: Final = (
    "(stopped, remove the member's folder `index`: a start makes it again from `data`)"
)


@attrs.define
class LedgerReader:
    """One reader of a store, with one owner."""

    _data: LogReader
    _index: LogReader
    _sums: LogReader

    @classmethod
    def of(cls, disk: Disk, layout: LedgerLayout, settings: LedgerSettings) -> LedgerReader:
        """Make a reader of the store in this layout."""
        return cls(
            LogReader(disk, layout.commit_log, settings.data_file_bytes),
            LogReader(disk, layout.index, settings.index_file_bytes),
            LogReader(disk, layout.sums, sums_file_bytes(settings.index_file_bytes)),
        )

    def record(self, index: int) -> IndexRecord:
        """Return the index record of an entry that the log has. Raises: as `read`."""
        return self._records(index, 1)[0]

    def pos_of(self, index: int) -> int:
        """Return the position of an entry that the log has. Raises: OSError; CorruptLog."""
        try:
            return self.record(index).pos
        except FileGone as gone:
            raise CorruptLog(str(gone)) from None

    def read(self, index: int, end_index: int, bytes_max: int) -> bytes:
        """Return the entries from `index` on that lie in one file, up to `end_index`.

        Args:
            end_index: the index of the last entry that may be read; the log must have it.
            bytes_max: how many bytes to return at most; one entry is returned even if it is larger.

        Raises: FileGone: a file was deleted, or is lost. CorruptLog: a file is damaged; the message
            says which, and what to do. StorageError: two reads gave different bytes. OSError.
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
            data = b""
        if not self._is_whole(data, records):
            self._refuse(records)
        return data

    def _records(self, index: int, count: int) -> list[IndexRecord]:
        """Return the index records from `index` on, as many of `count` as lie in one file."""
        at = index * INDEX_BYTES
        try:
            data = self._index.read(at, count * INDEX_BYTES, at + count * INDEX_BYTES)
        except OffsetGone:
            raise FileGone(_missing(self._index, at, index, INDEX_DO)) from None
        records = decode_index(data)
        if not records:
            found = f"the file ends, expected the record of entry {index}"
            raise CorruptLog(f"{_place(self._index, at)}: {found} {INDEX_DO}")
        if not _is_of(records[0], index):
            raise self._bad_record(index, records[0])
        return records

    def _is_whole(self, data: bytes, records: list[IndexRecord]) -> bool:
        """Whether the first entry has the head that its record says, and no checksum contradicts
        any.
        """
        first, last = records[0], records[-1]
        if len(data) != last.pos + last.size - first.pos or _head(data) != _head_of(first):
            return False
        at, size = first.index * SUM_BYTES, len(records) * SUM_BYTES
        try:
            known = self._sums.read(at, size, at + size)
        except OffsetGone:
            return True  # without a known checksum nothing contradicts
        ends = [record.pos - first.pos for record in records[1:]] + [len(data)]
        wanted = sums_at(data, list(zip([0, *ends], ends, strict=False)))
        return not contradicted(known[: len(known) // SUM_BYTES * SUM_BYTES], wanted)

    def known_sum(self, index: int) -> int | None:
        """Return the CRC-32 that was written for an entry; None: there is no whole record of it.

        Raises: OSError.
        """
        at = index * SUM_BYTES
        try:
            record = self._sums.read(at, SUM_BYTES, at + SUM_BYTES)
        except OffsetGone:
            return None
        if len(record) < SUM_BYTES or not all_known(record):
            return None
        return int.from_bytes(record[:4], "big")

    # ---- what is damaged ----

    def _refuse(self, records: list[IndexRecord]) -> NoReturn:
        """Find which file is damaged, and where, and raise the error that says so.

        That is the first index record that does not follow the one before it, or else the first
        entry that is not what its record says.

        Raises: FileGone; CorruptLog; StorageError: a second read finds nothing wrong.
        """
        index = records[0].index
        before = self._records(index - 1, 1)[0] if index and self._has(index - 1) else None
        for number, record in enumerate(records, index):
            if not _is_of(record, number) or not self._follows(record, before):
                raise self._bad_record(number, record)
            self._need_entry(record)
            before = record
        raise StorageError(f"{_place(self._data, records[0].pos)}: two reads gave different bytes")

    def _has(self, index: int) -> bool:
        """Whether a file that still exists has an index record of this entry."""
        try:
            return _is_of(self._records(index, 1)[0], index)
        except (FileGone, CorruptLog):
            return False

    def _follows(self, record: IndexRecord, before: IndexRecord | None) -> bool:
        """Whether a record's entry begins where the one before it ends, or at the start of a later
        file.
        """
        if before is None:
            return True
        end, pos = before.pos + before.size, record.pos
        lies = pos == end or (pos > end and pos % self._data.segment_bytes == 0)
        return lies and record.term >= before.term

    def _need_entry(self, record: IndexRecord) -> None:
        try:
            data = self._data.read(record.pos, record.size, record.pos + record.size)
        except OffsetGone:
            text = _missing(self._data, record.pos, record.index, GUIDE)
            raise FileGone(text) from None
        if self._is_whole(data, [record]):
            return
        where, wanted = _place(self._data, record.pos), _head_of(record)
        if len(data) != record.size:
            found = f"{len(data)} of its {record.size} bytes"
        elif _head(data) != wanted:
            said = zip(HEAD_FIELDS, _head(data), wanted, strict=True)
            found = ", ".join(f"{name} {has} for {want}" for name, has, want in said if has != want)
        else:
            found = "other bytes than were written: the checksums differ"
        raise CorruptLog(f"{where}: expected entry {record.index}, found {found} {GUIDE}")

    def _bad_record(self, index: int, record: IndexRecord) -> CorruptLog:
        where = _place(self._index, index * INDEX_BYTES)
        return CorruptLog(
            f"{where}: expected the record of entry {index}, found {record} {INDEX_DO}"
        )

    def drop_below(self, pos_bytes: int, index: int) -> None:
        """Close the files that hold nothing from this position and index on."""
        self._data.drop_below(pos_bytes)
        self._index.drop_below(index * INDEX_BYTES)
        self._sums.drop_below(index * SUM_BYTES)

    def forget(self) -> None:
        """Close all files, because others may have their names now."""
        self._data.close()
        self._index.close()
        self._sums.close()


def _is_of(record: IndexRecord, index: int) -> bool:
    """Whether `record` can be the index record of entry `index`."""
    fits = ENTRY_HEAD_BYTES <= record.size <= ENTRY_BYTES_MAX
    return record.index == index and fits and record.pos >= 0 and record.term >= 0


def _head_of(record: IndexRecord) -> tuple[int, ...]:
    return (MAGIC_NORMAL, record.size, record.index, record.term, record.pos)


def _head(data: bytes) -> tuple[int, ...]:
    """Return the fields of an entry's head that HEAD_FIELDS names."""
    spans = ((0, 4), (4, 8), (8, 16), (16, 24), (24, 32))
    return tuple(int.from_bytes(data[start:end], "big") for start, end in spans)


def _place(log: LogReader, offset: int) -> str:
    """Describe an offset for people: path, byte in the file, offset."""
    at = offset % log.segment_bytes
    return f"{segment_path(log.folder, offset - at)}: byte {at} (offset {offset})"


def _missing(log: LogReader, offset: int, index: int, do: str) -> str:
    path = segment_path(log.folder, offset - offset % log.segment_bytes)
    return f"{path}: the file is missing, which has entry {index} {do}"


def last_index(data: bytes) -> int:
    """Return the index of the last entry in `data`, which holds only whole entries."""
    at = last = 0
    while at < len(data):
        entry_bytes, last = ENTRY_POSITION.unpack_from(data, at)
        at += entry_bytes
    return last
