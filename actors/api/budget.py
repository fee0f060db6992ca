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
    """The bytes of `Budget.received` that one connection holds.

    Attributes:
        timeout_s: how many seconds the rest of a large message may take, so that a stalled client
            does not keep its room.
    """

    _pool: Pool
    _timeout_s: float
    _reserved_bytes: int = 0
    _charged_bytes: int = 0
    _deadline_s: float = float("inf")

    async def before_read(self, assembled_bytes: int) -> float:
        """Wait until more of the stream may be read.

        Args:
            assembled_bytes: how many bytes of the unfinished message are in memory.

        Returns: the Trio time until which the rest of the message has to come; infinity for a
            message without reserved room.
        """
        if assembled_bytes > OWN_BYTES and not self._reserved_bytes:
            await self._pool.take(frames.FRAME_BYTES_MAX)
            self._reserved_bytes = frames.FRAME_BYTES_MAX
            self._deadline_s = trio.current_time() + self._timeout_s
        return self._deadline_s

    async def received(self, size_bytes: int) -> None:
        """Note that a message is whole; from now on it is counted with its own size.

        Wait for room if none was reserved for it.
        """
        if self._reserved_bytes >= size_bytes:
            self._pool.give_back(self._reserved_bytes - size_bytes)
        else:
            await self._pool.take(size_bytes)
        self._reserved_bytes = 0
        self._deadline_s = float("inf")
        self._charged_bytes += size_bytes

    def keep(self, size_bytes: int) -> None:
        """Keep room for `size_bytes` of unanswered requests, and give back the rest."""
        self._pool.give_back(self._charged_bytes - size_bytes)
        self._charged_bytes = size_bytes

    def close(self) -> None:
        self._pool.give_back(self._reserved_bytes + self._charged_bytes)
        self._reserved_bytes = self._charged_bytes = 0


@attrs.define(eq=False)
class Answering:
    """The bytes of `Budget.read` that one connection holds for its reads and tails' batches."""

    _pool: Pool
    _held: dict[int, int] = attrs.field(factory=dict)
    _number: int = 0

    async def begin(self) -> int:
        """Take room for the largest possible result of a read. Returns: the room's number."""
        await self._pool.take(READ_COST_BYTES)
        self._number += 1
        self._held[self._number] = READ_COST_BYTES
        return self._number

    def found(self, room: int, size_bytes: int) -> None:
        """Note a result's size, and give back the rest of its room.

        It is counted twice, because there is a second copy while it is sent.
        """
        size_bytes = min(2 * size_bytes, self._held[room])
        self._pool.give_back(self._held[room] - size_bytes)
        self._held[room] = size_bytes

    def end(self, room: int) -> None:
        """Give the room back: its answer was sent, or there is nothing to send."""
        self._pool.give_back(self._held.pop(room, 0))

    def close(self) -> None:
        for room in tuple(self._held):
            self.end(room)
