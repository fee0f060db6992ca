"""The messages of the scrubber and their answers; those of `repair` are in `mending`.

`ScrubProgress` counts how much of a log was not read since the node's start: damage there is not
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
        unread_bytes: how many bytes of the log that the start found were not read yet. Bytes
            written since are read when they are digested, the rest of the last file once it is
        full. whole_s: the Trio time at which the last pass over all full files ended; None if none
            has ended since the start.
    """

    unread_bytes: int
    whole_s: float | None

    def plain(self, now_s: float) -> dict[str, Any]:
        """Return the fields as a dict for JSON."""
        age_s = None if self.whole_s is None else round(max(0.0, now_s - self.whole_s), 3)
        return {"unread_bytes": self.unread_bytes, "whole_age_s": age_s}


@attrs.frozen(kw_only=True)
class GetScrubbed:
    """Ask how much of the log the scrub has read. Answered with Scrubbed."""

    reply_to: ReplyTo[Scrubbed]


@attrs.frozen(kw_only=True)
class Looked:
    """The answer to Look.

    Attributes:
        next_bytes: where to look next; all from the position that was asked for up to there was
            read, or has expired.
        is_over: whether there is nothing behind it that was digested.
    """

    next_bytes: int
    is_over: bool


@attrs.frozen(kw_only=True)
class Look:
    """From `repair`: read some of the log from `position` on again, now. Answered with Looked.

    Whoever asks again from `next_bytes` on until it is over has read the log as a round of the
    scrub does, at once and with the last file, also where `scrub_bytes_per_s` is 0.
    """

    position: int
    reply_to: ReplyTo[Looked]


@attrs.define
class ScrubProgress:
    """Counts how much of one log was read since the start.

    Attributes:
        found_bytes: the log's end at the start, when none of it was read.
    """

    found_bytes: int
    _read_bytes: int = 0
    _whole_s: float | None = None

    def read(self, end_bytes: int) -> None:
        """Note that the log was read from its beginning up to `end_bytes`."""
        self._read_bytes = max(self._read_bytes, end_bytes)

    def ended(self, now_s: float) -> None:
        """Note that a pass over all full files has ended."""
        self._whole_s = now_s

    def said(self, min_bytes: int) -> Scrubbed:
        """Return the answer to GetScrubbed.

        Args:
            min_bytes: where the log begins now.
        """
        unread_bytes = max(0, self.found_bytes - max(min_bytes, self._read_bytes))
        return Scrubbed(unread_bytes=unread_bytes, whole_s=self._whole_s)


CHECK_BYTES: Final = 8 << 20
"""The most bytes that one answer covers: 3 ms of reading beside the loop, some frames of 1 MiB."""
RECHECK_S: Final = 5.0
"""The seconds between two readings of a damaged range."""


@attrs.frozen(kw_only=True)
class Checked:
    """The answer to Check: all from its start up to `until_bytes` may be sent.

    Attributes:
        rotten: whether damage begins there, or may begin there; ask again after RECHECK_S.
        compared_s: when the bytes were read, by the node's monotonic clock. They may rot later.
    """

    until_bytes: int
    rotten: bool
    compared_s: float


@attrs.frozen(kw_only=True)
class Check:
    """Ask how many bytes from `start_bytes` on may be sent. Answered with Checked.

    Bytes that were written since the last range was digested may be sent, because they come from
    the writer's memory.
    """

    start_bytes: int
    reply_to: ReplyTo[Checked]


@attrs.frozen(kw_only=True)
class Doubt:
    """From a reader: the bytes at `position` seem bad, so check them whatever the digests say.

    Attributes:
        is_record: whether a record begins there, by its head; if not, the position may be a
            client's mistake.
    """

    position: int
    is_record: bool


WITHOUT_END: Final = 1 << 63
"""An offset above every position in a log."""


@attrs.frozen(kw_only=True)
class CopyState:
    """The state of this copy of the log, sent whenever it changes.

    Attributes:
        damage: what is damaged, for people; "" if no damage is known.
        ranges: the log bytes [start, end) of each damaged range, in order. If there is more damage
            than is kept, the last one begins with the first byte that is not kept, and ends at
            `WITHOUT_END`.
    """

    damage: str
    ranges: tuple[tuple[int, int], ...] = ()


@attrs.frozen(kw_only=True)
class Watch:
    """Send CopyState to the subscriber now and at every change. A later Watch replaces this one."""

    subscriber: ActorRef[CopyState]
