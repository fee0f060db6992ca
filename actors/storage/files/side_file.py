"""A few 64-bit numbers that survive a torn write: two slots, written in turn, the newest whole one
counts.

Upstream has nothing like it. Used for `synced` (the synced mark) and `dispatched` (how far the
derived files reach); both lie in the store root, where a Java broker neither reads nor removes
them.

Layout of one slot; slot i starts at 512 * i, so that one sector holds one slot:

| Offset | Width | Type | Field | Meaning |
|---|---|---|---|---|
| 0 | 4 | uint | magic | 0x54524C4E |
| 4 | 4 | uint | crc | CRC-32 of all bytes after this field |
| 8 | 8 | ulong | sequence | raised by every write; the larger one is newer |
| 16 | 8 * n | long | values | n is fixed per file |

Size: 2 * 512 bytes, at most 62 values. With up to 60 a seal may follow, which versions of ours that
keep no digests of the log leave as it is, so that it fits no slot that they write:

| Offset | Width | Type | Field | Meaning |
|---|---|---|---|---|
| 500 | 8 | ulong | sequence | of this slot |
| 508 | 4 | uint | crc | CRC-32 of the sequence |
"""

from __future__ import annotations

import struct
from contextlib import closing

import attrs

from actors.env.protocols import Disk, File
from actors.storage.files.room import NoRoom, needing_room
from actors.storage.files.whole_files import sync_folder_of
from wire.crc import crc32

SLOT_BYTES = 512
SLOT_COUNT = 2
MAGIC = 0x54524C4E
SEAL_AT = 500
VALUES_MAX = (SLOT_BYTES - 16) // 8
NEVER_WRITTEN = 0
"""The sequence of a new file's first slot; its values mean nothing."""
SEQUENCE_MAX = 1 << 62
"""Nobody writes so often; behind a larger one there would soon be no next."""


class SideFileDamaged(Exception):
    """Neither slot can be read, though the file is there: no crash leaves an empty one."""


@attrs.define
class SideFile:
    """An open side file, with a single owner.

    Attributes:
        is_sealed: the newest values were written with a seal; what is written from now on is, or is
            not, as this says.
    """

    path: str
    _file: File
    _layout: struct.Struct
    _sequence: int
    is_sealed: bool = attrs.field(default=False, init=False)

    @classmethod
    def open(
        cls, disk: Disk, path: str, count: int, *, older: int | None = None
    ) -> tuple[SideFile, tuple[int, ...] | None]:
        """Open or create. Returns: the file and its newest values (None: it is new or was never
        written).

        Args:
            older: so many values an earlier version has written, which are taken, too.

        Raises: SideFileDamaged. Effects: a new file, and its name, are synced.
        """
        assert 0 < count <= VALUES_MAX
        layout = struct.Struct(f">Q{count}q")
        if not disk.exists(path):
            _create(disk, path, layout, count)
        file = disk.open(path, "w")
        try:
            newest = _newest(file, count, older)
        except SideFileDamaged:
            file.close()
            raise
        if newest[0] == NEVER_WRITTEN:
            return cls(path=path, file=file, layout=layout, sequence=0), None
        sequence, *values = newest
        side = cls(path=path, file=file, layout=layout, sequence=sequence)
        side.is_sealed = side._reads_sealed()
        return side, tuple(values)

    def write(self, values: tuple[int, ...]) -> None:
        """Write to the older slot. Not synced: `sync`, or a Syncer that is given `path`.

        Raises: NoRoom, on a file system that never writes in place: the newer slot is as it was.
            Another OSError.
        """
        sequence = self._sequence + 1
        with needing_room():
            raw = _encode(self._layout, sequence, values)
            if self.is_sealed:
                raw = raw.ljust(SEAL_AT, b"\0") + _seal(sequence)
            assert len(raw) <= SLOT_BYTES
            self._file.pwrite(raw, SLOT_BYTES * (sequence % SLOT_COUNT))
        self._sequence = sequence

    def note(self, values: tuple[int, ...]) -> bool:
        """As `write`, of what may stay older. False: there is no room."""
        try:
            self.write(values)
        except NoRoom:
            return False
        return True

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()

    def _reads_sealed(self) -> bool:
        seal = _seal(self._sequence)
        return (
            self._file.pread(self._sequence % SLOT_COUNT * SLOT_BYTES + SEAL_AT, len(seal)) == seal
        )


def read_side_file(
    disk: Disk, path: str, count: int, *, older: int | None = None
) -> tuple[int, ...] | None:
    """The newest values, changing nothing; None: there is no file, or it was never written.

    Args:
        older: as of `SideFile.open`.

    Raises: SideFileDamaged. While the owner writes, one of its two slots is always whole.
    """
    if not disk.exists(path):
        return None
    with closing(disk.open(path, "r")) as file:
        newest = _newest(file, count, older)
    return None if newest[0] == NEVER_WRITTEN else newest[1:]


def write_side_file(disk: Disk, path: str, values: tuple[int, ...]) -> None:
    """Have the values on the disk when this returns, in a file that nobody has open.

    Raises: as `SideFile.open` and `SideFile.write`.
    """
    with closing(SideFile.open(disk, path, len(values))[0]) as side:
        side.write(values)
        side.sync()


def lower_side_file(disk: Disk, path: str, value: int) -> None:
    """The same of one that has a single value, if it is there and says more."""
    found = read_side_file(disk, path, 1)
    if found is not None and found[0] > value:
        write_side_file(disk, path, (value,))


def _create(disk: Disk, path: str, layout: struct.Struct, count: int) -> None:
    """With one whole slot, and under another name until that is synced: a first write that breaks
    off leaves a file that was never written, and neither that nor a full disk one that nobody can
    read.
    """
    temporary = f"{path}.tmp"
    if disk.exists(temporary):
        disk.unlink(temporary)
    with needing_room():
        with closing(disk.open(temporary, "x")) as file:
            file.resize(SLOT_BYTES * SLOT_COUNT)
            file.pwrite(_encode(layout, NEVER_WRITTEN, (0,) * count), 0)
            file.sync()
        disk.rename(temporary, path)
    sync_folder_of(disk, path)


def _encode(layout: struct.Struct, sequence: int, values: tuple[int, ...]) -> bytes:
    body = layout.pack(sequence, *values)
    return struct.pack(">II", MAGIC, crc32(body)) + body


def _seal(sequence: int) -> bytes:
    raw = struct.pack(">Q", sequence)
    return raw + struct.pack(">I", crc32(raw))


def _newest(file: File, count: int, older: int | None) -> tuple[int, ...]:
    """(sequence, *values) of the newest whole slot. Raises: SideFileDamaged."""
    raw = file.pread(0, SLOT_BYTES * SLOT_COUNT)
    layouts = [struct.Struct(f">Q{one}q") for one in (count, older) if one is not None]
    slots = [
        _decode(layout, raw[i * SLOT_BYTES : (i + 1) * SLOT_BYTES])
        for i in range(SLOT_COUNT)
        for layout in layouts
    ]
    whole = [slot for slot in slots if slot is not None]
    if not whole:
        raise SideFileDamaged(file.path)
    return max(whole)


def _decode(layout: struct.Struct, raw: bytes) -> tuple[int, ...] | None:
    """(sequence, *values) of a whole slot, else None."""
    if len(raw) < 8 + layout.size:
        return None
    magic, crc = struct.unpack_from(">II", raw)
    body = raw[8 : 8 + layout.size]
    if magic != MAGIC or crc32(body) != crc:
        return None
    sequence, *values = layout.unpack(body)
    return (sequence, *values) if sequence <= SEQUENCE_MAX else None
