"""The two small files that Java reads: `checkpoint` and `abort`.

Upstream: apache/rocketmq store/.../StoreCheckpoint.java, DefaultMessageStore.createTempFile and
deleteFile (5.3.3). The abort file exists while a store runs; found at a start it says that the last
stop was none. Its content is the process id in 5.x; ours is the node's name, which says more.
"""

from __future__ import annotations

import attrs

from actors.env.protocols import Disk, File
from actors.storage.files.replacing import spare_path
from actors.storage.files.room import NO_ROOM_CODES
from wire.errors import RemoteProtocolError
from wire.files.checkpoint import CHECKPOINT_BYTES
from wire.files.commit_log import Checkpoint, decode_checkpoint, encode_checkpoint


def read_checkpoint(disk: Disk, path: str) -> Checkpoint:
    """What the file says; all zero if there is none or it cannot be read: then more is scanned."""
    if not disk.exists(path):
        return Checkpoint()
    file = disk.open(path, "r")
    try:
        return decode_checkpoint(file.pread(0, CHECKPOINT_BYTES))
    except RemoteProtocolError:
        return Checkpoint()
    finally:
        file.close()


def write_checkpoint(disk: Disk, path: str, checkpoint: Checkpoint) -> None:
    """Replace the content. Not synced: its times are hints that may be old, never too new."""
    file = disk.open(path, "w" if disk.exists(path) else "x")
    try:
        file.pwrite(encode_checkpoint(checkpoint), 0)
    finally:
        file.close()


def lower_logics_offset(disk: Disk, path: str, offset_bytes: int) -> None:
    """Before the log, or what derives from it, is cut there: no broker may believe that the queues
    reach further, and go on behind a hole. Synced; after a failure it may be done again.
    """
    checkpoint = read_checkpoint(disk, path)
    if checkpoint.logics_offset >= offset_bytes and disk.exists(path):
        write_checkpoint(disk, path, attrs.evolve(checkpoint, logics_offset=offset_bytes))
        file = disk.open(path, "w")
        try:
            file.sync()
        finally:
            file.close()


def create_abort(disk: Disk, path: str, content: str) -> None:
    """Say that the store runs. Synced, name and all; harmless if it is there already.

    The file of an earlier run is used, if `remove_abort` has kept it: a full disk takes no other.
    """
    if disk.exists(path):
        return
    spare = spare_path(path)
    if disk.exists(spare):
        disk.rename(spare, path)
    else:
        file = disk.open(path, "x")
        try:
            file.pwrite(content.encode(), 0)
            file.sync()
        finally:
            file.close()
    disk.sync_dir(path.rpartition("/")[0])


def remove_abort(disk: Disk, path: str) -> None:
    """Say that the store has stopped with nothing left to do. The file stays under another name,
    for the next start, which may find a disk that somebody else has filled. Where not even a change
    of names finds room nothing is said, and the next start looks at more.
    """
    try:
        disk.rename(path, spare_path(path))
    except OSError as error:
        if error.errno not in NO_ROOM_CODES:
            raise
        return
    disk.sync_dir(path.rpartition("/")[0])


def create_sized(disk: Disk, path: str, size_bytes: int, *, sync: bool = True) -> File:
    """A new file of zeros, its size and name synced if `sync` is true.

    Raises: OSError, and leaves no file.
    """
    file = disk.open(path, "x")
    try:
        file.resize(size_bytes)
        if sync:
            file.sync()
            disk.sync_dir(path.rpartition("/")[0])
    except OSError:
        file.close()
        disk.unlink(path)
        raise
    return file
