"""Next queue offsets as the records of a log say them."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.commit_log import CommitLog
from actors.storage.log_reader import LogReader
from actors.storage.queue_files import QueueKey
from actors.storage.queue_units import queue_heads
from wire.commitlog import Stop, scan_heads
from wire.message_record import has_queue_unit

READ_BYTES = 512 << 10
"""A step reads so many bytes, or one record if that is longer. Of records of 200 B they take some
10 ms."""

NextOffsets: TypeAlias = dict[QueueKey, int]
"""Next queue offset of each queue."""


def add_offsets(
    disk: Disk, log: CommitLog, start: int, end: int, offsets: NextOffsets
) -> Generator[None, None, set[QueueKey]]:
    """Raise `offsets` above those of the records from `start` to `end`, where records begin. A
    record with queue offset 0 begins that queue anew, light ones too (`begun_anew`).

    Returns: the queues that such a record is of.

    Raises: CorruptLog. Yields at least every 512 KiB, or record.
    """
    reader = LogReader(disk, log.folder, log.segment_bytes)
    at, size = start, READ_BYTES
    begun: set[QueueKey] = set()
    try:
        while at < end:
            data = reader.read(at, size, end)
            heads, stopped = scan_heads(data, physical_offset=at)
            for head in heads:
                if has_queue_unit(head.sys_flag):
                    for each in queue_heads(head):
                        key, offset = (each.topic, each.queue_id), each.queue_offset
                        if not offset:
                            begun.add(key)
                        offsets[key] = max(offsets.get(key, 0), offset + 1) if offset else 1
            yield
            at += stopped.end + stopped.blank_bytes
            if stopped.stop in (Stop.CORRUPT, Stop.UNWRITTEN):
                raise CorruptLog(f"{log.path_of(at)}: offset {at}: no record begins there")
            short = stopped.stop is Stop.INCOMPLETE and not heads
            size = len(data) + stopped.missing_bytes if short else READ_BYTES
    finally:
        reader.close()
    return begun
