"""The machine's clock: when a report was made, how long something took, and a pause.

No answer depends on it.
"""

from __future__ import annotations

import time


def now_us() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def stopwatch_s() -> float:
    """Seconds since some moment; only differences mean something."""
    return time.perf_counter()


def pause(seconds: float) -> None:
    """For what other processes do, where nothing tells of it."""
    time.sleep(seconds)
