"""An ordered stop of a member's store while a sync is under way."""

import errno
from typing import Any

import pytest
import trio
from late_disk import LateDisk
from ledger_kit import model, opened
from ledger_store_kit import running

from actors.events import store as events
from actors.storage.log.syncer import SETTLE_S


@pytest.mark.parametrize("late_s", [0.5, SETTLE_S * 12])
async def test_a_stop_hears_of_a_sync_that_has_failed(autojump_clock: Any, late_s: float) -> None:
    """Its error is reported once: a file opened later syncs well, without the lost bytes."""
    disk = LateDisk("data/")
    failed = trio.Event()
    disk.faults.on_effect = lambda what: failed.set()
    async with running(disk) as kit:
        await kit.open(1)
        await kit.append(1, b"x")
        await kit.synced(0)
        disk.late_s = late_s
        disk.faults.fail("sync", errno.EIO, path_part="data/")
        await kit.append(1, b"y" * 99)
        await failed.wait()
        assert events.SyncFailed not in map(type, kit.events)  # which the stop overtakes
    assert [type(event) for event in kit.events].count(events.SyncFailed) == 1
    disk.late_s = 0.0
    disk.power_loss()
    found = opened(disk)
    assert not found.opened.was_clean
    assert model(found)[:1] == [(0, 1, b"x")]


async def test_a_stop_waits_for_a_sync_that_ends_well(autojump_clock: Any) -> None:
    disk = LateDisk("data/")
    async with running(disk) as kit:
        await kit.open(1)
        disk.late_s = 0.5
        await kit.append(1, b"x", b"y" * 99)
    disk.power_loss()
    found = opened(disk)
    assert found.opened.was_clean
    assert model(found) == [(0, 1, b"x"), (1, 1, b"y" * 99)]
