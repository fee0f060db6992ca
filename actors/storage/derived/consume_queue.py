"""The consume queues of a store: for each queue of each topic, where its n-th record is in the log.

Upstream: apache/rocketmq store/.../ConsumeQueue.java, queue/ConsumeQueueStore.java (5.3.3);
classic-ha.md 4.9. Units and names: `wire.files.consume_queue`.

Differs:
- A unit's position is 20 times its queue offset. A gap before it means that units were lost:
  QueueGap is raised, and the queue is built anew. Upstream logs a bug and appends at the wrong
  position.
- Behind the last unit everything is zero after recovery.
- If a record with queue offset 0 follows others of its queue, because its topic was deleted and
  made again, the queue begins anew. Upstream's slave drops this record and those that follow.
- New files and folders are synced with the flush that covers their units, not before: otherwise a
  batch for hundreds of new topics would wait for as many syncs.
- Queues with a file of a wrong size are dropped and built anew; upstream refuses the start.
- A start is refused, with one line, if a plain file has the name of a queue's folder.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial

import attrs

from actors.env.protocols import Disk, File
from actors.storage.derived.queue_files import (
    QUEUES_PER_STEP,
    Queue,
    QueueGap,
    QueueKey,
    Unit,
    are_gone,
    first_kept,
    list_bases,
    queue_folder,
    queue_key,
    queue_path,
    scan_cut_queue,
)
from actors.storage.files.whole_files import create_sized
from wire.files.commit_log import RecordHead
from wire.files.consume_queue import FILLER_UNIT, UNIT_BYTES, decode_unit, decode_units, encode_unit

HANDLES_MAX = 64
"""How many queue files are kept open; the one that was used longest ago is closed first."""
READ_UNITS_MAX = 4096
"""How many units one lookup returns at most."""
_UNREADABLE = (errno.ENOENT, errno.EIO)
"""The file was removed, or the disk cannot read it."""
_CHUNK_BYTES = 1 << 20
"""How many bytes are read at once to find bytes that are not zero."""


@attrs.define
class ConsumeQueues:
    """All consume queues of one store, owned by the dispatcher.

    Attributes:
        folder: absolute path of `consumequeue/`.
        file_bytes: the size of every file, a multiple of 20.
        log_min_bytes: the log's first offset. No unit below it leads to a record any more.
        known_count: what `units_count` was before units were cut; it is set by `recover` and
            `take`.
    """

    _disk: Disk
    folder: str
    file_bytes: int
    log_min_bytes: int = attrs.field(default=0, init=False)
    known_count: int = attrs.field(default=0, init=False)
    _queues: dict[QueueKey, Queue] = attrs.field(factory=dict, init=False)
    _handles: OrderedDict[str, File] = attrs.field(factory=OrderedDict, init=False)
    _dirty: dict[str, None] = attrs.field(factory=dict, init=False)
    _gone: list[str] = attrs.field(factory=list, init=False)
    _filled: set[QueueKey] = attrs.field(factory=set, init=False)
    _end_bytes: int = attrs.field(default=-1, init=False)
    _units_count: int = attrs.field(default=0, init=False)
    _created_count: int = attrs.field(default=0, init=False)

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def end_bytes(self) -> int:
        """The largest end of a record that has or had a unit, in bytes of the log; -1 without any.
        Upstream: "max dispatched offset".
        """
        return self._end_bytes

    @property
    def units_count(self) -> int:
        """The sum of the `units_count` of all queues."""
        return self._units_count

    @property
    def created_count(self) -> int:
        """How many files were made since the last `take_dirty`; their names may not be on the disk
        yet.
        """
        return self._created_count

    @property
    def by_key(self) -> Mapping[QueueKey, Queue]:
        return self._queues

    def __iter__(self) -> Iterator[Queue]:
        return iter(self._queues.values())

    def recover(
        self, found: Sequence[QueueKey], log_end_bytes: int, known_bytes: int = 0
    ) -> Generator[None, None, bool]:
        """Load all queues, and cut the units of records that begin at or behind the log's end.

        Args:
            found: the queues of the store.
            known_bytes: the offset up to which units were counted, for `known_count`.

        Returns: whether a queue was dropped, so that the whole log has to be dispatched again.
        Raises: OSError. Yields after every few queues.
        """
        dropped = False
        for number, key in enumerate(found, 1):
            path = self._folder_of(*key)
            ends = self.file_bytes, log_end_bytes, known_bytes
            queue, count = scan_cut_queue(self._disk, path, *ends)
            self.known_count += count
            if number % QUEUES_PER_STEP == 0:
                yield
            if queue is None or (count and queue.end_bytes < 0):  # all was cut with the log
                self._remove(path)
                dropped |= queue is None
            elif queue.end_bytes < 0:
                self._empty(queue)
                self._queues[key] = queue
            else:
                yield from self._cut(queue)
                self._queues[key] = queue
                self._end_bytes = max(self._end_bytes, queue.end_bytes)
                self._units_count += queue.units_count
        return dropped

    def take(self, found: Mapping[QueueKey, Queue]) -> None:
        """Load all queues from the table of `queue_ends`, without reading their files."""
        self._queues = dict(found)
        self._end_bytes = max((queue.end_bytes for queue in self), default=-1)
        self.known_count = self._units_count = sum(queue.units_count for queue in self)

    def drop(self, topic: str, queue_id: int) -> None:
        """Delete a queue whose units are incomplete. Dispatching the whole log again
        rebuilds it.
        """
        self.remove(topic, queue_id)
        self._filled.add((topic, queue_id))

    def remove(self, topic: str, queue_id: int) -> int:
        """Delete a queue that begins anew. Returns: how many units it had."""
        queue = self._queues.pop((topic, queue_id))
        self._units_count -= queue.units_count
        for base in queue.bases:
            self._forget(queue_path(queue.folder, base))
        self._remove(queue.folder)
        return (queue.next_bytes - queue.bases[0]) // UNIT_BYTES if queue.bases else 0

    def remove_topic(self, topic: str) -> None:
        """Delete the folder of a topic without queues, if it is there and nothing else is in it."""
        folder = f"{self.folder}/{topic}"
        if self._disk.exists(folder) and not self._disk.listdir(folder):
            self._forget(folder)
            self._remove(folder)

    def put(
        self, topic: str, queue_id: int, heads: Sequence[RecordHead]
    ) -> tuple[int, list[RecordHead]]:
        """Add the units of records of one queue, in log order; records that have their unit are
        left out.

        Returns: how many records it took, for it stops before a record for which the queue has to
            begin anew (`remove`); and those of them whose queue offset an older record has, so no
            unit can lead to them.

        Raises: QueueGap: units are missing; those of the records before the gap are added. OSError.
        """
        key = (topic, queue_id)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._create(key, heads[0].queue_offset)
        out = bytearray()
        expected = queue.next_bytes
        repeated: list[RecordHead] = []
        before = queue.units_count
        try:
            for number, head in enumerate(heads):
                at = head.queue_offset * UNIT_BYTES
                if at < expected:
                    if head.physical_offset < queue.end_bytes:
                        continue
                    if at == 0 or queue.end_bytes <= self.log_min_bytes:
                        return number, repeated
                    repeated.append(head)
                    continue
                if at > expected:
                    self._write(queue, out)
                    out = bytearray()
                    self._skip(key, queue, at)
                physical_offset, size = head.physical_offset, head.size
                out += encode_unit(physical_offset, size, head.tags_code)
                queue.end_bytes = physical_offset + size
                expected = at + UNIT_BYTES
        finally:
            try:
                self._write(queue, out)
            finally:
                self._end_bytes = max(self._end_bytes, queue.end_bytes)
                self._units_count += queue.units_count - before
        return len(heads), repeated

    def next_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of the queue's next record; 0 for a queue that does not exist."""
        queue = self._queues.get((topic, queue_id))
        return 0 if queue is None else queue.next_offset

    def min_offset(self, topic: str, queue_id: int, log_min_bytes: int) -> int:
        """Return the queue offset of the first unit whose record is still in the log.

        If there is none, that is the queue offset of the next record.
        """
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            return 0
        if not queue.bases:  # there was no room for its first file yet
            return queue.next_offset
        low, high = queue.bases[0] // UNIT_BYTES, queue.next_offset
        return first_kept(partial(self._read, queue), low, high, log_min_bytes)

    def units(self, topic: str, queue_id: int, offset: int, count: int) -> tuple[Unit, ...]:
        """Return up to `count` units from `offset` on, which lie in one file.

        `offset` has to be at least `min_offset`. Raises: QueueGap, OSError; so does `min_offset`.
        """
        queue = self._queues.get((topic, queue_id))
        if queue is None or offset >= queue.next_offset:
            return ()
        assert offset >= queue.bases[0] // UNIT_BYTES
        count = min(count, READ_UNITS_MAX, queue.next_offset - offset)
        return tuple(decode_units(self._read(queue, offset, count)))

    def trim(self, log_min_bytes: int) -> Generator[None, None, int]:
        """Delete files whose last record has left the log, but never a queue's last file.

        Returns: how many files were deleted.
        Raises: QueueGap, OSError. Yields after each queue of several files.
        """
        deleted = 0
        count = min(2, self.file_bytes // UNIT_BYTES)
        for queue in tuple(queue for queue in self if len(queue.bases) > 1):
            while len(queue.bases) > 1:
                end = queue.bases[1] // UNIT_BYTES
                # If the end is damaged, the beginning of the next file decides, a little later: the
                # scrub cannot mend a unit whose record has left the log.
                if not are_gone(self._read(queue, end - count, count), log_min_bytes) and (
                    not are_gone(self._read(queue, end, count), log_min_bytes, count)
                ):
                    break
                path = queue_path(queue.folder, queue.bases.pop(0))
                self._forget(path)
                self._disk.unlink(path)
                self._dirty[queue.folder] = None
                deleted += 1
            yield
        return deleted

    def rewrite(
        self, topic: str, queue_id: int, offset: int, found: bytes, wanted: bytes | None
    ) -> bool:
        """Replace a unit if it still is `found`. Returns: whether it was.

        Args:
            wanted: the new bytes; None: nothing is replaced.
        """
        queue, at = self._queues.get((topic, queue_id)), offset * UNIT_BYTES
        is_there = queue and queue.bases and queue.bases[0] <= at < queue.next_bytes
        if not queue or not is_there or self._read(queue, offset, 1) != found:
            return False
        if wanted is not None:
            file = self._open(queue, at - at % self.file_bytes)
            file.pwrite(wanted, at % self.file_bytes)
            self._dirty[file.path] = None
            if at + UNIT_BYTES == queue.next_bytes:
                queue.end_bytes = sum(decode_unit(wanted)[:2])
        return True

    def take_dirty(self) -> tuple[str, ...]:
        """Return the files and folders changed since the last call, which a flush has to sync."""
        paths = tuple(self._dirty)
        self._dirty.clear()
        self._created_count = 0
        return paths

    def take_gone(self) -> tuple[str, ...]:
        """Return the paths deleted since the last call; whoever has them open closes them."""
        paths = tuple(self._gone)
        self._gone.clear()
        return paths

    def close(self) -> None:
        while self._handles:
            self._handles.popitem()[1].close()

    def _folder_of(self, topic: str, queue_id: int) -> str:
        return queue_folder(self.folder, topic, queue_id)

    def _create(self, key: QueueKey, first_offset: int) -> Queue:
        """Make a queue that begins at `first_offset`; fillers stand before it in its first file."""
        queue = Queue(folder=self._folder_of(*key), bases=[])
        self._disk.mkdir(queue.folder, sync=False)
        self._dirty |= dict.fromkeys((self.folder, f"{self.folder}/{key[0]}"))
        try:
            self._begin_at(queue, first_offset * UNIT_BYTES)
        except OSError:  # an incomplete queue would look like one that has lost units
            for base in queue.bases:
                self._forget(queue_path(queue.folder, base))
            self._remove(queue.folder)
            raise
        self._queues[key] = queue
        return queue

    def _remove(self, folder: str) -> None:
        """Delete the folder of a queue; the next flush syncs that."""
        self._disk.rmtree(folder)
        self._dirty[folder.rpartition("/")[0]] = None

    def _empty(self, queue: Queue) -> None:
        """Delete the files of a queue that a start found without a unit.

        Its folder stays: a queue that may have lost all its units has to begin with unit 0, or to
        be built anew (`_skip`).
        """
        for base in list_bases(self._disk, queue.folder):
            self._disk.unlink(queue_path(queue.folder, base))
            self._dirty[queue.folder] = None
        queue.bases.clear()
        queue.next_bytes = 0

    def _begin_at(self, queue: Queue, at: int) -> None:
        base = at - at % self.file_bytes
        queue.next_bytes = base
        self._write(queue, FILLER_UNIT * ((at - base) // UNIT_BYTES))

    def _skip(self, key: QueueKey, queue: Queue, at: int) -> None:
        """Deal with missing units before position `at`: after a rebuild, the log itself lacks the
        records.

        Raises: QueueGap: the queue was not built anew yet.
        """
        expected = queue.next_bytes
        if key not in self._filled:
            missing, got = expected // UNIT_BYTES, at // UNIT_BYTES
            raise QueueGap(*key, f"unit {missing} is missing before {got}")
        if at - expected <= self.file_bytes:
            self._write(queue, FILLER_UNIT * ((at - expected) // UNIT_BYTES))
            return
        while queue.bases:
            path = queue_path(queue.folder, queue.bases.pop())
            self._forget(path)
            self._disk.unlink(path)
        self._begin_at(queue, at)

    def _cut(self, queue: Queue) -> Generator[None, None, None]:
        """Overwrite everything behind the last unit with zeros, and delete files that hold nothing.

        This is not synced: a later start cuts again what a power loss brings back. Yields where a
        file is long and has no holes.
        """
        for base in list_bases(self._disk, queue.folder):
            if base not in queue.bases:  # a crash left it with 0 bytes
                self._disk.unlink(queue_path(queue.folder, base))
        while queue.bases[-1] >= queue.next_bytes and len(queue.bases) > 1:
            self._disk.unlink(queue_path(queue.folder, queue.bases.pop()))
            self._dirty[queue.folder] = None
        base = queue.bases[-1]
        path, at = queue_path(queue.folder, base), queue.next_bytes - base
        with closing(self._disk.open(path, "w")) as file:
            while at < self.file_bytes:
                start, end = file.data_from(at)
                at = min(start, self.file_bytes)
                size = min(end, self.file_bytes, at + _CHUNK_BYTES) - at
                rest = file.pread(at, size)
                if rest.count(0) != size:
                    file.pwrite(bytes(size), at)
                    self._dirty[path] = None
                at += size
                if size == _CHUNK_BYTES:
                    yield

    def _write(self, queue: Queue, data: bytes | bytearray) -> None:
        done = 0
        while done < len(data):
            base = queue.next_bytes - queue.next_bytes % self.file_bytes
            at = queue.next_bytes - base
            part = data[done : done + self.file_bytes - at]
            file = self._open(queue, base)
            file.pwrite(part, at)
            self._dirty[file.path] = None
            queue.next_bytes += len(part)
            done += len(part)

    def _read(self, queue: Queue, offset: int, count: int) -> bytes:
        """Read whole units from one file. Raises: QueueGap: they cannot be read. OSError."""
        at = offset * UNIT_BYTES
        base = at - at % self.file_bytes
        size = min(count * UNIT_BYTES, base + self.file_bytes - at)
        try:
            data = self._open(queue, base).pread(at - base, size)
        except OSError as error:
            if error.errno not in _UNREADABLE:
                raise
            raise QueueGap(*queue_key(queue), f"unit {offset} cannot be read: {error}") from error
        if len(data) < size:
            raise QueueGap(*queue_key(queue), f"unit {offset} is missing: its file is cut short")
        return data

    def _open(self, queue: Queue, base: int) -> File:
        path = queue_path(queue.folder, base)
        file = self._handles.get(path)
        if file is not None:
            self._handles.move_to_end(path)
            return file
        if not queue.bases or base > queue.bases[-1]:
            file = create_sized(self._disk, path, self.file_bytes, sync=False)
            queue.bases.append(base)
            self._dirty[queue.folder] = None
            self._created_count += 1
        else:
            file = self._disk.open(path, "w")
        self._handles[path] = file
        while len(self._handles) > HANDLES_MAX:
            self._handles.popitem(last=False)[1].close()
        return file

    def _forget(self, path: str) -> None:
        self._dirty.pop(path, None)
        self._gone.append(path)
        file = self._handles.pop(path, None)
        if file is not None:
            file.close()
