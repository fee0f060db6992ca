"""RemotingClient calls brokers, name servers and other peers that speak RocketMQ's remoting.

It keeps one connection for each address that is called, and many calls may be under way on each.
One that is idle ends.

    ctx.ask_later(client_ref, Frame, lambda reply_to: client.Call(address=..., code=..., ...), ...)

Upstream: apache/rocketmq, remoting/netty/NettyRemotingClient.java, 5.3.3.

Differs: nothing waits for a place among the calls under way (upstream: clientAsyncSemaphoreValue);
such a call fails at once. The other end's requests are refused, and counted.

Messages: Call, and its connections'.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias, assert_never

import attrs

from actors.env.protocols import Address, Network
from actors.events import remoting as events
from actors.remoting.calling import PENDING_BYTES, WORK_BYTES, CallingConnection, News
from actors.remoting.requests import CallFailed
from actors.remoting.stream import FRAME_OVERHEAD_BYTES, Received
from actors.runtime import Actor, MailboxSpec, ReplyTo, StopReason
from wire.errors import LocalProtocolError
from wire.remoting.frame import Frame
from wire.remoting.header import VERSION

ADDRESSES_MAX: Final = 256
"""How many addresses may be called at a time. A cluster's brokers and name servers are some dozens.
"""
CALL_TIMEOUT_S: Final = 3.0
"""The seconds that a call may take by default. Upstream: timeoutMillis of clients."""


@attrs.frozen(kw_only=True)
class Call:
    """Send a request.

    Attributes:
        code: a RequestCode of `wire.broker.codes`.
        timeout_s: how many seconds after this message is read the answer has to come.
        reply_to: gets the answer's frame, whatever its code; fails with CallFailed. None: the
            request is one-way.
    """

    address: Address
    code: int
    ext_fields: Mapping[str, str] | None = None
    body: bytes = b""
    timeout_s: float = CALL_TIMEOUT_S
    reply_to: ReplyTo[Frame] | None = None


@attrs.frozen
class _Heard:
    """Some of the News of the connection to an address."""

    address: Address
    news: News


Message: TypeAlias = Call
_Inbox: TypeAlias = Message | _Heard


def _size_of(message: _Inbox) -> int:
    if isinstance(message, Call):
        return len(message.body) + FRAME_OVERHEAD_BYTES
    news = message.news
    return news.size_bytes if isinstance(news, Received) else FRAME_OVERHEAD_BYTES


def _fail(call: Call, reason: str) -> None:
    if call.reply_to is not None:
        where = "" if str(call.address) in reason else f"{call.address}: "
        call.reply_to.fail(CallFailed(where + reason))


@attrs.define(kw_only=True)
class _Connection(CallingConnection[Call]):
    """The connection to one address."""

    def answered(self, call: Call, frame: Frame) -> None:
        self.failures = 0
        assert call.reply_to is not None
        call.reply_to.send(frame)

    def unanswered(self, call: Call) -> None:
        _fail(call, self.error)


@attrs.define(kw_only=True)
class RemotingClient(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        local_host: the own address from which to connect; None: any.
        version: in the headers of requests, see `wire.remoting.header.VERSION`.
    """

    mailbox = MailboxSpec(capacity_bytes=PENDING_BYTES, size_of=_size_of)
    network: Network
    local_host: str | None = None
    version: int = VERSION
    _connections: dict[Address, _Connection] = attrs.field(factory=dict, init=False)
    _next_number: Callable[[], int] = attrs.field(
        factory=lambda: itertools.count(1).__next__, init=False
    )

    async def handle_batch(self, messages: list[_Inbox]) -> None:
        touched: dict[Address, _Connection] = {}
        for message in messages:
            address = message.address
            connection = self._connections.get(address)
            match message:
                case Call():
                    connection = self._call(message, connection)
                case _Heard():
                    if connection is not None:
                        await connection.take(message.news)
                case _:
                    assert_never(message)
            if connection is None:
                continue
            touched[address] = connection
            if connection.work_bytes >= WORK_BYTES:
                await connection.breathe()
        for connection in touched.values():
            connection.flush()

    async def on_stop(self, reason: StopReason) -> None:
        for connection in self._connections.values():
            connection.close()

    def _call(self, call: Call, connection: _Connection | None) -> _Connection | None:
        """Send a call over the connection to its address, which is made if there is none.

        Returns: that connection; None if ADDRESSES_MAX other addresses are being called.
        """
        if connection is None:
            if len(self._connections) >= ADDRESSES_MAX and not self._forget_one():
                _fail(call, f"{ADDRESSES_MAX} other addresses are being called")
                return None
            connection = self._connections[call.address] = _Connection(
                peer=str(call.address),
                address=call.address,
                local_host=self.local_host,
                network=self.network,
                next_number=self._next_number,
            )
            connection.open(self.ctx, partial(_Heard, call.address))
        if not connection.takes_calls():
            _fail(call, connection.error)
            return connection
        is_sent = False
        try:
            is_sent = connection.send(
                call,
                call.code,
                call.body,
                ext_fields=dict(call.ext_fields) if call.ext_fields else None,
                version=self.version,
                is_oneway=call.reply_to is None,
            )
        except LocalProtocolError as error:
            self.ctx.emit(
                events.RPCCallRefused(
                    peer=connection.peer, request=str(call.code), reason=str(error)
                )
            )
            _fail(call, str(error))
        else:
            if not is_sent:
                _fail(call, connection.error)
        return connection

    def _forget_one(self) -> bool:
        """Forget an address that is not being called. Returns: False if all are being called."""
        unused = (at for at, each in self._connections.items() if each.is_unused)
        if (address := next(unused, None)) is None:
            return False
        del self._connections[address]
        return True
