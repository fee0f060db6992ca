"""The limits of every configured value, by name, and the validators that enforce them.

A validator explains itself (`expected`), so that the message a user reads and the rule that is
applied cannot differ. Upstream ignores a value that does not parse and keeps the default (T31);
here every such value is refused.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Any, Final, Protocol

import attrs

CONFIG_BYTES_MAX = 1 << 20
"""A cluster file is a page of text; more is a mistake, such as naming a log file."""
NODES_MAX = 64
GROUPS_MAX = 64
NAME_CHARS_MAX = 64
PATH_CHARS_MAX = 4096
PORT_MAX = 65_535

SEGMENT_BYTES_MAX = (1 << 31) - 4096
"""Java maps a segment through an int size."""
CONSUME_QUEUE_UNIT_BYTES = 20
RECONNECT_FIRST_S = 0.2
"""A slave's first pause after a lost master: short for a person, long for a machine."""
ROOM_LOOK_S = 0.5
"""How often a disk without room is looked at, and how soon what it refused is tried again: whoever
makes room looks whether it was enough.
"""
EVENT_BYTES_MIN = 4096
API_CLIENTS = 64
"""Clients of one node, beside the connections that the cluster makes itself."""

FOUND_CHARS_MAX = 60
"""A found value is quoted up to here, so that a problem stays one line."""


NO_KEY: Final = {"no_key": True}
"""The metadata of a field that a cluster file cannot set."""


class Mismatch(ValueError):
    """One value is not what its key expects.

    Attributes:
        expected: in words, for the middle of a sentence.
        found: the value as read from the file.
    """

    def __init__(self, expected: str, found: object) -> None:
        super().__init__(f"expected {expected}, found {found!r}")
        self.expected = expected
        self.found = found


class Rule(Protocol):
    """An attrs validator that can say what it expects."""

    @property
    def expected(self) -> str: ...
    def __call__(self, instance: Any, attribute: Any, value: Any) -> None:
        """Raise `Mismatch` if `value` does not fit."""


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


@attrs.frozen
class Within:
    """Both ends included. NaN is outside of every range; `True` is not a number."""

    low: float
    high: float
    step: int = 1

    @property
    def expected(self) -> str:
        if self.low == self.high:
            return _number(self.low)
        kind = "a number" if isinstance(self.low, float) else "an integer"
        multiple = f", a multiple of {self.step}" if self.step != 1 else ""
        return f"{kind} from {_number(self.low)} to {_number(self.high)}{multiple}"

    def __call__(self, instance: Any, attribute: Any, value: Any) -> None:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if (
            not number
            or not self.low <= value <= self.high
            or (self.step != 1 and value % self.step)
        ):
            raise Mismatch(self.expected, value)


@attrs.frozen
class Text:
    """A string whose whole text matches; `expected` says so in words."""

    pattern: str
    expected: str

    def __call__(self, instance: Any, attribute: Any, value: Any) -> None:
        if not isinstance(value, str) or re.fullmatch(self.pattern, value) is None:
            raise Mismatch(self.expected, value)


@attrs.frozen
class EachWithin:
    """A tuple of integers, each in the range, none twice, at least one."""

    low: int
    high: int
    what: str

    @property
    def expected(self) -> str:
        return f"a list of different {self.what} from {self.low} to {self.high}"

    def __call__(self, instance: Any, attribute: Any, value: Any) -> None:
        fits = value and len(set(value)) == len(value)
        if not fits or not all(self.low <= one <= self.high for one in value):
            raise Mismatch(self.expected, value)


NAME = Text(
    rf"[A-Za-z0-9_][A-Za-z0-9_-]{{0,{NAME_CHARS_MAX - 1}}}",
    f"a name of 1 to {NAME_CHARS_MAX} letters, digits, _ and -",
)
STORE_VERSION = Text(
    r"[1-9][0-9]?\.[0-9]{1,2}\.[0-9]{1,2}", "a RocketMQ version of three numbers, such as 5.5.0"
)
DELAY_LEVELS = Text(
    r"[0-9]{1,7}[smhd](?: [0-9]{1,7}[smhd]){0,63}",
    "1 to 64 delays of s, m, h or d, with a blank between, such as 1s 5s 10m 2h",
)
PATH = Text(rf"[^\x00-\x1f\x7f]{{1,{PATH_CHARS_MAX}}}", "a path without control characters")
PORT = Within(1, PORT_MAX)
BROKER_PORT = Within(3, PORT_MAX)
"""The port less 2 is listened on, too."""
NODES = Within(1, NODES_MAX)
BROKER_ID = Within(1, (1 << 63) - 1)
INTERVAL = Within(0.001, 86_400.0)
FRAME = Within(1024, 4_194_292)
"""A Java slave's read buffer of 4 MiB less the header of 12 bytes; more hangs it (T10)."""
SEGMENT = Within(4096, SEGMENT_BYTES_MAX, 4096)
CONSUME_QUEUE = Within(CONSUME_QUEUE_UNIT_BYTES, 1_000_000_000, CONSUME_QUEUE_UNIT_BYTES)
INDEX_COUNT = Within(2, 100_000_000)
"""Units of 20 bytes in one mapped file: Java's int size ends a little above this."""
MESSAGE = Within(1, 64 << 20)
PAGES = Within(0, 1 << 20)
"""Pages of 4 KiB that may wait for a sync: 4 GiB of them."""
PENDING = Within(64 << 10, 16 << 30)
RATE = Within(0, 1 << 40)
RATE_RECORDS = Within(0, 100_000_000)
GAP = Within(1, 1 << 62)
ENTRIES = Within(1, 1_000_000)
"""Entries of a DLedger group that wait for something; each costs some hundred bytes."""
SNAPSHOT_ENTRIES = Within(1, 1 << 40)
SNAPSHOTS = Within(1, 100)
LEAKS = Within(1, 1000)
HOURS = Within(1, 24 * 366 * 10)
RATIO = Within(0.10, 0.99)
"""Upstream clamps diskMaxUsedSpaceRatio to 10-95 %; ours refuses what is outside."""
CLIENTS = Within(1, 10_000)
EVENT_BYTES = Within(EVENT_BYTES_MIN, 1 << 50)
EVENTS = Within(1, 10_000_000)
DAYS = Within(1, 36_500)

ENDPOINT_EXPECTED = (
    "an IP address or a host name, and a port, such as 192.0.2.1:9876 or [2001:db8::1]:9876"
)
ADDRESS_EXPECTED = "an IP address of one host, such as 127.0.0.1"
HOST_EXPECTED = "an IP address or the name of one host"
_LABEL = "[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}\Z)({_LABEL}\.)*(?![0-9]+\.?\Z){_LABEL}\.?")
"""What resolvers take, `_` included, as container names have it. Digits alone at the end are an
address that is none.
"""


def address_of(text: object) -> str:
    """The canonical form of a node's address, by which a slave is recognised when it connects.

    Raises:
        Mismatch: not an address of one host. Names are refused: what they resolve to may change,
            and an accepted connection shows an address only.
    """
    if not isinstance(text, str):
        raise Mismatch(ADDRESS_EXPECTED, text)
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise Mismatch(ADDRESS_EXPECTED, text) from None
    mapped = isinstance(address, ipaddress.IPv6Address) and (
        address.ipv4_mapped is not None or address.scope_id is not None
    )
    if address.is_unspecified or address.is_multicast or mapped or text == "255.255.255.255":
        raise Mismatch(ADDRESS_EXPECTED, text)
    return str(address)


def host_of(text: object) -> str:
    """Somebody else's host, which we only connect to: an address in its canonical form, or a name,
    which is resolved anew at each attempt.

    Raises: Mismatch: it is neither.
    """
    try:
        return address_of(text)
    except Mismatch:
        if isinstance(text, str) and _HOST_NAME.fullmatch(text):
            return text.lower()
        raise Mismatch(HOST_EXPECTED, text) from None


def is_address(host: str) -> bool:
    """Whether a host is given by its IP address, not by a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether its text says that only its own machine reaches it; of names `localhost` does."""
    return ipaddress.ip_address(host).is_loopback if is_address(host) else host == "localhost"


def as_connecting(addresses: Iterable[str]) -> tuple[str, ...]:
    """IP addresses as accepted connections show them; what is none stays, for a rule to refuse."""
    found = []
    for address in addresses:
        try:
            found.append(str(ipaddress.ip_address(address)))
        except ValueError:
            found.append(address)
    return tuple(found)


_ENDPOINT = re.compile(r"(?:\[([^\[\]]*:[^\[\]]*)\]|([^\[\]]+)):([0-9]{1,5})")


def split_endpoint(text: str) -> tuple[str, int] | None:
    """Return host and port of "HOST:PORT", or None if the text has another form.

    Only an IPv6 address may have colons; it may be in brackets, and upstream's is not. What else a
    host may be is not looked at.
    """
    found = _ENDPOINT.fullmatch(text)
    if found is None or not 0 < int(found[3]) <= PORT_MAX:
        return None
    host = found[1] or found[2]
    return None if ":" in host and not is_address(host) else (host, int(found[3]))


def endpoint_of(text: object) -> tuple[str, int]:
    """Host and port of "HOST:PORT", the host as `host_of` gives it. Raises: Mismatch."""
    found = split_endpoint(text) if isinstance(text, str) else None
    if found is None:
        raise Mismatch(ENDPOINT_EXPECTED, text)
    try:
        return host_of(found[0]), found[1]
    except Mismatch:
        raise Mismatch(ENDPOINT_EXPECTED, text) from None


@attrs.frozen
class EachEndpoint:
    """A tuple of "HOST:PORT", none twice."""

    expected: str = "a list of different addresses with ports, such as 192.0.2.1:9876"

    def __call__(self, instance: Any, attribute: Any, value: Any) -> None:
        found = [endpoint_of(each) for each in value]
        if len(set(found)) != len(found):
            raise Mismatch(self.expected, value)


EACH_ENDPOINT = EachEndpoint()


@attrs.frozen
class EachNumber:
    """A table of one number for each node that it names."""

    each: Within
    expected: str = "a table of a number for each node"

    def __call__(self, instance: Any, attribute: Any, value: Any) -> None:
        for one in value.values():
            self.each(instance, attribute, one)


EACH_PRIORITY = EachNumber(Within(0, (1 << 31) - 1))
