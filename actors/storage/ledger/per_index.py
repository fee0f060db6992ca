"""Files of one record of fixed size per entry: at `index * record_bytes` of a run of files.

Upstream: openmessaging/dledger, store/file/DLedgerMmapFileStore.java, indexFileList (0.3.1.2).
Everything here derives from the entries and is made again where it is missing or disagrees; so it
is synced once a second, and what a crash leaves of it is believed only below a mark.

One of them is the checksum of each entry: DLedger's format has none, and is not to be changed.
Upstream has none; the fields `bodyCrc` and `chainCrc` of an entry are 0 in every version.

Record of an entry, at `index * SUM_BYTES` of the files in `sums/`:

| Offset | Width | Type | Field | Meaning                                                   |
|--------|-------|------|-------|-----------------------------------------------------------|
| 0      | 4     | uint | crc   | CRC-32 of the whole entry as it lies in its data file     |
| 4      | 4     | uint | check | crc xor CHECK_MASK, so that neither zeros nor half of one |
|        |       |      |       | whose write broke off say anything                        |

Size: SUM_BYTES = 8. Like the index it is synced once a second; a record is there, or is zeros, or
begins with a part of itself. An entry without a whole one (another program appended it, or the
record's page was lost) is believed as far as its head goes.
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
"""So much of its end is looked at for gaps: with a large log, all of it may take minutes."""


@attrs.define
class PerIndexFiles:
    """The files of one kind of record. One owner writes.

    Attributes:
        log: where the records lie; its end is behind the last one.
        record_bytes: of each; a file holds whole ones only.
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
        """Open the files; those with a hole or of odd sizes are deleted: they will be made again.

        Args:
            key: as of `CommitLog.load`.
            is_sure: other files of the store show that this is their size.

        Raises: ConfigError: all have one size, and it is another. OSError.
        """
        assert file_bytes % record_bytes == 0
        if is_sure or not _have_another_size(disk, folder, file_bytes, record_bytes):
            _extend_last(disk, folder, file_bytes, record_bytes)
        try:
            log = CommitLog.load(disk, folder, file_bytes, least_bytes=record_bytes, key=key)
        except CorruptLog:
            for base in segment_bases(disk, folder):  # what else lies there is somebody else's
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
        """What `load` would leave, to read from alone: of a last file that is too short the rest
        cannot be read yet. Args, Raises: as `load`.
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
        """The files that begin at `bases` as they lie there, to read from alone."""
        log = CommitLog.look(disk, folder, file_bytes, bases)
        reader = LogReader(disk, folder, file_bytes)
        return cls(log=log, record_bytes=record_bytes, disk=disk, reader=reader)

    @property
    def next_index(self) -> int:
        """The index after the last record; after `load`, where the files end."""
        return self.log.written_bytes // self.record_bytes

    def covers(self, index: int) -> bool:
        """Whether a file for this record is there."""
        return self.log.min_bytes <= index * self.record_bytes < self.log.written_bytes

    def reserve(self, records: bytes) -> None:
        """Have room for these. Raises: as `CommitLog.reserve`."""
        self.log.reserve(self.log.written_bytes + len(records))

    def append(self, records: bytes) -> None:
        """Raises: as `CommitLog.append`."""
        self.log.append(records)

    def read(self, index: int, count: int) -> bytes:
        """The records of so many entries from `index` on; fewer where the files end."""
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
        """Set where the records end; all after them is zeros."""
        self.log.set_end(index * self.record_bytes)

    def cut(self, index: int) -> None:
        """Make all from `index` on zeros, and sync that.

        Args:
            index: one of those that have a record, or the next; or one below all of them, so that
                none remains.

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
        """Delete all; the next record is that of `index`. Raises: OSError."""
        self._reader.close()
        self.log.restart_at(index * self.record_bytes)

    def drop_below(self, index: int) -> None:
        """Delete the files that hold only records below `index`. Raises: OSError."""
        while (bases := self.log.bases())[1:] and bases[1] <= index * self.record_bytes:
            self.log.delete_first()
        self._reader.drop_below(self.log.min_bytes)

    def has_gap(self, index: int, end_index: int) -> Generator[None, None, bool]:
        """Whether one of these records is zeros, of the last LOOKED_BYTES of them: a file was cut
        short, or a page of it lost. No record has so many zeros in a row. Yields every 4 MiB.
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
        """Whether there is anything but zeros from `index` on. Yields every 4 MiB."""
        return (
            yield from truncation.has_bytes_behind(self._disk, self.log, index * self.record_bytes)
        )

    def close(self, *, remove_spare: bool) -> None:
        self._reader.close()
        self.log.close(remove_spare=remove_spare)


def has_file_of(disk: Disk, folder: str, file_bytes: int) -> bool:
    """Whether one of the files is of that size."""
    return file_bytes in _sizes(disk, folder)


def _have_another_size(disk: Disk, folder: str, file_bytes: int, record_bytes: int) -> bool:
    """Whether all have one size that is not this one, and that files may have."""
    sizes = _sizes(disk, folder)
    alike = len(set(sizes)) == 1
    return alike and sizes[0] != file_bytes and sizes[0] % record_bytes == 0


def _sizes(disk: Disk, folder: str) -> list[int]:
    bases = segment_bases(disk, folder)
    return [disk.stat(segment_path(folder, base)).size_bytes for base in bases]


def _extend_last(disk: Disk, folder: str, file_bytes: int, record_bytes: int) -> None:
    """A crash in the middle of a cut has left the last file short: what is missing is zeros.

    So is a record of which a part is missing: `has_gap` knows no other sign of it.
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
    """A file of sums holds as many records as one of the index."""
    return index_file_bytes // INDEX_BYTES * SUM_BYTES


def sums_of(data: bytes, heads: Sequence[EntryHead]) -> bytes:
    """The records of the entries that these heads found in `data`."""
    return sums_at(data, [(head.at, head.at + head.size) for head in heads])


def sums_at(data: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
    """The checksum records of the entries at these positions in `data`."""
    view = memoryview(data)
    crcs = [crc32(view[start:end]) for start, end in spans]
    return b"".join([SUM_RECORD.pack(crc, crc ^ CHECK_MASK) for crc in crcs])


def all_known(records: bytes) -> bool:
    """Whether each of these records is whole."""
    return all(check == crc ^ CHECK_MASK for crc, check in SUM_RECORD.iter_unpack(records))


def contradicted(known: bytes, wanted: bytes) -> list[int]:
    """The numbers of the records in `wanted` that differ from the known ones.

    Args:
        known: as many records, or fewer.
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
    """The records of `count` entries from `index` on, from the files; zeros if they have none."""
    below = min(max(-(-files.log.min_bytes // SUM_BYTES) - index, 0), count)
    found = files.read(index + below, count - below) if count > below else b""
    return (bytes(below * SUM_BYTES) + found).ljust(count * SUM_BYTES, b"\0")
