"""Raw ends of a replication connection, in a script's hand: a slave's, and a master's."""

from __future__ import annotations

from itertools import pairwise

import attrs
import trio

from actors.env import Stream
from actors.sim.network.network import HostNetwork
from wire.files.commit_log import RecordEncoder

RECORD_BYTES = 200
BODY_BYTES = 103
"""With the topic `orders` this makes a record of RECORD_BYTES."""
HEADER_BYTES, REPORT_BYTES = 12, 8
LOOK_S = 0.001
AGAIN_MIN = 5
"""So many equal reports are shown as many; fewer as one, for they depend on a moment."""
HOST = ("127.0.0.1", 10911)


def records(start: int, end: int) -> bytes:
    """The bytes `start` to `end` of a log of equal records, as a real master would have them."""
    first = start - start % RECORD_BYTES
    out = bytearray()
    encoder = RecordEncoder("orders", HOST, HOST)
    for offset in range(first, end, RECORD_BYTES):
        encoder.encode_into(
            out,
            b"r" * BODY_BYTES,
            queue_id=0,
            queue_offset=offset // RECORD_BYTES,
            physical_offset=offset,
            store_ts=1_700_000_000_000,
            born_ts=1_700_000_000_000,
            properties=b"",
        )
    return bytes(out[start - first : end - first])


def frame(offset: int, body: bytes) -> bytes:
    """A master's frame; without a body a heartbeat."""
    return offset.to_bytes(8) + len(body).to_bytes(4) + body


@attrs.define(eq=False)
class Peer:
    """One end of a stream. What the other says is gathered by `run`.

    Attributes:
        stream: None if the other side broke it before it was there.
        follows: report the end of every frame, as a slave that stores everything.
    """

    stream: Stream | None
    follows: bool = False
    _heard: bytearray = attrs.field(factory=bytearray)
    _ended: bool = False

    async def run(self) -> None:
        if self.stream is None:
            self._ended = True
            return
        receive, _ = self.stream.halves()
        try:
            while data := await receive.receive_some(65536):
                self._heard += data
                if self.follows:
                    await self._report_end()
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        self._ended = True

    async def _report_end(self) -> None:
        at, end = 0, None
        while len(self._heard) - at >= HEADER_BYTES:
            offset, size = self._header(at)
            at += HEADER_BYTES + size
            if at <= len(self._heard) and size:
                end = offset + size
        if end is not None:
            await self.say(end.to_bytes(REPORT_BYTES))

    def _header(self, at: int) -> tuple[int, int]:
        head = self._heard[at : at + HEADER_BYTES]
        return int.from_bytes(head[:8], signed=True), int.from_bytes(head[8:], signed=True)

    async def say(self, data: bytes) -> None:
        if self.stream is None:
            return
        _, send = self.stream.halves()
        try:
            await send.send_all(data)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            self._ended = True

    def close(self) -> None:
        if self.stream is not None:
            self.stream.abort()

    @property
    def spoken(self) -> bool:
        """Whether something was heard that nobody has taken."""
        return bool(self._heard)

    @property
    def ended(self) -> bool:
        return self._ended

    def take_frames(self) -> list[str]:
        """What a master said since the last call: contiguous bytes as one, heartbeats once."""
        said: list[tuple[str, int, int]] = []
        while len(self._heard) >= HEADER_BYTES:
            offset, size = self._header(0)
            if size > len(self._heard) - HEADER_BYTES:
                break
            del self._heard[: HEADER_BYTES + size]
            what = "bytes" if size else "heartbeats"
            if said and said[-1][0] == what and said[-1][2] == offset:
                said[-1] = (what, said[-1][1], offset + size)
            else:
                said.append((what, offset, offset + size))
        lines = [
            f"bytes {start} to {end}" if what == "bytes" else f"heartbeats at {start}"
            for what, start, end in said
        ]
        return self._with_end(lines)

    def take_reports(self) -> list[str]:
        """What a slave said since the last call; the same one again is reported once."""
        said: list[list[int]] = []
        while len(self._heard) >= REPORT_BYTES:
            offset = int.from_bytes(self._heard[:REPORT_BYTES], signed=True)
            del self._heard[:REPORT_BYTES]
            if said and said[-1][0] == offset:
                said[-1][1] += 1
            else:
                said.append([offset, 1])
        again = ", again and again"
        return self._with_end(
            [f"report {offset}{again if n >= AGAIN_MIN else ''}" for offset, n in said]
        )

    def _with_end(self, lines: list[str]) -> list[str]:
        return [*lines, "closed"] if self._ended else lines or ["nothing"]


@attrs.define(eq=False)
class RawMaster:
    """Listens where a master would; a script says what it sends.

    Attributes:
        connections: with the virtual time of each, the newest last.
    """

    network: HostNetwork
    host: str
    port: int
    connections: list[tuple[float, Peer]] = attrs.field(factory=list)
    greeting: bytes = b""

    async def run(
        self,
        nursery: trio.Nursery,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        listener = await self.network.listen(self.host, self.port)
        task_status.started()
        while True:
            peer = Peer(await listener.accept())
            self.connections.append((trio.current_time(), peer))
            nursery.start_soon(peer.run)
            if self.greeting:
                nursery.start_soon(self._greet, peer)

    async def _greet(self, peer: Peer) -> None:
        """Answer the first report, as a master that has its own idea of the log."""
        while not peer.ended and not peer.spoken:  # noqa: ASYNC110
            await trio.sleep(LOOK_S)
        await peer.say(self.greeting)

    @property
    def peer(self) -> Peer:
        return self.connections[-1][1]

    def count_from_now(self) -> None:
        """Pauses are counted from here on."""
        self.connections[:] = [(trio.current_time(), self.peer)]

    def pauses_s(self) -> list[int]:
        """Whole seconds between connections, the first one since `count_from_now`."""
        times = [at for at, _ in self.connections]
        return [round(later - earlier) for earlier, later in pairwise(times)]
