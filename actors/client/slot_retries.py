"""Tries a node again that has no slot for one more client, because clients leave all the time.

Each client waits a little longer than before, and not as long as other clients do, so that clients
that were refused together do not come back together.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final, TypeVar

import attrs
import trio

PAUSE_FIRST_S: Final = 0.1
PAUSE_MAX_S: Final = 1.0
"""The bounds of the pauses before further tries: each pause is drawn from the upper half of its
bound, and each bound is twice the one before."""
UNCONFIRMED_S: Final = 1.0
"""How long a peer is tried again that closes the connection without a frame: a node does so while
too many connect at once, which passes; most other peers that do so are no node."""

T = TypeVar("T")


class NoSlot(ConnectionError):
    """The node is running, and takes no more clients now.

    Attributes:
        confirmed: whether the node said so; otherwise it only closed the connection, as a node does
            when too many connect.
    """

    def __init__(self, text: str, *, confirmed: bool = True) -> None:
        super().__init__(text)
        self.confirmed = confirmed


@attrs.define
class Pauses:
    """The pauses of one client before its further tries.

    Attributes:
        seed: a text that no other client has, but the same client in a repeated simulation.
    """

    seed: str
    _most_s: float = PAUSE_FIRST_S
    _rng: random.Random = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        # A path may have bytes that the locale has no characters for.
        self._rng = random.Random(self.seed.encode("utf-8", "surrogateescape"))

    def next_s(self) -> float:
        """Return the length of the next pause in seconds."""
        most_s, self._most_s = self._most_s, min(2 * self._most_s, PAUSE_MAX_S)
        return most_s * self._rng.uniform(0.5, 1.0)


def pauses_of(*who: object) -> Pauses:
    """Make pauses that differ between clients, and by the time at which the client began to wait.

    Args:
        who: what tells clients apart, for instance the names of client and node.
    """
    return Pauses(" ".join(map(str, (*who, trio.current_time()))))


@asynccontextmanager
async def with_slot(
    enter: Callable[[], AbstractAsyncContextManager[T]], wait_s: float, *who: object
) -> AsyncIterator[T]:
    """Enter a context, again while there is no slot; it is left at the end of the block.

    Args:
        wait_s: for how many seconds to try; the last try is at their end. 0: once.
        who: see `pauses_of`.

    Raises (on entry): what `enter` raises; NoSlot only when the time is over, with that in its
        text.
    """
    begun_s, pauses = trio.current_time(), pauses_of(*who)
    async with AsyncExitStack() as stack:
        while True:
            try:
                found = await stack.enter_async_context(enter())
                break
            except NoSlot as error:
                most_s = wait_s if error.confirmed else min(wait_s, UNCONFIRMED_S)
                left_s = begun_s + most_s - trio.current_time()
                if left_s <= 0:
                    tried = f"; tried again for {most_s:g} s" if most_s else ""
                    raise NoSlot(f"{error}{tried}", confirmed=error.confirmed) from None
            await trio.sleep(min(pauses.next_s(), left_s))
        yield found
