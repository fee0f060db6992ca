"""The files of a consume queue, as a start finds them: which queues there are, and where each ends.

Upstream: apache/rocketmq store/.../ConsumeQueue.java `recover`, queue/ConsumeQueueStore.java `load`
(5.3.3). What differs is said in `consume_queue`, which writes them.
"""

from __future__ import annotations

import attrs

from actors.env.protocols import Disk
from actors.storage.path_kinds import check_kinds, names_in
from wire.commitlog import segment_name, segment_offset
from wire.consume_queue import UNIT_BYTES, decode_unit, decode_units, is_filler, is_used

FILES_RECOVERED = 3
"""Recovery looks at the last so many files of a queue. Upstream: ConsumeQueue.recover."""


@attrs.define
class Queue:
    """One queue's files and ends.

    Attributes:
        folder: absolute path, `consumequeue/TOPIC/QUEUE_ID`.
        bases: byte positions at which its files begin, ascending.
        next_bytes: byte position of the next unit.
        end_bytes: end in the log (offset + size) of the newest unit's record; -1 without units.
    """

    folder: str
    bases: list[int]
    next_bytes: int = 0
    end_bytes: int = -1

    @property
    def next_offset(self) -> int:
        """Queue offset of the next record."""
        return self.next_bytes // UNIT_BYTES


def queue_path(folder: str, base: int) -> str:
    """Of the file of a queue that begins at that byte position."""
    return f"{folder}/{segment_name(base)}"


def queue_folder(folder: str, topic: str, queue_id: int) -> str:
    """Of a queue, in the folder of all."""
    return f"{folder}/{topic}/{queue_id}"


def list_queues(disk: Disk, folder: str) -> list[tuple[str, int]]:
    """Topic and queue id of every queue there is, sorted. As upstream, plain files are no topics.

    Raises: ConfigError: a file where a queue has its folder.
    """
    queues = [
        (topic, int(name))
        for topic in disk.listdir(folder)
        for name in names_in(disk, f"{folder}/{topic}")
        if name.isascii() and name.isdigit()
    ]
    check_kinds(disk, folders=(queue_folder(folder, *queue) for queue in queues), files=())
    return queues


def scan_queue(disk: Disk, folder: str, file_bytes: int, below_bytes: int) -> Queue | None:
    """Where a queue ends if only records that begin below `below_bytes` of the log count.

    Reads only. None: a file is damaged, so the queue has to be built anew.
    """
    offsets = (segment_offset(name) for name in disk.listdir(folder))
    bases = [base for base in offsets if base is not None]
    if bases and disk.stat(queue_path(folder, bases[-1])).size_bytes == 0:
        bases.pop()
    for number, base in enumerate(bases):
        size_ok = disk.stat(queue_path(folder, base)).size_bytes == file_bytes
        if not size_ok or base != bases[0] + number * file_bytes or base % file_bytes:
            return None
    queue = Queue(folder=folder, bases=bases, next_bytes=bases[0] if bases else 0)
    first = len(bases) - 1
    while first > 0 and not _begins_below(disk, queue, bases[first], below_bytes):
        first -= 1
    last = first
    first = max(0, first - FILES_RECOVERED + 1)
    for base in bases[first : last + 1]:
        if not _scan_file(disk, queue, base, file_bytes, below_bytes):
            break
    return queue


def _begins_below(disk: Disk, queue: Queue, base: int, below_bytes: int) -> bool:
    file = disk.open(queue_path(queue.folder, base), "r")
    try:
        offset, size, _ = decode_unit(file.pread(0, UNIT_BYTES))
    finally:
        file.close()
    return is_used(offset, size) and offset < below_bytes


def _scan_file(disk: Disk, queue: Queue, base: int, file_bytes: int, below_bytes: int) -> bool:
    """Take the units of one file; whether all of it is in use."""
    file = disk.open(queue_path(queue.folder, base), "r")
    try:
        data = file.pread(0, file_bytes)
    finally:
        file.close()
    count, end = 0, queue.end_bytes
    for offset, size, tags_code in decode_units(data):
        if size <= 0 or offset < 0 or offset >= below_bytes:
            break
        count += 1
        if not is_filler(offset, size, tags_code):
            end = offset + size
    queue.next_bytes, queue.end_bytes = base + count * UNIT_BYTES, end
    return count * UNIT_BYTES == file_bytes
