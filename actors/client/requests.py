"""The requests of one connection: they are numbered, many may be under way, and each gets its own
answer.

Two tasks do the work: one reads and gives every frame to the request to which it belongs, one sends
what waits, many frames in one message. So a caller that is cancelled does not break the connection;
its answer is dropped when it comes.

Bounds: the node's own limits from its `welcome` (unanswered requests, and bytes of their frames);
callers wait for their turn in order. A subscription's credit bounds what it may hold.

When the connection ends, requests that were not handed to the socket fail with `Closed`; those
that were and may have had an effect with `NodeStopped`, an unknown outcome.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

import attrs
import trio

from actors.api import frame_socket
from actors.api.failures import RequestRefused, to_error
from actors.api.frame_socket import FrameSocket, SocketClosed
from actors.client.following import Follower
from actors.errors import Closed, NodeStopped, TooLarge, TriologError
from wire.api import frames as api
from wire.api import gather
from wire.errors import LocalProtocolError, RemoteProtocolError

PROBE_INTERVAL_S: Final = 0.5
"""After so long a silence a node that owes an answer is sent a ping: one that only takes its time
is not taken for silent then."""
SILENT_S: Final = 4.0
"""A node that has not answered the ping for so long hangs, or cannot be reached; the other members
may know (`actors.client.silence`)."""
PROBE_TIMEOUT_S: Final = 39.5
"""After so long without an answer to the ping the node is given up, whatever others know: a machine
that is gone does not close its connections. What is under way has to arrive in less, so a network
has to carry 160 KB/s."""

F = TypeVar("F", bound=api.Numbered)


@attrs.define(eq=False)
class _Call:
    """A request that has no answer yet.

    Attributes:
        answer: the class of the expected answer.
        settle: takes the answer or the error; neither raises nor yields.
        in_doubt: whether the node may act on it, so that its loss after `sent` is an unknown
            outcome.
    """

    answer: type
    settle: Callable[[Any], None]
    size_bytes: int
    in_doubt: bool
    sent: bool = False


class Requests:
    """The requests that are under way on one connection, and what the node pushes for
    subscriptions.
    """

    def __init__(self, socket: FrameSocket, welcome: api.Welcome, doubt: str = "") -> None:
        """Make the requests of a connection.

        Args:
            doubt: why the node is trusted only with reads, for people; "": it is trusted.
        """
        self._socket = socket
        self._doubt = doubt
        self._node = welcome.node
        self._limits = welcome
        self._next_number = welcome.id + 1
        self._calls: dict[int, _Call] = {}
        self._in_flight_bytes = 0
        self._followers: dict[int, Follower] = {}
        self._outbox: deque[tuple[bytes, _Call | None]] = deque()
        self._to_send = trio.Event()
        self._turn = trio.Lock()
        self._room = trio.Event()
        self._owes_since_s = math.inf
        self._running = trio.CancelScope()
        self._ended = ""

    @property
    def unanswered_count(self) -> int:
        """The number of requests that are under way."""
        return len(self._calls)

    @property
    def quiet_since_s(self) -> float:
        """The time (Trio's) since which the node has owed an answer and sent nothing; inf: it owes
        none.
        """
        if not (self._calls or self._followers):
            return math.inf
        return max(self._owes_since_s, self._socket.heard_s)

    def number(self) -> int:
        """Return the number for the next request. Raises: Closed."""
        if self._ended:
            raise Closed(self._ended)
        self._next_number += 1
        return self._next_number - 1

    async def ask(
        self, answer: type[F], make: Callable[[int], api.Request], *, in_doubt: bool = False
    ) -> F:
        return await self.answered(lambda number: checked(make(number)), answer, in_doubt=in_doubt)

    async def answered(self, make: Callable[[int], bytes], answer: type[F], *, in_doubt: bool) -> F:
        done = trio.Event()
        outcomes: list[F | TriologError] = []

        def settle(outcome: F | TriologError) -> None:
            outcomes.append(outcome)
            done.set()

        await self.begin(make, answer, settle, in_doubt=in_doubt)
        await done.wait()
        (outcome,) = outcomes
        if isinstance(outcome, TriologError):
            raise outcome
        return outcome

    async def begin(
        self,
        make: Callable[[int], bytes],
        answer: type,
        settle: Callable[[Any], None],
        *,
        in_doubt: bool,
    ) -> None:
        """Send a request when it is its turn; return when it is queued.

        Raises: Closed, RequestRefused, or what `make` raises; nothing was sent then.
        """
        if in_doubt:
            self.check_trusted()
        number = self.number()
        data = make(number)
        if self._turn.locked() or not self._has_room(len(data)):
            async with self._turn:  # first come, first served
                while not self._ended and not self._has_room(len(data)):
                    self._room = trio.Event()
                    await self._room.wait()
        if self._ended:
            raise Closed(self._ended)
        self._will_owe()
        call = _Call(answer=answer, settle=settle, size_bytes=len(data), in_doubt=in_doubt)
        self._calls[number] = call
        self._in_flight_bytes += call.size_bytes
        self._put(data, call)

    def check_trusted(self) -> None:
        """Refuse anything but a read on a connection to a node that is not trusted.

        The node would refuse it, too, but a program that has taken the node's address would not.
        Raises: RequestRefused.
        """
        if self._doubt:
            text = f"only reads pass there: {self._doubt}; or use the node's Unix socket"
            raise RequestRefused(api.ERROR_PERMISSION, text)

    def _has_room(self, size_bytes: int) -> bool:
        """Whether a request may be sent now. One that is above the bound may go alone, as the node
        allows.
        """
        limits = self._limits
        return len(self._calls) < limits.in_flight_requests_max and (
            not self._calls or self._in_flight_bytes + size_bytes <= limits.in_flight_bytes_max
        )

    def follow(self, frame: api.Request, follower: Follower) -> None:
        data = checked(frame)
        self._will_owe()
        self._followers[frame.id] = follower
        self._put(data, None)

    def send_soon(self, frame: api.Request) -> None:
        if not self._ended:
            self._put(encoded(frame), None)

    def _will_owe(self) -> None:
        if not (self._calls or self._followers):
            self._owes_since_s = trio.current_time()

    def _put(self, data: bytes, call: _Call | None) -> None:
        self._outbox.append((data, call))
        self._to_send.set()

    # The connection's own tasks.

    async def run(self) -> None:
        """Serve this connection until it has ended; for `connect`."""
        with self._running:
            async with trio.open_nursery() as nursery:
                for task in (self._receive, self._send, self._probe):
                    nursery.start_soon(self._run_until_ended, task)

    async def _run_until_ended(self, task: Callable[[], Any]) -> None:
        try:
            await task()
        except SocketClosed as error:
            self.end(error.reason)
        except RemoteProtocolError as error:
            self.end(f"the node does not keep to the protocol: {error}")
            await self._socket.close(frame_socket.PROTOCOL_ERROR, str(error))
        self._running.cancel()

    async def _receive(self) -> None:
        while True:
            for frame in gather.decode_answers(await self._socket.receive()):
                self._dispatch(frame)

    async def _send(self) -> None:
        while True:
            while self._outbox:
                await self._socket.send(self._gather())
            self._to_send = trio.Event()
            await self._to_send.wait()

    def _gather(self) -> bytes | str:
        """Return what waits, oldest first, as much as one message takes."""
        many = self._limits.version >= gather.VERSION_GATHERED
        frames: list[bytes | str] = []
        size = 0
        while self._outbox and len(frames) < (gather.FRAMES_PER_MESSAGE_MAX if many else 1):
            data, call = self._outbox[0]
            size += len(data)
            if frames and size > gather.GATHERED_BYTES_MAX:
                break
            self._outbox.popleft()
            if call is not None:
                call.sent = True
            frames.append(data)
        return gather.gathered(frames)

    async def _probe(self) -> None:
        while True:
            await self.wait_silent(PROBE_INTERVAL_S)
            with trio.move_on_after(PROBE_TIMEOUT_S) as scope:
                await self._socket.ping()
            if scope.cancelled_caught:
                raise SocketClosed(f"it sent nothing for {PROBE_INTERVAL_S + PROBE_TIMEOUT_S:g} s")

    async def wait_silent(self, silent_s: float) -> None:
        """Return once the node has owed an answer, and sent nothing at all, for `silent_s`
        seconds.
        """
        while True:
            now_s, due_s = trio.current_time(), self.quiet_since_s + silent_s
            if now_s >= due_s:
                return
            # It is infinite while nothing is owed; an answer that becomes owed now is due no
            # earlier.
            await trio.sleep_until(min(due_s, now_s + silent_s))

    def _dispatch(self, frame: api.Answer) -> None:
        number = frame.id
        if number is None:
            assert isinstance(frame, api.Failed)
            raise SocketClosed(f"{frame.error}: {frame.message}")
        call = self._calls.pop(number, None)
        if call is not None:
            self._answer(call, frame)
        elif number in self._followers:
            self._push(number, frame)
        elif not isinstance(frame, api.Failed) or number >= self._next_number:
            # Only a `failed` can cross with the `cancel` of a request that has ended.
            raise RemoteProtocolError(
                f"found {type(frame).__name__} for request {number}, which is not under way"
            )

    def _answer(self, call: _Call, frame: api.Answer) -> None:
        self._in_flight_bytes -= call.size_bytes
        self._room.set()
        if isinstance(frame, api.Failed):
            call.settle(to_error(frame))
        elif isinstance(frame, call.answer):
            call.settle(frame)
        else:
            reason = f"expected {call.answer.__name__}, found {type(frame).__name__}"
            call.settle(self._loss(call, reason))
            raise RemoteProtocolError(reason)

    def _push(self, number: int, frame: api.Answer) -> None:
        match frame:
            case api.Failed():
                self._followers.pop(number).end(lambda: to_error(frame))
            case api.Ended():
                self._followers.pop(number).end(None)
            case _:
                self._followers[number].take(frame)

    def give_up(self, reason: str) -> None:
        """End the connection from this side; nothing that waits is sent any more."""
        self.end(reason)
        self._running.cancel()

    def end(self, reason: str) -> None:
        """Fail every request that has no answer, and take no more. Only the first reason counts."""
        if self._ended:
            return
        self._outbox.clear()  # what fails as never sent must not be sent
        ended = self._ended = f"the connection to {self._node} has ended: {reason}"
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.settle(self._loss(call, reason))
        followers, self._followers = self._followers, {}
        for follower in followers.values():
            follower.end(lambda: Closed(ended))
        self._room.set()

    def _loss(self, call: _Call, reason: str) -> TriologError:
        text = f"the connection to {self._node} ended before the answer: {reason}"
        return NodeStopped(text) if call.in_doubt and call.sent else Closed(text)


def encoded(frame: api.Request) -> bytes:
    """Encode a frame. Raises: TooLarge if it is above a frame's limit, RequestRefused if it is no
    valid frame.
    """
    try:
        data = api.encode(frame)
    except LocalProtocolError as error:
        if error.__cause__ is None:
            raise TooLarge(str(error)) from error
        raise RequestRefused(api.ERROR_BAD_REQUEST, str(error)) from error
    assert isinstance(data, bytes)
    return data


def checked(frame: api.Request) -> bytes:
    """Encode a frame that may hold values out of range, for which the node would end the
    connection.

    Raises: RequestRefused: a value is out of range. TooLarge.
    """
    data = encoded(frame)
    try:
        api.decode_request(data)
    except RemoteProtocolError as error:
        raise RequestRefused(api.ERROR_BAD_REQUEST, str(error)) from error
    return data
