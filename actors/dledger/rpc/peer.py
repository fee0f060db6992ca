"""A connection to one peer, over which this member's actors call it; and RPCPeer, which holds one.

Upstream: openmessaging/dledger, DLedgerRpcNettyService (vote, heartBeat, push ...),
dledger-all-0.3.1.2.

Differs: there is a connection for each purpose, so that a large push delays no heartbeat (V14):
pushes have one inside their dispatcher, votes and heartbeats one inside an RPCPeer. It comes from
the member's own address.

Messages of RPCPeer: Call, GetLink, and its connection's. It sends each caller Answered.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import attrs
from msgspec import Raw

from actors.dledger.core.member_state import TERM_MAX
from actors.dledger.rpc.peer_messages import GetLink, Link
from actors.dledger.rpc.refusal_log import RefusalLog
from actors.dledger.rpc.rpc_messages import Call
from actors.events import remoting as events
from actors.remoting.calling import PENDING_BYTES, WORK_BYTES, CallingConnection, News
from actors.remoting.stream import DOES_NOT_READ, FrameStream, Received
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
from wire.remoting.frame import Frame
from wire.remoting.header import REPLY_CODE

CALL_BYTES: Final = 256
"""The size in bytes for which a call to an RPCPeer, a vote or a heartbeat, is counted."""
UNHEARD_REPORTED: Final = 3
"""How many connections in a row must end without a received byte before that is reported. One or
two may be those of a peer that stops.
"""


@attrs.frozen
class _Open:
    """A call under way, and how to read its answer."""

    request: Request
    code: RequestCode
    timeout_s: float
    token: object


def _not_to(request: Request, response: Response) -> str:
    """Return which field of a response shows that it is not to that request; "" if none does.

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
class PeerConnection(CallingConnection[_Open]):
    """A connection to one peer, for one incarnation of the actor that holds it.

    A call ends once, with the response or with None, which stands for what upstream calls
    NETWORK_ERROR: there is no connection, or it broke; the time is over; the reply has no body (a
    failure of the remoting layer), or one that is no such response.

    Attributes:
        log: takes a warning when the peer turns this member away; None: another connection logs it.
    """

    log: RefusalLog | None = None
    _ended: Callable[[Any, Response | None], None] = attrs.field(init=False)
    _unheard: int = attrs.field(default=0, init=False)  # ended without a byte, in a row

    @property
    def link(self) -> Link:
        """The state of the connection, for the node's status."""
        return Link(connected=self.is_connected, error=self.error)

    def begin(self, ctx: ActorContext[Any], on_end: Callable[[Any, Response | None], None]) -> None:
        """Begin; the actor calls it when it starts.

        Args:
            on_end: called with the token of a call that has ended, and its response or None.
        """
        self._ended = on_end
        self.open(ctx)

    def call(
        self, request: Request, token: object, *, timeout_s: float, batch: Raw | None = None
    ) -> None:
        """Send a request. Args: as the attributes of `rpc_messages.Call`."""
        if not self.takes_calls():
            self._ended(token, None)
            return
        code = request_code_of(request)
        is_sent = False
        try:
            body = encode_body(request, batch)
            is_sent = self.send(_Open(request, code, timeout_s, token), code, body)
        except LocalProtocolError as error:
            self._ctx.emit(
                events.RPCCallRefused(peer=self.peer, request=code.name, reason=str(error))
            )
        if not is_sent:
            self._ended(token, None)

    def unanswered(self, call: _Open) -> None:
        self._ended(call.token, None)

    def answered(self, call: _Open, frame: Frame) -> None:
        header = frame.header
        response: Response | None = None
        if header.code == REPLY_CODE:
            try:
                response, _ = decode_response(call.code, frame.body)
            except RemoteProtocolError as error:
                self.refused(str(error))
            else:
                self.failures = 0
            if response is not None and (why := _not_to(call.request, response)):
                self.refused(f"{call.code.name}: {why}")
                response = None
        else:
            self.refused(f"remoting code {header.code} to {call.code.name}: {header.remark}")
        self._ended(call.token, response)

    def explain(self, reason: str, frames: FrameStream | None) -> str:
        """Describe, for people, that the peer ends each connection without having sent a byte.

        Returns: "" if it does not, or has done so in fewer than UNHEARD_REPORTED connections in a
            row, because it may just be stopping.
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
        self.connection.begin(self.ctx, self._ended)

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
