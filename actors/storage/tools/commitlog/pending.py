"""Finds what a classic group's store holds for a broker to do: delayed messages to deliver, and
half messages about which producers have to be asked.

Upstream: apache/rocketmq broker/.../schedule/ScheduleMessageService.java (`correctDelayOffset`),
broker/.../transaction/queue/TransactionalMessageServiceImpl.java (`check`, `fillOpRemoveMap`)
(5.3.3); classic-ha.md 5.5.

The queues are the store's own, made from its log. The cursors, at which a broker goes on in them,
are part of the metadata that a slave copies from its master. So this is the work of a broker that
is started on the store, also after a promotion: it does nothing before a cursor, and everything
behind it. A cursor outside of its queue is moved to the nearer end.

A unit is shown only if it leads to its record. Units that are not derived yet are missing, so
`Pending.derived_bytes` has the offset of the log up to which none is missing. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Final

import attrs

from actors.env.protocols import Disk
from actors.storage.derived.dispatch_state import DispatchState
from actors.storage.derived.queue_files import (
    QueueKey,
    QueueReader,
    Unit,
    first_kept,
    list_queues,
    queue_folder,
    scan_queue,
)
from actors.storage.derived.record_proof import EXTENDED_BELOW, UNITS_PER_STEP, RecordProof
from actors.storage.files.stepping import Step, Work
from actors.storage.log.log_reader import LogReader
from actors.storage.tools.commitlog.check_queues import usual_file_bytes
from actors.storage.tools.stores import GroupStore, log_bases, odd_files
from wire.broker.metadata import ConsumerOffsets, DelayOffsets
from wire.files.commit_log import Record, decode_record, queue_tags_code
from wire.files.consume_queue import UNIT_BYTES, decode_units, is_filler
from wire.files.properties import HALF_TOPIC, OP_TOPIC, SCHEDULE_TOPIC, TAGS, UNIQ_KEY

CHECKING_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""The consumer group whose offsets are the cursors of both topics."""
DECIDED_TAG: Final = "d"
"""The tag of an op message whose body names decided half messages."""
READ_UNITS: Final = 1024
MESSAGES_MAX: Final = 1000
"""How many half messages of a queue are listed, the oldest ones; the others are counted."""
_REAL_TOPIC: Final = "REAL_TOPIC"
_PRODUCER_GROUP: Final = "PGROUP"
_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
_DIGITS_MAX: Final = 19


@attrs.frozen(kw_only=True)
class Cursors:
    """The queue offsets at which a broker goes on, as its metadata has them.

    Attributes:
        delay: the cursor of each delay level.
        half, op: the cursors in the queues of half messages and of op messages, by queue id.
    """

    delay: Mapping[int, int] = attrs.field(factory=dict)
    half: Mapping[int, int] = attrs.field(factory=dict)
    op: Mapping[int, int] = attrs.field(factory=dict)

    @classmethod
    def of(cls, delay: DelayOffsets, consumers: ConsumerOffsets) -> Cursors:
        """Return the cursors that the two kinds of metadata have."""
        table = consumers.offset_table
        return cls(
            delay=delay.offset_table,
            half=table.get(f"{HALF_TOPIC}@{CHECKING_GROUP}", {}),
            op=table.get(f"{OP_TOPIC}@{CHECKING_GROUP}", {}),
        )


@attrs.frozen(kw_only=True)
class DelayLevel:
    """The messages that wait in the queue of a delay level: all from `next_offset` on.

    Attributes:
        level: the number of the level, from 1 on.
        cursor: the cursor in the metadata; None if it has none.
        next_offset, end_offset: the queue offsets of the next message to deliver, and of the next
            one to be stored.
        messages: the number of messages between the two.
        due_ms, last_due_ms: when the first and the last of them are due, in ms since 1970; None if
            there are none.
    """

    level: int
    cursor: int | None
    next_offset: int
    end_offset: int
    messages: int
    due_ms: int | None
    last_due_ms: int | None


@attrs.frozen(kw_only=True)
class HalfMessage:
    """A message of a transaction that nobody has committed or rolled back.

    Attributes:
        queue_offset, offset: its number in its queue, and its position in the log.
        topic: the topic to which it goes once it is committed.
        producer_group, transaction_id: the producers to ask, and the id of their transaction.
        born_ms, store_ms: when it was made and when it was stored last, in ms since 1970.
        checks: how often its producers were asked.
    """

    queue_offset: int
    offset: int
    topic: str
    producer_group: str
    transaction_id: str
    born_ms: int
    store_ms: int
    checks: int


@attrs.frozen(kw_only=True)
class HalfQueue:
    """The undecided messages in a queue of half messages.

    Attributes:
        queue_id: the id of the queue.
        cursor, next_offset, end_offset: the same as in `DelayLevel`.
        undecided: the number of messages between the two offsets that no op message names.
        messages: the first MESSAGES_MAX of them.
    """

    queue_id: int
    cursor: int | None
    next_offset: int
    end_offset: int
    undecided: int
    messages: tuple[HalfMessage, ...]


@attrs.frozen(kw_only=True)
class Pending:
    """Everything that is pending in one store.

    Attributes:
        group: the name of the store.
        derived_bytes: the offset of the log up to which no unit is missing; None if it is unknown,
            as for another program's store.
        delayed: the levels that have a queue.
        half: the queues of half messages.
        problems: what could not be read, one line each.
    """

    group: str
    derived_bytes: int | None
    delayed: tuple[DelayLevel, ...]
    half: tuple[HalfQueue, ...]
    problems: tuple[str, ...]


def find_pending(
    disk: Disk, store: GroupStore, cursors: Cursors, limit: int | None = None
) -> Work[Pending]:
    """Find what is pending in a store.

    Args:
        limit: records at or behind this offset of the log do not count.

    Raises: OSError.
    """
    layout, bases = store.layout, log_bases(disk, store)
    end = bases[-1] + store.segment_bytes if bases else 0
    state = DispatchState.read(disk, layout.dispatched)
    log = LogReader(disk, layout.commit_log, store.segment_bytes)
    queues = QueueReader(disk, layout.consume_queue, usual_file_bytes(disk, store), 1)
    proof = RecordProof(
        reader=log,
        record_bytes_max=store.record_bytes_max,
        min_bytes=bases[0] if bases else 0,
        limit_bytes=end if limit is None else min(limit, end),
    )
    problems = odd_files(disk, store, bases)
    if not bases and any(True for _ in list_queues(disk, layout.consume_queue)):
        problems = [f"{layout.commit_log}: there are no log files, so nothing of queues is shown"]
    reading = _Reading(
        disk=disk, store=store, cursors=cursors, queues=queues, proof=proof, problems=problems
    )
    delayed: list[DelayLevel] = []
    half: list[HalfQueue] = []
    with closing(log), closing(queues):
        for key in list_queues(disk, layout.consume_queue):
            if key[0] == SCHEDULE_TOPIC:
                delayed.append((yield from reading.level(key)))
            elif key[0] == HALF_TOPIC:
                half.append((yield from reading.half_queue(key)))
    return Pending(
        group=store.name,
        derived_bytes=None if state is None else min(state.dispatched_bytes, proof.limit_bytes),
        delayed=tuple(delayed),
        half=tuple(half),
        problems=tuple(reading.problems),
    )


@attrs.define(kw_only=True)
class _Reading:
    """Reads the queues of one store."""

    disk: Disk
    store: GroupStore
    cursors: Cursors
    queues: QueueReader
    proof: RecordProof
    problems: list[str]

    def level(self, key: QueueKey) -> Work[DelayLevel]:
        level = key[1] + 1
        cursor = self.cursors.delay.get(level)
        first, end = self._range(key, cursor)
        count, due_ms, last_due_ms = 0, None, None
        for _, unit in self._units(key, first, end):
            count += 1
            last_due_ms = self._due_ms(unit)
            due_ms = last_due_ms if due_ms is None else due_ms
            if count % UNITS_PER_STEP == 0:
                yield self._step(key, count, end - first)
        return DelayLevel(
            level=level,
            cursor=cursor,
            next_offset=first,
            end_offset=end,
            messages=count,
            due_ms=due_ms,
            last_due_ms=last_due_ms,
        )

    def half_queue(self, key: QueueKey) -> Work[HalfQueue]:
        cursor = self.cursors.half.get(key[1])
        first, end = self._range(key, cursor)
        decided = yield from self._decided((OP_TOPIC, key[1]), first, end)
        undecided, found = 0, list[HalfMessage]()
        for number, unit in self._units(key, first, end):
            if (number - first) % UNITS_PER_STEP == 0:
                yield self._step(key, number - first, end - first)
            if number not in decided:
                undecided += 1
                if undecided <= MESSAGES_MAX:
                    found.append(_half_message(number, self._record(unit)))
        return HalfQueue(
            queue_id=key[1],
            cursor=cursor,
            next_offset=first,
            end_offset=end,
            undecided=undecided,
            messages=tuple(found),
        )

    def _decided(self, key: QueueKey, half_first: int, half_end: int) -> Work[Decided]:
        """Return the half messages between two queue offsets that op messages name."""
        decided = Decided(half_first, half_end)
        first, end = self._range(key, self.cursors.op.get(key[1]))
        for number, unit in self._units(key, first, end):
            if (number - first) % UNITS_PER_STEP == 0:
                yield self._step(key, number - first, end - first)
            record = self._record(unit)
            if record.properties_map.get(TAGS) == DECIDED_TAG:
                decided.add(decided_by(record.body))
        return decided

    def _range(self, key: QueueKey, cursor: int | None) -> tuple[int, int]:
        """Return the queue offsets at which a queue is gone on with, and at which it ends."""
        folder = queue_folder(self.queues.folder, *key)
        queue = scan_queue(self.disk, folder, self.queues.file_bytes, self.proof.limit_bytes)
        if queue is None:
            self.problems.append(f"{folder}: a file has another size or place than its queue's")
        if queue is None or not queue.bases or queue.end_bytes < 0:
            return 0, 0
        end = queue.next_offset
        least = queue.bases[0] // UNIT_BYTES
        least = first_kept(partial(self._read, key), least, end, self.proof.min_bytes)
        return max(least, min(cursor or 0, end)), end

    def _read(self, key: QueueKey, first: int, count: int) -> bytes:
        parts = self.queues.parts(key, first * UNIT_BYTES, count * UNIT_BYTES)
        return b"".join(data.ljust(wanted, b"\0") for data, wanted in parts)

    def _units(self, key: QueueKey, first: int, end: int) -> Iterator[tuple[int, Unit]]:
        """Yield each unit with its number, and end before the first one that leads to no record."""
        for start in range(first, end, READ_UNITS):
            data = self._read(key, start, min(READ_UNITS, end - start))
            for number, unit in enumerate(decode_units(data), start):
                if is_filler(*unit):  # the log itself lacks the record
                    continue
                if not self.proof.leads(key, number, unit):
                    folder = queue_folder(self.queues.folder, *key)
                    self.problems.append(
                        f"{folder}: unit {number}: leads to no record of this queue: what follows"
                        " is not shown (check says more)"
                    )
                    return
                yield number, unit

    def _record(self, unit: Unit) -> Record:
        offset, size, _ = unit
        data = self.proof.reader.read(offset, size, self.proof.limit_bytes)
        return decode_record(data, check_crc=False, size_max=self.proof.record_bytes_max)

    def _due_ms(self, unit: Unit) -> int:
        if unit[2] >= EXTENDED_BELOW:
            return unit[2]
        record, levels = self._record(unit), self.store.delay_levels_ms
        return queue_tags_code(record.topic, record.properties_map, record.store_ts, levels)

    def _step(self, key: QueueKey, done: int, total: int) -> Step:
        what = f"{self.store.name}: {key[0]}/{key[1]}"
        return Step(what, done * UNIT_BYTES, total * UNIT_BYTES)


class Decided:
    """The set of decided half messages of a queue, among those between two queue offsets.

    It has one bit for each of them, because op messages can name many millions.
    """

    def __init__(self, first: int, end: int) -> None:
        self._first, self._count = first, max(0, end - first)
        self._bits = bytearray(self._count // 8 + 1)

    def add(self, numbers: Iterable[int]) -> None:
        """Add queue offsets; those outside of the two are ignored."""
        for number in numbers:
            if 0 <= (at := number - self._first) < self._count:
                self._bits[at // 8] |= 1 << at % 8

    def __contains__(self, number: int) -> bool:
        at = number - self._first
        return 0 <= at < self._count and bool(self._bits[at // 8] >> at % 8 & 1)


def decided_by(body: bytes) -> set[int]:
    """Return the queue offsets of the half messages that the body of an op message names.

    The body is `0,1,3,`, or `3` from brokers before 5.0. As upstream, text that is no number is
    ignored.
    """
    parts = body.split(b",")
    return {int(part) for part in parts if part.isdigit() and len(part) <= _DIGITS_MAX}


def _half_message(number: int, record: Record) -> HalfMessage:
    properties = record.properties_map
    checks = properties.get(_CHECK_TIMES, "")
    return HalfMessage(
        queue_offset=number,
        offset=record.physical_offset,
        topic=properties.get(_REAL_TOPIC, ""),
        producer_group=properties.get(_PRODUCER_GROUP, ""),
        transaction_id=properties.get(UNIQ_KEY, ""),
        born_ms=record.born_ts,
        store_ms=record.store_ts,
        checks=int(checks) if checks.isascii() and checks.isdigit() and len(checks) < 10 else 0,
    )
