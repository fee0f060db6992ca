"""Limits the share of a slave's time that dispatching takes while the log is being copied.

Upstream: none; apache/rocketmq store/.../DefaultMessageStore.java dispatches on a thread of its own
(5.3.3). Here one loop does both, and dispatching small records takes ten times as long as copying
them, so that without a rule a slave catches up at the pace of its dispatching.
"""

from __future__ import annotations

from math import inf

import attrs

CATCH_UP_BYTES_PER_S = 256 << 20
"""A log that grows by more bytes a second than this is in a catch-up, whatever its records."""
KEEPS_UP_RATIO = 0.5
"""So is a log that grows by more than this fraction of what dispatching alone could do."""
PAUSE_TIMES = 15
"""The pause after a slice in a catch-up, as a multiple of it: dispatching takes 1/16 of the time.
"""
PAUSE_MAX_S = 0.1
"""The longest pause in seconds, as a slice may seem long because the process was stopped in it."""
GIVES_WAY_MAX_S = 60.0
"""How many seconds dispatching gives way since it was last at the log's end; after that copying
waits until it is there again.
"""
DIGEST_RATIO = 0.05
"""A log that grows by more than this fraction of what digesting could do is in a catch-up."""
DIGEST_PAUSE_TIMES = 63
"""The pause after a slice of digesting in a catch-up, as a multiple of it: digesting takes 1/64 of
the time. Without a pause it took a third of a catch-up's time.
"""
DIGEST_REST_TIMES = 3
"""The same at other times: digesting takes 1/4 of the time. After a catch-up, dispatching has to
come first, because it is waited for.
"""
DIGEST_GROWTH_OVER_S = 0.1
"""The least time in seconds over which growth is measured. It is reported in steps, such as a
sync's, and between two steps a log that is being copied seems to stand still.
"""
DISPATCH_WITHIN_S = 0.005
"""The seconds for which appends are collected before they are dispatched: dispatching each alone
costs as much as the append.
"""
STOP_DISPATCH_S = 5.0
"""How many seconds an ordered stop dispatches, half of its time; the next start continues."""


@attrs.define
class Pacing:
    """Decides after each slice of work how long the next one waits.

    Attributes:
        gives_way: whether this is a slave, whose copying comes first; a master's appends are never
            so much faster.
        keeps_up_ratio: a log that grows by more than this fraction of what the work alone could do
            is in a catch-up.
        gives_way_max_s: work that is behind for longer does not give way any more.
        growth_over_s: the least time over which growth is measured; 0.0: since the slice before.
        pause_times: the pause as a multiple of the slice, while the work gives way.
        rest_times: the same on a slave while it does not.
    """

    gives_way: bool = False
    keeps_up_ratio: float = KEEPS_UP_RATIO
    gives_way_max_s: float = GIVES_WAY_MAX_S
    growth_over_s: float = 0.0
    pause_times: int = PAUSE_TIMES
    rest_times: int = 0
    _since: tuple[float, int] = (0.0, 0)  # seconds and limit, growth_over_s ago or longer
    _latest: tuple[float, int] = (0.0, 0)
    _behind_since_s: float | None = None

    @classmethod
    def of_digests(cls, *, gives_way: bool) -> Pacing:
        """Return the pacing of digesting received bytes, for which nothing waits."""
        return cls(
            gives_way=gives_way,
            keeps_up_ratio=DIGEST_RATIO,
            gives_way_max_s=inf,
            growth_over_s=DIGEST_GROWTH_OVER_S,
            pause_times=DIGEST_PAUSE_TIMES,
            rest_times=DIGEST_REST_TIMES,
        )

    def at_end(self) -> None:
        """Note that the work has reached the end of what can be done now."""
        self._behind_since_s = None

    def pause_s(
        self, began_s: float, ended_s: float, dispatched_bytes: int, limit_bytes: int
    ) -> float:
        """Return the seconds until the next slice.

        Args:
            began_s, ended_s: when the slice began and ended.
            dispatched_bytes: how many bytes it worked through.
            limit_bytes: the log's end when it began.
        """
        if self._behind_since_s is None and self.growth_over_s:
            # For all we know the log has grown by all that it holds.
            self._since = self._latest = (began_s, 0)
        elif began_s - self._latest[0] >= self.growth_over_s:
            self._since, self._latest = self._latest, (began_s, limit_bytes)
        since_s, grown_bytes = began_s - self._since[0], limit_bytes - self._since[1]
        if self._behind_since_s is None:
            self._behind_since_s = began_s
        if not self.gives_way or began_s - self._behind_since_s >= self.gives_way_max_s:
            return 0.0
        took_s = ended_s - began_s
        keeps_up_bytes = min(self.keeps_up_ratio * dispatched_bytes, CATCH_UP_BYTES_PER_S * took_s)
        if grown_bytes * took_s <= keeps_up_bytes * since_s:
            return min(self.rest_times * took_s, PAUSE_MAX_S)
        return min(self.pause_times * took_s, PAUSE_MAX_S)
