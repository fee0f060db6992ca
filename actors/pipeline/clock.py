"""The machine's clock, for a report: when it was made, and how long something took.

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
