"""Whether a follower holds all that its leader's log had when they were first compared.

A member whose store is in memory has lost what it acknowledged in an earlier life; whatever of that
is committed, a leader that was elected without its vote has. The leader's first COMPARE names the
end of its log.
"""

from __future__ import annotations

import attrs

from actors.dledger.core.intake import Intake
from wire.dledger_codes import PushType
from wire.dledger_rpc import PushEntryRequest


@attrs.define
class CatchingUp:
    """Of one session, which follows that leader in that term."""

    _leader: str = ""
    _term: int = -1
    _until: int | None = attrs.field(default=None, init=False)
    _said: bool = attrs.field(default=False, init=False)

    def saw(self, request: PushEntryRequest) -> None:
        """A push of anybody."""
        own = (request.leader_id, request.term) == (self._leader, self._term)
        if own and request.type is PushType.COMPARE and request.entries and self._until is None:
            self._until = request.entries[0].index

    def has(self, intake: Intake) -> bool:
        """Whether it holds all now; said once."""
        if self._said or self._until is None or intake.matched is None:
            return False
        self._said = min(intake.matched, intake.stored) >= self._until
        return self._said
