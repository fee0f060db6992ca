"""One simulated connection: two endpoints, and a pipe for each direction.

A pipe is what TCP makes of a link: in order, nothing lost or doubled, everything late. It simulates
what an application can observe:

- A sender may be `window_bytes` ahead of what the other application has read; then it waits.
- Over a cut link nothing arrives; after `heal` everything does, as retransmissions would. Data that
  stays unacknowledged for `retransmit_timeout_s` breaks the sender's side.
- Credits (the window's opening) travel on the link of the other direction, and wait if it is cut.
- A reset overtakes nothing that has arrived, and drops everything that has not. Over a cut link it
  is lost, so that the peer stays half-open until it sends and is answered with another reset.
- A half that was closed for reading still fills its window; closing the second half with unread
  bytes resets the connection.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from typing import Protocol

import attrs
import trio

from actors.env.protocols import Address, File, Held
from actors.sim.disk import SimFile
from actors.sim.disk.disk import SimHeld
from actors.sim.network.links import Medium, NetworkPath


@attrs.define(eq=False)
class _Segment:
    size: int
    read: Callable[[], bytes] | None  # None: the end of the stream
    deliver_at_s: float


@attrs.define(eq=False)
class Pipe:
    """One direction of a connection, from `source` to `target`, its endpoints."""

    net: Medium
    link: NetworkPath  # the way of the bytes
    way_back: NetworkPath  # the way of the credits
    source: Side = attrs.field(init=False)
    target: Side = attrs.field(init=False)
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
        """Deliver what is due, unless the link is cut or the target's machine is off."""
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
        """Send a credit, because the application at the target has read `size` bytes."""
        self._credit_bytes += size
        self.net.agenda.at(self.way_back.arrival_s(0), self._open_window)

    def _open_window(self) -> None:
        if self.way_back.passes:
            self.outstanding_bytes -= self._credit_bytes
            self._credit_bytes = 0
            self.source.wake_sender()

    def link_is_back(self) -> None:
        """Retransmit, and let the credits through, because a link on the way was healed."""
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
        """Reset the connection at the target, if the packet gets through."""

        def arrive() -> None:
            self.deliver()
            self.drop()
            if self.link.passes:
                self.target.break_off(errno.ECONNRESET)

        self.net.agenda.at(self.link.arrival_s(0), arrive)

    def drop(self) -> None:
        """Forget what is in flight."""
        self._in_flight.clear()
        self._unacked_since_s = None

    def _note_unacked(self) -> None:
        if self._unacked_since_s is not None:
            return
        since_s = self._unacked_since_s = trio.current_time()

        def give_up() -> None:
            if self._unacked_since_s == since_s:  # the same wait, and not a later one
                self.net.count("retransmit_timeout")
                self.source.break_off(errno.ETIMEDOUT)

        self.net.agenda.at(since_s + self.net.options.retransmit_timeout_s, give_up)


SEGMENT_BYTES = 64 * 1024
"""The most bytes that travel as one piece: large enough to keep the number of events low."""
SEND_FILE_CHUNK_BYTES = 1 << 20  # as in `actors.env.tcp`
RECEIVE_DEFAULT_BYTES = 65536


class Process(Protocol):
    """A program that has ends of connections open, on a machine that may lose its power."""

    @property
    def up(self) -> bool: ...
    def forget(self, end: Side) -> None: ...


@attrs.define(eq=False)
class Side:
    """One end of a connection, as its machine's kernel keeps it."""

    host: Process
    local: Address
    remote: Address
    outward: Pipe
    inward: Pipe
    # there is no socket any more: answer with a reset
    gone: bool = attrs.field(init=False, default=False)
    vanished: bool = attrs.field(init=False, default=False)  # nor a machine that retransmits
    receive_closed: bool = attrs.field(init=False, default=False)
    send_closed: bool = attrs.field(init=False, default=False)
    _inbox: bytearray = attrs.field(init=False, factory=bytearray)
    _ended: bool = attrs.field(init=False, default=False)
    _errno: int = attrs.field(init=False, default=0)
    _reader: trio.lowlevel.ParkingLot = attrs.field(init=False, factory=trio.lowlevel.ParkingLot)
    _writer: trio.lowlevel.ParkingLot = attrs.field(init=False, factory=trio.lowlevel.ParkingLot)

    @property
    def broken(self) -> bool:
        return self._errno != 0

    # What the network does to it.

    def take(self, data: bytes, size: int) -> None:
        assert len(data) == size, (len(data), size)
        if size:
            self._inbox += data
        else:
            self._ended = True
        self._reader.unpark_all()

    def wake_sender(self) -> None:
        self._writer.unpark_all()

    def answer_with_reset(self) -> None:
        if self.host.up:
            self.outward.reset()

    def break_off(self, code: int) -> None:
        """Break the connection; data that has arrived stays readable."""
        if not self.gone:
            self._errno = self._errno or code
            self.outward.drop()
            self._wake()

    def _wake(self) -> None:
        self._reader.unpark_all()
        self._writer.unpark_all()

    # What the owner does with it.

    async def receive_some(self, max_bytes: int) -> bytes:
        assert max_bytes > 0, max_bytes
        await trio.lowlevel.checkpoint()
        while (data := self.receive_now(max_bytes)) is None:
            await self._reader.park()
        return data

    def receive_now(self, max_bytes: int) -> bytes | None:
        """Receive what is there; None if nothing is."""
        if self.receive_closed:
            raise trio.ClosedResourceError("this half is closed")
        if self._inbox:
            count = self.inward.net.fragment(min(len(self._inbox), max_bytes))
            data = bytes(self._inbox[:count])
            del self._inbox[:count]
            self.inward.credit(count)
            return data
        if self._errno:
            raise trio.BrokenResourceError(f"{self.remote}: {os.strerror(self._errno)}")
        return b"" if self._ended else None

    async def wait_for_room(self) -> None:
        """Return when something can be sent. It raises what `send_all` raises."""
        while True:
            self.check_sendable()
            if self.outward.room_bytes > 0:
                return
            await self._writer.park()

    def check_sendable(self) -> None:
        if self.send_closed:
            raise trio.ClosedResourceError("this half is closed")
        if self._errno:
            raise trio.BrokenResourceError(f"{self.remote}: {os.strerror(self._errno)}")

    def close_receiving(self) -> None:
        if not self.receive_closed:
            self.receive_closed = True
            self._reader.unpark_all()
            self._close_if_both()

    def close_sending(self) -> None:
        if not self.send_closed:
            self.send_closed = True
            self._writer.unpark_all()
            unread = self.receive_closed and self._inbox
            if not self._errno and not unread:
                self.outward.push(0, None)
            self._close_if_both()

    def _close_if_both(self) -> None:
        if self.receive_closed and self.send_closed and not self.gone:
            if self._inbox and not self._errno:
                self.outward.reset()
            self._leave()

    def abort(self) -> None:
        """Close with a reset. Harmless when the end is gone."""
        if self.gone:
            return
        self.receive_closed = self.send_closed = True
        if not self._errno:
            self.outward.reset()
        self._leave()

    def vanish(self) -> None:
        """End without a packet, because the machine lost power."""
        self.receive_closed = self.send_closed = self.vanished = True
        self._leave()

    def _leave(self) -> None:
        self.gone = True
        self._wake()
        self.host.forget(self)


@attrs.define(eq=False)
class SimReceiveHalf:
    """The receiving half of a connection; implements `ReceiveHalf`."""

    _end: Side

    async def receive_some(self, max_bytes: int) -> bytes:
        return await self._end.receive_some(max_bytes)

    @property
    def hold_from_bytes(self) -> int:
        return self._end.outward.net.options.hold_from_bytes

    async def receive_held(self, max_bytes: int) -> bytes | Held:
        data = await self._end.receive_some(max_bytes)
        return SimHeld(data) if data else data

    def receive_now(self, max_bytes: int, *, held: bool = False) -> bytes | Held | None:
        data = self._end.receive_now(max_bytes)
        return SimHeld(data) if data and held else data

    async def aclose(self) -> None:
        self._end.close_receiving()
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class SimSendHalf:
    """The sending half of a connection; implements `SendHalf`."""

    _end: Side
    _sending: bool = attrs.field(init=False, default=False)
    _unusable: bool = attrs.field(init=False, default=False)

    def send_now(self, data: bytes) -> int:
        return 0  # all is left to `send_all`, whose waits are simulated

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._begin()
        try:
            await trio.lowlevel.checkpoint()
            self._end.check_sendable()
            rest = bytes(data)
            while rest:
                await self._end.wait_for_room()
                part = rest[: min(self._end.outward.room_bytes, SEGMENT_BYTES)]
                self._end.outward.push(len(part), lambda part=part: part)  # type: ignore[misc]
                rest = rest[len(part) :]
        finally:
            self._sending = False
        self._unusable = False

    async def send_file(self, file: File, offset: int, size: int) -> None:
        if not isinstance(file, SimFile):
            raise TypeError(f"the simulated network sends simulated files, not {file!r}")
        self._begin()
        try:
            await self._send_file(file, offset, offset + size)
        finally:
            self._sending = False
        self._unusable = False

    async def _send_file(self, file: SimFile, offset: int, end: int) -> None:
        """Send a range of a file. Its bytes are read here, or on delivery if the network's options
        say so.

        The second is what sendfile really does: the socket buffer points at the page cache, so an
        overwrite after sendfile has returned reaches the peer.
        """
        late = self._end.outward.net.options.late_send_file
        await trio.lowlevel.checkpoint()
        while offset < end:
            await self._end.wait_for_room()
            count = min(end - offset, self._end.outward.room_bytes, SEND_FILE_CHUNK_BYTES)
            data = file.pread(offset, count)
            if not data:
                raise OSError(errno.EIO, f"the file ends before offset {end}", file.path)
            read = file.page_cache_reader(offset, len(data)) if late else None
            self._end.outward.push(len(data), read or (lambda data=data: data))  # type: ignore[misc]
            offset += len(data)
            await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self._end.close_sending()
        await trio.lowlevel.checkpoint()

    def _begin(self) -> None:
        self._end.check_sendable()
        if self._sending:
            raise trio.BusyResourceError("another task is sending")
        if self._unusable:
            raise trio.BrokenResourceError("an earlier send failed or was cancelled")
        self._sending = True
        self._unusable = True  # until this one has succeeded


@attrs.define(eq=False)
class SimStream:
    """One end of a connection as a process sees it; implements `Stream`."""

    _end: Side

    @property
    def local(self) -> Address:
        return self._end.local

    @property
    def remote(self) -> Address:
        return self._end.remote

    def halves(self) -> tuple[SimReceiveHalf, SimSendHalf]:
        return SimReceiveHalf(self._end), SimSendHalf(self._end)

    def trio_stream(self) -> trio.abc.Stream:
        return SimTrioStream(self._end)

    def abort(self) -> None:
        self._end.abort()


class SimTrioStream(trio.abc.Stream):
    def __init__(self, end: Side) -> None:
        self._end = end
        self._send = SimSendHalf(end)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._send.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()
        await self._end.wait_for_room()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._end.receive_some(max_bytes or RECEIVE_DEFAULT_BYTES)

    async def aclose(self) -> None:
        self._end.close_receiving()
        self._end.close_sending()
        await trio.lowlevel.checkpoint()
