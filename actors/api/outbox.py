"""The frames that one connection has to send, in as few messages as possible, from two queues.

Answers to requests are one queue, pushes and the ends of their subscriptions the other. Each is
sent in order, and they take turns, so an answer waits for one push at most, which may be a thousand
times as long.

Any task adds frames; the connection's actor sends them. The unanswered requests and the
subscriptions of the connection bound it: each has at most one frame here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs
import trio

from actors.api.frame_socket import FrameSocket, SocketClosed
from wire.api import frames as api
from wire.api import gather as api_gather


@attrs.define(eq=False)
class _Waiting:
    """One frame, encoded or not yet.

    Attributes:
        request: the number of the request that it answers.
    """

    frame: api.Answer | bytes | str
    request: int | None
    room: int | None
    sent: trio.Event | None


@attrs.define(eq=False)
class Outbox:
    """See the module's text.

    Attributes:
        encode: makes a message of any answer; it does not fail.
        on_answered: called with a request's number when its answer is about to be sent.
        on_sent: called with a room's number when its frame has been sent.
        gather: whether the client takes several frames in one message.
    """

    _encode: Callable[[api.Answer], bytes | str]
    _on_answered: Callable[[int], None]
    _on_sent: Callable[[int], None]
    gather: bool = False
    _answers: deque[_Waiting] = attrs.field(factory=deque)
    _others: deque[_Waiting] = attrs.field(factory=deque)
    _others_turn: bool = False

    def __len__(self) -> int:
        return len(self._answers) + len(self._others)

    def put(
        self,
        frame: api.Answer | bytes | str,
        *,
        request: int | None = None,
        room: int | None = None,
        sent: trio.Event | None = None,
    ) -> None:
        """Add a frame behind those that wait in its queue.

        Args:
            frame: an answer, or an encoded frame.
            request: the number of the request that it answers.
            room: the room in which it is counted until it is sent.
            sent: set when it is on its way.
        """
        line = self._others if request is None else self._answers
        line.append(_Waiting(frame, request, room, sent))

    async def send(self, client: FrameSocket, timeout_s: float) -> str:
        """Send the frames that wait now.

        Later ones wait for the next call, so that requests are read in between.

        Args:
            timeout_s: how long each message may take.

        Returns: why the connection has ended meanwhile; "" if it has not.
        """
        left = len(self)
        while left > 0:
            taken, data = self._take()
            left -= len(taken)
            for each in taken:
                if each.request is not None:
                    self._on_answered(each.request)
            try:
                with trio.move_on_after(timeout_s) as scope:
                    await client.send(data)
            except SocketClosed as error:
                return "client closed" if error.orderly else error.reason
            if scope.cancelled_caught:
                return "too slow"
            for each in taken:
                if each.room is not None:
                    self._on_sent(each.room)
                if each.sent is not None:
                    each.sent.set()
        return ""

    def _take(self) -> tuple[list[_Waiting], bytes | str]:
        """Remove the oldest frame of the queue whose turn it is, and those that fit beside it.

        Returns: these frames, and the message that carries them.
        """
        count_max = api_gather.FRAMES_PER_MESSAGE_MAX if self.gather else 1
        lines = [self._answers, self._others]
        if self._others and (self._others_turn or not self._answers):
            lines.reverse()
        self._others_turn = lines[0] is self._answers
        frames: list[bytes | str] = []
        taken: list[_Waiting] = []
        size = 0
        while (line := lines[0] or lines[1]) and len(frames) < count_max:
            first = line[0]
            if not isinstance(first.frame, bytes | str):
                first.frame = self._encode(first.frame)
            size += len(first.frame)
            if frames and size > api_gather.GATHERED_BYTES_MAX:
                break
            taken.append(line.popleft())
            frames.append(first.frame)
        return taken, api_gather.gathered(frames)
