"""Checks, in the log itself, whether units of consume queues lead to their records."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import attrs

from actors.storage.derived.queue_files import QueueKey, Unit, light_heads
from actors.storage.log.log_reader import LogReader, OffsetGone
from wire.files.commit_log import RecordHead, scan_heads
from wire.files.consume_queue import is_filler
from wire.files.message_record import SIZE_BYTES
from wire.files.properties import SCHEDULE_TOPIC

UNITS_PER_STEP = 64
"""How many records are read between two turns of other tasks: each takes some 15 us."""
EXTENDED_BELOW = -(1 << 31)
"""A lower tags code is an address in `consumequeue_ext`, if there is such a folder (upstream:
ConsumeQueueExt.isExtAddr)."""


def may_have_code(head: RecordHead, code: int) -> bool:
    """Whether a unit that leads to this record may have this tags code: it is the record's own, or
    an address, or a delivery time, which the delay levels of another time may have given.
    """
    return code == head.tags_code or code < EXTENDED_BELOW or head.topic == SCHEDULE_TOPIC


@attrs.define(kw_only=True)
class RecordProof:
    """Reads single records at the offsets that consume queues and index give.

    Attributes:
        record_bytes_max: the size of the largest possible record.
        min_bytes, limit_bytes: the offsets between which records are read.
    """

    reader: LogReader
    record_bytes_max: int
    min_bytes: int = 0
    limit_bytes: int = 0

    def head_at(self, offset: int) -> RecordHead | None:
        """Return the head of the record that begins there; None if none does. Raises: OSError."""
        if not self.min_bytes <= offset <= self.limit_bytes - SIZE_BYTES:
            return None
        try:
            size = int.from_bytes(self.reader.read(offset, SIZE_BYTES, self.limit_bytes), "big")
            if size > self.record_bytes_max:
                return None
            data = self.reader.read(offset, size, self.limit_bytes)
        except OffsetGone:
            return None
        heads, _ = scan_heads(data, physical_offset=offset, size_max=self.record_bytes_max)
        return heads[0] if heads else None

    def leads(self, key: QueueKey, number: int, unit: Unit) -> bool:
        """Whether a unit leads to the record that has this number in this queue. Raises:
        OSError.
        """
        head = self.head_at(unit[0]) if unit[1] > 0 else None
        if head is None or head.size != unit[1]:
            return False
        if not may_have_code(head, unit[2]):
            return False
        if (head.topic, head.queue_id, head.queue_offset) == (*key, number):
            return True
        return any(
            (light.topic, light.queue_id, light.queue_offset) == (*key, number)
            for light in light_heads(head)
        )


def shown(
    proof: RecordProof, key: QueueKey, first: int, units: Sequence[Unit]
) -> Generator[None, None, tuple[tuple[Unit, ...], int | None]]:
    """Return the good units of a queue, of those given from number `first` on.

    Fillers of records that have expired are left out. The result ends before the first unit that
    leads to another record or to none; the second value is that unit's number, None if all are
    good.

    Raises: OSError. Yields after every few units.
    """
    good: list[Unit] = []
    for number, unit in enumerate(units):
        if number % UNITS_PER_STEP == UNITS_PER_STEP - 1:
            yield
        if is_filler(*unit):
            good += [unit] * (unit[0] >= proof.min_bytes)
        elif proof.leads(key, first + number, unit):
            good.append(unit)
        else:
            return tuple(good), first + number
    return tuple(good), None
