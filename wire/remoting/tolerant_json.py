"""JSON objects as fastjson reads and writes them, read exactly and fast, or tolerantly and slowly.

The exact reading is one call into msgspec. Where it fails, the object is put into exact form (keys
and names of enum members as they should be, unknown keys gone) and read again, numbers in quotes
allowed. What that needed is returned to the caller, so that a peer which always needs it is seen.

Accepted like fastjson 1.2.69 (tried with the Java classes, `tests/golden/dledger`):

- keys without regard to case, "_" and "-"; of two spellings of one key the first counts;
- numbers in quotes; integers written as floats (1.0, 1e3);
- for an enum its name without regard to case, or its ordinal; an unknown name is null;
- numbers, booleans, lists and objects for a text by name (extFields, which clients in JavaScript
  fill so), as they are written; null there is a missing one;
- unknown keys are skipped, and so are those in the class's UNREAD, whatever their values are;
  missing ones have their default; null is read as an absent string, object or byte array.

Differs, each time by refusing what Java reads silently as something else:

- null, "" and "null" for a number or a list: Java keeps the default.
- A fraction (1.7): Java cuts it. A number for any other string: Java makes it text.
- Base64 without padding, with "-", "_" or blanks: Java decodes other bytes.
- Arrays for objects and the reverse, an empty body: Java makes an empty or null object.
- What is no JSON: single quotes, comments, keys without quotes. Leading zeros in a quoted number.

The other way round, floats are read in quotes too ("1.0"), where Java throws.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct, ValidationError

from wire.errors import RemoteProtocolError

TOLERANT_COMMAS_MAX: Final = 100_000
"""How many commas a text may have to be read tolerantly, as each value costs up to 300 bytes and
0.6 us then. Base64 has none, so this is a batch of 12,000 entries of any size.
"""

Int: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Long: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

T = TypeVar("T")
M = TypeVar("M", bound=Struct)

_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_ENUM_VALUE = msgspec.json.Decoder(str | int | None)
_encode = msgspec.json.Encoder().encode


def always(value: T) -> T:
    """Return a field's default that is also written if the value equals it, as Java's primitives.

    The `omit_defaults` of msgspec leaves out only the default object itself, such as None.
    """
    found: T = msgspec.field(default_factory=lambda: value)
    return found


class TolerantDecoder(Generic[M]):
    """Reads objects of one class, whose keys are its fields and those of nested classes.

    Args:
        type_: a frozen msgspec class with `forbid_unknown_fields`, so that keys in other spellings
            are noticed.
    """

    __slots__ = ("_exact", "_lax", "_name", "_normal")

    def __init__(self, type_: type[M]) -> None:
        self._name = type_.__name__
        self._exact = msgspec.json.Decoder(type_)
        self._lax = msgspec.json.Decoder(type_, strict=False)
        self._normal = _object_rule(type_)

    def decode(self, data: bytes) -> tuple[M, bool]:
        """Decode an object; return it, and whether it needed fastjson's tolerance.

        Unknown keys alone do not count as tolerance.

        Raises:
            RemoteProtocolError: the bytes are no such object; one line says where.
        """
        try:
            return self._exact.decode(data), False
        except ValidationError:
            pass  # its text may quote a key of the peer's, of any length
        except _UNREADABLE as error:
            raise RemoteProtocolError(f"{self._name}: {error}") from None
        commas = data.count(b",")
        if commas > TOLERANT_COMMAS_MAX:
            raise RemoteProtocolError(f"{self._name} with {commas} commas not as Java writes it")
        return self._tolerant(data)

    def _tolerant(self, data: bytes) -> tuple[M, bool]:
        try:
            normal, loose = self._normal(Raw(data))
            try:
                return self._exact.decode(normal), loose
            except ValidationError:
                return self._lax.decode(normal), True
        except _UNREADABLE as error:
            raise RemoteProtocolError(f"{self._name}: {error}") from None


# A rule puts one value into exact form, and says whether that changed more than to drop keys.
_Rule: TypeAlias = Callable[[Raw], tuple[Raw, bool]]


def _folded(key: str) -> str:
    return key.replace("_", "").replace("-", "").lower()


def _object_rule(type_: type[Struct]) -> _Rule:
    rules = _field_rules(type_)
    names = {_folded(name): name for name in rules}
    unread: frozenset[str] = getattr(type_, "UNREAD", frozenset())

    def normal(raw: Raw) -> tuple[Raw, bool]:
        found: dict[str, Raw] = {}
        loose = False
        for key, value in _OBJECT.decode(raw).items():
            name = key if key in rules else names.get(_folded(key))
            if name is None or name in found or name in unread:
                continue
            loose |= name != key
            rule = rules[name]
            if rule is not None:
                value, changed = rule(value)
                loose |= changed
            found[name] = value
        return Raw(_encode(found)), loose

    return normal


def _field_rules(type_: type[Struct]) -> dict[str, _Rule | None]:
    hints = typing.get_type_hints(type_)
    fields = zip(type_.__struct_fields__, type_.__struct_encode_fields__, strict=True)
    return {encoded: _rule(hints[name]) for name, encoded in fields}


def _rule(hint: Any) -> _Rule | None:
    """Return how to convert a value of this type; None to leave it to the typed reading."""
    if isinstance(hint, types.UnionType):  # with None: the only unions here
        (hint,) = [each for each in hint.__args__ if each is not types.NoneType]
    if hint == dict[str, str]:
        return _or_null(_texts)
    if typing.get_origin(hint) is tuple:
        element = _rule(typing.get_args(hint)[0])
        return None if element is None else _list_rule(element)
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _or_null(_object_rule(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enum_rule(hint)
    return None


def _or_null(rule: _Rule) -> _Rule:
    return lambda raw: (raw, False) if bytes(raw).strip() == b"null" else rule(raw)


def _texts(raw: Raw) -> tuple[Raw, bool]:
    found: dict[str, Raw] = {}
    loose = False
    for key, value in _OBJECT.decode(raw).items():
        text = bytes(value).strip()
        if not text.startswith(b'"'):
            loose = True
            if text == b"null":
                continue
            value = Raw(_encode(text.decode()))
        found[key] = value
    return Raw(_encode(found)), loose


def _list_rule(element: _Rule) -> _Rule:
    def normal(raw: Raw) -> tuple[Raw, bool]:
        pairs = [element(each) for each in _LIST.decode(raw)]
        return Raw(_encode([each for each, _ in pairs])), any(changed for _, changed in pairs)

    return normal


def _enum_rule(type_: type[enum.Enum]) -> _Rule:
    names: list[str] = [member.value for member in type_]
    folded = {name.lower(): name for name in names}

    def normal(raw: Raw) -> tuple[Raw, bool]:
        value = _ENUM_VALUE.decode(raw)
        if value is None or value in names:
            return raw, False
        if isinstance(value, int):
            if not 0 <= value < len(names):
                raise ValidationError(f"{type_.__name__} has no member of that ordinal")
            return Raw(_encode(names[value])), True
        return Raw(_encode(folded.get(value.lower()))), True

    return normal
