"""AcceptSocket: takes the slaves' connections.

Source: apache/rocketmq store/ha/DefaultHAService.AcceptSocketService (5.3.3); specification
sections 1.1, 1.3 and traps T8, T20.

Differs from upstream: listens on the node's own address only; an address that is no slave's is
closed and counted; the number of open connections is bounded.

Messages: its feeder's only. It asks `connections` to start each connection and tells
connection_state of it. A restart forgets the counts of refused connections; the connections
themselves live on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeAlias, assert_never

import attrs
import trio

from actors.env.protocols import Listener, Network, Stream
from actors.errors import ConfigError
from actors.events import ha as events
from actors.ha import connection_state
from actors.ha.core.acceptance import Acceptance
from actors.runtime import Actor, ActorRef, ChildSpec, MailboxSpec, StopReason, dynamic

START_TIMEOUT_S = 5.0
"""For a connection's two actors to start; they wait for nobody."""
UNOWNED_MAX = 16
"""Streams that are accepted and have no actor yet. Further ones wait in the system's backlog, so
that a flood of connections cannot use up the descriptors that the commit log needs."""


@attrs.frozen(kw_only=True)
class _Accepted:
    """Feeder: a stream is in `_arrived`."""


@attrs.frozen(kw_only=True)
class _StartAnswered:
    """What `connections` said to the start of a connection."""

    connection: int
    outcome: dynamic.Started | dynamic.Refused | Exception


Message: TypeAlias = _Accepted | _StartAnswered


@attrs.define
class AcceptSocket(Actor[Message]):
    """See the module's text.

    Attributes:
        make_child: (stream, slave, connection) -> the connection's specification.
        next_connection: the next number; outlives restarts of this actor, so that numbers never
            repeat.
    """

    mailbox = MailboxSpec(capacity=UNOWNED_MAX)
    _network: Network
    _host: str
    _port: int
    _where: str
    _slaves: Mapping[str, str]
    _make_child: Callable[[Stream, str, int], ChildSpec]
    _next_connection: Callable[[], int]
    _connections: ActorRef[dynamic.Message]
    _connection_state: ActorRef[connection_state.Message]
    _acceptance: Acceptance = attrs.field(init=False)
    _listener: Listener | None = None
    _arrived: deque[Stream] = attrs.field(factory=deque)
    _starting: dict[int, Stream] = attrs.field(factory=dict)
    _room: trio.Event = attrs.field(factory=trio.Event)

    async def on_start(self) -> None:
        self._acceptance = Acceptance(self._slaves)
        try:
            self._listener = await self._network.listen(self._host, self._port)
        except OSError as error:
            raise ConfigError(
                f"{self._where}: cannot listen on {self._host}:{self._port}: {error.strerror}"
            ) from error
        address = self._listener.address
        self.ctx.emit(events.HAListening(address=address.host, port=address.port))
        self.ctx.spawn(self._feed, self._listener)

    async def handle(self, message: Message) -> None:
        match message:
            case _Accepted():
                await self._accepted(self._arrived.popleft())
            case _StartAnswered():
                await self._start_answered(message)
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

    async def _accepted(self, stream: Stream) -> None:
        slave = self._acceptance.admit(stream.remote.host)
        if slave is None:
            stream.abort()
            await self._refused(stream, "unknown address")
            return
        connection = self._next_connection()
        self.ctx.emit(
            events.HAConnectionOpened(
                slave=slave, connection=connection, address=str(stream.remote)
            )
        )
        await self._connection_state.tell(
            connection_state.ConnectionOpened(
                slave=slave, connection=connection, address=str(stream.remote)
            )
        )
        self._starting[connection] = stream
        child = self._make_child(stream, slave, connection)
        self.ctx.ask_later(
            self._connections,
            (dynamic.Started, dynamic.Refused),
            lambda reply_to: dynamic.StartChild(child=child, reply_to=reply_to),
            timeout_s=START_TIMEOUT_S,
            on_reply=lambda outcome: _StartAnswered(connection=connection, outcome=outcome),
        )

    async def _start_answered(self, message: _StartAnswered) -> None:
        stream = self._starting.pop(message.connection)
        if isinstance(message.outcome, dynamic.Started):
            return
        stream.abort()
        await self._connection_state.tell(connection_state.Ended(connection=message.connection))
        if isinstance(message.outcome, dynamic.Refused) and message.outcome.error is None:
            self._acceptance.full()
            await self._refused(stream, "too many connections")

    async def _refused(self, stream: Stream, reason: str) -> None:
        refused, full = self._acceptance.refused_count, self._acceptance.full_count
        if self._acceptance.worth_telling:
            self.ctx.emit(
                events.HAConnectionRefused(
                    address=str(stream.remote), reason=reason, count=refused + full
                )
            )
        await self._connection_state.tell(
            connection_state.Refused(unknown_count=refused, full_count=full)
        )
