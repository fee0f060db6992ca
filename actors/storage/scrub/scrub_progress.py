"""How much of a log nobody has read since its node's start: damage there is not known yet."""

from __future__ import annotations

from typing import Any

import attrs

from actors.runtime import ReplyTo


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
