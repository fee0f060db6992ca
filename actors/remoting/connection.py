"""RPCConnection serves one accepted connection.

Each request goes to the connection's `Session`, and is answered sooner or later, by any actor.
Answers are sent in the order in which they are given; those that are ready at the same time are
sent in one piece. Reading stops while too much is unanswered or unsent, so a peer that does not
read stops only its own requests. If the server sends such a peer too much without being asked, the
connection ends. Reading also stops while all connections of the port together hold too much
(`budget`).

The other way round, the server asks the other end: `notify` and `call` of `Channel`.

Upstream: apache/rocketmq, remoting/netty/NettyRemotingAbstract.java (processRequestCommand,
processResponseCommand), NettyRemotingServer.java, 4.9.4 and 5.3.3.

Differs:
- A request waits until its actor has room, while requests to other actors go on; upstream has some
  threads for all.
- A peer that does not read is cut off; upstream stops to read it, or keeps what it is sent.
- TLS is not spoken.

Messages: its feeders' only; the answers come to its requests. There is no restart: it is a
temporary child, and its end is the connection's end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, assert_never

import attrs
import trio

from actors.env.protocols import Address, Stream
from actors.events import remoting as events
from actors.remoting.budget import RPCBudget, Share
from actors.remoting.open_calls import UNANSWERED_OPAQUE, OpenCalls
from actors.remoting.requests import (
    BUSY,
    Answer,
    CallFailed,
    Channel,
    Refused,
    Request,
    Session,
)
from actors.remoting.stream import (
    IDLE_S,
    STEP_FRAMES,
    FrameStream,
    Received,
    StreamEnded,
    frame_bytes,
)
from actors.runtime import Actor, MailboxFull, MailboxSpec, ReplyTo, StopReason, describe
from wire.errors import LocalProtocolError
from wire.remoting.frame import (
    REMOTING_SYSTEM_BUSY,
    REMOTING_SYSTEM_ERROR,
    Frame,
    encode_frame,
)
from wire.remoting.header import FLAG_ONEWAY, Header, SerializeType, reply_header

UNANSWERED_BYTES_MAX: Final = 16 << 20
"""How many bytes of unanswered requests' frames may wait; a single frame of any size may."""
UNSENT_BYTES_MAX: Final = 8 << 20
"""How many bytes of answers may wait for the peer to take them before its requests are not read.
"""
CUT_OFF_BYTES: Final = 4 * UNSENT_BYTES_MAX
"""How many bytes may wait for the peer before it is cut off, without those that the port's budget
counts: answers to requests that were read, and what the server sends unasked."""
CALLS_MAX: Final = 1024
"""How many calls to the other end may be unanswered."""
BUDGETED_BYTES: Final = 512
"""The size above which an answer is counted by the port's budget (`budget.STEP_ANSWERS_BYTES`)."""
BUDGET_SHARE_BYTES: Final = 16 << 20
"""How many bytes of that budget one connection may hold; a single answer may be larger."""
WORK_BYTES: Final = 4 << 20
"""The most bytes encoded or decoded without a checkpoint: some 10 ms."""
REMARK_CHARS_MAX: Final = 500
IDLE: Final = "idle"
READS_TOO_LITTLE: Final = f"the peer does not read: more than {CUT_OFF_BYTES >> 20} MiB wait for it"


@attrs.frozen(kw_only=True)
class _AnswersReady:
    """There may be answers or calls to send, or room for more requests."""


@attrs.frozen(kw_only=True)
class _IdleDue:
    """Timer: the connection may have been idle for long enough."""


@attrs.frozen(kw_only=True)
class _CallsDue:
    """Timer: the time of some call is over."""


_Inbox: TypeAlias = Received | StreamEnded | _AnswersReady | _IdleDue | _CallsDue


@attrs.define
class RPCConnection(Actor[_Inbox]):
    """One accepted connection, and its `Channel`. See the module's text."""

    mailbox = MailboxSpec(capacity=64, conflate={_AnswersReady: type})
    _stream: Stream
    connection: int
    _session_of: Callable[[Channel], Session]
    _budget: RPCBudget
    tolerated: int = 0  # frames that were read only as fastjson reads them
    _session: Session = attrs.field(init=False)
    _share: Share = attrs.field(init=False)
    _frames: FrameStream = attrs.field(init=False)
    _ended: str = ""  # why it has ended; "" before
    _requests: int = 0
    _refused: int = 0
    _unread: int = 0  # so many frames are still in the mailbox
    _unread_bytes: int = 0
    _unanswered: int = 0
    _unanswered_bytes: int = 0
    _answers: list[Request] = attrs.field(factory=list)  # each with its outcome
    _announced: bool = False  # whether _AnswersReady is on its way
    _room: trio.Event = attrs.field(factory=trio.Event)
    _work_bytes: int = 0
    _calls: OpenCalls[ReplyTo[Frame]] = attrs.field(factory=lambda: OpenCalls(CALLS_MAX))
    _encoding: SerializeType = SerializeType.JSON  # of the other end's last request
    _at_end: dict[Callable[[Channel], None], None] = attrs.field(factory=dict)

    async def on_start(self) -> None:
        self._session = self._session_of(self)
        self._share = Share(self._budget, self._held_bytes, self.end, self.ctx.now_s())
        self._frames = FrameStream(
            self.connection,
            self._stream,
            self.ctx.now_s(),
            self._take_news,
            before_read=self._before_read,
            on_sent=self._make_room,
        )
        self.ctx.emit(
            events.RPCConnectionOpened(connection=self.connection, address=str(self.address))
        )
        self.ctx.spawn(self._frames.receive)
        self.ctx.spawn(self._frames.send)
        self.ctx.timers.start("idle", IDLE_S, _IdleDue())

    async def handle_batch(self, messages: list[_Inbox]) -> None:
        """Take the messages of a batch, then send all answers that are there together."""
        self._announced = True
        for message in messages:
            match message:
                case Received():
                    await self._received(message)
                case _AnswersReady():
                    pass  # they are sent below
                case StreamEnded():
                    self.end(message.reason)
                case _IdleDue():
                    self._look_at_idleness()
                case _CallsDue():
                    self._look_at_calls()
                case _:
                    assert_never(message)
            if self._ended:
                return
        while self._answers and not self._ended:
            await self._send_answers()
        self._announced = False
        self._frames.flush()
        self._make_room()

    async def on_stop(self, reason: StopReason) -> None:
        self._ended = self._ended or reason.value
        self._share.close()
        self._frames.abort()
        self.ctx.emit(
            events.RPCConnectionClosed(
                connection=self.connection,
                reason=self._ended,
                requests=self._requests,
                refused=self._refused,
                tolerated=self.tolerated,
                unanswered=self._unanswered,
            )
        )
        for call in self._calls.clear():
            call.fail(CallFailed(self._ended))
        callbacks, self._at_end = self._at_end, {}
        for callback in callbacks:
            callback(self)

    # Reading.

    async def _take_news(self, news: Received | StreamEnded) -> None:
        if isinstance(news, Received):
            self._unread += len(news.frames)
            self._unread_bytes += news.size_bytes
        await self.ctx.self_ref.tell(news)

    async def _before_read(self, begun_bytes: int) -> int:
        self._share.begin(begun_bytes)
        while (
            self._unread + self._unanswered >= self._session.unanswered_max
            or self._unread_bytes + self._unanswered_bytes >= UNANSWERED_BYTES_MAX
            or self._frames.unsent_bytes >= UNSENT_BYTES_MAX
        ):
            self._room = trio.Event()
            await self._room.wait()
        await self._share.before_read()
        return min(STEP_FRAMES, self._session.unanswered_max)

    def _held_bytes(self) -> int:
        answers_bytes = max(self._frames.held_bytes - self._share.unsent_read_bytes, 0)
        return self._unread_bytes + self._unanswered_bytes + answers_bytes

    def _make_room(self) -> None:
        held_bytes = self._frames.held_bytes
        self._share.sent(held_bytes)
        self._share.settle()
        self._room.set()
        self._cut_off(held_bytes)

    async def _received(self, message: Received) -> None:
        self._unread -= len(message.frames)
        self._unread_bytes -= message.size_bytes
        for frame in message.frames:
            self.tolerated += frame.loose
            self._work_bytes += len(frame.body)
            self._serve(frame)
            if self._work_bytes >= WORK_BYTES:
                await self._breathe()
        self._session.step_ended()

    def _serve(self, frame: Frame) -> None:
        header = frame.header
        if header.is_reply:
            call = self._calls.take(header.opaque)
            if call is None:
                self.refused(header, "an answer to nothing that was asked")
            else:
                call.send(frame)
            return
        self._requests += 1
        self._encoding = header.serialize_type
        size_bytes = frame_bytes(frame)
        self._unanswered += 1
        self._unanswered_bytes += size_bytes
        self._session.serve(Request(self, frame, size_bytes))

    # What anybody may use, in the task of any actor: `Channel`.

    @property
    def address(self) -> Address:
        return self._stream.remote

    @property
    def unsent_bytes(self) -> int:
        """How many bytes of frames wait until the peer takes them."""
        return self._frames.unsent_bytes

    def has_room(self, size_bytes: int) -> bool:
        cost_bytes = 2 * size_bytes
        had_bytes = self._share.reads_bytes
        if had_bytes and had_bytes + cost_bytes > BUDGET_SHARE_BYTES:
            return False
        if self._share.could_read(cost_bytes):
            return True
        self._budget.cut_off()
        return False

    def on_end(self, callback: Callable[[Channel], None]) -> None:
        if self._ended:
            callback(self)
        else:
            self._at_end[callback] = None

    def end(self, reason: str) -> None:
        self._ended = self._ended or reason
        self.ctx.stop()

    def prove(self) -> None:
        self._share.prove()

    def notify(
        self, code: int, *, ext_fields: Mapping[str, str] | None = None, body: bytes = b""
    ) -> bool:
        self._push(code, FLAG_ONEWAY, UNANSWERED_OPAQUE, ext_fields, body)
        return not self._ended

    def call(
        self,
        code: int,
        *,
        ext_fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout_s: float,
        reply_to: ReplyTo[Frame],
    ) -> None:
        if self._ended:
            reply_to.fail(CallFailed(self._ended))
            return
        opaque = self._calls.add(reply_to, self.ctx.now_s() + timeout_s)
        if opaque is None:
            reply_to.fail(CallFailed("too many calls are unanswered"))
            return
        try:
            self._push(code, 0, opaque, ext_fields, body)
        except LocalProtocolError:
            self._calls.take(opaque)
            raise
        self._start_calls_timer()

    def take_answer(self, request: Request, answer: object) -> None:
        if self._ended:
            return
        self._unanswered -= 1
        self._unanswered_bytes -= request.size_bytes
        if not request.header.is_oneway:
            if isinstance(answer, Answer):
                answer = self._within_budget(request, answer)
            request.outcome = answer
            self._answers.append(request)
        if not self._announced:  # also for a one-way request, which gives its room back
            self._announce()

    def reserve(self, request: Request, cost_bytes: int) -> bool:
        if self._ended or request.header.is_oneway:
            return True
        if not self._share.read(cost_bytes):
            return False
        request.cost_bytes += cost_bytes
        return True

    def refused(self, header: Header, reason: str) -> bool:
        self._refused += 1
        count = self._refused
        if count & (count - 1):
            return False
        self.ctx.emit(
            events.RPCFrameRefused(
                connection=self.connection,
                code=header.code,
                reason=reason[:REMARK_CHARS_MAX],
                count=count,
            )
        )
        return True

    # Sending.

    def _announce(self) -> None:
        self._announced = True
        self.ctx.self_ref.offer(_AnswersReady())

    def _push(
        self,
        code: int,
        flag: int,
        opaque: int,
        ext_fields: Mapping[str, str] | None,
        body: bytes,
    ) -> None:
        header = Header(
            code=code,
            ext_fields=dict(ext_fields) if ext_fields else None,
            flag=flag,
            opaque=opaque,
            serialize_type=self._encoding,
            version=self._session.version,
        )
        frame = encode_frame(header, body)
        if self._ended:
            return
        self._frames.put(frame)
        self._cut_off(self._frames.unsent_bytes)
        if not self._announced:
            self._announce()

    def _within_budget(self, request: Request, answer: Answer) -> Answer | Refused:
        """Return the answer if it is short or finds room with its frame; else return a refusal."""
        size_bytes = _answer_bytes(answer)
        if size_bytes <= BUDGETED_BYTES or request.cost_bytes:
            return answer  # who gives a long one may have asked for room
        if self.has_room(size_bytes) and self.reserve(request, 2 * size_bytes):
            return answer
        return Refused(REMOTING_SYSTEM_BUSY, BUSY)

    async def _send_answers(self) -> None:
        answers, self._answers = self._answers, []
        for request in answers:
            answer, request.outcome = request.outcome, None
            frame = b""
            if isinstance(answer, Exception):
                self._put_failure(request.header, answer)
            else:
                try:
                    frame = self._session.encode(request, answer)
                except LocalProtocolError as error:
                    self._put(request.header, REMOTING_SYSTEM_ERROR, str(error))
                else:
                    self._work_bytes += len(frame)
                    self._frames.put(frame)
            if request.cost_bytes:
                self._share.encoded(request.cost_bytes, len(frame))
            if self._work_bytes >= WORK_BYTES:
                await self._breathe()
                self._cut_off(self._frames.held_bytes)
            if self._ended:
                return

    def _put_failure(self, header: Header, error: Exception) -> None:
        if isinstance(error, Refused):
            self._put(header, error.code, str(error))
        elif isinstance(error, MailboxFull):
            self.refused(header, BUSY)
            self._put(header, REMOTING_SYSTEM_BUSY, str(error))
        else:
            self._put(header, REMOTING_SYSTEM_ERROR, describe(error))

    def _put(self, header: Header, code: int, remark: str) -> None:
        # The remark may quote what a peer sent, which may be no text.
        text = remark[:REMARK_CHARS_MAX].encode(errors="replace").decode()
        version = self._session.version
        self._frames.put(
            encode_frame(reply_header(header, code=code, remark=text, version=version))
        )

    async def _breathe(self) -> None:
        """Send what is ready, and let other tasks run."""
        self._work_bytes = 0
        self._frames.flush()
        await trio.lowlevel.checkpoint()

    # Ending.

    def _cut_off(self, held_bytes: int) -> None:
        """End the connection if the peer has left too many bytes unread."""
        if held_bytes - self._share.unsent_read_bytes > CUT_OFF_BYTES:
            self.end(READS_TOO_LITTLE)

    def _start_calls_timer(self) -> None:
        """Start the one timer for all calls. The call that it is set for may end before."""
        if self._calls:
            self.ctx.timers.start_by("calls", self._calls.deadline_s, _CallsDue())

    def _look_at_calls(self) -> None:
        for call in self._calls.expire(self.ctx.now_s()):
            call.fail(CallFailed("no answer in time"))
        self._start_calls_timer()

    def _look_at_idleness(self) -> None:
        if self.ctx.now_s() >= self._frames.active_s + IDLE_S:
            self.end(IDLE)
        else:
            self.ctx.timers.start_at("idle", self._frames.active_s + IDLE_S, _IdleDue())


def _answer_bytes(answer: Answer) -> int:
    """Return at least half of the bytes of an answer's frame without the header's other fields."""
    size_bytes = len(answer.body)
    if answer.remark:
        size_bytes += _text_bytes(answer.remark)
    if answer.ext_fields:
        for key, value in answer.ext_fields.items():
            size_bytes += _text_bytes(key) + _text_bytes(value)
    return size_bytes


def _text_bytes(text: str) -> int:
    """Return at least half of a text's bytes in JSON, where a control character takes six."""
    return len(text) if text.isascii() and text.isprintable() else 3 * len(text)
