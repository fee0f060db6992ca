"""Small files that are replaced as a whole, on a full disk too: identity, term, checkpoint.

The new content goes into a spare file beside the old one, `NAME.spare`, and the two change names in
one step. So the old file is the next spare: its blocks and its inode are the reserve that the next
content is written into, and a disk that somebody else has filled takes it all the same.

The spare says nothing; no reader looks at it. What was in it is overwritten, so the folder is
synced before the old file is used again: a power loss must not give its name back to it.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import Final

from actors.env.protocols import Disk
from actors.storage.room import needing_room

BLOCK_BYTES: Final = 4096
"""Of most file systems. A spare has at least one."""
SPARE_FACTOR: Final = 2
"""A spare has room for content that has grown as much."""
_NO_EXCHANGE: Final = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def spare_path(path: str) -> str:
    """Where the reserve for a file lies."""
    return f"{path}.spare"


def settle_spares(disk: Disk, folder: str) -> None:
    """Before the first replacement of a process: which file bears which name is on the disk.

    An earlier process may have failed between a change of names and the sync of the folder.
    """
    disk.sync_dir(folder)


def replace_file(disk: Disk, path: str, data: bytes) -> None:
    """Have the content on the disk when this returns, the old one or the new one at any time.

    Effects order: spare written and synced, names changed, folder synced; then a new spare, if
    there is room for one.

    Raises: NoRoom: the old content stays. Another OSError: then it or the new one is there, whole.
    """
    spare = spare_path(path)
    with needing_room():
        _write(disk, spare, data)
        if disk.exists(path):
            _exchange(disk, spare, path)
        else:
            disk.rename(spare, path)
    disk.sync_dir(path.rpartition("/")[0])
    keep_spare(disk, path, len(data))


def keep_spare(disk: Disk, path: str, size_bytes: int) -> None:
    """Have room for the next content. Without, the next replacement looks for it."""
    spare = spare_path(path)
    blocks = -(-size_bytes * SPARE_FACTOR // BLOCK_BYTES)
    with suppress(OSError):
        file = disk.open(spare, "w" if disk.exists(spare) else "x")
        try:
            file.prepare(0, max(blocks, 1) * BLOCK_BYTES)
        finally:
            file.close()


def _write(disk: Disk, path: str, data: bytes) -> None:
    """The blocks that are there are written into before any is given back."""
    file = disk.open(path, "w" if disk.exists(path) else "x")
    try:
        file.pwrite(data, 0)
        file.resize(len(data))
        file.sync()
    finally:
        file.close()


def _exchange(disk: Disk, spare: str, path: str) -> None:
    """On a file system that cannot, the old file goes, and with it the reserve."""
    try:
        disk.exchange(spare, path)
    except OSError as error:
        if error.errno not in _NO_EXCHANGE:
            raise
        disk.rename(spare, path)
