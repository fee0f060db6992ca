"""AcceptSocket of the API: takes clients' connections on one address.

Messages: its feeder's only. It asks `connections` to start an actor for each stream. A restart
listens anew and forgets the counts of refused connections; open ones live on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias, assert_never

import attrs
import trio

from actors.env.protocols import Listener, Network, Stream
from actors.errors import ConfigError
from actors.events import client as events
from actors.runtime import Actor, ActorRef, ChildSpec, MailboxSpec, StopReason, dynamic

START_TIMEOUT_S = 5.0
"""For a connection's actor to start; it waits for nobody."""
UNOWNED_MAX = 16
"""Streams that are accepted and have no actor yet. Further ones wait in the system's backlog, so
that a flood of connections cannot use up the descriptors that the stores need."""


@attrs.frozen(kw_only=True)
class UnixEndpoint:
    """A socket file; its mode is the access rule.

    Attributes:
        before: what to do before listening, such as telling clients where.
    """

    path: str
    before: Callable[[], None] | None = None

    def __str__(self) -> str:
        return self.path


@attrs.frozen(kw_only=True)
class TcpEndpoint:
    """A port of the node's own address, open to these addresses only."""

    host: str
    port: int
    allowed: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


Endpoint: TypeAlias = UnixEndpoint | TcpEndpoint


@attrs.frozen(kw_only=True)
class _Accepted:
    """Feeder: a stream is in `_arrived`."""


@attrs.frozen(kw_only=True)
class _StartAnswered:
    """What `connections` said to the start of a connection's actor."""

    name: str
    outcome: dynamic.Started | dynamic.Refused | Exception


_Inbox: TypeAlias = _Accepted | _StartAnswered


@attrs.define
class AcceptSocket(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        make_child: (stream, name) -> the connection's specification.
        next_name: a fresh name; outlives restarts of this actor, so that names never repeat.
    """

    mailbox = MailboxSpec(capacity=UNOWNED_MAX)

    _network: Network
    _endpoint: Endpoint
    _make_child: Callable[[Stream, str], ChildSpec]
    _next_name: Callable[[], str]
    _connections: ActorRef[dynamic.Message] = attrs.field(init=False)
    _listener: Listener | None = None
    _arrived: deque[Stream] = attrs.field(factory=deque)
    _starting: dict[str, Stream] = attrs.field(factory=dict)
    _room: trio.Event = attrs.field(factory=trio.Event)
    _refused: dict[str, int] = attrs.field(factory=dict)  # reason -> count

    async def on_start(self) -> None:
        endpoint = self._endpoint
        parent = self.ctx.path.rpartition("/")[0]
        self._connections = self.ctx.ref(f"{parent}/connections")
        try:
            match endpoint:
                case UnixEndpoint():
                    if endpoint.before is not None:
                        endpoint.before()
                    self._listener = await self._network.listen_unix(endpoint.path)
                case TcpEndpoint():
                    self._listener = await self._network.listen(endpoint.host, endpoint.port)
                case _:
                    assert_never(endpoint)
        except OSError as error:
            raise ConfigError(f"API: cannot listen on {endpoint}: {error.strerror}") from error
        self.ctx.emit(events.APIListening(address=str(self._listener.address)))
        self.ctx.spawn(self._feed, self._listener)

    async def handle(self, message: _Inbox) -> None:
        match message:
            case _Accepted():
                self._accepted(self._arrived.popleft())
            case _StartAnswered():
                self._start_answered(message)
            case _:
                assert_never(message)
        self._room.set()

    async def on_stop(self, reason: StopReason) -> None:
        for stream in (*self._arrived, *self._starting.values()):
            stream.abort()
        if self._listener is not None:
            await self._listener.aclose()

    async def _feed(self, listener: Listener) -> None:
        while True:
            while len(self._arrived) + len(self._starting) >= UNOWNED_MAX:
                self._room = trio.Event()
                await self._room.wait()
            # Kept here until it has an owner: a message that is never read would lose the stream.
            self._arrived.append(await listener.accept())
            await self.ctx.self_ref.tell(_Accepted())

    def _accepted(self, stream: Stream) -> None:
        endpoint = self._endpoint
        if isinstance(endpoint, TcpEndpoint) and stream.remote.host not in endpoint.allowed:
            self._refuse(stream, "unknown address")
            return
        name = self._next_name()
        self._starting[name] = stream
        child = self._make_child(stream, name)
        self.ctx.ask_later(
            self._connections,
            (dynamic.Started, dynamic.Refused),
            lambda reply_to: dynamic.StartChild(child=child, reply_to=reply_to),
            timeout_s=START_TIMEOUT_S,
            on_reply=lambda outcome: _StartAnswered(name=name, outcome=outcome),
        )

    def _start_answered(self, message: _StartAnswered) -> None:
        stream = self._starting.pop(message.name)
        if not isinstance(message.outcome, dynamic.Started):
            self._refuse(stream, "too many connections")

    def _refuse(self, stream: Stream, reason: str) -> None:
        stream.abort()
        count = self._refused[reason] = self._refused.get(reason, 0) + 1
        if count & (count - 1) == 0:  # 1, 2, 4, 8 ...: a flood of them is not one of events
            self.ctx.emit(
                events.APIConnectionRefused(address=str(stream.remote), reason=reason, count=count)
            )
