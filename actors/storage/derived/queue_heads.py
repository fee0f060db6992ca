"""Finds the next queue offset of each queue from the records of a log."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from typing import TypeAlias

import attrs

from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.derived.dispatch_state import NEVER
from actors.storage.derived.queue_files import QueueKey, queue_heads
from actors.storage.derived.small_files import read_deleted
from actors.storage.layout import StoreLayout
from actors.storage.log.commit_log import CommitLog
from actors.storage.log.digests import Digests, digest_of
from actors.storage.log.log_reader import LogReader, OffsetGone
from wire.files.commit_log import RecordHead, Stop, scan_heads
from wire.files.message_record import has_queue_unit

READ_BYTES = 512 << 10
"""How many bytes a step reads, or one record if that is larger. With records of 200 B a step takes
some 10 ms."""

NextOffsets: TypeAlias = dict[QueueKey, int]
"""The next queue offset of each queue."""


def add_offsets(
    disk: Disk,
    layout: StoreLayout,
    log: CommitLog,
    start: int,
    end: int,
    offsets: NextOffsets,
    units: Mapping[QueueKey, int] | None = None,
) -> Generator[None, None, set[QueueKey]]:
    """Raise `offsets` above the queue offsets of the records from `start` up to `end`.

    Records have to begin at both. A record with queue offset 0 begins its queue anew, a light
    message queue too (`begun_anew`). Records that were stored before their topic was deleted do not
    count.

    No CRC of a record covers its queue offset. So an offset that does not follow the one before it
    in its queue counts only if the log's digests there are right.

    Args:
        units: the next queue offsets at `start`, as far as they are known.

    Returns: the queues that begin anew.

    Raises: CorruptLog. Yields at least every 512 KiB, or record.
    """
    reader = LogReader(disk, log.folder, log.segment_bytes)
    digests = Digests(disk, layout.digests, log.segment_bytes, reads_only=True)
    adding = _Adding(offsets=offsets, units=units or {}, reader=reader, digests=digests, end=end)
    deleted = read_deleted(disk, layout.topics)
    at, size = start, READ_BYTES
    with closing(reader), closing(digests):
        while at < end:
            data = reader.read(at, size, end)
            heads, stopped = scan_heads(data, physical_offset=at)
            for head in heads:
                if has_queue_unit(head.sys_flag):
                    for each in queue_heads(head):
                        if each.store_ts > deleted.get(each.topic, NEVER):
                            adding.add(each)
            yield
            at += stopped.end + stopped.blank_bytes
            if stopped.stop in (Stop.CORRUPT, Stop.UNWRITTEN):
                raise CorruptLog(f"{log.path_of(at)}: offset {at}: no record begins there")
            short = stopped.stop is Stop.INCOMPLETE and not heads
            size = len(data) + stopped.missing_bytes if short else READ_BYTES
    return adding.begun


@attrs.define(kw_only=True)
class _Adding:
    """The state of one `add_offsets`.

    Attributes:
        end: the offset up to which records are read.
        begun: the queues with a record that begins them anew.
    """

    offsets: NextOffsets
    units: Mapping[QueueKey, int]
    reader: LogReader
    digests: Digests
    end: int
    begun: set[QueueKey] = attrs.field(factory=set)
    _guessed: set[QueueKey] = attrs.field(factory=set)
    _compared: dict[int, bool] = attrs.field(factory=dict)

    def add(self, head: RecordHead) -> None:
        key, offset = (head.topic, head.queue_id), head.queue_offset
        due = self.offsets.get(key, self.units.get(key))
        if offset != due and not self._is_good(head):
            # The record's offset or its queue may be wrong. But most records of such a range are
            # intact, so where nothing else is known it is used, until a good record says otherwise.
            self.offsets[key] = (offset if due is None else due) + 1
            self._guessed.add(key)
            return
        if not offset:
            self.begun.add(key)
        if not offset or key in self._guessed:
            self._guessed.discard(key)
            self.offsets[key] = offset + 1
        else:
            self.offsets[key] = max(self.offsets.get(key, 0), offset + 1)

    def _is_good(self, head: RecordHead) -> bool:
        """Whether no digest contradicts the bytes of the record and those around it."""
        at, end = head.physical_offset, head.physical_offset + head.size
        while at < end:
            start, at = self.digests.range_at(at)
            if start not in self._compared:
                self._compared[start] = self._is_same(start, at)
            if not self._compared[start]:
                return False
        return True

    def _is_same(self, start: int, end: int) -> bool:
        known = self.digests.get(start) if end <= self.end else None
        if known is None:
            return True
        try:
            return digest_of(self.reader.read(start, end - start, end)) == known
        except (OSError, OffsetGone):
            return False
