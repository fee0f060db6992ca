"""The two small files that Java reads, `checkpoint` and `abort`, and what a third one says of
deleted topics.

Upstream: apache/rocketmq store/.../StoreCheckpoint.java, DefaultMessageStore.createTempFile and
deleteFile (5.3.3). The abort file exists while a store is in use; if a start finds it, the last
stop was not ordered. Its content is the process id in 5.x, and the node's name in ours.
"""

from __future__ import annotations

from contextlib import closing
from typing import Final

import attrs

from actors.env.protocols import Disk
from actors.errors import NO_ROOM_CODES
from actors.storage.files.replacing import spare_path
from actors.storage.files.whole_files import read_bytes, sync_file, sync_folder_of, write_new
from wire.broker.topics import DELETED_KEY, TOPIC_TABLE, deleted_topics
from wire.errors import RemoteProtocolError
from wire.files.checkpoint import CHECKPOINT_BYTES
from wire.files.commit_log import Checkpoint, decode_checkpoint, encode_checkpoint

TOPICS_BYTES_MAX: Final = 256 << 20
"""As `config_folder` reads of it."""


def read_checkpoint(disk: Disk, path: str) -> Checkpoint:
    """Read the checkpoint; all zero if there is none or it cannot be read: then a start reads more
    of the log.
    """
    if not disk.exists(path):
        return Checkpoint()
    try:
        return decode_checkpoint(read_bytes(disk, path, CHECKPOINT_BYTES))
    except RemoteProtocolError:
        return Checkpoint()


def write_checkpoint(disk: Disk, path: str, checkpoint: Checkpoint) -> None:
    """Replace the content, without a sync: its times are hints, which may be old but not too
    new.
    """
    with closing(disk.open(path, "w" if disk.exists(path) else "x")) as file:
        file.pwrite(encode_checkpoint(checkpoint), 0)


def lower_logics_offset(disk: Disk, path: str, offset_bytes: int) -> None:
    """Lower the checkpoint's logicsPhysicalOffset to `offset_bytes`, and sync that.

    This comes before the derived files are cut there, so that no broker takes the queues to reach
    further and goes on behind a hole. After a failure it may be repeated.
    """
    checkpoint = read_checkpoint(disk, path)
    if checkpoint.logics_offset >= offset_bytes and disk.exists(path):
        write_checkpoint(disk, path, attrs.evolve(checkpoint, logics_offset=offset_bytes))
        sync_file(disk, path)


def lower_offsets(disk: Disk, path: str, end_bytes: int) -> None:
    """Lower the offsets in the checkpoint of a log that is about to be cut, and sync that.

    They are logicsPhysicalOffset, see `lower_logics_offset`, and the confirm offset: it must not
    reach into what another master writes behind the cut. After a failure it may be repeated.
    """
    found = read_checkpoint(disk, path)
    if max(found.logics_offset, found.confirm_offset) >= end_bytes and disk.exists(path):
        logics = min(found.logics_offset, end_bytes)
        confirmed = min(found.confirm_offset, end_bytes)
        lowered = attrs.evolve(found, logics_offset=logics, confirm_offset=confirmed)
        write_checkpoint(disk, path, lowered)
        sync_file(disk, path)


def read_deleted(disk: Disk, path: str) -> dict[str, int]:
    """Read from the file of topics, which `actors.metadata` writes, which of them were deleted, and
    when each was, in ms since 1970; nothing if it cannot be read.
    """
    try:
        data = read_bytes(disk, path, TOPICS_BYTES_MAX) if disk.exists(path) else b""
        return deleted_topics(TOPIC_TABLE.decode(data)) if DELETED_KEY.encode() in data else {}
    except RemoteProtocolError:
        return {}


def create_abort(disk: Disk, path: str, content: str) -> None:
    """Make the abort file: the store is in use. File and name are synced; one that exists stays.

    The file that `remove_abort` has kept is used, because a full disk takes no other.
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
    """Rename the abort file: the store was stopped in order.

    The file is kept under another name for the next start, which may find the disk full. If there
    is no room even for the new name, the abort file stays, and the next start reads more of the
    log.
    """
    try:
        disk.rename(path, spare_path(path))
    except OSError as error:
        if error.errno not in NO_ROOM_CODES:
            raise
        return
    sync_folder_of(disk, path)
