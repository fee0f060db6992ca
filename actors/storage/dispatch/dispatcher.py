"""Dispatcher: derives consume queues and index from the log while it is written, and answers
lookups.

Upstream: apache/rocketmq store/.../DefaultMessageStore.java, ReputMessageService,
FlushConsumeQueueService; index/IndexService.java (5.3.3); classic-ha.md 4.8.

Differs:
- If the log ends within a record, as is normal on a slave, a master waits for the rest too;
  upstream's master skips what it has read.
- It is woken soon after the log has grown, without a poll. In a `synced` group it reads only synced
  bytes.
- It records how far everything is flushed (`dispatch_state`).
- It derives only from bytes that were compared with their digests, and halts at damage
  (`dispatch_checks`).

Messages: see `dispatcher_messages`. The store tells it LogGrew; any actor may send the others. It
asks the store for its range when it starts, asks the scrubber Check, and tells the store SetFloor
and ForgetTopics. A restart loads the files anew. A disk error is final, as for the store, and the
supervisor has to end the group; but if the disk is full, it waits for room.

A lookup trusts no derived file: it reads every record to which a unit or an entry leads.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import Final, TypeAlias, assert_never

import attrs
import trio

from actors.config import CommitLogGroup
from actors.env import Env
from actors.env.protocols import SYNC_PATHS_MAX, Disk, Syncer
from actors.errors import NO_ROOM_CODES, CorruptLog, StorageError
from actors.events import store as events
from actors.runtime import Actor, ActorDown, ActorRef, AskTimeout, MailboxSpec, StopReason
from actors.storage.commitlog.recovery import UNLIKE
from actors.storage.commitlog.store_messages import (
    ForgetTopics,
    GetRange,
    LogGrew,
    LogRange,
    SetFloor,
)
from actors.storage.commitlog.store_messages import Message as StoreMessage
from actors.storage.derived.derived_files import DerivedFiles, Flush, Put
from actors.storage.derived.derived_mends import mend_in_room
from actors.storage.derived.queue_files import QueueGap, QueueKey
from actors.storage.derived.record_proof import RecordProof, shown
from actors.storage.dispatch.dispatch_checks import CHECK_TIMEOUT_S, DispatchChecks, compared_alone
from actors.storage.dispatch.dispatcher_messages import (
    DeleteTopics,
    Dispatched,
    GetDispatched,
    GetScrubRange,
    KeyMatches,
    LookupKey,
    LookupQueue,
    MendDerived,
    Mended,
    Message,
    QueueUnits,
    Rederive,
    Rederived,
    ScrubRange,
    TopicsDeleted,
)
from actors.storage.dispatch.rederiving import WHY, MendedRanges
from actors.storage.files.room import ROOM_PAUSE_S, OpeningWaits, Room
from actors.storage.files.stepping import answered, stepped
from actors.storage.layout import StoreLayout
from actors.storage.log.digests import Digests
from actors.storage.log.growth import Subscribe
from actors.storage.log.log_reader import LogReader, OffsetGone
from actors.storage.log.pacing import DISPATCH_WITHIN_S, STOP_DISPATCH_S, Pacing
from actors.storage.scrub.log_check import LogCheck
from actors.storage.scrub.scrubber_messages import CHECK_BYTES, Check, Checked
from wire.files.commit_log import RecordHead, Scanned, Stop, scan_heads

LOOKUP_COUNT_MAX: Final = 1024
SUSPECTS_MAX: Final = 64
"""How many queues are remembered in which lookups have found a damaged unit, until the scrub asks
for them."""


@attrs.define(kw_only=True)
class Lookups:
    """Answers the lookups of one dispatcher.

    Attributes:
        proof: reads records; its owner sets the offsets between which it may.
    """

    files: DerivedFiles
    proof: RecordProof
    _suspects: dict[QueueKey, int] = attrs.field(factory=dict, init=False)

    def answer(self, request: LookupQueue | LookupKey) -> Generator[None, None, QueueGap | None]:
        """Answer a lookup. A failed read fails only the request, because a restart would delay
        appends.

        Returns: the gap for which a queue has to be built anew; None if there is none. Yields after
            every few units.
        """
        try:
            if isinstance(request, LookupQueue):
                request.reply_to.send((yield from self.units(request)))
            else:
                request.reply_to.send(KeyMatches(matches=self.matches(request)))
        except QueueGap as gap:
            request.reply_to.fail(StorageError(f"{gap}; the queue is built anew: ask again"))
            return gap
        except OSError as error:
            request.reply_to.fail(StorageError(f"cannot look that up: {error}"))
        return None

    def units(self, request: LookupQueue) -> Generator[None, None, QueueUnits]:
        """Return the units up to the first damaged one, which might lead to another record.

        Yields after every few units. Raises: QueueGap, OSError.
        """
        queues, key = self.files.queues, (request.topic, request.queue_id)
        least = queues.min_offset(*key, self.proof.min_bytes)
        first = max(request.position, least)
        units = queues.units(*key, first, min(request.count, LOOKUP_COUNT_MAX))
        good, damaged = yield from shown(self.proof, key, first, units)
        if damaged is not None and len(self._suspects) < SUSPECTS_MAX:
            self._suspects[key] = damaged
        return QueueUnits(
            min_offset=least,
            next_offset=queues.next_offset(*key),
            first_offset=first,
            units=good,
        )

    def matches(self, request: LookupKey) -> tuple[tuple[int, int], ...]:
        """Return the records that have the key. Keys share hashes, so each record is read."""
        count = min(request.count, LOOKUP_COUNT_MAX)
        found: list[tuple[int, int]] = []
        for offset in self.files.index.find(request.topic, request.key, LOOKUP_COUNT_MAX):
            if len(found) >= count:
                break
            head = self.proof.head_at(offset)
            if head is not None and head.topic == request.topic and _has_key(head, request.key):
                found.append((offset, head.size))
        return tuple(dict.fromkeys(found))

    def progress(self, at_bytes: int) -> Dispatched:
        """Return how far the dispatcher is, which has come to `at_bytes`."""
        return Dispatched(
            dispatched_bytes=at_bytes,
            flushed_bytes=self.files.flushed_bytes,
            limit_bytes=self.proof.limit_bytes,
            queue_count=self.files.queue_count,
        )

    def scrub_range(self, limit_bytes: int) -> ScrubRange:
        """Return the answer to GetScrubRange: the part of the log to be scrubbed, up to
        `limit_bytes`.
        """
        index, suspects = self.files.index, tuple(self._suspects.items())
        self._suspects.clear()
        name, header = index.newest()
        return ScrubRange(
            min_bytes=self.proof.min_bytes,
            limit_bytes=limit_bytes,
            index_name=name,
            index_units_next=header.units_next,
            with_tag_keys=index.with_tag_keys,
            suspects=suspects,
            deleted=self.files.deleted,
        )


def _has_key(head: RecordHead, key: str) -> bool:
    return key == head.uniq_key or key in head.keys.split(" ")


SLICE_BYTES = 128 << 10
"""How many bytes are read and dispatched between two turns of other tasks; a slave receives more at
once."""
FLUSH_INTERVAL_S = 1.0
ASK_TIMEOUT_S = 30.0
STOP_ASK_TIMEOUT_S = 1.0
CREATED_MAX = 2048
"""After so many new queue files dispatching waits for a flush: each file means three or four syncs,
and an ordered stop has to wait for all of them."""


@attrs.frozen(kw_only=True)
class GoOn:
    """From itself: more of the log can be dispatched."""


@attrs.frozen(kw_only=True)
class FlushDue:
    """Timer: sync what was derived."""


@attrs.frozen(kw_only=True)
class Flushed:
    """From its task: the files of the flush are synced."""

    flush: Flush


@attrs.frozen
class Compared:
    """The scrubber's answer for the bytes from `start_bytes` on."""

    start_bytes: int
    outcome: Checked | Exception


_Inbox: TypeAlias = Message | GoOn | FlushDue | Flushed | Compared


@attrs.define(kw_only=True)
class Dispatcher(Actor[_Inbox]):
    """The actor that derives the files and owns them; the module's text describes it.

    Attributes:
        keeper: the role keeper, which hears if the start waits for room.
        confirmed: see `DerivedFiles`.
    """

    mailbox = MailboxSpec(conflate={LogGrew: lambda message: None, GoOn: lambda message: None})
    env: Env
    layout: StoreLayout
    group: CommitLogGroup
    store: ActorRef[StoreMessage]
    pacing: Pacing = attrs.field(factory=Pacing)
    keeper: ActorRef[OpeningWaits] | None = None
    scrubber: ActorRef[Check] | None = None
    confirmed: Callable[[], int] | None = None
    _checks: DispatchChecks = attrs.field(init=False)
    _files: DerivedFiles = attrs.field(init=False)
    _reader: LogReader = attrs.field(init=False)
    _at_bytes: int = attrs.field(default=0, init=False)
    _limit_bytes: int = attrs.field(default=0, init=False)
    _synced_bytes: int = attrs.field(default=0, init=False)
    _min_bytes: int = attrs.field(default=0, init=False)
    _wanted_bytes: int = attrs.field(default=0, init=False)
    _syncer: Syncer = attrs.field(init=False)
    _in_flight: Flush | None = attrs.field(default=None, init=False)
    _floor_bytes: int = attrs.field(default=0, init=False)
    _mended: list[Rederive] = attrs.field(factory=list, init=False)
    _deleting: list[DeleteTopics] = attrs.field(factory=list, init=False)
    _lookups: Lookups = attrs.field(init=False)

    async def on_start(self) -> None:
        """Load the files. Dispatching begins with the first LogGrew."""
        held = await self._ask_range(ASK_TIMEOUT_S)
        disk, limit = self.env.disk, self._allowed(held.written_bytes, held.synced_bytes)
        self._min_bytes = held.min_bytes
        path, owner = self.layout.root, self.ctx.path
        room = Room(disk=disk, path=path, owner=owner, keeper=self.keeper)
        recover = partial(self._recover, held.min_bytes, limit)
        self._at_bytes = await room.wait(recover, self.ctx.emit)
        self._reader = LogReader(disk, held.folder, held.segment_bytes)
        proof = RecordProof(reader=self._reader, record_bytes_max=self.group.record_bytes_max)
        self._lookups = Lookups(files=self._files, proof=proof)
        self._syncer = disk.syncer()
        self._checks = DispatchChecks(scrubber=self.scrubber)
        if self._files.anew:
            self.ctx.emit(events.DerivedAnew(reason=self._files.anew))
        self.ctx.emit(
            events.DispatchStarted(
                from_bytes=self._at_bytes, end_bytes=limit, queue_count=self._files.queue_count
            )
        )
        wanted = Subscribe(subscriber=self.ctx.self_ref, within_s=DISPATCH_WITHIN_S)
        await self.store.tell(wanted)
        await self._send_floor()
        self.ctx.timers.start("flush", FLUSH_INTERVAL_S, FlushDue())

    def _recover(self, min_bytes: int, limit_bytes: int) -> Generator[None, None, int]:
        env, layout, group = self.env, self.layout, self.group
        self._files = DerivedFiles(env=env, layout=layout, group=group, confirmed=self.confirmed)
        return (yield from self._files.recover(min_bytes, limit_bytes))

    async def on_stop(self, reason: StopReason) -> None:
        """Close the files. An ordered stop first dispatches what is allowed, for a while, and
        flushes it.
        """
        try:
            if reason in (StopReason.NORMAL, StopReason.SHUTDOWN):
                await self._finish()
        finally:
            self._syncer.close()
            self._reader.close()
            self._files.close()

    async def _finish(self) -> None:
        """Dispatch and flush. The log's range is asked for again: the mailbox may have held a newer
        one.
        """
        try:
            held = await self._ask_range(STOP_ASK_TIMEOUT_S)
        except (ActorDown, AskTimeout):
            pass  # The store stopped first. What is not derived now is derived at the next start.
        else:
            self._limit_bytes = self._allowed(held.written_bytes, held.synced_bytes)
            self._synced_bytes = held.synced_bytes
            self._checks.grew(self._limit_bytes, self.ctx.now_s())
        await self._dispatch_rest(self.ctx.now_s() + STOP_DISPATCH_S)
        flush = self._begin_flush()
        if self._in_flight is not None:  # its task may have been stopped before its sync began
            flush = self._in_flight.with_later(flush)
        if flush is not None:
            await _sync_flush(self._syncer, self.env.disk, flush, self.ctx.emit)
            self._files.end_flush(flush)
        await stepped(self._files.leave_ends())

    async def _dispatch_rest(self, until_s: float) -> None:
        """Dispatch until `until_s`. The scrubber has stopped, so old bytes are compared here."""
        self._checks.end()
        folder, size = self.layout.digests, self._reader.segment_bytes
        check = LogCheck(
            reader=self._reader,
            digests=Digests(self.env.disk, folder, size, reads_only=True),
            record_bytes_max=self.group.record_bytes_max,
            limit_bytes=self._synced_bytes,
            own_from_bytes=None,
        )
        with closing(check.digests):
            while await self._dispatch_slice() or await self._compare_alone(check, until_s):
                if self.ctx.now_s() >= until_s:
                    break
                await trio.lowlevel.checkpoint()
        if self.ctx.now_s() >= until_s or self._may_read() < self._limit_bytes:
            # not everything was dispatched, so the abort file stays
            self._limit_bytes = self._at_bytes

    async def _compare_alone(self, check: LogCheck, until_s: float) -> bool:
        """Compare the next bytes without the scrubber. Returns: whether more can be
        dispatched now.
        """
        start = self._checks.begin_ask(self._at_bytes, self.ctx.now_s())
        if start is None:
            return False
        until, end = start, start + CHECK_BYTES
        with suppress(OffsetGone):
            steps = compared_alone(check, start, end, lambda: self.ctx.now_s() >= until_s)
            until = await answered(steps, self.env.run_beside)
        is_bad, now_s = until == start, self.ctx.now_s()
        outcome = Checked(until_bytes=until, rotten=is_bad, compared_s=now_s)
        self._checks.answered(start, outcome, now_s)
        return not is_bad

    async def _ask_range(self, timeout_s: float) -> LogRange:
        return await self.store.ask(
            LogRange, lambda reply_to: GetRange(reply_to=reply_to), timeout_s=timeout_s
        )

    async def handle(self, message: _Inbox) -> None:
        match message:
            case LogGrew():
                await self._grew(message)
            case GoOn():
                await self._go_on()
            case FlushDue():
                await self._delete_topics()
                self._start_flush()
            case Flushed():
                self._in_flight = None
                self._files.end_flush(message.flush)
                await self._delete_topics()
                await self._look_at_mended()
                await self._send_floor()
                await self._go_on()
            case LookupQueue() | LookupKey():
                gap = await stepped(self._looking().answer(message))
                if gap is not None:
                    self._rebuild(gap)
                    self.ctx.self_ref.offer(GoOn())
            case Compared():
                start, outcome, now_s = message.start_bytes, message.outcome, self.ctx.now_s()
                if again_s := self._checks.answered(start, outcome, now_s):
                    self.ctx.timers.start("compare", again_s, GoOn())
                await self._go_on()
            case Rederive():
                self._checks.look_again()
                self._mended.append(message)
                await self._look_at_mended()
                await self._go_on()
            case GetDispatched():
                message.reply_to.send(self._looking().progress(self._at_bytes))
            case GetScrubRange():
                message.reply_to.send(self._looking().scrub_range(self._at_bytes))
            case MendDerived():
                message.reply_to.send(self._mend(message))
            case DeleteTopics():
                self._deleting.append(message)
                await self._delete_topics()
            case _:
                assert_never(message)

    # ---- dispatching ----

    def _allowed(self, written_bytes: int, synced_bytes: int) -> int:
        return synced_bytes if self.group.durability == "synced" else written_bytes

    async def _grew(self, message: LogGrew) -> None:
        self._limit_bytes = self._allowed(message.written_bytes, message.synced_bytes)
        self._synced_bytes = message.synced_bytes
        if message.min_bytes > self._min_bytes:
            self._min_bytes = message.min_bytes
            self._reader.drop_below(message.min_bytes)
            await self._stepped(self._files.trim(message.min_bytes))
            self._syncer.forget(self._files.take_gone())
        self._at_bytes = max(self._at_bytes, self._min_bytes)
        self._checks.grew(self._limit_bytes, self.ctx.now_s() - DISPATCH_WITHIN_S)
        await self._go_on()

    async def _send_floor(self) -> None:
        """Tell the store from where on to keep its log: what a crash could take from the derived
        files.

        Only a new file is worth a message.
        """
        floor = self._files.durable_bytes
        floor -= floor % self._reader.segment_bytes
        if floor != self._floor_bytes:
            self._floor_bytes = floor
            await self.store.tell(SetFloor(offset_bytes=floor))

    async def _go_on(self) -> None:
        """Dispatch one slice, then pause, or let others run: copying comes first (`Pacing`)."""
        began_s, at, limit = self.ctx.now_s(), self._at_bytes, self._limit_bytes
        if self.ctx.timers.active("pause"):
            return
        if self._files.created_count >= CREATED_MAX:
            self._begin_sync()  # its end calls this again
            return
        self._ask_scrubber()
        if not await self._dispatch_slice() or self._at_bytes >= self._limit_bytes:
            self.pacing.at_end()
            return
        if pause_s := self.pacing.pause_s(began_s, self.ctx.now_s(), self._at_bytes - at, limit):
            self.ctx.timers.start("pause", pause_s, GoOn())
        else:
            self.ctx.self_ref.offer(GoOn())
            await trio.lowlevel.checkpoint()

    async def _dispatch_slice(self) -> bool:
        """Derive from the next bytes. Returns: whether there may be more to do at once."""
        at, limit = self._at_bytes, self._may_read()
        if at >= limit or limit < self._wanted_bytes:
            if limit < self._limit_bytes and (damaged := self._checks.stands(limit)) is not None:
                self.ctx.emit(events.DispatchHalted(at_bytes=at, damaged_bytes=damaged))
            return False
        size = max(SLICE_BYTES, self._wanted_bytes - at)
        try:
            data = self._reader.read(at, size, limit)
        except OffsetGone:
            return False  # the bytes have just expired; the next LogGrew says where the log begins
        heads, stopped = scan_heads(
            data,
            physical_offset=at,
            size_max=self.group.record_bytes_max,
            delay_levels_ms=self.group.delay_levels_ms,
        )
        if heads and not await self._put(heads):
            return not self.ctx.timers.active("room")
        self._at_bytes = at + stopped.end
        if stopped.stop is Stop.INCOMPLETE and (at + len(data)) % self._reader.segment_bytes == 0:
            stopped = attrs.evolve(stopped, stop=Stop.CORRUPT, reason="a record over a file's end")
        return self._goes_on(stopped, len(data) - stopped.end)

    def _goes_on(self, stopped: Scanned, rest_bytes: int) -> bool:
        wanted = _wanted_bytes(stopped, self._at_bytes, rest_bytes, self._reader.folder)
        if stopped.stop is not Stop.END:
            self._wanted_bytes = wanted
        if stopped.stop is Stop.BLANK and wanted <= self._limit_bytes:
            self._at_bytes = wanted
        if self._checks.goes_on(self._at_bytes):
            self.ctx.emit(events.DispatchWentOn(at_bytes=self._at_bytes))
        return True

    def _may_read(self) -> int:
        return self._checks.limit(self._at_bytes, self._limit_bytes, self.ctx.now_s())

    def _ask_scrubber(self) -> None:
        """Ask the scrubber to compare the next bytes, if they have to be."""
        start = self._checks.begin_ask(self._at_bytes, self.ctx.now_s())
        if self.scrubber is not None and start is not None:
            self.ctx.ask_later(
                self.scrubber,
                Checked,
                lambda reply_to: Check(start_bytes=start, reply_to=reply_to),
                timeout_s=CHECK_TIMEOUT_S,
                on_reply=lambda outcome: Compared(start, outcome),
            )

    async def _put(self, heads: list[RecordHead]) -> bool:
        """Derive from these records. Returns: False if it did not succeed.

        Then a queue lacks units, and the whole log is dispatched again for it; or there is no room,
        and the same records are tried again in a while.
        """
        put = Put()
        try:
            if not await self._stepped(self._files.put(heads, put)):
                return False
        except OSError as error:
            if error.errno not in NO_ROOM_CODES:
                raise
            # The same records are put again; those that have their unit are left out.
            self.ctx.timers.start("room", ROOM_PAUSE_S, GoOn())
            return False
        finally:
            if put.begun:
                self._syncer.forget(self._files.take_gone())
                self.ctx.emit(_begun_event(put))
        for event in _events_of(put):
            self.ctx.emit(event)
        return True

    async def _stepped(self, steps: Generator[None, None, None]) -> bool:
        """Run some steps. Returns: False if a queue lacks units; it is built anew then."""
        try:
            await stepped(steps)
        except QueueGap as gap:
            self._rebuild(gap)
            return False
        return True

    def _rebuild(self, gap: QueueGap) -> None:
        self._files.rebuild_queue(gap, self._min_bytes)
        self._syncer.forget(self._files.take_gone())
        self._checks.rewind(self._at_bytes)
        self._at_bytes, self._wanted_bytes = self._min_bytes, 0
        self.ctx.emit(events.QueueRebuilt(topic=gap.topic, queue_id=gap.queue_id))

    async def _look_at_mended(self) -> None:
        """Derive mended ranges anew, unless a flush is under way, for its end would say that all is
        derived.
        """
        while self._mended and self._in_flight is None:
            message = self._mended.pop()
            files, log, most = self._files, self._reader, self.group.record_bytes_max
            ranges = MendedRanges(files, log, self._min_bytes, self._at_bytes, most)
            anew = await stepped(ranges.lack(message))
            if anew and not await self._begin_anew():
                self._mended.append(message)  # until the next flush
                return
            message.reply_to.send(Rederived(anew=anew))

    async def _begin_anew(self) -> bool:
        """Derive everything anew. Returns: False if there is no room to record that."""
        try:
            self._files.distrust(self._min_bytes)
        except OSError as error:
            if error.errno not in NO_ROOM_CODES:
                raise
            return False
        await stepped(self._files.begin_anew(self._min_bytes))
        self._syncer.close()  # it holds files of the same names
        self._syncer = self.env.disk.syncer()
        self._checks.rewind(self._at_bytes)
        self._at_bytes, self._wanted_bytes = self._min_bytes, 0
        self.ctx.emit(events.DerivedAnew(reason=WHY))
        await self._send_floor()
        return True

    async def _delete_topics(self) -> None:
        """Remove what is to be deleted, unless a flush is under way, or there is no room to record
        that.
        """
        while self._deleting and self._in_flight is None:
            message = self._deleting[0]
            steps = self._files.delete_topics(message.topics, self._looking().proof)
            try:
                gone = await stepped(steps)
            except OSError as error:
                if error.errno not in NO_ROOM_CODES:
                    raise
                return
            self._deleting.pop(0)
            self._syncer.forget(self._files.take_gone())
            if message.topics:
                at = self._at_bytes
                forget = ForgetTopics(topics=message.topics, gone=frozenset(gone), at_bytes=at)
                await self.store.tell(forget)
            if gone:
                topics = {topic for topic, _ in gone}
                self.ctx.emit(
                    events.QueuesDeleted(
                        topic=min(topics), topic_count=len(topics), queue_count=len(gone)
                    )
                )
            message.reply_to.send(TopicsDeleted(queue_count=len(gone)))

    # ---- flushing ----

    def _begin_flush(self) -> Flush | None:
        return self._files.begin_flush(self._at_bytes, self._limit_bytes, self._synced_bytes)

    def _start_flush(self) -> None:
        self.ctx.timers.start("flush", FLUSH_INTERVAL_S, FlushDue())
        self._begin_sync()

    def _begin_sync(self) -> None:
        """Begin a flush. Its sync runs in a task of its own, so that lookups do not wait for it."""
        flush = None if self._in_flight is not None else self._begin_flush()
        if flush is not None:
            self._in_flight = flush
            self.ctx.spawn(self._feed_flush, flush)

    async def _feed_flush(self, flush: Flush) -> None:
        await _sync_flush(self._syncer, self.env.disk, flush, self.ctx.emit)
        await self.ctx.self_ref.tell(Flushed(flush=flush))

    # ---- the scrub ----

    def _mend(self, request: MendDerived) -> Mended:
        gap, done = mend_in_room(self._files.queues, self._files.index, request.mends)
        if gap is not None:
            self._rebuild(gap)
            self.ctx.self_ref.offer(GoOn())
        for file, count in done.items():
            self.ctx.emit(events.DerivedMended(file=file, count=count))
        return Mended(count=sum(done.values()), file=next(reversed(done), ""))

    # ---- lookups ----

    def _looking(self) -> Lookups:
        """Return the lookups, set to the log's present range."""
        proof = self._lookups.proof
        proof.min_bytes, proof.limit_bytes = self._min_bytes, self._limit_bytes
        return self._lookups


def _events_of(put: Put) -> Iterator[events.RecordsNotDispatched | events.QueueOffsetsRepeated]:
    """Make the events of records to which no unit leads."""
    if put.refused:
        first = put.refused[0].physical_offset
        yield events.RecordsNotDispatched(first_bytes=first, count=len(put.refused))
    if put.repeated:
        first = put.repeated[0].physical_offset
        yield events.QueueOffsetsRepeated(first_bytes=first, count=len(put.repeated))


def _begun_event(put: Put) -> events.QueuesBegunAnew:
    """Make the event of queues that began anew; there is at least one."""
    first = put.begun[0]
    return events.QueuesBegunAnew(
        topic=first.topic,
        queue_id=first.queue_id,
        first_bytes=first.physical_offset,
        queue_count=len(put.begun),
        unit_count=put.units_count,
    )


async def _sync_flush(
    syncer: Syncer, disk: Disk, flush: Flush, emit: Callable[[events.SyncFailed], None]
) -> None:
    """Sync the files of a flush. Raises: StorageError: a sync failed."""
    try:
        for first in range(0, len(flush.paths), SYNC_PATHS_MAX):
            some = flush.paths[first : first + SYNC_PATHS_MAX]
            # Some may have expired since; the call keeps those that it has begun with.
            await syncer.sync([path for path in some if disk.exists(path)])
    except OSError as error:
        emit(events.SyncFailed(error=str(error), paths=flush.paths))
        raise StorageError(f"the sync of derived files failed: {error}") from error


def _wanted_bytes(stopped: Scanned, at_bytes: int, rest_bytes: int, folder: str) -> int:
    """Return the offset that the log has to reach before the record can be read at which a scan
    stopped.

    Args:
        at_bytes: the offset at which the scan stopped, `rest_bytes` before the end of what was
            read.
        folder: the path of the log's folder, for people.

    Raises: CorruptLog: no record can begin there.
    """
    match stopped.stop:
        case Stop.END:
            return at_bytes
        case Stop.BLANK:
            return at_bytes + stopped.blank_bytes
        case Stop.INCOMPLETE:
            # This is normal on a slave, because frames cut records. More is read at once, or waited
            # for.
            return at_bytes + rest_bytes + stopped.missing_bytes
        case Stop.CORRUPT | Stop.UNWRITTEN:
            reason = stopped.reason or "nothing is written there"
            raise CorruptLog(f"{folder}: offset {at_bytes}: {reason}; {UNLIKE}")
        case _:
            assert_never(stopped.stop)
