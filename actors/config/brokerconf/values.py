"""The kinds of values that a broker's properties have, and how each is read.

Upstream: apache/rocketmq 5.3.3, common/.../MixAll.properties2Object, which keeps a default without
a word where a value does not parse (T31 of classic-ha.md).
Differs: such a value is refused. Strings and names of enumerations are trimmed as upstream does;
numbers and true or false are not, as upstream reads neither with a blank at its end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import attrs

from actors.config.bounds import (
    DELAY_LEVELS,
    EACH_ENDPOINT,
    NAME,
    STORE_VERSION,
    Mismatch,
    Text,
    address_of,
    host_of,
    split_endpoint,
)
from actors.config.problems import suggestion

LONG_MAX: Final = (1 << 63) - 1
ADDRESS_AND_PORT: Final = "the host and port of a master, such as 192.0.2.10:10912"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_LOCALHOST: Final = "127.0.0.1"


class Kind(Protocol):
    """How the values of a key are read."""

    @property
    def expected(self) -> str:
        """In words, for the middle of a sentence."""

    def read(self, text: str) -> Any:
        """Raises: Mismatch: it is none of this kind."""


@attrs.frozen
class Integer:
    """A number in 64 bits, whatever Java's field has, with both ends of its range included.

    Attributes:
        unit: what it counts, for people.
        step: only its multiples are taken.
    """

    low: int
    high: int = LONG_MAX
    unit: str = ""
    step: int = 1

    @property
    def expected(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        unit += f", a multiple of {self.step}" if self.step > 1 else ""
        if self.high == LONG_MAX:
            return f"an integer from {self.low} on{unit}"
        return f"an integer from {self.low} to {self.high}{unit}"

    def read(self, text: str) -> int:
        number = int(text) if _INTEGER.fullmatch(text) else None
        if number is None or not self.low <= number <= self.high or number % self.step:
            raise Mismatch(self.expected, text)
        return number


@attrs.frozen
class Switch:
    """`true` or `false`, in letters of any size."""

    expected: str = "true or false"

    def read(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise Mismatch(self.expected, text)
        return text.lower() == "true"


@attrs.frozen
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    @property
    def expected(self) -> str:
        return f"{', '.join(self.words[:-1])} or {self.words[-1]}"

    def read(self, text: str) -> str:
        word = text.strip()
        if word not in self.words:
            raise Mismatch(self.expected + suggestion(word, self.words), text)
        return word


@attrs.frozen
class Only:
    """The one value with which a key means nothing here; any other is refused.

    Attributes:
        kind: how it is read.
        value: what it has to be.
        why: what another one would ask for.
    """

    kind: Kind
    value: Any
    why: str

    @property
    def expected(self) -> str:
        value = str(self.value).lower() if isinstance(self.value, bool) else str(self.value)
        return f"{value} ({self.why})"

    def read(self, text: str) -> Any:
        found = self.kind.read(text)
        if found != self.value:
            raise Mismatch(self.expected, text)
        return found


@attrs.frozen
class Words:
    """A string, trimmed, that matches one of the cluster file's own rules."""

    rule: Text

    @property
    def expected(self) -> str:
        return self.rule.expected

    def read(self, text: str) -> str:
        self.rule(None, None, text.strip())
        return text.strip()


@attrs.frozen
class Folder:
    """A path; a relative one begins where the command runs, as it does for a broker."""

    expected: str = "one path of a folder"

    def read(self, text: str) -> str:
        path = text.strip()
        if not path or not path.isprintable() or "${" in path or any(sign in path for sign in ",;"):
            raise Mismatch(self.expected, text)
        return os.path.normpath(os.path.join(os.getcwd(), path))


@attrs.frozen
class HostAddress:
    """An address of this machine."""

    expected: str = "an IP address of one host, such as 192.0.2.10"

    def read(self, text: str) -> str:
        return _host(text, text.strip(), self.expected)


@attrs.frozen
class HostAddresses:
    """Addresses of machines, with ";" between them."""

    expected: str = 'IP addresses, each once, with ";" between them'

    def read(self, text: str) -> tuple[str, ...]:
        found = tuple(
            _host(text, one.strip(), self.expected) for one in text.strip(" ;\t").split(";")
        )
        if len(set(found)) < len(found):
            raise Mismatch(self.expected, text)
        return found


@attrs.frozen
class HostAndPort:
    """`host:port`, or nothing."""

    expected: str = ADDRESS_AND_PORT

    def read(self, text: str) -> tuple[str, int] | None:
        if not text.strip():
            return None
        found = split_endpoint(text.strip())
        if found is None:
            raise Mismatch(self.expected, text)
        return _host(text, found[0], self.expected, host_of), found[1]


@attrs.frozen
class Servers:
    """Hosts and ports of name servers, with ";" between them."""

    expected: str = (
        'IP addresses or host names, and ports, of name servers, each once, with ";" between them'
    )

    def read(self, text: str) -> tuple[str, ...]:
        named = [one.strip() for one in text.strip(" ;\t").split(";")]
        found = tuple(
            f"{_LOCALHOST}:{one.rpartition(':')[2]}" if one.startswith("localhost:") else one
            for one in named
        )
        try:
            EACH_ENDPOINT(None, None, found)
        except Mismatch:
            raise Mismatch(self.expected, text) from None
        return found


@attrs.frozen
class HoursOfDay:
    """Hours of the day, with ";" between them: `04`, `04;16`."""

    expected: str = 'hours from 0 to 23, each once, with ";" between them'

    def read(self, text: str) -> tuple[int, ...]:
        words = [one.strip() for one in text.strip(" ;\t").split(";")]
        if not all(re.fullmatch(r"[01]?[0-9]|2[0-3]", one) for one in words):
            raise Mismatch(self.expected, text)
        found = tuple(int(one) for one in words)
        if len(set(found)) < len(found):
            raise Mismatch(self.expected, text)
        return found


def _host(text: str, host: str, expected: str, rule: Callable[[object], str] = address_of) -> str:
    """Raises: Mismatch: it does not fit. `localhost` is an address for each rule."""
    try:
        return rule(_LOCALHOST if host == "localhost" else host)
    except Mismatch:
        raise Mismatch(expected, text) from None


MILLISECONDS: Final = Integer(1, 86_400_000, "ms")
"""What bounds.INTERVAL takes in seconds."""
SWITCH: Final = Switch()
WORD: Final = Words(NAME)
VERSION: Final = Words(STORE_VERSION)
DELAYS: Final = Words(DELAY_LEVELS)
ROLES: Final[Mapping[str, bool]] = {"ASYNC_MASTER": True, "SYNC_MASTER": True, "SLAVE": False}
"""Upstream's BrokerRole, and whether it is a master."""
