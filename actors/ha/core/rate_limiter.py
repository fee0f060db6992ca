"""Flow control in ticks of one second, and the meter of bytes per second.

Source: apache/rocketmq store/ha/FlowMonitor.java (5.0.0-5.3.3); classic-ha.md 2.7.

Differs from upstream: header and body are counted (upstream: headers only, so that its limit never
bites), and an exhausted budget means "wait for the next tick" (upstream sends empty frames in a
loop). Ticks are computed from the time of use, so there is no ticking task.
"""

from __future__ import annotations

import math

import attrs

TICK_S = 1.0


@attrs.define
class RateLimiter:
    """Counts bytes per tick; with a limit, says how many more fit into the running tick.

    Attributes:
        limit_bytes_per_s: None = no limit, only the meter.
    """

    limit_bytes_per_s: int | None = None
    _tick_began_s: float = -math.inf
    _tick_bytes: int = 0
    _last_second_bytes: int = 0

    def __attrs_post_init__(self) -> None:
        assert self.limit_bytes_per_s is None or self.limit_bytes_per_s > 0

    def budget_bytes(self, now_s: float) -> int | None:
        """How many bytes may still be sent in this tick; None = no limit."""
        self._roll(now_s)
        if self.limit_bytes_per_s is None:
            return None
        return max(self.limit_bytes_per_s - self._tick_bytes, 0)

    def next_tick_s(self) -> float:
        """When the budget is full again. Valid after a call of `budget_bytes` or `count`."""
        return self._tick_began_s + TICK_S

    def count(self, size_bytes: int, now_s: float) -> None:
        """Count bytes that were sent or received."""
        assert size_bytes >= 0
        self._roll(now_s)
        self._tick_bytes += size_bytes

    def last_second_bytes(self, now_s: float) -> int:
        """The bytes of the last complete tick: upstream's transferredByteInSecond."""
        self._roll(now_s)
        return self._last_second_bytes

    def _roll(self, now_s: float) -> None:
        if self._tick_began_s == -math.inf:
            self._tick_began_s = now_s
            return
        ticks = math.floor((now_s - self._tick_began_s) / TICK_S)
        if ticks >= 1:
            self._last_second_bytes = self._tick_bytes if ticks == 1 else 0
            self._tick_bytes = 0
            self._tick_began_s += ticks * TICK_S
