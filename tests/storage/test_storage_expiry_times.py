"""Which time of a log file is believed: one that the others contradict is not."""

from __future__ import annotations

import errno
import logging
import random
from typing import Any

import pytest
import trio
from store_kit import ROOT, Kit, full_disk, running, small_group

from actors.events import store as events
from actors.log_types import Message
from actors.sim.disk import SimDisk
from actors.storage.layout import StoreLayout
from actors.storage.log.commit_log import segment_path
from actors.storage.log.expiry import (
    APART_MS,
    BETWEEN_FILES_S,
    HOUR_MS,
    OVERDUE_MS,
    CleanDue,
    Rounds,
)

S = 4096
YEARS_MS = 10 * 365 * 24 * HOUR_MS
FOLDER = StoreLayout(ROOT).commit_log


def group(**changes: Any) -> Any:
    often = {"delete_when_hours": tuple(range(24)), "clean_resource_interval_s": 1.0}
    return small_group(**(often | changes))


def date(disk: SimDisk, number: int, by_ms: int) -> None:
    """Shift the time of the file of that number."""
    disk.inode(segment_path(FOLDER, number * S)).modified_ms += by_ms


async def fill(kit: Kit, count: int = 4) -> None:
    """So many files, each of one record, derived."""
    for _ in range(count):
        await kit.append(Message("t", b"x" * 3000))
    await kit.dispatched((await kit.range()).written_bytes)


async def min_after_a_while(kit: Kit) -> int:
    await trio.sleep(15)
    found = await kit.range()
    return found.min_bytes


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1, 2), (0, 1, 2, 3)])
@pytest.mark.parametrize("by_ms", [YEARS_MS, -YEARS_MS])
async def test_a_wrong_time_neither_stops_nor_hurries_expiry(
    which: tuple[int, ...], by_ms: int, autojump_clock: Any
) -> None:
    disk = SimDisk(random.Random(0))
    async with running(disk, group()) as kit:
        await fill(kit)
        for number in which:
            date(disk, number, by_ms)
        assert await min_after_a_while(kit) == 0, "all is young"
        kit.wall_ms += (group().file_reserved_time_h + 1) * HOUR_MS
        assert await min_after_a_while(kit) == 3 * S
        assert {each.reason for each in kit.of(events.SegmentExpired)} == {"age"}
        assert (await kit.range()).stands_still == ""


@pytest.mark.parametrize("by_ms", [APART_MS // 2, -APART_MS // 2])
async def test_two_clocks_contradict_nothing(by_ms: int, autojump_clock: Any) -> None:
    """A file's time counts, as upstream's does, while it differs by less than a day."""
    disk = SimDisk(random.Random(0))
    async with running(disk, group(file_reserved_time_h=24)) as kit:
        await fill(kit)
        date(disk, 0, by_ms)
        kit.wall_ms += 24 * HOUR_MS - APART_MS // 4
        assert await min_after_a_while(kit) == (S if by_ms < 0 else 0)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("by_ms", [0, YEARS_MS])
async def test_a_bad_sector_where_a_file_begins_neither_ends_the_node_nor_stops_expiry(
    which: int, by_ms: int, autojump_clock: Any
) -> None:
    """The times of the files say enough."""
    disk = SimDisk(random.Random(0))
    async with running(disk, group()) as kit:
        await fill(kit)
        date(disk, 0, by_ms)
        path = segment_path(FOLDER, which * S)
        disk.faults.fail("read", errno.EIO, path_part=path, times=10_000)
        assert await min_after_a_while(kit) == 0, "all is young"
        kit.wall_ms += (group().file_reserved_time_h + 1) * HOUR_MS
        assert await min_after_a_while(kit) == 3 * S
        assert disk.faults.counts[f"read:{errno.EIO}"] > 0
        assert (await kit.range()).stands_still == ""


async def test_it_is_said_when_nothing_shows_an_age(
    caplog: pytest.LogCaptureFixture, autojump_clock: Any
) -> None:
    """Written while the clock was ten years ahead: the records say so, too."""
    disk = SimDisk(random.Random(0))
    async with running(disk, group()) as kit:
        kit.wall_ms += YEARS_MS
        await fill(kit)
        kit.wall_ms -= YEARS_MS
        for number in range(4):  # the disk of a simulated store has a clock of its own
            date(disk, number, YEARS_MS)
        with caplog.at_level(logging.WARNING, logger="triolog.storage"):
            assert await min_after_a_while(kit) == 0
            why = (await kit.range()).stands_still
            assert why.startswith(f"no log file expires: {FOLDER}/{0:020} is dated in the future")
            date(disk, 0, -YEARS_MS)  # touch
            date(disk, 1, -YEARS_MS)
            await trio.sleep(5)
            assert (await kit.range()).stands_still == ""
        said = [record.getMessage() for record in caplog.records]
        assert [line.partition(": ")[2].rpartition(": ")[2] for line in said][-1:] == [
            "log files expire again"
        ]
        assert sum("no log file expires" in line for line in said) == 1


async def test_what_waits_for_the_dispatcher_is_said_when_it_is_overdue(
    autojump_clock: Any,
) -> None:
    disk = full_disk()
    async with running(disk, group()) as kit:
        await fill(kit, 1)
        disk.faults.fail("write", 28, path_part="consumequeue", times=10_000)
        for _ in range(3):
            await kit.append(Message("t", b"x" * 3000))
        kit.wall_ms += group().file_reserved_time_h * HOUR_MS + OVERDUE_MS // 2
        await trio.sleep(20)
        assert (await kit.range()).stands_still == "", "it may be about to go"
        kit.wall_ms += OVERDUE_MS
        await trio.sleep(20)
        found = await kit.range()
        assert found.min_bytes < 3 * S
        assert "waits for its queues and index to be derived" in found.stands_still
        disk.faults.clear()
        assert await min_after_a_while(kit) == 3 * S
        assert (await kit.range()).stands_still == ""


def test_a_disk_without_room_is_looked_at_between_the_rounds() -> None:
    """And as often as before files are deleted: a round may take ten."""
    started: list[tuple[float, CleanDue]] = []
    rounds = Rounds(interval_s=2.0, start=lambda pause_s, due: started.append((pause_s, due)))
    due = CleanDue()
    for _ in range(5):
        rounds.looked(due, has_gone=False, has_room=False)
        due = started[-1][1]
    looks = [(0.5, CleanDue(looks=number)) for number in (1, 2, 3)]
    assert started == [*looks, (0.5, CleanDue()), looks[0]]
    rounds.looked(due, has_gone=False, has_room=True)
    assert started[-1] == (1.5, CleanDue())
    rounds.looked(CleanDue(), has_gone=True, has_room=False)
    assert started[-1] == (BETWEEN_FILES_S, CleanDue(deleted=1))
