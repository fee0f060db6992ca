"""JSON of brokers and name servers as Java's fastjson writes it, without the loss of any value.

Upstream: apache/rocketmq, remoting/.../protocol/RemotingSerializable.java, 5.3.3; broker.md 1.4.

Read are integer map keys without quotes (`{0:1}`, fastjson 1) and with them (fastjson 2, Python),
numbers in quotes, and null, which stands for a key that is not there. Keys that a class does not
know are kept in `JavaObject.more` and written again, because a newer broker may read our files.
Written is standard JSON, which every fastjson reads: keys in the order of Java's getters, tables
in the order in which they were read.

Differs: keys in another case than Java's are unknown keys, and objects as keys are no JSON.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct, ValidationError

from wire.errors import LocalProtocolError, RemoteProtocolError

if TYPE_CHECKING:
    More: TypeAlias = dict[str, Raw] | None
else:
    More = None  # what a peer may send for it: its own keys never are this field

J = TypeVar("J", bound="JavaObject")

_INTEGER_KEY = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|([{,]\s*+)(-?\d++)(?=\s*+:)', re.DOTALL)
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode


def _java_name(name: str) -> str:
    if name == "more":
        return ""
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


def table() -> Any:
    """Return a field's default: an empty table, which is written as Java writes it."""
    return msgspec.field(default_factory=_no_rows)


def _no_rows() -> dict[Any, Any]:
    return {}  # by `dict` itself, msgspec would leave out what is empty


class JavaObject(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    rename=_java_name,
):
    """An object with getters. Subclasses declare their fields in alphabetical order.

    Attributes:
        more: what a peer wrote under keys that are not known here, without blanks; None: nothing.
        DERIVED: keys that are not kept, because Java makes their values from the others.
    """

    DERIVED: ClassVar[frozenset[str]] = frozenset()
    more: More = None


class Reader(Generic[J]):
    """Reads documents of one class, with one call of msgspec unless they need tolerance."""

    __slots__ = ("_exact", "_keep", "_name")

    def __init__(self, type_: type[J]) -> None:
        self._name = type_.__name__
        self._exact = msgspec.json.Decoder(type_)
        self._keep: Callable[[bytes | Raw], J] = _keeper(type_)

    def decode(self, data: bytes) -> J:
        """Decode a document.

        Raises:
            RemoteProtocolError: the bytes are no such document; one line says where.
        """
        try:
            data.decode()  # what is kept unread is to be UTF-8, too
            try:
                return self._read(data)
            except msgspec.DecodeError:
                return self._read(quote_integer_keys(data))
        except _UNREADABLE as error:
            raise RemoteProtocolError(f"{self._name}: {error}") from None

    def _read(self, data: bytes) -> J:
        try:
            return self._exact.decode(data)
        except ValidationError:
            return self._keep(data)


def quote_integer_keys(data: bytes) -> bytes:
    """Put quotes around integer keys; leave the text inside of strings alone."""
    return _INTEGER_KEY.sub(_quoted, data)


def _quoted(found: re.Match[bytes]) -> bytes:
    before, key = found.groups()
    return found[0] if key is None else b'%b"%b"' % (before, key)


def encode(value: JavaObject) -> bytes:
    """Encode an object as standard JSON in one line.

    Raises:
        LocalProtocolError: a value is of a type that JSON does not have.
    """
    try:
        return _encode(_plain(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise LocalProtocolError(f"cannot encode {type(value).__name__}: {error}") from None


def encode_pretty(value: JavaObject) -> bytes:
    """Encode an object as JSON for people: a line for each field, and for each row of a table.

    Raises:
        LocalProtocolError: see `encode`.
    """
    return _lines(encode(value), _lines)


def _lines(data: bytes, inner: Callable[[bytes], bytes] = bytes) -> bytes:
    """Put each key of an object on a line of its own; `inner` formats the values."""
    if not data.startswith(b"{") or data == b"{}":
        return data
    pairs = [(_encode(key), bytes(each)) for key, each in _OBJECT.decode(data).items()]
    if len(data) != sum(len(key) + len(each) + 2 for key, each in pairs) + 1:
        return data  # it is kept as it was written, with a key twice or in other characters
    return b"{\n%b\n}" % b",\n".join(b"%b:%b" % (key, inner(each)) for key, each in pairs)


def _plain(value: object) -> object:
    """Return a value that msgspec can write: objects with `more`, at any depth, as dictionaries."""
    if isinstance(value, JavaObject):
        nested = _nested_fields(type(value))
        inner = {name: _plain(getattr(value, name)) for name in nested}
        if value.more is None and all(inner[name] is getattr(value, name) for name in nested):
            return value
        fields: dict[str, object] = dict(value.more or {})
        for name, key in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
            found = inner[name] if name in inner else getattr(value, name)
            if name != "more" and found is not None:
                fields[key] = found
        return dict(sorted(fields.items()))
    if isinstance(value, dict):
        written = {key: _plain(each) for key, each in value.items()}
        return written if any(written[key] is not value[key] for key in written) else value
    return value


def _nested_fields(type_: type[JavaObject]) -> tuple[str, ...]:
    """Return the names of the fields that hold objects."""
    found = _NESTED.get(type_)
    if found is None:
        hints = typing.get_type_hints(type_, include_extras=True)
        found = _NESTED[type_] = tuple(name for name in hints if _nested_type(hints[name]))
    return found


_NESTED: Final[dict[type[JavaObject], tuple[str, ...]]] = {}


def _nested_type(hint: Any) -> type[JavaObject] | None:
    """Return the class of the objects in a field, or in the field's table; None without objects."""
    hint = _bare(hint)
    while typing.get_origin(hint) is dict:
        hint = typing.get_args(hint)[1]
    return hint if isinstance(hint, type) and issubclass(hint, JavaObject) else None


def _bare(hint: Any) -> Any:
    """Return a type hint without None, the only use of unions here."""
    if typing.get_origin(hint) not in (types.UnionType, typing.Union):
        return hint
    return next(each for each in typing.get_args(hint) if each is not types.NoneType)


def _keeper(type_: type[J]) -> Callable[[bytes | Raw], J]:
    """Return a function that reads objects of the class which have unknown keys."""
    hints = typing.get_type_hints(type_, include_extras=True)
    keys = zip(type_.__struct_fields__, type_.__struct_encode_fields__, strict=True)
    readers = {key: (name, _field_reader(hints[name])) for name, key in keys if key}

    def keep(data: bytes | Raw) -> J:
        fields: dict[str, Any] = {}
        more: dict[str, Raw] = {}
        for key, raw in _OBJECT.decode(data).items():
            if bytes(raw) == b"null" or key in type_.DERIVED:
                continue
            if key in readers:
                name, read = readers[key]
                fields[name] = read(raw)
            else:
                more[key] = Raw(msgspec.json.format(bytes(raw), indent=-1))
        try:
            return type_(**fields, more=more or None)
        except TypeError as error:  # a field is missing that has no default
            raise ValidationError(str(error).partition(" ")[2] or "misses a field") from None

    return keep


def _field_reader(hint: Any) -> Callable[[Raw], Any]:
    if _nested_type(hint) is None:
        return msgspec.json.Decoder(hint, strict=False).decode
    hint = _bare(hint)
    if typing.get_origin(hint) is dict:
        return _table_reader(_field_reader(typing.get_args(hint)[1]))
    exact, keep = msgspec.json.Decoder(hint), _keeper(hint)

    def read(raw: Raw) -> JavaObject:
        try:
            found: JavaObject = exact.decode(raw)
        except ValidationError:
            found = keep(raw)
        return found

    return read


def _table_reader(read: Callable[[Raw], Any]) -> Callable[[Raw], dict[str, Any]]:
    return lambda raw: {
        key: read(each) for key, each in _OBJECT.decode(raw).items() if bytes(each) != b"null"
    }
