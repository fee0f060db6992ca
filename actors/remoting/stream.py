"""One connection's frames, for the actor at either end of it: read in steps, sent in few pieces.

The actor spawns `receive` and `send` as its feeders and never waits itself. `receive` decodes the
frames of one receive in one step, or few, and sends the actor one message for each. What it puts in
is sent with its next `flush`, in one piece as long as the system has room; what it has no room for,
`send` sends.

Upstream: apache/rocketmq, remoting/netty/NettyDecoder.java, NettyRemotingServer.java, 4.9.4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from sys import getsizeof
from typing import Final, TypeAlias

import attrs
import trio

from actors.env.protocols import ReceiveHalf, SendHalf, Stream
from wire.remoting.frame import Decoder, Frame

RECEIVE_BYTES: Final = 256 << 10
"""The bytes that are read at once: some 1,700 small frames, which take 5 ms to decode."""
STEP_FRAMES: Final = 1024
"""The most frames in one message, so that further ones are answered only when there is room."""
SMALL_BYTES: Final = 64 << 10
"""The size above which a frame is large, so that it needs room before it is read to its end."""
SEND_BYTES: Final = 1 << 20
"""The size up to which frames are joined; a larger one is sent alone."""
SEND_TIMEOUT_S: Final = 30.0
"""The seconds that a peer may take for one such piece; after that it counts as not reading."""
REST_TIMEOUT_S: Final = SEND_TIMEOUT_S
"""The seconds spent on waiting for one large frame that has room; after that its peer stalls."""
IDLE_S: Final = 120.0
"""The seconds without a byte in either direction after which either side closes. Upstream:
serverChannelMaxIdleTimeSeconds, clientChannelMaxIdleTimeSeconds."""
FRAME_OVERHEAD_BYTES: Final = 768
"""The bytes for which a frame without body and texts is counted: its objects, those of its request
and of what that asks, and its places in an actor's mailbox take 310 to 690."""

CLOSED_BY_PEER: Final = "closed by the peer"
SPEAKS_TLS: Final = "the peer speaks TLS, which is not spoken here"
ABORTED: Final = "closed here"
DOES_NOT_READ: Final = f"the peer has read nothing for {SEND_TIMEOUT_S:g} s"
STALLS: Final = f"the rest of a large frame has not come within {REST_TIMEOUT_S:g} s"
_TLS_HANDSHAKE: Final = 0x16


@attrs.frozen(kw_only=True)
class Received:
    """Frames that came, as many as one receive completed; at least one."""

    number: int
    frames: tuple[Frame, ...]
    size_bytes: int


@attrs.frozen(kw_only=True)
class StreamEnded:
    """No more frames will come, or none can be sent. It is sent at least once for each stream."""

    number: int
    reason: str


News: TypeAlias = Received | StreamEnded


def frame_bytes(frame: Frame) -> int:
    """Return the size by which a frame is counted, in bytes: what it takes in memory.

    A short text takes several times its length there, and so does one with a wide character.
    """
    header, size_bytes = frame.header, len(frame.body) + FRAME_OVERHEAD_BYTES
    if header.remark:
        size_bytes += getsizeof(header.remark)
    fields = header.ext_fields
    if fields:
        size_bytes += getsizeof(fields)
        size_bytes += sum(map(getsizeof, fields)) + sum(map(getsizeof, fields.values()))
    return size_bytes


async def _at_once(_: int) -> int:
    """Return at once, so that reading is never held back; the default of `before_read`."""
    return STEP_FRAMES


def _nothing() -> None:
    """Do nothing; the default of `on_sent`."""


@attrs.define(eq=False)
class FrameStream:
    """See the module's text.

    Args:
        number: stands in each message, so that those of an older stream can be dropped.
        deliver: sends the actor a message; called by the feeders.
        before_read: returns when more may be read: the most frames in the next message. Its
            argument is the whole size of the frame that is being read, 0 between frames.
        on_sent: called when bytes have been sent that had to wait.

    Attributes:
        active_s: when bytes were last received or sent.
        heard: whether any bytes were received.
        unsent_bytes: how many bytes of the added frames are not sent.
    """

    number: int
    stream: Stream
    active_s: float
    _deliver: Callable[[News], Awaitable[None]]
    _before_read: Callable[[int], Awaitable[int]] = _at_once
    _on_sent: Callable[[], None] = _nothing
    _rest_s: float = attrs.field(default=REST_TIMEOUT_S, init=False)  # left for a large frame
    unsent_bytes: int = attrs.field(default=0, init=False)
    heard: bool = attrs.field(default=False, init=False)
    _receive: ReceiveHalf = attrs.field(init=False)
    _send: SendHalf = attrs.field(init=False)
    _waiting: deque[bytes] = attrs.field(factory=deque, init=False)
    _rest: memoryview | None = attrs.field(default=None, init=False)  # `send` has to send it
    _sent_of_rest_bytes: int = attrs.field(default=0, init=False)  # before it, of the same piece
    _failed: str = attrs.field(default="", init=False)
    _wake: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self._receive, self._send = self.stream.halves()

    @property
    def held_bytes(self) -> int:
        """The bytes in memory: unsent ones, and the sent part of the piece that is being sent."""
        return self.unsent_bytes + self._sent_of_rest_bytes

    def put(self, frame: bytes) -> None:
        """Add an encoded frame to those that wait to be sent."""
        self._waiting.append(frame)
        self.unsent_bytes += len(frame)

    def flush(self) -> None:
        """Send what the system has room for now. A failure is reported later, by `StreamEnded`."""
        if self._rest is not None or self._failed:
            return
        try:
            while self._waiting:
                piece = self._piece()
                sent = self._send.send_now(piece)
                self._left(sent)
                if sent < len(piece):
                    self._rest = memoryview(piece)[sent:]
                    self._sent_of_rest_bytes = sent
                    self._wake.set()
                    return
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._failed = str(error)
            self._wake.set()

    def abort(self) -> None:
        """Close the stream at once, and drop what was not sent; both feeders end."""
        self.stream.abort()
        self._waiting.clear()
        self._rest, self.unsent_bytes, self._sent_of_rest_bytes = None, 0, 0
        self._failed = self._failed or ABORTED
        self._wake.set()

    async def send(self) -> None:
        """Send what `flush` had no room for, until the stream ends; a feeder."""
        try:
            while not self._failed:
                await self._send_rest()
                self._wake = trio.Event()
                await self._wake.wait()
            reason = self._failed
        except trio.TooSlowError:
            reason = DOES_NOT_READ
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            reason = str(error)
        await self._deliver(StreamEnded(number=self.number, reason=reason))

    async def receive(self) -> None:
        """Deliver the frames that come, until the stream ends or sends no valid frame; a feeder."""
        try:
            reason = await self._receive_all()
        except trio.TooSlowError:
            reason = STALLS
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            reason = str(error)
        await self._deliver(StreamEnded(number=self.number, reason=reason))

    async def _send_rest(self) -> None:
        while self._rest is not None:
            rest = self._rest
            with trio.fail_after(SEND_TIMEOUT_S):
                await self._send.send_all(rest)
            if self._failed:
                return
            self._left(len(rest))
            self._sent_of_rest_bytes = 0
            self._rest = memoryview(self._piece()) if self._waiting else None
            self._on_sent()

    def _piece(self) -> bytes:
        """Remove the frames that are sent together next, and return them joined."""
        waiting = self._waiting
        first = waiting.popleft()
        size_bytes = len(first)
        if not waiting or size_bytes + len(waiting[0]) > SEND_BYTES:
            return first
        pieces = [first]
        while waiting and size_bytes + len(waiting[0]) <= SEND_BYTES:
            pieces.append(waiting.popleft())
            size_bytes += len(pieces[-1])
        return b"".join(pieces)

    def _left(self, size_bytes: int) -> None:
        if size_bytes:
            self.unsent_bytes -= size_bytes
            self.active_s = trio.current_time()

    async def _receive_all(self) -> str:
        """Deliver all frames that come. Returns: why no more will come."""
        decoder = Decoder()
        while True:
            step = await self._before_read(decoder.begun_bytes)
            reason = await self._take(decoder, await self._some(decoder.begun_bytes), step)
            if reason is not None:
                return reason

    async def _take(self, decoder: Decoder, data: bytes, step: int) -> str | None:
        """Deliver the frames that are whole with these bytes, the first `step` of them together.

        When it returns, nothing here holds the bytes or the frames, as the next may never come.

        Returns: why no more will come, or None.
        """
        if not data:
            return CLOSED_BY_PEER
        is_first, self.heard = not self.heard, True
        if is_first and data[0] == _TLS_HANDSHAKE:
            return SPEAKS_TLS
        self.active_s = trio.current_time()
        frames, error = decoder.decode(data, step)
        while frames:
            self._rest_s = REST_TIMEOUT_S
            size_bytes = sum(map(frame_bytes, frames))
            await self._deliver(
                Received(number=self.number, frames=tuple(frames), size_bytes=size_bytes)
            )
            if len(frames) < step or error is not None:
                break
            step = await self._before_read(0)
            frames, error = decoder.decode(b"", step)
        return error

    async def _some(self, begun_bytes: int) -> bytes:
        """Receive some bytes; only the wait for them counts against `_rest_s`."""
        if begun_bytes <= SMALL_BYTES:
            return await self._receive.receive_some(RECEIVE_BYTES)
        begun_s = trio.current_time()
        with trio.fail_after(max(self._rest_s, 0.0)):
            data = await self._receive.receive_some(RECEIVE_BYTES)
        self._rest_s -= trio.current_time() - begun_s
        return data
