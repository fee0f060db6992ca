"""Keeps consume queues, index, checkpoint and dispatch state of one store in step.

Recovery trusts only what the last flush recorded. Later units and entries are cut and derived
again, so that a lost page or a failed sync leaves no hole. If queues or index files are missing or
damaged, they are all derived from the whole log.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack

import attrs

from actors.config import CommitLogGroup
from actors.env import Env
from actors.env.path_kinds import is_folder
from actors.errors import NO_ROOM_CODES
from actors.readable import counted
from actors.storage.derived import queue_ends
from actors.storage.derived.consume_queue import ConsumeQueues
from actors.storage.derived.dispatch_state import (
    NEVER,
    UNKNOWN_COUNT,
    DispatchState,
    known_count,
    read_begun_anew,
    write_begun_anew,
)
from actors.storage.derived.index_files import IndexDamaged, IndexFiles, is_index_name
from actors.storage.derived.queue_files import (
    QUEUE_OFFSET_MAX,
    QUEUES_PER_STEP,
    QueueGap,
    QueueKey,
    is_deleted,
    is_safe_topic,
    light_heads,
    walk_names,
    walk_queues,
)
from actors.storage.derived.record_proof import RecordProof
from actors.storage.derived.small_files import (
    lower_logics_offset,
    read_checkpoint,
    read_deleted,
    write_checkpoint,
)
from actors.storage.derived.store_version import (
    NEWEST,
    UNKNOWN,
    WITH_LOGICS_OFFSET,
    WITH_TAG_KEYS,
    FoundFiles,
    number_of,
)
from actors.storage.files.side_file import SideFile
from actors.storage.layout import StoreLayout
from wire.files.commit_log import Checkpoint, RecordHead
from wire.files.consume_queue import is_filler
from wire.files.message_record import has_queue_unit


@attrs.frozen(kw_only=True)
class Flush:
    """What one flush makes durable. See `DerivedFiles.begin_flush`.

    Attributes:
        paths: the files and folders to sync.
        state: the dispatch state that is true once they are synced.
        checkpoint: the same, as a broker in Java reads it.
    """

    paths: tuple[str, ...]
    state: DispatchState
    checkpoint: Checkpoint

    def with_later(self, later: Flush | None) -> Flush:
        """Join this flush with a later one, if the sync of this one has not begun."""
        if later is None:
            return self
        return attrs.evolve(later, paths=(*self.paths, *later.paths))


@attrs.define
class Put:
    """What `DerivedFiles.put` did with the records.

    Attributes:
        refused: records that no queue can take.
        repeated: records to which no unit leads, because an older record has their queue offset.
        begun: records with which their queues began anew.
        units_count: how many units of older records were dropped because of `begun`.
    """

    refused: list[RecordHead] = attrs.field(factory=list)
    repeated: list[RecordHead] = attrs.field(factory=list)
    begun: list[RecordHead] = attrs.field(factory=list)
    units_count: int = 0


@attrs.define(kw_only=True)
class DerivedFiles:
    """The derived files of one store, owned by the dispatcher.

    Attributes:
        confirmed: gives the confirm offset that checkpoints say, of an auto-switch group's log;
            None: they say none.
        flushed_bytes: `DispatchState.dispatched_bytes` of the last flush.
        anew: why the start derives everything anew, for people; "" if it does not, or if it is the
            first start.
        version: the RocketMQ version whose files these are; see `store_version`.
        deleted: the topics that were deleted, by name, and when each was, in ms since 1970: no
            queue leads to what was stored until then.
        durable_bytes: the value of `flushed_bytes` that surely outlasts a crash. Units behind it
            may be cut after a crash, so the log has to keep the records behind it.
    """

    env: Env
    layout: StoreLayout
    group: CommitLogGroup
    confirmed: Callable[[], int] | None = None
    flushed_bytes: int = attrs.field(default=0, init=False)
    durable_bytes: int = attrs.field(default=0, init=False)
    anew: str = attrs.field(default="", init=False)
    version: int = attrs.field(default=NEWEST, init=False)
    deleted: Mapping[str, int] = attrs.field(factory=dict, init=False)
    queues: ConsumeQueues = attrs.field(init=False)
    index: IndexFiles = attrs.field(init=False)
    _side: SideFile = attrs.field(init=False)
    _state: DispatchState | None = attrs.field(default=None, init=False)
    _checkpoint: Checkpoint = attrs.field(factory=Checkpoint, init=False)
    _checkpoint_due: bool = attrs.field(default=False, init=False)
    _last_ts: int = attrs.field(default=0, init=False)
    _last_bytes: int = attrs.field(default=0, init=False)
    _begun_anew_bytes: int = attrs.field(default=NEVER, init=False)

    def __attrs_post_init__(self) -> None:
        self._make_empty()

    def _make_empty(self) -> None:
        disk, group = self.env.disk, self.group
        self.queues = ConsumeQueues(disk, self.layout.consume_queue, group.consume_queue_bytes)
        self.index = IndexFiles(
            disk,
            self.layout.index,
            group.index_slots_count,
            group.index_units_count,
            self.env.wall_clock_ms,
        )
        self.index.with_tag_keys = self.version >= WITH_TAG_KEYS

    def recover(self, log_min_bytes: int, limit_bytes: int) -> Generator[None, None, int]:
        """Load all files. Returns: the offset from which on the log has to be dispatched.

        Args:
            limit_bytes: the end of what may be dispatched; whatever was derived from later records
                is cut.

        Raises: ConfigError, OSError. Yields at least every 4 MiB.
        """
        self.deleted = read_deleted(self.env.disk, self.layout.topics)
        self._side, state = DispatchState.open(self.env.disk, self.layout.dispatched)
        with ExitStack() as files:
            files.callback(self._close_files)
            at_bytes = yield from self._load(state, log_min_bytes, limit_bytes)
            files.pop_all()
        return at_bytes

    def _load(
        self, state: DispatchState | None, log_min_bytes: int, limit_bytes: int
    ) -> Generator[None, None, int]:
        disk = self.env.disk
        self.version = yield from self._find_version(state, log_min_bytes, limit_bytes)
        self.index.with_tag_keys = self.version >= WITH_TAG_KEYS
        ends, dropped = None, False
        try:
            known = state, self.group.consume_queue_bytes, limit_bytes
            ends = yield from queue_ends.read_queue_ends(disk, self.layout, *known)
        except queue_ends.QueueFilesGone:
            dropped = True
        yield  # releasing some MB and syncing a folder take time, so each gets a turn of its own
        queue_ends.remove_queue_ends(disk, self.layout)  # before anything changes
        yield
        found = list(ends or (yield from walk_queues(disk, self.layout.consume_queue)))
        self.queues.log_min_bytes = log_min_bytes
        self._begun_anew_bytes = read_begun_anew(disk, self.layout.begun_anew)
        if state is None or len(found) < state.queue_count:
            if state is not None:
                lost = state.queue_count - len(found)
                self.anew = (
                    f"{lost:,} of {counted(state.queue_count, 'queue')} not there: they come back"
                )
                self.anew += " with their records"
            elif found:
                self.anew = "nothing says how far they reach"
            yield from self._start_over(log_min_bytes)
            return log_min_bytes
        trusted = min(state.dispatched_bytes, limit_bytes)
        # units that were dropped for a later record are missing
        if trusted <= self._begun_anew_bytes:
            self.anew = "the log ends where a queue had not begun anew yet"
            yield from self._start_over(log_min_bytes)
            return log_min_bytes
        # Before anything is cut: a later start must not trust what is going to be missing.
        self._note(state.up_to(trusted))
        if ends:
            self.queues.take(ends)
        elif not dropped:
            dropped = yield from self.queues.recover(found, trusted, state.dispatched_bytes)
        below_bytes = max(trusted, state.dispatched_bytes)
        dropped |= state.lacks_units(self.queues.known_count, below_bytes)
        try:
            dropped |= yield from self.index.recover(state)
            if not dropped:
                yield from self.index.cut(trusted)
        except IndexDamaged:
            dropped = True
        if dropped:
            self.anew = "units or entries are missing or damaged"
            yield from self.begin_anew(log_min_bytes)
            return log_min_bytes
        self._note(self._state_at(trusted, trusted))
        reached = read_checkpoint(disk, self.layout.checkpoint).logics_offset
        self._last_bytes = min(reached, trusted)
        self._checkpoint = Checkpoint(logics_offset=self._last_bytes)
        return max(trusted, log_min_bytes)

    def _find_version(
        self, state: DispatchState | None, log_min_bytes: int, limit_bytes: int
    ) -> Generator[None, None, int]:
        group = self.group
        if group.store_version is not None:
            return number_of(group.store_version)
        if state is not None and state.store_version > UNKNOWN:
            return state.store_version
        found = FoundFiles(
            self.env.disk,
            self.layout,
            group.segment_bytes,
            group.index_slots_count,
            group.index_units_count,
            log_min_bytes,
            limit_bytes,
        )
        return (yield from found.version()) or NEWEST

    def _start_over(self, at_bytes: int) -> Generator[None, None, None]:
        """Remove all derived files, so that everything from `at_bytes` on is derived again.

        Yields after each topic.
        """
        lower_logics_offset(self.env.disk, self.layout.checkpoint, at_bytes)
        self._note(
            DispatchState(
                dispatched_bytes=at_bytes,
                seen_bytes=at_bytes,
                queue_count=0,
                store_version=self.version,
            )
        )
        if self._begun_anew_bytes != NEVER:
            write_begun_anew(self.env.disk, self.layout.begun_anew, NEVER)
            self._begun_anew_bytes = NEVER
        self.queues.log_min_bytes = at_bytes
        yield from self._remove_all()

    def _remove_all(self) -> Generator[None, None, None]:
        """Remove all topics' folders and all index files. Other files are not ours: a broker with
        storeType = defaultRocksDB keeps its own in `consumequeue/`.
        """
        disk, topics, index = self.env.disk, self.layout.consume_queue, self.layout.index
        for folder in (topics, index):
            disk.mkdir(folder)
        for name in (yield from walk_names(disk, topics)):
            if is_folder(disk, f"{topics}/{name}"):
                disk.rmtree(f"{topics}/{name}")
                yield
        for name in filter(is_index_name, disk.listdir(index)):
            disk.unlink(f"{index}/{name}")
        for folder in (topics, index):
            disk.sync_dir(folder)

    def begin_anew(self, log_min_bytes: int) -> Generator[None, None, None]:
        """Remove all derived files; the log has to be dispatched again from its first byte.
        Yields.
        """
        self.queues.close()
        self.index.close()
        self._make_empty()
        yield from self._start_over(log_min_bytes)

    def rebuild_queue(self, gap: QueueGap, log_min_bytes: int) -> None:
        """Drop a queue that lacks units; the log has to be dispatched again from its first byte."""
        self.distrust(log_min_bytes)
        self.queues.drop(gap.topic, gap.queue_id)

    def distrust(self, log_min_bytes: int) -> None:
        """Make the next start derive everything again. Raises: OSError: nothing else has
        changed.
        """
        lower_logics_offset(self.env.disk, self.layout.checkpoint, log_min_bytes)
        self._note(self._state_at(log_min_bytes, log_min_bytes))
        self._last_bytes = log_min_bytes

    def _note(self, state: DispatchState) -> None:
        """Record what may be trusted from now on; it is synced when this returns."""
        self.flushed_bytes = state.dispatched_bytes
        self.durable_bytes = min(self.durable_bytes, state.dispatched_bytes)
        if state != self._state:
            self._side.write(state.values())
            self._side.sync()
            self._state = state
            self.durable_bytes = state.dispatched_bytes

    @property
    def queue_count(self) -> int:
        return len(self.queues)

    @property
    def created_count(self) -> int:
        """The number of queue files made since the last flush began."""
        return self.queues.created_count

    def put(
        self, heads: Sequence[RecordHead], put: Put | None = None
    ) -> Generator[None, None, None]:
        """Add units and entries for records, in log order, and record in `put` what was done.

        Raises: QueueGap: units were lost, call `rebuild_queue`. OSError. Yields after every few
            queues.
        """
        put = Put() if put is None else put
        by_queue: dict[tuple[str, int], list[RecordHead]] = {}
        topic, queue_id, is_safe = "", -1, False
        group: list[RecordHead] = []
        for head in heads:
            if head.queue_id != queue_id or head.topic != topic:
                topic, queue_id = head.topic, head.queue_id
                is_safe = queue_id >= 0 and is_safe_topic(topic)
                group = by_queue.setdefault((topic, queue_id), [])
            if not is_safe or not 0 <= head.queue_offset < QUEUE_OFFSET_MAX:
                put.refused.append(head)
            elif has_queue_unit(head.sys_flag):
                group.append(head)
                if head.light_queues:
                    for light in light_heads(head):
                        by_queue.setdefault((light.topic, 0), []).append(light)
        for number, key in enumerate(sorted(by_queue), 1):
            found = by_queue[key]
            if key[0] in self.deleted:
                found = [head for head in found if not self.is_deleted(key[0], head)]
            if found:
                self._put_queue(key, found, heads[-1].physical_offset, put)
            if number % QUEUES_PER_STEP == 0:
                yield
        self.index.put(heads)
        if heads:
            self._last_ts = heads[-1].store_ts
            # A broker refuses a 0, so for a log's first record its end is used.
            self._last_bytes = heads[-1].physical_offset or heads[-1].size

    def _put_queue(
        self, key: tuple[str, int], heads: Sequence[RecordHead], last_bytes: int, put: Put
    ) -> None:
        """Add the units of the records of one queue; the batch's last record begins at
        `last_bytes`.
        """
        while True:
            count, repeated = self.queues.put(*key, heads)
            put.repeated += repeated
            heads = heads[count:]
            if not heads:
                return
            if self._begun_anew_bytes < last_bytes:
                write_begun_anew(self.env.disk, self.layout.begun_anew, last_bytes)
                self._begun_anew_bytes = last_bytes
            put.units_count += self.queues.remove(*key)
            put.begun.append(heads[0])

    def is_deleted(self, topic: str, head: RecordHead) -> bool:
        """Whether a record was stored before its topic, or that of its light queue, was deleted."""
        return is_deleted(topic, head, self.deleted)

    def delete_topics(
        self, topics: Mapping[str, int], proof: RecordProof
    ) -> Generator[None, None, list[QueueKey]]:
        """Remove the queues of deleted topics in which nothing was stored later, and their folders.

        No flush may be under way, whose end would count them.

        Args:
            topics: as `deleted` is from now on.
            proof: reads the newest records of the queues.

        Returns: the queues that were removed. Raises: OSError; it may be repeated. Yields after
            every few queues.
        """
        self.deleted = topics
        named = [key for key in self.queues.by_key if key[0] in topics]
        gone: list[QueueKey] = []
        for number, key in enumerate(named, 1):
            if self._ends_deleted(key, proof):
                gone.append(key)
            if number % QUEUES_PER_STEP == 0:
                yield
        if gone and self._state is not None:  # a start must not look for what is being removed
            count = max(0, self._state.queue_count - len(gone))
            state = attrs.evolve(self._state, queue_count=count, units_count=UNKNOWN_COUNT)
            self._note(state)
        for number, key in enumerate(gone, 1):
            self.queues.remove(*key)
            if number % QUEUES_PER_STEP == 0:
                yield
        for number, topic in enumerate(filter(is_safe_topic, topics), 1):
            self.queues.remove_topic(topic)
            if number % QUEUES_PER_STEP == 0:
                yield
        return gone

    def _ends_deleted(self, key: QueueKey, proof: RecordProof) -> bool:
        """Whether all records of a queue were stored before its topic was deleted, as its newest
        one was; that has left the log, or is not there, if nothing can be read.
        """
        if not self.queues.by_key[key].bases:  # there was no room for its first file yet
            return True
        number = self.queues.next_offset(*key) - 1
        try:
            ((offset, size, code),) = self.queues.units(*key, number, 1)
        except QueueGap:
            return False  # it is built anew
        if is_filler(offset, size, code) or offset < proof.min_bytes:
            return True
        head = proof.head_at(offset)
        return head is not None and self.is_deleted(key[0], head)

    def begin_flush(self, at_bytes: int, seen_bytes: int, synced_bytes: int) -> Flush | None:
        """Begin a flush: return what has to be synced; None if nothing has changed.

        Args:
            at_bytes: all records before this offset were dispatched.
            seen_bytes: the log's end.
            synced_bytes: the end of what is synced of the log itself.
        """
        state = self._state_at(at_bytes, seen_bytes)
        paths = (*self.queues.take_dirty(), *self.index.take_dirty())
        confirmed = 0 if self.confirmed is None else min(self.confirmed(), seen_bytes)
        is_due = self._checkpoint_due or confirmed != self._checkpoint.confirm_offset
        if not (state != self._state or paths or is_due or self._keeps_files):
            return None
        last_ts, is_synced = self._last_ts, at_bytes <= synced_bytes
        logics_offset = self._last_bytes if is_synced else self._checkpoint.logics_offset
        checkpoint = Checkpoint(
            log_ts=last_ts if is_synced else self._checkpoint.log_ts,
            queue_ts=last_ts,
            index_ts=self.index.full_end_ts,
            confirm_offset=confirmed,
            logics_offset=logics_offset if self.version >= WITH_LOGICS_OFFSET else 0,
        )
        if self._state is not None:
            paths = (*paths, self._side.path)  # the flush before wrote to it
        return Flush(paths=paths, state=state, checkpoint=checkpoint)

    @property
    def _keeps_files(self) -> bool:
        """Whether the log has to keep a file only because the state of the last flush is not
        synced.
        """
        size = self.group.segment_bytes
        return self.durable_bytes // size < self.flushed_bytes // size

    def _state_at(self, at_bytes: int, seen_bytes: int) -> DispatchState:
        name, header = self.index.newest()
        ahead = self.queues.end_bytes > at_bytes  # a rebuild is under way, or the disk is full
        return DispatchState(
            dispatched_bytes=at_bytes,
            seen_bytes=seen_bytes,
            queue_count=self.queue_count,
            index_name=name,
            index_units_next=header.units_next,
            index_slots_used=header.slots_used,
            index_end_ts=header.end_ts,
            index_end_offset=header.end_offset,
            units_count=UNKNOWN_COUNT if ahead else known_count(self.queues.units_count),
            store_version=self.version,
        )

    def trim(self, log_min_bytes: int) -> Generator[None, None, None]:
        """Delete the files whose last record has left the log. Yields."""
        self.queues.log_min_bytes = log_min_bytes
        yield from self.queues.trim(log_min_bytes)
        self.index.trim(log_min_bytes)

    def take_gone(self) -> tuple[str, ...]:
        """Return the paths deleted since the last call."""
        return (*self.queues.take_gone(), *self.index.take_gone())

    def end_flush(self, flush: Flush) -> None:
        """Record a flush, whose paths are synced now. The side file itself is synced with the next
        one.
        """
        self.durable_bytes = self.flushed_bytes
        if not self._side.note(flush.state.values()):
            # the state before is still the newest one that is synced; the next flush records this
            # one
            return
        self._state = flush.state
        self.flushed_bytes = flush.state.dispatched_bytes
        checkpoint, path = flush.checkpoint, self.layout.checkpoint
        if not checkpoint.queue_ts:
            if checkpoint.confirm_offset == self._checkpoint.confirm_offset:
                return
            # nothing was derived since the start, so the rest is as it was
            found = read_checkpoint(self.env.disk, path)
            checkpoint = attrs.evolve(found, confirm_offset=checkpoint.confirm_offset)
        try:
            # lower while a rebuild is under way
            reached = min(checkpoint.logics_offset, self._last_bytes)
            checkpoint = attrs.evolve(checkpoint, logics_offset=reached)
            write_checkpoint(self.env.disk, path, checkpoint)
        except OSError as error:
            if error.errno not in NO_ROOM_CODES:
                raise
            self._checkpoint_due = True  # the checkpoint may be old, so it waits for the next flush
        else:
            self._checkpoint_due = False
            self._checkpoint = checkpoint

    def leave_ends(self) -> Generator[None, None, None]:
        """Write the ends of all queues for the next start, at an ordered stop, after its flush.

        It is written only if all records are dispatched and there is room. Yields after every few
        queues.
        """
        state, queues = self._state, self.queues
        if state is None or state.dispatched_bytes != state.seen_bytes:
            return
        if known_count(queues.units_count) != state.units_count or not all(q.bases for q in queues):
            return
        try:
            yield from queue_ends.write_queue_ends(
                self.env.disk, self.layout, state, queues.file_bytes, queues.by_key
            )
        except OSError as error:
            if error.errno not in NO_ROOM_CODES:
                raise

    def close(self) -> None:
        """Close all files. The last state is synced first, because it decides what the next start
        does.
        """
        try:
            self._side.sync()
        finally:
            self._close_files()

    def _close_files(self) -> None:
        self._side.close()
        self.queues.close()
        self.index.close()
