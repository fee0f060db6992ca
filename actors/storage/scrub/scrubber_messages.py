"""What the scrubber is asked and tells, but for what `repair` asks: that is `mending`'s.

`ScrubProgress` counts how much of a log nobody has read since its node's start: damage there is not
known yet.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from actors.runtime import ActorRef, ReplyTo


@attrs.frozen(kw_only=True)
class Scrubbed:
    """The answer to GetScrubbed.

    Attributes:
        unread_bytes: of the log as the start found it, 0 or more. What came since is read as it is
            digested; of the last file all the rest once it is full.
        whole_s: when the last pass over all full files ended, Trio's time; None: none has since the
            start.
    """

    unread_bytes: int
    whole_s: float | None

    def plain(self, now_s: float) -> dict[str, Any]:
        """The fields as a dict for JSON."""
        age_s = None if self.whole_s is None else round(max(0.0, now_s - self.whole_s), 3)
        return {"unread_bytes": self.unread_bytes, "whole_age_s": age_s}


@attrs.frozen(kw_only=True)
class GetScrubbed:
    """How far is the scrub?"""

    reply_to: ReplyTo[Scrubbed]


@attrs.define
class ScrubProgress:
    """How far one log was read since a start.

    Attributes:
        found_bytes: the start found the log up to here, and has read none of it.
    """

    found_bytes: int
    _read_bytes: int = 0
    _whole_s: float | None = None

    def read(self, end_bytes: int) -> None:
        """All up to here has been read, from the log's beginning on."""
        self._read_bytes = max(self._read_bytes, end_bytes)

    def ended(self, now_s: float) -> None:
        """A pass over all full files is complete."""
        self._whole_s = now_s

    def said(self, min_bytes: int) -> Scrubbed:
        """Args: min_bytes: where the log begins now."""
        unread_bytes = max(0, self.found_bytes - max(min_bytes, self._read_bytes))
        return Scrubbed(unread_bytes=unread_bytes, whole_s=self._whole_s)


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


WITHOUT_END: Final = 1 << 63
"""No position in a log."""


@attrs.frozen(kw_only=True)
class CopyState:
    """To all whom it concerns, when it changes: this copy of the log is damaged, or is not.

    Attributes:
        damage: for people; "" if there is none that is known.
        ranges: log bytes [start, end) of each damaged range, in order. Where there are too many to
            remember each, one begins with the first that is not, and ends `WITHOUT_END`.
    """

    damage: str
    ranges: tuple[tuple[int, int], ...] = ()


@attrs.frozen(kw_only=True)
class Watch:
    """Tell the subscriber CopyState now, and whenever it changes. A later one takes its place."""

    subscriber: ActorRef[CopyState]
