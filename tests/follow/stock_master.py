"""A stock broker's side of the HA wire (classic-ha.md 2.3, 2.4), in the hands of a test.

It believes every report, sends an empty slave its last file, and sends whatever offset it is asked
for; it shares no code with our master.
"""

from __future__ import annotations

import math

import attrs
import trio

from actors.env import Env, ReceiveHalf, SendHalf, Stream
from wire.files.record_encoder import RecordEncoder, encode_blank, fits_in_segment

ADDRESS, PORT = "10.0.0.1", 10912
FILE = 64 << 10
BATCH = 32 << 10
HEARTBEAT_S = 5.0
POLL_S = 0.1
HOST = (ADDRESS, PORT)


@attrs.define(eq=False)
class Connection:
    """One slave's. `reports`: all that it said; `ack`: the last; `request`: the first."""

    reports: list[int] = attrs.field(factory=list)
    closed: bool = False
    reported: trio.Event = attrs.field(factory=trio.Event)
    began: trio.Event = attrs.field(
        factory=trio.Event
    )  # it is decided where the first frame begins

    @property
    def ack(self) -> int:
        return self.reports[-1] if self.reports else -1


@attrs.define(eq=False)
class StockMaster:
    """The log outlives the process; so do all connections' reports, for the test to look at.

    It writes its own address into no record, so that a log is the same wherever it listens.
    """

    log: bytearray = attrs.field(factory=bytearray)
    min_bytes: int = 0
    connections: list[Connection] = attrs.field(factory=list)
    count: int = 0
    host: str = ADDRESS
    port: int = PORT

    @property
    def end(self) -> int:
        return len(self.log)

    @property
    def acknowledged(self) -> int:
        """As a 5.x master counts: what some open connection has reported."""
        return max((each.ack for each in self.connections if not each.closed), default=-1)

    def append(self, count: int = 1, body_bytes: int = 300, topic: str = "t") -> None:
        for _ in range(count):
            rest = FILE - self.end % FILE
            if not fits_in_segment(body_bytes + 200, rest):
                blank = encode_blank(rest)
                self.log += blank + bytes(rest - len(blank))
            encoder = RecordEncoder(topic, HOST, HOST)
            encoder.encode_into(
                self.log,
                self.count.to_bytes(8) * (body_bytes // 8),
                queue_id=0,
                queue_offset=self.count,
                physical_offset=self.end,
                store_ts=1_700_000_000_000 + self.count,
                born_ts=1,
            )
            self.count += 1

    async def main(self, env: Env, task_status: trio.TaskStatus[None]) -> None:
        """A process of the simulated world."""
        listener = await env.network.listen(self.host, self.port)
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                while True:
                    nursery.start_soon(self._serve, await listener.accept())
        finally:
            with trio.CancelScope(shield=True):
                await listener.aclose()

    async def _serve(self, stream: Stream) -> None:
        receive, send = stream.halves()
        connection = Connection()
        self.connections.append(connection)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read, receive, connection, nursery.cancel_scope)
                nursery.start_soon(self._write, send, connection)
        except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass
        finally:
            connection.closed = True
            stream.abort()

    async def _read(
        self, receive: ReceiveHalf, connection: Connection, scope: trio.CancelScope
    ) -> None:
        got = b""
        with trio.move_on_after(20.0) as silent:
            while data := await receive.receive_some(65536):
                silent.deadline = trio.current_time() + 20.0
                got += data
                whole = len(got) // 8 * 8
                if whole:
                    connection.reported.set()
                    connection.reports.append(int.from_bytes(got[whole - 8 : whole], signed=True))
                got = got[whole:]
        scope.cancel()

    async def _write(self, send: SendHalf, connection: Connection) -> None:
        await connection.reported.wait()
        at = connection.reports[0] or self.end - self.end % FILE
        connection.began.set()
        wrote_s = trio.current_time()
        while True:
            file_end = at - at % FILE + FILE
            until = min(self.end, file_end, at + BATCH) if at >= self.min_bytes else at
            if until > at:
                body = bytes(self.log[at:until])
            elif trio.current_time() - wrote_s > HEARTBEAT_S:
                body = b""
            else:
                await trio.sleep(POLL_S)
                continue
            await send.send_all(at.to_bytes(8) + len(body).to_bytes(4) + body)
            at, wrote_s = at + len(body), trio.current_time()


def files_of(log: bytes, begin: int) -> dict[str, bytes]:
    """The files of a master's log, by name, each of its full size."""
    return {
        f"{base:020}": log[base : base + FILE].ljust(FILE, b"\0")
        for base in range(begin, math.ceil(len(log) / FILE) * FILE, FILE)
    }
