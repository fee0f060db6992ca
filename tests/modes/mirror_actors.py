"""The actors of a mirror group: its file of lines on each node, and the connection between them.

A body may not have a line feed. Positions are bytes of the file.

On the wire, the copy says where its file ends (8 bytes), and the writer answers with frames of
lines: where they begin, up to where all is acknowledged, how many bytes follow. The copy says where
it ends after each; a frame without lines is a heartbeat.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

import attrs
import trio

from actors.env import Env
from actors.env.protocols import Disk, File, ReceiveHalf, Stream
from actors.errors import OutcomeUnknown
from actors.log_types import Offsets
from actors.runtime import Actor, ActorRef, ReplyTo

HEAD: Final = struct.Struct(">QQI")
END: Final = struct.Struct(">Q")
FRAME_BYTES: Final = 64 << 10
HEARTBEAT_S: Final = 1.0
SILENCE_S: Final = 3.0
RETRY_S: Final = 0.5


@attrs.frozen(kw_only=True)
class Appended:
    """Answer: the lines lie from `first` to `next`, on both nodes."""

    first: int
    last: int
    next: int


@attrs.frozen(kw_only=True)
class Append:
    """Write these bodies. Answered by Appended, or fails with OutcomeUnknown."""

    bodies: tuple[bytes, ...]
    deadline_s: float
    reply_to: ReplyTo[Appended]


@attrs.frozen(kw_only=True)
class Put:
    """The writer's lines from `start` on. Answered with where the file ends."""

    start: int
    acknowledged: int
    data: bytes
    reply_to: ReplyTo[int]


@attrs.frozen(kw_only=True)
class Copied:
    """The copy has all below `end`."""

    end: int


@attrs.frozen(kw_only=True)
class Read:
    """Answered with the lines from `start` on that are acknowledged."""

    start: int
    max_bytes: int
    reply_to: ReplyTo[bytes]


@attrs.frozen(kw_only=True)
class Watch:
    """Answered with the offsets once they differ from `known`, and something lies at `above`."""

    known: Offsets | None
    above: int
    reply_to: ReplyTo[Offsets]


@attrs.frozen
class _Due:
    """Timer: an append may be late."""


Message: TypeAlias = Append | Put | Copied | Read | Watch | _Due


@attrs.define
class _Waiting:
    deadline_s: float
    reply_to: ReplyTo[Appended]
    answer: Appended


@attrs.define
class LineStore(Actor[Message]):
    """The file of lines of one node.

    Attributes:
        path: of the file.
        writer: who takes appends.
        end: where it ends, synced; connections look at it.
        acknowledged: all below it is on both nodes.
        changed: set, and made anew, when one of these two has grown.
    """

    disk: Disk
    path: str
    writer: str
    end: int = 0
    acknowledged: int = 0
    changed: trio.Event = attrs.field(factory=trio.Event)
    _file: File = attrs.field(init=False)
    _waiting: list[_Waiting] = attrs.field(factory=list)
    _watchers: list[Watch] = attrs.field(factory=list)

    async def on_start(self) -> None:
        folder = self.path.rpartition("/")[0]
        self.disk.mkdir(folder)
        if not self.disk.exists(self.path):
            self.disk.open(self.path, "x").close()
            self.disk.sync_dir(folder)
        self._file = self.disk.open(self.path, "w")
        data = self._file.pread(0, self._file.size_bytes)
        self.end = data.rfind(b"\n") + 1
        self._file.resize(self.end)

    async def handle(self, message: Message) -> None:
        before = self.end, self.acknowledged
        match message:
            case Append():
                self._append(message)
            case Put():
                if message.start == self.end and message.data:
                    self._write(message.data)
                self._acknowledge(min(message.acknowledged, self.end))
                message.reply_to.send(self.end)
            case Copied():
                self._acknowledge(min(message.end, self.end))
            case Read():
                message.reply_to.send(self.lines(message.start, message.max_bytes))
            case Watch():
                self._watchers.append(message)
            case _Due():
                self._expire()
        if (self.end, self.acknowledged) != before:
            self.changed.set()
            self.changed = trio.Event()
        self._answer_watchers()

    async def on_stop(self, reason: object) -> None:
        self._file.close()

    def read(self, start: int, size: int) -> bytes:
        """Bytes of the file."""
        return self._file.pread(start, max(0, min(size, self.end - start)))

    def lines(self, start: int, max_bytes: int) -> bytes:
        """Whole acknowledged lines from `start` on, at least one if there is one."""
        size = max(max_bytes, FRAME_BYTES)
        data = self.read(start, min(size, self.acknowledged - start))
        return data[: data.rfind(b"\n") + 1]

    @property
    def offsets(self) -> Offsets:
        return Offsets(
            min=0,
            written=self.end,
            synced=self.end,
            acknowledged=self.acknowledged,
            master=self.writer,
        )

    def _append(self, message: Append) -> None:
        first = self.end
        data = b"".join(body + b"\n" for body in message.bodies)
        self._write(data)
        last = first + data[:-1].rfind(b"\n") + 1
        answer = Appended(first=first, last=last, next=self.end)
        self._waiting.append(_Waiting(message.deadline_s, message.reply_to, answer))
        self.ctx.timers.start_by("due", message.deadline_s, _Due())

    def _write(self, data: bytes) -> None:
        self._file.pwrite(data, self.end)
        self._file.sync()
        self.end += len(data)

    def _acknowledge(self, end: int) -> None:
        self.acknowledged = max(self.acknowledged, end)
        done = [each for each in self._waiting if self.is_done(each.answer.next)]
        self._waiting = [each for each in self._waiting if each not in done]
        for each in done:
            each.reply_to.send(each.answer)

    def is_done(self, end: int) -> bool:
        """Whether what ends there may be answered."""
        return end <= self.acknowledged

    def _expire(self) -> None:
        now_s = trio.current_time()
        late = [each for each in self._waiting if each.deadline_s <= now_s]
        self._waiting = [each for each in self._waiting if each.deadline_s > now_s]
        for each in late:
            each.reply_to.fail(OutcomeUnknown("the copy has not said that it has the lines"))
        if self._waiting:
            first_s = min(each.deadline_s for each in self._waiting)
            self.ctx.timers.start_at("due", first_s, _Due())

    def _answer_watchers(self) -> None:
        offsets = self.offsets
        ready = [each for each in self._watchers if each.known != offsets]
        ready = [each for each in ready if min(self.end, self.acknowledged) > each.above]
        self._watchers = [each for each in self._watchers if each not in ready]
        for each in ready:
            each.reply_to.send(offsets)


@attrs.define
class Listener(Actor[None]):
    """On the writer: serves whoever connects from the copy's address."""

    env: Env
    host: str
    port: int
    copy_host: str
    store: LineStore
    store_ref: ActorRef[Message]

    async def on_start(self) -> None:
        listener = await self.env.network.listen(self.host, self.port)
        self.ctx.spawn(self._accept, listener)

    async def _accept(self, listener: object) -> None:
        while True:
            stream: Stream = await listener.accept()  # type: ignore[attr-defined]
            if stream.remote.host != self.copy_host:
                stream.abort()
                continue
            self.ctx.spawn(self._serve, stream)

    async def _serve(self, stream: Stream) -> None:
        receive, send = stream.halves()
        try:
            sent = END.unpack(await _exactly(receive, END.size))[0]
            while True:
                await self.store_ref.tell(Copied(end=sent))
                if sent == self.store.end:
                    with trio.move_on_after(HEARTBEAT_S):
                        await self.store.changed.wait()
                data = self.store.read(sent, FRAME_BYTES)
                await send.send_all(HEAD.pack(sent, self.store.acknowledged, len(data)) + data)
                with trio.fail_after(SILENCE_S):
                    sent = END.unpack(await _exactly(receive, END.size))[0]
        except (trio.BrokenResourceError, trio.TooSlowError, EOFError):
            pass
        finally:
            stream.abort()


@attrs.define
class Copier(Actor[None]):
    """On the copy: connects to the writer, again and again."""

    env: Env
    host: str
    local_host: str
    port: int
    store: LineStore
    store_ref: ActorRef[Message]

    async def on_start(self) -> None:
        self.ctx.spawn(self._run)

    async def _run(self) -> None:
        while True:
            try:
                with trio.fail_after(SILENCE_S):
                    stream = await self.env.network.connect(
                        self.host, self.port, local_host=self.local_host
                    )
                await self._copy(stream)
            except (OSError, trio.BrokenResourceError, trio.TooSlowError, EOFError):
                await trio.sleep(RETRY_S)

    async def _copy(self, stream: Stream) -> None:
        receive, send = stream.halves()
        try:
            await send.send_all(END.pack(self.store.end))
            while True:
                with trio.fail_after(SILENCE_S):
                    head = await _exactly(receive, HEAD.size)
                    start, acknowledged, size = HEAD.unpack(head)
                    data = await _exactly(receive, size)
                end = await self.store_ref.ask(
                    int,
                    lambda reply, start=start, acknowledged=acknowledged, data=data: Put(
                        start=start, acknowledged=acknowledged, data=data, reply_to=reply
                    ),
                    timeout_s=SILENCE_S,
                )
                await send.send_all(END.pack(end))
        finally:
            stream.abort()


async def _exactly(receive: ReceiveHalf, size: int) -> bytes:
    """Raises: EOFError: the stream ends before."""
    data = b""
    while len(data) < size:
        more = await receive.receive_some(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
