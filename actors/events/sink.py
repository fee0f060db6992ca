"""Where a node's events go as they are emitted: numbered, encoded, kept in memory until written.

`EventSink` is the callable that `Env.events` holds. It outlives the event log's actor, which takes
lines from it (`peek`, `written`), so a crash of that actor loses nothing. All is synchronous.

Numbers: every emitted event takes the next `seq`, also one that finds no room. What was dropped is
named by an `EventsDropped` before the next event that is kept. Events that the log itself emits
about its work have the same numbers as all others.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from itertools import islice

import attrs
import trio

from actors.events.codec import LineEncoder
from actors.events.node import ORDERED, EventRefused, EventsDropped, NodeStarted, NodeStopped

PENDING_MAX = 65_536
"""Events that may wait in memory: more than a second of the fastest emitter that was measured."""
PENDING_BYTES_MAX = 32 << 20
"""Bytes of them: twice what PENDING_MAX events of the usual 200 bytes take."""
WAKE_COUNT = 500
"""Waiting events at which the log is woken before its timer: one gzip member of about 100 KB."""
SUBSCRIBERS_MAX = 64
SUBSCRIBER_LINES_MAX = 4096
"""Lines that wait for one slow subscriber; older ones leave and are counted."""

_LOGGER = logging.getLogger("triolog.events")


@attrs.frozen(kw_only=True)
class EventLines:
    """Consecutive lines of the event log, and how many this subscriber was too slow for before."""

    lines: tuple[bytes, ...]
    missed: int


class SinkFull(RuntimeError):
    """Policy "stop": an event found no room, so the node must not go on."""


class EventSink:
    """Takes the events of one boot of one node.

    Attributes:
        node: the node's name.
        boot: number of this boot, from 1.
        next_seq: the number of the next event.
        dropped: events that found no room so far.
        overflowed: True once an event found no room with policy "stop".
        stop_reason: what NodeStopped will say.
    """

    def __init__(
        self,
        node: str,
        boot: int,
        now_us: Callable[[], int],
        started: NodeStarted,
        *,
        policy: str = "drop",
        pending_max: int = PENDING_MAX,
        pending_bytes_max: int = PENDING_BYTES_MAX,
    ) -> None:
        """Open the boot: its first event is `started`.

        Args:
            now_us: the node's wall clock in microseconds since 1970.
            policy: "drop" or "stop", see `EventsConfig`.
            pending_max: events that may wait in memory.
            pending_bytes_max: bytes of lines that may.
        """
        assert policy in ("drop", "stop"), policy
        assert pending_max > 0, pending_max
        self.node = node
        self.boot = boot
        self.next_seq = 1
        self.dropped = 0
        self.overflowed = False
        self.stop_reason = ORDERED
        self._now_us = now_us
        self._encode = LineEncoder(node, boot).encode
        self._policy = policy
        self._pending_max = pending_max
        self._pending_bytes_max = pending_bytes_max
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._dropped_from: int | None = None
        self._closed = False
        self._wake: Callable[[], None] | None = None
        self._wake_at: float = math.inf
        self._subscriptions: list[EventSubscription] = []
        self(f"/{node}", 0, started)

    def __call__(self, path: str, incarnation: int, event: object) -> None:
        """Take one event: `Env.events`. Never raises, never yields."""
        if self._closed:
            return
        if len(self._lines) >= self._pending_max or self._bytes >= self._pending_bytes_max:
            self._drop()
            return
        if self._dropped_from is not None:
            self._name_dropped()
        self._take(path, incarnation, event)
        if len(self._lines) >= self._wake_at:
            self._call_wake()

    @property
    def pending(self) -> int:
        """Events that wait to be written."""
        return len(self._lines)

    @property
    def closed(self) -> bool:
        return self._closed

    def peek(self, count_max: int) -> list[bytes]:
        """The oldest lines that wait, at most `count_max`; they stay until `written`."""
        return list(islice(self._lines, count_max))

    def written(self, count: int) -> None:
        """The oldest `count` lines are in the file."""
        for _ in range(count):
            self._bytes -= len(self._lines.popleft())
        if self._dropped_from is not None and count:
            self._name_dropped()

    def on_pending(self, wake: Callable[[], None] | None, count: int = WAKE_COUNT) -> None:
        """Have `wake` called once when `count` events wait, now if they do; it must not raise."""
        self._wake = wake
        self._wake_at = count if wake is not None else math.inf
        if len(self._lines) >= self._wake_at:
            self._call_wake()

    def close(self) -> None:
        """End the boot: NodeStopped is its last event, and what comes later is not taken."""
        if self._closed:
            return
        if self._dropped_from is not None:
            self._name_dropped()
        self._take(f"/{self.node}", 0, NodeStopped(reason=self.stop_reason))
        self.abandon()

    def abandon(self) -> None:
        """End without NodeStopped: the boot stays open, as after a crash."""
        self._closed = True
        for subscription in list(self._subscriptions):
            subscription.end()

    def subscribe(self) -> EventSubscription:
        """The lines emitted from now on. Raises: RuntimeError above SUBSCRIBERS_MAX."""
        if len(self._subscriptions) >= SUBSCRIBERS_MAX:
            raise RuntimeError(f"{SUBSCRIBERS_MAX} subscriptions to the events are open")
        subscription = EventSubscription(self._subscriptions)
        if self._closed:
            subscription.end()
        return subscription

    def _take(self, path: str, incarnation: int, event: object) -> None:
        seq = self.next_seq
        try:
            line = self._encode(seq, path, incarnation, self._now_us(), event)
        except Exception as error:  # an emitter must not pay for a bad event
            _LOGGER.exception("%s: cannot log %r", path, event)
            refused = EventRefused(type=type(event).__name__, error=str(error))
            line = self._encode(seq, path, incarnation, self._now_us(), refused)
        self.next_seq = seq + 1
        self._lines.append(line)
        self._bytes += len(line)
        for subscription in self._subscriptions:
            subscription.take(line)

    def _drop(self) -> None:
        if self._dropped_from is None:
            self._dropped_from = self.next_seq
            if self._policy == "stop":
                self.overflowed = True
            _LOGGER.warning("%s: %d events wait, dropping", self.node, len(self._lines))
        self.next_seq += 1
        self.dropped += 1
        self._call_wake()

    def _name_dropped(self) -> None:
        """Name the range. Takes one place above the bound, so that it is never dropped itself."""
        assert self._dropped_from is not None  # DroppedRangeIsNamedOnce
        event = EventsDropped(first_seq=self._dropped_from, last_seq=self.next_seq - 1)
        self._dropped_from = None
        self._take(f"/{self.node}/event_log", 0, event)

    def _call_wake(self) -> None:
        wake, self._wake, self._wake_at = self._wake, None, math.inf
        if wake is not None:
            wake()


class EventSubscription:
    """A look at the events as they are emitted. Too slow a reader misses the oldest."""

    __slots__ = ("_arrived", "_ended", "_lines", "_missed", "_siblings")

    def __init__(self, siblings: list[EventSubscription]) -> None:
        self._siblings = siblings
        self._lines: deque[bytes] = deque()
        self._missed = 0
        self._ended = False
        self._arrived = trio.Event()
        siblings.append(self)

    async def receive(self, count_max: int = SUBSCRIBER_LINES_MAX) -> EventLines:
        """Wait for at least one line. Raises: trio.EndOfChannel when no more come. One task."""
        await trio.lowlevel.checkpoint()
        while not self._lines:
            if self._ended:
                raise trio.EndOfChannel
            await self._arrived.wait()
        lines = tuple(self._lines.popleft() for _ in range(min(count_max, len(self._lines))))
        missed, self._missed = self._missed, 0
        if not self._lines and not self._ended:
            self._arrived = trio.Event()
        return EventLines(lines=lines, missed=missed)

    def close(self) -> None:
        """No more lines; harmless when closed."""
        self._lines.clear()
        self.end()

    def take(self, line: bytes) -> None:
        """Only for the sink."""
        if len(self._lines) >= SUBSCRIBER_LINES_MAX:
            self._lines.popleft()
            self._missed += 1
        self._lines.append(line)
        self._arrived.set()

    def end(self) -> None:
        """Only for the sink: what waits can still be received."""
        self._ended = True
        if self in self._siblings:
            self._siblings.remove(self)
        self._arrived.set()
