"""A few numbers that survive a torn write, a crash and a full disk."""

import errno
import pathlib
import random
import struct
import zlib

import pytest

from actors.env.local_disk import LocalDisk
from actors.sim.disk import SimDisk
from actors.sim.disk.faults import Operation
from actors.storage.files.side_file import SideFile, SideFileDamaged, read_side_file

pytestmark = pytest.mark.real_io


def test_side_file_survives_a_torn_write(tmp_path: pathlib.Path) -> None:
    disk, path = LocalDisk(), f"{tmp_path}/mark"
    side, values = SideFile.open(disk, path, 2)
    assert values is None
    assert SideFile.open(disk, path, 2)[1] is None  # created, never written
    side.write((1, -1))
    assert SideFile.open(disk, path, 2)[1] == (1, -1)
    for number in range(2, 6):
        side.write((number, -number))
        side.sync()
        assert SideFile.open(disk, path, 2)[1] == (number, -number)
    side.close()
    raw = bytearray(pathlib.Path(path).read_bytes())
    newest = 512 if raw[512 + 8 : 512 + 16] > raw[8:16] else 0
    raw[newest + 20] ^= 1
    pathlib.Path(path).write_bytes(raw)
    side, values = SideFile.open(disk, path, 2)
    assert values == (4, -4)
    side.write((6, -6))  # over the broken one
    assert SideFile.open(disk, path, 2)[1] == (6, -6)
    raw = bytearray(pathlib.Path(path).read_bytes())
    raw[20] ^= 1
    raw[532] ^= 1
    pathlib.Path(path).write_bytes(raw)
    with pytest.raises(SideFileDamaged):
        SideFile.open(disk, path, 2)


@pytest.mark.parametrize("kept", [0, 4, 8, 23, 24])
def test_a_first_write_that_breaks_off_leaves_a_side_file_never_written(
    tmp_path: pathlib.Path, kept: int
) -> None:
    disk, path = LocalDisk(), f"{tmp_path}/mark"
    pathlib.Path(f"{path}.tmp").write_bytes(b"of a creation that was killed")
    side, _ = SideFile.open(disk, path, 1)
    side.write((7,))
    side.close()
    raw = pathlib.Path(path).read_bytes()
    pathlib.Path(path).write_bytes(raw[: 512 + kept] + bytes(512 - kept))
    wanted = (7,) if kept == 24 else None
    assert read_side_file(disk, path, 1) == wanted
    side, values = SideFile.open(disk, path, 1)
    assert values == wanted
    side.write((8,))
    side.close()
    assert read_side_file(disk, path, 1) == (8,)
    assert [each.name for each in tmp_path.iterdir()] == ["mark"]


@pytest.mark.parametrize("content", [b"", bytes(1024)])
def test_an_empty_side_file_is_damaged(tmp_path: pathlib.Path, content: bytes) -> None:
    """It gets its name once it is whole on the disk: no crash and no full disk leaves one."""
    disk, path = LocalDisk(), tmp_path / "mark"
    path.write_bytes(content)
    for read in (SideFile.open, read_side_file):
        with pytest.raises(SideFileDamaged):
            read(disk, str(path), 2)
    assert path.read_bytes() == content


def test_without_room_there_is_no_side_file() -> None:
    disk = SimDisk(random.Random(0))
    disk.mkdir("/store")
    operations: tuple[Operation, ...] = ("create", "write", "sync", "rename")
    for operation in operations:
        disk.faults.fail(operation, errno.ENOSPC)
        with pytest.raises(OSError, match="No space"):
            SideFile.open(disk, "/store/mark", 1)
        disk.faults.clear()
        assert not disk.exists("/store/mark")
        assert read_side_file(disk, "/store/mark", 1) is None
    SideFile.open(disk, "/store/mark", 1)[0].close()


def test_a_side_file_whose_sequence_has_no_next_is_damaged(tmp_path: pathlib.Path) -> None:
    disk, path = LocalDisk(), f"{tmp_path}/mark"
    body = struct.pack(">Qqq", 2**64 - 1, 1, -1)
    slot = struct.pack(">II", 0x54524C4E, zlib.crc32(body)) + body
    pathlib.Path(path).write_bytes(slot.ljust(1024, b"\0"))
    with pytest.raises(SideFileDamaged):
        SideFile.open(disk, path, 2)


def test_a_side_file_of_an_earlier_version_goes_on(tmp_path: pathlib.Path) -> None:
    """Its slots are overwritten in turn; until then the newest counts, of whichever version."""
    disk, path = LocalDisk(), f"{tmp_path}/mark"
    old, _ = SideFile.open(disk, path, 2)
    old.write((1, 2))
    old.write((3, 4))
    old.close()
    with pytest.raises(SideFileDamaged):
        SideFile.open(disk, path, 3)
    side, values = SideFile.open(disk, path, 3, older=2)
    assert values == read_side_file(disk, path, 3, older=2) == (3, 4)
    for number in range(3):
        side.write((5, 6, number))
        assert read_side_file(disk, path, 3, older=2) == (5, 6, number)
    side.close()
    assert SideFile.open(disk, path, 3)[1] == (5, 6, 2)


def test_a_seal_fits_no_slot_that_was_written_without_one() -> None:
    """As older versions write: the values alone, whatever lies behind them."""
    disk, path = SimDisk(random.Random(0)), "/d/mark"
    disk.mkdir("/d")
    side, _ = SideFile.open(disk, path, 1)
    assert not side.is_sealed
    side.is_sealed = True
    for value in (1, 2, 3):
        side.write((value,))
        again, values = SideFile.open(disk, path, 1)
        assert (again.is_sealed, values) == (True, (value,))
    again.is_sealed = False
    again.write((4,))
    older, values = SideFile.open(disk, path, 1)
    assert (older.is_sealed, values) == (False, (4,))
    older.write((5,))  # who only reads and lowers it leaves that as it is
    assert not SideFile.open(disk, path, 1)[0].is_sealed
