"""RPCConnection serves one accepted connection of a member or a client.

Every request goes to the actor of the member that serves it. Answers are sent in the order in which
they come, those that are there at the same time in one piece. Reading stops while too much is
unanswered or unsent, so a peer that does not read stops its own requests and nothing else. It also
stops while all connections of the port together hold too much (`remoting.budget`).

Upstream: openmessaging/dledger, DLedgerRpcNettyService.processRequest, dledger-all-0.3.1.2;
apache/rocketmq, remoting/netty/NettyRemotingAbstract.processRequestCommand, 4.9.4.

Differs:
- A request waits until its actor has room, while requests to other actors go on; upstream has four
  threads for all. More GETs than READS_MAX get remoting code 2 (busy); one whose entry has no room
  in the port's budget is answered 503.
- APPENDs that came together go to the checker as one, and their answers are sent together.
- PULL is answered by code 3; upstream fails with code 1.
- TLS is not spoken.

Messages: its feeders' only; the answers come to its `ReplyTo`s. There is no restart: it is a
temporary child, and its end is the connection's end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias, assert_never

import attrs
import trio

from actors.dledger.rpc.routing import OF_MEMBERS, Directory, no_room, server_of
from actors.dledger.rpc.rpc_messages import Asked, AskedAppends, Services
from actors.env.protocols import Stream
from actors.events import dledger as events
from actors.remoting.budget import RPCBudget, Share
from actors.remoting.stream import (
    IDLE_S,
    SMALL_BYTES,
    FrameStream,
    Received,
    StreamEnded,
    frame_bytes,
)
from actors.runtime import Actor, MailboxFull, MailboxSpec, ReplyTo, StopReason, describe
from wire.dledger.rpc import (
    AppendEntryRequest,
    GetEntriesRequest,
    GetEntriesResponse,
    Request,
    Response,
    decode_request,
    encode_body,
    request_code,
)
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.remoting.frame import (
    REMOTING_CODE_NOT_SUPPORTED,
    REMOTING_SYSTEM_BUSY,
    REMOTING_SYSTEM_ERROR,
    Frame,
    encode_frame,
    encode_reply,
)
from wire.remoting.header import Header, reply_header

UNANSWERED_MAX: Final = 4096
"""How many requests may wait for their answers; more wait in the stream. A leader has 1000 pushes
to a peer under way.
"""
UNANSWERED_BYTES_MAX: Final = 16 << 20
"""How many bytes of unanswered requests' frames may wait; one frame may, whatever its size."""
UNSENT_BYTES_MAX: Final = 8 << 20
"""How many bytes of answers may wait until the peer takes them."""
READS_MAX: Final = 16
"""How many GETs may be unanswered: each answer is an entry of up to 4 MiB. Upstream's clients wait
for each.
"""
WORK_BYTES: Final = 4 << 20
"""The most bytes encoded or decoded without a checkpoint: some 10 ms."""
REMARK_CHARS_MAX: Final = 500
IDLE: Final = "idle"
BUSY: Final = "busy"


@attrs.frozen(kw_only=True)
class _AnswersReady:
    """There may be answers in `_answers`, or room for more requests."""


@attrs.frozen(kw_only=True)
class _IdleDue:
    """Timer: the connection may have been idle for long enough."""


_Inbox: TypeAlias = Received | StreamEnded | _AnswersReady | _IdleDue


def read_cost_bytes(answer: Response) -> int:
    """How many bytes the answer to a GET holds while it is encoded: entries, and their Base64."""
    if not isinstance(answer, GetEntriesResponse) or not answer.entries:
        return 0
    size_bytes = sum(each.size for each in answer.entries)
    return size_bytes + size_bytes * 4 // 3 + SMALL_BYTES


@attrs.define
class RPCConnection(Actor[_Inbox]):
    """One accepted connection. See the module's text."""

    mailbox = MailboxSpec(capacity=64, conflate={_AnswersReady: type})
    _stream: Stream
    _connection: int
    _directory: Directory
    _budget: RPCBudget
    _share: Share = attrs.field(init=False)
    _frames: FrameStream = attrs.field(init=False)
    _ended: str = ""  # why it has ended; "" before
    _requests: int = 0
    _refused: int = 0
    _tolerated: int = 0
    _unread_bytes: int = 0  # of requests still in the mailbox
    _unanswered: int = 0
    _unanswered_bytes: int = 0
    _reads: int = 0
    _appends: list[tuple[Header, AppendEntryRequest, int]] = attrs.field(factory=list)
    _appends_for: Services | None = None  # the member that `_appends` are for
    _answers: list[tuple[Header, Response | Exception]] = attrs.field(factory=list)
    _announced: bool = False  # whether _AnswersReady is on its way
    _room: trio.Event = attrs.field(factory=trio.Event)
    _work_bytes: int = 0

    async def on_start(self) -> None:
        self._share = Share(self._budget, self._held_bytes, self._end, self.ctx.now_s())
        self._frames = FrameStream(
            self._connection,
            self._stream,
            self.ctx.now_s(),
            self._take_news,
            before_read=self._before_read,
            on_sent=self._make_room,
        )
        self.ctx.emit(
            events.RPCConnectionOpened(
                connection=self._connection, address=str(self._stream.remote)
            )
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
                    self._end(message.reason)
                case _IdleDue():
                    self._look_at_idleness()
                case _:
                    assert_never(message)
            if self._ended:
                return
        while self._answers:
            await self._send_answers()
        self._announced = False
        self._frames.flush()
        self._make_room()

    async def on_stop(self, reason: StopReason) -> None:
        self._ended = self._ended or reason.value
        self._share.close()
        self._stream.abort()
        self.ctx.emit(
            events.RPCConnectionClosed(
                connection=self._connection,
                reason=self._ended,
                requests=self._requests,
                refused=self._refused,
                tolerated=self._tolerated,
                unanswered=self._unanswered,
            )
        )

    # Reading.

    async def _take_news(self, news: Received | StreamEnded) -> None:
        if isinstance(news, Received):
            self._unread_bytes += news.size_bytes
        await self.ctx.self_ref.tell(news)

    async def _before_read(self, begun_bytes: int) -> None:
        self._share.begin(begun_bytes)
        while (
            self._unanswered >= UNANSWERED_MAX
            or self._unread_bytes + self._unanswered_bytes >= UNANSWERED_BYTES_MAX
            or self._frames.unsent_bytes >= UNSENT_BYTES_MAX
        ):
            self._room = trio.Event()
            await self._room.wait()
        await self._share.before_read()

    def _held_bytes(self) -> int:
        answers_bytes = max(self._frames.held_bytes - self._share.unsent_read_bytes, 0)
        return self._unread_bytes + self._unanswered_bytes + answers_bytes

    def _make_room(self) -> None:
        self._share.sent(self._frames.held_bytes)
        self._share.settle()
        self._room.set()

    async def _received(self, message: Received) -> None:
        self._unread_bytes -= message.size_bytes
        for frame in message.frames:
            self._tolerated += frame.loose
            self._work_bytes += len(frame.body)
            self._serve(frame)
            if self._work_bytes >= WORK_BYTES:
                await self._breathe()
        self._route_appends()

    def _serve(self, frame: Frame) -> None:
        header = frame.header
        if header.is_reply:
            self._refuse(header, "an answer to nothing that was asked")
            return
        self._requests += 1
        code = request_code(header.code)
        if code is None:
            self._fail(header, REMOTING_CODE_NOT_SUPPORTED, f"request code {header.code}: unknown")
            return
        try:
            request, loose = decode_request(code, frame.body)
        except RemoteProtocolError as error:
            self._fail(header, REMOTING_SYSTEM_ERROR, str(error))
            return
        self._tolerated += loose and not frame.loose
        self._route(header, request, frame_bytes(frame))

    def _route(self, header: Header, request: Request, size_bytes: int) -> None:
        services = self._directory.find(request)
        if services is None:
            answer = self._directory.refuse(request)
            whom = f"group {request.group}, member {request.remote_id}"
            self._refuse(header, f"for {whom}: {answer.code}")
            self._answer(header, answer)
            return
        if isinstance(request, OF_MEMBERS):
            self._share.prove()
        if isinstance(request, AppendEntryRequest) and request.body is not None:
            if services is not self._appends_for:
                self._route_appends()
                self._appends_for = services
            self._appends.append((header, request, size_bytes))
            return
        is_read = isinstance(request, GetEntriesRequest)
        if is_read and (self._reads >= READS_MAX or self._frames.unsent_bytes >= UNSENT_BYTES_MAX):
            self._fail(header, REMOTING_SYSTEM_BUSY, BUSY)
            return
        self._ask(services, header, request, size_bytes)

    def _ask(self, services: Services, header: Header, request: Request, size_bytes: int) -> None:
        self._unanswered += 1
        self._unanswered_bytes += size_bytes
        refuse: Callable[[], Response] | None = None
        if isinstance(request, GetEntriesRequest):
            self._reads += 1
            refuse = partial(no_room, services, request)
        server = server_of(services, request)
        reply_to: ReplyTo[Response] = ReplyTo.local(
            partial(self._answered, header, size_bytes, refuse), asked=server
        )
        asked = Asked(request=request, reply_to=reply_to, peer=self._stream.remote.host)
        if not reply_to.answered and not server.post(asked):
            reply_to.fail(MailboxFull(BUSY))

    def _route_appends(self) -> None:
        """Give the APPENDs that came together to the checker as one."""
        services, appends = self._appends_for, self._appends
        if not appends:
            return
        assert services is not None
        self._appends_for, self._appends = None, []
        if len(appends) == 1:
            self._ask(services, *appends[0])
            return
        headers, requests, sizes = zip(*appends, strict=True)
        size_bytes = sum(sizes)
        self._unanswered += len(headers)
        self._unanswered_bytes += size_bytes
        checker = services.quorum_ack_checker
        reply_to: ReplyTo[tuple[Response, ...]] = ReplyTo.local(
            partial(self._appended, headers, size_bytes), asked=checker
        )
        asked = AskedAppends(requests=requests, reply_to=reply_to)
        if not reply_to.answered and not checker.post(asked):
            reply_to.fail(MailboxFull(BUSY))

    def _appended(
        self,
        headers: tuple[Header, ...],
        size_bytes: int,
        answers: tuple[Response, ...] | Exception,
    ) -> None:
        """As `_answered`, for APPENDs that went to the checker as one."""
        if self._ended:
            return
        self._unanswered -= len(headers)
        self._unanswered_bytes -= size_bytes
        each: Sequence[Response | Exception]
        each = (answers,) * len(headers) if isinstance(answers, Exception) else answers
        for header, answer in zip(headers, each, strict=True):
            self._answer(header, answer)

    def _answered(
        self,
        header: Header,
        size_bytes: int,
        refuse: Callable[[], Response] | None,
        answer: Response | Exception,
    ) -> None:
        """Take an answer, in the task of the actor that gives it; this actor encodes and sends it.

        Args:
            refuse: for a GET: makes the refusal that is sent if there is no room for the answer.
        """
        if self._ended:
            return
        self._unanswered -= 1
        self._unanswered_bytes -= size_bytes
        if refuse is not None:
            self._reads -= 1
            if not (isinstance(answer, Exception) or header.is_oneway) and not self._share.read(
                read_cost_bytes(answer)
            ):
                answer = refuse()
        self._answer(header, answer)

    # Answering.

    def _refuse(self, header: Header, reason: str) -> None:
        self._refused += 1
        count = self._refused
        if count & (count - 1) == 0:
            self.ctx.emit(
                events.RPCFrameRefused(
                    connection=self._connection,
                    code=header.code,
                    reason=reason[:REMARK_CHARS_MAX],
                    count=count,
                )
            )

    def _fail(self, header: Header, code: int, reason: str) -> None:
        """Refuse a request as the remoting layer does: with a code and a remark, without a body."""
        self._refuse(header, reason)
        if not header.is_oneway:
            self._put(header, code, reason)

    def _answer(self, header: Header, answer: Response | Exception) -> None:
        if not header.is_oneway:
            self._answers.append((header, answer))
        if not self._announced:  # also for a one-way request, which gives its room back
            self._announced = True
            self.ctx.self_ref.offer(_AnswersReady())

    async def _send_answers(self) -> None:
        answers, self._answers = self._answers, []
        for header, answer in answers:
            if isinstance(answer, MailboxFull):
                self._refuse(header, BUSY)
                self._put(header, REMOTING_SYSTEM_BUSY, str(answer))
            elif isinstance(answer, Exception):
                self._put(header, REMOTING_SYSTEM_ERROR, describe(answer))
            else:
                self._put_answer(header, answer)
            if self._work_bytes >= WORK_BYTES:
                await self._breathe()

    def _put_answer(self, header: Header, answer: Response) -> None:
        frame = b""
        try:
            frame = encode_reply(header, encode_body(answer))
        except LocalProtocolError as error:
            self._put(header, REMOTING_SYSTEM_ERROR, str(error))
        else:
            self._work_bytes += len(frame)
            self._frames.put(frame)
        self._share.encoded(read_cost_bytes(answer), len(frame))

    def _put(self, header: Header, code: int, remark: str) -> None:
        # The remark may quote what a peer sent, which may be no text.
        text = remark[:REMARK_CHARS_MAX].encode(errors="replace").decode()
        self._frames.put(encode_frame(reply_header(header, code=code, remark=text)))

    async def _breathe(self) -> None:
        """Let other tasks run; what is ready is sent meanwhile."""
        self._work_bytes = 0
        self._frames.flush()
        await trio.lowlevel.checkpoint()

    # Ending.

    def _look_at_idleness(self) -> None:
        if self.ctx.now_s() >= self._frames.active_s + IDLE_S:
            self._end(IDLE)
        else:
            self.ctx.timers.start_at("idle", self._frames.active_s + IDLE_S, _IdleDue())

    def _end(self, reason: str) -> None:
        self._ended = reason
        self.ctx.stop()
