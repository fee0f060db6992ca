"""What is asked of a file system itself: how full it is, and that two files change names."""

from __future__ import annotations

import ctypes
import errno
import os

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # of linux/fs.h
_renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def exchange(one: str, other: str) -> None:
    """By renameat2, which glibc has since 2.28; ext4, XFS, Btrfs and tmpfs can."""
    if _renameat2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), one)
    paths = os.fsencode(one), os.fsencode(other)
    if _renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), one, None, other)


def usage(path: str) -> float:
    """As `Disk.usage`."""
    status = _of(path)
    used = status.f_blocks - status.f_bfree
    total = used + status.f_bavail  # what a user may fill, as `df` counts
    return used / total if total else 1.0


def free_files(path: str) -> int | None:
    """As `Disk.free_files`. Some file systems, as Btrfs, make inodes as they need them."""
    status = _of(path)
    return status.f_favail if status.f_files else None


def _of(path: str) -> os.statvfs_result:
    """Of a file or folder that is there or to come."""
    folder = path
    while not os.path.exists(folder):  # ends at the root, which exists
        folder = os.path.dirname(folder)
    return os.statvfs(folder)
