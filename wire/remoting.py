"""RocketMQ's remoting frames: how requests and replies lie on a DLedger connection.

Upstream: apache/rocketmq, remoting/.../protocol/RemotingCommand.java, RocketMQSerializable.java,
LanguageCode.java, netty/NettyDecoder.java, 4.9.4.

Frame:

| Offset | Width     | Type  | Field        | Meaning                       | Range           |
|--------|-----------|-------|--------------|-------------------------------|-----------------|
| 0      | 4         | int   | length       | L: bytes behind this field    | 4 .. 16 777 212 |
| 4      | 1         | byte  | encoding     | of the header: SerializeType  | 0, 1            |
| 5      | 3         | int24 | headerLength | H                             | 1 .. L - 4      |
| 8      | H         | raw   | header       | `Header` as JSON, or as below |                 |
| 8+H    | L - 4 - H | raw   | body         | JSON, see `wire.dledger_rpc`  |                 |

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

**JSON headers only** on DLedger's ports: every DLedger code is above 32767, which the binary
header's short does not hold. 51004 arrives as -14532, and finds nobody who serves it, here as in
Java; to encode it is refused.

Java writes JSON keys in alphabetical order and leaves out null; so does this. Its own failures are
replies with a REMOTING_... code, a remark and no body; DLedger's replies have REPLY_CODE whatever
the outcome, which stands in the body.

Differs:
- Bytes behind the binary header's last field, and negative lengths in it, are refused; upstream
  ignores them.
- A missing opaque is 0, for which upstream invents a number, and a missing language PYTHON.
- An extField that is not text is refused; upstream makes it text.
"""

from __future__ import annotations

import enum
import struct
from typing import Final, Literal

import msgspec
from msgspec import Struct

from wire.buffer import NEED_DATA as NEED_DATA
from wire.buffer import NeedData as NeedData
from wire.buffer import ReceiveBuffer
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.tolerant_json import Int, TolerantDecoder, always

FRAME_BYTES_MAX: Final = 16 << 20
"""The whole frame, length word included. Upstream: com.rocketmq.remoting.frameMaxLength."""
RECEIVE_BYTES_MAX: Final = 8 << 20
"""What one receive may add to a frame that is not complete yet."""
FLAG_REPLY: Final = 1
FLAG_ONEWAY: Final = 2
REPLY_CODE: Final = 200
"""Header code of every reply that DLedger itself gives."""
REMOTING_SYSTEM_ERROR: Final = 1
REMOTING_SYSTEM_BUSY: Final = 2
REMOTING_CODE_NOT_SUPPORTED: Final = 3

_HEADER_BYTES_MASK: Final = 2**24 - 1  # above FRAME_BYTES_MAX less the head
_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">iI")
_BINARY_HEAD = struct.Struct(">hbhiii")
_SHORT = struct.Struct(">h")


class SerializeType(enum.Enum):
    """How a header is encoded; the ordinal is the frame's encoding byte."""

    JSON = "JSON"
    ROCKETMQ = "ROCKETMQ"


class Language(enum.Enum):
    """What the sender is written in. The ordinal is the binary header's byte."""

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


_LANGUAGES: Final = tuple(Language)


class Header(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"ext_fields": "extFields", "serialize_type": "serializeTypeCurrentRPC"},
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """A frame without its body. Order and names are those of the JSON header.

    Attributes:
        code: of a request what it asks for, of a reply REPLY_CODE or a REMOTING_... code.
        ext_fields: text by name; DLedger's dialect L has none.
        flag: FLAG_... bits.
        language: the sender's; None: one that is not known here.
        opaque: the requester's number; the reply repeats it.
        remark: of a failure, what happened.
        serialize_type: how this header is or was encoded; a reply uses its request's.
        version: the sender's RocketMQ version as upstream numbers them; 0 for DLedger alone.
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
        """Whether nobody waits for a reply."""
        return bool(self.flag & FLAG_ONEWAY)


class Frame(Struct, frozen=True):
    """One request or reply.

    Attributes:
        body: b"" where there is none.
        loose: whether the header needed fastjson's tolerance, see `wire.tolerant_json`.
    """

    header: Header
    body: bytes = b""
    loose: bool = False


def reply_header(request: Header, *, code: int = REPLY_CODE, remark: str | None = None) -> Header:
    """The header that answers `request`: its opaque and its encoding."""
    return Header(
        code=code,
        flag=FLAG_REPLY,
        opaque=request.opaque,
        remark=remark,
        serialize_type=request.serialize_type,
    )


_encode_json = msgspec.json.Encoder().encode
_header_of_json = TolerantDecoder(Header)


def encode_frame(header: Header, body: bytes = b"") -> bytes:
    """The whole frame.

    Raises:
        LocalProtocolError: the frame is above FRAME_BYTES_MAX, or the header cannot be encoded: a
            binary one with a code above 32767 above all.
    """
    return encode_frame_head(header, len(body)) + body


def encode_frame_head(header: Header, body_bytes: int) -> bytes:
    """All of a frame but its body of `body_bytes`, for who sends a large body without a copy.

    Raises:
        LocalProtocolError: see `encode_frame`.
    """
    if header.serialize_type is SerializeType.JSON:
        kind = 0
        try:
            encoded = _encode_json(header)
        except (TypeError, ValueError, OverflowError) as error:
            raise LocalProtocolError(f"cannot encode {header}: {error}") from None
    else:
        kind = 1
        encoded = _encode_binary(header)
    frame_bytes = _HEAD.size + len(encoded) + body_bytes
    if frame_bytes > FRAME_BYTES_MAX:
        raise LocalProtocolError(f"frame of {frame_bytes} bytes, at most {FRAME_BYTES_MAX}")
    return _HEAD.pack(frame_bytes - _LENGTH.size, kind << 24 | len(encoded)) + encoded


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


class Decoder:
    """Bytes of one connection in, its frames out.

    After `receive_data` call `next_frame` until it returns NEED_DATA.

    Args:
        frame_bytes_max: a longer frame, its length word included, is refused as soon as its length
            is known. At least 8.
    """

    __slots__ = ("_broken", "_buffer", "_frame_bytes_max", "_kind_and_size", "_rest_bytes")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        assert frame_bytes_max >= _HEAD.size
        self._frame_bytes_max = frame_bytes_max
        self._buffer = ReceiveBuffer(frame_bytes_max + RECEIVE_BYTES_MAX)
        self._broken: str | None = None
        self._kind_and_size = 0  # the second word of the frame begun
        self._rest_bytes = -1  # behind that word; -1: no frame is begun

    def receive_data(self, data: bytes) -> None:
        """Add what the socket gave, at most RECEIVE_BYTES_MAX between two drains.

        Raises:
            LocalProtocolError: `next_frame` was not called until NEED_DATA for too many bytes.
        """
        self._buffer.append(data)

    def next_frame(self) -> Frame | Literal[NeedData.NEED_DATA]:
        """The next frame, or NEED_DATA.

        Raises:
            RemoteProtocolError: a length or a header is out of order. Every later call raises
                again: where the next frame would begin is not known.
        """
        if self._broken is not None:
            raise RemoteProtocolError(self._broken)
        try:
            return self._next()
        except RemoteProtocolError as error:
            self._broken = str(error)
            raise

    def _next(self) -> Frame | Literal[NeedData.NEED_DATA]:
        buffer = self._buffer
        if self._rest_bytes < 0 and not self._start(buffer.take_exactly(_HEAD.size)):
            return NEED_DATA
        rest_bytes = self._rest_bytes
        if len(buffer) < rest_bytes:
            return NEED_DATA
        self._rest_bytes = -1
        header_bytes = self._kind_and_size & _HEADER_BYTES_MASK
        encoded = buffer.take_exactly(header_bytes)
        body = buffer.take_exactly(rest_bytes - header_bytes)
        # WholeFrameWaits
        assert encoded is not None
        assert body is not None
        header, loose = decode_header(self._kind_and_size >> 24, encoded)
        return Frame(header, body, loose)

    def _start(self, head: bytes | None) -> bool:
        """Take in a frame's first two words; False if they are not there yet."""
        if head is None:
            return False
        length, self._kind_and_size = _HEAD.unpack(head)
        length_max = self._frame_bytes_max - _LENGTH.size
        if not _LENGTH.size <= length <= length_max:
            raise RemoteProtocolError(f"frame length {length} is not in 4..{length_max}")
        self._rest_bytes = length - _LENGTH.size
        header_bytes = self._kind_and_size & _HEADER_BYTES_MASK
        if header_bytes > self._rest_bytes:
            raise RemoteProtocolError(f"header of {header_bytes} bytes in a frame of {length}")
        return True


def decode_header(kind: int, encoded: bytes) -> tuple[Header, bool]:
    """The header of a frame whose encoding byte is `kind`, and whether it needed tolerance.

    Raises:
        RemoteProtocolError: an unknown encoding, or bytes that are no such header.
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
            raise RemoteProtocolError(f"{size} bytes of extFields end not with the header")
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
    """The text of `size` bytes at `at`, and where it ends."""
    if not 0 <= size <= len(encoded) - at:
        raise RemoteProtocolError(f"{size} bytes of text in a header with {len(encoded) - at} left")
    return encoded[at : at + size].decode(), at + size
