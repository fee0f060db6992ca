"""What the scrubber is asked and tells, but for what `repair` asks: that is `mending`'s."""

from __future__ import annotations

from typing import Final

import attrs

from actors.runtime import ActorRef, ReplyTo

CHECK_BYTES: Final = 8 << 20
"""One answer covers so much: 3 ms of reading beside the loop, and some frames of 1 MiB."""
RECHECK_S: Final = 5.0
"""A damaged range is read again so often, as long as it is damaged."""


@attrs.frozen(kw_only=True)
class Checked:
    """The answer to Check: all from its start up to `until_bytes` may be sent.

    Attributes:
        rotten: damage begins there, or nobody knows; ask again after RECHECK_S.
        compared_s: when they had been read, by the node's monotonic clock: they may rot later.
    """

    until_bytes: int
    rotten: bool
    compared_s: float


@attrs.frozen(kw_only=True)
class Check:
    """May the bytes from `start_bytes` on be sent? What was written since the last range was
    digested may: it comes from the writer's memory, and was never anywhere else.
    """

    start_bytes: int
    reply_to: ReplyTo[Checked]


@attrs.frozen(kw_only=True)
class Doubt:
    """By a reader: what lies at `position` is bad. Look at it, whatever the digests say.

    Attributes:
        is_record: a record begins there, by its head; else it may be the asker's mistake.
    """

    position: int
    is_record: bool


@attrs.frozen(kw_only=True)
class CopyState:
    """To all whom it concerns, when it changes: this copy of the log is damaged, or is not.

    Attributes:
        damage: for people; "" if there is none that is known.
        ranges: log bytes [start, end) of each damaged range, in order.
    """

    damage: str
    ranges: tuple[tuple[int, int], ...] = ()


@attrs.frozen(kw_only=True)
class Watch:
    """Tell the subscriber CopyState now, and whenever it changes. A later one takes its place."""

    subscriber: ActorRef[CopyState]
