"""The two small files that Java reads: `checkpoint` and `abort`.

Upstream: apache/rocketmq store/.../StoreCheckpoint.java, DefaultMessageStore.createTempFile and
deleteFile (5.3.3). The abort file exists while a store runs; found at a start it says that the last
stop was none. Its content is the process id in 5.x; ours is the node's name, which says more.
"""

from __future__ import annotations

from contextlib import closing

import attrs

from actors.env.protocols import Disk
from actors.errors import NO_ROOM_CODES
from actors.storage.files.replacing import spare_path
from actors.storage.files.whole_files import read_bytes, sync_file, sync_folder_of, write_new
from wire.errors import RemoteProtocolError
from wire.files.checkpoint import CHECKPOINT_BYTES
from wire.files.commit_log import Checkpoint, decode_checkpoint, encode_checkpoint


def read_checkpoint(disk: Disk, path: str) -> Checkpoint:
    """What the file says; all zero if there is none or it cannot be read: then more is scanned."""
    if not disk.exists(path):
        return Checkpoint()
    try:
        return decode_checkpoint(read_bytes(disk, path, CHECKPOINT_BYTES))
    except RemoteProtocolError:
        return Checkpoint()


def write_checkpoint(disk: Disk, path: str, checkpoint: Checkpoint) -> None:
    """Replace the content. Not synced: its times are hints that may be old, never too new."""
    with closing(disk.open(path, "w" if disk.exists(path) else "x")) as file:
        file.pwrite(encode_checkpoint(checkpoint), 0)


def lower_logics_offset(disk: Disk, path: str, offset_bytes: int) -> None:
    """Before the log, or what derives from it, is cut there: no broker may believe that the queues
    reach further, and go on behind a hole. Synced; after a failure it may be done again.
    """
    checkpoint = read_checkpoint(disk, path)
    if checkpoint.logics_offset >= offset_bytes and disk.exists(path):
        write_checkpoint(disk, path, attrs.evolve(checkpoint, logics_offset=offset_bytes))
        sync_file(disk, path)


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
        write_new(disk, path, content.encode())
    sync_folder_of(disk, path)


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
    sync_folder_of(disk, path)
