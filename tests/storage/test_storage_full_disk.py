"""A disk that somebody else has filled: what needs no room goes on, and what needs some waits."""

from __future__ import annotations

import errno
import random
from typing import Any

import pytest
import trio
from storage_kit import finish
from store_kit import ROOT, running, sim_disk, small_group

from actors.events import store as events
from actors.log_types import Message
from actors.sim.disk import SimDisk
from actors.storage.commitlog.set_aside import set_aside
from actors.storage.files.replacing import spare_path
from actors.storage.layout import StoreLayout
from actors.storage.log.commit_log import segment_path
from actors.storage.log.truncation import keep_intent

LONG_S = 3600.0
LAYOUT = StoreLayout(ROOT)
SEGMENT = 4096


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
            reported = [each.reason for each in kit.of(events.DiskUsageChanged)]
            full = f"no room: the disk of {ROOT} is more than 90% full (100%, 0 bytes free)"
            assert reported == ([full] if how == "bytes" else []), "it waits for none"
            assert kit.of(events.RecoveryFinished)[0].was_clean
            assert disk.durable(f"{ROOT}/abort") == b"n0", "it runs"
        is_master = not is_master


@pytest.mark.parametrize("at", ["stop", "start"])
async def test_a_file_system_on_which_no_name_changes_without_room(
    at: str, autojump_clock: Any
) -> None:
    """The stop says nothing then, and the start waits."""
    disk = sim_disk()
    source = LAYOUT.abort if at == "stop" else spare_path(LAYOUT.abort)
    async with running(disk) as kit:
        await kit.append(b"x")
        disk.faults.fail("rename", errno.ENOSPC, path_part=source, times=3 if at == "start" else 1)
    assert disk.exists(LAYOUT.abort) == (at == "stop")
    async with running(disk) as kit:
        assert (await kit.range()).written_bytes > 0
        reported = [event.is_full for event in kit.of(events.DiskUsageChanged)]
        assert reported == ([True, False] if at == "start" else [])
    assert not disk.exists(LAYOUT.abort)


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


def content(disk: SimDisk, path: str) -> bytes:
    file = disk.open(path, "r")
    return file.pread(0, file.size_bytes)


WAITS = [("create", "truncating"), ("write", "truncating"), ("write", "synced")]
"""What may find no room while a tail is cut; writes do on a file system that never overwrites."""


@pytest.mark.parametrize(("operation", "part"), WAITS)
async def test_a_cut_that_waits_for_room_keeps_one_copy(
    operation: Any, part: str, autojump_clock: Any
) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        end = (await kit.append(b"x" * 700)).next_bytes
        await kit.dispatched(end)
    if operation == "write":
        keep_intent(disk, LAYOUT)
    disk.open(segment_path(LAYOUT.commit_log, 0), "w").pwrite(b"torn" * 100, end)
    disk.faults.fail(operation, errno.ENOSPC, path_part=f"{ROOT}/{part}", times=20)
    async with running(disk) as kit:
        assert (await kit.range()).written_bytes == end
        assert len(kit.of(events.DiskUsageChanged)) == 2
        assert [each.kept_bytes for each in kit.of(events.LogTruncated)] == [400]
    (name,) = disk.listdir(LAYOUT.cut)
    assert content(disk, f"{LAYOUT.cut}/{name}") == b"torn" * 100


@pytest.mark.parametrize(("operation", "part"), WAITS)
async def test_a_tail_that_waits_for_room_is_set_aside_once(
    operation: Any, part: str, autojump_clock: Any
) -> None:
    """For a slave's resync: the later files by their names, the end of one as a copy."""
    disk, ends = sim_disk(), []
    async with running(disk) as kit:
        ends = [(await kit.append(bytes([65 + number]) * 900)).next_bytes for number in range(12)]
        await kit.dispatched(ends[-1])
    if operation == "write":
        keep_intent(disk, LAYOUT)
    disk.faults.fail(operation, errno.ENOSPC, path_part=f"{ROOT}/{part}", times=20)
    for _ in range(20):
        with pytest.raises(OSError, match="No space left"):
            finish(set_aside(disk, LAYOUT, SEGMENT, ends[1]))
    finish(set_aside(disk, LAYOUT, SEGMENT, ends[1]))
    (folder,) = disk.listdir(LAYOUT.aside)
    names = disk.listdir(f"{LAYOUT.aside}/{folder}")
    kept = b"".join(content(disk, f"{LAYOUT.aside}/{folder}/{name}") for name in names)
    assert [letter for letter in range(65, 77) if bytes([letter]) * 900 in kept] == [*range(67, 77)]
    async with running(disk) as kit:
        assert (await kit.range()).written_bytes == ends[1]
