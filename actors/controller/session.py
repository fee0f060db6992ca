"""What a controller's port serves: DLedger's requests from members, the others from anybody.

Stock brokers and operators find a controller at the address at which its peers do.

Upstream: apache/rocketmq, controller/.../impl/DLedgerController.getRemotingServer, 5.3.3.

Differs: DLedger's requests are served for the addresses of members alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from actors.controller.questions import READERS
from actors.dledger.rpc.routing import Directory
from actors.dledger.rpc.rpc_messages import Services
from actors.dledger.rpc.session import RPCSession
from actors.env.protocols import Network
from actors.remoting import server
from actors.remoting.requests import Answer, Channel, Request, Session, plain, posted_to
from actors.runtime import ActorRef, SupervisorSpec
from wire.broker.codes import RequestCode
from wire.remoting.frame import REMOTING_CODE_NOT_SUPPORTED
from wire.remoting.header import VERSION

CONNECTIONS_MAX: Final = 2048
"""The most open connections: one from each broker, and from each operator."""
SERVED: Final = frozenset(READERS) | {
    RequestCode.BROKER_HEARTBEAT,
    RequestCode.CONTROLLER_GET_METADATA_INFO,
    RequestCode.UPDATE_CONTROLLER_CONFIG,
    RequestCode.GET_CONTROLLER_CONFIG,
}
"""The requests that go to the controller."""


@attrs.define(eq=False)
class ControllerSession:
    """`Session` of `actors.remoting`. See the module's text."""

    _controller: Session
    _members: Session | None  # for a member's address
    version: int = attrs.field(default=VERSION, init=False)

    @property
    def unanswered_max(self) -> int:
        """Those of a member's connection are pushes, which a follower answers together."""
        return (self._members or self._controller).unanswered_max

    def serve(self, request: Request) -> None:
        if request.header.code in SERVED:
            self._controller.serve(request)
        elif self._members is not None:
            self._members.serve(request)
        else:
            code = request.header.code
            request.refuse(REMOTING_CODE_NOT_SUPPORTED, f" request type {code} not supported")

    def step_ended(self) -> None:
        if self._members is not None:
            self._members.step_ended()

    def encode(self, request: Request, answer: Any) -> bytes:
        if isinstance(answer, Answer) or self._members is None:
            return self._controller.encode(request, answer)
        return self._members.encode(request, answer)


def controller_port(
    *,
    network: Network,
    host: str,
    port: int,
    where: str,
    addresses: frozenset[str],
    services: Services,
    controller: ActorRef[Request],
    next_connection: Callable[[], int],
) -> SupervisorSpec:
    """Return the specification of all actors that serve a controller's port.

    Args:
        network, host, port, where, next_connection: as in `ServerSettings`.
        addresses: those of the controllers.
        services: this controller's member of their group.
        controller: the Controller.
    """
    directory, of_controller = Directory((services,)), plain(posted_to(controller))

    def session(channel: Channel) -> Session:
        is_member = channel.address.host in addresses
        members = RPCSession(directory, channel) if is_member else None
        return ControllerSession(of_controller(channel), members)

    settings = server.ServerSettings(
        network=network,
        host=host,
        port=port,
        where=where,
        may_connect=server.anybody,
        session=session,
        next_connection=next_connection,
        connections_max=CONNECTIONS_MAX,
    )
    return server.rpc_server(settings)
