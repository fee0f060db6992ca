"""What a node pushes to a client: batches and events within a credit, and a group's offsets.

The connection's reader task adds to these and never waits: the credit that a subscription has
granted bounds what it may hold, and only the newest offsets are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeAlias, TypeVar

import attrs
import trio

from actors.api import convert
from actors.errors import Closed, CorruptLog, TriologError
from actors.log_types import Batch, Offsets
from actors.records import decoded
from wire.api import frames
from wire.errors import RemoteProtocolError

T = TypeVar("T")

TAIL_CREDIT_BYTES = 1 << 20
"""Four batches of the default size: the next one is under way while one is handled."""
EVENTS_CREDIT_LINES = 1024
WATCH_IDLE_PUSHES = 64
"""After so many pushes of offsets that nobody waited for, the node is asked to stop."""

Why: TypeAlias = Callable[[], TriologError]
"""Makes the error with which a subscription has ended, anew for each task that waits."""
Send: TypeAlias = Callable[[frames.Request], None]
"""Queues a small frame for sending; never waits."""


@attrs.frozen
class EventBatch:
    """Lines of the node's event log.

    Attributes:
        missed: how many lines before them were lost because this client was too slow.
    """

    lines: tuple[str, ...]
    missed: int


class Follower(Protocol):
    """Takes what the node pushes for one request. Never waits."""

    def take(self, frame: frames.Answer) -> None:
        """Take one push. Raises: RemoteProtocolError: it does not belong to this kind of
        request.
        """

    def end(self, why: Why | None) -> None:
        """Note that nothing more comes.

        Args:
            why: makes the error; None: the client has ended it, or the node has nothing more.
        """


class Subscription(trio.abc.ReceiveChannel[T], Generic[T]):
    """A channel of what the node pushes, in order; credit is granted as items are received.

    `Client.tail` and `Client.events` make it. Its user has to close it (`async with`).
    """

    def __init__(
        self,
        request: int,
        credit: int,
        read: Callable[[frames.Answer], tuple[Callable[[], T], int]],
        send: Send,
    ) -> None:
        """Make a subscription.

        Args:
            read: returns, for a push, a function that makes the item, and the item's cost in
                credit; raises RemoteProtocolError for a push of another kind.
        """
        self._request = request
        self._credit = credit
        self._read = read
        self._send = send
        self._items: deque[tuple[Callable[[], T], int]] = deque()
        self._left = credit
        self._received_cost = 0
        self._why: Why | None = None
        self._ended = False
        self._closed = False
        self._more = trio.Event()

    async def receive(self) -> T:
        """Return the next item.

        Raises:
            trio.EndOfChannel: the node sends nothing more.
            trio.ClosedResourceError: this channel has been closed.
            TriologError: the subscription failed, the connection was lost (Closed), or what the
                node has sent is damaged (CorruptLog).
        """
        await trio.lowlevel.checkpoint()
        while True:
            if self._closed:
                raise trio.ClosedResourceError
            if self._items:
                make, cost = self._items.popleft()
                self._grant(cost)
                return make()
            if self._ended:
                if self._why is not None:
                    raise self._why()
                raise trio.EndOfChannel
            self._more = trio.Event()
            await self._more.wait()

    async def aclose(self) -> None:
        """Ask the node to stop pushing. It may be called again."""
        if not self._closed:
            self._closed = True
            self._items.clear()
            if not self._ended:
                self._send(frames.Cancel(id=self._request))
            self._more.set()
        await trio.lowlevel.checkpoint()

    def take(self, frame: frames.Answer) -> None:
        item, cost = self._read(frame)
        if self._left <= 0:
            raise RemoteProtocolError(f"pushed more than the credit of {self._credit}")
        self._left -= cost
        if not self._closed:
            self._items.append((item, cost))
            self._more.set()

    def end(self, why: Why | None) -> None:
        self._ended = True
        self._why = why
        self._more.set()

    def _grant(self, cost: int) -> None:
        """Grant the cost again, half a credit at a time, so that grants are few."""
        self._received_cost += cost
        if self._received_cost * 2 >= self._credit and not self._ended:
            given = min(self._received_cost, frames.CREDIT_MAX)
            self._received_cost -= given
            self._left += given
            self._send(frames.Grant(id=self._request, credit=given))


def read_batch(frame: frames.Answer) -> tuple[Callable[[], Batch], int]:
    """Read a push of a tail. The receiver decodes it, so that other answers do not wait for
    that.
    """
    if not isinstance(frame, frames.Batch | frames.Stored):
        raise RemoteProtocolError(f"a tail was pushed {type(frame).__name__}")
    return lambda: _whole(frame), frame.cost_bytes


def _whole(frame: frames.Batch | frames.Stored) -> Batch:
    """Decode all that was pushed. Nothing may be missing, because the next push continues after it.

    Raises: CorruptLog if a record is damaged. The receiver may then read the records before it.
    """
    batch = decoded(convert.to_batch(frame))
    if batch.next < frame.next:
        raise CorruptLog(f"the record at {batch.next} was pushed damaged")
    return batch


def read_events(frame: frames.Answer) -> tuple[Callable[[], EventBatch], int]:
    """Read a push of an event subscription."""
    if not isinstance(frame, frames.Events):
        raise RemoteProtocolError(f"a subscription of events was pushed {type(frame).__name__}")
    return lambda: EventBatch(frame.lines, frame.missed), len(frame.lines)


class OffsetsWatch:
    """One group's offsets as the node pushes them, shared by all tasks that wait for them.

    It stays open for a while when nobody waits, because a reader at the log's end waits again soon.

    Attributes:
        over: whether no task may begin to wait here, because the watch has ended or the node was
            asked to stop.
    """

    def __init__(self, request: int, send: Send) -> None:
        self._request = request
        self._send = send
        self._newest: Offsets | None = None
        self._waiting_count = 0
        self._idle_pushes = 0
        self._why: Why | None = None
        self._changed = trio.Event()
        self.over = False

    async def wait(self, ready: Callable[[Offsets], bool]) -> Offsets:
        """Return the first offsets for which `ready` is true. Raises: TriologError, as a
        subscription does.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self._waiting_count += 1
        try:
            while True:
                if self._newest is not None and ready(self._newest):
                    return self._newest
                if self._why is not None:
                    raise self._why()
                await self._changed.wait()
        finally:
            self._waiting_count -= 1

    def take(self, frame: frames.Answer) -> None:
        if not isinstance(frame, frames.Offsets):
            raise RemoteProtocolError(f"a watch of offsets was pushed {type(frame).__name__}")
        self._newest = convert.to_offsets(frame)
        self._idle_pushes = 0 if self._waiting_count else self._idle_pushes + 1
        if self._idle_pushes >= WATCH_IDLE_PUSHES and not self.over:
            self.over = True
            self._send(frames.Cancel(id=self._request))
        self._wake()

    def end(self, why: Why | None) -> None:
        self.over = True
        self._why = why or (lambda: Closed("the node ended the watch of its offsets"))
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
