"""Subscriptions of a client to a log, a group's offsets or the events: one task each, with credit.

A subscription prepares one message at a time and hands it to its connection, which is the only
sender; the next is prepared when that one is sent. So a slow client costs one message, whatever
happens meanwhile: offsets that were overtaken are never sent, batches wait in the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias, assert_never

import attrs
import trio

from actors.api import convert
from actors.api.budget import Answering
from actors.api.convert import from_group_state
from actors.api.handle import NodeHandle
from actors.log_types import GroupState, Offsets
from wire.api import frames

WATCH_INTERVAL_S = 0.010
"""The least seconds between two pushes of offsets: every slave watches its master's, and a frame
costs more than many appends."""
EVENT_LINES_MAX = 256
"""The most lines of one push, about 50 KB."""

Subscribe: TypeAlias = frames.Tail | frames.WatchOffsets | frames.WatchGroup | frames.TailEvents
Push: TypeAlias = Callable[[bytes | str], Awaitable[None]]
"""Hands one message to the connection; returns when it has been sent."""


@attrs.define(eq=False)
class Credit:
    """How much a subscriber has granted to be sent: bytes of a tail, or lines of events."""

    _left: int
    _granted: trio.Event = attrs.field(init=False, factory=trio.Event)

    @property
    def left(self) -> int:
        return self._left

    def grant(self, amount: int) -> None:
        self._left = min(frames.CREDIT_MAX, self._left + amount)
        self._granted.set()

    def take(self, amount: int) -> None:
        """Use up credit, which may fall below zero by one message."""
        self._left -= amount

    async def wait(self) -> None:
        """Return once there is credit."""
        while self._left <= 0:
            self._granted = trio.Event()
            await self._granted.wait()


def credit_of(request: Subscribe) -> Credit:
    """Return the credit that a request grants at the beginning; watches need none."""
    match request:
        case frames.Tail():
            return Credit(left=request.credit_bytes)
        case frames.TailEvents():
            return Credit(left=request.credit_lines)
        case frames.WatchOffsets() | frames.WatchGroup():
            return Credit(left=0)
        case _:
            assert_never(request)


async def follow(
    handle: NodeHandle,
    request: Subscribe,
    credit: Credit,
    push: Push,
    room: Answering,
    form: convert.BatchForm,
) -> None:
    """Serve one subscription until it ends by itself. Raises: the errors of the node's handle."""
    match request:
        case frames.Tail():
            await tail(handle, request, credit, push, room, form)
        case frames.WatchOffsets():
            await watch_offsets(handle, request, push, text=form.text)
        case frames.WatchGroup():
            await watch_group(handle, request, push, text=form.text)
        case frames.TailEvents():
            await tail_events(handle, request, credit, push, text=form.text)
        case _:
            assert_never(request)


async def tail(
    handle: NodeHandle,
    request: frames.Tail,
    credit: Credit,
    push: Push,
    room: Answering,
    form: convert.BatchForm,
) -> None:
    """Push what is acknowledged, from the start position on, for ever."""
    if request.start is None:
        position = (await handle.wait_offsets(request.group, None)).acknowledged
    else:
        position = request.start
    known: Offsets | None = None
    while True:
        await credit.wait()
        number = await room.begin()
        try:
            batch = await handle.read(request.group, position, request.max_bytes, False)
            if not batch.is_empty:
                data, frame = convert.encode_batch(request.id, batch, form, costs=True)
                room.found(number, len(data))
                credit.take(frame.cost_bytes)
                position = frame.next
                await push(data)
                continue
        finally:
            room.end(number)
        if batch.acknowledged > max(position, batch.next):
            # Acknowledged, but not held by this node yet: any change may bring it.
            position = max(position, batch.next)
            known = await handle.wait_offsets(request.group, known)
        else:
            position = max(position, batch.next)
            known = await handle.wait_acknowledged(request.group, position)


async def watch_offsets(
    handle: NodeHandle, request: frames.WatchOffsets, push: Push, *, text: bool
) -> None:
    """Push the offsets now and whenever they have changed, for ever."""
    known: Offsets | None = None
    while True:
        known = await handle.wait_offsets(request.group, known)
        await push(frames.encode(convert.from_offsets(known, id=request.id), text=text))
        await trio.sleep(WATCH_INTERVAL_S)


async def watch_group(
    handle: NodeHandle, request: frames.WatchGroup, push: Push, *, text: bool
) -> None:
    """Push the node's part in the group now and whenever it has changed, for ever."""
    known: GroupState | None = None
    while True:
        known = await handle.wait_group_state(request.group, known)
        await push(frames.encode(from_group_state(request.id, known), text=text))


async def tail_events(
    handle: NodeHandle, request: frames.TailEvents, credit: Credit, push: Push, *, text: bool
) -> None:
    """Push event lines from now on, until the node's event log ends."""
    subscription = handle.subscribe_events()
    try:
        while True:
            await credit.wait()
            count_max = min(credit.left, EVENT_LINES_MAX)
            received = await subscription.receive(count_max)
            credit.take(len(received.lines))
            lines = tuple(line.decode().rstrip("\n") for line in received.lines)
            frame = frames.Events(id=request.id, lines=lines, missed=received.missed)
            await push(frames.encode(frame, text=text))
    except trio.EndOfChannel:
        return
    finally:
        subscription.close()
