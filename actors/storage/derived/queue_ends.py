"""The file `queue_ends`, in which an ordered stop records the ends of a store's consume queues.

A start searches for the end of each queue, which takes 10 s and more if there are tens of
thousands. After an ordered stop it reads all ends from one table instead. The table is used only
with a proof that nothing has changed since it was written:

- its CRC is right, and it holds the same dispatch state as the side file `dispatched`;
- all of the log was dispatched, and the log has not become longer or shorter since;
- there are the same queues with the same files, and each queue's last file has the size and the
  modification time that it had then. So it is noticed if another program wrote there meanwhile, or
  if a topic, a queue or a file was deleted.

If a queue's last file is as it was but another one is missing, units are lost although the end is
right: that is an error, after which all queues are derived anew.

A start removes the table before it changes anything, so no crash leaves an old one. Without the
table, or without its proof, each queue's end is searched for.

Layout, big-endian:

| Offset | Width | Type | Field | Meaning |
|---|---|---|---|---|
| 0 | 4 | uint | magic | 0x54524C51 |
| 4 | 4 | uint | crc | CRC-32 of all bytes after this field |
| 8 | 8 | ulong | count | of queues |
| 16 | 8 | ulong | file_bytes | size of a queue's files |
| 24 | 8 * n | long | state | the dispatch state, as `dispatched` has it |
| | | | queues | `count` times: 6 longs (queue id, where its first file and its last file |
| | | | | begin, next unit's position, end of the newest record, last change of the last file in |
| | | | | ms), then the topic: 2 bytes of length, UTF-8 |
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Mapping
from contextlib import closing

from actors.env.path_kinds import names_in
from actors.env.protocols import Disk
from actors.storage.derived.dispatch_state import DispatchState
from actors.storage.derived.queue_files import (
    QUEUES_PER_STEP,
    Queue,
    QueueKey,
    queue_folder,
    queue_path,
    walk_queue_names,
)
from actors.storage.files.whole_files import write_new
from actors.storage.layout import StoreLayout
from wire.crc import crc32
from wire.files.commit_log import segment_name, segment_offset

MAGIC = 0x54524C51
_HEAD = struct.Struct(f">IIQQ{DispatchState.FIELDS}q")
_QUEUE = struct.Struct(">6qH")
_STEP = 8 * QUEUES_PER_STEP
"""How many queues are read or written between two turns of other tasks: each takes some 15 us."""


class QueueFilesGone(Exception):
    """Files of a queue were removed, but not its last one."""


def write_queue_ends(
    disk: Disk,
    layout: StoreLayout,
    state: DispatchState,
    file_bytes: int,
    queues: Mapping[QueueKey, Queue],
) -> Generator[None, None, None]:
    """Write the table of queues, each of which has a file.

    Raises: OSError; there is no table then. Yields after every few queues.
    """
    out = bytearray()
    for number, (topic, queue_id) in enumerate(sorted(queues), 1):
        queue, name = queues[topic, queue_id], topic.encode()
        first, last = queue.bases[0], queue.bases[-1]
        changed_ms = disk.stat(queue_path(queue.folder, last)).modified_ms
        ends = (first, last, queue.next_bytes, queue.end_bytes)
        out += _QUEUE.pack(queue_id, *ends, changed_ms, len(name)) + name
        if number % _STEP == 0:
            yield
    head = _HEAD.pack(MAGIC, 0, len(queues), file_bytes, *state.values())[8:]
    raw = head + bytes(out)
    remove_queue_ends(disk, layout)
    try:
        write_new(disk, layout.queue_ends, struct.pack(">II", MAGIC, crc32(raw)) + raw)
    except OSError:
        remove_queue_ends(disk, layout)
        raise
    disk.sync_dir(layout.root)


def remove_queue_ends(disk: Disk, layout: StoreLayout) -> None:
    """Remove the table if there is one, and sync the removal."""
    if disk.exists(layout.queue_ends):
        disk.unlink(layout.queue_ends)
        disk.sync_dir(layout.root)


def read_queue_ends(
    disk: Disk,
    layout: StoreLayout,
    state: DispatchState | None,
    file_bytes: int,
    log_end_bytes: int,
    *,
    ends_only: bool = False,
) -> Generator[None, None, dict[QueueKey, Queue] | None]:
    """Read the queues as the last ordered stop left them; None: there is no table, or no proof.

    Args:
        state: the dispatch state in the side file.
        ends_only: whether the caller needs only the ends: then missing files before a queue's last
            one are not noticed.

    Raises: QueueFilesGone, OSError. Yields after every few queues.
    """
    if state is None or not state.dispatched_bytes == state.seen_bytes == log_end_bytes:
        return None
    raw = _read(disk, layout.queue_ends)
    if len(raw) < _HEAD.size:
        return None
    magic, crc, count, size, *values = _HEAD.unpack_from(raw)
    if (magic, size, tuple(values)) != (MAGIC, file_bytes, state.values()):
        return None
    if crc32(memoryview(raw)[8:]) != crc:
        return None
    found: dict[QueueKey, Queue] = {}
    at = _HEAD.size
    for number in range(count):
        queue_id, first, last, next_bytes, end, changed_ms, length = _QUEUE.unpack_from(raw, at)
        at += _QUEUE.size + length
        key = raw[at - length : at].decode(), queue_id
        folder = queue_folder(layout.consume_queue, *key)
        bases = list(range(first, last + 1, file_bytes))
        if not _ends_as_it_did(disk, queue_path(folder, last), file_bytes, changed_ms):
            return None
        if not ends_only and not _has_its_files(disk, folder, bases):
            return None
        found[key] = Queue(folder=folder, bases=bases, next_bytes=next_bytes, end_bytes=end)
        if number % _STEP == 0:
            yield
    there = yield from walk_queue_names(disk, layout.consume_queue)
    return found if len(there) == len(found) else None  # every queue in `found` exists


def _read(disk: Disk, path: str) -> bytes:
    if not disk.exists(path):
        return b""
    with closing(disk.open(path, "r")) as file:
        return file.pread(0, file.size_bytes)


def _ends_as_it_did(disk: Disk, path: str, file_bytes: int, changed_ms: int) -> bool:
    try:
        status = disk.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return (status.size_bytes, status.modified_ms) == (file_bytes, changed_ms)


def _has_its_files(disk: Disk, folder: str, bases: list[int]) -> bool:
    """Whether a queue has exactly these files.

    Raises: QueueFilesGone: one of them is missing.
    """
    names = names_in(disk, folder)
    if names == [segment_name(base) for base in bases]:
        return True
    there = {segment_offset(name) for name in names} - {None}
    if not there.issuperset(bases):
        raise QueueFilesGone(folder)
    return len(there) == len(bases)
