"""Histories of logs: which epoch each byte of a log comes from, and where two logs part.

A master begins an epoch each time it opens its log for appends. Within one epoch one process wrote,
and what it wrote is one sequence of bytes. So two logs are equal up to where the first of them
leaves the last epoch that both have part in: their consistent point.

A history is a tuple of epochs, oldest first, and the functions here are all that is done with one.
Where an epoch ends is not stored: the next one begins there, and the newest one ends with its log.

A log without a history (older than epochs, or a Java broker's) is taken to come from one epoch that
all such logs share.

Upstream: the epoch entries of RocketMQ 5's auto-switch HA, apache/rocketmq
store/ha/autoswitch/EpochFileCache.java, findConsistentPoint (5.3.3).
Differs:
- classic epochs bear a random token: a number that two masters chose at once is no proof. Entries
  of an auto-switch epoch file have none, for the controller gives each number once; they are epochs
  with token 0 and without a master;
- classic histories are kept in `identity.json`, for the classic wire has no field for them;
- an epoch that holds no byte when the next one begins leaves the history. Upstream refuses the next
  one then, and two masters' bytes share a number.
"""

from __future__ import annotations

import enum
import itertools
from typing import Final, TypeAlias

import attrs

EPOCHS_MAX: Final = 256
"""Epochs that a history keeps. Older ones leave first; a copy whose own history ends with one of
them is then taken for another log."""


@attrs.frozen
class Epoch:
    """A stretch of a log that one master wrote, from the moment it opened the log for appends.

    Two epochs are the same one if all of their fields are equal.

    Attributes:
        number: of the promotion that made the master, 0 for the cluster file's; several epochs of
            one master may bear it.
        token: drawn when it began, 1 to 2**63 - 1; 0 stands for all that is older than epochs.
        master: the node.
        start_bytes: where the log ended at that moment.
    """

    number: int
    token: int
    master: str
    start_bytes: int


History: TypeAlias = tuple[Epoch, ...]
"""The epochs that a log's bytes come from, oldest first."""

BEFORE_EPOCHS: Final = Epoch(number=0, token=0, master="", start_bytes=0)


class Kind(enum.Enum):
    """How one log stands to another."""

    FITS = "fits"  # it is a part of the other, from the beginning
    AHEAD = "ahead"  # the other is a part of it, from the beginning: it goes on where that ends
    DIVERGED = "diverged"  # they part below its end
    UNRELATED = "unrelated"  # no common epoch is known


@attrs.frozen
class Comparison:
    """The outcome of `compare`.

    Attributes:
        consistent_bytes: up to here the two logs are equal.
    """

    kind: Kind
    consistent_bytes: int


def trim(history: History, end_bytes: int) -> History:
    """The epochs from which the bytes of a log of that length come, without those that have
    none.
    """
    whole = history or (BEFORE_EPOCHS,)
    return tuple(epoch for epoch in whole if epoch.start_bytes < end_bytes)


def line(history: History, end_bytes: int) -> History:
    """The epochs by which a log is identified; never empty.

    These are the epochs of its bytes. Where the oldest epochs have left the history, the log may
    end below the first one that is kept: then it is the beginning of the log in which that began.
    """
    return trim(history, end_bytes) or (history or (BEFORE_EPOCHS,))[:1]


def compare(own: History, own_end: int, other: History, other_end: int) -> Comparison:
    """How the own log stands to another one, and their consistent point.

    Args:
        own, own_end: history and end of the own log, in bytes.
        other, other_end: of the other one. An epoch that begins at its very end counts: what the
            own log has beyond that is foreign to it. Later ones, which a slave knows ahead of their
            bytes, say nothing about what it holds.
    """
    if own_end == 0:
        return Comparison(Kind.FITS, 0)
    held = line(own, own_end)
    theirs = line(other, other_end + 1)
    common = _newest_common(held, theirs)
    if common is None:
        return Comparison(Kind.UNRELATED, 0)
    own_leaves = _end_of(held, common, own_end)
    other_leaves = _end_of(theirs, common, other_end)
    consistent = min(own_leaves, other_leaves)
    if own_end <= consistent:
        return Comparison(Kind.FITS, own_end)
    if common == theirs[-1] and consistent == other_end:
        return Comparison(Kind.AHEAD, consistent)
    return Comparison(Kind.DIVERGED, consistent)


def _newest_common(held: History, others: History) -> Epoch | None:
    known = frozenset(others)  # a master may list some 100,000
    return next((epoch for epoch in reversed(held) if epoch in known), None)


def _end_of(history: History, epoch: Epoch, end_bytes: int) -> int:
    """Where an epoch of a history ends, in a log that ends at `end_bytes`."""
    later = history[history.index(epoch) + 1 :]
    return later[0].start_bytes if later else end_bytes


def begin(history: History, end_bytes: int, epoch: Epoch) -> History:
    """The history of a log whose master begins `epoch` at its end."""
    assert epoch.start_bytes == end_bytes  # EpochsBeginAtTheEnd
    return prune((*trim(history, end_bytes), epoch))


def cut(history: History, end_bytes: int) -> History:
    """The history of a log that was cut there; an empty log has none."""
    return line(history, end_bytes) if end_bytes else ()


def follow(own: History, other: History, end_bytes: int) -> History:
    """The history of a log that is the beginning of another one, and follows it from its end on.

    Args:
        own, end_bytes: of the log, which was cut where `compare` found that the two part, or will
            end there once it has what comes next; () is of an empty one.
        other: of the other one; its epochs that begin above the end of the log hold none of its
            bytes yet, and come later.

    Of epochs without bytes the other's count, so that the next byte is of the right one.
    """
    held = trim(own, end_bytes) if own and end_bytes else ()
    common = _newest_common(held, other)
    assert common is not None or not held  # FollowsItsOwnLog
    older = held[: held.index(common)] if common is not None else ()
    later = other[other.index(common) :] if common is not None else other
    return (*older, *(epoch for epoch in later if epoch.start_bytes <= end_bytes))


def expire(history: History, min_bytes: int) -> History:
    """The history of a log whose bytes below an offset were deleted; the newest epoch stays."""
    gone = sum(
        epoch.start_bytes < min_bytes and later.start_bytes <= min_bytes
        for epoch, later in itertools.pairwise(history)
    )
    return history[gone:]


def prune(history: History) -> History:
    """The newest EPOCHS_MAX epochs, of a history that may be longer.

    This is also the history of a slave whose log fits its master's, made from the master's: the
    bytes that it lacks will be the master's, and epochs that begin above its end hold none of its
    bytes until then.
    """
    return history[-EPOCHS_MAX:]
