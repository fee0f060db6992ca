"""A node that has no slot for one more client is asked again: clients leave all the time.

Each waits a little longer than before, and not as long as the others do, so that those who are
turned away together do not come together again.
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
"""The pauses before the next tries: each is drawn from the upper half of twice the one before."""
UNCONFIRMED_S: Final = 1.0
"""How long a peer that closes the connection without a frame is tried again: a node does so while
too many connect at once, which passes; most other peers that do so are no node.
"""

T = TypeVar("T")


class NoSlot(ConnectionError):
    """The node runs, and takes no more clients now.

    Attributes:
        confirmed: it said so; otherwise it went away as a node in a crowd does.
    """

    def __init__(self, text: str, *, confirmed: bool = True) -> None:
        super().__init__(text)
        self.confirmed = confirmed


@attrs.define
class Pauses:
    """How long one client waits before each next try.

    Attributes:
        seed: what no other client has, and the same client in a simulation that is run again.
    """

    seed: str
    _most_s: float = PAUSE_FIRST_S
    _rng: random.Random = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        # A path may have bytes that the locale has no characters for.
        self._rng = random.Random(self.seed.encode("utf-8", "surrogateescape"))

    def next_s(self) -> float:
        """Seconds."""
        most_s, self._most_s = self._most_s, min(2 * self._most_s, PAUSE_MAX_S)
        return most_s * self._rng.uniform(0.5, 1.0)


def pauses_of(*who: object) -> Pauses:
    """Pauses whose draws differ by who waits, and by when it began.

    Args:
        who: for instance the client's name and the node's.
    """
    return Pauses(" ".join(map(str, (*who, trio.current_time()))))


@asynccontextmanager
async def with_slot(
    enter: Callable[[], AbstractAsyncContextManager[T]], wait_s: float, *who: object
) -> AsyncIterator[T]:
    """Enter, and again while there is no slot; what is entered is left with the block.

    Args:
        wait_s: from now on; the last try is when it is over. 0: one try.
        who: see `pauses_of`.

    Raises (on entry): what `enter` does; NoSlot only when the time is over, which it says then.
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
