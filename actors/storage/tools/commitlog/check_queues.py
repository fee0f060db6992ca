"""Compares the consume queues with the log, both ways: each record has its unit, each unit its
record.

The log is read once. Of each queue only its range of queue offsets is kept, so memory grows with
the number of queues and not of records.

These are no damage, because RocketMQ leaves them: a queue that does not exist, because its topic
was deleted or its units are kept elsewhere; a queue that began anew at 0, because its topic was
made again, with the units of the older records (on a slave) or without; queue offsets that were
given twice.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import groupby

import attrs

from actors.env.protocols import Disk
from actors.readable import counted
from actors.storage.derived.queue_files import (
    QueueKey,
    QueueReader,
    has_unit,
    is_deleted,
    key_of,
    list_queues,
    queue_heads,
)
from actors.storage.derived.record_proof import EXTENDED_BELOW
from actors.storage.tools.findings import FINDINGS_MAX, MENDED_BY_NODE, Findings
from actors.storage.tools.stores import GroupStore, size_of
from wire.files.commit_log import RecordHead, segment_name, segment_offset
from wire.files.consume_queue import UNIT_BYTES, decode_unit, decode_units, encode_unit, is_filler
from wire.files.properties import LIGHT_QUEUE_PREFIX, SCHEDULE_TOPIC

HANDLES_MAX = 64
READ_BYTES = UNIT_BYTES * 200_000
UNUSED = bytes(UNIT_BYTES)
DIFFERENCES_MAX = 10_000
"""How many differences of all queues are kept until it is known whether they matter; more are
counted."""


NEVER = -1


@attrs.define
class QueueRange:
    """What the log's records say about one queue.

    Attributes:
        is_there: whether the queue has files.
        first, next: its first queue offset, and the one after its last.
        gaps: how many queue offsets between them no record has.
        records: how many records it has.
        begun_bytes: the offset of the record with which it began anew; NEVER: it did not.
        differences: what is wrong, unless a later record begins the queue anew.
        more: how many differences were not kept.
    """

    is_there: bool
    first: int
    next: int
    gaps: int = 0
    records: int = 0
    begun_bytes: int = NEVER
    differences: list[str] = attrs.field(factory=list)
    more: int = 0

    def begin_anew(self, offset_bytes: int) -> int:
        """Forget what was found: older records need no units. Returns: how many differences were
        dropped.
        """
        dropped = len(self.differences)
        self.first, self.next, self.gaps = 0, 1, 0
        self.begun_bytes, self.differences, self.more = offset_bytes, [], 0
        return dropped


@attrs.define
class Summed:
    """Sums up findings of one kind: the first of them, and how many there are."""

    count: int = 0
    first: str = ""

    def add(self, position: str, count: int = 1) -> None:
        self.first = self.first or position
        self.count += count


@attrs.define
class QueueCheck:
    """One check of all queues of a store.

    Attributes:
        folder: absolute path of `consumequeue/`.
        file_bytes: the size of a queue file; 0: there are none.
        trusted_bytes: units of records that end behind this offset may be missing or wrong.
        is_gone: returns whether the record at an offset, and so its unit, has expired since the
            check began.
        is_scrubbed: whether a node on this store compares its queues with the log
            (`scrub_bytes_per_s`).
        deleted: as of `DerivedFiles`; records that were stored until then need no units.
        units: how many units were compared so far.
    """

    _disk: Disk
    folder: str
    file_bytes: int
    trusted_bytes: int
    is_gone: Callable[[int], bool]
    _findings: Findings
    is_scrubbed: bool = True
    deleted: Mapping[str, int] = attrs.field(factory=dict)
    units: int = attrs.field(default=0, init=False)
    _log_end: int = attrs.field(default=0, init=False)
    _behind: int = attrs.field(default=0, init=False)
    _kept: int = attrs.field(default=0, init=False)
    _repeated: Summed = attrs.field(factory=Summed, init=False)
    _older: Summed = attrs.field(factory=Summed, init=False)
    _left: Summed = attrs.field(factory=Summed, init=False)
    _deleted_bytes: dict[QueueKey, int] = attrs.field(factory=dict, init=False)
    _extended: Summed = attrs.field(factory=Summed, init=False)
    _wrong: Summed = attrs.field(factory=Summed, init=False)
    _wrong_queues: int = attrs.field(default=0, init=False)
    _unbuilt: Summed = attrs.field(factory=Summed, init=False)
    _ranges: dict[QueueKey, QueueRange] = attrs.field(factory=dict, init=False)
    _reader: QueueReader = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._reader = QueueReader(self._disk, self.folder, self.file_bytes, HANDLES_MAX)

    def take(self, heads: Sequence[RecordHead]) -> None:
        """Compare the units of the next records of the log."""
        found = [each for head in heads if has_unit(head) for each in queue_heads(head)]
        fitting = [each for each in found if not self._is_deleted(each)]
        by_queue = sorted(fitting, key=key_of)  # stable: log order within a queue
        for key, group in groupby(by_queue, key=key_of):
            run: list[RecordHead] = []
            for head in group:
                if not self._advance(key, head):
                    continue
                if run and run[-1].queue_offset + 1 != head.queue_offset:
                    if head.queue_offset:  # otherwise the record begins the queue anew
                        self._compare(key, run)
                    run = []
                run.append(head)
            if run:
                self._compare(key, run)

    def _is_deleted(self, head: RecordHead) -> bool:
        if not is_deleted(head.topic, head, self.deleted):
            return False
        self._deleted_bytes[key_of(head)] = head.physical_offset
        return True

    def _advance(self, key: QueueKey, head: RecordHead) -> bool:
        """Add a record to its queue's range. Returns: whether a unit of its own has to lead
        to it.
        """
        at = head.queue_offset
        known = self._ranges.get(key)
        if known is None:
            known = self._ranges[key] = QueueRange(self._is_there(key), at, at)
        known.records += 1
        if at < known.next:
            if at:
                self._repeated.add(f"{_name(key)}, offset {head.physical_offset}")
                return False
            self._kept -= known.begin_anew(head.physical_offset)
            return True
        known.gaps += at - known.next
        known.next = at + 1
        return True

    def _is_there(self, key: QueueKey) -> bool:
        folder = f"{self.folder}/{key[0]}/{key[1]}"
        names = self._disk.listdir(folder) if self._disk.exists(folder) else []
        return any(segment_offset(name) is not None for name in names)

    def _compare(self, key: QueueKey, run: list[RecordHead]) -> None:
        if not self._ranges[key].is_there:
            return
        self.units += len(run)
        start = run[0].queue_offset * UNIT_BYTES
        expected = b"".join(encode_unit(h.physical_offset, h.size, h.tags_code) for h in run)
        found = self._read(key, start, len(expected))
        if found == expected:
            return
        for number, head in enumerate(run):
            part = slice(number * UNIT_BYTES, (number + 1) * UNIT_BYTES)
            if found[part] != expected[part]:
                self._differs(key, head, found[part])

    def _differs(self, key: QueueKey, head: RecordHead, unit: bytes) -> None:
        if head.physical_offset + head.size > self.trusted_bytes:
            return  # its unit need not exist yet: the next start derives it
        if self.is_gone(head.physical_offset):
            return
        known, what = self._ranges[key], f"{_name(key)}: unit {head.queue_offset}"
        if unit == UNUSED:
            self._differ(known, f"{what}: missing, for the record at {head.physical_offset}")
            return
        offset, size, code = decode_unit(unit)
        if 0 <= offset < known.begun_bytes:
            self._older.add(f"{_name(key)}, unit {head.queue_offset}")
            return
        same = (offset, size) == (head.physical_offset, head.size)
        if same and code < EXTENDED_BELOW:
            self._extended.add(f"{_name(key)}, unit {head.queue_offset}")
            return
        if key[0].startswith(LIGHT_QUEUE_PREFIX) and is_filler(offset, size, code):
            self._unbuilt.add(f"{_name(key)}, unit {head.queue_offset}")
            return
        if same and key[0] == SCHEDULE_TOPIC:
            self._findings.note(f"{what}: another delivery time than by the delay levels")
            return
        expected = (head.physical_offset, head.size, head.tags_code)
        self._differ(
            known,
            f"{what}: expected offset, size, tags code {expected}, found {(offset, size, code)}",
        )

    def _differ(self, known: QueueRange, line: str) -> None:
        if len(known.differences) < FINDINGS_MAX and self._kept < DIFFERENCES_MAX:
            known.differences.append(line)
            self._kept += 1
        else:
            known.more += 1

    # ---- the other way ----

    def finish(
        self, log_min_bytes: int, log_end_bytes: int, *, log_is_whole: bool
    ) -> Generator[None, None, int]:
        """Search for units without a record, and report. Returns: the number of queues.

        Args:
            log_end_bytes: the log's end; the next start cuts units of records behind it.
            log_is_whole: whether no record was skipped, so that a missing queue offset is the log's
                own.
        """
        self.close()
        self._log_end = log_end_bytes
        self._report_differences()
        queues = list_queues(self._disk, self.folder)
        for key in queues:
            known = self._ranges.get(key)
            yield from self._strays(key, known, log_min_bytes)
            if known is not None and known.gaps and log_is_whole:
                gaps = counted(known.gaps, "queue offset is", "queue offsets are")
                self._findings.note(f"{_name(key)}: {gaps} not in the log")
        if self._behind:
            self._findings.note(
                f"consumequeue: {counted(self._behind, 'unit')} of records behind the log's end:"
                " the next start cuts them"
            )
        self._report_sums()
        return len(queues)

    def _report_differences(self) -> None:
        gone, records = Summed(), 0
        for key, known in self._ranges.items():
            if known.differences:
                self._wrong.add(known.differences[0], len(known.differences) + known.more)
                self._wrong_queues += 1
            if not known.is_there:
                gone.add(_name(key))
                records += known.records
        # Only if everything is trusted, because otherwise a node may not have derived them yet.
        if gone.count and self.trusted_bytes >= self._log_end:
            self._findings.note(
                f"consumequeue: {counted(gone.count, 'queue')} of"
                f" {counted(records, 'record')} not there, {gone.first} first: their topics were"
                " deleted, or they are light message queues that nobody has built, or units are"
                " kept elsewhere (RocksDB, batches); a node makes them again when it derives"
                " everything anew"
            )

    def _report_sums(self) -> None:
        if self._wrong.count:
            what = (
                f"consumequeue: {counted(self._wrong.count, 'unit does', 'units do')} not fit the"
                f" records, of {counted(self._wrong_queues, 'queue')}; the first is"
                f" {self._wrong.first}"
            )
            if self.is_scrubbed:
                self._findings.mend(f"{what}: {MENDED_BY_NODE}")
            else:
                self._findings.hurt(what)
        if self._extended.count:
            self._findings.note(
                f"consumequeue: {counted(self._extended.count, 'unit leads', 'units lead')}"
                f" to `consumequeue_ext` for their tags, {self._extended.first} first: only a"
                " broker looks there"
            )
        if self._unbuilt.count:
            self._findings.note(
                f"consumequeue: {counted(self._unbuilt.count, 'record has', 'records have')}"
                f" no unit in a light message queue, {self._unbuilt.first} first: nobody built it"
                " when they were dispatched"
            )
        if self._repeated.count:
            self._findings.note(
                f"consumequeue: {counted(self._repeated.count, 'record has', 'records have')}"
                f" queue offsets that older ones have, {self._repeated.first} first: no unit leads"
                " to them"
            )
        if self._left.count:
            self._findings.note(
                f"consumequeue: {counted(self._left.count, 'unit leads', 'units lead')} to"
                f" records of deleted topics, {self._left.first} first: a start removes the queues"
                " in which nothing was stored since"
            )
        if self._older.count:
            self._findings.note(
                f"consumequeue: {counted(self._older.count, 'unit leads', 'units lead')} to"
                f" older records, {self._older.first} first, though their queues began anew: remove"
                " `consumequeue` of the stopped node, and its next start derives what leads to the"
                " new ones"
            )

    def _strays(
        self, key: QueueKey, known: QueueRange | None, log_min: int
    ) -> Generator[None, None, None]:
        folder = f"{self.folder}/{key[0]}/{key[1]}"
        bases = [b for b in map(segment_offset, self._disk.listdir(folder)) if b is not None]
        expected = bases[0] if bases else 0
        for base in bases:
            path = f"{folder}/{segment_name(base)}"
            size = size_of(self._disk, path)
            if size is None:  # it has expired meanwhile
                expected = base + self.file_bytes
                continue
            if not size and base == bases[-1]:
                self._findings.note(f"{path}: empty; a crash left it")
                return
            if size != self.file_bytes or base != expected:
                self._findings.hurt(
                    f"{path}: expected {self.file_bytes} bytes for the queue's byte {expected},"
                    f" found {size}"
                )
                return
            expected = base + size
            yield from self._strays_of_file(key, known, path, base, log_min)

    def _strays_of_file(
        self, key: QueueKey, known: QueueRange | None, path: str, base: int, log_min: int
    ) -> Generator[None, None, None]:
        try:
            file = self._disk.open(path, "r")
        except FileNotFoundError:
            return  # it has expired meanwhile
        try:
            at = 0
            while at < self.file_bytes:
                start, end = file.data_from(at)
                at = start - start % UNIT_BYTES
                if at >= self.file_bytes:
                    break
                size = min(READ_BYTES, end + -end % UNIT_BYTES - at, self.file_bytes - at)
                data = file.pread(at, size)
                yield
                first = (base + at) // UNIT_BYTES
                at += size
                used = -(-len(data.rstrip(b"\0")) // UNIT_BYTES)  # most of a file is unused
                count = min(used, len(data) // UNIT_BYTES)
                if known and known.first <= first and first + count <= known.next:
                    continue
                for number, unit in enumerate(decode_units(data[: count * UNIT_BYTES]), first):
                    if known is None or not known.first <= number < known.next:
                        self._stray(key, number, unit, log_min)
        finally:
            file.close()

    def _stray(self, key: QueueKey, number: int, unit: tuple[int, int, int], log_min: int) -> None:
        offset, size, _ = unit
        if size <= 0 or is_filler(*unit) or offset < log_min or self.is_gone(offset):
            return
        if offset + size > self.trusted_bytes:
            return
        if offset >= self._log_end:
            self._behind += 1
            return
        known = self._ranges.get(key)
        if known is not None and offset <= known.begun_bytes:
            self._older.add(f"{_name(key)}, unit {number}")
            return
        if offset <= self._deleted_bytes.get(key, NEVER):
            self._left.add(f"{_name(key)}, unit {number}")
            return
        self._findings.hurt(
            f"{_name(key)}: unit {number}: points at {offset}, where no record of this queue is"
        )

    # ---- files ----

    def _read(self, key: QueueKey, start: int, size: int) -> bytes:
        """Return bytes of a queue; zeros where it has none."""
        parts = self._reader.parts(key, start, size)
        return b"".join(data.ljust(wanted, b"\0") for data, wanted in parts).ljust(size, b"\0")

    def close(self) -> None:
        """Close the files."""
        self._reader.close()


def usual_file_bytes(disk: Disk, store: GroupStore) -> int:
    """Return the configured size of a queue file, or else the first file's; 0 if there are no
    files.
    """
    size = first_file_bytes(disk, store.layout.consume_queue)
    return size and (store.setting("consume_queue_bytes") or size)


def first_file_bytes(disk: Disk, folder: str) -> int:
    """Return the size of the first queue file that is not empty; 0 if there is none."""
    for topic, queue_id in list_queues(disk, folder):
        queue = f"{folder}/{topic}/{queue_id}"
        for name in disk.listdir(queue):
            size = size_of(disk, f"{queue}/{name}")
            if segment_offset(name) is not None and size:
                return size
    return 0


def _name(key: QueueKey) -> str:
    return f"consumequeue/{key[0]}/{key[1]}"
