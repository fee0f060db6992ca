"""How requests of RocketMQ's brokers, clients and name servers carry values: fields and JSON.

Upstream: apache/rocketmq, remoting/.../protocol/RemotingCommand.java (decodeCommandCustomHeader),
RemotingSerializable.java, 5.3.3; broker.md 1.3 and 1.4.

A request or reply has values in two places: text by name in the header's `extFields`, and a body
of JSON, which Java's fastjson writes with keys in alphabetical order, null left out.

`java_json` is for documents that are kept, with all that they say. What is here is for bodies that
are answers: keys that are not known are skipped.

fastjson writes the keys of a map by integers without quotes, `{0:"127.0.0.1:10911"}`. That is no
JSON; it is read here like `{"0":"127.0.0.1:10911"}`, which is what is written, and what Java reads
too. Go clients that cut a route apart by hand need the form without quotes: `bare_integer_keys`.

Differs: what is of another type, or lacks a required value, is refused; Java reads a null.
"""

from __future__ import annotations

import re
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from wire.broker.java_json import quote_integer_keys
from wire.errors import LocalProtocolError, RemoteProtocolError

ERROR_CHARS_MAX: Final = 200
"""The longest line about an error, in characters: it may contain a peer's key of any length."""

T = TypeVar("T")

_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
_INTEGER_KEY = re.compile(rb'"(-?[0-9]++)"(?=:)|"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_encode = msgspec.json.Encoder().encode


class Fields(Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the values in a header's `extFields`, which `wire.remoting.header` reads and writes.

    None stands for an absent field.
    """


class Body(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of bodies. Each class has its fields in the order of their keys in JSON.

    None is a key that is left out. Other defaults are written, by `always` of
    `wire.remoting.tolerant_json`.
    """


class BodyDecoder(Generic[T]):
    """Reads the JSON bodies of one type."""

    __slots__ = ("_decode", "_name")

    def __init__(self, type_: type[T]) -> None:
        self._name = type_.__name__
        self._decode = msgspec.json.Decoder(type_).decode

    def decode(self, body: bytes) -> T:
        """Decode the value in a body.

        Raises:
            RemoteProtocolError: it is no such value; one line says where.
        """
        try:
            try:
                return self._decode(body)
            except msgspec.ValidationError:
                raise
            except msgspec.DecodeError:
                return self._decode(quote_integer_keys(body))
        except _UNREADABLE as error:
            raise RemoteProtocolError(_line(f"body of {self._name}", error)) from None


def encode_body(body: object) -> bytes:
    """Encode a body as JSON.

    Raises:
        LocalProtocolError: it holds what cannot be written.
    """
    try:
        return _encode(body)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise LocalProtocolError(f"cannot encode {type(body).__name__}: {error}") from None


def bare_integer_keys(body: bytes) -> bytes:
    """Return a body of `encode_body` with unquoted integer keys, as fastjson writes them."""
    return _INTEGER_KEY.sub(lambda match: match[1] or match[0], body)


def _line(what: str, error: Exception) -> str:
    """Describe an error in one line of bounded length."""
    return f"{what}: {error}".replace("\n", " ")[:ERROR_CHARS_MAX]
