"""What one connection has to send: answers and pushes in order, as few messages as it takes.

Any task puts in; the connection's actor sends. It is bounded by the unanswered
requests and the subscriptions of the connection: each has at most one frame here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs
import trio

from actors.api.frame_socket import FrameSocket, SocketClosed
from wire import api, api_gather


@attrs.define(eq=False)
class _Waiting:
    """One frame, encoded or not yet. `request`: the one that it answers."""

    frame: api.Answer | bytes | str
    request: int | None
    room: int | None
    sent: trio.Event | None


@attrs.define(eq=False)
class Outbox:
    """See the module's text.

    Attributes:
        encode: makes a message of an answer, whatever is in it.
        on_answered: told a request's number when its answer is about to be sent.
        on_sent: told a room's number when what is in it has been sent.
        gather: whether the client takes many frames in a message.
    """

    _encode: Callable[[api.Answer], bytes | str]
    _on_answered: Callable[[int], None]
    _on_sent: Callable[[int], None]
    gather: bool = False
    _waiting: deque[_Waiting] = attrs.field(factory=deque)

    def __len__(self) -> int:
        return len(self._waiting)

    def put(
        self,
        frame: api.Answer | bytes | str,
        *,
        request: int | None = None,
        room: int | None = None,
        sent: trio.Event | None = None,
    ) -> None:
        """Have a frame sent after those that wait.

        Args:
            frame: an answer, or what is encoded already.
            request: the request whose answer this is.
            room: where it is counted until it is sent.
            sent: set when it is on its way.
        """
        self._waiting.append(_Waiting(frame, request, room, sent))

    async def send(self, client: FrameSocket, timeout_s: float) -> str:
        """Send what waits now; what comes meanwhile has to wait its turn, so that requests are
        heard whatever is pushed.

        Args:
            timeout_s: for each message.

        Returns: why the connection has ended by it; "" if it has not.
        """
        left = len(self._waiting)
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
        """The oldest frame and what may go with it, and their message."""
        count_max = api_gather.FRAMES_PER_MESSAGE_MAX if self.gather else 1
        frames: list[bytes | str] = []
        taken: list[_Waiting] = []
        size = 0
        while self._waiting and len(frames) < count_max:
            first = self._waiting[0]
            if not isinstance(first.frame, bytes | str):
                first.frame = self._encode(first.frame)
            size += len(first.frame)
            if frames and size > api_gather.GATHERED_BYTES_MAX:
                break
            taken.append(self._waiting.popleft())
            frames.append(first.frame)
        return taken, api_gather.gathered(frames)
