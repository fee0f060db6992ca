"""How much one node's API may hold, and for how long it waits."""

from __future__ import annotations

import attrs

from actors.config.model import ClusterConfig
from wire import api

CLIENTS = 64
"""Connections beside those that the cluster makes itself."""


@attrs.frozen(kw_only=True)
class ApiLimits:
    """Bounds of a node's API.

    Attributes:
        connections: open at a time; a further one is closed at once.
        in_flight_requests: of one connection; further ones stay in its stream.
        in_flight_bytes: frames of unanswered requests of one connection, likewise.
        subscriptions: running tails and watches of one connection.
        hello_timeout_s: from the connection to its first request.
        send_timeout_s: for one message to a client that does not read.
    """

    connections: int = CLIENTS
    in_flight_requests: int = 256
    in_flight_bytes: int = 8 << 20
    subscriptions: int = 8
    hello_timeout_s: float = 10.0
    send_timeout_s: float = 30.0

    def memory_bytes(self) -> int:
        """The most that all connections together can hold: for `check`.

        Per connection: unanswered requests, one of which may exceed the bound; a frame that the
        library assembles and one that it holds; an answer; a batch per subscription.
        """
        frames = 4 * api.FRAME_BYTES_MAX
        batches = self.subscriptions * 2 * api.READ_BYTES_MAX
        return self.connections * (self.in_flight_bytes + frames + batches)


def limits_of(config: ClusterConfig, node: str) -> ApiLimits:
    """What this node allows: `CLIENTS`, and beside them what the cluster itself connects.

    For each group that the node is master of these are a link from every slave of ours, and one
    feed; without room of their own, many groups would leave none for clients, nor for each other.
    """
    inside = 0
    for group in config.groups_of(node):
        if group.master == node:
            inside += 1 + sum(slave.kind == "python" for slave in group.slaves)
    return ApiLimits(connections=CLIENTS + inside)
