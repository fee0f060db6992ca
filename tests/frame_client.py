"""The other end of a connection that speaks RocketMQ's remoting, frame by frame."""

from __future__ import annotations

from typing import Self

import attrs
import trio

from actors.env.protocols import ReceiveHalf, SendHalf, Stream
from wire.buffer import NEED_DATA
from wire.remoting.frame import Decoder, Frame


@attrs.define
class FrameClient:
    """See the module's text."""

    stream: Stream
    receive: ReceiveHalf
    send: SendHalf
    decoder: Decoder = attrs.field(factory=Decoder)

    @classmethod
    def of(cls, stream: Stream) -> Self:
        return cls(stream, *stream.halves())

    async def put(self, *frames: bytes) -> None:
        await self.send.send_all(b"".join(frames))

    async def next_frame(self) -> Frame:
        frame = await self.frame_or_end()
        assert frame is not None, "the stream ended"
        return frame

    async def frame_or_end(self) -> Frame | None:
        """None: the stream ended."""
        while (frame := self.decoder.next_frame()) is NEED_DATA:
            try:
                data = await self.receive.receive_some(65536)
            except trio.BrokenResourceError:
                return None
            if not data:
                return None
            self.decoder.receive_data(data)
        return frame

    async def ended(self) -> bool:
        """Wait until the other side has closed; whatever still comes is thrown away."""
        try:
            while await self.receive.receive_some(65536):
                pass
        except trio.BrokenResourceError:
            pass
        self.stream.abort()
        return True
