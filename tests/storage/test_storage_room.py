"""A log that finds no room says so once, and once that it has room again."""

from __future__ import annotations

import errno
import logging
from typing import Any

import pytest
import trio
from store_kit import ROOT, FullDisk, Kit, full_disk, running, small_group, until

from actors.env.protocols import Disk
from actors.errors import LogFull
from actors.events import store as events
from actors.storage.files.room import NO_ROOM

FULL = f"{NO_ROOM}the disk of {ROOT} is more than 90% full (95%, 1 GiB free)"
LOOK_S = 20.0


def reported(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    return [record.getMessage() for record in caplog.records]


def changes(kit: Kit) -> list[tuple[bool, str]]:
    return [(each.is_full, each.reason) for each in kit.of(events.DiskUsageChanged)]


async def received(kit: Kit, session: int, offset: int, data: bytes) -> None:
    """Over a connection of its own, as after each refusal."""
    await kit.open_session(session)
    await kit.receive(session, offset, data)
    await kit.range()


async def test_a_slave_whose_disk_is_full(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    disk = full_disk()
    async with running(disk, is_master=False) as kit:
        await received(kit, 1, 0, b"abc")
        disk.used = 0.95
        await trio.sleep(80)
        for session in range(2, 6):
            await received(kit, session, 3, b"def")
        await until(lambda: len(kit.refused) == 4)
        assert {refused.reason for refused in kit.refused} == {FULL}
        assert changes(kit) == [(True, FULL)], "once"
        disk.used = 0.5
        await trio.sleep(LOOK_S)
        await received(kit, 7, 3, b"def")
        assert changes(kit) == [(True, FULL), (False, "")]
    (full, again) = reported(caplog)
    assert full.endswith(f": orders: {FULL}")
    assert again.endswith(": orders: the disk has room again")


@pytest.mark.parametrize("is_master", [True, False], ids=["master", "slave"])
async def test_bytes_that_do_not_fit_below_every_ratio(
    is_master: bool, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is deleted for them: the words say from where on it would be."""
    disk = full_disk()
    async with running(disk, small_group(), is_master=is_master) as kit:
        disk.faults.fail("prepare", errno.ENOSPC, path_part="commitlog", times=3)
        for session in range(1, 4):
            if is_master:
                with pytest.raises(LogFull):
                    await kit.append(b"x")
            else:
                await received(kit, session, 0, b"abc")
        ((is_full, reason),) = changes(kit)
        assert is_full
        assert reason.startswith(f"{NO_ROOM}[Errno 28] No space left on device")
        assert reason.endswith(
            "; the disk is 50% full, 1 GiB free, 4 KiB wanted: expired files go at any hour above"
            " 75%, others above 85%"
        )
        await trio.sleep(LOOK_S)
        assert len(changes(kit)) == 1, "a look at the disk does not find more"
        if is_master:
            await kit.append(b"x")
        else:
            await received(kit, 4, 0, b"abc")
        assert changes(kit)[1:] == [(False, "")]
        assert len(reported(caplog)) == 2


async def test_what_fits_into_what_is_reserved_proves_no_room(autojump_clock: Any) -> None:
    disk = full_disk()
    async with running(disk, small_group()) as kit:
        await kit.append(b"x")
        disk.faults.fail("prepare", errno.ENOSPC, path_part="commitlog", times=3)
        for _ in range(3):
            with pytest.raises(LogFull):
                await kit.append(bytes(3900))
            await kit.append(b"x")
        assert [each[0] for each in changes(kit)] == [True]
        await kit.append(bytes(3900))
        assert [each[0] for each in changes(kit)] == [True, False]


async def test_a_frame_that_fits_into_what_is_reserved_proves_no_room(autojump_clock: Any) -> None:
    """A full slave's master sends frames of other sizes on each connection."""
    disk = full_disk()
    async with running(disk, small_group(), is_master=False) as kit:
        await received(kit, 1, 0, b"abc")
        disk.faults.fail("prepare", errno.ENOSPC, path_part="commitlog", times=3)
        for number in range(1, 4):
            await received(kit, 2 * number, 3 * number, bytes(4096))
            await received(kit, 2 * number + 1, 3 * number, b"abc")
        assert len(kit.refused) == 3
        assert [each[0] for each in changes(kit)] == [True]
        await received(kit, 9, 12, bytes(4096))
        assert [each[0] for each in changes(kit)] == [True, False]


@pytest.mark.parametrize(
    ("free", "used", "why"),
    [
        (16 << 20, 0.9, ""),
        ((16 << 20) - 4096, 0.9, "the disk is 90% full, 16 MiB free, 16 MiB wanted"),
        (3 << 20, 0.97, "the disk is 97% full, 3 MiB free, 16 MiB wanted"),
        (
            5 << 30,
            0.97,
            f"the disk of {ROOT} is more than 90% full (97%, 5 GiB free)",
        ),
    ],
)
async def test_a_disk_that_will_soon_be_full_for_the_log(
    autojump_clock: Any, free: int, used: float, why: str
) -> None:
    """Before any write has failed, and before the next look at the disk."""
    disk = full_disk()
    async with running(disk, small_group(segment_bytes=64 << 20)) as kit:
        await kit.append(b"x")
        assert (await kit.range(looks=True)).no_room_soon == ""
        disk.free, disk.used = free, used
        assert (await kit.range()).no_room_soon == ""
        found = await kit.range(looks=True)
        assert (found.no_room, found.no_room_soon) == ("", why and NO_ROOM + why)
        await kit.append(b"goes into what is reserved")


async def test_a_question_ends_no_node_whose_disk_does_not_tell(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(disk: Disk, path: str) -> int:
        raise OSError(errno.EIO, "Input/output error", path)

    disk = full_disk()
    async with running(disk) as kit:
        monkeypatch.setattr(FullDisk, "free_bytes", fails)
        assert (await kit.range(looks=True)).no_room_soon == ""
        await kit.append(b"x")


async def test_a_log_without_inodes_will_soon_be_full(autojump_clock: Any) -> None:
    disk = full_disk()
    async with running(disk) as kit:
        await kit.append(b"x")
        disk.faults.use_up_inodes(80.0)
        found = await kit.range(looks=True)
        assert found.no_room == ""
        assert found.no_room_soon.startswith(f"{NO_ROOM}the disk has no inode left")


async def test_a_disk_that_is_full_by_both_has_room_when_it_has_by_both(
    autojump_clock: Any,
) -> None:
    disk = full_disk()
    async with running(disk, is_master=False) as kit:
        disk.faults.fail("prepare", errno.ENOSPC, path_part="commitlog")
        await received(kit, 1, 0, b"abc")
        await until(lambda: kit.refused)
        disk.used = 0.95
        await trio.sleep(80)
        disk.used = 0.5
        await trio.sleep(LOOK_S)
        assert [each[0] for each in changes(kit)] == [True], "no write has found any yet"
        await received(kit, 2, 0, b"abc")
        assert [each[0] for each in changes(kit)] == [True, False]


async def test_a_log_that_nobody_writes_to_finds_room_again(autojump_clock: Any) -> None:
    """It would be reported as full for ever, and its files go as under pressure."""
    disk = full_disk()
    async with running(disk, is_master=False) as kit:
        disk.used = 0.8
        disk.faults.fail("prepare", errno.ENOSPC, path_part="commitlog")
        await received(kit, 1, 0, b"abc")
        await until(lambda: kit.refused)
        disk.used = 0.7
        await trio.sleep(LOOK_S)
        assert [each[0] for each in changes(kit)] == [True, False]


async def test_a_little_less_on_a_full_disk_is_no_room(autojump_clock: Any) -> None:
    """Other files on it come and go: there is room once what did not fit would."""
    disk = full_disk()
    async with running(disk, small_group(), is_master=False) as kit:
        disk.used, disk.free = 0.8, 4095
        disk.faults.fail("prepare", errno.ENOSPC, path_part="commitlog")
        await received(kit, 1, 0, b"abc")
        await until(lambda: kit.refused)
        disk.used = 0.79
        await trio.sleep(LOOK_S)
        assert [each[0] for each in changes(kit)] == [True]
        disk.free = 4096
        await trio.sleep(LOOK_S)
        assert [each[0] for each in changes(kit)] == [True, False]


async def test_a_log_that_nobody_writes_to_finds_inodes_again(autojump_clock: Any) -> None:
    disk = full_disk()
    async with running(disk, is_master=False) as kit:
        disk.faults.use_up_inodes(LOOK_S / 2)
        disk.faults.fail("prepare", errno.ENOSPC, path_part="commitlog")
        await received(kit, 1, 0, b"abc")
        await until(lambda: kit.refused)
        await trio.sleep(2 * LOOK_S)
        assert [each[0] for each in changes(kit)] == [True, False]
