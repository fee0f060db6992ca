"""RPCPeer: one connection to one peer, over which this member's parts call it.

Upstream: openmessaging/dledger, DLedgerRpcNettyService (vote, heartBeat, push ...),
dledger-all-0.3.1.2; apache/rocketmq, remoting/netty/NettyRemotingClient.java, 4.9.4.

Differs: a connection for each purpose (`n1` for pushes, `n1-control` for heartbeats and votes), so
that a large push delays no heartbeat (V14); it comes from the member's own address; a peer that was
just lost is left alone for 0.1 to 1 s, and calls meanwhile fail at once.

Messages: Call, GetLink, and its feeders'. It tells each caller Answered. Nothing here waits: what
the system has no room for is kept up to UNSENT_BYTES_MAX, and calls beyond it fail at once. Its end
is the end of all open calls.
"""

from __future__ import annotations

import errno
import os
from typing import Final, TypeAlias, assert_never

import attrs
import trio

from actors.dledger.core.member_state import TERM_MAX
from actors.dledger.replication.push_bodies import entries_bytes
from actors.dledger.rpc.peer_messages import GetLink, Link
from actors.dledger.rpc.refusal_log import RefusalLog
from actors.dledger.rpc.rpc_messages import Answered as Answered
from actors.dledger.rpc.rpc_messages import Call as Call
from actors.env.protocols import Address, Network, Stream
from actors.events import dledger as events
from actors.remoting.open_calls import OpenCalls
from actors.remoting.stream import (
    DOES_NOT_READ,
    IDLE_S,
    FrameStream,
    Received,
    StreamEnded,
)
from actors.runtime import Actor, MailboxSpec, StopReason
from wire.dledger.codes import RequestCode
from wire.dledger.rpc import (
    AppendEntryRequest,
    InstallSnapshotRequest,
    PushEntryRequest,
    Request,
    Response,
    decode_response,
    encode_body,
    request_code_of,
)
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.remoting.frame import REPLY_CODE, Frame, Header, encode_frame

CONNECT_TIMEOUT_S: Final = 3.0
"""Upstream: connectTimeoutMillis."""
RECONNECT_FIRST_S: Final = 0.1
RECONNECT_MAX_S: Final = 1.0
"""Pauses after a connection was lost or could not be made; doubled until a call is answered."""
PENDING_BYTES: Final = 16 << 20
"""Bytes of requests that wait for this actor."""
UNSENT_BYTES_MAX: Final = 64 << 20
"""Bytes of frames that the system has no room for. A dispatcher's window is 4 MiB, as Base64 a
third more; so only calls that nobody bounds get here.
"""
WORK_BYTES: Final = 4 << 20
"""Encoded or decoded without a checkpoint: some 10 ms."""
CALL_OVERHEAD_BYTES: Final = 256
"""What a call without an entry is counted as."""
IDLE: Final = "idle"
UNHEARD_TOLD: Final = 3
"""Connections in a row that end without a byte: one or two may be of a peer that stops."""
REASON_CHARS_MAX: Final = 500
"""A peer's own words are as long as it likes."""


@attrs.frozen(kw_only=True)
class _Connected:
    """Feeder: the stream of that number is in `_arrived`."""

    number: int


@attrs.frozen(kw_only=True)
class _CallsDue:
    """Timer: the time of some call is over."""


@attrs.frozen(kw_only=True)
class _IdleDue:
    """Timer: the connection may have been idle for long enough."""


Message: TypeAlias = Call | GetLink
_Inbox: TypeAlias = Message | _Connected | Received | StreamEnded | _CallsDue | _IdleDue


@attrs.frozen
class _Open:
    """A call under way, and how to read its answer."""

    call: Call
    code: RequestCode


def _size_of(message: _Inbox) -> int:
    if isinstance(message, Received):
        return message.size_bytes
    if not isinstance(message, Call):
        return 0
    request = message.request
    match request:
        case PushEntryRequest():
            data_bytes = entries_bytes(request)
        case AppendEntryRequest():
            data_bytes = len(request.body or b"")
        case InstallSnapshotRequest():
            data_bytes = len(request.data or b"") + len(request.piece or b"")
        case _:
            data_bytes = 0
    return data_bytes + CALL_OVERHEAD_BYTES


def _not_to(request: Request, response: Response) -> str:
    """Why a response is none to that request, whatever it says; "": it may be one.

    Upstream copies these fields from the request, where it says them at all.
    """
    if response.term > TERM_MAX:
        return f"term {response.term}"
    for name in ("group", "local_id", "remote_id"):
        said = getattr(response, name)
        if said is not None and said != getattr(request, name):
            return f"{name} {said!r}, not {getattr(request, name)!r}"
    return ""


@attrs.define
class RPCPeer(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        peer: its name, as it stands in Answered.
        local_host: the own member's address, from which to connect.
        log: takes a warning when the peer turns this member away; None: another connection's does.
    """

    mailbox = MailboxSpec(capacity_bytes=PENDING_BYTES, size_of=_size_of)
    _peer: str
    _address: Address
    _local_host: str
    _network: Network
    _log: RefusalLog | None = None
    _calls: OpenCalls[_Open] = attrs.field(factory=OpenCalls)
    _number: int = 0
    _connecting: bool = False
    _arrived: Stream | None = None  # connected, not yet taken over
    _frames: FrameStream | None = None
    _early: list[tuple[int, bytes]] = attrs.field(factory=list)  # to send once it is connected
    _early_bytes: int = 0
    _failures: int = 0
    _unheard: int = 0  # connections in a row that ended before a byte came
    _connect_at_s: float = 0.0
    _answers_refused: int = 0
    _error: str = ""  # why a call had no answer, the last that had none
    _work_bytes: int = 0

    async def handle_batch(self, messages: list[_Inbox]) -> None:
        """All calls of a batch leave together."""
        for message in messages:
            match message:
                case Call():
                    self._called(message)
                case Received():
                    await self._received(message)
                case _Connected():
                    self._connected(message.number)
                case StreamEnded():
                    if message.number == self._number:
                        self._lose(message.reason)
                case _CallsDue():
                    for each in self._calls.expire(self.ctx.now_s()):
                        self._error = f"no answer within {each.call.timeout_s:g} s"
                        self._answer(each, None)
                case _IdleDue():
                    self._look_at_idleness()
                case GetLink():
                    is_up = self._frames is not None
                    message.reply_to.send(Link(connected=is_up, error=self._error))
                case _:
                    assert_never(message)
            if self._work_bytes >= WORK_BYTES:
                await self._breathe()
        self._flush()
        self._arm()

    async def on_stop(self, reason: StopReason) -> None:
        if self._arrived is not None:
            self._arrived.abort()
        if self._frames is not None:
            self._frames.abort()
        for each in self._calls.clear():
            self._answer(each, None)

    def _called(self, call: Call) -> None:
        now_s = self.ctx.now_s()
        code = request_code_of(call.request)
        frames = self._frames
        unsent_bytes = frames.unsent_bytes if frames is not None else self._early_bytes
        if unsent_bytes >= UNSENT_BYTES_MAX or not self._may_call(now_s):
            self._answer(_Open(call, code), None)
            return
        opaque = self._calls.add(_Open(call, code), now_s + call.timeout_s)
        if opaque is None:
            self._answer(_Open(call, code), None)
            return
        try:
            body = encode_body(call.request, call.batch)
            frame = encode_frame(Header(code=code, opaque=opaque), body)
        except LocalProtocolError as error:
            self._calls.take(opaque)
            self.ctx.emit(
                events.RPCCallRefused(peer=self._peer, request=code.name, reason=str(error))
            )
            self._answer(_Open(call, code), None)
            return
        self._work_bytes += len(frame)
        if frames is not None:
            frames.put(frame)
        else:
            self._early.append((opaque, frame))
            self._early_bytes += len(frame)

    def _may_call(self, now_s: float) -> bool:
        """Whether there is a connection, or one is being made, from now on perhaps."""
        if self._frames is not None or self._connecting:
            return True
        if now_s < self._connect_at_s:
            return False
        self._number += 1
        self._connecting = True
        self.ctx.spawn(self._connect, self._number)
        return True

    async def _connect(self, number: int) -> None:
        address = self._address
        try:
            with trio.fail_after(CONNECT_TIMEOUT_S):
                self._arrived = await self._network.connect(
                    address.host, address.port, local_host=self._local_host
                )
        except trio.TooSlowError:
            reason = f"no connection within {CONNECT_TIMEOUT_S:g} s"
        except (OSError, trio.BrokenResourceError) as error:
            reason = str(error)
        else:
            await self.ctx.self_ref.tell(_Connected(number=number))
            return
        await self.ctx.self_ref.tell(StreamEnded(number=number, reason=reason))

    def _connected(self, number: int) -> None:
        # OneAttemptAtATime
        assert self._connecting
        assert number == self._number
        assert self._arrived is not None
        stream, self._arrived = self._arrived, None
        self._connecting = False
        self._answers_refused = 0
        self.ctx.emit(events.RPCPeerConnected(peer=self._peer, address=str(self._address)))
        frames = self._frames = FrameStream(
            number, stream, self.ctx.now_s(), self.ctx.self_ref.tell
        )
        for opaque, frame in self._early:
            if opaque in self._calls:  # else its time was over before it could leave
                frames.put(frame)
        self._forget_early()
        self.ctx.spawn(frames.receive)
        self.ctx.spawn(frames.send)
        self.ctx.timers.start("idle", IDLE_S, _IdleDue())

    async def _received(self, message: Received) -> None:
        for frame in message.frames:
            if message.number != self._number:
                return  # of a connection that is over
            self._work_bytes += len(frame.body)
            self._read_answer(frame)
            if self._work_bytes >= WORK_BYTES:
                await self._breathe()

    def _read_answer(self, frame: Frame) -> None:
        header = frame.header
        if not header.is_reply:
            self._refused(f"a request (code {header.code})")
            return
        found = self._calls.take(header.opaque)
        if found is None:
            return  # late: its caller was told so
        response: Response | None = None
        if header.code == REPLY_CODE:
            try:
                response, _ = decode_response(found.code, frame.body)
            except RemoteProtocolError as error:
                self._refused(str(error))
            else:
                self._failures = 0
            if response is not None and (why := _not_to(found.call.request, response)):
                self._refused(f"{found.code.name}: {why}")
                response = None
        else:
            self._refused(f"remoting code {header.code} to {found.code.name}: {header.remark}")
        self._answer(found, response)

    def _answer(self, found: _Open, response: Response | None) -> None:
        call = found.call
        call.answer_to.post(Answered(peer=self._peer, token=call.token, response=response))

    def _refused(self, reason: str) -> None:
        self._answers_refused += 1
        self._error = reason[:REASON_CHARS_MAX]
        count = self._answers_refused
        if count & (count - 1) == 0:
            self.ctx.emit(events.RPCAnswerRefused(peer=self._peer, reason=self._error, count=count))

    def _lose(self, reason: str) -> None:
        """The connection or the attempt is over, and all calls with it."""
        if self._frames is None and not self._connecting:
            return
        frames, was_connected = self._frames, self._frames is not None
        if frames is not None:
            frames.abort()
        self._frames = None
        self._connecting = False
        self._forget_early()
        self.ctx.timers.cancel("idle")
        pause_s = 0.0
        if reason != IDLE:  # else nothing is wrong with the peer
            self._error = self._turned_away(reason, frames) or reason[:REASON_CHARS_MAX]
            pause_s = min(RECONNECT_MAX_S, RECONNECT_FIRST_S * float(1 << min(self._failures, 16)))
            self._failures += 1
        self._connect_at_s = self.ctx.now_s() + pause_s
        left = self._calls.clear()
        if was_connected or self._failures & (self._failures - 1) == 0:
            self.ctx.emit(
                events.RPCPeerLost(
                    peer=self._peer,
                    reason=reason,
                    unanswered=len(left),
                    failures=self._failures,
                    pause_s=pause_s,
                )
            )
        for each in left:
            self._answer(each, None)

    def _turned_away(self, reason: str, frames: FrameStream | None) -> str:
        """What it means that the peer ends one connection after the other without a word; "": it
        does not, or not often enough to know that it does not just stop.
        """
        was_reset = frames is None and os.strerror(errno.ECONNRESET) in reason
        is_mute = frames is not None and not frames.heard and reason != DOES_NOT_READ
        self._unheard = self._unheard + 1 if was_reset or is_mute else 0
        found = ""
        if self._unheard >= UNHEARD_TOLD:
            found = (
                f"ends each connection at once: its cluster file may not name {self._local_host}"
            )
        if self._log is not None:
            self._log.say(self._peer, found and f"{self._peer} {found}")
        return found

    def _forget_early(self) -> None:
        self._early.clear()
        self._early_bytes = 0

    def _look_at_idleness(self) -> None:
        frames = self._frames
        if frames is None:
            return
        if self.ctx.now_s() >= frames.active_s + IDLE_S:
            self._lose(IDLE)
        else:
            self.ctx.timers.start_at("idle", frames.active_s + IDLE_S, _IdleDue())

    def _flush(self) -> None:
        if self._frames is not None:
            self._frames.flush()

    async def _breathe(self) -> None:
        """Let others work; what is ready leaves meanwhile."""
        self._work_bytes = 0
        self._flush()
        await trio.lowlevel.checkpoint()

    def _arm(self) -> None:
        """One timer for all calls; it may come for nothing."""
        if self._calls:
            self.ctx.timers.start_by("calls", self._calls.deadline_s, _CallsDue())
