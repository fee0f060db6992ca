"""Copies a broker's metadata into a backup and out of it: the plain files in `config/`.

What they hold does not matter here, and a file that is replaced meanwhile is copied as it was
before or as it is after that. Left out is what an interrupted write has left (`.tmp`), and what
could not be read and was set aside (`.damaged`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress

from actors.env.path_kinds import is_file
from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.files.stepping import Step, Work
from actors.storage.files.whole_files import write_synced
from actors.storage.tools.copying import BackedUpConfig, BackedUpGroup
from wire.crc import crc32

_LEFT_OUT = (".tmp", ".damaged")


def copy_config(
    disk: Disk, name: str, source: str, target: str
) -> Work[tuple[BackedUpConfig, ...]]:
    """Copy a folder `config/`, which need not exist, and remove from the copy what it lacks.

    Args:
        name: of the group, for people.

    Raises: OSError.
    """
    copied: list[BackedUpConfig] = []
    for file in _names(disk, source):
        with suppress(FileNotFoundError):  # it is being replaced, and its backup comes next
            data = _read(disk, f"{source}/{file}")
            disk.mkdir(target)
            write_synced(disk, f"{target}/{file}", data)
            copied.append(BackedUpConfig(name=file, size_bytes=len(data), crc32=crc32(data)))
        yield Step(f"{name}: config", len(copied), 0)
    _remove_others(disk, target, copied)
    return tuple(copied)


def restore_config(disk: Disk, group: BackedUpGroup, source: str, target: str) -> Work[None]:
    """Make a folder `config/` from a group's copy.

    Raises: CorruptLog: the copy is not what its manifest says. OSError.
    """
    for each in group.config:
        data, wrong = _compared(disk, source, each)
        if wrong:
            raise CorruptLog(wrong)
        disk.mkdir(target)
        write_synced(disk, f"{target}/{each.name}", data)
        yield Step(f"{group.name}: config", 0, 0)
    _remove_others(disk, target, group.config)


def verify_config(disk: Disk, folder: str, group: BackedUpGroup) -> Iterator[str]:
    """Yield a line for each file of a backup that is not what the manifest says."""
    for each in group.config:
        _, wrong = _compared(disk, folder, each)
        if wrong:
            yield wrong


def _compared(disk: Disk, folder: str, file: BackedUpConfig) -> tuple[bytes, str]:
    """Return a file's bytes, and what is wrong with them; ""."""
    path = f"{folder}/{file.name}"
    if "/" in file.name:
        return b"", f"{path}: the manifest names a file outside of {folder}"
    if not disk.exists(path):
        return b"", f"{path}: the file is missing"
    data = _read(disk, path)
    found = crc32(data)
    same = (len(data), found) == (file.size_bytes, file.crc32)
    expected = f"CRC-32 {file.crc32:08x} of {file.size_bytes} bytes"
    return data, "" if same else f"{path}: expected {expected}, found {found:08x} of {len(data)}"


def _names(disk: Disk, folder: str) -> list[str]:
    """The files to be copied, sorted, so that a backup follows its file."""
    if not disk.exists(folder):
        return []
    return [
        name
        for name in disk.listdir(folder)
        if not name.endswith(_LEFT_OUT) and is_file(disk, f"{folder}/{name}")
    ]


def _read(disk: Disk, path: str) -> bytes:
    with closing(disk.open(path, "r")) as file:
        return file.pread(0, file.size_bytes)


def _remove_others(disk: Disk, folder: str, kept: Sequence[BackedUpConfig]) -> None:
    """Remove what an interrupted run has left."""
    names = {each.name for each in kept}
    for name in disk.listdir(folder) if disk.exists(folder) else ():
        if name not in names:
            disk.unlink(f"{folder}/{name}")
    if disk.exists(folder):
        disk.sync_dir(folder)
