"""What a client follows: a log, the events, a group's offsets. Each is fed by the reader task."""

from __future__ import annotations

from collections import deque
from typing import Generic, Protocol, TypeVar

import trio

from actors.api import convert
from actors.api.failures import RequestRefused, to_error
from actors.events.sink import EventLines
from actors.log_types import Batch, Offsets
from wire import api

F = TypeVar("F", api.Batch, api.Events, api.Offsets)


class Connection(Protocol):
    """What a following needs of its client."""

    async def follow(self, following: Following[F], request: api.Request) -> None: ...
    def post_now(self, request: api.Request) -> None: ...
    def forget(self, request: int) -> None: ...


class Following(Generic[F]):
    """One subscription: frames come in by `take`, its user takes them with `next_frame`.

    Credit bounds what waits: it is given back as frames are taken. Offsets need none, for only the
    newest is kept.
    """

    def __init__(self, connection: Connection, request: api.Request, kind: type[F]) -> None:
        assert request.id is not None
        self._connection = connection
        self._request = request
        self._id: int = request.id
        self._kind: type[F] = kind
        self._frames: deque[F] = deque()
        self._error: Exception | None = None
        self._state = "new"  # open, ended, closed
        self._arrived = trio.Event()
        self._owed = 0

    async def next_frame(self) -> F:
        """Raises: trio.EndOfChannel, trio.ClosedResourceError, or why it failed."""
        if self._state == "new":
            self._state = "open"
            await self._connection.follow(self, self._request)
        while not self._frames:
            if self._state == "closed":
                raise trio.ClosedResourceError
            if self._error is not None:
                raise self._error
            if self._state == "ended":
                raise trio.EndOfChannel
            self._arrived = trio.Event()
            await self._arrived.wait()
        return self._frames.popleft()

    def give_back(self, amount: int, granted: int) -> None:
        """Grant what was taken, a quarter of the whole credit at a time."""
        self._owed += amount
        if self._owed * 4 >= granted and self._state == "open":
            self._connection.post_now(api.Grant(id=self._id, credit=self._owed))
            self._owed = 0

    def close(self) -> None:
        """No more frames; harmless when closed."""
        if self._state == "open":
            self._connection.post_now(api.Cancel(id=self._id))
        self._connection.forget(self._id)
        self._state = "closed"
        self._frames.clear()
        self._arrived.set()

    # For the client's reader task.

    def take(self, answer: api.Answer) -> None:
        if isinstance(answer, self._kind):
            if self._kind is api.Offsets:
                self._frames.clear()
            self._frames.append(answer)
            self._arrived.set()
        elif isinstance(answer, api.Ended):
            self._end(None)
        elif isinstance(answer, api.Failed):
            self._end(to_error(answer))
        else:
            self._end(RequestRefused(api.ERROR_INTERNAL, f"unexpected answer {answer!r}"[:200]))

    def end(self, error: Exception) -> None:
        """The connection has ended: what came before can still be taken."""
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        if self._state in ("new", "open"):
            self._state = "ended"
            self._error = error
            self._connection.forget(self._id)
        self._arrived.set()


class Tail(trio.abc.ReceiveChannel[Batch]):
    """A group's acknowledged records as they come; made by `Client.tail`.

    Attributes:
        position: where the next batch starts; None before the first if it starts at the end.
    """

    def __init__(self, connection: Connection, request: api.Tail) -> None:
        self._following: Following[api.Batch] = Following(connection, request, api.Batch)
        self._credit = request.credit_bytes
        self.position = request.start

    async def receive(self) -> Batch:
        """The next batch, with at least one record.

        Raises: trio.ClosedResourceError if it has been closed; Closed if the connection has ended;
            RequestRefused for an unknown group or a start that is no record's.
        """
        frame = await self._following.next_frame()
        self._following.give_back(frame.cost_bytes, self._credit)
        self.position = frame.next
        return convert.to_batch(frame)

    async def aclose(self) -> None:
        """No more batches; harmless when closed."""
        self._following.close()
        await trio.lowlevel.checkpoint()


class EventTail(trio.abc.ReceiveChannel[EventLines]):
    """A node's events as lines; made by `Client.events`."""

    def __init__(self, connection: Connection, request: api.TailEvents) -> None:
        self._following: Following[api.Events] = Following(connection, request, api.Events)
        self._credit = request.credit_lines

    async def receive(self) -> EventLines:
        """At least one line. Raises: as `Tail.receive`; trio.EndOfChannel when the node ends."""
        frame = await self._following.next_frame()
        self._following.give_back(len(frame.lines), self._credit)
        return EventLines(lines=tuple(line.encode() for line in frame.lines), missed=frame.missed)

    async def aclose(self) -> None:
        """No more lines; harmless when closed."""
        self._following.close()
        await trio.lowlevel.checkpoint()


class OffsetsWatch:
    """A group's newest offsets, as they change."""

    def __init__(self, connection: Connection, request: api.WatchOffsets) -> None:
        self._following: Following[api.Offsets] = Following(connection, request, api.Offsets)

    async def receive(self) -> Offsets:
        """The newest that has not been received. Raises: as `Tail.receive`."""
        return convert.to_offsets(await self._following.next_frame())

    def close(self) -> None:
        self._following.close()
