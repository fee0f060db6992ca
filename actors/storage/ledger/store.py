"""Store is the one writer of a DLedger group's log, term and vote on this node.

Upstream: openmessaging/dledger, DLedgerMmapFileStore.java, FlushDataService, CleanSpaceService and
the locks around appendAsLeader and appendAsFollower (0.3.1.2).

Differs:
- All appends that wait are written by one call (group commit).
- Every write carries the session of its sender, and a write of an earlier session is refused. This
  stops an actor that has not yet heard of a change of role or term.
- A failed write or sync ends the node: what the disk holds is unknown.

Messages: see `store_messages`. It tells the syncer Written, with the numbers of its syncs in place
of offsets, and subscribers LedgerGrew; when it stops, it asks the syncer to settle. A removal of
entries, and all later writes, wait for the sync under way. A restart ends the node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias, assert_never

import attrs

from actors.errors import LogFull, Overloaded, StorageError, TooLarge
from actors.events.store import SegmentExpired
from actors.runtime import Actor, ActorRef, MailboxSpec, StopReason
from actors.storage.files.stepping import stepped
from actors.storage.ledger import store_messages
from actors.storage.ledger.ledger import EntryRefused, IndexNotThere, LedgerStore, SyncWork
from actors.storage.ledger.recent import RecentEntries
from actors.storage.ledger.store_messages import (
    NO_SESSION,
    Append,
    Change,
    Changed,
    Commit,
    Condemn,
    Doubt,
    DropBelow,
    GetMember,
    LedgerGrew,
    MemberRecord,
    Message,
    OpenSession,
    SaveVote,
    SessionOpened,
    StaleSession,
)
from actors.storage.log.expiry import FILES_PER_ROUND_MAX, CleanDue, Rounds
from actors.storage.log.growth import Growth, Subscribe, Unsubscribe
from actors.storage.log.syncer import Settle, SyncDone, Written, may_close_clean
from wire.dledger.entry import ENTRY_HEAD_BYTES, entry_bytes_max

MAILBOX_CAPACITY = 4096
HELD_MAX = 4096
"""How many writes may wait behind a removal of entries; more are refused."""
GROUP_BYTES = 4 << 20
"""How many bytes of appends one write takes; then other messages get a turn."""
WHOLE_SYNC_S = 1.0
"""Maximum delay until the index, the checksums and the mark are synced."""
CLEAN_S = 10.0
"""The time between two checks of the disk's use. Upstream's CleanSpaceService checks ten times a
second."""


@attrs.frozen(kw_only=True)
class _WholeDue:
    """Timer: index, checksums or mark have been in the page cache for WHOLE_SYNC_S."""


@attrs.frozen(kw_only=True)
class _CheckpointDue:
    """Timer: save the committed index."""


@attrs.frozen(kw_only=True)
class _CheckpointLate:
    """From its own task: there was no room for the checkpoint, so it is saved again later."""


_Inbox: TypeAlias = Message | _WholeDue | _CheckpointDue | _CheckpointLate | CleanDue
_Write: TypeAlias = Append | Change | GetMember


@attrs.define(kw_only=True)
class Store(Actor[_Inbox]):
    """The actor that owns a ledger; the module's text describes it.

    Attributes:
        start: opens the ledger, anew in each incarnation; called with a function that emits its
            events.
        syncer: the actor that syncs what was written.
        data_file_bytes: the size of a data file, which limits the size of an entry.
        checkpoint_interval_s: maximum delay until a committed index that has risen is saved.
        pending_bytes: how many bytes of writes may wait in the mailbox.
        by_snapshot: whether entries leave by DropBelow alone; otherwise committed ones also expire
            by age.
        recent: gets the entries that a leader appends; None: nobody reads them.
    """

    start: Callable[[Callable[[object], None]], Awaitable[LedgerStore]]
    syncer: ActorRef[Written | Settle]
    data_file_bytes: int
    checkpoint_interval_s: float
    pending_bytes: int
    by_snapshot: bool = False
    recent: RecentEntries | None = None
    mailbox: MailboxSpec = attrs.field(init=False)  # type: ignore[misc]
    _ledger: LedgerStore = attrs.field(init=False)
    _rounds: Rounds = attrs.field(init=False)
    _floor_index: int = attrs.field(default=0, init=False)  # a snapshot replaces all entries below
    _session: int = attrs.field(default=NO_SESSION, init=False)
    _term: int = attrs.field(default=0, init=False)
    _cuts: int = attrs.field(default=0, init=False)
    _held: list[_Write] = attrs.field(factory=list, init=False)
    _work: SyncWork | None = attrs.field(default=None, init=False)
    _sync_number: int = attrs.field(default=0, init=False)
    _whole_due: bool = attrs.field(default=False, init=False)
    _growth: Growth[LedgerGrew] = attrs.field(factory=partial(Growth, LedgerGrew), init=False)

    def __attrs_post_init__(self) -> None:
        self.mailbox = MailboxSpec(
            capacity=MAILBOX_CAPACITY,
            capacity_bytes=self.pending_bytes,
            size_of=store_messages.size_of,
            conflate=dict.fromkeys((Commit, Doubt, DropBelow), lambda message: None),
            control=(OpenSession, SaveVote, SyncDone),
        )

    # ---- start and stop ----

    async def on_start(self) -> None:
        """Open the ledger. Nobody may write before a session is open."""
        self._ledger = await self.start(self.ctx.emit)
        if self.recent is not None:
            self.recent.forget()
        for event in self._ledger.opening_events():
            self.ctx.emit(event)
        start_round = partial(self.ctx.timers.start, "clean")
        self._rounds = Rounds(interval_s=CLEAN_S, start=start_round)
        self._rounds.begin(CLEAN_S)

    async def on_stop(self, reason: StopReason) -> None:
        """Close the ledger. An ordered stop syncs first, unless a sync has failed: another proves
        nothing.
        """
        clean = False
        try:
            clean = await may_close_clean(self.syncer, reason)
        finally:
            self._ledger.close(ordered=clean)

    # ---- messages ----

    async def handle_batch(self, messages: list[_Inbox]) -> None:
        """Write appends that follow one another together, before the next other message."""
        appends: list[Append] = []
        for message in messages:
            if isinstance(message, Append) and not self._held:
                appends.append(message)
                continue
            if appends:
                self._append_all(appends)
                appends = []
            await self._other(message)
        if appends:
            self._append_all(appends)
        await self._sync_on()

    async def _other(self, message: _Inbox) -> None:
        match message:
            case Append() | Change() | GetMember():
                await self._write(message)
            case Condemn():
                raise StorageError(message.reason)
            case Doubt():
                self._ledger.verify(message.index, message.end_index, message.bytes_max)
            case store_messages.Mend():
                message.carry_out(self._ledger, self.ctx.emit)
            case SyncDone():
                await self._sync_done(message.offset_bytes)
            case OpenSession() | SaveVote():
                try:
                    self._save_or_open(message)
                except (StaleSession, LogFull) as refused:
                    message.reply_to.fail(refused)
            case Commit():
                self._commit(message)
            case DropBelow():
                self._floor_index = message.index
                self._rounds.hurry()
            case Subscribe():
                await self._growth.subscribe(message, self._grown())
            case Unsubscribe():
                self._growth.unsubscribe(message)
            case _WholeDue():
                self._whole_due = True
            case _CheckpointDue():
                self.ctx.spawn(self._feed_checkpoint)
            case _CheckpointLate():
                self._want_checkpoint()
            case CleanDue():
                self._clean(message)
            case store_messages.GetRoom():
                ledger = self._ledger
                message.reply_to.send(ledger.lacks_next() if message.looks else ledger.no_room)
            case _:
                assert_never(message)

    def _save_or_open(self, message: OpenSession | SaveVote) -> None:
        """Save a vote, or open a session once its vote is saved. Raises: StaleSession; LogFull."""
        if isinstance(message, SaveVote):
            self._ledger.save_vote(message.vote)
            message.reply_to.send(message.vote)
            return
        if message.session < self._session:
            raise self._stale(message.session)
        if message.vote is not None:
            self._ledger.save_vote(message.vote)
        self._session, self._term = message.session, message.term
        if self.recent is not None:
            self.recent.forget()
        end, term = self._ledger.end_index, self._ledger.end_term
        opened = SessionOpened(session=message.session, end_index=end, end_term=term)
        message.reply_to.send(opened)

    def _commit(self, message: Commit) -> None:
        """Record the committed index, at most up to the log's end: entries may wait behind a
        removal.
        """
        index = min(message.index, self._ledger.end_index)
        if message.session != self._session or index <= self._ledger.committed_index:
            return
        self._ledger.commit(index)
        self._want_checkpoint()

    def _want_checkpoint(self) -> None:
        if not self.ctx.timers.active("checkpoint"):
            self.ctx.timers.start("checkpoint", self.checkpoint_interval_s, _CheckpointDue())

    async def _feed_checkpoint(self) -> None:
        """Save the checkpoint. If several of these tasks run, the first also writes what comes due
        meanwhile.
        """
        try:
            await self._ledger.save_checkpoint_beside()
        except LogFull:
            await self.ctx.self_ref.tell(_CheckpointLate())

    def _stale(self, session: int) -> StaleSession:
        return StaleSession(f"a write of session {session}; the store is in {self._session}")

    def _grown(self) -> LedgerGrew:
        ledger = self._ledger
        return LedgerGrew(
            session=self._session,
            begin_index=ledger.begin_index,
            end_index=ledger.end_index,
            end_term=ledger.end_term,
            synced_index=ledger.synced_index,
            committed_index=ledger.committed_index,
            cuts=self._cuts,
        )

    # ---- writes ----

    async def _write(self, message: _Write) -> None:
        """Carry out a write in its order; a removal, and all writes after it, wait for the sync
        under way.
        """
        removes = isinstance(message, Change) and (message.restart or message.cut_from is not None)
        if self._held or (removes and self._work is not None):
            if len(self._held) < HELD_MAX:
                self._held.append(message)
            else:
                message.reply_to.fail(Overloaded("too many writes wait behind a removal"))
            return
        match message:
            case Append():
                self._append_all([message])
            case Change():
                await self._change(message)
            case GetMember():
                message.reply_to.send(MemberRecord.of(self._ledger, self._session))
            case _:
                assert_never(message)

    def _append_all(self, appends: list[Append]) -> None:
        """Write appends in groups of about GROUP_BYTES, each with one call."""
        size_max = entry_bytes_max(self.data_file_bytes)
        group: list[Append] = []
        size = 0
        for append in appends:
            largest = ENTRY_HEAD_BYTES + max(map(len, append.bodies))
            if append.session != self._session:
                append.reply_to.fail(self._stale(append.session))
            elif largest > size_max:
                append.reply_to.fail(TooLarge(f"an entry of {largest} bytes, at most {size_max}"))
            else:
                group.append(append)
                size += store_messages.size_of(append)
            if size >= GROUP_BYTES:
                self._append_group(group)
                group, size = [], 0
        if group:
            self._append_group(group)

    def _append_group(self, group: list[Append]) -> None:
        bodies = [body for append in group for body in append.bodies]
        try:
            added = self._ledger.append_as_leader(bodies, self._term)
        except LogFull as refused:
            for append in group:
                append.reply_to.fail(LogFull(str(refused)))
            self._rounds.hurry()
            return
        if self.recent is not None:
            self.recent.add(added, bodies)
        store_messages.answer_appends(group, added)

    async def _change(self, message: Change) -> None:
        if message.session != self._session:
            message.reply_to.fail(self._stale(message.session))
            return
        ledger = self._ledger
        try:
            if message.restart:
                first = message.entries[0]
                self._cuts += 1
                await stepped(ledger.restart_at(first.index, first.pos))
            elif message.cut_from is not None:
                self._cuts += 1
                await stepped(ledger.truncate(message.cut_from))
            if message.entries:
                ledger.append_as_follower(message.entries)
        except (LogFull, EntryRefused, IndexNotThere) as refused:
            message.reply_to.fail(refused)
            if isinstance(refused, LogFull):
                self._rounds.hurry()
        else:
            message.reply_to.send(Changed(end_index=ledger.end_index))

    # ---- durability ----

    async def _sync_on(self) -> None:
        """Begin a sync of what is not synced unless one is under way, and publish the log's
        range.
        """
        if self._work is None and (self._whole_due or not self._ledger.is_synced):
            work = self._ledger.begin_sync(whole=self._whole_due)
            self._whole_due = False
            self._sync_number += 1
            written = Written(offset_bytes=self._sync_number, paths=work.paths, gone=work.gone)
            if work.paths or work.gone:
                offered = self.syncer.offer(written)
                assert offered or not self.syncer.alive, "one sync at a time leaves room"
            if work.paths:
                self._work = work
            else:
                self._end_sync(work)
        await self._growth.publish(self._grown())

    async def _sync_done(self, number: int) -> None:
        """End a sync, and carry out the writes that waited for it before the next one begins."""
        work, self._work = self._work, None
        assert work is not None
        assert number == self._sync_number
        self._end_sync(work)
        held, self._held = self._held, []
        for message in held:
            await self._write(message)

    def _end_sync(self, work: SyncWork) -> None:
        waits = self._ledger.end_sync(work)
        if waits and not self.ctx.timers.active("whole"):
            self.ctx.timers.start("whole", WHOLE_SYNC_S, _WholeDue())

    # ---- expiry ----

    def _clean(self, due: CleanDue) -> None:
        """Delete at most one file, whose entries a snapshot replaces or which has expired."""
        ledger, reason = self._ledger, None
        if due.looks:
            ledger.look_for_room()
        elif due.deleted < FILES_PER_ROUND_MAX:
            reason = ledger.delete_expired(self._floor_index, snapshot=True)
            if reason is None and not self.by_snapshot:
                reason = ledger.delete_expired(ledger.committed_index + 1)
        if reason is not None:
            self._cuts += 1
            self.ctx.emit(SegmentExpired(min_bytes=ledger.begin_bytes, reason=reason))
        self._rounds.looked(due, has_gone=reason is not None, has_room=not ledger.no_room)
