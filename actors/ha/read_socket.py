"""ReadSocket takes the requests of one slave connection: reports, in some dialects a handshake.

Source: apache/rocketmq store/ha/DefaultHAConnection.ReadSocketService, and the same of
AutoSwitchHAConnection (5.3.3); the decisions and their differences are in `core.report_progress`.

Messages: LogGrew, and its feeder's. It sends write_socket what to answer to a handshake and where
to begin, and has the store send it what of the log may be sent; connection_state hears of the
connection when a handshake says whose it is; group_transfer and connection_state get what the slave
holds. A growth of the log is deferred to this actor before write_socket gets it, so it knows the
master's end before a byte of it can be sent, and no true report looks too high. It ends with the
connection: on the end of the stream, a refused request, or silence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias, assert_never

import attrs
import trio

from actors.env.protocols import ReceiveHalf
from actors.events import ha as events
from actors.ha import connection_state, group_transfer, write_socket
from actors.ha.core import report_progress
from actors.ha.core.dialect import Dialect, RequestDecoder
from actors.ha.core.extent import LogExtent
from actors.ha.core.report_progress import ReportProgress
from actors.ha.core.sent_mark import SentMark
from actors.ha.core.states import Lost
from actors.runtime import Actor, ActorRef, MailboxSpec, StopReason
from actors.storage.commitlog import store_messages
from actors.storage.log.growth import Subscribe, Unsubscribe
from wire.buffer import NEED_DATA
from wire.errors import RemoteProtocolError
from wire.ha.frames import Report

RECEIVE_BYTES = 4096
"""The size of one read: 512 reports, far more than a slave sends between two reads."""


@attrs.define
class Peer:
    """The other end of a connection, as read_socket and the connection's supervisor know it.

    Attributes:
        slave: the slave's name: from the accept on where its address tells, otherwise from its
            handshake on; "" before.
    """

    slave: str


@attrs.frozen(kw_only=True)
class _Received:
    """Feeder: bytes came."""

    data: bytes


@attrs.frozen(kw_only=True)
class _StreamEnded:
    """Feeder: no more bytes will come."""

    reason: Lost
    detail: str


@attrs.frozen(kw_only=True)
class _Housekeeping:
    """Timer: the connection may have been silent for too long."""


Message: TypeAlias = store_messages.LogGrew
_Inbox: TypeAlias = Message | _Received | _StreamEnded | _Housekeeping


@attrs.define
class ReadSocket(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        synced: whether only synced bytes are sent, so that other growth does not wake the writer.
    """

    mailbox = MailboxSpec(capacity=64, conflate={store_messages.LogGrew: lambda message: None})
    _peer: Peer
    _address: str
    _connection: int
    _receive: ReceiveHalf
    _abort: Callable[[], None]
    _dialect: Dialect
    _segment_bytes: int
    _housekeeping_s: float
    _synced: bool
    _mark: SentMark
    _store: ActorRef[Subscribe[store_messages.LogGrew] | Unsubscribe]
    _write_socket: ActorRef[write_socket.Message]
    _group_transfer: ActorRef[group_transfer.Message]
    _connection_state: ActorRef[connection_state.Message]
    _decoder: RequestDecoder = attrs.field(init=False)
    _progress: ReportProgress = attrs.field(init=False)
    _is_learner: bool = False
    _ending: bool = False

    async def on_start(self) -> None:
        self._decoder = self._dialect.request_decoder()
        self._progress = ReportProgress(
            start_rule=self._dialect.start_rule,
            segment_bytes=self._segment_bytes,
            housekeeping_s=self._housekeeping_s,
            mark=self._mark,
            handshake=self._dialect.handshake,
            upstream=self._dialect.upstream,
            last_report_s=self.ctx.now_s(),
        )
        await self._store.tell(Subscribe(subscriber=self.ctx.self_ref, within_s=math.inf))
        self.ctx.timers.start_at("housekeeping", self._progress.deadline_s, _Housekeeping())
        self.ctx.spawn(self._feed)

    async def handle_batch(self, messages: list[_Inbox]) -> None:
        """Housekeeping comes last, so that it judges by all that has arrived."""
        tick = False
        for message in messages:
            if self._ending:
                return
            match message:
                case store_messages.LogGrew():
                    await self._grew(message)
                case _Received():
                    await self._received(message.data)
                case _StreamEnded():
                    await self._end(message.reason, message.detail)
                case _Housekeeping():
                    tick = True
                case _:
                    assert_never(message)
        if tick and not self._ending:
            await self._carry_out(self._progress.tick(self.ctx.now_s()))
            self.ctx.timers.start_at("housekeeping", self._progress.deadline_s, _Housekeeping())

    async def on_stop(self, reason: StopReason) -> None:
        self._abort()  # first, so that a write_socket that waits for a stalled slave ends too
        if not self._ending:
            stopped = Lost.STOPPED if reason == StopReason.SHUTDOWN else Lost.BROKEN
            await self._send_ending(stopped, "")
        await self._store.tell(Unsubscribe(subscriber=self.ctx.self_ref))
        await self._store.tell(Unsubscribe(subscriber=self._write_socket))

    async def _feed(self) -> None:
        reason, detail = Lost.PEER_CLOSED, ""
        try:
            while data := await self._receive.receive_some(RECEIVE_BYTES):
                await self.ctx.self_ref.tell(_Received(data=data))
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            reason, detail = Lost.BROKEN, str(error)
        await self.ctx.self_ref.tell(_StreamEnded(reason=reason, detail=detail))

    async def _grew(self, message: store_messages.LogGrew) -> None:
        extent = LogExtent(message.min_bytes, message.written_bytes, message.synced_bytes)
        effects = self._progress.grew(extent)
        await self._carry_out(effects)

    async def _received(self, data: bytes) -> None:
        now_s = self.ctx.now_s()
        try:
            self._decoder.receive_data(data)
            while not self._ending and (request := self._decoder.next_message()) is not NEED_DATA:
                if isinstance(request, Report):
                    await self._carry_out(self._progress.report(request.offset, now_s))
                else:
                    await self._carry_out(self._progress.requested(request, now_s))
        except RemoteProtocolError as error:
            only_reports = self._dialect.handshake is None
            await self._end(Lost.REPORT_NEGATIVE if only_reports else Lost.BAD_REQUEST, str(error))

    async def _carry_out(self, effects: report_progress.Effects) -> None:
        if effects.identified is not None:
            await self._identified(effects.identified)
        if effects.start is not None:
            await self._begin(effects.start)
        if effects.acked_bytes is not None:
            await self._group_transfer.tell(
                group_transfer.SlaveAcked(
                    slave=self._peer.slave,
                    connection=self._connection,
                    offset_bytes=effects.acked_bytes,
                )
            )
            accepted = connection_state.ReportAccepted(
                connection=self._connection, offset_bytes=effects.acked_bytes
            )
            if effects.start is not None:  # which may replace an older connection
                await self._connection_state.tell(accepted)
            else:
                self._connection_state.defer(accepted)
        if effects.refused is not None:
            await self._refuse(effects.refused)
        if effects.stranger is not None:
            await self._end(effects.stranger.reason, effects.stranger.detail)
        if effects.silent:
            await self._end(Lost.SILENT, "")

    async def _identified(self, identified: report_progress.Identified) -> None:
        """Open the connection as its slave's, once, and answer."""
        self._is_learner = identified.async_learner
        if not self._peer.slave:
            self._peer.slave = identified.slave
            self.ctx.emit(
                events.HAConnectionOpened(
                    slave=identified.slave, connection=self._connection, address=self._address
                )
            )
            await self._connection_state.tell(
                connection_state.ConnectionOpened(
                    slave=identified.slave,
                    connection=self._connection,
                    address=self._address,
                )
            )
        await self._write_socket.tell(write_socket.Answer(data=identified.answer))

    async def _begin(self, start: report_progress.Start) -> None:
        self.ctx.emit(
            events.HATransferStarted(
                slave=self._peer.slave,
                connection=self._connection,
                report_bytes=start.report_bytes,
                start_bytes=start.start_bytes,
            )
        )
        await self._group_transfer.tell(
            group_transfer.SlaveJoined(
                slave=self._peer.slave,
                connection=self._connection,
                holds_from_bytes=start.holds_from_bytes,
                async_learner=self._is_learner,
            )
        )
        await self._write_socket.tell(write_socket.Begin(start_bytes=start.start_bytes))
        await self._store.tell(
            Subscribe(
                subscriber=self._write_socket,
                idle=store_messages.WRITTEN if self._synced else frozenset(),
            )
        )

    async def _refuse(self, refused: report_progress.RefusedReport) -> None:
        self.ctx.emit(
            events.HAReportRefused(
                slave=self._peer.slave,
                connection=self._connection,
                reason=refused.reason.value,
                report_bytes=refused.report_bytes,
                min_bytes=refused.min_bytes,
                max_bytes=refused.max_bytes,
            )
        )
        what = "it can have" if refused.reason is Lost.REPORT_UNSENT else "the log is"
        await self._end(
            refused.reason,
            f"{refused.report_bytes}, {what} {refused.min_bytes} to {refused.max_bytes}",
            refused.report_bytes,
        )

    async def _end(self, reason: Lost, detail: str, report_bytes: int | None = None) -> None:
        self._ending = True
        await self._send_ending(reason, detail, report_bytes)
        self.ctx.stop()

    async def _send_ending(
        self, reason: Lost, detail: str, report_bytes: int | None = None
    ) -> None:
        await self._connection_state.tell(
            connection_state.Ending(
                connection=self._connection,
                reason=reason,
                detail=detail,
                report_bytes=report_bytes,
                stranger="" if self._peer.slave else self._address,
            )
        )
