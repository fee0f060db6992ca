"""The bytes that all connections of one node's API share.

Two pools: what clients send, from the moment a message is large until its requests are answered,
and what is read for clients, until it is sent. A holder of the first may wait for the second, who
holds of the second waits for its client only, and no longer than a send may take: so no circle.
Within the first nobody holds and waits: a large message takes the room of the largest at once.
"""

from __future__ import annotations

import attrs
import trio

from actors.api.limits import OWN_BYTES, READ_COST_BYTES, ApiLimits
from actors.runtime.pool import Pool
from wire.api import frames


@attrs.define(eq=False)
class Budget:
    """The two pools of one node's API."""

    received: Pool
    read: Pool

    @classmethod
    def of(cls, limits: ApiLimits) -> Budget:
        return cls(Pool(limits.received_bytes), Pool(limits.read_bytes))


@attrs.define(eq=False)
class ReadShare:
    """What one connection holds of `received`.

    Attributes:
        timeout_s: how long the rest of a large message may take; otherwise a stalled client could
            keep its room.
    """

    _pool: Pool
    _timeout_s: float
    _reserved_bytes: int = 0
    _charged_bytes: int = 0
    _deadline_s: float = float("inf")

    async def before_read(self, assembled_bytes: int) -> float:
        """Return when the stream may be read on; gives until when.

        Args:
            assembled_bytes: of a message that is not whole yet.
        """
        if assembled_bytes > OWN_BYTES and not self._reserved_bytes:
            await self._pool.take(frames.FRAME_BYTES_MAX)
            self._reserved_bytes = frames.FRAME_BYTES_MAX
            self._deadline_s = trio.current_time() + self._timeout_s
        return self._deadline_s

    async def received(self, size_bytes: int) -> None:
        """A message is whole: it counts with its own size from here on."""
        if self._reserved_bytes >= size_bytes:
            self._pool.give_back(self._reserved_bytes - size_bytes)
        else:
            await self._pool.take(size_bytes)
        self._reserved_bytes = 0
        self._deadline_s = float("inf")
        self._charged_bytes += size_bytes

    def keep(self, size_bytes: int) -> None:
        """Keep room for so many unanswered bytes, and give back the rest."""
        self._pool.give_back(self._charged_bytes - size_bytes)
        self._charged_bytes = size_bytes

    def close(self) -> None:
        self._pool.give_back(self._reserved_bytes + self._charged_bytes)
        self._reserved_bytes = self._charged_bytes = 0


@attrs.define(eq=False)
class Answering:
    """What one connection holds of `read`: for each read, and for a tail's next batch."""

    _pool: Pool
    _held: dict[int, int] = attrs.field(factory=dict)
    _number: int = 0

    async def begin(self) -> int:
        """Take room for a read, whatever it finds. Returns: the room's number."""
        await self._pool.take(READ_COST_BYTES)
        self._number += 1
        self._held[self._number] = READ_COST_BYTES
        return self._number

    def found(self, room: int, size_bytes: int) -> None:
        """The frame is made; while it is sent there is a second copy of it."""
        size_bytes = min(2 * size_bytes, self._held[room])
        self._pool.give_back(self._held[room] - size_bytes)
        self._held[room] = size_bytes

    def end(self, room: int) -> None:
        """Give the room back: its answer was sent, or there is nothing to send."""
        self._pool.give_back(self._held.pop(room, 0))

    def close(self) -> None:
        for room in tuple(self._held):
            self.end(room)
