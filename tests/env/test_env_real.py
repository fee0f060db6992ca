"""The real Env: clock anchored to Trio's, own entropy."""

from __future__ import annotations

import time

import pytest
import trio

from actors.env.local_disk import LocalDisk
from actors.env.real import anchored_wall_clock, real_env
from actors.env.tcp import TcpNetwork


async def test_wall_clock_follows_virtual_time(autojump_clock: trio.abc.Clock) -> None:
    exact = anchored_wall_clock(1_700_000_000_000)
    skewed = anchored_wall_clock(1_700_000_000_000, skew_ms=-250)
    assert exact() == 1_700_000_000_000
    await trio.sleep(3600.0)
    assert exact() == 1_700_003_600_000
    assert skewed() == 1_700_003_599_750


async def test_real_env_is_this_machine(autojump_clock: trio.abc.Clock) -> None:
    seen: list[object] = []
    env = real_env(events=lambda *event: seen.append(event))
    assert isinstance(env.network, TcpNetwork)
    assert isinstance(env.disk, LocalDisk)
    assert env.wall_clock_ms() == pytest.approx(time.time() * 1000, abs=60_000)
    env.events("/n0", 1, "event")
    assert seen == [("/n0", 1, "event")]
    other = real_env()
    other.events("/n0", 1, "dropped")
    assert env.rng.random() != other.rng.random()
