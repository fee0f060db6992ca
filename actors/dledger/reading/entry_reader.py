"""EntryReader answers reads of the log up to the committed index, and keeps those that wait.

Upstream: openmessaging/dledger, DLedgerServer.java (handleGet), 0.3.1.2; dledger.md 5.

Differs: reads end at the committed index (bug B13), on every member alike; `uncommitted` (`compat`)
shows what upstream does. Over the wire the leader alone answers, as upstream's does.

Messages: Read and WatchOffsets as `storage.commitlog.pull_service` takes them, with indexes for
positions (the end of a range is the index after its last entry); Inspect and GetEntry for `repair`;
Asked (GET); CommittedTo, LedgerGrew, and sessions. It asks no actor. An entry that cannot be read
is the error of that request, and the store finds out whether it is damaged (`Doubt`). A restart
forgets the committed index until the store reports it, and the reads that wait: their replies fail.
"""

from __future__ import annotations

from typing import TypeAlias, assert_never

import attrs
import trio

from actors.dledger.rpc.rpc_messages import Asked
from actors.dledger.session_messages import CONTROL, Following, Leading, Rejoin, Resting
from actors.errors import Closed, StorageError
from actors.log_types import GoodRange, Offsets
from actors.runtime import Actor, ActorRef, MailboxSpec, ReplyTo, StopReason
from actors.runtime.loop_share import let_others_work
from actors.storage.commitlog.pull_service import (
    HELD_MAX,
    IDLE_NEWS_WITHIN_S,
    READ_BYTES_MAX,
    Pulled,
    Read,
    Watches,
    WatchOffsets,
)
from actors.storage.ledger import store_messages
from actors.storage.ledger.entry_window import EntrySource
from actors.storage.ledger.ledger import IndexGone
from actors.storage.ledger.mending import Inspected, good_entry, inspect
from actors.storage.ledger.reader import LedgerReader as EntryFiles
from actors.storage.ledger.reader import last_index
from actors.storage.log.growth import Subscribe, Unsubscribe
from wire.dledger.codes import ResponseCode
from wire.dledger.entry import Entry, decode_entry
from wire.dledger.rpc import GetEntriesRequest, GetEntriesResponse


@attrs.frozen(kw_only=True)
class CommittedTo:
    """This member knows that all up to `index` is committed. Conflated."""

    index: int


@attrs.frozen(kw_only=True)
class Inspect:
    """Check some entries from `index` on that are committed and synced here, for `repair`.

    The answer's `next_index` is `index` if there are none.
    """

    index: int
    reply_to: ReplyTo[Inspected]


@attrs.frozen(kw_only=True)
class GetEntry:
    """Ask for an entry that is committed and synced here, if it is what was written."""

    index: int
    reply_to: ReplyTo[GoodRange]


Message: TypeAlias = (
    Read
    | WatchOffsets
    | Inspect
    | GetEntry
    | Asked
    | CommittedTo
    | store_messages.LedgerGrew
    | Resting
    | Following
    | Leading
)


def _only_one(_: object) -> None:
    """Return the conflation key of messages of which only the newest matters."""


@attrs.define(kw_only=True)
class EntryReader(Actor[Message]):
    """See the module's text.

    Attributes:
        files: reads the same log for `repair`, which does not report damage to the store; None if
            the log is in memory.
        uncommitted: whether readers see all that is written, committed or not.
    """

    mailbox = MailboxSpec(
        capacity=HELD_MAX,
        conflate={CommittedTo: _only_one, store_messages.LedgerGrew: _only_one},
        control=CONTROL,
    )
    self_id: str
    source: EntrySource
    files: EntryFiles | None
    uncommitted: bool
    store_ref: ActorRef[store_messages.Message]
    maintainer: ActorRef[Rejoin]
    _session: int = attrs.field(default=-1, init=False)
    _term: int = attrs.field(default=-1, init=False)
    _leader: str = attrs.field(default="", init=False)
    _committed: int = attrs.field(default=-1, init=False)
    _begin: int = attrs.field(default=-1, init=False)
    _end: int = attrs.field(default=-1, init=False)
    _synced: int = attrs.field(default=-1, init=False)
    _cuts: int = attrs.field(default=-1, init=False)
    _watches: Watches = attrs.field(factory=Watches, init=False)

    # ---- start and stop ----

    async def on_start(self) -> None:
        wanted = Subscribe(subscriber=self.ctx.self_ref, within_s=IDLE_NEWS_WITHIN_S)
        await self.store_ref.tell(wanted)
        if self.ctx.incarnation > 1:
            await self.maintainer.tell(Rejoin(actor=self.ctx.path, renew=False))

    async def on_stop(self, reason: StopReason) -> None:
        await self.store_ref.tell(Unsubscribe(subscriber=self.ctx.self_ref))
        self._forget()

    def _forget(self) -> None:
        self.source.forget()
        if self.files is not None:
            self.files.forget()

    # ---- messages ----

    async def handle(self, message: Message) -> None:
        match message:
            case Read():
                began_s = trio.current_time()
                self._read(message)
                await let_others_work(trio.current_time() - began_s)
            case Inspect() | GetEntry():
                began_s = trio.current_time()
                self._look(message)
                await let_others_work(trio.current_time() - began_s)
            case WatchOffsets():
                self._watches.add(message)
                self._answer_watchers()
            case CommittedTo():
                # AcknowledgedMonotonic: what was shown once is never taken back.
                self._committed = max(self._committed, message.index)
                self._answer_watchers()
            case store_messages.LedgerGrew():
                self._grew(message)
            case Asked():
                self._get(message)
            case Resting() | Following() | Leading():
                self._act_by(message)
            case _:
                assert_never(message)

    def _act_by(self, change: Resting | Following | Leading) -> None:
        if change.session < self._session:
            return
        self._session, self._term = change.session, change.term
        match change:
            case Leading():
                self._leader = self.self_id
            case Following():
                self._leader = change.leader
            case Resting():
                self._leader = ""
            case _:
                assert_never(change)
        self._answer_watchers()

    def _grew(self, log: store_messages.LedgerGrew) -> None:
        if log.cuts != self._cuts:
            self._cuts = log.cuts
            self._forget()
        self._begin, self._end, self._synced = log.begin_index, log.end_index, log.synced_index
        self._committed = max(self._committed, log.committed_index)
        self._answer_watchers()

    # ---- reads ----

    @property
    def _shown(self) -> int:
        """The last entry that readers may see, whether this member holds it or not."""
        return max(self._committed, self._end) if self.uncommitted else self._committed

    @property
    def _readable(self) -> int:
        """The last entry that can be read on this member."""
        return min(self._shown, self._end)

    def _offsets(self) -> Offsets:
        return Offsets(
            min=max(self._begin, 0),
            written=self._end + 1,
            synced=self._synced + 1,
            acknowledged=max(self._shown + 1, self._begin),
            master=self._leader or None,
        )

    def _answer_watchers(self) -> None:
        if self._watches:
            self._watches.answer(self._offsets(), self._readable + 1)
            self.ctx.limit_delay(self._watches.news_within_s)

    def _read(self, request: Read) -> None:
        offsets = self._offsets()
        start = max(request.start, offsets.min)
        data = b""
        if start <= self._readable:
            size = min(request.max_bytes, READ_BYTES_MAX)
            try:
                data = self.source.read(start, self._readable, size)
            except IndexGone:
                pass  # a cut, whose report is still in the mailbox: reads go on then
            except (StorageError, OSError) as error:
                # Another member can be asked; the store finds out whether this is damage.
                request.reply_to.fail(Closed(f"{self.ctx.path} cannot read: {error}"))
                return
        following = start if not data else last_index(data) + 1
        request.reply_to.send(Pulled(start=start, next=following, data=data, offsets=offsets))

    def _look(self, request: Inspect | GetEntry) -> None:
        """Answer a question of `repair`; damage that it finds does not end this member."""
        last, index = min(self._committed, self._synced), request.index
        match request:
            case Inspect():
                at = max(index, self._begin, 0)
                found = Inspected(next_index=at)
                if self.files is not None and at <= last:
                    found = inspect(self.files, at, last)
                request.reply_to.send(found)
            case GetEntry():
                given = GoodRange(start=index, refused="it is not committed and synced there")
                if self.files is not None and max(self._begin, 0) <= index <= last:
                    given = good_entry(self.files, index)
                request.reply_to.send(given)
            case _:
                assert_never(request)

    def _get(self, asked: Asked) -> None:
        request = asked.request
        assert isinstance(request, GetEntriesRequest)
        code, entries = self._entry(request.begin_index)
        asked.reply_to.send(
            GetEntriesResponse(
                code=code,
                entries=entries,
                group=request.group,
                leader_id=None if entries else self._leader or None,
                local_id=None if entries else request.local_id,
                remote_id=None if entries else request.remote_id,
                term=-1 if entries else request.term,
            )
        )

    def _entry(self, index: int | None) -> tuple[ResponseCode, tuple[Entry, ...]]:
        if self._leader != self.self_id:
            return ResponseCode.NOT_LEADER, ()
        if index is None:
            return ResponseCode.UNEXPECTED_ARGUMENT, ()
        if not 0 <= index <= self._readable:
            return ResponseCode.INDEX_OUT_OF_RANGE, ()
        try:
            if index >= self._begin:
                data = self.source.read(index, index, 0)
                return ResponseCode.SUCCESS, (decode_entry(data),)
        except IndexGone:
            pass
        except (StorageError, OSError):
            return ResponseCode.DISK_ERROR, ()
        return ResponseCode.INDEX_LESS_THAN_LOCAL_BEGIN, ()
