"""One direction of a simulated connection: what is under way, and what the window lets through.

What a pipe makes of its link is in `stream`.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import trio

if TYPE_CHECKING:
    from actors.sim.network import Link, SimNetwork
    from actors.sim.stream import Endpoint


@attrs.define(eq=False)
class _Segment:
    size: int
    read: Callable[[], bytes] | None  # None: the end of the stream
    deliver_at_s: float


@attrs.define(eq=False)
class Pipe:
    """One direction of a connection. `source` and `target` are its endpoints."""

    net: SimNetwork
    link: Link  # the way of the bytes
    way_back: Link  # the way of the credits
    source: Endpoint = attrs.field(init=False)
    target: Endpoint = attrs.field(init=False)
    outstanding_bytes: int = attrs.field(init=False, default=0)  # sent and not yet credited
    _in_flight: deque[_Segment] = attrs.field(init=False, factory=deque)
    _credit_bytes: int = attrs.field(init=False, default=0)  # read, credit not yet arrived
    _last_s: float = attrs.field(init=False, default=0.0)
    _unacked_since_s: float | None = attrs.field(init=False, default=None)

    @property
    def room_bytes(self) -> int:
        return self.net.options.window_bytes - self.outstanding_bytes

    @property
    def idle(self) -> bool:
        return not self._in_flight

    def push(self, size: int, read: Callable[[], bytes] | None) -> None:
        """Send one piece, or the end of the stream if `read` is None."""
        assert size <= max(self.room_bytes, 0), (size, self.room_bytes)
        self.outstanding_bytes += size
        self._last_s = max(self._last_s, self.link.arrival_s(size))
        self._in_flight.append(_Segment(size, read, self._last_s))
        self.net.agenda.at(self._last_s, self.deliver)

    def deliver(self) -> None:
        """Hand over what is due, unless the link is cut or the target's machine is down."""
        now_s = trio.current_time()
        while self._in_flight and self._in_flight[0].deliver_at_s <= now_s:
            if not self.link.passes:
                if self.source.vanished:
                    self.drop()
                else:
                    self._note_unacked()
                return
            segment = self._in_flight.popleft()
            if self.target.gone or self.target.broken:
                self.target.answer_with_reset()
            else:
                self.target.take(b"" if segment.read is None else segment.read(), segment.size)
            if not self.way_back.passes:
                self._note_unacked()

    def credit(self, size: int) -> None:
        """The application at the target has read `size` bytes."""
        self._credit_bytes += size
        self.net.agenda.at(self.way_back.arrival_s(0), self._open_window)

    def _open_window(self) -> None:
        if self.way_back.passes:
            self.outstanding_bytes -= self._credit_bytes
            self._credit_bytes = 0
            self.source.wake_sender()

    def link_is_back(self) -> None:
        """Something on the way was healed: retransmit, and let the credits through."""
        if self.link.passes and self.way_back.passes:
            self._unacked_since_s = None
        overdue = bool(self._in_flight) and self._in_flight[0].deliver_at_s <= trio.current_time()
        if self.link.passes and overdue:
            for segment in self._in_flight:
                again_s = self.link.arrival_s(segment.size)
                self._last_s = max(self._last_s, segment.deliver_at_s, again_s)
                segment.deliver_at_s = self._last_s
                self.net.agenda.at(self._last_s, self.deliver)
        self._open_window()

    def reset(self) -> None:
        """Tell the target that the connection is broken, if the packet gets through."""

        def arrive() -> None:
            self.deliver()
            self.drop()
            if self.link.passes:
                self.target.break_off(errno.ECONNRESET)

        self.net.agenda.at(self.link.arrival_s(0), arrive)

    def drop(self) -> None:
        """Forget what is under way."""
        self._in_flight.clear()
        self._unacked_since_s = None

    def _note_unacked(self) -> None:
        if self._unacked_since_s is not None:
            return
        since_s = self._unacked_since_s = trio.current_time()

        def give_up() -> None:
            if self._unacked_since_s == since_s:  # the same waiting, not another
                self.net.count("retransmit_timeout")
                self.source.break_off(errno.ETIMEDOUT)

        self.net.agenda.at(since_s + self.net.options.retransmit_timeout_s, give_up)
