"""What readers of a group's log ask for, and those who wait for news of it.

Positions are what the group's log counts in: bytes in a classic group, indexes in a DLedger group.
"""

from __future__ import annotations

import math
from typing import Final

import attrs

from actors.errors import Overloaded
from actors.log_types import Offsets
from actors.runtime import ReplyTo

HELD_MAX: Final = 10_000
"""Watches that may wait at once; more are refused."""
NEWS_WITHIN_S: Final = 0.005
"""Maximum delay of a watch's answer: readers wake for many appends at once. A read shows everything
at once, without that delay.
"""
IDLE_NEWS_WITHIN_S: Final = 1.0
"""Maximum delay while nobody watches: so soon is let go of what has left the log. A question that
comes then finds the news in front of it.
"""
READ_BYTES_MAX: Final = 8 << 20


@attrs.frozen(kw_only=True)
class Pulled:
    """Whole records, and how far the log is.

    Attributes:
        start: position of the first byte of `data`; above what was asked where a file ended.
        next: where to read on; above the end of `data` where a file ends with a blank.
        data: whole records, one after the other; empty if nothing acknowledged follows `start`.
    """

    start: int
    next: int
    data: bytes
    offsets: Offsets


class NotARecord(ValueError):
    """The asked position is not where a record begins: the asker's fault."""


class Unreadable(Exception):
    """What lies at the asked position is damaged on this node, by the fault of its disk."""


@attrs.frozen(kw_only=True)
class Read:
    """Request: acknowledged records from `start` on.

    Attributes:
        start: a position below the log's first one is moved to it.
        max_bytes: most log bytes; a larger first record is answered alone.
    """

    start: int
    max_bytes: int
    reply_to: ReplyTo[Pulled]


@attrs.frozen(kw_only=True)
class WatchOffsets:
    """Request: answered once the offsets differ from `known` and a read at `above` gives any."""

    known: Offsets | None = None
    above: int = -1
    reply_to: ReplyTo[Offsets]


@attrs.define
class Watches:
    """The watches that wait, of one service."""

    _held: list[WatchOffsets] = attrs.field(factory=list, init=False)

    def __bool__(self) -> bool:
        return bool(self._held)

    @property
    def news_within_s(self) -> float:
        """For `ActorContext.want_notes`."""
        return NEWS_WITHIN_S if self._held else math.inf

    def add(self, request: WatchOffsets) -> None:
        """Have it wait, or refuse it: then it is answered."""
        if len(self._held) >= HELD_MAX:
            self._held = [held for held in self._held if not held.reply_to.answered]
        if len(self._held) >= HELD_MAX:
            request.reply_to.fail(Overloaded(f"{HELD_MAX} readers wait already"))
        else:
            self._held.append(request)

    def tell(self, now: Offsets, readable: int) -> None:
        """Answer those for whom something is new.

        Args:
            readable: a read gives what is below it.
        """
        kept: list[WatchOffsets] = []
        for held in self._held:
            if readable > held.above and now != held.known:
                held.reply_to.send(now)
            elif not held.reply_to.answered:
                kept.append(held)
        self._held = kept
