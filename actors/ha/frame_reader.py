"""Reads a slave's stream: bodies of large frames stay in the system until the store writes them.

Differs from upstream, which gathers each frame in a buffer of 4 MiB and copies it from there.
"""

from __future__ import annotations

import attrs
import trio

from actors.env.protocols import Held, ReceiveHalf
from wire.ha.frames import FrameMeter

RECEIVE_BYTES = 256 << 10
"""The size of one read into memory. The bytes go on to the store as they came."""
TURN_BYTES = 4 << 20
"""How many bytes are handed over at once, if there are as many: each hand-over costs the same,
whatever its size. Of bytes in memory it is at most one more read.
"""


@attrs.define
class FrameReader:
    """Reads one connection's frames without judging them.

    Attributes:
        turn_bytes: how many bytes it hands over at once, if there are as many; at most TURN_BYTES.
    """

    _receive: ReceiveHalf
    _meter: FrameMeter
    turn_bytes: int = TURN_BYTES
    _failed: Exception | None = None

    async def receive(self) -> tuple[bytes | Held, ...]:
        """Return what is there, or comes next; () at the end. Held bytes belong to one body.

        Raises: as `ReceiveHalf`, once all that came before has been given.
        """
        if self._failed is not None:
            raise self._failed
        pieces: list[bytes | Held] = []
        size_bytes = 0
        piece: bytes | Held | None = await self._wait()
        while piece:
            pieces.append(piece)
            size_bytes += len(piece)
            self._passed(piece)
            piece = self._look() if size_bytes < self.turn_bytes else None
        return tuple(pieces)

    def _wanted(self) -> tuple[int, bool]:
        """How many bytes to read, and whether they stay in the system.

        After a large frame another one is expected, so that only its header is read.
        """
        meter = self._meter
        if meter.body_bytes < self._receive.hold_from_bytes:
            return RECEIVE_BYTES, False
        return (meter.rest_bytes, True) if meter.rest_bytes else (meter.header_bytes, False)

    async def _wait(self) -> bytes | Held:
        size_bytes, held = self._wanted()
        if held:
            return await self._receive.receive_held(size_bytes)
        return await self._receive.receive_some(size_bytes)

    def _look(self) -> bytes | Held | None:
        size_bytes, held = self._wanted()
        try:
            return self._receive.receive_now(size_bytes, held=held)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._failed = error
            return None

    def _passed(self, piece: bytes | Held) -> None:
        if isinstance(piece, bytes):
            self._meter.passed(piece)
        else:
            self._meter.body_passed(len(piece))
