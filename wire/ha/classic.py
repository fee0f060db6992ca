"""The classic HA wire: reports from slave to master, frames of commit log from master to slave.

Upstream: apache/rocketmq, store/.../ha/DefaultHAConnection.java and DefaultHAClient.java (5.3.3),
HAConnection.java and HAService.java (4.9.8). There is no handshake, version, checksum or identity.

Report, slave to master (REPORT_BYTES = 8):

| Offset | Width | Type | Field  | Meaning                                          | Range       |
|--------|-------|------|--------|--------------------------------------------------|-------------|
| 0      | 8     | long | offset | held up to here; the next byte the slave wants   | 0 .. 2^63-1 |

Frame, master to slave (FRAME_HEADER_BYTES = 12, then size bytes):

| Offset | Width | Type | Field  | Meaning                                   | Range          |
|--------|-------|------|--------|-------------------------------------------|----------------|
| 0      | 8     | long | offset | physical offset of the first body byte    | 0 .. 2^63-1    |
| 8      | 4     | int  | size   | body bytes; 0 is a heartbeat              | 0 .. 4 194 292 |
| 12     | size  | raw  | body   | commit log, cut anywhere, not per message |                |

Differs:
- A negative size is refused; upstream's slave moves its write position backwards (measured with
  5.3.3).
- A size above FRAME_BODY_MAX is refused at once; upstream's slave waits 20 s with a full buffer.
- A negative report is refused; upstream's master takes it as an offset.
- Body bytes are handed out as they come; upstream waits for the whole frame.
"""

from __future__ import annotations

import struct
from typing import Final, Literal, TypeAlias

import attrs

from wire.buffer import NEED_DATA, NeedData, ReceiveBuffer
from wire.errors import LocalProtocolError, RemoteProtocolError

REPORT_BYTES: Final = 8
FRAME_HEADER_BYTES: Final = 12
# A Java slave gathers a whole frame, header included, in a buffer of 4 MiB: one byte more is never
# applied.
FRAME_BODY_MAX: Final = 4 * 1024 * 1024 - FRAME_HEADER_BYTES
OFFSET_MAX: Final = 2**63 - 1  # a signed long
# What may wait in a decoder between two drains: far more than one recv, and upstream's own two
# buffers.
RECEIVE_LIMIT_BYTES: Final = 8 * 1024 * 1024

_REPORT = struct.Struct(">q")
_FRAME_HEADER = struct.Struct(">qi")


def encode_report(offset: int) -> bytes:
    """The slave's report that it holds every byte below `offset` (0 .. OFFSET_MAX).

    Raises:
        LocalProtocolError: `offset` is out of range.
    """
    if not 0 <= offset <= OFFSET_MAX:
        raise LocalProtocolError(f"report offset {offset} is not in 0..{OFFSET_MAX}")
    return _REPORT.pack(offset)


def encode_frame_header(offset: int, size: int) -> bytes:
    """The header before `size` bytes of commit log that begin at `offset`; size 0 is a heartbeat.

    Raises:
        LocalProtocolError: offset, size or their sum is out of range.
    """
    problem = _frame_problem(offset, size)
    if problem is not None:
        raise LocalProtocolError(problem)
    return _FRAME_HEADER.pack(offset, size)


def _frame_problem(offset: int, size: int) -> str | None:
    if not 0 <= size <= FRAME_BODY_MAX:
        return f"frame size {size} is not in 0..{FRAME_BODY_MAX}"
    if not 0 <= offset <= OFFSET_MAX - size:
        return f"frame offset {offset} is not in 0..{OFFSET_MAX - size}"
    return None


class ReportDecoder:
    """Master's side: bytes from a slave in, its latest report out.

    Reports are cumulative, so of several that arrived together only the last complete one counts.
    """

    __slots__ = ("_broken", "_buffer")

    def __init__(self) -> None:
        self._buffer = ReceiveBuffer(RECEIVE_LIMIT_BYTES)
        self._broken: str | None = None

    def receive_data(self, data: bytes) -> None:
        """Add what the socket gave.

        Raises:
            LocalProtocolError: `last_report` was not called for RECEIVE_LIMIT_BYTES.
        """
        self._buffer.append(data)

    def last_report(self) -> int | None:
        """The newest complete report since the last call, or None if none was completed.

        Raises:
            RemoteProtocolError: a report is negative. Every later call raises again.
        """
        if self._broken is not None:
            raise RemoteProtocolError(self._broken)
        whole = self._buffer.take_exactly(len(self._buffer) // REPORT_BYTES * REPORT_BYTES)
        if not whole:
            return None
        offsets: list[int] = [offset for (offset,) in _REPORT.iter_unpack(whole)]
        lowest = min(offsets)
        if lowest < 0:
            self._broken = f"report {lowest} is negative"
            raise RemoteProtocolError(self._broken)
        return offsets[-1]


@attrs.frozen
class FrameStarted:
    """A header is complete.

    Attributes:
        offset: physical offset of the first body byte.
        size: body bytes that follow; 0 for a heartbeat, which is ended at once.
    """

    offset: int
    size: int


@attrs.frozen
class FrameData:
    """A piece of the current frame's body, never empty.

    Attributes:
        offset: physical offset of its first byte.
        data: the bytes; the very object given to `receive_data` where it held nothing else.
    """

    offset: int
    data: bytes


@attrs.frozen
class FrameEnded:
    """All body bytes of the current frame were handed out.

    Attributes:
        offset_end: physical offset behind the last body byte.
    """

    offset_end: int


FrameEvent: TypeAlias = FrameStarted | FrameData | FrameEnded


class FrameMeter:
    """Finds out for a reader of the stream how many bytes belong together; it decides nothing.

    Attributes:
        body_bytes: size of the body of the last frame that began.
        rest_bytes: how many bytes of that body are still to be read.
        header_bytes: how many bytes of the next frame's header are still to be read.

    A header that no decoder accepts is the last one: from then on all stays 0.
    """

    __slots__ = ("_head", "body_bytes", "header_bytes", "rest_bytes")

    def __init__(self) -> None:
        self.body_bytes = self.rest_bytes = 0
        self.header_bytes = FRAME_HEADER_BYTES
        self._head = b""

    def passed(self, data: bytes) -> None:
        """Note that these bytes were read."""
        at = 0
        while at < len(data) and self.header_bytes:
            if self.rest_bytes:
                size = min(self.rest_bytes, len(data) - at)
                self.rest_bytes -= size
            else:
                size = min(self.header_bytes, len(data) - at)
                self._head += data[at : at + size]
                self._read_header()
            at += size

    def body_passed(self, size: int) -> None:
        """Note that so many bytes of the present body were read."""
        assert 0 < size <= self.rest_bytes
        self.rest_bytes -= size

    def _read_header(self) -> None:
        self.header_bytes = FRAME_HEADER_BYTES - len(self._head)
        if not self.header_bytes:
            offset, size = _FRAME_HEADER.unpack(self._head)
            self._head = b""
            if _frame_problem(offset, size) is None:
                self.body_bytes = self.rest_bytes = size
                self.header_bytes = FRAME_HEADER_BYTES
            else:
                self.body_bytes = 0


class FrameDecoder:
    """Slave's side: bytes of the master in; FrameStarted, FrameData..., FrameEnded per frame out.

    After `receive_data` call `next_event` until it returns NEED_DATA. That frames follow each other
    without a gap is not checked here, because only the log knows where it ends.
    """

    __slots__ = ("_broken", "_buffer", "_in_frame", "_offset", "_rest_bytes", "too_large")

    def __init__(self) -> None:
        self.too_large = False
        """Whether what it refused is a size above FRAME_BODY_MAX, for which upstream waits."""
        self._buffer = ReceiveBuffer(RECEIVE_LIMIT_BYTES)
        self._broken: str | None = None
        self._in_frame = False
        self._offset = 0  # of the next body byte, while _in_frame
        self._rest_bytes = 0  # body bytes of the frame not handed out yet, while _in_frame

    def receive_data(self, data: bytes) -> None:
        """Add what the socket gave.

        Raises:
            LocalProtocolError: `next_event` was not called until NEED_DATA for RECEIVE_LIMIT_BYTES.
        """
        self._buffer.append(data)

    def next_event(self) -> FrameEvent | Literal[NeedData.NEED_DATA]:
        """The next event, or NEED_DATA.

        Raises:
            RemoteProtocolError: a header is out of range. Every later call raises again.
        """
        if self._broken is not None:
            raise RemoteProtocolError(self._broken)
        if not self._in_frame:
            return self._start_frame()
        if not self._rest_bytes:
            self._in_frame = False
            return FrameEnded(self._offset)
        data = self._buffer.take_some(self._rest_bytes)
        if not data:
            return NEED_DATA
        event = FrameData(self._offset, data)
        self._offset += len(data)
        self._rest_bytes -= len(data)
        return event

    def body_passed(self, size: int) -> int:
        """The next `size` bytes of the stream, body of the running frame, are kept elsewhere.

        Returns the physical offset of the first. Call `next_event` then, for the frame's end.

        Raises:
            LocalProtocolError: there is no frame with so much still to come.
        """
        if len(self._buffer) or not 0 < size <= self._rest_bytes:
            raise LocalProtocolError(f"{size} bytes are not the running frame's next ones")
        offset = self._offset
        self._offset += size
        self._rest_bytes -= size
        return offset

    def _start_frame(self) -> FrameStarted | Literal[NeedData.NEED_DATA]:
        header = self._buffer.take_exactly(FRAME_HEADER_BYTES)
        if header is None:
            return NEED_DATA
        offset, size = _FRAME_HEADER.unpack(header)
        self._broken = _frame_problem(offset, size)
        if self._broken is not None:
            self.too_large = size > FRAME_BODY_MAX
            raise RemoteProtocolError(self._broken)
        self._in_frame = True
        self._offset = offset
        self._rest_bytes = size
        return FrameStarted(offset, size)
