"""A small file that is replaced beside the loop, and at once in between."""

from __future__ import annotations

import errno
import random
from contextlib import suppress

import pytest
import trio

from actors.errors import StorageError
from actors.sim.disk import DiskOptions, SimDisk, SimFile
from actors.storage.files.replacing import (
    BLOCK_BYTES,
    Replaced,
    replace_file,
    settle_spares,
    spare_path,
)
from actors.storage.files.room import NoRoom

PATH = "/data/identity.json"
SYNC_S = 0.1
SEEDS = range(80)


def slow_disk(seed: int = 1) -> SimDisk:
    disk = SimDisk(random.Random(seed), DiskOptions(sync_min_s=SYNC_S / 2, sync_mean_s=SYNC_S))
    disk.mkdir("/data")
    replace_file(disk, PATH, b"0")
    settle_spares(disk, "/data")
    return disk


def content_of(disk: SimDisk) -> bytes:
    file = disk.open(PATH, "r")
    try:
        return file.pread(0, 1 << 20)
    finally:
        file.close()


def number_in(disk: SimDisk) -> int:
    return int(content_of(disk))


async def test_nothing_is_synced_in_the_loop(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = slow_disk()
    file = Replaced(disk, PATH)

    def refuse(*_: object) -> None:
        raise AssertionError("the loop would stand")

    monkeypatch.setattr(SimFile, "sync", refuse)
    for number in range(1, 5):
        await file.replace_beside(str(number).encode)
        assert not file.is_late
    file.close()
    disk.power_loss(random.Random(1))
    assert number_in(disk) == 4


async def test_who_comes_meanwhile_is_written_by_who_is_there(autojump_clock: object) -> None:
    disk, number = slow_disk(), 1
    file = Replaced(disk, PATH)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.replace_beside, lambda: str(number).encode())
        await trio.sleep(0.01)
        number, began_s = 2, trio.current_time()
        await file.replace_beside(lambda: b"unused")
        assert trio.current_time() == began_s
    file.close()
    disk.power_loss(random.Random(1))
    assert number_in(disk) == 2


@pytest.mark.parametrize("after_s", [0.01, 0.06, 0.12, 0.18, 0.24, 0.4])
async def test_what_was_cancelled_is_late_and_the_next_goes_on(
    autojump_clock: object, after_s: float
) -> None:
    for seed in SEEDS:
        disk = slow_disk(seed)
        file = Replaced(disk, PATH)
        with trio.move_on_after(after_s):
            await file.replace_beside(b"1".__bytes__)
        if file.is_late:
            file.replace(b"2")
            assert not file.is_late
        wanted = number_in(disk)
        assert wanted in (1, 2)
        file.close()
        disk.power_loss(random.Random(seed))
        assert number_in(disk) == wanted


async def test_without_room_the_old_content_stays(autojump_clock: object) -> None:
    disk = slow_disk()
    file = Replaced(disk, PATH)
    disk.faults.fill(3600.0)
    with pytest.raises(NoRoom):
        await file.replace_beside(bytes(1 << 20).replace(b"\0", b"9").__bytes__)
    assert file.is_late
    assert number_in(disk) == 0
    await file.replace_beside(b"1".__bytes__)
    assert number_in(disk) == 1
    file.close()


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_power_loss_at_any_time_leaves_one_content_whole_and_none_too_old(
    autojump_clock: object, seed: int
) -> None:
    """Both kinds of replacement at random times; numbers that are on the disk never fall."""
    rng, disk = random.Random(seed), slow_disk(seed)
    file = Replaced(disk, PATH)
    newest = durable = 0
    is_lost = False

    def content() -> bytes:
        return str(newest).encode()

    async def beside() -> None:
        nonlocal newest, durable
        while True:
            await trio.sleep(rng.uniform(0, 2 * SYNC_S))
            newest += 1
            mine = newest
            try:
                await file.replace_beside(content)
            except StorageError:
                assert is_lost
                return
            if not file.is_late:
                durable = max(durable, mine)

    async def at_once() -> None:
        nonlocal newest, durable
        while True:
            await trio.sleep(rng.uniform(0, 4 * SYNC_S))
            newest += 1
            file.replace(content())
            durable = newest

    with trio.move_on_after(rng.uniform(0, 30 * SYNC_S)):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beside)
            nursery.start_soon(at_once)
            await trio.sleep(rng.uniform(0, 20 * SYNC_S))
            is_lost = True
            disk.power_loss(rng)
            assert durable <= number_in(disk) <= newest
            assert disk.exists(spare_path(PATH)) or newest < 2
            nursery.cancel_scope.cancel()


async def test_a_spare_whose_name_may_come_back_is_not_written_into(autojump_clock: object) -> None:
    """Power is lost in the middle of a replacement, right behind a change of names."""

    def pages(number: int) -> bytes:
        return str(number).encode() * (3 * BLOCK_BYTES)

    async def beside(file: Replaced) -> None:
        with suppress(StorageError):
            await file.replace_beside(lambda: pages(1))

    for seed in SEEDS:
        disk = slow_disk(seed)
        replace_file(disk, PATH, pages(0))
        file = Replaced(disk, PATH)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beside, file)
            while content_of(disk) == pages(0):  # noqa: ASYNC110 - nothing tells of it
                await trio.sleep(SYNC_S / 100)
            disk.faults.fail("sync", errno.EIO, path_part=spare_path(PATH))
            with pytest.raises(OSError, match="Input/output"):
                file.replace(pages(2))
            disk.power_loss(random.Random(seed))
            assert content_of(disk) in (pages(0), pages(1)), "whole"


async def test_a_failed_sync_is_reported(autojump_clock: object) -> None:
    disk = slow_disk()
    file = Replaced(disk, PATH)
    disk.faults.fail("sync", errno.EIO)
    with pytest.raises(StorageError, match=f"{PATH} cannot be written: .*Input/output"):
        await file.replace_beside(b"1".__bytes__)
    assert number_in(disk) == 0
    file.close()
