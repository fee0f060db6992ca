"""A sync that a kill interrupted leaves nothing behind that could come back later."""

import random
from typing import Any

import trio
import trio.testing

from actors.sim.disk import SimDisk


async def test_a_killed_sync_does_not_bring_old_bytes_back(autojump_clock: Any) -> None:
    for seed in range(20):
        disk = SimDisk(random.Random(seed))
        file = disk.open("/a", "x")
        disk.sync_dir("/")
        file.pwrite(b"old", 0)
        syncer = disk.syncer()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_failing_sync, syncer)
            await trio.testing.wait_all_tasks_blocked()
            disk.kill()
        file = disk.open("/a", "w")
        file.pwrite(b"new", 0)
        file.sync()
        disk.power_loss()
        assert disk.open("/a", "r").pread(0, 3) == b"new"


async def test_what_a_killed_sync_carried_is_not_durable_yet(autojump_clock: Any) -> None:
    kept = set()
    for seed in range(20):
        disk = SimDisk(random.Random(seed))
        file = disk.open("/a", "x")
        file.resize(3)
        file.sync()
        disk.sync_dir("/")
        file.pwrite(b"new", 0)
        syncer = disk.syncer()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_failing_sync, syncer)
            await trio.testing.wait_all_tasks_blocked()
            disk.kill()
        assert disk.open("/a", "r").pread(0, 3) == b"new"
        disk.power_loss()
        kept.add(disk.open("/a", "r").pread(0, 3))
    assert kept == {b"new", b"\0\0\0"}


async def _failing_sync(syncer: Any) -> None:
    try:
        await syncer.sync(["/a"])
    except OSError:
        return
    raise AssertionError("the process that asked is gone")
