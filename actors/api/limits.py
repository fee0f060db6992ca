"""The limits of one node's API: how much it may hold, and how long it waits."""

from __future__ import annotations

import attrs

from actors.api.frame_socket import STREAM_BYTES
from actors.config.bounds import API_CLIENTS
from actors.config.model import ClusterConfig
from actors.runtime.accepting import UNOWNED_MAX
from wire.api import frames

SILENT = 2 * UNOWNED_MAX
"""Connections that have not said who they are: as many as are accepted at once, and as many again
that are about to end."""
OWN_BYTES = 64 << 10
"""What a connection may have of an unfinished message, and a subscription of events or offsets,
without asking for room; as much as a sender gathers.
"""
READ_COST_BYTES = 2 * frames.FRAME_BYTES_MAX
"""Room for a read before it is known what it finds: the records and their frame."""


@attrs.frozen(kw_only=True)
class ApiLimits:
    """Bounds of a node's API.

    Attributes:
        clients: how many clients may be connected; a further one is closed after its hello.
        members: how many of the cluster's nodes may be; no client takes their slots.
        silent: how many connections may be without a hello; of more, the oldest is closed.
        in_flight_requests: unanswered requests of one connection; further ones stay in its stream.
        in_flight_bytes: bytes of their frames, likewise.
        subscriptions: running tails and watches of one client's connection.
        member_subscriptions: the same for a connection of a node of the cluster.
        hello_timeout_s: the time from the connection to its hello.
        send_timeout_s: the time for one message to a client that does not read, and for the rest
            of a large one from a client that stalls.
        received_bytes: bytes of unanswered or unfinished requests of all connections; above it
            their streams are not read.
        read_bytes: bytes read for all connections and not sent yet; above it reads wait.
    """

    clients: int = API_CLIENTS
    members: int = 0
    silent: int = SILENT
    in_flight_requests: int = 256
    in_flight_bytes: int = 8 << 20
    subscriptions: int = 8
    member_subscriptions: int = 8
    hello_timeout_s: float = 10.0
    send_timeout_s: float = 30.0
    received_bytes: int = 64 << 20
    read_bytes: int = 96 << 20

    @property
    def connections(self) -> int:
        """Open at a time; a further one is closed at once."""
        return self.clients + self.members + self.silent

    def memory_bytes(self) -> int:
        """The most that all connections together can hold: for `check`.

        What they share, and what each has of its own: a read of its stream, the beginning of a
        message, and events or offsets for each subscription.
        """
        silent = STREAM_BYTES + OWN_BYTES
        own = self.connections * silent
        own += self.clients * OWN_BYTES * self.subscriptions
        own += self.members * OWN_BYTES * self.member_subscriptions
        return self.received_bytes + self.read_bytes + own


def limits_of(config: ClusterConfig, node: str) -> ApiLimits:
    """The limits of this node: `api_clients`, and beside them room for the cluster's connections.

    Each other node of ours that has a group with this one has a link, and room for two: one may be
    dead and not known to be, while the next one is there. A link watches this node's role in each
    group, and its offsets. For each group there is one feed, which is a client like others (any
    member may become master). Without room of their own, many groups would leave none for clients.
    """
    groups = config.groups_of(node)
    return ApiLimits(
        clients=config.api_clients + len(groups),
        members=2 * len(config.neighbours_of(node)),
        member_subscriptions=2 * len(groups),
    )
