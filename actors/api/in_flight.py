"""The unanswered requests of one connection, and the bounds on them."""

from __future__ import annotations

import attrs
import trio

from actors.api.budget import ReadShare
from actors.api.limits import ApiLimits


@attrs.define(eq=False)
class InFlight:
    """Requests of one connection, from their arrival until their answers are sent.

    A message has arrived when it is whole; it is unread from when there is room for it until the
    actor comes to it; then each of its requests may be taken, until it is answered.
    """

    _limits: ApiLimits
    _reading: ReadShare
    _taken: dict[int, int] = attrs.field(factory=dict)  # request -> bytes of its frame
    _taken_bytes: int = 0
    _unread: int = 0
    _unread_bytes: int = 0
    _arrived_bytes: int = 0
    _room: trio.Event = attrs.field(factory=trio.Event)

    def __len__(self) -> int:
        """Requests that were taken and are not answered."""
        return len(self._taken)

    def __contains__(self, request: int) -> bool:
        return request in self._taken

    def arrived(self, size_bytes: int) -> None:
        """Note that a message of that size was received whole; it waits for room next."""
        self._arrived_bytes = size_bytes

    async def room(self, count: int, size_bytes: int) -> None:
        """Wait until there is room for a message; one that is above the bounds by itself may go
        alone.

        Args:
            count: number of its requests.
        """
        limits = self._limits
        while (held := len(self._taken) + self._unread) and (
            held + count > limits.in_flight_requests
            or self._taken_bytes + self._unread_bytes + size_bytes > limits.in_flight_bytes
        ):
            self._room = trio.Event()
            await self._room.wait()
        self._unread += count
        self._unread_bytes += size_bytes
        self._arrived_bytes = 0

    def read(self, size_bytes: int) -> None:
        """The actor has come to one request; `make_room` follows the last of its message."""
        self._unread -= 1
        self._unread_bytes -= size_bytes

    def take(self, request: int, size_bytes: int) -> None:
        """Note that a request will be answered later."""
        self._taken[request] = size_bytes
        self._taken_bytes += size_bytes

    def release(self, request: int) -> None:
        """Its answer is sent."""
        self._taken_bytes -= self._taken.pop(request)
        self.make_room()

    def make_room(self) -> None:
        """Give back what is held no more, and have whoever waits look again."""
        self._reading.keep(self._taken_bytes + self._unread_bytes + self._arrived_bytes)
        self._room.set()
