"""A disk that somebody else has filled: what needs no room goes on, and what needs some waits."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
from store_kit import ROOT, running, sim_disk, small_group

from actors.events import store as events
from actors.log_types import Message
from actors.sim.disk import SimDisk

LONG_S = 3600.0


def fill(disk: SimDisk, how: str, duration_s: float = LONG_S) -> None:
    {"bytes": disk.faults.fill, "inodes": disk.faults.use_up_inodes}[how](duration_s)


@pytest.mark.parametrize("how", ["bytes", "inodes"])
@pytest.mark.parametrize("is_master", [True, False])
async def test_a_store_that_ran_opens_again_on_a_full_disk(
    how: str, is_master: bool, autojump_clock: Any
) -> None:
    """As in a promotion, which stops it in order and opens it in its new part, again and again."""
    disk, end = sim_disk(), 0
    async with running(disk, is_master=True) as kit:
        await kit.append(*[Message("t", b"x" * 100)] * 3)
        end = (await kit.range()).written_bytes
        await kit.dispatched(end)
        await trio.sleep(3)
        fill(disk, how)
    for number in range(3):
        assert not disk.exists(f"{ROOT}/abort"), "it stopped in order"
        disk.power_loss(random.Random(number))
        async with running(disk, is_master=is_master) as kit:
            begun_s = trio.current_time()
            assert (await kit.range()).written_bytes == end
            await kit.dispatched(end)
            assert trio.current_time() - begun_s < 1.0
            assert kit.of(events.DiskUsageChanged) == []
            assert kit.of(events.RecoveryFinished)[0].was_clean
            assert disk.durable(f"{ROOT}/abort") == b"n0", "it runs"
        is_master = not is_master


async def test_what_a_broker_left_behind_is_no_obstacle(autojump_clock: Any) -> None:
    """It makes an `abort` of its own beside ours, and leaves it there if it is killed."""
    disk = sim_disk()
    async with running(disk):
        pass
    assert disk.exists(f"{ROOT}/abort.spare")
    disk.open(f"{ROOT}/abort", "x").close()
    async with running(disk) as kit:
        assert not kit.of(events.RecoveryFinished)[0].was_clean
    assert not disk.exists(f"{ROOT}/abort")
    async with running(disk, small_group()) as kit:
        assert kit.of(events.RecoveryFinished)[0].was_clean
