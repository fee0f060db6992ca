"""Has streams wait for their first request while too many come from one address.

A connection costs an actor, its feeders and two events. Each address may open a number of them at
once (`FREE_BURST`, `FREE_PER_S`). A further stream gets only a task, and becomes a connection when
its first request has come, or the head of a large one. A member sends its first request at once, so
a storm of junk from its own address does not keep it out. If too many streams of an address wait,
the oldest silent one is closed; one that has sent a request waits for room.

There is no upstream: dledger-all-0.3.1.2 serves every connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio

from actors.env.protocols import Address, Held, ReceiveHalf, SendHalf, Stream
from wire.remoting.frame import Decoder

FREE_BURST: Final = 256
"""How many connections of one address need not send a request first: as many as a port has slots.
"""
FREE_PER_S: Final = 32.0
"""How many more connections each second need not: they cost some hundredths of a processor."""
WAITING_MAX: Final = 64
"""How many streams of one address may wait, with those that have sent a request and wait for room.
A member has two connections, and sends its first request at once."""
FIRST_BYTES: Final = 4 << 10
"""The size in bytes above which a first request need not be whole, so that all streams of one
address that wait hold 1 MiB at most."""
FIRST_WORD_S: Final = 5.0
"""The seconds for the whole first request, or for the head of a large one."""
NO_REQUEST: Final = "sent no request, and too many come from its address"
MADE_WAY: Final = "made way for another: too many come from its address, and it was silent"
CROWDED: Final = "too many that come from its address have spoken, and wait for room"


@attrs.define(eq=False)
class Spoken:
    """A stream whose first bytes have been received; its reader receives them once more."""

    _stream: Stream
    _receive: ReceiveHalf
    _send: SendHalf
    _first: bytes

    @property
    def local(self) -> Address:
        return self._stream.local

    @property
    def remote(self) -> Address:
        return self._stream.remote

    def halves(self) -> tuple[ReceiveHalf, SendHalf]:
        return _SpokenHalf(self._receive, self._first), self._send

    def trio_stream(self) -> trio.abc.Stream:
        raise AssertionError("not together with `halves`")

    def abort(self) -> None:
        self._stream.abort()


@attrs.define(eq=False)
class _SpokenHalf:
    """The `ReceiveHalf` of a `Spoken`."""

    _half: ReceiveHalf
    _first: bytes

    async def receive_some(self, max_bytes: int) -> bytes:
        if not self._first:
            return await self._half.receive_some(max_bytes)
        await trio.lowlevel.checkpoint()
        first, self._first = self._first[:max_bytes], self._first[max_bytes:]
        return first

    @property
    def hold_from_bytes(self) -> int:
        return self._half.hold_from_bytes

    async def receive_held(self, max_bytes: int) -> bytes | Held:
        if self._first:
            return await self.receive_some(max_bytes)
        return await self._half.receive_held(max_bytes)

    def receive_now(self, max_bytes: int, *, held: bool = False) -> bytes | Held | None:
        if not self._first:
            return self._half.receive_now(max_bytes, held=held)
        first, self._first = self._first[:max_bytes], self._first[max_bytes:]
        return first

    async def aclose(self) -> None:
        await self._half.aclose()


@attrs.define
class _Visitors:
    """The streams of one address that wait.

    Attributes:
        at_s: when `free` was computed.
        free: how many connections need not send a request first, as of `at_s`.
    """

    at_s: float
    free: float = FREE_BURST
    silent: dict[Stream, str] = attrs.field(factory=dict)  # why it was closed; "" so far
    spoken: int = 0  # so many wait for room

    def make_way(self) -> bool:
        """Close the oldest silent stream if one more would be too many.

        Returns: whether there is room for one more; False if no stream is silent.
        """
        silent = [each for each, why in self.silent.items() if not why]
        if len(silent) + self.spoken < WAITING_MAX:
            return True
        if not silent:
            return False
        self.silent[silent[0]] = MADE_WAY
        silent[0].abort()
        return True


@attrs.define
class Lobby:
    """The streams of one port that wait for their first requests, or for room.

    Args:
        room: returns when there is room for one more connection.
        let_in: makes a connection of a stream.
        turn_away: called with each stream that was closed here, and the reason.
    """

    _room: Callable[[], Awaitable[None]]
    _let_in: Callable[[Stream], Awaitable[None]]
    _turn_away: Callable[[Stream, str], Awaitable[None]]
    _visitors: dict[str, _Visitors] = attrs.field(factory=dict, init=False)

    def is_free(self, host: str) -> bool:
        """Return whether a connection that comes from `host` now need not wait; count it if so."""
        now_s = trio.current_time()
        visitors = self._visitors.setdefault(host, _Visitors(now_s))
        gained = (now_s - visitors.at_s) * FREE_PER_S
        visitors.at_s, visitors.free = now_s, min(visitors.free + gained, FREE_BURST)
        if visitors.free < 1:
            return False
        visitors.free -= 1
        return True

    async def wait(self, stream: Stream) -> None:
        """Wait for a stream's first request and for room, then make a connection of it; a feeder.

        `is_free` was called for its address before.
        """
        visitors = self._visitors[stream.remote.host]
        spoken, why, is_let_in = None, CROWDED, False
        try:
            if visitors.make_way():
                spoken, why = await self._listen(visitors, stream)
            if spoken is not None:
                visitors.spoken += 1
                try:
                    await self._room()
                finally:
                    visitors.spoken -= 1
                is_let_in = True
                await self._let_in(spoken)
        finally:
            if not is_let_in:
                stream.abort()
        if not is_let_in:
            await self._turn_away(stream, why)

    async def _listen(self, visitors: _Visitors, stream: Stream) -> tuple[Spoken | None, str]:
        """Read the stream's first request.

        Returns: the stream, and a text that has no meaning then; or None, and why it is closed.
        """
        visitors.silent[stream] = ""
        try:
            spoken = await self._first_word(stream)
        finally:
            why = visitors.silent.pop(stream)
        return (None, why) if why else (spoken, NO_REQUEST)

    async def _first_word(self, stream: Stream) -> Spoken | None:
        receive, send = stream.halves()
        decoder, first = Decoder(), b""
        try:
            with trio.move_on_after(FIRST_WORD_S):
                while data := await receive.receive_some(FIRST_BYTES):
                    first += data
                    frames, error = decoder.decode(data, 1)
                    if frames or (error is None and decoder.begun_bytes > FIRST_BYTES):
                        return Spoken(stream, receive, send, first)
                    if error is not None:
                        return None
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        return None
