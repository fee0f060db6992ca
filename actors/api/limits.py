"""How much one node's API may hold, and for how long it waits."""

from __future__ import annotations

import attrs

from wire import api


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

    connections: int = 64
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
