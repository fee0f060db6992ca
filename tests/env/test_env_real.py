"""The real Env: clock anchored to Trio's, own entropy."""

from __future__ import annotations

import threading
import time

import pytest
import trio

from actors.env.local_disk import LocalDisk
from actors.env.real import anchored_wall_clock, real_env
from actors.env.sync_workers import run_in_thread
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


async def test_long_work_leaves_the_loop_free() -> None:
    """The work waits for something that only the loop can bring about."""
    free = threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_set, free)
        assert await real_env().run_beside(lambda: free.wait(10.0) and threading.get_ident())
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(lambda: 1 // 0)


async def _set(free: threading.Event) -> None:
    free.set()


async def test_work_has_ended_when_its_caller_is_cancelled() -> None:
    """Who is cancelled closes the files that the work reads."""
    begun, may_end, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(10.0)
        done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_in_thread, work)
        await trio.to_thread.run_sync(begun.wait, 10.0)
        nursery.cancel_scope.cancel()
        may_end.set()
    assert done.is_set()
