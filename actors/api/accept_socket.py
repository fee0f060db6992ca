"""AcceptSocket takes the API's connections on one address.

A restart listens anew. See `actors.runtime.accepting` for its messages and what it forgets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, assert_never

import attrs

from actors.api.credentials import ConnectionGate
from actors.api.slots import Slots
from actors.env.protocols import Address, Listener, Network, Stream
from actors.errors import ConfigError
from actors.events import client as events
from actors.runtime import ChildSpec
from actors.runtime.accepting import Accepting, Admitted


@attrs.frozen(kw_only=True)
class UnixEndpoint:
    """A socket file; its mode is the access rule.

    Attributes:
        before: what to do before listening, such as publishing the port.
    """

    path: str
    before: Callable[[], None] | None = None

    def __str__(self) -> str:
        return self.path


@attrs.frozen(kw_only=True)
class TcpEndpoint:
    """A port of the node's own address.

    Attributes:
        allowed: the addresses from which connections are accepted.
        gate: makes the gate that checks one connection.
    """

    host: str
    port: int
    allowed: tuple[str, ...]
    gate: Callable[[], ConnectionGate]

    def __str__(self) -> str:
        return str(Address(self.host, self.port))


Endpoint: TypeAlias = UnixEndpoint | TcpEndpoint


@attrs.define(kw_only=True)
class AcceptSocket(Accepting):
    """See the module's text.

    Attributes:
        make_child: (stream, name, gate) -> the connection's specification.
        next_connection: the next number; outlives restarts of this actor, so that numbers never
            repeat.
        slots: the slots of the node's API; outlives restarts, as the connections do.
    """

    network: Network
    endpoint: Endpoint
    slots: Slots
    make_child: Callable[[Stream, str, ConnectionGate | None], ChildSpec]
    next_connection: Callable[[], int]

    async def listen(self) -> Listener:
        endpoint = self.endpoint
        try:
            match endpoint:
                case UnixEndpoint():
                    if endpoint.before is not None:
                        endpoint.before()
                    listener = await self.network.listen_unix(endpoint.path)
                case TcpEndpoint():
                    listener = await self.network.listen(endpoint.host, endpoint.port)
                case _:
                    assert_never(endpoint)
        except OSError as error:
            raise ConfigError(f"API: cannot listen on {endpoint}: {error.strerror}") from error
        self.ctx.emit(events.APIListening(address=str(listener.address)))
        return listener

    async def admit(self, stream: Stream) -> Admitted | None:
        endpoint = self.endpoint
        if isinstance(endpoint, TcpEndpoint) and stream.remote.host not in endpoint.allowed:
            return None
        self.slots.make_way()
        connection = self.next_connection()
        gate = endpoint.gate() if isinstance(endpoint, TcpEndpoint) else None
        child = self.make_child(stream, f"c{connection}", gate)
        return Admitted(connection=connection, child=child)

    def report_refused(self, stream: Stream, reason: str, count: int) -> None:
        self.ctx.emit(
            events.APIConnectionRefused(address=str(stream.remote), reason=reason, count=count)
        )
