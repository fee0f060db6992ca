"""The machine's clock: the time of a report, durations, and pauses.

No answer depends on it.
"""

from __future__ import annotations

import time


def now_us() -> int:
    """Return the microseconds since 1970."""
    return time.time_ns() // 1000


def stopwatch_s() -> float:
    """Return the seconds since some moment; only differences have a meaning."""
    return time.perf_counter()


def pause(seconds: float) -> None:
    """Wait for other processes, where there is nothing to wait on."""
    time.sleep(seconds)
