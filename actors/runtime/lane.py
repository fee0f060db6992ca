"""One queue of a mailbox, and the line of senders that wait for room in it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from actors.runtime.parking import Parker


class WaitingSender:
    """A message that waits for room, and the task to wake; that of `ask_later` has none."""

    __slots__ = ("lane", "message", "parker", "size_bytes")

    def __init__(self, lane: Lane, message: object, size_bytes: int) -> None:
        self.lane = lane
        self.message = message
        self.size_bytes = size_bytes
        self.parker = Parker(self.withdraw)

    def withdraw(self) -> None:
        """Remove a sender that gave up. Those behind it wait until the receiver makes room.

        None of them is let in here. One cancellation may reach several senders in any order, and
        which of their messages are sent must not depend on it.
        """
        self.lane.waiting.pop(self, None)


class _Gone:
    """The placeholder of a message that was conflated."""


GONE = _Gone()


class Lane:
    """One queue. `ActorRef.tell` appends to it; only the mailbox uses it in other ways."""

    __slots__ = (
        "capacity",
        "capacity_bytes",
        "gone",
        "items",
        "limit",
        "size_bytes",
        "special",
        "waiting",
    )

    def __init__(
        self,
        capacity: int,
        capacity_bytes: int | None = None,
        special: frozenset[type] = frozenset(),
    ) -> None:
        self.items: list[Any] = []
        self.capacity = capacity
        self.capacity_bytes = capacity_bytes
        self.special = special
        self.limit = capacity if capacity_bytes is None else 0
        self.size_bytes = 0
        self.gone = 0
        self.waiting: OrderedDict[WaitingSender, None] = OrderedDict()

    @property
    def depth(self) -> int:
        return len(self.items) - self.gone

    def has_room(self, size_bytes: int) -> bool:
        depth = len(self.items) - self.gone
        if depth == 0:
            return True
        if depth >= self.capacity:
            return False
        return self.capacity_bytes is None or self.size_bytes + size_bytes <= self.capacity_bytes

    def append(self, message: object, size_bytes: int) -> None:
        self.items.append(message)
        self.size_bytes += size_bytes

    def admit_waiting(self) -> None:
        """Let waiting senders in, in order, as long as the first of them fits."""
        waiting = self.waiting
        while waiting:
            sender = next(iter(waiting))
            if not self.has_room(sender.size_bytes):
                break
            del waiting[sender]
            self.append(sender.message, sender.size_bytes)
            sender.parker.wake()

    def take(self) -> list[Any]:
        """Remove and return all messages, oldest first; let in the senders that wait for room."""
        items = self.items
        self.items = []
        self.size_bytes = 0
        if self.gone:
            items = [each for each in items if each is not GONE]
            self.gone = 0
        if self.waiting:
            self.admit_waiting()
        return items
