"""Events of the API socket, and of a slave's link to its master."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class APIListening:
    """The API socket takes connections. Emitted by api's accept_socket, at each of its starts.

    Attributes:
        address: path of the Unix socket, or host:port.
    """

    address: str


@attrs.frozen(kw_only=True)
class APIConnectionRefused:
    """A connection was closed unheard. Emitted by api's accept_socket, for the 1st, 2nd, 4th, 8th
    ... only.

    Attributes:
        address: where it came from.
        reason: "unknown address" or "too many connections".
        count: the number so far.
    """

    address: str
    reason: str
    count: int


@attrs.frozen(kw_only=True)
class APIConnectionOpened:
    """A client said who it is and was welcomed. Emitted by api's connection, once for each.

    Attributes:
        client: the name it gave.
        address: where it came from.
        text: True if it speaks JSON.
    """

    client: str
    address: str
    text: bool


@attrs.frozen(kw_only=True)
class APIConnectionClosed:
    """A connection to the API socket ended. Emitted by api's connection, once for each, welcomed or
    not.

    Attributes:
        reason: "client closed", "connection lost", "bad frame", "no hello", "too slow", "stopping";
            "too many connections" and "made way for ...": it had no slot, see `api.slots`.
        requests: how many it had made.
        unanswered: how many of them got no answer; their appends may be stored.
    """

    reason: str
    requests: int
    unanswered: int


@attrs.frozen(kw_only=True)
class APIFrameRefused:
    """A frame that cannot be read ended its connection. Emitted by api's connection, before it
    closes.
    """

    error: str


@attrs.frozen(kw_only=True)
class MasterLinkOpened:
    """A slave's node reached its master's API. Emitted by member_link, at each connection, and when
    a master that could not say what it is in the group says it again.

    Attributes:
        group: whose acknowledged offset it asks for.
        master: the master's name.
        master_boot: from the master's welcome.
    """

    group: str
    master: str
    master_boot: int


@attrs.frozen(kw_only=True)
class MasterLinkLost:
    """A slave's connection to its master's API ended, an attempt failed, or the master did not say
    what it is in the group. Emitted by member_link.

    Until MasterLinkOpened the slave's readers see nothing newer. Emitted for the first failure in a
    row, and for the first at which another node or cluster answers there; `error` says what it was.
    """

    group: str
    master: str
    error: str
