"""Checks, after a range of the log was mended, whether queues and index agree with its records.

As a rule they were derived long before the damage, and are right. If they were lost and derived
again from the damaged bytes, a record may have no unit, or a unit in another queue. Then everything
is derived anew. Records that never had a unit of their own (`QueueOffsetsRepeated`, `begun_anew`)
look the same, and cause that work for nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import attrs

from actors.storage.derived.derived_files import DerivedFiles
from actors.storage.derived.queue_files import has_unit
from actors.storage.derived.record_proof import may_have_code
from actors.storage.dispatch.dispatcher_messages import Rederive
from actors.storage.log.log_reader import LogReader, OffsetGone
from wire.files.commit_log import RecordHead, Stop, scan_heads
from wire.files.message_record import SYS_FLAG_TRANSACTION, TRANSACTION_ROLLBACK

READ_BYTES: Final = 256 << 10
MATCHES_MAX: Final = 1024
"""If so many records have a key, it cannot be said that one is missing."""
WHY: Final = "the log was damaged where they were derived from it, and is mended now"


@attrs.frozen
class MendedRanges:
    """Checks mended ranges of one log.

    Attributes:
        at_bytes: everything below this offset is derived.
    """

    files: DerivedFiles
    log: LogReader
    min_bytes: int
    at_bytes: int
    record_bytes_max: int

    def lack(self, range_: Rederive) -> Generator[None, None, bool]:
        """Whether a record in the range lacks a unit or an entry; False if that is unknown.
        Yields.
        """
        try:
            return (yield from self._lack(range_))
        except (OffsetGone, OSError):
            return False

    def _lack(self, range_: Rederive) -> Generator[None, None, bool]:
        start = range_.start_bytes
        at = max(start - start % self.log.segment_bytes, self.min_bytes)
        end, size = min(range_.end_bytes, self.at_bytes), READ_BYTES
        while at < end:
            data = self.log.read(at, size, self.at_bytes)
            heads, stopped = scan_heads(data, physical_offset=at, size_max=self.record_bytes_max)
            for head in heads:
                position = head.physical_offset
                if position + head.size > start and position < end and not self._is_there(head):
                    return True
            if not stopped.end and stopped.stop is not Stop.INCOMPLETE:
                # the file ends or is damaged here; the check is repeated when that is mended
                return False
            if not stopped.end and size >= self.record_bytes_max + READ_BYTES:
                return False
            size = READ_BYTES if stopped.end else self.record_bytes_max + READ_BYTES
            at += stopped.end
            yield
        return False

    def _is_there(self, head: RecordHead) -> bool:
        return self._has_unit(head) and self._has_keys(head)

    def _has_unit(self, head: RecordHead) -> bool:
        if not has_unit(head) or self.files.is_deleted(head.topic, head):
            return True
        queues, key = self.files.queues, (head.topic, head.queue_id)
        if head.queue_offset < queues.min_offset(*key, self.min_bytes):
            return False
        return any(
            unit[:2] == (head.physical_offset, head.size) and may_have_code(head, unit[2])
            for unit in queues.units(*key, head.queue_offset, 1)
        )

    def _has_keys(self, head: RecordHead) -> bool:
        if head.sys_flag & SYS_FLAG_TRANSACTION == TRANSACTION_ROLLBACK:
            return True
        for key in filter(None, (head.uniq_key, *head.keys.split(" "))):
            found = self.files.index.find(head.topic, key, MATCHES_MAX)
            if len(found) < MATCHES_MAX and head.physical_offset not in found:
                return False
        return True
