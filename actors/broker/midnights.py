"""MidnightCounter keeps how many messages had been stored at the last two midnights, from which
tools reckon how many were stored today and yesterday.

Upstream: apache/rocketmq, store/.../stats/BrokerStats.java (record), which BrokerController.java
calls at the first midnight and every 24 h from there on, 5.3.3; broker.md 6.3.

Messages: none but its own. A restart goes on with the counts as they are, and counts a midnight
that has passed meanwhile. Midnights are this machine's, by its wall clock and time zone.

Differs: the clock is looked at every LOOK_S, so that one that was set, or a summer's end, moves no
later midnight. A clock that is set back repeats no midnight.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Final

import attrs

from actors.env import Env
from actors.runtime import Actor

LOOK_S: Final = 60.0
"""Between two looks at the clock; there is one at midnight, too."""
_DAY: Final = datetime.timedelta(days=1)


@attrs.define(eq=False)
class Midnights:
    """Counts of messages since the node's start.

    Attributes:
        today: how many there were at the last midnight; 0: there was none since the start.
        yesterday: at the one before.
        day: the last day that has begun, as a number; 0: it is not known yet.
    """

    today: int = 0
    yesterday: int = 0
    day: int = 0

    def look(self, day: int, count: int) -> None:
        """It is that day, and there are so many messages."""
        if self.day and day > self.day:
            self.yesterday, self.today = self.today, count
        self.day = max(self.day, day)


@attrs.frozen
class _Look:
    """Time to look at the clock."""


@attrs.define(kw_only=True)
class MidnightCounter(Actor[_Look]):
    """See the module's text.

    Attributes:
        stored: how many messages were stored since the node's start.
        midnights: what it writes; it outlives the actor.
    """

    env: Env
    stored: Callable[[], int]
    midnights: Midnights

    async def on_start(self) -> None:
        self._look()

    async def handle(self, message: _Look) -> None:
        self._look()

    def _look(self) -> None:
        now = datetime.datetime.fromtimestamp(self.env.wall_clock_ms() / 1000)
        self.midnights.look(now.toordinal(), self.stored())
        midnight = datetime.datetime.combine(now.date() + _DAY, datetime.time())
        left_s = (midnight - now).total_seconds()
        self.ctx.timers.start("look", min(left_s, LOOK_S), _Look())
