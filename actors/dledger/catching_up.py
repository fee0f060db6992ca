"""Whether a follower holds all that its leader's log had when they were first compared.

A member whose store is in memory has lost what it acknowledged in an earlier life; whatever of that
is committed, a leader that was elected without its vote has. The leader's first COMPARE names the
end of its log (`core.dispatch`: a search that was not answered begins anew).
"""

from __future__ import annotations

import attrs

from actors.dledger.core.intake import Intake
from wire.dledger_codes import PushType
from wire.dledger_rpc import PushEntryRequest


@attrs.define
class CatchingUp:
    """See the module's text."""

    _leader: str = attrs.field(default="", init=False)
    _term: int = attrs.field(default=-1, init=False)
    _until: int | None = attrs.field(default=None, init=False)
    _said: bool = attrs.field(default=False, init=False)

    def follow(self, leader: str, term: int) -> None:
        """A session begins. What its leader compares first in it may be the rest of a search that
        the session before saw begin.
        """
        if (leader, term) != (self._leader, self._term):
            self._until = None
        self._leader, self._term, self._said = leader, term, False

    def saw(self, request: PushEntryRequest) -> None:
        """A push of anybody."""
        own = (request.leader_id, request.term) == (self._leader, self._term)
        if own and request.type is PushType.COMPARE and request.entries and self._until is None:
            self._until = request.entries[0].index

    def has(self, intake: Intake) -> bool:
        """Whether it holds all now; said once in a session."""
        if self._said or self._until is None or intake.matched is None:
            return False
        self._said = min(intake.matched, intake.stored) >= self._until
        return self._said
