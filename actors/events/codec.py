"""Events <-> lines of JSON, one flat object each.

| Order | Key | Type | Meaning |
|---|---|---|---|
| 1 | node | string | see `LoggedEvent` |
| 2 | boot | integer | |
| 3 | seq | integer | |
| 4 | path | string | |
| 5 | incarnation | integer | |
| 6 | ts_us | integer | |
| 7 | kind | string | class name in the catalogue |
| 8.. | the event's fields | integer, number, string, boolean, null, array | ordered by name |

The line ends with one newline and holds no other. Readers skip keys that they do not know, so a
field can be added; a field's type never changes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import msgspec

from actors.events.catalogue import RESERVED, collect

KINDS: dict[str, type] = collect()
"""Every event class by its kind."""

PATHS_KEPT_MAX = 4096
"""Encoded paths that a LineEncoder remembers: more than a node has actors; then it starts anew."""


class EventFormatError(ValueError):
    """A line is not an event: torn, damaged, or of another format."""


class _Head(msgspec.Struct, frozen=True):
    node: str
    boot: int
    seq: int
    path: str
    incarnation: int
    ts_us: int
    kind: str


_encode = msgspec.json.Encoder().encode
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_any = msgspec.json.Decoder(dict[str, Any]).decode
_decode_fields: dict[str, Callable[[bytes | str], Any]] = {}
"""By kind, each made when the first of its kind is read: most programs write and never read."""


class LineEncoder:
    """Encodes the events of one boot of one node. What repeats is encoded once."""

    __slots__ = ("_head", "_kinds", "_paths")

    def __init__(self, node: str, boot: int) -> None:
        self._head = b'{"node":%b,"boot":%d,"seq":' % (_encode(node), boot)
        self._paths: dict[tuple[str, int], bytes] = {}
        self._kinds: dict[type, bytes] = {}

    def encode(self, seq: int, path: str, incarnation: int, ts_us: int, event: object) -> bytes:
        """The line, newline included. Raises: TypeError, ValueError for what is no event."""
        kind = self._kinds.get(type(event)) or self._kind(type(event))
        middle = self._paths.get((path, incarnation)) or self._path(path, incarnation)
        fields = _encode(event)
        if fields == b"{}":
            return b"%b%d%b%d%b}\n" % (self._head, seq, middle, ts_us, kind)
        return b"%b%d%b%d%b,%b\n" % (self._head, seq, middle, ts_us, kind, fields[1:])

    def _kind(self, cls: type) -> bytes:
        if KINDS.get(cls.__name__) is not cls:
            raise TypeError(f"{cls.__name__} is not in the catalogue of events")
        encoded = self._kinds[cls] = b',"kind":' + _encode(cls.__name__)
        return encoded

    def _path(self, path: str, incarnation: int) -> bytes:
        if len(self._paths) >= PATHS_KEPT_MAX:
            self._paths.clear()
        encoded = b',"path":%b,"incarnation":%d,"ts_us":' % (_encode(path), incarnation)
        self._paths[path, incarnation] = encoded
        return encoded


def decode_line(line: bytes | str) -> LoggedEvent:
    """One line, with or without its newline. Raises: EventFormatError."""
    try:
        head = _decode_head(line)
        decode = _decode_fields.get(head.kind) or _decoder(head.kind)
        event = decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise EventFormatError(f"not an event: {error}: {line[:120]!r}") from error
    return LoggedEvent(
        node=head.node,
        boot=head.boot,
        seq=head.seq,
        path=head.path,
        incarnation=head.incarnation,
        ts_us=head.ts_us,
        event=event,
    )


def _decoder(kind: str) -> Callable[[bytes | str], Any]:
    """Of the lines of a kind; those of the catalogue's kinds are kept."""
    cls = KINDS.get(kind)
    if cls is None:
        return partial(_unknown, kind)
    return _decode_fields.setdefault(kind, msgspec.json.Decoder(cls).decode)


def _unknown(kind: str, line: bytes | str) -> UnknownEvent:
    fields = tuple((key, value) for key, value in _decode_any(line).items() if key not in RESERVED)
    return UnknownEvent(kind=kind, fields=fields)


@attrs.frozen(kw_only=True)
class LoggedEvent:
    """One line of an event log.

    The key is (node, boot, seq). `seq` is gapless within a boot but for ranges that an
    `EventsDropped` of the same boot names. Nothing follows from comparing `ts_us` of two nodes.

    Attributes:
        node: who emitted it.
        boot: how often that node had been started, from 1.
        seq: number within the boot, from 1.
        path: the actor it is about, "/n0/orders/store".
        incarnation: the number of that actor's incarnation, from 1; 0 where there is none.
        ts_us: the node's own clock in microseconds since 1970.
        event: an instance of a class of the catalogue, or `UnknownEvent`.
    """

    node: str
    boot: int
    seq: int
    path: str
    incarnation: int
    ts_us: int
    event: Any

    @property
    def kind(self) -> str:
        """The event's name in the catalogue."""
        event = self.event
        return event.kind if isinstance(event, UnknownEvent) else type(event).__name__


@attrs.frozen(kw_only=True)
class UnknownEvent:
    """An event of a newer (or older) catalogue: its kind and its fields as they were read."""

    kind: str
    fields: tuple[tuple[str, Any], ...]
