"""An ordered stop of either store while a sync is under way."""

import errno
from typing import Any

import pytest
import trio
from late_disk import LateDisk
from store_kit import ROOT, local_reply, running, small_group, until

from actors.events import store as events
from actors.storage.commitlog import store_messages
from actors.storage.files.side_file import SideFile
from actors.storage.log.syncer import SETTLE_S


def mark_of(disk: LateDisk) -> int:
    mark, values = SideFile.open(disk, f"{ROOT}/synced", 1)
    mark.close()
    assert values is not None
    return values[0]


@pytest.mark.checklist(47)
@pytest.mark.parametrize("late_s", [0.5, SETTLE_S * 12])
async def test_a_stop_hears_of_a_sync_that_has_failed(autojump_clock: Any, late_s: float) -> None:
    """Its error is reported once: a file opened later syncs well, without the lost bytes."""
    disk = LateDisk("commitlog")
    outcomes: list[Any] = []
    async with running(disk) as kit:
        before = (await kit.append(b"x")).next_bytes
        await kit.dispatched(before)
        disk.late_s = late_s
        disk.faults.fail("sync", errno.EIO, path_part="commitlog")
        deadline_s = trio.current_time() + 9
        reply_to = local_reply(outcomes)
        append = store_messages.Append(
            records=(b"y" * 99,), deadline_s=deadline_s, reply_to=reply_to
        )
        await kit.store.tell(append)
        await until(lambda: disk.faults.counts.get(f"sync:{errno.EIO}"))
        assert not kit.of(events.SyncFailed)  # which the stop overtakes
    assert disk.exists(f"{ROOT}/abort")
    assert mark_of(disk) == before
    assert len(kit.of(events.SyncFailed)) == 1
    disk.late_s = 0.0
    disk.power_loss()
    async with running(disk) as kit:
        assert (await kit.range()).written_bytes >= before


async def test_a_stop_waits_for_a_sync_that_ends_well(autojump_clock: Any) -> None:
    disk = LateDisk("commitlog")
    async with running(disk, small_group(durability="written", flush_interval_s=1.0)) as kit:
        await kit.append(b"x")
        disk.late_s = 0.5
        end = (await kit.append(b"y" * 99)).next_bytes
        await kit.dispatched(end)
    assert not disk.exists(f"{ROOT}/abort")
    assert mark_of(disk) == end
