"""How often a leader has asked a peer in vain, and how soon it asks again.

Differs from upstream, which waits as long after every answer: who does not follow yet is about to,
for a leader's first heartbeat goes before its pushes, and is asked again soon; the pause doubles
while it says nothing else: its disk may be full, or its log be opened for minutes.
"""

from __future__ import annotations

from typing import Final

import attrs

from actors.dledger.core.push_effects import PushAnswer
from actors.dledger.core.settings import PushSettings
from wire.dledger.codes import ResponseCode

REFUSALS_TOLD: Final = 3
"""Refusals of one entry in a row; before that a peer may have begun a new session in between."""
TAKES_NO_MORE: Final = "takes no more: files of another size, no room (see its status), slow link"
TAKES_NO_SNAPSHOT: Final = (
    "the log begins at {}, and a Java member takes no snapshot: "
    "give it a copy of a member's data folder"
)


@attrs.define
class Patience:
    """See the module's text. Of one session with one peer, until `forget`.

    Attributes:
        refused_at: what was matched when the peer refused an append last; None: it did not.
        still: it has said once more that it does not follow.
    """

    _settings: PushSettings
    refused_at: int | None = attrs.field(default=None, init=False)
    still: bool = attrs.field(default=False, init=False)
    _refusals: int = attrs.field(default=0, init=False)  # there, in a row
    _pause_s: float = attrs.field(default=0.0, init=False)  # after NOT_FOLLOWER; 0: said no more

    def forget(self) -> None:
        """A new session begins."""
        self.refused_at, self._refusals = None, 0
        self.follows()

    @property
    def refusal(self) -> str:
        """What it does not take, for people; "": it may yet."""
        return TAKES_NO_MORE if self._refusals >= REFUSALS_TOLD else ""

    def refused(self, matched: int) -> int:
        """The peer refused what follows on that entry. Gives how often, in a row."""
        self._refusals = self._refusals + 1 if self.refused_at == matched else 1
        self.refused_at = matched
        return self._refusals

    def failed(self, answer: PushAnswer | None) -> float:
        """A COMPARE or TRUNCATE was not answered as it must be; None: not at all.

        Returns: the pause, in seconds, before the next.
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
        """Or it said something else than that it does not."""
        self.still, self._pause_s = False, 0.0
