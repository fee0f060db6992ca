"""RocketMQ's remoting frames, which carry requests and replies over a connection.

Upstream: apache/rocketmq, remoting/.../protocol/RemotingCommand.java, RocketMQSerializable.java,
LanguageCode.java, netty/NettyDecoder.java, 4.9.4.

Frame:

| Offset | Width     | Type  | Field        | Meaning                       | Range           |
|--------|-----------|-------|--------------|-------------------------------|-----------------|
| 0      | 4         | int   | length       | L: bytes behind this field    | 4 .. 16 777 212 |
| 4      | 1         | byte  | encoding     | of the header: SerializeType  | 0, 1            |
| 5      | 3         | int24 | headerLength | H, at most L - 4              | 1 .. 262 144    |
| 8      | H         | raw   | header       | `wire.remoting.header`        |                 |
| 8+H    | L - 4 - H | raw   | body         | what the code says, or none   |                 |

**JSON headers only** at DLedger's ports (`wire.dledger.rpc`): every code there is above 32767,
which the binary header's short does not hold. 51004 arrives as -14532, and finds nobody who serves
it, here as in Java; to encode it is refused.

Java writes JSON keys in alphabetical order and leaves out null; so does this. Its own failures are
replies with a REMOTING_... code, a remark and no body; DLedger's replies have REPLY_CODE whatever
the outcome, which stands in the body.

Differs:
- A header above HEADER_BYTES_MAX is refused; upstream has no other limit than the frame's.
- Bytes behind the binary header's last field, and negative lengths in it, are refused; upstream
  ignores them.
- A missing opaque is 0, for which upstream invents a number, and a missing language PYTHON.
"""

from __future__ import annotations

import struct
from typing import Final, Literal

from msgspec import Struct

from wire.buffer import NEED_DATA, NeedData, ReceiveBuffer
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.remoting.header import (
    Header,
    SerializeType,
    decode_header,
    encode_header,
    reply_header,
)

FRAME_BYTES_MAX: Final = 16 << 20
"""The largest frame, with its length word. Upstream: com.rocketmq.remoting.frameMaxLength."""
HEADER_BYTES_MAX: Final = 256 << 10
"""The largest header that is read: some 25,000 fields, which take 20 ms to decode while nothing
else runs. Java's hold the properties of a message at most, which are 32 KiB."""
RECEIVE_BYTES_MAX: Final = 8 << 20
"""How many bytes one receive may add to an incomplete frame."""
REMOTING_SYSTEM_ERROR: Final = 1
REMOTING_SYSTEM_BUSY: Final = 2
REMOTING_CODE_NOT_SUPPORTED: Final = 3

_HEADER_BYTES_MASK: Final = 2**24 - 1  # above FRAME_BYTES_MAX less the head
_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">iI")
_REPLY_JSON: Final = encode_header(reply_header(Header()))[1].replace(b'"opaque":0', b'"opaque":%d')
"""The header of a successful reply, in which only the request's opaque changes."""


class Frame(Struct, frozen=True):
    """A frame of RocketMQ's remoting: one request or reply.

    Attributes:
        body: b"" if there is none.
        loose: whether the header needed fastjson's tolerance, see `wire.remoting.tolerant_json`.
    """

    header: Header
    body: bytes = b""
    loose: bool = False


def encode_frame(header: Header, body: bytes = b"") -> bytes:
    """Encode a whole frame.

    Raises:
        LocalProtocolError: the frame is above FRAME_BYTES_MAX, or the header cannot be encoded, as
            with a code above 32767 in a binary one.
    """
    return encode_frame_head(header, len(body)) + body


def encode_reply(request: Header, body: bytes) -> bytes:
    """Encode a successful reply, fast, for servers of a thousand requests a second.

    The result is that of `encode_frame` with `reply_header(request)`.

    Raises:
        LocalProtocolError: see `encode_frame`.
    """
    if request.serialize_type is not SerializeType.JSON:
        return encode_frame(reply_header(request), body)
    encoded = _REPLY_JSON % request.opaque
    frame_bytes = _HEAD.size + len(encoded) + len(body)
    if frame_bytes > FRAME_BYTES_MAX:
        raise LocalProtocolError(f"frame of {frame_bytes} bytes, at most {FRAME_BYTES_MAX}")
    return _HEAD.pack(frame_bytes - _LENGTH.size, len(encoded)) + encoded + body


def encode_frame_head(header: Header, body_bytes: int) -> bytes:
    """Encode a frame without its body, for a sender of a large body that it does not copy.

    Args:
        body_bytes: the size of the body.

    Raises:
        LocalProtocolError: see `encode_frame`.
    """
    kind, encoded = encode_header(header)
    frame_bytes = _HEAD.size + len(encoded) + body_bytes
    if frame_bytes > FRAME_BYTES_MAX:
        raise LocalProtocolError(f"frame of {frame_bytes} bytes, at most {FRAME_BYTES_MAX}")
    return _HEAD.pack(frame_bytes - _LENGTH.size, kind << 24 | len(encoded)) + encoded


class Decoder:
    """Takes the bytes of one connection, and returns its frames.

    After `receive_data` call `next_frame` until it returns NEED_DATA.

    Args:
        frame_bytes_max: the largest frame with its length word, at least 8. A larger one is refused
            as soon as its length is known.
    """

    __slots__ = ("_broken", "_buffer", "_frame_bytes_max", "_kind_and_size", "_rest_bytes")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        assert frame_bytes_max >= _HEAD.size
        self._frame_bytes_max = frame_bytes_max
        self._buffer = ReceiveBuffer(frame_bytes_max + RECEIVE_BYTES_MAX)
        self._broken: str | None = None
        self._kind_and_size = 0  # the second word of the frame begun
        self._rest_bytes = -1  # behind that word; -1: no frame is begun

    @property
    def begun_bytes(self) -> int:
        """The whole size of the frame that is received in part; 0 if there is none.

        It is valid after `decode`, and after `next_frame` has returned NEED_DATA.
        """
        return self._rest_bytes + _HEAD.size if self._rest_bytes >= 0 else 0

    def receive_data(self, data: bytes) -> None:
        """Add received bytes, at most RECEIVE_BYTES_MAX before `next_frame` returns NEED_DATA.

        Raises:
            LocalProtocolError: `next_frame` was not called until NEED_DATA for too many bytes.
        """
        self._buffer.append(data)

    def next_frame(self) -> Frame | Literal[NeedData.NEED_DATA]:
        """Return the next frame, or NEED_DATA.

        Raises:
            RemoteProtocolError: a length or a header is wrong. Every later call raises again,
                because it is unknown where the next frame begins.
        """
        if self._broken is not None:
            raise RemoteProtocolError(self._broken)
        try:
            return self._next()
        except RemoteProtocolError as error:
            self._broken = str(error)
            raise

    def decode(self, data: bytes, frames_max: int) -> tuple[list[Frame], str | None]:
        """Return the frames that `data` completes, and what is wrong behind them, or None.

        This does `receive_data`, and `next_frame` until NEED_DATA, in one step. Frames that are
        whole in `data` are not copied into the buffer.

        Args:
            frames_max: how many frames to return at most, for each takes more memory than its
                bytes. If there are as many, further calls with b"" return those that follow.
        """
        frames: list[Frame] = []
        at = 0
        missing_bytes = self._rest_bytes - len(self._buffer)
        try:
            if 0 < missing_bytes <= len(data):
                self._buffer.append(data[:missing_bytes])
                self._take_next(frames)
                at = missing_bytes
            if self._rest_bytes < 0 and not len(self._buffer) and self._broken is None:
                at = self._take_whole(data, at, frames, frames_max)
            self._buffer.append(data[at:] if at else data)
            while len(frames) < frames_max and self._take_next(frames):
                pass
        except RemoteProtocolError as error:
            return frames, str(error)
        return frames, None

    def _take_next(self, frames: list[Frame]) -> bool:
        frame = self.next_frame()
        if frame is NEED_DATA:
            return False
        frames.append(frame)
        return True

    def _take_whole(self, data: bytes, at: int, frames: list[Frame], frames_max: int) -> int:
        """Decode whole good frames. Return where the first other begins, for `next_frame`."""
        limit, length_max = len(data), self._frame_bytes_max - _LENGTH.size
        unpack, head_bytes = _HEAD.unpack_from, _HEAD.size
        while limit - at >= head_bytes and len(frames) < frames_max:
            length, kind_and_size = unpack(data, at)
            end = at + _LENGTH.size + length
            header_bytes = kind_and_size & _HEADER_BYTES_MASK
            body_at = at + head_bytes + header_bytes
            if not _LENGTH.size <= length <= length_max or not body_at <= end <= limit:
                break
            if header_bytes > HEADER_BYTES_MAX:
                break
            try:
                header, loose = decode_header(kind_and_size >> 24, data[at + head_bytes : body_at])
            except RemoteProtocolError:
                break
            frames.append(Frame(header, data[body_at:end], loose))
            at = end
        return at

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
        """Read a frame's first two words. Returns: False if they are not there yet."""
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
        if header_bytes > HEADER_BYTES_MAX:
            raise RemoteProtocolError(f"header of {header_bytes} bytes, at most {HEADER_BYTES_MAX}")
        return True
