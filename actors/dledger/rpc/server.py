"""RPCServer takes the connections of a node's members of DLedger groups.

`rpc_server` is the specification of a supervisor of `connections` (dynamic) and `accept`, in this
order: the listener stops first, and its crash ends no connection.

Upstream: openmessaging/dledger, DLedgerRpcNettyService.java, proxy/DLedgerProxy.java,
dledger-all-0.3.1.2; apache/rocketmq, remoting/netty/NettyRemotingServer.java, 4.9.4.

Differs: it listens on the node's own address only. A connection from an address that is no member's
is turned away, counted, and named once in the log `triolog.dledger`. The number of open connections
is bounded, and what they hold together. Clients make way for members. While too many connections
come from one address, the next ones have to send something before they are served (`lobby`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from actors.dledger.rpc.connection import RPCConnection
from actors.dledger.rpc.routing import Directory
from actors.dledger.rpc.rpc_messages import Services
from actors.env.protocols import Listener, Network, Stream
from actors.errors import ConfigError
from actors.events import dledger as events
from actors.remoting.budget import RPCBudget
from actors.remoting.lobby import Lobby
from actors.runtime import ChildSpec, DynamicSpec, Restart, Strategy, SupervisorSpec
from actors.runtime.accepting import UNKNOWN_ADDRESS, UNOWNED_MAX, Accepting, Admitted

_LOGGER: Final = logging.getLogger("triolog.dledger")
CONNECTIONS_MAX: Final = 256
"""The most open connections: two from each peer, and one from each client's process."""
SLOTS_KEPT: Final = 2 * UNOWNED_MAX
"""How many slots are kept free: a connection that takes one of the last has a client's connection
make way, so that no crowd of clients keeps a member out. They are as many as are accepted at once,
and as many again that are about to end.
"""
CONNECTION_SHUTDOWN_S: Final = 1.0
"""How long a connection may take to stop: it has nothing to save, and its stream is aborted."""


@attrs.frozen(kw_only=True)
class RPCServerSettings:
    """The settings of one port of one node.

    Attributes:
        where: for people: the key of the cluster file that sets the port.
        addresses: the addresses of members, from which clients have to come too; no other address
            is served.
        services: the members that share the port.
        next_connection: gives the next connection's number. It outlives restarts, so that numbers
            never repeat.
    """

    network: Network
    host: str
    port: int
    where: str
    addresses: frozenset[str]
    services: tuple[Services, ...]
    next_connection: Callable[[], int]


@attrs.define(kw_only=True)
class RPCServer(Accepting):
    """The listener of one port. See the module's text.

    Attributes:
        budget: shared by all connections; it outlives restarts of the listener, as they do.
    """

    settings: RPCServerSettings
    budget: RPCBudget
    _directory: Directory = attrs.field(init=False)
    _lobby: Lobby = attrs.field(init=False)

    async def listen(self) -> Listener:
        settings = self.settings
        self._lobby = Lobby(self.room, self.take, self._turned_back)
        self._directory = Directory(settings.services)
        try:
            listener = await settings.network.listen(settings.host, settings.port)
        except OSError as error:
            raise ConfigError(
                f"{settings.where}: cannot listen on {settings.host}:{settings.port}: "
                f"{error.strerror}"
            ) from error
        address = listener.address
        self.ctx.emit(events.RPCListening(address=address.host, port=address.port))
        return listener

    async def greet(self, stream: Stream) -> None:
        host = stream.remote.host
        if host not in self.settings.addresses or self._lobby.is_free(host):
            await self.take(stream)
        else:
            self.ctx.spawn(self._lobby.wait, stream)

    async def _turned_back(self, stream: Stream, reason: str) -> None:
        await self.refused(stream, reason, None)

    async def admit(self, stream: Stream) -> Admitted | None:
        if stream.remote.host not in self.settings.addresses:
            return None
        if len(self.budget.shares) >= CONNECTIONS_MAX - SLOTS_KEPT:
            self.budget.make_way()
        connection = self.settings.next_connection()
        child = ChildSpec(
            name=f"connection-{connection}",
            start=partial(
                RPCConnection,
                stream=stream,
                connection=connection,
                directory=self._directory,
                budget=self.budget,
            ),
            restart=Restart.TEMPORARY,
            shutdown_s=CONNECTION_SHUTDOWN_S,
        )
        return Admitted(connection=connection, child=child)

    async def refused(self, stream: Stream, reason: str, connection: int | None) -> None:
        if reason == UNKNOWN_ADDRESS:
            self._turned_away(stream.remote.host)
        await Accepting.refused(self, stream, reason, connection)

    def _turned_away(self, host: str) -> None:
        """Note the address for each group at this port, as it is unknown which one was meant."""
        now_s = self.ctx.now_s()
        for services in self.settings.services:
            if services.role_status.non_members.came(host, now_s):
                _LOGGER.warning(
                    "%s: %s turned away %s: the cluster file names no member at that address",
                    services.group,
                    services.member,
                    host,
                )

    def report_refused(self, stream: Stream, reason: str, count: int) -> None:
        self.ctx.emit(
            events.RPCConnectionRefused(address=str(stream.remote), reason=reason, count=count)
        )


def rpc_server(settings: RPCServerSettings) -> SupervisorSpec:
    """The specification of all actors that serve one port."""
    server = partial(RPCServer, settings=settings, budget=RPCBudget())
    return SupervisorSpec(
        strategy=Strategy.REST_FOR_ONE,
        children=(
            ChildSpec(name="connections", start=DynamicSpec(children_max=CONNECTIONS_MAX)),
            ChildSpec(name="accept", start=server),
        ),
    )
