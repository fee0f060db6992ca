"""One connection to a node's API socket, with many requests under way on it.

Two tasks: one reads and hands every frame to whom it belongs, one sends what waits. A caller that
is cancelled therefore never breaks the connection; its answer is dropped when it comes.

Bounds: the node's own limits from its `welcome` (unanswered requests, and bytes of their frames);
callers wait their turn in order. What a subscription may hold is bounded by its credit.

When the connection ends, requests that were not handed to the socket fail with `Closed`; appends
that were, with `NodeStopped`, an unknown outcome.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import attrs
import trio

from actors.api import convert, frame_socket
from actors.api.failures import to_error
from actors.api.frame_socket import FrameSocket, SocketClosed
from actors.api.handle import AppendOutcome, NodeIdentity
from actors.client.following import (
    EVENTS_CREDIT_LINES,
    TAIL_CREDIT_BYTES,
    EventBatch,
    Follower,
    OffsetsWatch,
    Subscription,
    read_batch,
    read_events,
)
from actors.env.protocols import Address
from actors.errors import Closed, NodeStopped, TooLarge, TriologError
from actors.log import READ_BYTES_DEFAULT, Log
from actors.log_types import Batch, NewRecord, Offsets, Receipt
from wire import api
from wire.errors import RemoteProtocolError

CONNECT_TIMEOUT_S = 5.0
"""From the first packet to the node's welcome."""
PROBE_INTERVAL_S = 10.0
"""A node that owes something and was silent for so long is asked whether it lives."""
PROBE_TIMEOUT_S = 30.0
"""And is given up after so long a silence: a machine that is gone sends no word of it."""

Target: TypeAlias = str | tuple[str, int] | Address
"""A Unix socket's path, or host and port."""
F = TypeVar("F", bound=api.Answer)


@attrs.define(eq=False)
class _Call:
    """A request that has no answer yet.

    Attributes:
        answer: the class of its answer.
        settle: takes the answer or the error; neither raises nor yields.
        in_doubt: the node may act on it, so its loss after `sent` is an unknown outcome.
    """

    answer: type
    settle: Callable[[Any], None]
    size_bytes: int
    in_doubt: bool
    sent: bool = False


class Client:
    """One node, asked over its API socket. Made by `connect`.

    It stands behind the same `Log` as a node in this process does. Every method may raise `Closed`
    when the connection has ended, and `RequestRefused` where the node does not answer it.

    Attributes:
        identity: the node's cluster, name, boot and groups.
        in_flight_requests_max: unanswered requests that the node allows this connection.
    """

    def __init__(self, socket: FrameSocket, welcome: api.Welcome, address: Address) -> None:
        self._socket = socket
        self._address = address
        self._limits = welcome
        self.in_flight_requests_max = welcome.in_flight_requests_max
        self.identity = NodeIdentity(
            cluster=welcome.cluster, node=welcome.node, boot=welcome.boot, groups=welcome.groups
        )
        self._next_number = welcome.id + 1
        self._calls: dict[int, _Call] = {}
        self._in_flight_bytes = 0
        self._followers: dict[int, Follower] = {}
        self._watches: dict[str, OffsetsWatch] = {}
        self._outbox: deque[tuple[bytes, _Call | None]] = deque()
        self._to_send = trio.Event()
        self._turn = trio.Lock()
        self._room = trio.Event()
        self._frames_count = 0
        self._ended = ""

    def __repr__(self) -> str:
        return f"<Client of {self.identity.node} at {self._address}>"

    def log(self, group: str) -> Log:
        """The log of one of the node's groups. Raises: KeyError if it has no such group."""
        if group not in self.identity.groups:
            raise KeyError(f"{self.identity.node} is no member of group {group!r}")
        return Log(self, group)

    # Appending.

    async def submit(
        self, group: str, records: tuple[NewRecord, ...], on_done: Callable[[AppendOutcome], None]
    ) -> None:
        """Hand over one batch; return when the connection has room for it.

        Batches of one task enter the log in the order of its calls. Later errors reach `on_done`,
        exactly once.

        Raises: Closed, TooLarge, RequestRefused: nothing was sent.
        """

        def settle(answer: api.Appended | TriologError) -> None:
            on_done(answer if isinstance(answer, TriologError) else convert.to_receipt(answer))

        def make(number: int) -> bytes:
            return self._append_frame(number, group, records)

        await self._begin(make, api.Appended, settle, in_doubt=True)

    async def append(self, group: str, records: tuple[NewRecord, ...]) -> Receipt:
        """Append one batch and wait for its receipt. Raises: NotStored, OutcomeUnknown."""

        def make(number: int) -> bytes:
            return self._append_frame(number, group, records)

        return convert.to_receipt(await self._answered(make, api.Appended, in_doubt=True))

    def _append_frame(self, number: int, group: str, records: tuple[NewRecord, ...]) -> bytes:
        most = self._limits.records_per_append_max
        if len(records) > most:
            raise TooLarge(f"a batch of {len(records)} records is above the node's limit, {most}")
        frame = api.Append(id=number, group=group, records=convert.from_new_records(records))
        plain = all(type(record) is bytes for record in records)
        if plain and records and group in self.identity.groups:
            return _encoded(frame)  # nothing in it can be out of range
        return _checked(frame)

    # Reading.

    async def read(self, group: str, start: int, max_bytes: int, fresh: bool) -> Batch:
        """What is acknowledged from `start` on. See `NodeHandle.read`."""
        size = min(max_bytes, api.READ_BYTES_MAX)
        return convert.to_batch(
            await self._ask(
                api.Batch,
                lambda number: api.Read(
                    id=number, group=group, start=start, max_bytes=size, fresh=fresh
                ),
            )
        )

    async def wait_acknowledged(self, group: str, above: int) -> Offsets:
        """Return once the acknowledged end is above `above`."""
        return await self._watch(group).wait(lambda offsets: offsets.acknowledged > above)

    async def wait_offsets(self, group: str, known: Offsets | None) -> Offsets:
        """Return once the offsets differ from `known`; at once if `known` is None."""
        if known is not None:
            return await self._watch(group).wait(lambda offsets: offsets != known)
        answer = await self._ask(api.Offsets, lambda number: api.GetOffsets(id=number, group=group))
        return convert.to_offsets(answer)

    def tail(
        self,
        group: str,
        start: int | None = None,
        *,
        batch_bytes: int = READ_BYTES_DEFAULT,
        credit_bytes: int = TAIL_CREDIT_BYTES,
    ) -> Subscription[Batch]:
        """Acknowledged records as the node pushes them, for ever; to be closed.

        Args:
            start: a position; None: only what comes from now on.
            batch_bytes: most log bytes of a batch; a larger record comes alone.
            credit_bytes: how much may be on its way; it bounds what this side may have to hold.
        """
        number = self._number()
        size = min(batch_bytes, api.READ_BYTES_MAX)
        found = Subscription(number, credit_bytes, read_batch, self._send_soon)
        self._follow(
            api.Tail(
                id=number, group=group, start=start, max_bytes=size, credit_bytes=credit_bytes
            ),
            found,
        )
        return found

    def events(self, *, credit_lines: int = EVENTS_CREDIT_LINES) -> Subscription[EventBatch]:
        """The node's events from now on; to be closed."""
        number = self._number()
        found = Subscription(number, credit_lines, read_events, self._send_soon)
        self._follow(api.TailEvents(id=number, credit_lines=credit_lines), found)
        return found

    # The node itself.

    async def status(self) -> dict[str, Any]:
        """Roles, offsets, slaves and lags per group."""
        return (await self._ask(api.Status, lambda number: api.GetStatus(id=number))).value

    async def tree(self) -> dict[str, Any]:
        """The node's supervision tree as it is now."""
        return (await self._ask(api.Tree, lambda number: api.GetTree(id=number))).value

    async def promote(
        self, group: str, node: str | None = None, *, force: bool = False
    ) -> dict[str, Any]:
        """Make `node` (None: the furthest) master of the group.

        Raises: NodeStopped if the connection ends first: it may have happened.
        """
        answer = await self._ask(
            api.Promoted,
            lambda number: api.Promote(id=number, group=group, node=node, force=force),
            in_doubt=True,
        )
        return answer.value

    async def stop(self) -> None:
        """Ask the node to stop in order; return when it has begun to."""
        await self._ask(api.Stopping, lambda number: api.Stop(id=number))

    # Requests.

    def _number(self) -> int:
        if self._ended:
            raise Closed(self._ended)
        self._next_number += 1
        return self._next_number - 1

    async def _ask(
        self, answer: type[F], make: Callable[[int], api.Request], *, in_doubt: bool = False
    ) -> F:
        return await self._answered(
            lambda number: _checked(make(number)), answer, in_doubt=in_doubt
        )

    async def _answered(
        self, make: Callable[[int], bytes], answer: type[F], *, in_doubt: bool
    ) -> F:
        done = trio.Event()
        outcomes: list[F | TriologError] = []

        def settle(outcome: F | TriologError) -> None:
            outcomes.append(outcome)
            done.set()

        await self._begin(make, answer, settle, in_doubt=in_doubt)
        await done.wait()
        (outcome,) = outcomes
        if isinstance(outcome, TriologError):
            raise outcome
        return outcome

    async def _begin(
        self,
        make: Callable[[int], bytes],
        answer: type,
        settle: Callable[[Any], None],
        *,
        in_doubt: bool,
    ) -> None:
        """Return when the request is on its way. Raises: Closed, and what `make` raises."""
        number = self._number()
        data = make(number)
        if self._turn.locked() or not self._has_room(len(data)):
            async with self._turn:  # first come, first served
                while not self._ended and not self._has_room(len(data)):
                    self._room = trio.Event()
                    await self._room.wait()
        if self._ended:
            raise Closed(self._ended)
        call = _Call(answer=answer, settle=settle, size_bytes=len(data), in_doubt=in_doubt)
        self._calls[number] = call
        self._in_flight_bytes += call.size_bytes
        self._put(data, call)

    def _has_room(self, size_bytes: int) -> bool:
        """A single request above the bound may go alone: the node takes it, too."""
        limits = self._limits
        return len(self._calls) < limits.in_flight_requests_max and (
            not self._calls or self._in_flight_bytes + size_bytes <= limits.in_flight_bytes_max
        )

    def _follow(self, frame: api.Request, follower: Follower) -> None:
        data = _checked(frame)
        self._followers[frame.id] = follower
        self._put(data, None)

    def _watch(self, group: str) -> OffsetsWatch:
        watch = self._watches.get(group)
        if watch is None or watch.over:
            number = self._number()
            watch = OffsetsWatch(number, self._send_soon)
            self._follow(api.WatchOffsets(id=number, group=group), watch)
            self._watches[group] = watch
        return watch

    def _send_soon(self, frame: api.Request) -> None:
        if not self._ended:
            self._put(_encoded(frame), None)

    def _put(self, data: bytes, call: _Call | None) -> None:
        self._outbox.append((data, call))
        self._to_send.set()

    # The connection's own tasks.

    async def run(self) -> None:
        """Serve this connection until it has ended; for `connect`."""
        async with trio.open_nursery() as nursery:
            for task in (self._receive, self._send, self._probe):
                nursery.start_soon(self._run_until_ended, task, nursery.cancel_scope)

    async def _run_until_ended(self, task: Callable[[], Any], scope: trio.CancelScope) -> None:
        try:
            await task()
        except SocketClosed as error:
            self.end(error.reason)
        except RemoteProtocolError as error:
            self.end(f"the node does not keep to the protocol: {error}")
            await self._socket.close(frame_socket.PROTOCOL_ERROR, str(error))
        scope.cancel()

    async def _receive(self) -> None:
        while True:
            data = await self._socket.receive()
            self._frames_count += 1
            self._dispatch(api.decode_answer(data))

    async def _send(self) -> None:
        while True:
            while self._outbox:
                data, call = self._outbox.popleft()
                if call is not None:
                    call.sent = True
                await self._socket.send(data)
            self._to_send = trio.Event()
            await self._to_send.wait()

    async def _probe(self) -> None:
        while True:
            seen_count = self._frames_count
            await trio.sleep(PROBE_INTERVAL_S)
            if seen_count != self._frames_count or not (self._calls or self._followers):
                continue
            with trio.move_on_after(PROBE_TIMEOUT_S) as scope:
                await self._socket.ping()
            if scope.cancelled_caught and seen_count == self._frames_count:
                raise SocketClosed(f"no word for {PROBE_INTERVAL_S + PROBE_TIMEOUT_S:g} s")

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
            # A `failed` can cross with the `cancel` of what has ended; nothing else can.
            raise RemoteProtocolError(f"{type(frame).__name__} for request {number}, which is none")

    def _answer(self, call: _Call, frame: api.Answer) -> None:
        self._in_flight_bytes -= call.size_bytes
        self._room.set()
        if isinstance(frame, api.Failed):
            call.settle(to_error(frame))
        elif isinstance(frame, call.answer):
            call.settle(frame)
        else:
            reason = f"{type(frame).__name__} where {call.answer.__name__} was due"
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

    def end(self, reason: str) -> None:
        """No more requests; every one that has no answer fails. Only the first reason counts."""
        if self._ended:
            return
        ended = self._ended = f"the connection to {self.identity.node} has ended: {reason}"
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.settle(self._loss(call, reason))
        followers, self._followers = self._followers, {}
        for follower in followers.values():
            follower.end(lambda: Closed(ended))
        self._outbox.clear()
        self._room.set()

    def _loss(self, call: _Call, reason: str) -> TriologError:
        text = f"the connection to {self.identity.node} ended before the answer: {reason}"
        return NodeStopped(text) if call.in_doubt and call.sent else Closed(text)
