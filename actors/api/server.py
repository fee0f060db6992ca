"""The API of one node as a supervision tree.

    /n0/api                     rest_for_one
      connections               dynamic, one temporary actor per client
      links                     one_for_one: for each node of ours that has a group with this one a
                                MemberLink, and a DurabilityWatch for each of a synced DLedger group
      unix_socket               AcceptSocket on DATA_DIR/NODE/api.sock
      tcp_socket                AcceptSocket on api_port, if there is one

The listeners are last, so they stop first; a crash of a listener leaves clients alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial

import trio

from actors.api.accept_socket import AcceptSocket, Endpoint, TcpEndpoint, UnixEndpoint
from actors.api.budget import Budget
from actors.api.connection import Connection
from actors.api.credentials import ConnectionGate, Credentials, MemberNetwork
from actors.api.handle import NodeHandle
from actors.api.limits import ApiLimits, limits_of
from actors.api.slots import Slots
from actors.api.socket_file import api_socket_path, remove_pointer
from actors.config.model import ClusterConfig
from actors.env.protocols import Env, Network, Stream
from actors.runtime import ChildSpec, DynamicSpec, Restart, Strategy, SupervisorSpec

__all__ = ["api_child", "api_socket_path", "api_spec"]

SHUTDOWN_S = 2.0
"""The seconds for a client's last answer; a client that does not read it is cut off."""


def api_child(
    handle: NodeHandle,
    env: Env,
    config: ClusterConfig,
    node_dir: str,
    links: tuple[ChildSpec, ...] = (),
) -> ChildSpec:
    """Return the API as the last child of a node's root, so that its listeners stop first.

    Args:
        handle: the node itself.
        node_dir: the node's data directory, absolute; it exists.
        links: the node's own connections to other members, and what asks over them.
    """
    node = handle.identity.node
    address = config.nodes[node]
    socket_path = api_socket_path(node_dir)
    members = tuple(sorted(dict.fromkeys(config.nodes.values())))
    network = MemberNetwork(env.network, Credentials.of(config, env.secret_store))
    tcp = None
    if config.api_port is not None:
        gate = partial(network.credentials.gate, node, frozenset(members))
        tcp = TcpEndpoint(host=address, port=config.api_port, allowed=members, gate=gate)
    spec = api_spec(
        env.network,
        handle,
        unix=UnixEndpoint(
            path=socket_path,
            before=partial(remove_pointer, env.disk, node_dir),
        ),
        tcp=tcp,
        links=links,
        limits=limits_of(config, node),
        members={each: config.nodes[each] for each in config.python_nodes},
    )
    return ChildSpec(name="api", start=spec)


def api_spec(
    network: Network,
    handle: NodeHandle,
    *,
    unix: UnixEndpoint | None,
    tcp: TcpEndpoint | None = None,
    links: tuple[ChildSpec, ...] = (),
    limits: ApiLimits | None = None,
    members: Mapping[str, str] | None = None,
) -> SupervisorSpec:
    """Return the supervision tree of a node's API.

    Args:
        handle: the node itself.
        unix: its Unix socket; None: no such socket.
        tcp: its TCP port; None: no such port.
        links: see `api_child`.
        limits: the bounds; None: the defaults.
        members: the addresses of the cluster's nodes, by name.
    """
    limits = limits or ApiLimits()
    budget, slots = Budget.of(limits), Slots(limits, members or {}, trio.current_time)
    numbers = itertools.count(1)

    def make_child(stream: Stream, name: str, gate: ConnectionGate | None) -> ChildSpec:
        return ChildSpec(
            name=name,
            start=lambda: Connection(
                stream=stream,
                handle=handle,
                limits=limits,
                budget=budget,
                slots=slots,
                gate=gate,
            ),
            restart=Restart.TEMPORARY,
            shutdown_s=SHUTDOWN_S,
        )

    def listener(endpoint: Endpoint) -> Callable[[], AcceptSocket]:
        return lambda: AcceptSocket(
            network=network,
            endpoint=endpoint,
            make_child=make_child,
            next_connection=numbers.__next__,
            slots=slots,
        )

    children = [ChildSpec(name="connections", start=DynamicSpec(children_max=limits.connections))]
    if links:
        children.append(ChildSpec(name="links", start=SupervisorSpec(children=links)))
    if unix is not None:
        children.append(ChildSpec(name="unix_socket", start=listener(unix)))
    if tcp is not None:
        children.append(ChildSpec(name="tcp_socket", start=listener(tcp)))
    return SupervisorSpec(strategy=Strategy.REST_FOR_ONE, children=tuple(children))
