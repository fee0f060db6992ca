"""The other end of a replication connection, in the hands of a test."""

from __future__ import annotations

import attrs
import trio

from actors.env import ReceiveHalf, SendHalf, Stream


@attrs.define
class Peer:
    """The other end of a connection, byte by byte."""

    stream: Stream
    receive: ReceiveHalf
    send: SendHalf
    got: bytes = b""

    @classmethod
    def of(cls, stream: Stream) -> Peer:
        receive, send = stream.halves()
        return cls(stream, receive, send)

    async def report(self, *offsets: int) -> None:
        await self.send.send_all(b"".join(offset.to_bytes(8, signed=True) for offset in offsets))

    async def frame(self, offset: int, body: bytes = b"") -> None:
        await self.send.send_all(offset.to_bytes(8) + len(body).to_bytes(4) + body)

    async def exactly(self, size: int) -> bytes:
        while len(self.got) < size:
            data = await self.receive.receive_some(65536)
            assert data, "the stream ended"
            self.got += data
        data, self.got = self.got[:size], self.got[size:]
        return data

    async def next_frame(self) -> tuple[int, bytes]:
        header = await self.exactly(12)
        size = int.from_bytes(header[8:])
        return int.from_bytes(header[:8]), await self.exactly(size)

    async def next_report(self) -> int:
        return int.from_bytes(await self.exactly(8), signed=True)

    async def body(self, size: int) -> bytes:
        """At least `size` bytes of log, heartbeats skipped."""
        body = b""
        while len(body) < size:
            body += (await self.next_frame())[1]
        return body

    async def ended(self) -> bool:
        """Wait until the other side has closed; whatever still comes is thrown away."""
        try:
            while await self.receive.receive_some(65536):
                pass
        except trio.BrokenResourceError:
            pass
        return True
