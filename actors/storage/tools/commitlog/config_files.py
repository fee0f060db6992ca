"""Copies a broker's metadata into a backup and out of it: the plain files in `config/`, and
`settings.json` with what operators have changed.

What they hold does not matter here, and a file that is replaced meanwhile is copied as it was
before or as it is after that. Left out is what an interrupted write has left (`.tmp`), and what
could not be read and was set aside (`.damaged`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import TypeAlias

from actors.env.path_kinds import is_file
from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.files.stepping import Step, Work
from actors.storage.files.whole_files import write_synced
from actors.storage.layout import StoreLayout
from actors.storage.tools.copying import BackedUpConfig, BackedUpGroup
from wire.crc import crc32

_LEFT_OUT = (".tmp", ".damaged")


Files: TypeAlias = tuple[tuple[BackedUpConfig, ...], BackedUpConfig | None]
"""The copied files of `config/`, and the copy of `settings.json`, if there is one."""


def copy_config(disk: Disk, name: str, source: StoreLayout, target: StoreLayout) -> Work[Files]:
    """Copy the files of a store, which need not exist, and remove from the copy what it lacks.

    Args:
        name: of the group, for people.

    Raises: OSError.
    """
    copied: list[BackedUpConfig] = []
    for file in _names(disk, source.config):
        with suppress(FileNotFoundError):  # it is being replaced, and its backup comes next
            disk.mkdir(target.config)
            copied.append(_copy(disk, f"{source.config}/{file}", f"{target.config}/{file}"))
        yield Step(f"{name}: config", len(copied), 0)
    _remove_others(disk, target.config, copied)
    settings = None
    if is_file(disk, source.settings):
        disk.mkdir(target.root)
        settings = _copy(disk, source.settings, target.settings)
    elif disk.exists(target.settings):
        disk.unlink(target.settings)
        disk.sync_dir(target.root)
    return tuple(copied), settings


def _copy(disk: Disk, source: str, target: str) -> BackedUpConfig:
    data = _read(disk, source)
    write_synced(disk, target, data)
    name = source.rpartition("/")[2]
    return BackedUpConfig(name=name, size_bytes=len(data), crc32=crc32(data))


def restore_config(
    disk: Disk, group: BackedUpGroup, source: StoreLayout, target: StoreLayout
) -> Work[None]:
    """Make the files of a store from a group's copy.

    Raises: CorruptLog: the copy is not what its manifest says. OSError.
    """
    for each in group.config:
        data = _checked(disk, f"{source.config}/{each.name}", each)
        disk.mkdir(target.config)
        write_synced(disk, f"{target.config}/{each.name}", data)
        yield Step(f"{group.name}: config", 0, 0)
    _remove_others(disk, target.config, group.config)
    if group.settings is not None:
        write_synced(disk, target.settings, _checked(disk, source.settings, group.settings))
    elif disk.exists(target.settings):
        disk.unlink(target.settings)
        disk.sync_dir(target.root)


def verify_config(disk: Disk, layout: StoreLayout, group: BackedUpGroup) -> Iterator[str]:
    """Yield a line for each file of a backup that is not what the manifest says."""
    files = [(f"{layout.config}/{each.name}", each) for each in group.config]
    if group.settings is not None:
        files.append((layout.settings, group.settings))
    for path, each in files:
        _, wrong = _compared(disk, path, each)
        if wrong:
            yield wrong


def _checked(disk: Disk, path: str, file: BackedUpConfig) -> bytes:
    data, wrong = _compared(disk, path, file)
    if wrong:
        raise CorruptLog(wrong)
    return data


def _compared(disk: Disk, path: str, file: BackedUpConfig) -> tuple[bytes, str]:
    """Return a file's bytes, and what is wrong with them; ""."""
    if "/" in file.name:
        return b"", f"{path}: the manifest names a file outside of its folder"
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
