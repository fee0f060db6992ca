"""AcceptSocket takes the slaves' connections.

Source: apache/rocketmq store/ha/DefaultHAService.AcceptSocketService (5.3.3);
classic-ha.md 1.1, 1.3 and T8, T20.

Differs from upstream: listens on the node's own address only; an address that is no slave's is
closed and counted; the number of open connections is bounded.

It reports each connection, and each that it refused, to connection_state. Of those that it refused
it logs the 1st, 2nd, 4th, 8th and so on, as it emits them. A restart forgets the counts; the
connections themselves go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from actors.env.protocols import Address, Listener, Network, Stream
from actors.errors import ConfigError
from actors.events import ha as events
from actors.ha import connection_state
from actors.ha.core.acceptance import Acceptance
from actors.runtime import ActorRef, ChildSpec
from actors.runtime.accepting import FULL, NOT_STARTED, Accepting, Admitted

_LOGGER: Final = logging.getLogger("triolog.ha")


@attrs.define(kw_only=True)
class AcceptSocket(Accepting):
    """See the module's text.

    Attributes:
        slaves: by address, the slave's name; None: any address may connect, and a handshake says
            whose the connection is.
        make_child: (stream, slave, connection) -> the connection's specification.
        next_connection: the next number; outlives restarts of this actor, so that numbers never
            repeat.
    """

    network: Network
    host: str
    port: int
    where: str
    slaves: Mapping[str, str] | None
    make_child: Callable[[Stream, str, int], ChildSpec]
    next_connection: Callable[[], int]
    connection_state: ActorRef[connection_state.Message]
    _acceptance: Acceptance = attrs.field(init=False)

    async def listen(self) -> Listener:
        self._acceptance = Acceptance(self.slaves or {})
        try:
            listener = await self.network.listen(self.host, self.port)
        except OSError as error:
            raise ConfigError(
                f"{self.where}: cannot listen on {Address(self.host, self.port)}: {error.strerror}"
            ) from error
        address = listener.address
        self.ctx.emit(events.HAListening(address=address.host, port=address.port))
        return listener

    async def admit(self, stream: Stream) -> Admitted | None:
        if self.slaves is None:
            connection = self.next_connection()
            return Admitted(connection=connection, child=self.make_child(stream, "", connection))
        slave = self._acceptance.admit(stream.remote.host)
        if slave is None:
            return None
        connection, address = self.next_connection(), str(stream.remote)
        self.ctx.emit(
            events.HAConnectionOpened(slave=slave, connection=connection, address=address)
        )
        await self.connection_state.tell(
            connection_state.ConnectionOpened(slave=slave, connection=connection, address=address)
        )
        return Admitted(connection=connection, child=self.make_child(stream, slave, connection))

    def _warn(self, host: str, reason: str, count: int) -> None:
        owner = ": ".join(self.ctx.path.split("/")[1:-1])
        if reason != FULL:
            reason = (
                "the cluster file names no slave at that address; whoever shall copy this log,"
                " `follow` too, stands in its [nodes] and in the group's `slaves` (OPERATING.md,"
                " Another member)"
            )
        _LOGGER.warning("%s: refused %s (%d so far): %s", owner, host, count, reason)

    async def refused(self, stream: Stream, reason: str, connection: int | None) -> None:
        if connection is not None:
            await self.connection_state.tell(connection_state.Ended(connection=connection))
        if reason == NOT_STARTED:
            return
        if reason == FULL:
            self._acceptance.full()
        refused, full = self._acceptance.refused_count, self._acceptance.full_count
        if self._acceptance.worth_reporting:
            self._warn(stream.remote.host, reason, refused + full)
            self.ctx.emit(
                events.HAConnectionRefused(
                    address=str(stream.remote), reason=reason, count=refused + full
                )
            )
        await self.connection_state.tell(
            connection_state.Refused(
                unknown_count=refused, full_count=full, host=self._acceptance.refused_host
            )
        )
