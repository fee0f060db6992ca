"""Store is the one writer of a group's commit log on this node.

Upstream: apache/rocketmq store/.../CommitLog.java, asyncPutMessage and appendData;
DefaultMessageStore.java, the checks before a put (5.3.3).

Differs:
- All appends that wait are written by one call (group commit by arrival).
- What a record may hold is checked before anything is written, for all records of an append.
- Received bytes are written where they belong or not at all; a failure is reported (T4).
- A failed write or sync ends the node: what the disk holds is unknown (T26).

Messages: see `store_messages`. It sends the syncer Written; the acknowledger RecordsWritten, always
before the growth that covers it; subscribers LogGrew; the actor that opened a session RawRefused;
its keeper StoreStarted, and with a keeper it takes no append before SetGate says so. It asks the
syncer as it stops. A restart ends the node, because a crash here leaves the end of the log in
doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias, assert_never

import attrs
import trio

from actors.config import CommitLogGroup
from actors.env import Env
from actors.errors import LogFull, NotEnoughReplicas, NotStored, StorageError
from actors.events import store as events
from actors.runtime import Actor, ActorRef, MailboxSpec, StopReason
from actors.storage.commitlog import given_up, store_messages
from actors.storage.commitlog.group_commit import AppendEncoder, GroupCommit, Placed, StoreTime
from actors.storage.commitlog.opening import close_store, open_store
from actors.storage.commitlog.raw_session import PageSeal, RawSession, Refused
from actors.storage.commitlog.store_messages import (
    Append,
    AppendRaw,
    GateClosed,
    GetRange,
    Guard,
    LogGrew,
    LogRange,
    Message,
    OpenSession,
    RawRefused,
    RecordsWritten,
    SetAdmission,
    SetGate,
    StoreStarted,
)
from actors.storage.files.room import NoRoom, Room
from actors.storage.files.side_file import SideFile
from actors.storage.files.stepping import stepped
from actors.storage.layout import StoreLayout
from actors.storage.log import expiry
from actors.storage.log.commit_log import CommitLog
from actors.storage.log.growth import Growth, Subscribe, Unsubscribe
from actors.storage.log.syncer import Settle, SyncDone, Written, may_close_clean
from wire.files.commit_log import Host

MAILBOX_CAPACITY = 4096
MARK_SYNC_S = 1.0
"""The synced mark is itself synced at most so much later."""


@attrs.frozen(kw_only=True)
class _MarkDue:
    """Timer: the synced mark has been in the page cache for a second."""


_Inbox: TypeAlias = Message | _MarkDue | expiry.CleanDue


@attrs.define(kw_only=True)
class Store(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        host: this node's address as records store it.
        syncer: the actor that syncs what was written.
        acknowledger: the actor that is sent the appends that wait; None on a slave.
        waits_within_s: it need not wake for that; see `ActorRef.leave`.
        guard: decides whether appends are taken; None: a master takes them from the start.
        expires: whether files are deleted, by age or for room; False: all stay.
        changed_group: the group with what operators have changed since the start.
        time: what it publishes of the times of its records.
    """

    env: Env
    layout: StoreLayout
    group: CommitLogGroup
    node: str
    host: Host
    syncer: ActorRef[Written | Settle]
    acknowledger: ActorRef[RecordsWritten] | None
    waits_within_s: float = 0.0
    guard: Guard | None = None
    expires: bool = True
    changed_group: Callable[[], CommitLogGroup] | None = None
    time: StoreTime = attrs.field(factory=StoreTime)
    mailbox: MailboxSpec = attrs.field(init=False)  # type: ignore[misc]
    _log: CommitLog = attrs.field(init=False)
    _mark: SideFile = attrs.field(init=False)
    _commit: GroupCommit = attrs.field(init=False)
    _cleaner: expiry.Cleaner = attrs.field(init=False)
    _parsed: tuple[int, int] = attrs.field(init=False)
    _begins_bytes: int = attrs.field(init=False)
    _confirmed_bytes: int = attrs.field(init=False)
    _was_clean: bool = attrs.field(init=False)
    _synced_bytes: int = attrs.field(default=0, init=False)
    _unsynced: dict[str, None] = attrs.field(factory=dict, init=False)
    _growth: Growth[LogGrew] = attrs.field(factory=partial(Growth, LogGrew), init=False)
    _raw: RawSession = attrs.field(init=False)
    _in_frame: bool = attrs.field(default=False, init=False)  # the unpublished part is of one
    _rounds: expiry.Rounds = attrs.field(init=False)
    _admission: str = attrs.field(default="", init=False)
    _closed: GateClosed | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        group = self.group
        pending = group.append_pending_bytes if self.is_master else group.receive_pending_bytes
        self.mailbox = MailboxSpec(
            capacity=MAILBOX_CAPACITY,
            capacity_bytes=pending,
            size_of=store_messages.size_of,
            conflate=dict.fromkeys(
                (SyncDone, SetAdmission, store_messages.SetFloor), lambda message: None
            ),
            control=(OpenSession, SetGate),
        )
        at_start = store_messages.closed_at_start
        self._closed = at_start(self.node, group, self.is_master, self.guard)

    @property
    def is_master(self) -> bool:
        """Whether it takes appends, and no received bytes."""
        return self.acknowledger is not None

    # ---- start and stop ----

    async def on_start(self) -> None:
        """Recover; see `opening`. Nothing is published before that is done."""
        disk, layout, group, owner = self.env.disk, self.layout, self.group, self.node
        start = partial(open_store, disk, layout, group, is_master=self.is_master, owner=owner)
        keeper = None if self.guard is None else self.guard.keeper
        room = Room(disk=disk, path=layout.root, owner=f"{owner}: {group.name}", keeper=keeper)
        opened = await room.wait(partial(start, guard=self.guard), self.ctx.emit)
        self._log, self._mark, self._parsed = opened.log, opened.mark, opened.parsed
        self._begins_bytes = opened.found.begins_bytes
        self._confirmed_bytes = opened.confirmed_bytes
        self._was_clean = opened.was_clean
        self._raw = RawSession(PageSeal(disk, self.ctx.emit) if self.group.compat is None else None)
        self._synced_bytes = opened.log.written_bytes
        newest_ms = opened.last_store_ts if self.is_master else 0
        self.time.begin(newest_ms, self.env.wall_clock_ms())
        self._commit = GroupCommit(
            log=opened.log,
            encoder=AppendEncoder(
                default_topic=self.group.name,
                host=self.host,
                segment_bytes=self.group.segment_bytes,
                body_bytes_max=self.group.max_message_bytes,
                next_offsets=opened.next_offsets,
                first_offset=opened.first_offset,
            ),
            wall_clock_ms=self.env.wall_clock_ms,
            time=self.time,
            no_room=self._clean_now,
        )
        self._cleaner = expiry.Cleaner.of(
            self.env,
            opened.log,
            self._rules(),
            owner=f"{owner}: {group.name}",
            root=layout.root,
            emit=self.ctx.emit,
        )
        self._cleaner.look()
        interval_s = self.group.clean_resource_interval_s
        start_round = partial(self.ctx.timers.start, "clean")
        self._rounds = expiry.Rounds(interval_s=interval_s, start=start_round)
        self._rounds.begin(self._cleaner.first_round_s(interval_s))
        for event in opened.events():
            self.ctx.emit(event)
        if self.guard is not None:
            kept, clean, held = opened.kept_bytes, opened.was_clean, self._range()
            number, by = self.ctx.incarnation, self.guard.promotion
            await self.guard.keeper.tell(StoreStarted(number, by, held, kept, clean))

    async def on_stop(self, reason: StopReason) -> None:
        """See `close_store`. After a sync that failed no further one proves anything."""
        self._raw.close()
        clean, paths = False, (*self._unsynced, *self._log.take_dirty())
        try:
            clean = await may_close_clean(self.syncer, reason)
        finally:
            disk, synced = self.env.disk, self._synced_bytes if clean else None
            close_store(disk, self.layout, self._log, self._mark, paths, synced_bytes=synced)

    # ---- messages ----

    async def handle_batch(self, messages: list[_Inbox]) -> None:
        """Collect appends and write them together, before the message that follows them."""
        appends: list[Append] = []
        received: list[AppendRaw] = []
        for message in messages:
            if isinstance(message, Append):
                appends.append(message)
                continue
            if isinstance(message, AppendRaw):
                received.append(message)
                continue
            await self._write(appends, received)
            appends, received = [], []
            await self._other(message)
        await self._write(appends, received)
        await self._publish()

    async def _write(self, appends: list[Append], received: list[AppendRaw]) -> None:
        """A master has appends, a slave received bytes; what is not its part it refuses."""
        if appends:
            await self._append_all(appends)
        if received:
            await self._append_raw(received)

    async def _other(self, message: _Inbox) -> None:
        match message:
            case SyncDone():
                self._sync_done(message.offset_bytes)
            case SetAdmission():
                self._admission = message.refusal
            case store_messages.SetFloor():
                self._cleaner.floor_bytes = message.offset_bytes
            case store_messages.ForgetTopics():
                self._commit.forget(message)
            case GetRange():
                found = self._range(takes_parsed=message.takes_parsed)
                soon = self._cleaner.lacks_next() if message.looks else ""
                message.reply_to.send(attrs.evolve(found, no_room_soon=soon))
            case Subscribe():
                await self._growth.subscribe(message, self._grown())
            case Unsubscribe():
                self._growth.unsubscribe(message)
            case OpenSession():
                if self._raw.open(message):
                    self._in_frame = False
            case SetGate():
                if message.incarnation == self.ctx.incarnation:
                    self._closed = message.closed
            case _MarkDue():
                self._unsynced[self._mark.path] = None
                self._offer_written()
            case expiry.CleanDue():
                await self._clean(message)
            case Append() | AppendRaw():
                raise AssertionError(message)  # handle_batch has taken these
            case _:
                assert_never(message)

    def _range(self, *, takes_parsed: bool = False) -> LogRange:
        parsed = (self._log.written_bytes,) * 2
        if takes_parsed:
            parsed, self._parsed = self._parsed, parsed
        return LogRange(
            min_bytes=self._log.min_bytes,
            written_bytes=self._log.written_bytes,
            synced_bytes=self._synced_bytes,
            segment_bytes=self._log.segment_bytes,
            folder=self._log.folder,
            parsed=parsed,
            begins_bytes=self._begins_bytes,
            confirmed_bytes=max(self._confirmed_bytes, self._log.min_bytes),
            was_clean=self._was_clean,
            stands_still=self._cleaner.stands_still,
            no_room=self._cleaner.lacks,
        )

    def _grown(self) -> LogGrew:
        return LogGrew(
            min_bytes=self._log.min_bytes,
            written_bytes=self._log.written_bytes,
            synced_bytes=self._synced_bytes,
        )

    async def _publish(self) -> None:
        """Publish the new range, but not in the middle of a frame, which is reported whole."""
        now = self._grown()
        if not (self._in_frame and self._growth.changes(now) <= store_messages.WRITTEN):
            await self._growth.publish(now)

    # ---- the master's appends ----

    async def _append_all(self, appends: list[Append]) -> None:
        """Write appends in groups of bounded size, each by one call, and publish them at once."""
        taken = 0
        while taken < len(appends):
            if taken:
                await trio.lowlevel.checkpoint()
            start = self._log.written_bytes
            group = self._commit.commit(appends[taken:], self.ctx.now_s(), self._refusal)
            taken += group.taken
            for base in group.rolled:
                self.ctx.emit(events.SegmentRolled(base_bytes=base))
            if group.failed is not None:
                raise self._write_failed(group.failed) from group.failed
            if group.written:
                self._cleaner.wrote()
                await self._send_written(start, group.written)
                await self._publish()

    def _refusal(self) -> NotStored | None:
        """Why no append is taken at all."""
        if self._closed is not None:
            return self._closed.error()
        if self._admission:
            return NotEnoughReplicas(self._admission)
        return LogFull(self._cleaner.full_text()) if self._cleaner.is_full else None

    def _write_failed(self, error: OSError) -> StorageError:
        offset = self._log.written_bytes
        self.ctx.emit(events.WriteFailed(error=str(error), offset_bytes=offset))
        return StorageError(f"{self._log.path_of(offset)}: the write at {offset} failed: {error}")

    async def _send_written(self, start: int, written: list[Placed]) -> None:
        """The acknowledger learns of the appends before it learns of their bytes."""
        assert self.acknowledger is not None
        waits = tuple(placed.waiting(self.acknowledger) for placed in written)
        self._offer_written()
        self.ctx.emit(
            events.RecordsAppended(
                first_bytes=start,
                next_bytes=self._log.written_bytes,
                appends=len(waits),
                records=sum(wait.count for wait in waits),
            )
        )
        records = RecordsWritten(waits=waits)
        within_s = self.waits_within_s
        if not (within_s and self.acknowledger.defer(records, within_s=within_s)):
            await self.acknowledger.tell(records)

    # ---- a slave's received bytes ----

    async def _append_raw(self, messages: list[AppendRaw]) -> None:
        """Write received bytes, and report them as one growth; report a refusal after that."""
        before = self._grown()
        refusal = self._raw_refusal()
        done = await self._raw.write(
            self._log, messages, refusal, is_stopping=lambda: self.ctx.is_stopping
        )
        if done.first_bytes is not None:
            self._cleaner.wrote()
            if done.ends_frame:
                self._in_frame = False
            elif before == self._growth.published:
                self._in_frame = True
            self._offer_written()
            session, first, end = self._raw.session, done.first_bytes, self._log.written_bytes
            self.ctx.emit(events.BytesReceived(session=session, first_bytes=first, next_bytes=end))
        if done.refused is not None:
            await self._refuse(done.refused)

    def _raw_refusal(self) -> str:
        if self.is_master:
            return f"{self.node} is the master of {self.group.name}"
        return self._cleaner.full_text() if self._cleaner.is_full else ""

    async def _refuse(self, refused: Refused) -> None:
        session, offset = refused.message.session, refused.message.offset_bytes
        self._in_frame, error = False, refused.error
        reason = str(error)
        if isinstance(error, NoRoom):
            reason = self._clean_now(error, offset + len(refused.message.data))
        self.ctx.emit(events.RawAppendRefused(session=session, offset_bytes=offset, reason=reason))
        await refused.source.tell(RawRefused(session=session, reason=reason))
        if isinstance(error, OSError) and not isinstance(error, NoRoom):
            raise self._write_failed(error) from error

    # ---- durability ----

    def _offer_written(self) -> None:
        """Hand the syncer what is not synced. If it has no room, the next SyncDone tries again."""
        self._unsynced.update(dict.fromkeys(self._log.take_dirty()))
        paths, gone = tuple(self._unsynced), self._log.gone_paths
        written = Written(offset_bytes=self._log.written_bytes, paths=paths, gone=gone)
        if (paths or gone) and self.syncer.offer(written):
            self._unsynced.clear()
            self._log.gone_paths = ()

    def _sync_done(self, offset_bytes: int) -> None:
        assert offset_bytes <= self._log.written_bytes
        if offset_bytes > self._synced_bytes:
            self._synced_bytes = offset_bytes
            self._mark.note((offset_bytes,))  # an older one covers less
            if not self.ctx.timers.active("mark"):
                self.ctx.timers.start("mark", MARK_SYNC_S, _MarkDue())
            self.ctx.emit(events.LogSynced(offset_bytes=offset_bytes))
        self._offer_written()

    # ---- expiry ----

    def _clean_now(self, error: NoRoom, end_bytes: int) -> str:
        self._rounds.hurry()
        return self._cleaner.no_room(error, end_bytes)

    def _rules(self) -> expiry.Expiry:
        group = self.group if self.changed_group is None else self.changed_group()
        return expiry.Expiry.of(group) if self.expires else expiry.Expiry.never(group)

    async def _clean(self, due: expiry.CleanDue) -> None:
        """Delete at most one file."""
        self._cleaner.rules = self._rules()
        self._cleaner.look()
        reason, gone = None, None
        if not due.looks:
            reason = self._cleaner.due(self._synced_bytes, deleted=due.deleted)
        if reason is not None:
            gone = await stepped(given_up.delete_first(self.layout, self._cleaner, reason))
        if gone is not None:
            self._offer_written()  # so that the syncer lets go of the file
            self.ctx.emit(gone)
        self._rounds.looked(due, has_gone=gone is not None, has_room=not self._cleaner.lacks)
