"""Reads the files of consume queues: which queues a store has, and where each of them ends.

Upstream: apache/rocketmq store/.../ConsumeQueue.java `recover`, queue/ConsumeQueueStore.java `load`
(5.3.3). `consume_queue`, which writes them, lists the differences.

There may be tens of thousands of queues, so a start reads only the end of each: units lie in the
log's order, and behind the last one the file is zero or holds units of later records.

Units lead to a record from its own queue, and from the light message queues that its properties
name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from typing import TypeAlias

import attrs

from actors.env.path_kinds import check_kinds, names_in
from actors.env.protocols import LOST_AND_FOUND, Disk, File
from actors.storage.files.stepping import finish
from wire.files.commit_log import RecordHead, segment_name, segment_offset
from wire.files.consume_queue import UNIT_BYTES, decode_units, is_filler, is_used
from wire.files.message_record import has_queue_unit

TOPIC_BYTES_MAX = 255
"""A topic's name is the name of a folder."""
QUEUE_OFFSET_MAX = 1 << 58
"""A unit's position is 20 times its queue offset, and has to fit a long."""
QUEUE_OFFSET_LAST = 1 << 57
"""A queue that a received record has brought above this offset begins anew at 0 with its master's
next start: soon no unit could lead to a record any more."""


def is_safe_topic(topic: str) -> bool:
    """Whether a topic can be the name of a folder. Upstream's valid topics are a subset of
    these.
    """
    if topic in ("", ".", "..", LOST_AND_FOUND) or not topic.isprintable() or "/" in topic:
        return False
    return len(topic.encode("utf-8", "replace")) <= TOPIC_BYTES_MAX and "\ufffd" not in topic


def has_unit(head: RecordHead) -> bool:
    """Whether the record's own queue has a unit for it, by the record's fields."""
    return (
        has_queue_unit(head.sys_flag)
        and head.queue_id >= 0
        and 0 <= head.queue_offset < QUEUE_OFFSET_MAX
        and is_safe_topic(head.topic)
    )


def key_of(head: RecordHead) -> QueueKey:
    """Return the key of the queue to which a record belongs."""
    return head.topic, head.queue_id


def light_heads(head: RecordHead) -> Iterator[RecordHead]:
    """Yield the record as each of its light message queues has it; impossible queues are
    left out.
    """
    for name, offset in head.light_queues:
        if is_safe_topic(name) and offset < QUEUE_OFFSET_MAX:
            yield head._replace(topic=name, queue_id=0, queue_offset=offset)


def is_deleted(topic: str, head: RecordHead, deleted: Mapping[str, int]) -> bool:
    """Return whether a record was stored before its topic, or that of its light queue, was deleted.

    Args:
        deleted: the topics that were deleted, by name, and when each was, in ms since 1970.
    """
    return topic in deleted and head.store_ts <= deleted[topic]


def queue_heads(head: RecordHead) -> Iterator[RecordHead]:
    """Yield the record as each of its queues has it, its own queue first.

    A queue offset of 0 in any of them begins that queue anew.
    """
    yield head
    if head.light_queues:
        yield from light_heads(head)


QueueKey: TypeAlias = tuple[str, int]
"""The key of a queue: its topic and its queue id."""
Unit: TypeAlias = tuple[int, int, int]
"""A unit: physical offset, size and tags code of its record."""
QUEUE_ID_MAX = (1 << 31) - 1
QUEUE_DIGITS_MAX = 10
FILES_RECOVERED = 3
"""How many of a queue's last files recovery reads. Upstream: ConsumeQueue.recover."""
PROBE_UNITS = 256
"""How many units one read takes, a little more than a page of them. A search for a queue's end
needs one read, and so does the check of the units right before the end."""
ODD_UNITS_MAX = 8
"""How many damaged units a search skips, of the dozen that it reads."""
QUEUES_PER_STEP = 8
"""How many queues are handled between two turns of other tasks: one takes some 0.1 ms to read and
0.3 ms to make, and more if nothing is cached or the file system is busy."""
NAMES_PER_STEP = 1024
"""How many names are read between two turns of other tasks."""


class QueueGap(Exception):
    """Units are missing, or cannot be read, so the queue has to be built anew.

    Attributes:
        topic, queue_id: the key of the queue.
    """

    def __init__(self, topic: str, queue_id: int, what: str) -> None:
        super().__init__(f"{topic}/{queue_id}: {what}")
        self.topic = topic
        self.queue_id = queue_id


@attrs.define
class Queue:
    """The files and the end of one consume queue.

    Attributes:
        folder: its absolute path, which ends in `consumequeue/TOPIC/QUEUE_ID`.
        bases: the positions in bytes at which its files begin, ascending.
        next_bytes: the position in bytes of the next unit.
        end_bytes: the end in the log (offset + size) of the newest unit's record; -1 without units.
    """

    folder: str
    bases: list[int]
    next_bytes: int = 0
    end_bytes: int = -1

    @property
    def next_offset(self) -> int:
        """The queue offset of the next record."""
        return self.next_bytes // UNIT_BYTES

    @property
    def units_count(self) -> int:
        """The queue offset of the next record if the queue has a unit, else 0; the dispatch state
        counts this.
        """
        return self.next_offset if self.end_bytes >= 0 else 0


def queue_path(folder: str, base: int) -> str:
    """Return the path of a queue's file that begins at position `base`."""
    return f"{folder}/{segment_name(base)}"


def queue_folder(folder: str, topic: str, queue_id: int) -> str:
    """Return the path of a queue's folder, inside the folder of all queues."""
    return f"{folder}/{topic}/{queue_id}"


def queue_key(queue: Queue) -> QueueKey:
    """Return the key of a queue."""
    *_, topic, queue_id = queue.folder.split("/")
    return topic, int(queue_id)


def first_kept(read: Callable[[int, int], bytes], low: int, high: int, log_min_bytes: int) -> int:
    """Return the number of the first unit whose record lies at or behind `log_min_bytes`.

    It is searched for from `low` up to `high`, exclusive; the result is `high` if there is none. A
    damaged unit that contradicts its neighbours hides no others.

    Args:
        read: returns units, given the number of the first one, and how many at most.
    """
    first, end, passed = low, high, set[int]()

    def is_gone(number: int) -> bool | None:
        if not first <= number < end or number in passed:
            return None
        (unit,) = decode_units(read(number, 1))
        says = is_used(*unit[:2]) and not is_filler(*unit)
        return unit[0] < log_min_bytes if says else None

    while True:
        while low < high:
            middle = (low + high) // 2
            units = enumerate(decode_units(read(middle, min(PROBE_UNITS, high - middle))), middle)
            # A page of zeros decides nothing; the units after it do.
            used = (each for each in units if is_used(*each[1][:2]) and each[0] not in passed)
            at, unit = next(used, (0, None))
            if unit is not None and (unit[0] < log_min_bytes or is_filler(*unit)):
                low = at + 1
            else:
                high = middle
        found = low  # If in doubt it is too low, which hides no units.
        if is_gone(found - 1) and is_gone(found - 2) is False:
            odd = found - 1
        elif is_gone(found) is False and is_gone(found + 1) and is_gone(found + 2):
            odd = found
        else:
            return found
        if len(passed) == ODD_UNITS_MAX:
            return found
        passed.add(odd)
        low, high = first, end


def are_gone(units: bytes, log_min_bytes: int, least: int = 0) -> bool:
    """Whether two units that follow each other show that their records have left the log.

    One of them alone might be damaged.

    Args:
        least: how many of the units have to be no fillers.
    """
    found = [unit for unit in decode_units(units) if not is_filler(*unit)]
    offsets = [offset for offset, _, _ in found]
    are_used = all(is_used(offset, size) and offset < log_min_bytes for offset, size, _ in found)
    return are_used and len(found) >= least and offsets == sorted(offsets)


def list_queues(disk: Disk, folder: str) -> list[QueueKey]:
    """Return the keys of all queues, sorted. As in upstream, plain files are no topics.

    Raises: ConfigError: a plain file has the name of a queue's folder.
    """
    return sorted(finish(walk_queues(disk, folder)))


def named_queues(disk: Disk, folder: str) -> list[QueueKey]:
    """Return the keys of everything that is named like a queue, in no order. Raises: OSError."""
    return finish(walk_queue_names(disk, folder))


def walk_names(disk: Disk, folder: str) -> Generator[None, None, list[str]]:
    """Return the names in the folder of all topics, in no order. Yields after every few."""
    found: list[str] = []
    for name in disk.names(folder):
        found.append(name)
        if len(found) % NAMES_PER_STEP == 0:
            yield
    return found


def walk_queue_names(disk: Disk, folder: str) -> Generator[None, None, list[QueueKey]]:
    """Return the keys of everything that is named like a queue, in no order. Yields after every few
    topics.
    """
    queues: list[QueueKey] = []
    for number, topic in enumerate((yield from walk_names(disk, folder)), 1):
        names = names_in(disk, f"{folder}/{topic}")
        queues += [(topic, int(name)) for name in names if _is_queue_name(name)]
        if number % QUEUES_PER_STEP == 0:
            yield
    return queues


def _is_queue_name(name: str) -> bool:
    """Whether a name is a queue's. As in upstream, that is an int of Java's, in decimal."""
    if not (name.isascii() and name.isdigit()) or len(name) > QUEUE_DIGITS_MAX:
        return False
    return str(int(name)) == name and int(name) <= QUEUE_ID_MAX


def walk_queues(disk: Disk, folder: str) -> Generator[None, None, list[QueueKey]]:
    """Return the keys as `list_queues` does, in no order. Yields after every few topics."""
    queues = yield from walk_queue_names(disk, folder)
    for first in range(0, len(queues), QUEUES_PER_STEP):
        some = queues[first : first + QUEUES_PER_STEP]
        check_kinds(disk, folders=(queue_folder(folder, *queue) for queue in some), files=())
        if len(some) == QUEUES_PER_STEP:
            yield
    return queues


def list_bases(disk: Disk, folder: str) -> list[int]:
    """Return the positions at which the files in a queue's folder begin, ascending."""
    offsets = (segment_offset(name) for name in disk.listdir(folder))
    return [base for base in offsets if base is not None]


def scan_queue(disk: Disk, folder: str, file_bytes: int, below_bytes: int) -> Queue | None:
    """Find where a queue ends if only records that begin below offset `below_bytes` count.

    It reads little: the end is searched for in the last file that is in use, then the units right
    before it are read; if one of them is not in use, the queue ends there.

    Returns: None if a file is damaged, so that the queue has to be built anew.
    """
    bases = list_bases(disk, folder)
    sizes = [disk.stat(queue_path(folder, base)).size_bytes for base in bases]
    if sizes and sizes[-1] == 0:
        bases.pop()
    for number, base in enumerate(bases):
        expected = bases[0] + number * file_bytes
        if sizes[number] != file_bytes or base != expected or base % file_bytes:
            return None
    if not bases:
        return Queue(folder=folder, bases=bases)
    with closing(_Scan(disk, folder, file_bytes, below_bytes)) as scan:
        last = len(bases) - 1
        while last > 0 and not scan.count_used(bases[last], 1):
            last -= 1
        found = scan.find_end(bases[last])
        least = bases[max(0, last - FILES_RECOVERED + 1)]
        next_bytes, end_bytes = scan.look_back(found, least)
    return Queue(folder=folder, bases=bases, next_bytes=next_bytes, end_bytes=end_bytes)


def scan_cut_queue(
    disk: Disk, folder: str, file_bytes: int, below_bytes: int, known_bytes: int
) -> tuple[Queue | None, int]:
    """Find where a queue ends as `scan_queue` does, although the log may have been cut.

    Of a queue that loses units with the log, the unit at the new end has to show that: a damaged
    part would look like the end, and the queue offsets of the units in it would be given twice.

    Args:
        known_bytes: the offset up to which units were counted before the log was cut.

    Returns: the queue; None if it has to be built anew. And how many units (`units_count`) it had
        up to `known_bytes`, or `below_bytes` if that is higher.
    """
    whole = scan_queue(disk, folder, file_bytes, max(below_bytes, known_bytes))
    if whole is None or whole.end_bytes <= below_bytes:
        return whole, 0 if whole is None else whole.units_count
    queue = scan_queue(disk, folder, file_bytes, below_bytes)
    if queue is not None and queue.next_bytes < whole.next_bytes:
        with closing(_Scan(disk, folder, file_bytes, known_bytes)) as scan:
            if not scan.is_first_cut(queue.next_bytes, below_bytes):
                queue = None
    return queue, whole.units_count


@attrs.define
class _Scan:
    """Reads units of one queue by their position in bytes, with one open file."""

    _disk: Disk
    _folder: str
    _file_bytes: int
    _below_bytes: int
    _base: int = -1
    _file: File | None = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def find_end(self, base: int) -> int:
        """Return the position after the last used unit of the file at `base`.

        All units before it are taken to be in use, without reading each.
        """
        low, high = base, base + self._data_bytes(base)
        at = max(low, high - PROBE_UNITS * UNIT_BYTES)
        while low < high:
            size = min(PROBE_UNITS * UNIT_BYTES, high - at)
            used = self.count_used(at, size // UNIT_BYTES) * UNIT_BYTES
            if 0 < used < size:
                return at + used
            low, high = (at + used, high) if used else (low, at)
            half = (high - low) // 2
            near = high - low <= PROBE_UNITS * UNIT_BYTES
            at = low if near else low + half - half % UNIT_BYTES
        return low

    def _data_bytes(self, base: int) -> int:
        """Return the size of the file's units that may be in use: behind them a new file has a
        hole.
        """
        start, end = self._open(base).data_from(0)
        end += -end % UNIT_BYTES
        return 0 if start else min(end, self._file_bytes)

    def look_back(self, found: int, least: int) -> tuple[int, int]:
        """Return the position of the next unit, and the newest record's end; -1 if there are only
        fillers.

        Args:
            found: the position after the last unit, as searched for.
            least: the position at which the reading ends, where a file begins.
        """
        next_bytes, end_bytes, at = found, -1, found
        while at > least and end_bytes < 0:
            first = max(least, at - PROBE_UNITS * UNIT_BYTES)
            for number, unit in enumerate(self._units(first, at)):
                if not self._counts(unit):
                    next_bytes = first + number * UNIT_BYTES
                    break
                if not is_filler(*unit):
                    end_bytes = unit[0] + unit[1]
            at = first
        return next_bytes, end_bytes

    def count_used(self, at: int, count: int) -> int:
        """Return how many of the units from position `at` on are in use, up to the first that is
        not.
        """
        used = 0
        for unit in self._units(at, at + count * UNIT_BYTES):
            if not self._counts(unit):
                break
            used += 1
        return used

    def is_first_cut(self, at: int, cut_bytes: int) -> bool:
        """Whether the unit at position `at` is one of a record behind `cut_bytes`."""
        ((offset, size, _),) = self._units(at, at + UNIT_BYTES)
        return is_used(offset, size) and cut_bytes <= offset < self._below_bytes

    def _counts(self, unit: tuple[int, int, int]) -> bool:
        return is_used(unit[0], unit[1]) and unit[0] < self._below_bytes

    def _units(self, start: int, end: int) -> Generator[tuple[int, int, int], None, None]:
        while start < end:
            base = start - start % self._file_bytes
            size = min(end, base + self._file_bytes) - start
            yield from decode_units(self._open(base).pread(start - base, size))
            start += size

    def _open(self, base: int) -> File:
        if self._file is None or self._base != base:
            self.close()
            self._file = None
            self._file = self._disk.open(queue_path(self._folder, base), "r")
            self._base = base
        return self._file


@attrs.define
class QueueReader:
    """Reads units of many queues while their owner writes, with few open files.

    Attributes:
        folder: absolute path of `consumequeue/`.
        file_bytes: the size of every file; 0: there are no files.
        files_max: how many files are open at once.
    """

    _disk: Disk
    folder: str
    file_bytes: int
    files_max: int
    _files: OrderedDict[str, File | None] = attrs.field(factory=OrderedDict, init=False)

    def parts(self, key: QueueKey, start: int, size_bytes: int) -> Iterator[tuple[bytes, int]]:
        """Yield the bytes of a queue from position `start` on, file by file.

        Each pair is the bytes that the file has, and how many it should have. Raises: OSError.
        """
        folder, end = queue_folder(self.folder, *key), start + size_bytes
        while start < end and self.file_bytes:
            base = start - start % self.file_bytes
            wanted = min(end, base + self.file_bytes) - start
            file = self._open(queue_path(folder, base))
            yield (b"" if file is None else file.pread(start - base, wanted)), wanted
            start += wanted

    def close(self) -> None:
        """Close all files."""
        while self._files:
            self._close_oldest()

    def _open(self, path: str) -> File | None:
        """Open a file; None if it does not exist."""
        if path not in self._files:
            try:
                self._files[path] = self._disk.open(path, "r")
            except (FileNotFoundError, NotADirectoryError):
                self._files[path] = None
            if len(self._files) > self.files_max:
                self._close_oldest()
        self._files.move_to_end(path)
        return self._files[path]

    def _close_oldest(self) -> None:
        file = self._files.popitem(last=False)[1]
        if file is not None:
            file.close()
