"""How often a leader has sent a push to a peer in vain, and how soon it tries again.

Differs from upstream, which waits equally long after every answer. A peer that does not follow yet
is about to, because a leader's first heartbeat goes before its pushes; so the first pause is short.
It doubles while the answer stays the same: the peer's disk may be full, or the opening of its log
take minutes.
"""

from __future__ import annotations

from typing import Final

import attrs

from actors.dledger.core.push_effects import PushAnswer
from actors.dledger.core.settings import PushSettings
from wire.dledger.codes import ResponseCode

REFUSALS_REPORTED: Final = 3
"""How many refusals of one entry in a row are reported. After fewer, the peer may only have begun a
new session in between.
"""
TAKES_NO_MORE: Final = "refuses entries and does not say why, as a Java member: its own log may"
SAYS: Final = "takes no entries: {}"
TAKES_NO_SNAPSHOT: Final = (
    "the log begins at {}, and a Java member takes no snapshot: "
    "give it a copy of a member's data folder"
)


@attrs.define
class Patience:
    """Counts refusals of one session with one peer, until `forget`. See the module's text.

    Attributes:
        refused_at: the match index when the peer last refused an append; None if it did not.
        still: whether the peer has answered more than once in a row that it does not follow.
    """

    _settings: PushSettings
    refused_at: int | None = attrs.field(default=None, init=False)
    still: bool = attrs.field(default=False, init=False)
    _refusals: int = attrs.field(default=0, init=False)  # in a row, at `refused_at`
    _silent_at: int | None = attrs.field(default=None, init=False)  # as `refused_at`
    _silences: int = attrs.field(default=0, init=False)  # in a row, at `_silent_at`
    _pause_s: float = attrs.field(default=0.0, init=False)  # after NOT_FOLLOWER; else 0
    _why: str = attrs.field(default="", init=False)

    def forget(self) -> None:
        """Begin a new session."""
        self.refused_at, self._refusals, self._why = None, 0, ""
        self._silent_at, self._silences = None, 0
        self.follows()

    @property
    def refusal(self) -> str:
        """What the peer does not take, for people; "" while it may still take it."""
        if self._why:
            return SAYS.format(self._why)
        return TAKES_NO_MORE if self._refusals >= REFUSALS_REPORTED else ""

    def refused(self, matched: int, why: str = "") -> int:
        """Note that the peer refused the entry after `matched`.

        Args:
            why: the reason that the peer gives; "" if it gives none.

        Returns: how many times in a row it has refused that entry.
        """
        self._why = why
        self._refusals = self._refusals + 1 if self.refused_at == matched else 1
        self.refused_at = matched
        return self._refusals

    def unanswered(self, matched: int) -> int:
        """Note that the peer answered no append of what follows on `matched`.

        Returns: how many times in a row it has not.
        """
        self._silences = self._silences + 1 if self._silent_at == matched else 1
        self._silent_at = matched
        return self._silences

    def failed(self, answer: PushAnswer | None) -> float:
        """Note that a COMPARE or TRUNCATE failed, with this answer or with none.

        Returns: the pause before the next, in seconds.
        """
        settings = self._settings
        if answer is None or answer.code is not ResponseCode.NOT_FOLLOWER:
            self.follows()
            return settings.error_pause_s
        self.still = self._pause_s > 0.0
        doubled_s = 2 * self._pause_s if self.still else settings.follower_pause_s
        self._pause_s = min(doubled_s, settings.error_pause_s)
        return self._pause_s

    def follows(self) -> None:
        """Note that the peer follows, or has answered something else than NOT_FOLLOWER."""
        self.still, self._pause_s = False, 0.0
