"""RPCServer takes the connections at one port.

`rpc_server` is the specification of a supervisor of `connections` (dynamic) and `accept`, in this
order: the listener stops first, and its crash ends no connection.

Upstream: apache/rocketmq, remoting/netty/NettyRemotingServer.java, 4.9.4.

Differs: it listens on one address only. A connection from an address that may not connect is turned
away, and counted. The number of open connections is bounded, and what they hold together. Clients
make way for members. While too many connections come from one address, the next ones have to send
something before they are served (`lobby`).
"""

from __future__ import annotations

import errno
import ipaddress
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

import attrs

from actors.env.protocols import Address, Listener, Network, Stream
from actors.errors import ConfigError
from actors.events import remoting as events
from actors.remoting.budget import RPCBudget
from actors.remoting.connection import RPCConnection
from actors.remoting.lobby import Lobby
from actors.remoting.requests import Channel, Session
from actors.runtime import ChildSpec, DynamicSpec, Restart, Strategy, SupervisorSpec
from actors.runtime.accepting import UNKNOWN_ADDRESS, UNOWNED_MAX, Accepting, Admitted

SLOTS_KEPT: Final = 2 * UNOWNED_MAX
"""How many slots are kept free, so that no crowd of clients keeps a member out: a connection that
takes one of the last has a client's connection ended. They are as many as are accepted at once, and
as many again that are about to end.
"""
CONNECTION_SHUTDOWN_S: Final = 1.0
"""How long a connection may take to stop: it has nothing to save, and its stream is aborted."""


def anybody(host: str) -> bool:
    """Allow every address; for `ServerSettings.may_connect`."""
    return True


def listed(hosts: Collection[str]) -> Callable[[str], bool]:
    """Return a check that allows these addresses and this machine's; for `may_connect`."""
    return lambda host: host in hosts or ipaddress.ip_address(host).is_loopback


def _nothing(host: str) -> None:
    """Do nothing, as the event says enough; the default of `turned_away`."""


@attrs.frozen(kw_only=True)
class ServerSettings:
    """The settings of one port of one node.

    Attributes:
        where: the key of the configuration that sets the port, for people.
        may_connect: returns whether an address may connect: `anybody`, `listed(...)`, or the
            `__contains__` of a set.
        session: makes the session that serves a new connection, such as `requests.plain(...)`.
        next_connection: gives the next connection's number. It outlives restarts, so that numbers
            never repeat.
        connections_max: the most open connections; above SLOTS_KEPT.
        may_be_elsewhere: whether to listen nowhere, instead of failing, if this machine does not
            have the host's address.
        turned_away: called with each address that has connected although it may not.
    """

    network: Network
    host: str
    port: int
    where: str
    may_connect: Callable[[str], bool]
    session: Callable[[Channel], Session]
    next_connection: Callable[[], int]
    connections_max: int
    may_be_elsewhere: bool = False
    turned_away: Callable[[str], None] = _nothing


@attrs.define(kw_only=True)
class RPCServer(Accepting):
    """The listener of one port. See the module's text.

    Attributes:
        budget: shared by all connections; it outlives restarts of the listener, as they do.
    """

    settings: ServerSettings
    budget: RPCBudget
    _lobby: Lobby = attrs.field(init=False)

    async def listen(self) -> Listener | None:
        settings = self.settings
        self._lobby = Lobby(self.room, self.take, self._turned_back)
        try:
            listener = await settings.network.listen(settings.host, settings.port)
        except OSError as error:
            if settings.may_be_elsewhere and error.errno == errno.EADDRNOTAVAIL:
                return None
            why = error.strerror
            if error.errno == errno.EADDRNOTAVAIL:
                why = "this machine does not have the address"
            asked = Address(settings.host, settings.port)
            raise ConfigError(f"{settings.where}: cannot listen on {asked}: {why}") from error
        address = listener.address
        self.ctx.emit(events.RPCListening(address=address.host, port=address.port))
        return listener

    async def greet(self, stream: Stream) -> None:
        host = stream.remote.host
        if not self.settings.may_connect(host) or self._lobby.is_free(host):
            await self.take(stream)
        else:
            self.ctx.spawn(self._lobby.wait, stream)

    async def _turned_back(self, stream: Stream, reason: str) -> None:
        await self.refused(stream, reason, None)

    async def admit(self, stream: Stream) -> Admitted | None:
        settings = self.settings
        if not settings.may_connect(stream.remote.host):
            return None
        if len(self.budget.shares) >= settings.connections_max - SLOTS_KEPT:
            self.budget.make_way()
        connection = settings.next_connection()
        child = ChildSpec(
            name=f"connection-{connection}",
            start=partial(
                RPCConnection,
                stream=stream,
                connection=connection,
                session_of=settings.session,
                budget=self.budget,
            ),
            restart=Restart.TEMPORARY,
            shutdown_s=CONNECTION_SHUTDOWN_S,
        )
        return Admitted(connection=connection, child=child)

    async def refused(self, stream: Stream, reason: str, connection: int | None) -> None:
        if reason == UNKNOWN_ADDRESS:
            self.settings.turned_away(stream.remote.host)
        await Accepting.refused(self, stream, reason, connection)

    def report_refused(self, stream: Stream, reason: str, count: int) -> None:
        self.ctx.emit(
            events.RPCConnectionRefused(address=str(stream.remote), reason=reason, count=count)
        )


def rpc_server(settings: ServerSettings, budget: RPCBudget | None = None) -> SupervisorSpec:
    """Return the specification of all actors that serve one port.

    Args:
        budget: the budget of its connections, which other servers may share, or None for one of
            its own.
    """
    server = partial(RPCServer, settings=settings, budget=budget or RPCBudget())
    return SupervisorSpec(
        strategy=Strategy.REST_FOR_ONE,
        children=(
            ChildSpec(name="connections", start=DynamicSpec(children_max=settings.connections_max)),
            ChildSpec(name="accept", start=server),
        ),
    )
