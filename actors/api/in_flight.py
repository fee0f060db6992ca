"""The unanswered requests of one connection, and the bounds on them."""

from __future__ import annotations

import attrs
import trio

from actors.api.budget import ReadShare
from actors.api.limits import ApiLimits


@attrs.define(eq=False)
class InFlight:
    """Requests of one connection, from their arrival until their answers are sent.

    A message has arrived when it is whole. Once there is room for it, its requests are unread until
    the actor handles them. A request that is answered later is taken from then until its answer is
    sent.
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
        """Return the number of requests that were taken and are not answered."""
        return len(self._taken)

    def __contains__(self, request: int) -> bool:
        return request in self._taken

    def arrived(self, size_bytes: int) -> None:
        """Note that a message of that size was received whole; it waits for room next."""
        self._arrived_bytes = size_bytes

    async def room(self, count: int, size_bytes: int) -> None:
        """Wait until there is room for a message.

        One that exceeds the bounds by itself finds room when nothing else is in flight.

        Args:
            count: the number of its requests.
            size_bytes: its size.
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
        """Note that the actor handles a request. Call `make_room` after the last of a message."""
        self._unread -= 1
        self._unread_bytes -= size_bytes

    def take(self, request: int, size_bytes: int) -> None:
        """Note that a request will be answered later."""
        self._taken[request] = size_bytes
        self._taken_bytes += size_bytes

    def release(self, request: int) -> None:
        """Note that the answer to a request is sent."""
        self._taken_bytes -= self._taken.pop(request)
        self.make_room()

    def make_room(self) -> None:
        """Give back bytes that are not held any more, and wake the task that waits in `room`."""
        self._reading.keep(self._taken_bytes + self._unread_bytes + self._arrived_bytes)
        self._room.set()
