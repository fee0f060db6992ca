"""Headers of RocketMQ's remoting frames, in both encodings; see `wire.remoting.frame`.

Upstream: apache/rocketmq, remoting/.../protocol/RemotingCommand.java, RocketMQSerializable.java,
LanguageCode.java, 4.9.4; CommandCustomHeader.java for `read_fields`.

Binary header, 21 + R + E bytes:

| Offset | Width | Type  | Field        | Meaning                             | Range           |
|--------|-------|-------|--------------|-------------------------------------|-----------------|
| 0      | 2     | short | code         |                                     | -32768 .. 32767 |
| 2      | 1     | byte  | language     | ordinal of Language                 | else: unknown   |
| 3      | 2     | short | version      |                                     |                 |
| 5      | 4     | int   | opaque       |                                     |                 |
| 9      | 4     | int   | flag         | FLAG_... below                      |                 |
| 13     | 4     | int   | remarkLength | R; 0: there is none                 | 0 ..            |
| 17     | R     | UTF-8 | remark       |                                     |                 |
| 17+R   | 4     | int   | fieldsLength | E; 0: there are none                | 0 ..            |
| 21+R   | E     | pairs | extFields    | short length, key, int length, text | lengths 0 ..    |
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.remoting.tolerant_json import Int, TolerantDecoder, always

FLAG_REPLY: Final = 1
FLAG_ONEWAY: Final = 2
REPLY_CODE: Final = 200
"""The header code of every reply that DLedger itself makes."""
VERSION: Final = 479
"""The version of our brokers and name servers: upstream's ordinal of 5.3.3. Clients keep it."""

S = TypeVar("S", bound=Struct)

_LENGTH = struct.Struct(">i")
_BINARY_HEAD = struct.Struct(">hbhiii")
_SHORT = struct.Struct(">h")


class SerializeType(enum.Enum):
    """How a header is encoded; the ordinal is the frame's encoding byte."""

    JSON = "JSON"
    ROCKETMQ = "ROCKETMQ"


class Language(enum.Enum):
    """The language that the sender is written in. The ordinal is the binary header's byte."""

    JAVA = "JAVA"
    CPP = "CPP"
    DOTNET = "DOTNET"
    PYTHON = "PYTHON"
    DELPHI = "DELPHI"
    ERLANG = "ERLANG"
    RUBY = "RUBY"
    OTHER = "OTHER"
    HTTP = "HTTP"
    GO = "GO"
    PHP = "PHP"
    OMS = "OMS"
    RUST = "RUST"
    NODE_JS = "NODE_JS"


_LANGUAGES: Final = tuple(Language)


class Header(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"ext_fields": "extFields", "serialize_type": "serializeTypeCurrentRPC"},
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """A frame's header. Order and names of the fields are those of the JSON header.

    Attributes:
        code: what a request asks for; in a reply REPLY_CODE or a REMOTING_... code.
        ext_fields: text by name; DLedger's dialect L has none.
        flag: FLAG_... bits.
        language: the sender's language; None if it is unknown here.
        opaque: the requester's number, which the reply repeats.
        remark: what went wrong, in the reply to a failed request.
        serialize_type: how this header is or was encoded; a reply has that of its request.
        version: the sender's RocketMQ version, as upstream numbers them; 0 for DLedger alone.
    """

    code: Int = always(0)
    ext_fields: dict[str, str] | None = None
    flag: Int = always(0)
    language: Language | None = always(Language.PYTHON)
    opaque: Int = always(0)
    remark: str | None = None
    serialize_type: SerializeType = always(SerializeType.JSON)
    version: Int = always(0)

    @property
    def is_reply(self) -> bool:
        return bool(self.flag & FLAG_REPLY)

    @property
    def is_oneway(self) -> bool:
        """Whether the sender expects no reply."""
        return bool(self.flag & FLAG_ONEWAY)


def reply_header(
    request: Header,
    *,
    code: int = REPLY_CODE,
    ext_fields: Mapping[str, str] | None = None,
    remark: str | None = None,
    version: int = 0,
) -> Header:
    """Return the header of a reply to `request`, with its opaque and its encoding.

    Args:
        ext_fields: the fields. Empty ones are written in JSON, as Java does if an answer has any at
            all: RocketMQ 3.2.6 fails without them.
    """
    return Header(
        code=code,
        ext_fields=None if ext_fields is None else dict(ext_fields),
        flag=FLAG_REPLY,
        opaque=request.opaque,
        remark=remark,
        serialize_type=request.serialize_type,
        version=version,
    )


def read_fields(header: Header, type_: type[S]) -> S:
    """Decode the header's extFields as an object of `type_`.

    Args:
        type_: a frozen msgspec class, `rename="camel"`, of text, integers and booleans. A field
            with a default may be missing; unknown fields are ignored.

    Raises:
        RemoteProtocolError: a field is missing or of another type; the text names it.
    """
    try:
        return msgspec.convert(header.ext_fields or {}, type_, strict=False)
    except msgspec.ValidationError as error:
        raise RemoteProtocolError(f"extFields: {error}") from None


def write_fields(fields: Struct) -> dict[str, str]:
    """Encode an object as extFields, the inverse of `read_fields`; None is left out, as by Java."""
    found = msgspec.to_builtins(fields)
    return {name: _as_text(value) for name, value in found.items() if value is not None}


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_encode_json = msgspec.json.Encoder().encode
_header_of_json = TolerantDecoder(Header)


def encode_header(header: Header) -> tuple[int, bytes]:
    """Return the frame's encoding byte, and the encoded header.

    Raises:
        LocalProtocolError: the header cannot be encoded.
    """
    if header.serialize_type is not SerializeType.JSON:
        return 1, _encode_binary(header)
    try:
        return 0, _encode_json(header)
    except (TypeError, ValueError, OverflowError) as error:
        raise LocalProtocolError(f"cannot encode {header}: {error}") from None


def _encode_binary(header: Header) -> bytes:
    language = Language.OTHER if header.language is None else header.language
    try:
        remark = (header.remark or "").encode()
        parts = [
            _BINARY_HEAD.pack(
                header.code,
                _LANGUAGES.index(language),
                header.version,
                header.opaque,
                header.flag,
                len(remark),
            ),
            remark,
        ]
        fields = b"".join(_pair(*pair) for pair in (header.ext_fields or {}).items())
    except (struct.error, UnicodeError) as error:
        raise LocalProtocolError(f"no binary header holds {header}: {error}") from None
    return b"".join((*parts, _LENGTH.pack(len(fields)), fields))


def _pair(key: str, value: str) -> bytes:
    name, text = key.encode(), value.encode()
    return _SHORT.pack(len(name)) + name + _LENGTH.pack(len(text)) + text


def decode_header(kind: int, encoded: bytes) -> tuple[Header, bool]:
    """Decode a header; return it, and whether it needed fastjson's tolerance.

    Args:
        kind: the frame's encoding byte.

    Raises:
        RemoteProtocolError: the encoding is unknown, or the bytes are no such header.
    """
    if kind == 1:
        return _decode_binary(encoded), False
    if kind != 0:
        raise RemoteProtocolError(f"header encoding {kind} is neither JSON (0) nor binary (1)")
    header, loose = _header_of_json.decode(encoded)
    if header.serialize_type is not SerializeType.JSON:
        header = msgspec.structs.replace(header, serialize_type=SerializeType.JSON)
    return header, loose


def _decode_binary(encoded: bytes) -> Header:
    try:
        code, language, version, opaque, flag, size = _BINARY_HEAD.unpack_from(encoded)
        remark, at = _text(encoded, _BINARY_HEAD.size, size)
        (size,) = _LENGTH.unpack_from(encoded, at)
        if at + _LENGTH.size + size != len(encoded):
            raise RemoteProtocolError(f"{size} bytes of extFields: they do not end with the header")
        fields = _decode_fields(encoded, at + _LENGTH.size)
    except (struct.error, UnicodeError) as error:
        raise RemoteProtocolError(f"binary header of {len(encoded)} bytes: {error}") from None
    return Header(
        code=code,
        ext_fields=fields or None,
        flag=flag,
        language=_LANGUAGES[language] if 0 <= language < len(_LANGUAGES) else None,
        opaque=opaque,
        remark=remark or None,
        serialize_type=SerializeType.ROCKETMQ,
        version=version,
    )


def _decode_fields(encoded: bytes, at: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    while at < len(encoded):
        (size,) = _SHORT.unpack_from(encoded, at)
        key, at = _text(encoded, at + _SHORT.size, size)
        (size,) = _LENGTH.unpack_from(encoded, at)
        fields[key], at = _text(encoded, at + _LENGTH.size, size)
    return fields


def _text(encoded: bytes, at: int, size: int) -> tuple[str, int]:
    """Return the text of `size` bytes at `at`, and where it ends."""
    if not 0 <= size <= len(encoded) - at:
        raise RemoteProtocolError(f"{size} bytes of text in a header with {len(encoded) - at} left")
    return encoded[at : at + size].decode(), at + size
