"""Compares records with their units in the consume queues, and finds damaged units.

It only reads, while the queues' owner writes, and follows the log: a batch of records at a time,
with one read for the records of a queue. No queue is listed or kept open, however many there are.

A unit is damaged if it leads to no record with its queue and number although there is one. So these
are no damage: a filler; a unit of an older record with the same number (its topic was made again,
or numbers were given twice); a unit whose tags code leads to `consumequeue_ext`; another time of
delivery; a queue or file that does not exist. Nor is the unit of a record that has expired, because
nobody can say what it was.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from itertools import groupby

import attrs

from actors.env.protocols import Disk
from actors.storage.derived.derived_mends import UnitMend
from actors.storage.derived.queue_files import (
    QueueKey,
    QueueReader,
    has_unit,
    is_deleted,
    key_of,
    queue_heads,
)
from actors.storage.derived.record_proof import EXTENDED_BELOW, RecordProof
from wire.files.commit_log import RecordHead
from wire.files.consume_queue import UNIT_BYTES, decode_unit, decode_units, encode_unit, is_filler
from wire.files.properties import SCHEDULE_TOPIC

QUEUES_PER_STEP = 32
"""How many queues are compared between two turns of other tasks: one takes some 15 us to open and
read."""
AROUND_UNITS = 1024
"""How many units before and after a damaged one are read: five pages."""
HANDLES_MAX = 8
"""How many queue files are open at once: one queue is compared after the other."""


@attrs.define(kw_only=True)
class QueueScrub:
    """Compares one store's queues with its log.

    Attributes:
        folder: absolute path of `consumequeue/`.
        file_bytes: the size of every file.
        proof: reads the records to which units lead.
        has_extended: whether the store has a `consumequeue_ext`.
        begun_anew_bytes: no queue began anew with a record after this offset.
        deleted: when topics were deleted; records that were stored until then are not compared.
        read_bytes: how many bytes of queues and records were read so far.
    """

    disk: Disk
    folder: str
    file_bytes: int
    proof: RecordProof
    has_extended: bool
    begun_anew_bytes: int = -1
    deleted: Mapping[str, int] = attrs.field(factory=dict)
    read_bytes: int = 0
    _reader: QueueReader = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._reader = QueueReader(self.disk, self.folder, self.file_bytes, HANDLES_MAX)

    def compare(
        self, heads: Sequence[RecordHead], only: QueueKey | None = None
    ) -> Generator[None, None, list[UnitMend]]:
        """Compare records with their units; return the mends of damaged units. Yields after every
        few queues.

        Args:
            heads: the records, in log order.
            only: the only queue to be compared; None: all.

        Raises: OSError.
        """
        found: list[UnitMend] = []
        fitting = [each for head in heads if has_unit(head) for each in queue_heads(head)]
        if self.deleted:
            deleted = self.deleted
            fitting = [each for each in fitting if not is_deleted(each.topic, each, deleted)]
        by_queue = sorted(fitting, key=key_of)  # stable: log order within a queue
        with closing(self._reader):
            for number, (key, group) in enumerate(groupby(by_queue, key=key_of), 1):
                if only is None or key == only:
                    self._queue(key, list(group), found)
                if number % QUEUES_PER_STEP == 0:
                    yield
        return found

    def _queue(self, key: QueueKey, heads: list[RecordHead], found: list[UnitMend]) -> None:
        """Compare the records of one queue, in runs of consecutive numbers."""
        first = 0
        for number in range(1, len(heads) + 1):
            if number < len(heads) and (
                heads[number].queue_offset == heads[number - 1].queue_offset + 1
            ):
                continue
            self._run(key, heads[first:number], found)
            first = number

    def _run(self, key: QueueKey, run: list[RecordHead], found: list[UnitMend]) -> None:
        expected = b"".join(encode_unit(h.physical_offset, h.size, h.tags_code) for h in run)
        data = self.units(key, run[0].queue_offset, len(run))
        if data == expected:
            return
        for number, head in enumerate(run):
            part = slice(number * UNIT_BYTES, (number + 1) * UNIT_BYTES)
            unit, wanted = data[part], expected[part]
            if unit == wanted or len(unit) < UNIT_BYTES or not self._is_damage(key, head, unit):
                continue
            found.append(
                UnitMend(
                    topic=key[0],
                    queue_id=key[1],
                    offset=head.queue_offset,
                    found=unit,
                    wanted=wanted,
                    first_bytes=head.physical_offset,
                    next_bytes=head.physical_offset + head.size,
                    is_sure=head.physical_offset > self.begun_anew_bytes,
                )
            )

    def _is_damage(self, key: QueueKey, head: RecordHead, data: bytes) -> bool:
        unit = decode_unit(data)
        offset, size, code = unit
        if is_filler(*unit):
            return False
        if (offset, size) == (head.physical_offset, head.size):
            is_address = self.has_extended and code < EXTENDED_BELOW
            return not is_address and key[0] != SCHEDULE_TOPIC
        self.read_bytes += size if 0 < size <= self.proof.record_bytes_max else 0
        if self.proof.leads(key, head.queue_offset, unit):
            return False
        if 0 <= offset < self.proof.min_bytes and size > 0:
            return self._is_out_of_order(key, head)
        return True

    def _is_out_of_order(self, key: QueueKey, head: RecordHead) -> bool:
        """Whether a unit that leads to an expired record is damaged, because others before and
        after it are not.

        If it is the oldest or the newest unit, that is unknown, and the result is False.
        """
        number = head.queue_offset
        after = self.units(key, number + 1, 1)
        if len(after) == UNIT_BYTES and self.proof.leads(key, number + 1, decode_unit(after)):
            return head.physical_offset < decode_unit(after)[0]
        before = self.units(key, number - 1, 1) if number else b""
        return len(before) == UNIT_BYTES and self.proof.leads(key, number - 1, decode_unit(before))

    def around(self, key: QueueKey, number: int) -> tuple[int, int]:
        """Return the offsets between which the record of a unit has to lie.

        The nearest units before and after it that lead to their records give them. Raises: OSError.
        """
        start, end = self.proof.min_bytes, self.proof.limit_bytes
        with closing(self._reader):
            first = max(0, number - AROUND_UNITS)
            before = list(decode_units(self._whole(key, first, number - first)))
            for at in reversed(range(len(before))):
                if self.proof.leads(key, first + at, before[at]):
                    start = max(start, before[at][0])
                    break
            behind = self._whole(key, number + 1, AROUND_UNITS)
            for at, unit in enumerate(decode_units(behind), number + 1):
                if self.proof.leads(key, at, unit):
                    end = min(end, unit[0])
                    break
        return start, end

    def _whole(self, key: QueueKey, first: int, count: int) -> bytes:
        data = self.units(key, first, count)
        return data[: len(data) - len(data) % UNIT_BYTES]

    def units(self, key: QueueKey, first: int, count: int) -> bytes:
        """Return units of a queue from number `first` on; fewer where there is no file. Raises:
        OSError.
        """
        out = bytearray()
        for data, wanted in self._reader.parts(key, first * UNIT_BYTES, count * UNIT_BYTES):
            out += data
            if len(data) < wanted:
                break
        self.read_bytes += len(out)
        return bytes(out)
