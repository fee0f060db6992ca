"""Decides when a member's election acts on the clock: after it has read its waiting messages.

Upstream: openmessaging/dledger, DLedgerLeaderElector.java (StateMaintainer), 0.3.1.2, which looks
every 10 ms. Differs: when a member stood still (a stopped process, a machine that slept), its
time-outs are over while its leader's heartbeats wait unread; upstream's campaigns then.
"""

from __future__ import annotations

import math
from typing import Any, Final

import attrs

from actors.runtime import Timers

LISTEN_S: Final = 0.05
"""The time in seconds for which messages are read before a campaign begins."""
LAGGED_S: Final = 1.0
"""A delay of the timer in seconds that shows that the member was suspended again while it read
messages; it then reads for LISTEN_S once more.
"""
_HELD: Final = -math.inf


@attrs.frozen(kw_only=True)
class TickDue:
    """Timer: `Effects.deadline_s` has come.

    Attributes:
        listened_s: until when messages were read before a campaign; None if they were not.
    """

    listened_s: float | None = None


@attrs.define
class ElectionClock:
    """The clock of one election. Its timer sends the maintainer TickDue. See the module's text."""

    _timers: Timers[Any]
    _set_s: float | None = attrs.field(default=None, init=False)  # _HELD: no deadline is earlier
    _owed: bool = attrs.field(default=False, init=False)

    def wake_by(self, deadline_s: float | None) -> None:
        """Set the timer for `Effects.deadline_s`.

        A later deadline needs no new timer: the old one finds nothing due and sets the next.
        """
        if deadline_s is not None and (self._set_s is None or deadline_s < self._set_s):
            self._set_s = deadline_s
            self._timers.start_at("tick", deadline_s, TickDue())

    def ticks(self, now_s: float, due: TickDue, *, campaigns: bool, saving: bool) -> bool:
        """Return whether the election has to act on the clock now; if not, set the next timer.

        Args:
            campaigns: whether it would then give the leader up for lost, or ask for votes.
            saving: whether a vote is being saved, for which its effects would wait; the election
                acts after that.
        """
        if saving:
            self._set_s, self._owed = _HELD, True
            return False
        listened = due.listened_s is not None and now_s < due.listened_s + LAGGED_S
        if campaigns and not listened:
            self._set_s = _HELD
            listened_s = now_s + LISTEN_S
            self._timers.start_at("tick", listened_s, TickDue(listened_s=listened_s))
            return False
        self._set_s = None
        return True

    def saved(self, now_s: float) -> None:
        """Note that no vote waits to be saved any more."""
        if self._owed:
            self._set_s, self._owed = None, False
            self.wake_by(now_s)
