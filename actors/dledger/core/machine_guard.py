"""Checks whether a follower's state machine can go on with a log that begins anew.

Source: dledger.md 9 and 11.4, items 14 and 15; dialect L has no such question, for its members
have no machine that could lack an entry.
"""

from __future__ import annotations

import attrs

from actors.events.dledger import SnapshotRefused


@attrs.define
class MachineGuard:
    """See the module's text.

    Attributes:
        at: the last entry that the machine surely has, with all before it; None: no machine.
    """

    at: int | None = None
    _session: int = attrs.field(default=-1, init=False)  # the last that was reported

    def reached(self, index: int) -> None:
        """Note that the machine has all up to `index`, from a snapshot or from the log."""
        self.at = index if self.at is None else max(self.at, index)

    def lacks(self, begin: int) -> bool:
        """Return whether the machine lacks an entry before `begin`, where the log is to begin."""
        return self.at is not None and begin > self.at + 1

    def said(self, session: int, leader: str, begin: int) -> tuple[SnapshotRefused, ...]:
        """Return the event about a refused log, once in each session; () after that."""
        if session == self._session:
            return ()
        self._session = session
        reason = f"the leader's log begins at {begin}, the state machine is at {self.at}"
        return (SnapshotRefused(peer=leader, index=begin, reason=reason),)
