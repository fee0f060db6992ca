"""Warnings of crashes and restarts, with the traceback, for people who read a program's log.

Events say the same to programs, but cannot carry a traceback. The logger is `triolog.runtime`.
"""

from __future__ import annotations

import logging
import math
from typing import Final

import trio

from actors.runtime.errors import describe

PERIOD_S: Final = 60.0
"""The time in seconds, by Trio's clock, in which at most LOGGED_MAX warnings are logged."""
LOGGED_MAX: Final = 20
"""How many warnings are logged in PERIOD_S: enough for the crashes and restarts of a supervisor
that gives up, and too few to fill a disk when an actor crashes in a loop. Further ones are counted,
and the count is logged."""

_LOGGER = logging.getLogger("triolog.runtime")


class CrashLog:
    """The warnings of one system.

    Args:
        enabled: whether anything is logged; False for a host that shows failures by other means.
    """

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled
        self._began_s = -math.inf
        self._logged = 0
        self._left_out = 0

    def crashed(self, path: str, incarnation: int, error: Exception) -> None:
        """Log the end of an incarnation by an error, with the error's traceback."""
        if self._may_log():
            text = describe(error)
            _LOGGER.warning("%s#%d crashed: %s", path, incarnation, text, exc_info=error)

    def restarted(self, path: str, incarnation: int, restarts: int) -> None:
        """Log that an incarnation runs in place of one that ended.

        Args:
            restarts: how often its supervisor has restarted it, with this time.
        """
        if self._may_log():
            _LOGGER.warning("%s#%d runs: restart %d", path, incarnation, restarts)

    def flush(self) -> None:
        """Log how many warnings were left out since the last one."""
        if self._left_out:
            _LOGGER.warning("%d more crashes and restarts were not logged", self._left_out)
            self._left_out = 0

    def _may_log(self) -> bool:
        """Count a warning. Returns: False if it is one too many, or logging is off."""
        if not self._enabled:
            return False
        now_s = trio.current_time()
        if now_s >= self._began_s + PERIOD_S:
            self.flush()
            self._began_s, self._logged = now_s, 0
        self._logged += 1
        self._left_out += self._logged > LOGGED_MAX
        return self._logged <= LOGGED_MAX
