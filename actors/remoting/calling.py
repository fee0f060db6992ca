"""A connection to one address, over which the actor that holds it makes calls.

It is made when there is a call, and again after a pause of 0.1 to 1 s once it was lost; calls fail
at once in the pause. Nothing here waits: up to UNSENT_BYTES_MAX is kept that the system has no room
for, and calls beyond it fail at once. The end of a connection is the end of all open calls.

Upstream: apache/rocketmq, remoting/netty/NettyRemotingClient.java, 4.9.4.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, assert_never

import attrs
import trio

from actors.env.protocols import Address, Network, Stream
from actors.events import remoting as events
from actors.remoting.open_calls import UNANSWERED_OPAQUE, OpenCalls
from actors.remoting.stream import IDLE_S, FrameStream, Received, StreamEnded
from actors.runtime import ActorContext
from wire.errors import LocalProtocolError
from wire.remoting.frame import Frame, encode_frame
from wire.remoting.header import FLAG_ONEWAY, Header

CONNECT_TIMEOUT_S: Final = 3.0
"""The seconds that a connection may take to be made. Upstream: connectTimeoutMillis."""
RECONNECT_FIRST_S: Final = 0.1
RECONNECT_MAX_S: Final = 1.0
"""The longest pause after a connection was lost or could not be made. Pauses double until a call is
answered.
"""
PENDING_BYTES: Final = 16 << 20
"""How many received bytes may wait for the actor that holds the connection."""
UNSENT_BYTES_MAX: Final = 64 << 20
"""How many bytes of frames are kept while the system has no room for them. A dispatcher's window is
4 MiB, as Base64 a third more, so only calls without another bound reach this one.
"""
WORK_BYTES: Final = 4 << 20
"""The most bytes encoded or decoded without a checkpoint: some 10 ms."""
IDLE: Final = "idle"
REASON_CHARS_MAX: Final = 500
"""How many characters of a peer's own text a reason shows."""


@attrs.frozen(kw_only=True)
class Connected:
    """Feeder: the stream with that number is in `_arrived`."""

    number: int


@attrs.frozen
class CallsDue:
    """Timer: the time of some call is over."""


@attrs.frozen
class IdleDue:
    """Timer: the connection may have been idle for long enough."""


News: TypeAlias = Connected | Received | StreamEnded | CallsDue | IdleDue
"""The messages that a connection sends to the actor that holds it, which passes them back to it."""
CALLS_DUE: Final = CallsDue()
IDLE_DUE: Final = IdleDue()


class Call(Protocol):
    """What a connection has to know of a call."""

    @property
    def timeout_s(self) -> float:
        """How many seconds after it was sent the call's answer has to come."""


C = TypeVar("C", bound=Call)


@attrs.define(kw_only=True)
class CallingConnection(Generic[C]):
    """A connection to one address, for one incarnation of the actor that holds it.

    The actor passes it each of its `News`, and calls `flush` at the end of each batch. A call that
    was sent ends once, in `answered` or in `unanswered`.

    Attributes:
        peer: who is there, for events.
        local_host: the own address from which to connect; None: any.
        work_bytes: bytes encoded or decoded since the last checkpoint; at WORK_BYTES `breathe` is
            due.
        error: why the last call without an answer had none; "" if all had one.
        failures: how many connections in a row were lost or could not be made. The subclass sets it
            to 0 once the peer has answered a call well.
        next_number: gives the next stream's number. An actor that forgets connections passes the
            same one to all.
    """

    peer: str
    address: Address
    local_host: str | None
    network: Network
    work_bytes: int = attrs.field(default=0, init=False)
    error: str = attrs.field(default="", init=False)
    failures: int = attrs.field(default=0, init=False)
    _calls: OpenCalls[C] = attrs.field(factory=OpenCalls)
    _ctx: ActorContext[Any] = attrs.field(init=False)
    _tell: Callable[[Any], Awaitable[None]] = attrs.field(init=False)
    _calls_due: Any = attrs.field(init=False)  # the messages of timers, and their keys
    _idle_due: Any = attrs.field(init=False)
    _calls_timer: tuple[str, str] = attrs.field(init=False)
    _idle_timer: tuple[str, str] = attrs.field(init=False)
    _next_number: Callable[[], int] = attrs.field(factory=lambda: itertools.count(1).__next__)
    _number: int = attrs.field(default=0, init=False)
    _connecting: bool = attrs.field(default=False, init=False)
    _arrived: Stream | None = attrs.field(default=None, init=False)  # of Connected
    _frames: FrameStream | None = attrs.field(default=None, init=False)
    _early: list[tuple[int, bytes]] = attrs.field(factory=list, init=False)  # until it is connected
    _early_bytes: int = attrs.field(default=0, init=False)
    _connect_at_s: float = attrs.field(default=0.0, init=False)
    _answers_refused: int = attrs.field(default=0, init=False)

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._frames is not None

    @property
    def is_unused(self) -> bool:
        """Whether it has nothing to remember: no connection, and no pause after the last one."""
        has_one = self._frames is not None or self._connecting
        return not has_one and self._ctx.now_s() >= self._connect_at_s

    # What a subclass says.

    @abstractmethod
    def answered(self, call: C, frame: Frame) -> None:
        """Take a call's answer, whatever its code."""

    @abstractmethod
    def unanswered(self, call: C) -> None:
        """Note that a call has ended without an answer; `error` says why."""

    def explain(self, reason: str, frames: FrameStream | None) -> str:
        """Describe, for people, what the end of a connection means; "" if `reason` says it all.

        Args:
            reason: why the connection has ended.
            frames: the connection's frames; None: it could not be made.
        """
        return ""

    # What its actor does with it.

    def open(self, ctx: ActorContext[Any], wrap: Callable[[News], Any] | None = None) -> None:
        """Begin. The actor calls this when it starts.

        Args:
            ctx: the actor's context.
            wrap: makes the actor's own message of each of the News, for an actor that holds several
                connections; None: the actor takes News.
        """
        self._ctx = ctx
        self._calls_due, self._idle_due = CALLS_DUE, IDLE_DUE
        self._tell = ctx.self_ref.tell
        if wrap is not None:
            self._calls_due, self._idle_due = wrap(CALLS_DUE), wrap(IDLE_DUE)
            self._tell = lambda news: ctx.self_ref.tell(wrap(news))
        at = str(self.address)
        self._calls_timer, self._idle_timer = ("calls", at), ("idle", at)

    async def take(self, news: News) -> None:
        match news:
            case Received():
                await self._received(news)
            case Connected():
                self._connected(news.number)
            case StreamEnded():
                if news.number == self._number:
                    self._lose(news.reason)
            case CallsDue():
                for each in self._calls.expire(self._ctx.now_s()):
                    self.error = f"no answer within {each.timeout_s:g} s"
                    self.unanswered(each)
            case IdleDue():
                self._look_at_idleness()
            case _:
                assert_never(news)

    def flush(self) -> None:
        """Send all calls of a batch together."""
        if self._frames is not None:
            self._frames.flush()
        if self._calls:  # one timer for all; its call may have ended
            self._ctx.timers.start_by(self._calls_timer, self._calls.deadline_s, self._calls_due)

    def close(self) -> None:
        """End all open calls and the connection; the actor calls it when it stops."""
        if self._arrived is not None:
            self._arrived.abort()
        if self._frames is not None:
            self._frames.abort()
        for each in self._calls.clear():
            self.unanswered(each)

    def takes_calls(self) -> bool:
        """Return whether a call may be sent now; begin to connect if there is no connection."""
        frames = self._frames
        unsent_bytes = frames.unsent_bytes if frames is not None else self._early_bytes
        if unsent_bytes >= UNSENT_BYTES_MAX:
            self.error = "the peer does not read"
            return False
        if frames is not None or self._connecting:
            return True
        if self._ctx.now_s() < self._connect_at_s:
            return False
        self._number = self._next_number()
        self._connecting = True
        self._ctx.spawn(self._connect, self._number)
        return True

    def send(
        self,
        call: C,
        code: int,
        body: bytes,
        *,
        ext_fields: dict[str, str] | None = None,
        version: int = 0,
        is_oneway: bool = False,
    ) -> bool:
        """Send a call, after `takes_calls` has returned True.

        Args:
            is_oneway: whether the request gets no answer; then the call does not end either.

        Returns: False if too many calls are open; nothing was sent.

        Raises: LocalProtocolError: it does not fit into a frame; nothing was sent.
        """
        opaque: int | None = UNANSWERED_OPAQUE
        if not is_oneway:
            opaque = self._calls.add(call, self._ctx.now_s() + call.timeout_s)
        if opaque is None:
            self.error = "too many calls are unanswered"
            return False
        flag = FLAG_ONEWAY if is_oneway else 0
        header = Header(code=code, ext_fields=ext_fields, flag=flag, opaque=opaque, version=version)
        try:
            frame = encode_frame(header, body)
        except LocalProtocolError:
            self._calls.take(opaque)
            raise
        self.work_bytes += len(frame)
        if self._frames is not None:
            self._frames.put(frame)
        else:
            self._early.append((opaque, frame))
            self._early_bytes += len(frame)
        return True

    def refused(self, reason: str) -> None:
        """Count a frame that is no valid answer; emit an event at the 1st, 2nd, 4th and so on."""
        self._answers_refused += 1
        self.error = reason[:REASON_CHARS_MAX]
        count = self._answers_refused
        if count & (count - 1) == 0:
            self._ctx.emit(events.RPCAnswerRefused(peer=self.peer, reason=self.error, count=count))

    async def breathe(self) -> None:
        """Send what is ready, and let other tasks run."""
        self.work_bytes = 0
        if self._frames is not None:
            self._frames.flush()
        await trio.lowlevel.checkpoint()

    # Its connection.

    async def _connect(self, number: int) -> None:
        address = self.address
        try:
            with trio.fail_after(CONNECT_TIMEOUT_S):
                self._arrived = await self.network.connect(
                    address.host, address.port, local_host=self.local_host
                )
        except trio.TooSlowError:
            reason = f"no connection within {CONNECT_TIMEOUT_S:g} s"
        except (OSError, trio.BrokenResourceError) as error:
            reason = str(error)
        else:
            await self._tell(Connected(number=number))
            return
        await self._tell(StreamEnded(number=number, reason=reason))

    def _connected(self, number: int) -> None:
        # OneAttemptAtATime
        assert self._connecting
        assert number == self._number
        assert self._arrived is not None
        stream, self._arrived = self._arrived, None
        self._connecting = False
        self._answers_refused = 0
        self._ctx.emit(events.RPCPeerConnected(peer=self.peer, address=str(self.address)))
        frames = self._frames = FrameStream(number, stream, self._ctx.now_s(), self._tell)
        for opaque, frame in self._early:
            if (
                opaque == UNANSWERED_OPAQUE or opaque in self._calls
            ):  # else its time was over before it was sent
                frames.put(frame)
        self._forget_early()
        self._ctx.spawn(frames.receive)
        self._ctx.spawn(frames.send)
        self._ctx.timers.start(self._idle_timer, IDLE_S, self._idle_due)

    async def _received(self, message: Received) -> None:
        for frame in message.frames:
            if message.number != self._number:
                return  # of a connection that has ended
            self.work_bytes += len(frame.body)
            self._read_answer(frame)
            if self.work_bytes >= WORK_BYTES:
                await self.breathe()

    def _read_answer(self, frame: Frame) -> None:
        header = frame.header
        if not header.is_reply:
            self.refused(f"a request (code {header.code})")
            return
        call = self._calls.take(header.opaque)
        if call is not None:  # else it is late: its caller was told so
            self.answered(call, frame)

    def _lose(self, reason: str) -> None:
        """End the connection, or the attempt to make one, and all its calls."""
        if self._frames is None and not self._connecting:
            return
        frames, was_connected = self._frames, self._frames is not None
        if frames is not None:
            frames.abort()
        self._frames = None
        self._connecting = False
        self._forget_early()
        self._ctx.timers.cancel(self._idle_timer)
        pause_s = 0.0
        if reason != IDLE:  # else nothing is wrong with the peer
            self.error = self.explain(reason, frames) or reason[:REASON_CHARS_MAX]
            pause_s = min(RECONNECT_MAX_S, RECONNECT_FIRST_S * float(1 << min(self.failures, 16)))
            self.failures += 1
        self._connect_at_s = self._ctx.now_s() + pause_s
        left = self._calls.clear()
        if was_connected or self.failures & (self.failures - 1) == 0:
            self._ctx.emit(
                events.RPCPeerLost(
                    peer=self.peer,
                    reason=reason,
                    unanswered=len(left),
                    failures=self.failures,
                    pause_s=pause_s,
                )
            )
        for each in left:
            self.unanswered(each)

    def _forget_early(self) -> None:
        self._early.clear()
        self._early_bytes = 0

    def _look_at_idleness(self) -> None:
        frames = self._frames
        if frames is None:
            return
        if self._ctx.now_s() >= frames.active_s + IDLE_S:
            self._lose(IDLE)
        else:
            self._ctx.timers.start_at(self._idle_timer, frames.active_s + IDLE_S, self._idle_due)
