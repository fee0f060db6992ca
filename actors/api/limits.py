"""How much one node's API may hold, and for how long it waits."""

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
        clients: open at a time; a further one is closed when it has said hello.
        members: likewise, of the cluster's nodes: their slots are taken by no client.
        silent: that have not said hello; if too many come, the oldest is closed.
        in_flight_requests: of one connection; further ones stay in its stream.
        in_flight_bytes: frames of unanswered requests of one connection, likewise.
        subscriptions: running tails and watches of one connection; `member_subscriptions` of one
            of a node of the cluster.
        hello_timeout_s: from the connection to its first request.
        send_timeout_s: for one message to a client that does not read, and for the rest of a large
            one from a client that stalls.
        received_bytes: requests of all connections, unanswered or unfinished; above it their
            streams are not read.
        read_bytes: what is read for all connections and not yet sent; above it reads wait.
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
    """What this node allows: `api_clients`, and beside them what the cluster itself connects.

    These are a link from each other node of ours that has a group with it, twice: a connection may
    be dead and not known to be, while the next one is there. The link watches what this node is in
    each group, and its offsets. For each group there is one feed, a client as others (any member
    may become master). Without room of their own, many groups would leave none for clients.
    """
    groups = config.groups_of(node)
    return ApiLimits(
        clients=config.api_clients + len(groups),
        members=2 * len(config.neighbours_of(node)),
        member_subscriptions=2 * len(groups),
    )
