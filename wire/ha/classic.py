"""The classic HA wire: reports of a slave to its master, and commit-log frames of the master.

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
from typing import Final, Literal

import attrs

from wire.buffer import NEED_DATA, NeedData, ReceiveBuffer
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.ha.frames import (
    JAVA_BUFFER_BYTES,
    OFFSET_MAX,
    RECEIVE_LIMIT_BYTES,
    FrameStarted,
    HeaderLayout,
    Report,
    frame_problem,
)

REPORT_BYTES: Final = 8
FRAME_HEADER_BYTES: Final = 12
FRAME_BODY_MAX: Final = JAVA_BUFFER_BYTES - FRAME_HEADER_BYTES

_REPORT = struct.Struct(">q")
_FRAME_HEADER = struct.Struct(">qi")


def encode_report(offset: int) -> bytes:
    """Encode the slave's report that it holds every byte below `offset` (0 .. OFFSET_MAX).

    Raises:
        LocalProtocolError: `offset` is out of range.
    """
    if not 0 <= offset <= OFFSET_MAX:
        raise LocalProtocolError(f"report offset {offset} is not in 0..{OFFSET_MAX}")
    return _REPORT.pack(offset)


def encode_frame_header(offset: int, size: int) -> bytes:
    """Encode the header before `size` bytes of commit log from `offset`; size 0 is a heartbeat.

    Raises:
        LocalProtocolError: offset, size or their sum is out of range.
    """
    problem = frame_problem(offset, size, FRAME_BODY_MAX)
    if problem is not None:
        raise LocalProtocolError(str(problem))
    return _FRAME_HEADER.pack(offset, size)


class ReportDecoder:
    """The master's side: takes bytes from a slave, and returns its latest report.

    Reports are cumulative, so only the last complete one of several counts. After `receive_data`
    call `next_message` until it returns NEED_DATA.
    """

    __slots__ = ("_broken", "_buffer")

    def __init__(self) -> None:
        self._buffer = ReceiveBuffer(RECEIVE_LIMIT_BYTES)
        self._broken: str | None = None

    def receive_data(self, data: bytes) -> None:
        """Add received bytes.

        Raises:
            LocalProtocolError: `next_message` was not called for RECEIVE_LIMIT_BYTES.
        """
        self._buffer.append(data)

    def next_message(self) -> Report | Literal[NeedData.NEED_DATA]:
        """Return the newest complete report since the last call, or NEED_DATA.

        Raises:
            RemoteProtocolError: a report is negative. Every later call raises again.
        """
        if self._broken is not None:
            raise RemoteProtocolError(self._broken)
        whole = self._buffer.take_exactly(len(self._buffer) // REPORT_BYTES * REPORT_BYTES)
        if not whole:
            return NEED_DATA
        offsets: list[int] = [offset for (offset,) in _REPORT.iter_unpack(whole)]
        lowest = min(offsets)
        if lowest < 0:
            self._broken = f"report {lowest} is negative"
            raise RemoteProtocolError(self._broken)
        return Report(offsets[-1])


@attrs.frozen
class _FrameHeader:
    """The header of a frame, as a `HeaderLayout`."""

    first_bytes: int = FRAME_HEADER_BYTES

    def header_bytes(self, head: bytes) -> int:
        return FRAME_HEADER_BYTES

    def read(self, header: bytes) -> FrameStarted:
        offset, size = _FRAME_HEADER.unpack(header)
        problem = frame_problem(offset, size, FRAME_BODY_MAX)
        if problem is not None:
            raise problem
        return FrameStarted(offset, size)


FRAME_HEADER: Final[HeaderLayout[FrameStarted]] = _FrameHeader()
"""The layout for `FrameDecoder` and `FrameMeter`."""
