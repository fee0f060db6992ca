"""The real `Env`: this machine's network and disk, its clock, and randomness from its entropy.

The one place where the wall clock and the system's entropy are read.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

import trio

from actors.env.local_disk import LocalDisk
from actors.env.local_secrets import LocalSecretStore
from actors.env.protocols import Env, EventSink
from actors.env.sync_workers import run_in_thread
from actors.env.tcp import TcpNetwork


def anchored_wall_clock(epoch_ms: int, skew_ms: int = 0) -> Callable[[], int]:
    """Return a wall clock that runs with Trio's clock from now on, and so with virtual time, too.

    A step of the machine's clock after the start (NTP, an operator) is not followed: store
    timestamps never jump back within a run.

    Args:
        epoch_ms: the present time in milliseconds since 1970.
        skew_ms: by how many milliseconds this node's clock is ahead of it.
    """
    start_s = trio.current_time()
    base_ms = epoch_ms + skew_ms
    return lambda: base_ms + int((trio.current_time() - start_s) * 1000)


def now_ms() -> int:
    """Return the milliseconds since 1970 by this machine's clock, for programs that run no node."""
    return time.time_ns() // 1_000_000


def _no_events(_path: str, _incarnation: int, _event: Any) -> None:
    """Drop the event; for programs that keep no event log."""


def real_env(*, events: EventSink | None = None, rng: random.Random | None = None) -> Env:
    """Build the real world of one node. Must be called inside `trio.run`.

    Args:
        events: takes what actors emit; dropped if None.
        rng: replaces the one seeded from the system's entropy.
    """
    return Env(
        network=TcpNetwork(),
        disk=LocalDisk(),
        rng=rng or random.Random(random.SystemRandom().getrandbits(256)),
        secret_store=LocalSecretStore(),
        wall_clock_ms=anchored_wall_clock(now_ms()),
        events=events or _no_events,
        run_beside=run_in_thread,
        process=os.getpid(),
    )
