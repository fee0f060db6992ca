"""Frames of commit log, whatever their headers are: the decoder and the meter of every HA dialect.

A master sends a slave messages that begin with a header, and the header of a frame announces a body
of commit log. A dialect's `HeaderLayout` reads the headers. This module divides the stream into
messages, returns bodies as they arrive, and refuses values out of range.
"""

from __future__ import annotations

from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import attrs

from wire.buffer import NEED_DATA, NeedData, ReceiveBuffer
from wire.errors import LocalProtocolError, RemoteProtocolError

OFFSET_MAX: Final = 2**63 - 1  # a signed long
JAVA_BUFFER_BYTES: Final = 4 * 1024 * 1024
"""The size of the buffer in which a Java slave collects a whole frame with its header. A longer
frame is never applied."""
RECEIVE_LIMIT_BYTES: Final = 8 * 1024 * 1024
"""The most bytes that may wait in a decoder: many more than one receive returns, and than
upstream's two buffers hold."""


@attrs.frozen
class FrameStarted:
    """A header is complete. A dialect whose headers have more fields has a subclass.

    Attributes:
        offset: the physical offset of the first body byte.
        size: how many body bytes follow; 0 for a heartbeat, which ends at once.
    """

    offset: int
    size: int


@attrs.frozen
class FrameData:
    """A piece of the current frame's body, never empty.

    Attributes:
        offset: the physical offset of its first byte.
        data: the bytes; the same object as in `receive_data` if that held nothing else.
    """

    offset: int
    data: bytes


@attrs.frozen
class FrameEnded:
    """All body bytes of the current frame were returned.

    Attributes:
        offset_end: the physical offset behind the last body byte.
    """

    offset_end: int


@attrs.frozen
class Report:
    """What a slave says in every dialect: its log ends at `offset`, and it wants what follows."""

    offset: int


FrameEvent: TypeAlias = FrameStarted | FrameData | FrameEnded
H_co = TypeVar("H_co", covariant=True)
H = TypeVar("H")


class FrameTooLarge(RemoteProtocolError):
    """A frame announces a larger body than any peer of the dialect accepts."""


class HeaderLayout(Protocol[H_co]):
    """How the messages of one dialect begin.

    Attributes:
        first_bytes: how many bytes of a message `header_bytes` needs at least.
    """

    @property
    def first_bytes(self) -> int: ...
    def header_bytes(self, head: bytes) -> int:
        """Return how many bytes the header has, or how many of them are needed to know that.

        Args:
            head: the beginning of the header, at least `first_bytes`. For a whole header the
                result is its length.

        Raises:
            RemoteProtocolError: no header begins with these bytes.
        """

    def read(self, header: bytes) -> H_co:
        """Decode a whole header, to a `FrameStarted` or a message without a body.

        Raises:
            RemoteProtocolError: a field is out of range.
        """


def frame_problem(offset: int, size: int, size_max: int) -> RemoteProtocolError | None:
    """Return what is wrong with a frame's offset or size, or None."""
    if not 0 <= size <= size_max:
        kind = FrameTooLarge if size > size_max else RemoteProtocolError
        return kind(f"frame size {size} is not in 0..{size_max}")
    if not 0 <= offset <= OFFSET_MAX - size:
        return RemoteProtocolError(f"frame offset {offset} is not in 0..{OFFSET_MAX - size}")
    return None


class FrameMeter:
    """Measures, for a reader of the stream, how many bytes belong together; it checks nothing.

    After a header that no decoder accepts all values stay 0.

    Attributes:
        body_bytes: the size of the body of the last frame that began.
        rest_bytes: how many bytes of that body are still to be read.
        header_bytes: how many bytes of the next message's header are still to be read, as far as
            that is known.
    """

    __slots__ = ("_head", "_layout", "body_bytes", "header_bytes", "rest_bytes")

    def __init__(self, layout: HeaderLayout[object]) -> None:
        self._layout = layout
        self.body_bytes = self.rest_bytes = 0
        self.header_bytes = layout.first_bytes
        self._head = bytearray()  # one of 4 MiB may come byte by byte

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
                self.header_bytes -= size
                if not self.header_bytes:
                    self._read_header()
            at += size

    def body_passed(self, size: int) -> None:
        """Note that `size` bytes of the present body were read."""
        assert 0 < size <= self.rest_bytes
        self.rest_bytes -= size

    def _read_header(self) -> None:
        head, layout = bytes(self._head), self._layout
        try:
            self.header_bytes = layout.header_bytes(head) - len(head)
            if self.header_bytes:
                return
            found = layout.read(head)
        except RemoteProtocolError:
            self.body_bytes = self.header_bytes = 0
            return
        self._head, self.header_bytes = bytearray(), layout.first_bytes
        self.body_bytes = self.rest_bytes = found.size if isinstance(found, FrameStarted) else 0


class FrameDecoder(Generic[H]):
    """The slave's side: takes the master's bytes, and returns events.

    The events of a frame are FrameStarted, some FrameData, and FrameEnded. A message that is no
    frame is one event. After `receive_data` call `next_event` until it returns NEED_DATA. Whether
    frames follow each other without a gap is not checked here, because only the log knows where it
    ends.
    """

    __slots__ = (
        "_buffer",
        "_failed",
        "_first_bytes",
        "_head",
        "_header_bytes",
        "_in_frame",
        "_offset",
        "_read",
        "_rest_bytes",
    )

    def __init__(self, layout: HeaderLayout[H]) -> None:
        self._first_bytes = layout.first_bytes
        self._header_bytes, self._read = layout.header_bytes, layout.read
        self._buffer = ReceiveBuffer(RECEIVE_LIMIT_BYTES)
        self._failed: RemoteProtocolError | None = None
        self._head = b""  # of the next message
        self._in_frame = False
        self._offset = 0  # of the next body byte, while _in_frame
        self._rest_bytes = 0  # body bytes of the frame not handed out yet, while _in_frame

    def receive_data(self, data: bytes) -> None:
        """Add received bytes.

        Raises:
            LocalProtocolError: `next_event` was not called until NEED_DATA for RECEIVE_LIMIT_BYTES.
        """
        self._buffer.append(data)

    def next_event(self) -> H | FrameData | FrameEnded | Literal[NeedData.NEED_DATA]:
        """Return the next event, or NEED_DATA.

        Raises:
            RemoteProtocolError: a header is out of range. Every later call raises the same.
            FrameTooLarge: the same, because of its size, for which upstream waits.
        """
        if self._failed is not None:
            raise self._failed
        if not self._in_frame:
            return self._start()
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
        """Skip the next `size` body bytes of the present frame, which the caller holds.

        Call `next_event` afterwards, for the frame's end.

        Returns: the physical offset of the first of them.

        Raises:
            LocalProtocolError: the present frame has no `size` bytes left.
        """
        if len(self._buffer) or not 0 < size <= self._rest_bytes:
            raise LocalProtocolError(f"{size} bytes are not the running frame's next ones")
        offset = self._offset
        self._offset += size
        self._rest_bytes -= size
        return offset

    def _start(self) -> H | Literal[NeedData.NEED_DATA]:
        head = self._head
        try:
            wanted = self._header_bytes(head) if head else self._first_bytes
            while len(head) < wanted:
                more = self._buffer.take_exactly(wanted - len(head))
                if more is None:
                    self._head = head
                    return NEED_DATA
                head = head + more if head else more
                wanted = self._header_bytes(head)
            found = self._read(head)
        except RemoteProtocolError as error:
            self._failed = error
            raise
        self._head = b""
        if isinstance(found, FrameStarted):
            self._in_frame, self._offset, self._rest_bytes = True, found.offset, found.size
        return found
