"""EntryDispatcher sends the leader's log to one peer.

Upstream: openmessaging/dledger, DLedgerEntryPusher.java (EntryDispatcher), 0.3.1.2; the decisions
and their differences are in `core.dispatch`.

Differs: entries are read by the hundred and sent as the decisions ask for them. A peer that takes
batches gets one push for all new entries.

Messages: LedgerGrew, GetProgress, its connection's, and sessions; with `shared_connection` of
`compat` also Call and GetLink, as an RPCPeer. It calls its peer over a connection of its own, tells
the checker Matched, the maintainer SawTerm and Rejoin; with a state machine it asks the caller
GetSnapshot and tells it ReleaseSnapshot. A restart ends the connection, forgets what the peer has,
and begins in COMPARE as soon as the maintainer has sent the session again; its siblings notice
nothing.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, TypeAlias, assert_never

import attrs
from msgspec import Raw

from actors.dledger.core.dispatch import Dispatch
from actors.dledger.core.push_effects import DispatchEffects, DispatcherState, Push
from actors.dledger.leader_status import LeaderStatus
from actors.dledger.machine.machine_messages import GetSnapshot, NoSnapshot, ReleaseSnapshot
from actors.dledger.replication.append_messages import Matched
from actors.dledger.replication.push_bodies import push_answer
from actors.dledger.rpc.peer import PeerConnection
from actors.dledger.rpc.peer_messages import GetLink, GetProgress, Progress
from actors.dledger.rpc.refusal_log import RefusalLog
from actors.dledger.rpc.rpc_messages import Base, Call, Sender
from actors.dledger.session_messages import CONTROL, Following, Leading, Rejoin, Resting, SawTerm
from actors.env.protocols import Disk
from actors.errors import StorageError
from actors.events import dledger as events
from actors.remoting.calling import (
    PENDING_BYTES,
    WORK_BYTES,
    CallsDue,
    Connected,
    IdleDue,
    News,
)
from actors.remoting.stream import Received, StreamEnded
from actors.runtime import Actor, ActorRef, MailboxSpec, StopReason
from actors.storage.commitlog.pull_service import IDLE_NEWS_WITHIN_S
from actors.storage.ledger import store_messages
from actors.storage.ledger.entry_window import EntryWindow
from actors.storage.ledger.ledger import IndexGone
from actors.storage.ledger.snapshots import CHUNK_BYTES, Reader, Snapshot
from actors.storage.log.growth import Subscribe, Unsubscribe
from wire.dledger.codes import PushType, ResponseCode, response_code
from wire.dledger.rpc import (
    InstallSnapshotRequest,
    InstallSnapshotResponse,
    PushEntryRequest,
    Response,
)

MAILBOX_CAPACITY: Final = 4096
"""Most messages are answers, one to each push that is under way."""
SNAPSHOT_TIMEOUT_S: Final = 60.0
"""The seconds that state_machine_caller has to answer before it is asked again; it may be loading a
snapshot itself.
"""


PIECE_TIMEOUT_S: Final = 5.0
"""The seconds that a peer has to answer a piece; upstream waits 3 s for the whole snapshot."""
LAST_TRIES_MAX: Final = 240
"""How often the last piece is sent, for 20 minutes. A peer that runs answers it once its machine
has read the whole snapshot, and one that was restarted meanwhile refuses it.
"""


@attrs.define
class SnapshotSending:
    """A snapshot that is being sent to a peer, piece by piece. The owner closes it.

    Upstream: openmessaging/dledger, DLedgerEntryPusher.java, doInstallSnapshot, tag 0.4.0, which
    sends the whole in one request: a frame holds 12 MB of it at most. Differs: a larger snapshot
    goes in several pieces, one after the other.
    """

    snapshot: Snapshot
    _reader: Reader
    _last: InstallSnapshotRequest | None = None
    _sent_s: float = 0.0
    _tries: int = 0

    @classmethod
    def open(cls, disk: Disk, snapshot: Snapshot) -> SnapshotSending:
        """Open the snapshot's file for sending. Raises: SnapshotDamaged; OSError."""
        return cls(snapshot, Reader.open(disk, snapshot))

    @property
    def is_all(self) -> bool:
        """Whether `next_request` has returned every byte of the snapshot."""
        return self._reader.at_bytes >= self.snapshot.size_bytes

    def next_request(self, now_s: float, base: Base) -> InstallSnapshotRequest:
        """Return the request that carries the next piece. Raises: SnapshotDamaged; OSError."""
        snapshot, at = self.snapshot, self._reader.at_bytes
        data = self._reader.read()
        self._sent_s = now_s
        whole = snapshot.size_bytes <= CHUNK_BYTES
        self._last = InstallSnapshotRequest(
            data=data if whole else None,
            piece=None if whole else data,
            piece_at=None if whole else at,
            total_bytes=None if whole else snapshot.size_bytes,
            total_crc=None if whole else snapshot.crc,
            last_included_index=snapshot.index,
            last_included_term=snapshot.term,
            **base,
        )
        return self._last

    def again(self, now_s: float) -> InstallSnapshotRequest | None:
        """Return the final piece once more, because its answer did not come in time.

        Returns: None to give up: the call ended before its time-out, the piece was not the final
            one, or it was sent LAST_TRIES_MAX times again.
        """
        late = now_s >= self._sent_s + PIECE_TIMEOUT_S
        if not self.is_all or not late or self._tries >= LAST_TRIES_MAX:
            return None
        self._tries += 1
        self._sent_s = now_s
        return self._last

    def close(self) -> None:
        self._reader.close()


@attrs.frozen
class _Piece:
    """The token of the call that carries a piece of a snapshot; the token of a push is the Push."""

    number: int


@attrs.frozen(kw_only=True)
class _SnapshotSaid:
    """The caller's answer to GetSnapshot."""

    session: int
    outcome: Snapshot | Exception


@attrs.frozen(kw_only=True)
class _TickDue:
    """Timer: `DispatchEffects.deadline_s` has come."""


_TICK_DUE: Final = _TickDue()


Message: TypeAlias = (
    store_messages.LedgerGrew | GetProgress | Call | GetLink | Resting | Following | Leading
)
_Inbox: TypeAlias = Message | News | _TickDue | _SnapshotSaid


def _size_of(message: _Inbox) -> int:
    return message.size_bytes if isinstance(message, Received) else 0


@attrs.define(kw_only=True)
class EntryDispatcher(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        connection: the connection to the peer.
        dispatch: the decisions; their sizes come from `window`.
        timeout_s: how many seconds a push may take to be answered.
        role_status: where it finds the committed index.
        caller: of a group with a state machine.
    """

    mailbox = MailboxSpec(
        capacity=MAILBOX_CAPACITY,
        capacity_bytes=PENDING_BYTES,
        size_of=_size_of,
        conflate={store_messages.LedgerGrew: lambda message: None},
        control=CONTROL,
    )
    sender: Sender
    connection: PeerConnection
    dispatch: Dispatch
    window: EntryWindow
    timeout_s: float
    store_ref: ActorRef[store_messages.Message]
    checker: ActorRef[Matched]
    maintainer: ActorRef[SawTerm | Rejoin]
    disk: Disk
    role_status: LeaderStatus
    caller: ActorRef[GetSnapshot | ReleaseSnapshot] | None = None
    _session: int = attrs.field(default=-1, init=False)
    _term: int = attrs.field(default=-1, init=False)
    _cuts: int = attrs.field(default=-1, init=False)
    _matched: int | None = attrs.field(default=None, init=False)  # not reported yet
    _reported: int = attrs.field(default=-1, init=False)  # to the checker, in this session
    _ended: deque[tuple[Push | _Piece, Response | None]] = attrs.field(factory=deque, init=False)
    _sending: SnapshotSending | None = attrs.field(default=None, init=False)
    _log: RefusalLog = attrs.field(
        default=attrs.Factory(lambda part: RefusalLog(part.sender.group), takes_self=True),
        init=False,
    )
    _holds: bool = attrs.field(default=False, init=False)  # a snapshot
    _piece: int = attrs.field(default=0, init=False)  # number of the last one

    # ---- start and stop ----

    async def on_start(self) -> None:
        self.connection.begin(self.ctx, self._call_ended)
        if self.ctx.incarnation > 1:
            self._holds = self.caller is not None  # perhaps, since before a restart
            await self._release()
            await self.maintainer.tell(Rejoin(actor=self.ctx.path, renew=False))

    async def on_stop(self, reason: StopReason) -> None:
        await self.store_ref.tell(Unsubscribe(subscriber=self.ctx.self_ref))
        self.connection.close()
        self.window.forget()
        await self._release()

    # ---- messages ----

    async def handle_batch(self, messages: list[_Inbox]) -> None:
        """Take the messages of a batch, then send all its pushes together."""
        connection = self.connection
        for message in messages:
            match message:
                case store_messages.LedgerGrew():
                    await self._grew(message)
                case Received() | Connected() | StreamEnded() | CallsDue() | IdleDue():
                    await connection.take(message)
                case _SnapshotSaid():
                    await self._snapshot_said(message)
                case _TickDue():
                    await self._carry_out(self.dispatch.tick(self.ctx.now_s()))
                case Leading():
                    await self._lead(message)
                case Resting() | Following():
                    await self._rest(message.session)
                case GetProgress():
                    message.reply_to.send(self._progress())
                case Call():
                    connection.call(message.request, message, timeout_s=message.timeout_s)
                case GetLink():
                    message.reply_to.send(connection.link)
                case _:
                    assert_never(message)
            while self._ended:
                await self._answered(*self._ended.popleft())
            if connection.work_bytes >= WORK_BYTES:
                await connection.breathe()
        connection.flush()
        installs = (DispatcherState.INSTALL_SNAPSHOT, DispatcherState.TRUNCATE)
        if self._holds and not (self.dispatch.leading and self.dispatch.state in installs):
            await self._release()
        if self._matched is not None:
            await self._send_matched(self._matched)
        if self.dispatch.refusal:
            peer, me = self.dispatch.peer, self.sender.self_id
            self._log.say(peer, f"{peer}, which follows {me}, {self.dispatch.refusal}")

    async def _send_matched(self, index: int) -> None:
        """Tell the checker how far the peer's log matches.

        An index that is committed already is deferred until the next message to the checker. One
        below the last report, because the peer has lost entries, is sent at once.
        """
        matched = Matched(session=self._session, peer=self.dispatch.peer, index=index)
        if self._reported <= index <= self.role_status.committed:
            self.checker.defer(matched, within_s=IDLE_NEWS_WITHIN_S)
        else:
            await self.checker.tell(matched)
        self._reported, self._matched = index, None

    def _progress(self) -> Progress:
        dispatch = self.dispatch
        return Progress(
            leading=dispatch.leading,
            state=dispatch.state,
            matched=dispatch.matched,
            lag=dispatch.lag,
            refusal=dispatch.refusal,
        )

    async def _rest(self, session: int) -> None:
        if session > self._session:
            self._session = session
            self._matched = None
            if self.dispatch.leading:
                await self.store_ref.tell(Unsubscribe(subscriber=self.ctx.self_ref))
            self.dispatch.rest()

    async def _lead(self, change: Leading) -> None:
        if change.session < self._session or (
            change.session == self._session and self.dispatch.leading
        ):
            return
        self._session, self._term, self._matched = change.session, change.term, None
        self._reported = -1
        self._log.forget()
        self.window.forget()  # what this member had as a follower may have been cut
        self.window.end = change.end
        # Entries are sent as soon as they are written; commits wait for them anyway.
        wanted = Subscribe(
            subscriber=self.ctx.self_ref,
            minor=store_messages.COMMITS,
            idle=store_messages.SYNCS,
        )
        await self.store_ref.tell(wanted)
        await self._carry_out(
            self.dispatch.lead(
                self.ctx.now_s(),
                term=change.term,
                begin=change.begin,
                end=change.end,
                committed=change.committed,
            )
        )

    async def _grew(self, log: store_messages.LedgerGrew) -> None:
        if log.cuts != self._cuts:
            self._cuts = log.cuts
            self.window.forget()
        if log.session != self._session or not self.dispatch.leading:
            return
        if log.end_index < self.window.end:
            return  # from before the session was sent
        self.window.end = log.end_index
        begin, end, committed = log.begin_index, log.end_index, log.committed_index
        await self._carry_out(self.dispatch.grew(self.ctx.now_s(), begin, end, committed))

    def _call_ended(self, token: Any, response: Response | None) -> None:
        if isinstance(token, Call):
            token.answer(self.dispatch.peer, response)
        else:
            self._ended.append((token, response))

    async def _answered(self, token: Push | _Piece, response: Response | None) -> None:
        if isinstance(token, _Piece):
            await self._piece_answered(token.number, response)
        else:
            answer = push_answer(response)
            await self._carry_out(self.dispatch.answered(self.ctx.now_s(), token, answer))

    # ---- what is sent ----

    async def _carry_out(self, effects: DispatchEffects) -> None:
        for event in effects.events:
            self.ctx.emit(event)
        if effects.matched is not None:
            self._matched = effects.matched
        if effects.larger_term is not None:
            await self.maintainer.tell(SawTerm(term=effects.larger_term))
        gone = None
        for push in effects.pushes:
            made = self._request(push)
            if made is None:
                gone = push
                break
            request, batch = made
            self.connection.call(request, push, timeout_s=self.timeout_s, batch=batch)
        if effects.deadline_s is not None:
            self.ctx.timers.start_by("tick", effects.deadline_s, _TICK_DUE)
        if effects.install:
            self._get_snapshot()
        if gone is not None:
            await self._carry_out(self.dispatch.unreadable(self.ctx.now_s(), gone))

    def _request(self, push: Push) -> tuple[PushEntryRequest, Raw | None] | None:
        """Return a push with its entries, and their JSON if it is known.

        Returns: None if one of the entries has expired.
        """
        base = self.sender.base(self.dispatch.peer, self.sender.self_id, self._term)
        if push.type is PushType.COMMIT:
            request = PushEntryRequest(type=push.type, commit_index=push.commit_index, **base)
            return request, None
        try:
            if push.first == push.last:
                entry = self.window.entry(push.first)
                request = PushEntryRequest(
                    type=push.type, commit_index=push.commit_index, entry=entry, **base
                )
                return request, None
            entries, batch = self.window.batch(push.first, push.last)
        except IndexGone:
            return None
        request = PushEntryRequest(
            type=push.type, commit_index=push.commit_index, batch_entry=entries, **base
        )
        return request, batch

    # ---- snapshots ----

    def _get_snapshot(self) -> None:
        assert self.caller is not None, "only a group with a state machine installs"
        session = self._session
        self._holds = True
        self.ctx.ask_later(
            self.caller,
            Snapshot,
            lambda reply_to: GetSnapshot(holder=self.ctx.path, reply_to=reply_to),
            timeout_s=SNAPSHOT_TIMEOUT_S,
            on_reply=lambda outcome: _SnapshotSaid(session=session, outcome=outcome),
        )

    async def _snapshot_said(self, said: _SnapshotSaid) -> None:
        if said.session != self._session or not self.dispatch.leading:
            return
        if isinstance(said.outcome, Exception):
            named = isinstance(said.outcome, NoSnapshot)
            await self._install_failed(-1, said.outcome, reports=named)
            return
        try:
            self._sending = SnapshotSending.open(self.disk, said.outcome)
        except (StorageError, OSError) as error:
            await self._install_failed(said.outcome.index, error)
        else:
            await self._send_piece(self._sending)

    async def _send_piece(self, sending: SnapshotSending) -> None:
        base = self.sender.base(self.dispatch.peer, self.sender.self_id, self._term)
        try:
            request = sending.next_request(self.ctx.now_s(), base)
        except (StorageError, OSError) as error:
            await self._install_failed(sending.snapshot.index, error)
        else:
            self._call_piece(request)

    def _call_piece(self, request: InstallSnapshotRequest) -> None:
        self._piece += 1
        self.connection.call(request, _Piece(self._piece), timeout_s=PIECE_TIMEOUT_S)

    async def _piece_answered(self, number: int, said: Response | None) -> None:
        response = said if isinstance(said, InstallSnapshotResponse) else None
        sending = self._sending
        if number != self._piece or sending is None:
            return
        if response is not None and response.term > self._term:
            await self.maintainer.tell(SawTerm(term=response.term))
        code = ResponseCode.NETWORK_ERROR if response is None else response_code(response.code)
        if response is not None and response.term != self._term:
            code = ResponseCode.EXPIRED_TERM  # the answer is not of this term
        if code is ResponseCode.SUCCESS and not sending.is_all:
            await self._send_piece(sending)
        elif code in (ResponseCode.SUCCESS, ResponseCode.REPEATED_REQUEST):
            self._close_sending()
            now_s, index = self.ctx.now_s(), sending.snapshot.index
            await self._carry_out(self.dispatch.installed(now_s, index))
        elif response is None and (again := sending.again(self.ctx.now_s())) is not None:
            self._call_piece(again)
        else:
            error = StorageError(f"{self.dispatch.peer} answered {code.name}")
            await self._install_failed(sending.snapshot.index, error, reports=False)

    async def _install_failed(self, index: int, error: Exception, *, reports: bool = True) -> None:
        self._close_sending()
        if reports:
            self.ctx.emit(events.SnapshotFailed(index=index, reason=str(error)))
        why = f"no snapshot: {error}"
        await self._carry_out(self.dispatch.install_failed(self.ctx.now_s(), why))

    def _close_sending(self) -> None:
        self._piece += 1  # so an answer that still comes is ignored
        if self._sending is not None:
            self._sending.close()
            self._sending = None

    async def _release(self) -> None:
        self._close_sending()
        if self._holds and self.caller is not None:
            self._holds = False
            await self.caller.tell(ReleaseSnapshot(holder=self.ctx.path))
