"""Histories of logs: which reign each byte comes from, and where two logs part.

A master begins a reign each time it opens its log for appends (`actors.log_types.Reign`); within
one reign, one process wrote, and what it wrote is one sequence of bytes. So two logs are equal up
to where the first of them leaves the last reign that both have part in.

A log without a history (older than reigns, or a Java broker's) is taken to come from one reign
that all such logs share.

Upstream: the epoch entries of RocketMQ 5's auto-switch HA, apache/rocketmq
store/ha/autoswitch/EpochFileCache.java, findConsistentPoint (5.3.3).
Differs:
- reigns are told apart by a random token: a number that two masters chose at once is no proof;
- they are kept beside the log, for the classic wire has no place for them.
"""

from __future__ import annotations

import enum
from typing import Final

import attrs

from actors.log_types import History, Reign

REIGNS_MAX: Final = 256
"""Reigns that a history keeps. Older ones leave first; a copy whose own history ends with one of
them is then taken for another log."""

BEFORE_REIGNS: Final = Reign(number=0, token=0, master="", start_bytes=0)


class Kind(enum.Enum):
    """How one log stands to another."""

    FITS = "fits"  # it is a part of the other, from the beginning
    AHEAD = "ahead"  # the other is a part of it, from the beginning: it goes on where that ends
    DIVERGED = "diverged"  # they part below its end
    UNRELATED = "unrelated"  # no common reign is known


@attrs.frozen
class Comparison:
    """The outcome of `compare`.

    Attributes:
        consistent_bytes: up to here the two logs are equal.
    """

    kind: Kind
    consistent_bytes: int


def trim(history: History, end_bytes: int) -> History:
    """The reigns that bytes of a log of that length come from; those without a byte leave."""
    whole = history or (BEFORE_REIGNS,)
    return tuple(reign for reign in whole if reign.start_bytes < end_bytes)


def line(history: History, end_bytes: int) -> History:
    """The reigns that tell which log it is; never empty.

    Those of its bytes. Where the oldest ones have left the history it may end below the first that
    is kept: then it is the beginning of the log in which that one began.
    """
    return trim(history, end_bytes) or (history or (BEFORE_REIGNS,))[:1]


def compare(own: History, own_end: int, other: History, other_end: int) -> Comparison:
    """How the own log stands to another one.

    Args:
        own, own_end: history and end of the own log, in bytes.
        other, other_end: of the other one. A reign that begins at its very end counts: what the
            own log has beyond that is foreign to it. Later ones, which a slave knows ahead of their
            bytes, say nothing about what it holds.
    """
    if own_end == 0:
        return Comparison(Kind.FITS, 0)
    held = line(own, own_end)
    theirs = line(other, other_end + 1)
    places = {reign.token: place for place, reign in enumerate(theirs)}
    at = next((at for at in reversed(range(len(held))) if held[at].token in places), None)
    if at is None:
        return Comparison(Kind.UNRELATED, 0)
    there = places[held[at].token]
    if theirs[there].start_bytes != held[at].start_bytes:
        return Comparison(Kind.UNRELATED, 0)
    own_branch_end = held[at + 1].start_bytes if at + 1 < len(held) else own_end
    other_is_last = there + 1 == len(theirs)
    other_branch_end = other_end if other_is_last else theirs[there + 1].start_bytes
    consistent = min(own_branch_end, other_branch_end)
    if own_end <= consistent:
        return Comparison(Kind.FITS, own_end)
    if other_is_last and consistent == other_end:
        return Comparison(Kind.AHEAD, consistent)
    return Comparison(Kind.DIVERGED, consistent)


def begin(history: History, end_bytes: int, reign: Reign) -> History:
    """The history of a log whose master begins `reign` at its end."""
    assert reign.start_bytes == end_bytes  # ReignsBeginAtTheEnd
    return (*trim(history, end_bytes), reign)[-REIGNS_MAX:]


def cut(history: History, end_bytes: int) -> History:
    """The history of a log that was cut there; an empty log has none."""
    return line(history, end_bytes) if end_bytes else ()


def adopt(master: History) -> History:
    """The history of a slave whose log fits its master's: its bytes to come are the master's.

    What begins above the slave's end holds no byte of it yet, and `trim` leaves it out.
    """
    return master[-REIGNS_MAX:]
