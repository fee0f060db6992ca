"""The limits of one node's API: how much it may hold, and how long it waits."""

from __future__ import annotations

import attrs

from actors.api.frame_socket import STREAM_BYTES
from actors.config.bounds import API_CLIENTS
from actors.config.model import ClusterConfig
from actors.runtime.accepting import UNOWNED_MAX
from wire.api import frames

SILENT = 2 * UNOWNED_MAX
"""How many connections may be without a hello: as many as are accepted at once, and as many again
that are about to end."""
OWN_BYTES = 64 << 10
"""How many bytes of an unfinished message a connection may hold, and of events or offsets a
subscription, without asking for room: as many as a sender gathers.
"""
READ_COST_BYTES = 2 * frames.FRAME_BYTES_MAX
"""The room in bytes for a read before its result is known: for the records and for their frame."""


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
        """How many connections may be open at a time; a further one is closed at once."""
        return self.clients + self.members + self.silent

    def memory_bytes(self) -> int:
        """Return the most bytes that all connections together can hold, for `check`.

        This is what they share, and what each has of its own: a read of its stream, the beginning
        of a message, and events or offsets for each subscription.
        """
        silent = STREAM_BYTES + OWN_BYTES
        own = self.connections * silent
        own += self.clients * OWN_BYTES * self.subscriptions
        own += self.members * OWN_BYTES * self.member_subscriptions
        return self.received_bytes + self.read_bytes + own


def limits_of(config: ClusterConfig, node: str) -> ApiLimits:
    """Return the limits of this node: `api_clients`, with room for the cluster's own connections.

    Each Python node that shares a group with this one has a link, and room for two, because a
    second one may come before the first is known to be dead. A link watches this node's role and
    offsets in each group. Each group has one feed, which is a client like others and may come to
    any member. Without room of their own, the connections of many groups would leave none for
    clients.
    """
    groups = config.groups_of(node)
    return ApiLimits(
        clients=config.api_clients + len(groups),
        members=2 * len(config.neighbours_of(node)),
        member_subscriptions=2 * len(groups),
    )
