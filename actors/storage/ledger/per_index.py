"""Files with one record of fixed size for each entry, at `index * record_bytes` of a row of files.

Upstream: openmessaging/dledger, store/file/DLedgerMmapFileStore.java, indexFileList (0.3.1.2). The
records derive from the entries and are made again where they are missing or disagree; so they are
synced once a second, and after a crash they are trusted only below the synced mark.

One kind of record is the checksum of an entry, for DLedger's format has none and must not be
changed. Upstream has no such file; the fields `bodyCrc` and `chainCrc` of an entry are 0 in every
version.

Record of an entry, at `index * SUM_BYTES` of the files in `sums/`:

| Offset | Width | Type | Field | Meaning                                                   |
|--------|-------|------|-------|-----------------------------------------------------------|
| 0      | 4     | uint | crc   | CRC-32 of the whole entry as it lies in its data file     |
| 4      | 4     | uint | check | crc xor CHECK_MASK, so that neither zeros nor half of one |
|        |       |      |       | whose write broke off say anything                        |

Size: SUM_BYTES = 8. After a crash a record is whole, or zeros, or its beginning followed by zeros.
Of an entry without a whole record (another program appended it, or the record's page was lost) only
the head can be checked.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Final

import attrs

from actors.env.path_kinds import check_kinds
from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.log import truncation
from actors.storage.log.commit_log import CommitLog, log_files, segment_bases, segment_path
from actors.storage.log.log_reader import LogReader
from wire.crc import crc32
from wire.dledger.entry import INDEX_BYTES
from wire.dledger.scan import EntryHead

LOOKED_BYTES = 64 << 20
"""So much of the end is checked for gaps; checking all of a large log may take minutes."""


@attrs.define
class PerIndexFiles:
    """The files of one kind of record, with one owner, which writes them.

    Attributes:
        log: the files as one log; its end is the end of the last record.
        record_bytes: the size of a record; a file holds only whole records.
    """

    log: CommitLog
    record_bytes: int
    _disk: Disk
    _reader: LogReader

    @classmethod
    def load(
        cls,
        disk: Disk,
        folder: str,
        file_bytes: int,
        record_bytes: int,
        *,
        key: str,
        is_sure: bool,
    ) -> PerIndexFiles:
        """Open the files. If one is missing between others or has a wrong size, all are deleted, to
        be made again.

        Args:
            key: the setting of their size, for messages; as of `CommitLog.load`.
            is_sure: whether other files of the store show that `file_bytes` is the right size.

        Raises: ConfigError: all files have one size, and it is not `file_bytes`. OSError.
        """
        assert file_bytes % record_bytes == 0
        if is_sure or not _have_another_size(disk, folder, file_bytes, record_bytes):
            _extend_last(disk, folder, file_bytes, record_bytes)
        try:
            log = CommitLog.load(disk, folder, file_bytes, least_bytes=record_bytes, key=key)
        except CorruptLog:
            for base in segment_bases(disk, folder):  # whatever else lies in the folder is not ours
                disk.unlink(segment_path(folder, base))
            disk.sync_dir(folder)
            log = CommitLog.load(disk, folder, file_bytes, least_bytes=record_bytes, key=key)
        reader = LogReader(disk, folder, file_bytes)
        return cls(log=log, record_bytes=record_bytes, disk=disk, reader=reader)

    @classmethod
    def usable(
        cls,
        disk: Disk,
        folder: str,
        file_bytes: int,
        record_bytes: int,
        *,
        key: str,
        is_sure: bool,
    ) -> PerIndexFiles:
        """Return what `load` would open, only to be read; it changes nothing.

        The missing part of a last file that is too short cannot be read yet. Args, Raises: as of
        `load`.
        """
        fills = is_sure or not _have_another_size(disk, folder, file_bytes, record_bytes)
        try:
            bases = log_files(disk, folder, file_bytes, key=key, fills_last=fills)
        except CorruptLog:
            bases = []
        return cls.look(disk, folder, file_bytes, record_bytes, bases)

    @classmethod
    def look(
        cls, disk: Disk, folder: str, file_bytes: int, record_bytes: int, bases: list[int]
    ) -> PerIndexFiles:
        """Return the files that begin at `bases` as they are, only to be read."""
        log = CommitLog.look(disk, folder, file_bytes, bases)
        reader = LogReader(disk, folder, file_bytes)
        return cls(log=log, record_bytes=record_bytes, disk=disk, reader=reader)

    @property
    def next_index(self) -> int:
        """The index after the last record; after `load`, the index at which the files end."""
        return self.log.written_bytes // self.record_bytes

    def covers(self, index: int) -> bool:
        """Whether a file with the record of `index` exists."""
        return self.log.min_bytes <= index * self.record_bytes < self.log.written_bytes

    def reserve(self, records: bytes) -> None:
        """Allocate room for these records. Raises: as `CommitLog.reserve`."""
        self.log.reserve(self.log.written_bytes + len(records))

    def append(self, records: bytes) -> None:
        """Append these records after the last one. Raises: as `CommitLog.append`."""
        self.log.append(records)

    def read(self, index: int, count: int) -> bytes:
        """Return the records of `count` entries from `index` on; fewer where the files end."""
        at, left = index * self.record_bytes, count * self.record_bytes
        limit = self.log.written_bytes
        parts = []
        while left and at < limit:
            part = self._reader.read(at, left, limit)
            if not part:
                break
            parts.append(part)
            at += len(part)
            left -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def set_next(self, index: int) -> None:
        """Set where the records end: before `index`. Everything after that has to be zeros."""
        self.log.set_end(index * self.record_bytes)

    def cut(self, index: int) -> None:
        """Overwrite the records from `index` on with zeros, and sync that.

        Args:
            index: one that has a record, or the next one; or one below all records, so that none
                remains.

        Raises: OSError.
        """
        end = index * self.record_bytes
        if end < self.log.min_bytes:
            self.restart_at(index)
            return
        self._reader.close()
        self.log.forget_behind(end)
        truncation.cut_files(self._disk, self.log.folder, self.log.segment_bytes, end)
        self.log.set_end(end)

    def restart_at(self, index: int) -> None:
        """Delete all files; the next record is that of `index`. Raises: OSError."""
        self._reader.close()
        self.log.restart_at(index * self.record_bytes)

    def drop_below(self, index: int) -> None:
        """Delete the files that hold only records below `index`. Raises: OSError."""
        while (bases := self.log.bases())[1:] and bases[1] <= index * self.record_bytes:
            self.log.delete_first()
        self._reader.drop_below(self.log.min_bytes)

    def has_gap(self, index: int, end_index: int) -> Generator[None, None, bool]:
        """Whether one of the records from `index` up to `end_index`, exclusive, is missing or all
        zeros.

        A file was cut short then, or a page of it was lost; no good record is all zeros. Only the
        last LOOKED_BYTES are read. Yields every 4 MiB.
        """
        zeros = bytes(self.record_bytes)
        at = max(index, end_index - LOOKED_BYTES // self.record_bytes)
        while at < end_index:
            count = min(truncation.CHUNK_BYTES // self.record_bytes, end_index - at)
            found = self.read(at, count)
            if len(found) < count * self.record_bytes or zeros in found:
                return True
            at += count
            yield
        return False

    def used_behind(self, index: int) -> Generator[None, None, bool]:
        """Whether there are bytes other than zeros from the record of `index` on. Yields every 4
        MiB.
        """
        return (
            yield from truncation.has_bytes_behind(self._disk, self.log, index * self.record_bytes)
        )

    def close(self, *, remove_spare: bool) -> None:
        self._reader.close()
        self.log.close(remove_spare=remove_spare)


def has_file_of(disk: Disk, folder: str, file_bytes: int) -> bool:
    """Whether one of the files in the folder has `file_bytes` bytes."""
    return file_bytes in _sizes(disk, folder)


def _have_another_size(disk: Disk, folder: str, file_bytes: int, record_bytes: int) -> bool:
    """Whether all files have the same size, which is possible but is not `file_bytes`."""
    sizes = _sizes(disk, folder)
    alike = len(set(sizes)) == 1
    return alike and sizes[0] != file_bytes and sizes[0] % record_bytes == 0


def _sizes(disk: Disk, folder: str) -> list[int]:
    bases = segment_bases(disk, folder)
    return [disk.stat(segment_path(folder, base)).size_bytes for base in bases]


def _extend_last(disk: Disk, folder: str, file_bytes: int, record_bytes: int) -> None:
    """Fill a last file that is too short with zeros, and sync it; a crash during a cut leaves one.

    A record of which only a part is there becomes zeros too, because only zeros tell `has_gap` that
    a record is missing.
    """
    bases = segment_bases(disk, folder)
    check_kinds(disk, folders=(), files=(segment_path(folder, base) for base in bases))
    size = disk.stat(segment_path(folder, bases[-1])).size_bytes if bases else 0
    if not 0 < size < file_bytes:
        return
    with closing(disk.open(segment_path(folder, bases[-1]), "w")) as file:
        file.resize(size - size % record_bytes)
        file.resize(file_bytes)
        file.sync()


SUM_BYTES: Final = 8
CHECK_MASK: Final = 0xA5C35A3C
SUM_RECORD = struct.Struct(">II")


def sums_file_bytes(index_file_bytes: int) -> int:
    """Return the size of a file of checksums: it has as many records as a file of the index."""
    return index_file_bytes // INDEX_BYTES * SUM_BYTES


def sums_of(data: bytes, heads: Sequence[EntryHead]) -> bytes:
    """Return the checksum records of the entries whose heads were found in `data`."""
    return sums_at(data, [(head.at, head.at + head.size) for head in heads])


def sums_at(data: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
    """Return the checksum records of the entries at these positions in `data`.

    Args:
        spans: the first byte of each entry, and the byte after its last.
    """
    view = memoryview(data)
    crcs = [crc32(view[start:end]) for start, end in spans]
    return b"".join([SUM_RECORD.pack(crc, crc ^ CHECK_MASK) for crc in crcs])


def all_known(records: bytes) -> bool:
    """Whether each of these checksum records is whole."""
    return all(check == crc ^ CHECK_MASK for crc, check in SUM_RECORD.iter_unpack(records))


def contradicted(known: bytes, wanted: bytes) -> list[int]:
    """Return the numbers, from 0, of the records in `wanted` that differ from whole known ones.

    Args:
        known: the records that were written; as many, or fewer.
    """
    if known == wanted:
        return []
    starts = range(0, len(known), SUM_BYTES)
    return [
        at // SUM_BYTES
        for at in starts
        if known[at : at + SUM_BYTES] != wanted[at : at + SUM_BYTES]
        and all_known(known[at : at + SUM_BYTES])
    ]


def stored_sums(files: PerIndexFiles, index: int, count: int) -> bytes:
    """Return the records of `count` entries from `index` on; zeros for those that the files
    lack.
    """
    below = min(max(-(-files.log.min_bytes // SUM_BYTES) - index, 0), count)
    found = files.read(index + below, count - below) if count > below else b""
    return (bytes(below * SUM_BYTES) + found).ljust(count * SUM_BYTES, b"\0")
