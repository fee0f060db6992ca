"""Files from one folder to another, wherever either lies: on another disk they are copied.

A folder of a store may be a link, or a mount, so what is moved is what lies in it, never the folder
itself: the link would go elsewhere, a mount cannot be moved. Between two mounts, even of one file
system, nothing can be renamed (EXDEV): then a file is copied, its copy synced, and only then
removed.
"""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import closing

from actors.env.protocols import Disk
from actors.storage.files.path_kinds import is_folder
from actors.storage.log.truncation import written_chunks

PROBE = ".moving"
"""An empty file, for a moment; one that a crash left is no file of ours by its name."""


def may_rename(disk: Disk, source: str, target: str) -> bool:
    """Whether a file gets from one folder to the other by a new name. Tried with an empty one.

    Raises: OSError: nothing can be made in one of them; nothing was changed then.
    """
    probes = (f"{source}/{PROBE}", f"{target}/{PROBE}")
    _remove(disk, probes)
    disk.open(probes[0], "x").close()
    try:
        disk.rename(*probes)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        disk.open(probes[1], "x").close()  # what may not be written to is told here
        return False
    finally:
        _remove(disk, probes)
    return True


def _remove(disk: Disk, paths: tuple[str, ...]) -> None:
    for path in paths:
        if disk.exists(path):
            disk.unlink(path)


def copy_into(disk: Disk, source: str, folder: str) -> Generator[None, None, None]:
    """Copy a file, or a folder with all in it, into a folder; synced but for that folder's names.

    Yields at least every 4 MiB. Raises: OSError: part of the copy may be there.
    """
    target = f"{folder}/{source.rpartition('/')[2]}"
    if not is_folder(disk, source):
        yield from _copy_file(disk, source, target)
        return
    disk.mkdir(target)
    for name in disk.listdir(source):
        yield from copy_into(disk, f"{source}/{name}", target)
    disk.sync_dir(target)


def _copy_file(disk: Disk, source: str, target: str) -> Generator[None, None, None]:
    with closing(disk.open(source, "r")) as file:
        with closing(disk.open(target, "x")) as copy:
            size = file.size_bytes
            for at, length in written_chunks(file, 0, size):
                copy.pwrite(file.pread(at, length), at)
                yield
            copy.resize(size)
            copy.sync()
    yield


def remove(disk: Disk, path: str) -> None:
    """Remove a file, or a folder with all in it."""
    if is_folder(disk, path):
        disk.rmtree(path)
    else:
        disk.unlink(path)
