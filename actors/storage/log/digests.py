"""Digests of a log's ranges: checksums of their bytes as they were written.

A record's CRC covers its body alone. A digest covers every byte of its range, so a bit that flips
later in a record's head, topic or properties is found too, without parsing anything. Upstream has
nothing like it; the folder lies in the store root, and a Java broker leaves it alone.

A segment's ranges are RANGE_BYTES long, counted from its first byte; the last one may be shorter.
Each segment has one file, of the same name. Layout of the entry of range i, at 8 * i:

| Offset | Width | Type | Field | Meaning |
|---|---|---|---|---|
| 0 | 4 | uint | digest | CRC-32 of the range |
| 4 | 4 | uint | guard | CRC-32 of the range's physical offset and of its digest |

An entry whose guard does not fit (zeros, a torn write, rot in this very file) is ignored: the range
is digested anew once its records have been checked. Nothing may rely on an entry being there, so
the files are synced after the log, and a lost one costs work and nothing else. Entries after the
log's end are dropped when the store opens, before anything is written there again.
"""

from __future__ import annotations

import struct
from contextlib import closing, suppress
from typing import Final

import attrs

from actors.env.protocols import Disk, File
from actors.storage.log.commit_log import segment_bases, segment_path
from wire.crc import crc32

RANGE_BYTES: Final = 64 << 10
"""The size of a range in bytes. A range is checked in some 40 us, and mended by copying it whole;
1 GiB of log has 128 KiB of digests.
"""
ENTRY_BYTES: Final = 8
HANDLES_MAX: Final = 4
"""How many files are kept open: the one that is written, one that a slave copies, one that the
scrub reads, and one more.
"""
UNSAVED_MAX: Final = 1 << 16
"""How many digests are kept in memory while their files cannot be written: those of 4 GiB of log,
so at least those of a whole file that was just parsed.
"""
_ENTRY: Final = struct.Struct(">II")
_GUARDED: Final = struct.Struct(">qI")


@attrs.define
class Digests:
    """The digests of one log, owned by one actor.

    Attributes:
        folder: the absolute path of their folder.
        segment_bytes: the size of a file of the log.
        reads_only: whether no file is written or made, so that `put` only keeps digests in memory.
    """

    _disk: Disk
    folder: str
    segment_bytes: int
    reads_only: bool = attrs.field(default=False, kw_only=True)
    _handles: dict[int, File] = attrs.field(factory=dict, init=False)
    _dirty: dict[str, None] = attrs.field(factory=dict, init=False)
    _unsaved: dict[int, int] = attrs.field(factory=dict, init=False)
    _usable: bool = attrs.field(default=True, init=False)

    @classmethod
    def open(
        cls, disk: Disk, folder: str, segment_bytes: int, min_bytes: int, end_bytes: int
    ) -> Digests:
        """Open the digests of a log that has the bytes [min_bytes, end_bytes); drop all others.

        If dropping fails, for instance on a full disk, no file is read, because a digest that was
        not dropped could be one of other bytes.
        """
        digests = cls(disk, folder, segment_bytes)
        try:
            digests._drop_others(min_bytes, end_bytes)
        except OSError:
            digests._usable = False
        return digests

    def _drop_others(self, min_bytes: int, end_bytes: int) -> None:
        disk, folder, size = self._disk, self.folder, self.segment_bytes
        disk.mkdir(folder)
        for base in segment_bases(disk, folder):
            path = segment_path(folder, base)
            whole = disk.stat(path).size_bytes == self._file_bytes
            if not whole or base + size <= min_bytes or base >= end_bytes:
                disk.unlink(path)
            elif base + size > end_bytes:
                try:
                    self._drop_behind(base, end_bytes)
                except OSError:  # a later start would believe what is left
                    disk.unlink(path)
        disk.sync_dir(folder)

    def range_at(self, offset: int) -> tuple[int, int]:
        """Return where the range that holds `offset` begins and ends."""
        base = offset - offset % self.segment_bytes
        start = offset - (offset - base) % RANGE_BYTES
        return start, min(start + RANGE_BYTES, base + self.segment_bytes)

    def get(self, start: int) -> int | None:
        """Return the digest of the range that begins at `start`; None if there is none."""
        return self.known(start, 1)[0]

    def known(self, start: int, count: int) -> list[int | None]:
        """Return the digests of `count` ranges of one file, from the one that begins at `start`."""
        base = start - start % self.segment_bytes
        try:
            file = self._file(base, create=False)
            at, size = (start - base) // RANGE_BYTES * ENTRY_BYTES, count * ENTRY_BYTES
            raw = file.pread(at, size) if file else b""
        except OSError:
            raw = b""
        raw = raw.ljust(count * ENTRY_BYTES, b"\0")
        starts = range(start, start + count * RANGE_BYTES, RANGE_BYTES)
        return [
            self._unsaved.get(position, digest if guard == _guard(position, digest) else None)
            for position, (digest, guard) in zip(starts, _ENTRY.iter_unpack(raw), strict=True)
        ]

    def put(self, start: int, digest: int) -> None:
        """Save the digest of a range; if that fails, keep it in memory for a while."""
        base = start - start % self.segment_bytes
        try:
            file = None if self.reads_only else self._file(base, create=True)
            if file is not None:
                entry = _ENTRY.pack(digest, _guard(start, digest))
                file.pwrite(entry, (start - base) // RANGE_BYTES * ENTRY_BYTES)
                self._dirty[file.path] = None
                self._unsaved.pop(start, None)
                return
        except OSError:
            pass
        self._unsaved[start] = digest
        if len(self._unsaved) > UNSAVED_MAX:
            del self._unsaved[next(iter(self._unsaved))]

    def forget(self, start: int) -> None:
        """Forget the digest of the range that begins at `start`, made of damaged bytes."""
        self._unsaved.pop(start, None)
        base = start - start % self.segment_bytes
        with suppress(OSError):
            file = self._file(base, create=False)
            if file is not None:
                file.pwrite(bytes(ENTRY_BYTES), (start - base) // RANGE_BYTES * ENTRY_BYTES)
                self._dirty[file.path] = None

    def keep(self, start: int) -> None:
        """Make the digest of the range that begins at `start` durable, if there is one.

        What an earlier process wrote may not be durable yet. This is called for damage that was
        found by its digest, because parsing might not find it again. A disk error is ignored.
        """
        base = start - start % self.segment_bytes
        with suppress(OSError):
            file = self._file(base, create=False)
            if file is not None:
                file.sync()
                self._disk.sync_dir(self.folder)

    def save(self) -> None:
        """Try again to write the digests that could not be written."""
        for start, digest in tuple(self._unsaved.items()):
            self.put(start, digest)
            if start in self._unsaved:
                return

    @property
    def is_dirty(self) -> bool:
        """Whether something was written and is not synced, or could not be written."""
        return bool(self._dirty or self._unsaved)

    @property
    def is_unsaved(self) -> bool:
        """Whether something could not be written."""
        return bool(self._unsaved)

    def take_dirty(self) -> tuple[str, ...]:
        """Return the files written since the last call, and the folder if a file was made."""
        paths = tuple(self._dirty)
        self._dirty.clear()
        return paths

    def drop_below(self, min_bytes: int) -> tuple[str, ...]:
        """Delete the files of segments that are gone. Returns: their paths.

        A file that cannot be deleted now will be deleted when the store opens.
        """
        gone = []
        for base in segment_bases(self._disk, self.folder):
            if base + self.segment_bytes > min_bytes:
                break
            if base in self._handles:
                self._handles.pop(base).close()
            path = segment_path(self.folder, base)
            self._dirty.pop(path, None)
            gone.append(path)
            with suppress(OSError):
                self._disk.unlink(path)
        self._unsaved = {at: each for at, each in self._unsaved.items() if at >= min_bytes}
        return tuple(gone)

    def close(self) -> None:
        while self._handles:
            self._handles.popitem()[1].close()

    @property
    def _file_bytes(self) -> int:
        return -(-self.segment_bytes // RANGE_BYTES) * ENTRY_BYTES

    def _file(self, base: int, *, create: bool) -> File | None:
        file = self._handles.get(base)
        if file is not None:
            return file
        path = segment_path(self.folder, base)
        if not self._usable:
            return None
        if self._disk.exists(path):
            file = self._disk.open(path, "r" if self.reads_only else "w")
        elif create:
            file = self._disk.open(path, "x")
            try:
                file.resize(self._file_bytes)
            except OSError:
                file.close()
                raise
            self._dirty[self.folder] = None  # the name, too, has to outlive a loss of power
        else:
            return None
        while len(self._handles) >= HANDLES_MAX:
            self._handles.pop(next(iter(self._handles))).close()
        self._handles[base] = file
        return file

    def _drop_behind(self, base: int, end_bytes: int) -> None:
        """Drop the entries of ranges that do not end below `end_bytes`."""
        with closing(self._disk.open(segment_path(self.folder, base), "w")) as file:
            at = (end_bytes - base) // RANGE_BYTES * ENTRY_BYTES
            file.pwrite(bytes(self._file_bytes - at), at)
            file.sync()


def forget_digests(disk: Disk, folder: str) -> None:
    """Delete all digests, because a version of ours without digests wrote the log last.

    It may have cut the log and written other bytes. So they are made anew, once its records have
    been checked.

    Raises: OSError.
    """
    bases = segment_bases(disk, folder)
    for base in bases:
        disk.unlink(segment_path(folder, base))
    if bases:
        disk.sync_dir(folder)


def digest_of(data: bytes | memoryview, before: int = 0) -> int:
    """Return the CRC-32: 3 GB/s where the system's zlib uses the processor's instructions for it.

    Args:
        before: the digest of the bytes that precede these in their range; 0 if none do.
    """
    return crc32(data, before)


def _guard(start: int, digest: int) -> int:
    return crc32(_GUARDED.pack(start, digest))
