"""Events of connections that speak RocketMQ's remoting, of DLedger's members and of all others.

The path in the envelope says whose they are.
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class RPCListening:
    """A node takes connections that speak RocketMQ's remoting. Emitted by accept."""

    address: str
    port: int


@attrs.frozen(kw_only=True)
class RPCConnectionOpened:
    """A stream from an address that may connect has an actor. Emitted by it.

    Checkers: one RPCConnectionClosed follows, unless the boot ends.
    """

    connection: int
    address: str


@attrs.frozen(kw_only=True)
class RPCConnectionRefused:
    """Streams were closed at once. Emitted by accept for the 1st, 2nd, 4th, 8th ... of them."""

    address: str
    reason: str
    count: int


@attrs.frozen(kw_only=True)
class RPCConnectionClosed:
    """An accepted connection has ended. Emitted by its actor.

    Attributes:
        requests: frames that asked for something.
        refused: those of them, and other frames, that reached nobody who serves such.
        tolerated: frames that were read only as fastjson reads them.
        unanswered: requests whose answers came too late for it.
    """

    connection: int
    reason: str
    requests: int
    refused: int
    tolerated: int
    unanswered: int


@attrs.frozen(kw_only=True)
class RPCFrameRefused:
    """A frame reached nobody who serves such, or broke who does: junk, an unknown code, a wrong
    addressee. Emitted by the connection's actor, for the 1st, 2nd, 4th, 8th ... of a connection.

    Attributes:
        code: of the frame's header.
        count: of them on this connection so far.
    """

    connection: int
    code: int
    reason: str
    count: int


@attrs.frozen(kw_only=True)
class RPCPeerConnected:
    """A connection to a peer was made. Emitted by who holds it: rpc_peers, dispatchers, clients."""

    peer: str
    address: str


@attrs.frozen(kw_only=True)
class RPCPeerLost:
    """A connection to a peer has ended, or could not be made. Emitted by who holds it;
    of failures in a row, for the 1st, 2nd, 4th, 8th ... of them.

    Attributes:
        unanswered: calls that it took with it.
        failures: since a peer last answered.
        pause_s: until the next call may connect; calls before it fail at once.
    """

    peer: str
    reason: str
    unanswered: int
    failures: int
    pause_s: float


@attrs.frozen(kw_only=True)
class RPCAnswerRefused:
    """What a peer sent is no answer: a failure of its remoting layer, junk, or to nobody's call.
    Emitted by who holds the connection, for the 1st, 2nd, 4th, 8th ... of a connection.
    """

    peer: str
    reason: str
    count: int


@attrs.frozen(kw_only=True)
class RPCCallRefused:
    """A call could not be sent by our own fault: its request fits no frame.

    Emitted by who holds the connection.
    """

    peer: str
    request: str
    reason: str
