"""The bytes that all connections at one port share, as `api.budget` has them for a node's API.

There are two pools. The first counts what peers and clients send, and those of their answers that
they have not taken, above the bytes that each connection has of its own. The second counts answers
to reads, and at ports of processors all answers that are not short. A large frame gets its whole
room when its head is read, so two half-read frames never wait for each other; a connection that
then stalls is ended. The room of a whole frame is given back when the request is answered, which
waits for nothing here. Clients that take nothing of their answers are cut off as soon as others
lack the room, all at once. A part of it is kept for those that hold none.

A connection that has sent a request which only members send counts as a member's: it is served
first, and the room of one largest frame is kept for such connections. This proves nothing, as no
request without a token does, but it suffices against peers that connect and send junk. The last
slots of the port are kept likewise: when only these are free, the client that has been quiet for
the longest is ended for a new connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
import trio

from actors.remoting.stream import RECEIVE_BYTES, SMALL_BYTES, STEP_FRAMES
from actors.runtime.pool import Pool
from wire.remoting.frame import FRAME_BYTES_MAX

RECEIVED_BYTES: Final = 64 << 20
"""The bytes of all connections' frames, and of answers to them. A connection that waits for room
holds less than twice its own bound and one largest frame, which is what members leave of it."""
RESERVED_BYTES: Final = FRAME_BYTES_MAX
"""The part of RECEIVED_BYTES that only members may use."""
READ_BYTES: Final = 64 << 20
"""The bytes of entries that were read, and of their frames until they are sent: a dozen of the
largest."""
FIRST_READ_BYTES: Final = 16 << 20
"""The part of READ_BYTES that is kept for connections which hold none of it: they have taken all
that they were answered."""
OWN_BYTES: Final = 256 << 10
"""The bytes that each connection may hold without asking: votes, heartbeats, frames up to
SMALL_BYTES."""
MADE_WAY: Final = "made way for another: it was the client that had been quiet for the longest"
STALLED_S: Final = 5.0
"""The seconds without taking any answer after which a connection may be ended, as soon as another
one's answers have no room."""
TAKES_NOTHING: Final = f"it has taken nothing for {STALLED_S:g} s, and others' answers had no room"
STEP_ANSWERS_BYTES: Final = STEP_FRAMES * 512
"""The bytes of refusals of, and short answers to, one step's frames that the peer may not take."""


def memory_bytes(connections: int) -> int:
    """Return the most bytes that `connections` can hold together, for `check`.

    This is what they share; a second copy of one frame while it is put together; and what each has
    of its own: one receive, small frames, a step's answers.
    """
    own_bytes = RECEIVE_BYTES + OWN_BYTES + STEP_ANSWERS_BYTES
    return RECEIVED_BYTES + READ_BYTES + FRAME_BYTES_MAX + connections * own_bytes


@attrs.frozen
class RPCBudget:
    """The two pools of one port, and the connections that share them, the oldest first."""

    received: Pool = attrs.field(factory=lambda: Pool(RECEIVED_BYTES, RESERVED_BYTES))
    read: Pool = attrs.field(factory=lambda: Pool(READ_BYTES, FIRST_READ_BYTES))
    shares: dict[Share, None] = attrs.field(factory=dict)

    def make_way(self) -> None:
        """End the client's connection that has been quiet for the longest.

        One that waits for an answer, or has not taken it yet, is not quiet.
        """
        quiet = (share for share in self.shares if share.is_quiet)
        oldest = min(quiet, key=lambda share: share.active_s, default=None)
        if oldest is not None:
            del self.shares[oldest]
            oldest.end(MADE_WAY)

    def cut_off(self) -> None:
        """End the stalled connections, which hold room for answers that others lack."""
        since_s = trio.current_time() - STALLED_S
        for share in [each for each in self.shares if each.is_stalled(since_s)]:
            del self.shares[share]
            share.end(TAKES_NOTHING)


@attrs.define(eq=False)
class Share:
    """The bytes of both pools that one connection holds.

    Args:
        held_bytes: returns the bytes of unanswered requests and unsent answers, without answers to
            reads.

    Attributes:
        end: closes the connection, for the given reason.
        is_member: whether it is a member's, and so is served first.
        active_s: when it last began to wait for bytes.
        unsent_read_bytes: how many of the unsent bytes are answers to reads, at most.
    """

    _budget: RPCBudget
    _held_bytes: Callable[[], int]
    end: Callable[[str], None]
    active_s: float
    is_member: bool = attrs.field(default=False, init=False)
    unsent_read_bytes: int = attrs.field(default=0, init=False)
    _taken_s: float = attrs.field(default=0.0, init=False)  # when some of those were taken last
    _begun_bytes: int = attrs.field(default=0, init=False)  # a large frame, whole
    _taken_bytes: int = attrs.field(default=0, init=False)
    _answering_bytes: int = attrs.field(default=0, init=False)  # read, not yet encoded
    _waits: trio.CancelScope | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._budget.shares[self] = None

    @property
    def is_quiet(self) -> bool:
        """Whether it is a client's connection with nothing under way."""
        return not (self.is_member or self._held_bytes() or self.reads_bytes)

    @property
    def reads_bytes(self) -> int:
        """How many bytes of answers to reads wait to be encoded or sent."""
        return self._answering_bytes + self.unsent_read_bytes

    def is_stalled(self, since_s: float) -> bool:
        """Return whether it holds unsent answers, and the peer has taken none since `since_s`."""
        return bool(self.unsent_read_bytes) and self._taken_s <= since_s

    # What comes.

    def begin(self, begun_bytes: int) -> None:
        """Note the size of the frame that is being read; 0 if none is."""
        self._begun_bytes = begun_bytes if begun_bytes > SMALL_BYTES else 0

    async def before_read(self) -> None:
        """Return when there is room for what is held, and for the frame that is being read."""
        self.active_s = trio.current_time()
        received = self._budget.received
        while (lacks_bytes := self._needed_bytes() - self._taken_bytes) > 0:
            try:
                with trio.CancelScope() as self._waits:
                    await received.take(lacks_bytes, first=self.is_member)
                    self._taken_bytes += lacks_bytes
            finally:
                self._waits = None
        self.settle()

    def prove(self) -> None:
        """Note that the connection has sent a request that only members send."""
        if not self.is_member:
            self.is_member = True
            self._look_again()

    def settle(self) -> None:
        """Give back the room that is not needed any more."""
        if not self._taken_bytes and self._waits is None:
            return
        over_bytes = self._taken_bytes - self._needed_bytes()
        if over_bytes < 0:
            return
        if self._waits is not None:
            self._look_again()
        if over_bytes:
            self._taken_bytes -= over_bytes
            self._budget.received.give_back(over_bytes)

    def _needed_bytes(self) -> int:
        needed_bytes = self._held_bytes() + self._begun_bytes - OWN_BYTES
        return min(max(needed_bytes, 0), RECEIVED_BYTES - RESERVED_BYTES)

    def _look_again(self) -> None:
        """Restart a wait for room, because it may need none, or belong in another queue."""
        if self._waits is not None:
            self._waits.cancel()

    # What goes.

    def read(self, cost_bytes: int) -> bool:
        """Take room for an answer to a read until it is encoded. Returns: whether there is some."""
        holds_none = not self.reads_bytes
        if cost_bytes and not self._budget.read.take_now(cost_bytes, first=holds_none):
            return False
        self._answering_bytes += cost_bytes
        return True

    def could_read(self, cost_bytes: int) -> bool:
        """Return whether `read` would have room."""
        pool, holds_none = self._budget.read, not self.reads_bytes
        if pool.take_now(cost_bytes, first=holds_none):
            pool.give_back(cost_bytes)
            return True
        return False

    def encoded(self, cost_bytes: int, frame_bytes: int) -> None:
        """Note that an answer was encoded, and give back what its frame does not need.

        Args:
            cost_bytes: the room that was taken for it; 0 for none.
            frame_bytes: the size of the frame, which waits to be sent; 0 if it could not be
            encoded.
        """
        if cost_bytes:
            kept_bytes = min(frame_bytes, cost_bytes)
            if not self.unsent_read_bytes:
                self._taken_s = trio.current_time()
            self._answering_bytes -= cost_bytes
            self.unsent_read_bytes += kept_bytes
            self._budget.read.give_back(cost_bytes - kept_bytes)

    def sent(self, unsent_bytes: int) -> None:
        """Note how many bytes of answers are still to be sent."""
        gone_bytes = max(self.unsent_read_bytes - unsent_bytes, 0)
        if gone_bytes:
            self._taken_s = trio.current_time()
            self.unsent_read_bytes -= gone_bytes
            self._budget.read.give_back(gone_bytes)

    # Both.

    def close(self) -> None:
        """Give all room back. Nothing of this connection waits for room any more."""
        assert self._waits is None
        self._budget.shares.pop(self, None)
        self._budget.received.give_back(self._taken_bytes)
        self._budget.read.give_back(self.reads_bytes)
        self._taken_bytes = self._answering_bytes = self.unsent_read_bytes = 0
