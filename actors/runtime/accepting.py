"""`Accepting`: takes connections at one address and has each become a child of `connections`.

    @attrs.define(kw_only=True)
    class Listener(Accepting):
        async def listen(self) -> Listener: ...
        async def admit(self, stream: Stream) -> Admitted | None: ...

`connections` is a dynamic supervisor, started before it: the connections outlive a restart of the
listener, which stops first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TypeAlias, assert_never

import attrs
import trio

from actors.env.protocols import Listener, Stream
from actors.runtime import dynamic, requests
from actors.runtime.actor import Actor
from actors.runtime.mailbox import MailboxSpec, StopReason
from actors.runtime.ref import ActorRef
from actors.runtime.spec import ChildSpec

START_TIMEOUT_S = 5.0
"""The seconds that a connection's actors may take to start; they wait for no other actor."""
UNOWNED_MAX = 16
"""How many accepted streams may be without an actor. Further ones wait in the system's backlog, so
that a flood of connections cannot use up the descriptors that others need."""
UNKNOWN_ADDRESS = "unknown address"
FULL = "too many connections"
NOT_STARTED = "could not start"


@attrs.frozen(kw_only=True)
class Admitted:
    """A stream that may become a connection.

    Attributes:
        connection: its number, which does not repeat.
        child: its specification, which owns the stream once it has started.
    """

    connection: int
    child: ChildSpec


@attrs.frozen(kw_only=True)
class _Accepted:
    """Feeder: a stream is in `_arrived`."""


@attrs.frozen(kw_only=True)
class _StartAnswered:
    """The answer of `connections` to the start of a connection."""

    connection: int
    outcome: dynamic.Started | requests.Refused | Exception


Inbox: TypeAlias = _Accepted | _StartAnswered


@attrs.define(kw_only=True)
class Accepting(Actor[Inbox]):
    """Base of actors that accept connections. A restart forgets the counts of refused streams.

    Attributes:
        connections: the dynamic supervisor; None: the sibling of that name.
    """

    mailbox = MailboxSpec(capacity=UNOWNED_MAX)

    connections: ActorRef[dynamic.Message] | None = None
    _listener: Listener | None = attrs.field(default=None, init=False)
    _arrived: deque[Stream] = attrs.field(factory=deque, init=False)
    _starting: dict[int, Stream] = attrs.field(factory=dict, init=False)
    _room: trio.Event = attrs.field(factory=trio.Event, init=False)
    _refused: dict[str, int] = attrs.field(factory=dict, init=False)  # reason -> count

    @abstractmethod
    async def listen(self) -> Listener | None:
        """Listen, and return the listener, or None if there is no address to listen at.

        Raises:
            ConfigError: the address cannot be used.
        """

    @abstractmethod
    async def admit(self, stream: Stream) -> Admitted | None:
        """Return how a stream becomes a connection; None if its address may not connect."""

    async def refused(self, stream: Stream, reason: str, connection: int | None) -> None:
        """Note that a stream was closed without an owner.

        This implementation counts such streams, and calls `report_refused`.

        Args:
            reason: UNKNOWN_ADDRESS, FULL or NOT_STARTED.
            connection: the number of a connection that was admitted and could not start.
        """
        count = self._refused[reason] = self._refused.get(reason, 0) + 1
        if count & (count - 1) == 0:
            self.report_refused(stream, reason, count)

    def report_refused(self, stream: Stream, reason: str, count: int) -> None:
        """Report the 1st, 2nd, 4th, 8th and so on of the streams that were closed for this reason.

        So a flood of streams is no flood of events.
        """

    async def on_start(self) -> None:
        if self.connections is None:
            self.connections = self.ctx.ref(f"{self.ctx.path.rpartition('/')[0]}/connections")
        listener = self._listener = await self.listen()
        if listener is not None:
            self.ctx.spawn(self._feed, listener)

    async def handle(self, message: Inbox) -> None:
        match message:
            case _Accepted():
                await self._accepted()
            case _StartAnswered():
                await self._start_answered(message)
            case _:
                assert_never(message)
        self._room.set()

    async def on_stop(self, reason: StopReason) -> None:
        for stream in (*self._arrived, *self._starting.values()):
            stream.abort()
        if self._listener is not None:
            await self._listener.aclose()

    async def _feed(self, listener: Listener) -> None:
        while True:
            await self.room()
            await self.greet(await listener.accept())

    async def room(self) -> None:
        """Wait until one more stream may be taken. The caller takes it without awaiting before."""
        while len(self._arrived) + len(self._starting) >= UNOWNED_MAX:
            if self._room.is_set():  # Several may wait: all for the same event.
                self._room = trio.Event()
            await self._room.wait()

    async def greet(self, stream: Stream) -> None:
        """Keep an accepted stream until it is passed to `take`, or is aborted.

        An override that takes it later waits for `room` first.
        """
        await self.take(stream)

    async def take(self, stream: Stream) -> None:
        """Admit a stream, and make a connection of it."""
        # Kept here until it has an owner: a message that is never read would lose the stream.
        self._arrived.append(stream)
        await self.ctx.self_ref.tell(_Accepted())

    async def _accepted(self) -> None:
        stream = self._arrived[0]
        admitted = await self.admit(stream)  # a crash in here leaves it to on_stop
        self._arrived.popleft()
        if admitted is None:
            stream.abort()
            await self.refused(stream, UNKNOWN_ADDRESS, None)
            return
        assert self.connections is not None
        connection, child = admitted.connection, admitted.child
        self._starting[connection] = stream
        self.ctx.ask_later(
            self.connections,
            (dynamic.Started, requests.Refused),
            lambda reply_to: dynamic.StartChild(child=child, reply_to=reply_to),
            timeout_s=START_TIMEOUT_S,
            on_reply=lambda outcome: _StartAnswered(connection=connection, outcome=outcome),
        )

    async def _start_answered(self, message: _StartAnswered) -> None:
        stream = self._starting.pop(message.connection)
        outcome = message.outcome
        if isinstance(outcome, dynamic.Started):
            return
        stream.abort()
        is_full = isinstance(outcome, requests.Refused) and outcome.error is None
        await self.refused(stream, FULL if is_full else NOT_STARTED, message.connection)
