"""Files that are read or made as a whole, and what it takes to have one on the disk."""

from __future__ import annotations

from contextlib import closing

from actors.env.protocols import Disk, File


def read_bytes(disk: Disk, path: str, bytes_max: int) -> bytes:
    """What a file begins with: all of it, if it is no longer. Raises: OSError."""
    with closing(disk.open(path, "r")) as file:
        return file.pread(0, bytes_max)


def sync_file(disk: Disk, path: str) -> None:
    """Have all bytes of one file on the disk. Raises: OSError."""
    with closing(disk.open(path, "w")) as file:
        file.sync()


def sync_folder_of(disk: Disk, path: str) -> None:
    """Have the name of a file, or that it is gone, on the disk. Raises: OSError."""
    disk.sync_dir(path.rpartition("/")[0])


def write_new(disk: Disk, path: str, data: bytes) -> None:
    """A file that was not there, synced, but for its name. Raises: OSError."""
    with closing(disk.open(path, "x")) as file:
        file.pwrite(data, 0)
        file.sync()


def write_synced(disk: Disk, path: str, data: bytes) -> None:
    """A small file, whole or not at all: temporary file, sync, rename, folder sync."""
    temporary = f"{path}.tmp"
    if disk.exists(temporary):
        disk.unlink(temporary)
    write_new(disk, temporary, data)
    disk.rename(temporary, path)
    sync_folder_of(disk, path)


def create_sized(disk: Disk, path: str, size_bytes: int, *, sync: bool = True) -> File:
    """A new file of zeros, its size and name synced if `sync` is true.

    Raises: OSError, and leaves no file.
    """
    file = disk.open(path, "x")
    try:
        file.resize(size_bytes)
        if sync:
            file.sync()
            sync_folder_of(disk, path)
    except OSError:
        file.close()
        disk.unlink(path)
        raise
    return file
