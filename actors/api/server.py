"""The API of one node as a supervision tree.

    /n0/api                     rest_for_one
      connections               dynamic, one temporary actor per client
      unix_socket               AcceptSocket on DATA_DIR/NODE/api.sock
      tcp_socket                AcceptSocket on api_port, if there is one

The listeners are last, so the doors close first; a crash of a listener leaves clients alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from actors.api.accept_socket import AcceptSocket, Endpoint, TcpEndpoint, UnixEndpoint
from actors.api.connection import Connection
from actors.api.handle import NodeHandle
from actors.api.limits import ApiLimits
from actors.env.protocols import Network, Stream
from actors.runtime import ChildSpec, DynamicSpec, Registry, Restart, Strategy, SupervisorSpec

SHUTDOWN_S = 2.0
"""For a client's last answer; a client that does not read is cut off."""


def api_spec(
    registry: Registry,
    path: str,
    network: Network,
    handle: NodeHandle,
    *,
    socket_path: str | None,
    tcp: TcpEndpoint | None = None,
    limits: ApiLimits | None = None,
) -> SupervisorSpec:
    """The tree of a node's API.

    Args:
        registry: of the node's system.
        path: where the tree will stand, "/n0/api".
        handle: the node itself.
        socket_path: of the Unix socket, from `socket_file.server_path`; None: no such socket.
        tcp: address, port and who may connect; None: no TCP.
        limits: the defaults if None.
    """
    limits = limits or ApiLimits()
    connections = registry.ref(f"{path}/connections")
    numbers = itertools.count(1)

    def make_child(stream: Stream, name: str) -> ChildSpec:
        return ChildSpec(
            name=name,
            start=lambda: Connection(stream=stream, handle=handle, limits=limits),
            restart=Restart.TEMPORARY,
            shutdown_s=SHUTDOWN_S,
        )

    def listener(endpoint: Endpoint) -> Callable[[], AcceptSocket]:
        return lambda: AcceptSocket(
            network=network,
            endpoint=endpoint,
            make_child=make_child,
            next_name=lambda: f"c{next(numbers)}",
            connections=connections,
        )

    children = [
        ChildSpec(name="connections", start=DynamicSpec(children_max=limits.connections)),
    ]
    if socket_path is not None:
        unix = UnixEndpoint(path=socket_path)
        children.append(ChildSpec(name="unix_socket", start=listener(unix)))
    if tcp is not None:
        children.append(ChildSpec(name="tcp_socket", start=listener(tcp)))
    return SupervisorSpec(strategy=Strategy.REST_FOR_ONE, children=tuple(children))
