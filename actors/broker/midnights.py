"""MidnightCounter keeps how many messages had been stored at the last two midnights, from which
tools compute how many were stored today and yesterday.

Upstream: apache/rocketmq, store/.../stats/BrokerStats.java (record), which BrokerController.java
calls at the first midnight and every 24 h from there on, 5.3.3; broker.md 6.3.

Messages: only its own. A restart keeps the counts, and notes a midnight that has passed in between.
Midnights are by the wall clock and the time zone of this machine.

Differs: the clock is read every LOOK_S, so that a clock that was set, or the end of summer time,
does not move later midnights. A clock that is set back does not repeat a midnight.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Final

import attrs

from actors.env import Env
from actors.runtime import Actor

LOOK_S: Final = 60.0
"""The most seconds between two readings of the clock, which is also read at midnight."""
_DAY: Final = datetime.timedelta(days=1)


@attrs.define(eq=False)
class Midnights:
    """Counts of messages since the node's start.

    Attributes:
        today: the count at the last midnight, or 0 if there was none since the start.
        yesterday: the count at the midnight before that, or 0.
        day: the number of the present day, or 0 before the first reading of the clock.
    """

    today: int = 0
    yesterday: int = 0
    day: int = 0

    def look(self, day: int, count: int) -> None:
        """Note the number of the present day and the present count of messages."""
        if self.day and day > self.day:
            self.yesterday, self.today = self.today, count
        self.day = max(self.day, day)


@attrs.frozen
class _Look:
    """Timer: read the clock."""


@attrs.define(kw_only=True)
class MidnightCounter(Actor[_Look]):
    """See the module's text.

    Attributes:
        stored: returns how many messages were stored since the node's start.
        midnights: the counts that it keeps, which outlive the actor.
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
