"""A connection to one peer, over which this member's actors call it; and RPCPeer, which holds one.

Upstream: openmessaging/dledger, DLedgerRpcNettyService (vote, heartBeat, push ...),
dledger-all-0.3.1.2; apache/rocketmq, remoting/netty/NettyRemotingClient.java, 4.9.4.

Differs: there is a connection for each purpose, so that a large push delays no heartbeat (V14):
pushes have one inside their dispatcher, votes and heartbeats one inside an RPCPeer. It comes from
the member's own address. After a connection was lost, calls fail at once for 0.1 to 1 s.

Messages of RPCPeer: Call, GetLink, and its connection's. It sends each caller Answered. Nothing
here waits: up to UNSENT_BYTES_MAX is kept that the system has no room for, and calls beyond it fail
at once. The end of a connection is the end of all open calls.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any, Final, TypeAlias, assert_never

import attrs
import trio
from msgspec import Raw

from actors.dledger.core.member_state import TERM_MAX
from actors.dledger.rpc.peer_messages import GetLink, Link
from actors.dledger.rpc.refusal_log import RefusalLog
from actors.dledger.rpc.rpc_messages import Call
from actors.env.protocols import Address, Network, Stream
from actors.events import remoting as events
from actors.remoting.open_calls import OpenCalls
from actors.remoting.stream import (
    DOES_NOT_READ,
    IDLE_S,
    FrameStream,
    Received,
    StreamEnded,
)
from actors.runtime import Actor, ActorContext, MailboxSpec, StopReason
from wire.dledger.codes import RequestCode
from wire.dledger.rpc import (
    Request,
    Response,
    decode_response,
    encode_body,
    request_code_of,
)
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.remoting.frame import Frame, encode_frame
from wire.remoting.header import REPLY_CODE, Header

CONNECT_TIMEOUT_S: Final = 3.0
"""Upstream: connectTimeoutMillis."""
RECONNECT_FIRST_S: Final = 0.1
RECONNECT_MAX_S: Final = 1.0
"""The longest pause after a connection was lost or could not be made. Pauses double until a call is
answered.
"""
PENDING_BYTES: Final = 16 << 20
"""How many received bytes may wait for the actor that holds the connection."""
UNSENT_BYTES_MAX: Final = 64 << 20
"""How many bytes of frames are kept that the system has no room for. A dispatcher's window is 4
MiB, as Base64 a third more, so only calls that nothing else bounds get here.
"""
WORK_BYTES: Final = 4 << 20
"""The most bytes encoded or decoded without a checkpoint: some 10 ms."""
CALL_BYTES: Final = 256
"""The bytes as which a call to an RPCPeer, a vote or a heartbeat, is counted."""
IDLE: Final = "idle"
UNHEARD_REPORTED: Final = 3
"""How many connections in a row have to end without a byte before that is reported: one or two may
be of a peer that stops.
"""
REASON_CHARS_MAX: Final = 500
"""Characters of a peer's own text that a reason shows."""


@attrs.frozen(kw_only=True)
class Connected:
    """Feeder: the stream with that number is in `_arrived`."""

    number: int


@attrs.frozen
class CallsDue:
    """Timer: the time of some call is over."""


@attrs.frozen
class IdleDue:
    """Timer: the connection may have been idle for long enough."""


News: TypeAlias = Connected | Received | StreamEnded | CallsDue | IdleDue
"""The messages that a connection sends to the actor that holds it, which passes them back to it."""
CALLS_DUE: Final = CallsDue()
IDLE_DUE: Final = IdleDue()


@attrs.frozen
class _Open:
    """A call under way, and how to read its answer."""

    request: Request
    code: RequestCode
    timeout_s: float
    token: object


def _not_to(request: Request, response: Response) -> str:
    """Why a response cannot be one to that request; "" if it can.

    Upstream copies these fields from the request, if it sets them at all.
    """
    if response.term > TERM_MAX:
        return f"term {response.term}"
    for name in ("group", "local_id", "remote_id"):
        said = getattr(response, name)
        if said is not None and said != getattr(request, name):
            return f"{name} {said!r}, not {getattr(request, name)!r}"
    return ""


@attrs.define(kw_only=True)
class PeerConnection:
    """A connection to one peer, for one incarnation of the actor that holds it.

    The actor passes it each of its `News`, and calls `flush` at the end of each batch. A call ends
    once, with the response or with None, which stands for what upstream calls NETWORK_ERROR: there
    is no connection, or it broke; the time is over; the reply has no body (a failure of the
    remoting layer), or one that is no such response.

    Attributes:
        peer: the peer's name.
        local_host: the own member's address, from which to connect.
        log: takes a warning when the peer turns this member away; None: another connection logs it.
        work_bytes: bytes encoded or decoded since the last checkpoint; at WORK_BYTES `breathe` is
            due.
    """

    peer: str
    address: Address
    local_host: str
    network: Network
    log: RefusalLog | None = None
    work_bytes: int = attrs.field(default=0, init=False)
    _calls: OpenCalls[_Open] = attrs.field(factory=OpenCalls)
    _ctx: ActorContext[Any] = attrs.field(init=False)
    _ended: Callable[[Any, Response | None], None] = attrs.field(init=False)
    _number: int = attrs.field(default=0, init=False)
    _connecting: bool = attrs.field(default=False, init=False)
    _arrived: Stream | None = attrs.field(default=None, init=False)  # of Connected
    _frames: FrameStream | None = attrs.field(default=None, init=False)
    _early: list[tuple[int, bytes]] = attrs.field(factory=list, init=False)  # until it is connected
    _early_bytes: int = attrs.field(default=0, init=False)
    _failures: int = attrs.field(default=0, init=False)
    _unheard: int = attrs.field(default=0, init=False)  # ended without a byte, in a row
    _connect_at_s: float = attrs.field(default=0.0, init=False)
    _answers_refused: int = attrs.field(default=0, init=False)
    _error: str = attrs.field(default="", init=False)  # why the last call had no answer

    @property
    def link(self) -> Link:
        """The state of the connection, for the node's status."""
        return Link(connected=self._frames is not None, error=self._error)

    def open(self, ctx: ActorContext[Any], on_end: Callable[[Any, Response | None], None]) -> None:
        """Begin; the actor calls it when it starts.

        Args:
            on_end: called with the token of a call that has ended, and its response or None.
        """
        self._ctx, self._ended = ctx, on_end

    async def take(self, news: News) -> None:
        match news:
            case Received():
                await self._received(news)
            case Connected():
                self._connected(news.number)
            case StreamEnded():
                if news.number == self._number:
                    self._lose(news.reason)
            case CallsDue():
                for each in self._calls.expire(self._ctx.now_s()):
                    self._error = f"no answer within {each.timeout_s:g} s"
                    self._ended(each.token, None)
            case IdleDue():
                self._look_at_idleness()
            case _:
                assert_never(news)

    def flush(self) -> None:
        """Send all calls of a batch together."""
        if self._frames is not None:
            self._frames.flush()
        if self._calls:  # one timer for all; its call may have ended
            self._ctx.timers.start_by("calls", self._calls.deadline_s, CALLS_DUE)

    def close(self) -> None:
        """End all open calls and the connection; the actor calls it when it stops."""
        if self._arrived is not None:
            self._arrived.abort()
        if self._frames is not None:
            self._frames.abort()
        for each in self._calls.clear():
            self._ended(each.token, None)

    def call(
        self, request: Request, token: object, *, timeout_s: float, batch: Raw | None = None
    ) -> None:
        """Send a request. Args: as the attributes of `rpc_messages.Call`."""
        now_s = self._ctx.now_s()
        code = request_code_of(request)
        frames = self._frames
        unsent_bytes = frames.unsent_bytes if frames is not None else self._early_bytes
        if unsent_bytes >= UNSENT_BYTES_MAX or not self._may_call(now_s):
            self._ended(token, None)
            return
        opaque = self._calls.add(_Open(request, code, timeout_s, token), now_s + timeout_s)
        if opaque is None:
            self._ended(token, None)
            return
        try:
            frame = encode_frame(Header(code=code, opaque=opaque), encode_body(request, batch))
        except LocalProtocolError as error:
            self._calls.take(opaque)
            refused = events.RPCCallRefused(peer=self.peer, request=code.name, reason=str(error))
            self._ctx.emit(refused)
            self._ended(token, None)
            return
        self.work_bytes += len(frame)
        if frames is not None:
            frames.put(frame)
        else:
            self._early.append((opaque, frame))
            self._early_bytes += len(frame)

    def _may_call(self, now_s: float) -> bool:
        """Whether there is a connection or one is being made; if it may be, begin to make one."""
        if self._frames is not None or self._connecting:
            return True
        if now_s < self._connect_at_s:
            return False
        self._number += 1
        self._connecting = True
        self._ctx.spawn(self._connect, self._number)
        return True

    async def _connect(self, number: int) -> None:
        address = self.address
        try:
            with trio.fail_after(CONNECT_TIMEOUT_S):
                self._arrived = await self.network.connect(
                    address.host, address.port, local_host=self.local_host
                )
        except trio.TooSlowError:
            reason = f"no connection within {CONNECT_TIMEOUT_S:g} s"
        except (OSError, trio.BrokenResourceError) as error:
            reason = str(error)
        else:
            await self._ctx.self_ref.tell(Connected(number=number))
            return
        await self._ctx.self_ref.tell(StreamEnded(number=number, reason=reason))

    def _connected(self, number: int) -> None:
        # OneAttemptAtATime
        assert self._connecting
        assert number == self._number
        assert self._arrived is not None
        stream, self._arrived = self._arrived, None
        self._connecting = False
        self._answers_refused = 0
        self._ctx.emit(events.RPCPeerConnected(peer=self.peer, address=str(self.address)))
        frames = self._frames = FrameStream(
            number, stream, self._ctx.now_s(), self._ctx.self_ref.tell
        )
        for opaque, frame in self._early:
            if opaque in self._calls:  # else its time was over before it was sent
                frames.put(frame)
        self._forget_early()
        self._ctx.spawn(frames.receive)
        self._ctx.spawn(frames.send)
        self._ctx.timers.start("idle", IDLE_S, IDLE_DUE)

    async def _received(self, message: Received) -> None:
        for frame in message.frames:
            if message.number != self._number:
                return  # of a connection that has ended
            self.work_bytes += len(frame.body)
            self._read_answer(frame)
            if self.work_bytes >= WORK_BYTES:
                await self.breathe()

    def _read_answer(self, frame: Frame) -> None:
        header = frame.header
        if not header.is_reply:
            self._refused(f"a request (code {header.code})")
            return
        found = self._calls.take(header.opaque)
        if found is None:
            return  # late: its caller got None
        response: Response | None = None
        if header.code == REPLY_CODE:
            try:
                response, _ = decode_response(found.code, frame.body)
            except RemoteProtocolError as error:
                self._refused(str(error))
            else:
                self._failures = 0
            if response is not None and (why := _not_to(found.request, response)):
                self._refused(f"{found.code.name}: {why}")
                response = None
        else:
            self._refused(f"remoting code {header.code} to {found.code.name}: {header.remark}")
        self._ended(found.token, response)

    def _refused(self, reason: str) -> None:
        self._answers_refused += 1
        self._error = reason[:REASON_CHARS_MAX]
        count = self._answers_refused
        if count & (count - 1) == 0:
            self._ctx.emit(events.RPCAnswerRefused(peer=self.peer, reason=self._error, count=count))

    def _lose(self, reason: str) -> None:
        """End the connection or the attempt, and all calls with it."""
        if self._frames is None and not self._connecting:
            return
        frames, was_connected = self._frames, self._frames is not None
        if frames is not None:
            frames.abort()
        self._frames = None
        self._connecting = False
        self._forget_early()
        self._ctx.timers.cancel("idle")
        pause_s = 0.0
        if reason != IDLE:  # else nothing is wrong with the peer
            self._error = self._turned_away(reason, frames) or reason[:REASON_CHARS_MAX]
            pause_s = min(RECONNECT_MAX_S, RECONNECT_FIRST_S * float(1 << min(self._failures, 16)))
            self._failures += 1
        self._connect_at_s = self._ctx.now_s() + pause_s
        left = self._calls.clear()
        if was_connected or self._failures & (self._failures - 1) == 0:
            self._ctx.emit(
                events.RPCPeerLost(
                    peer=self.peer,
                    reason=reason,
                    unanswered=len(left),
                    failures=self._failures,
                    pause_s=pause_s,
                )
            )
        for each in left:
            self._ended(each.token, None)

    def _turned_away(self, reason: str, frames: FrameStream | None) -> str:
        """For people: what it means that the peer ends each connection without having sent a byte.

        It is "" if it does not, or not often enough: the peer may just stop.
        """
        was_reset = frames is None and os.strerror(errno.ECONNRESET) in reason
        is_mute = frames is not None and not frames.heard and reason != DOES_NOT_READ
        self._unheard = self._unheard + 1 if was_reset or is_mute else 0
        found = ""
        if self._unheard >= UNHEARD_REPORTED:
            found = f"ends each connection at once: its cluster file may not name {self.local_host}"
        if self.log is not None:
            self.log.say(self.peer, found and f"{self.peer} {found}")
        return found

    def _forget_early(self) -> None:
        self._early.clear()
        self._early_bytes = 0

    def _look_at_idleness(self) -> None:
        frames = self._frames
        if frames is None:
            return
        if self._ctx.now_s() >= frames.active_s + IDLE_S:
            self._lose(IDLE)
        else:
            self._ctx.timers.start_at("idle", frames.active_s + IDLE_S, IDLE_DUE)

    async def breathe(self) -> None:
        """Let other tasks run; what is ready is sent meanwhile."""
        self.work_bytes = 0
        if self._frames is not None:
            self._frames.flush()
        await trio.lowlevel.checkpoint()


Message: TypeAlias = Call | GetLink
_Inbox: TypeAlias = Message | News


def _size_of(message: _Inbox) -> int:
    return message.size_bytes if isinstance(message, Received) else CALL_BYTES


@attrs.define
class RPCPeer(Actor[_Inbox]):
    """Holds a connection to a peer for the calls of others. See the module's text."""

    mailbox = MailboxSpec(capacity_bytes=PENDING_BYTES, size_of=_size_of)
    connection: PeerConnection

    async def on_start(self) -> None:
        self.connection.open(self.ctx, self._ended)

    async def handle_batch(self, messages: list[_Inbox]) -> None:
        connection = self.connection
        for message in messages:
            match message:
                case Call():
                    connection.call(message.request, message, timeout_s=message.timeout_s)
                case GetLink():
                    message.reply_to.send(connection.link)
                case _:
                    await connection.take(message)
            if connection.work_bytes >= WORK_BYTES:
                await connection.breathe()
        connection.flush()

    async def on_stop(self, reason: StopReason) -> None:
        self.connection.close()

    def _ended(self, call: Call, response: Response | None) -> None:
        call.answer(self.connection.peer, response)
