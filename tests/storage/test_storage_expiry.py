"""Files that expire wait for the dispatcher, unless the disk is too full for that."""

from __future__ import annotations

import errno
import random
from typing import Any

import pytest
import trio
from store_kit import ROOT, FullDisk, Kit, full_disk, log_of, running, small_group
from store_tree import dying

from actors.errors import CorruptLog, LogFull
from actors.events import store as events
from actors.log_types import Message
from actors.sim.disk import SimDisk
from actors.storage.commitlog import given_up
from actors.storage.log.commit_log import CommitLog
from actors.storage.log.expiry import HOUR_MS

S = 4096
FOREVER = 10_000


def old_group(**changes: Any) -> Any:
    often = {"delete_when_hours": tuple(range(24)), "clean_resource_interval_s": 1.0}
    return small_group(**(often | changes))


async def fill(kit: Kit, topic: str, count: int) -> None:
    for _ in range(count):
        await kit.append(Message(topic, b"x" * 3000))


def stuck(disk: FullDisk) -> None:
    """The dispatcher finds no room for queues from now on."""
    disk.faults.fail("write", errno.ENOSPC, path_part="consumequeue", times=FOREVER)


async def stays(kit: Kit, disk: FullDisk) -> None:
    """Two files are dispatched when the dispatcher gets stuck; a hundred hours later they go."""
    await fill(kit, "t", 2)
    await trio.sleep(5)
    stuck(disk)
    await fill(kit, "t", 4)
    kit.wall_ms += 100 * HOUR_MS
    await trio.sleep(20)
    assert 0 < (await kit.range()).min_bytes <= 2 * S
    assert {each.undispatched_bytes for each in kit.of(events.SegmentExpired)} == {0}


async def test_what_is_not_dispatched_does_not_expire(autojump_clock: Any) -> None:
    """However old it is; it goes as soon as its units would outlast a crash, in an idle log too."""
    disk = full_disk()
    async with running(disk, old_group()) as kit:
        await stays(kit, disk)
        disk.faults.clear()
        await trio.sleep(20)
        assert (await kit.range()).min_bytes == 5 * S


async def test_what_an_operator_changes_counts_from_the_next_round_on(autojump_clock: Any) -> None:
    async with running(full_disk(), old_group()) as kit:
        await fill(kit, "t", 4)
        kit.wall_ms += 50 * HOUR_MS
        await trio.sleep(20)
        assert (await kit.range()).min_bytes == 0
        kit.changed_group = old_group(file_reserved_time_h=48)
        await trio.sleep(20)
        assert (await kit.range()).min_bytes == 3 * S


async def test_a_crash_takes_no_units_of_what_expired(autojump_clock: Any) -> None:
    disk = full_disk()
    with dying():
        async with running(disk, old_group()) as kit:
            await stays(kit, disk)
            kit.power_loss()
    disk.faults.clear()
    async with running(disk, old_group()) as kit:
        assert (await kit.units("t")).next_offset == 6
        await fill(kit, "t", 1)
        await kit.dispatched((await kit.range()).written_bytes)
        assert (await kit.units("t")).next_offset == 7
        assert kit.of(events.QueueRebuilt) == []


async def test_a_flush_that_is_not_written_down_durably_counts_for_nothing(
    autojump_clock: Any,
) -> None:
    """A crash right behind the deletion finds the state before that flush, and cuts behind it."""
    for wait in range(30):
        disk = SimDisk(random.Random(wait))
        with dying():
            async with running(disk, old_group(clean_resource_interval_s=0.3)) as kit:
                await fill(kit, "u", 1)
                await fill(kit, "t", 2)
                kit.wall_ms += 100 * HOUR_MS
                await trio.sleep(0.1 + wait / 10)
                first = (await kit.range()).min_bytes
                kit.power_loss()
        assert (first > 0) or wait < 29
        async with running(disk, old_group()) as kit:
            await kit.dispatched((await kit.range()).written_bytes)
            assert (await kit.units("u")).next_offset == 1  # its only record may be gone
            assert (await kit.units("t")).next_offset == 2
            assert kit.of(events.QueueRebuilt) == []


@pytest.mark.parametrize("cause", ["full", "forced", "write"])
async def test_a_disk_that_is_too_full_waits_for_nobody(cause: str, autojump_clock: Any) -> None:
    """The dispatcher may be what lacks room. An event tells what it never saw."""
    disk = full_disk()
    async with running(disk, old_group()) as kit:
        stuck(disk)
        await fill(kit, "t", 4)
        kit.wall_ms += 100 * HOUR_MS
        await trio.sleep(5)
        assert (await kit.range()).min_bytes == 0
        if cause == "write":
            disk.faults.fail("prepare", errno.ENOSPC, path_part="commitlog")
            with pytest.raises(LogFull):
                await fill(kit, "t", 1)
        else:
            disk.used = 0.86 if cause == "forced" else 0.91
        await trio.sleep(20)
        gone = kit.of(events.SegmentExpired)
        assert [each.undispatched_bytes for each in gone] == [S] * 3
        assert {each.reason for each in gone} == {"age" if cause == "write" else "usage"}


GIVEN_UP = f"{ROOT}/given_up"


async def lose(disk: SimDisk, *, is_master: bool, log: bytes = b"") -> None:
    """Three of four files go undispatched: both records of "u", and the first of "t"."""
    assert isinstance(disk, FullDisk)
    async with running(disk, old_group(), is_master=is_master) as kit:
        stuck(disk)
        if is_master:
            await fill(kit, "u", 2)
            await fill(kit, "t", 2)
        else:
            await kit.open_session(1)
            await kit.receive(1, 0, log)
        disk.used = 0.86
        await trio.sleep(20)
        assert (await kit.range()).min_bytes == 3 * S
    disk.used = 0.5
    disk.faults.clear()


async def numbers_go_on(disk: SimDisk) -> None:
    """No queue offset is used twice, and none is left out without need."""
    async with running(disk, old_group()) as kit:
        for topic in ("u", "t", "new"):
            await fill(kit, topic, 1)
        await kit.dispatched((await kit.range()).written_bytes)
        found = [(await kit.units(topic)).next_offset for topic in ("u", "t", "new")]
        assert found == [3, 3, 3]
    async with running(disk, old_group()) as kit:
        for topic in ("u", "t", "new"):
            await fill(kit, topic, 1)
            await kit.dispatched((await kit.range()).written_bytes)
            assert (await kit.units(topic)).next_offset == 4


async def test_what_is_given_up_has_used_its_queue_offsets(autojump_clock: Any) -> None:
    disk = full_disk()
    await lose(disk, is_master=True)
    await numbers_go_on(disk)


async def test_a_slave_that_gave_up_files_knows_their_queue_offsets(autojump_clock: Any) -> None:
    source, disk = full_disk(), full_disk()
    async with running(source, old_group()) as kit:
        await fill(kit, "u", 2)
        await fill(kit, "t", 2)
        end = (await kit.range()).written_bytes
    await lose(disk, is_master=False, log=log_of(source)[:end])
    await numbers_go_on(disk)


async def test_without_room_for_the_note_it_is_written_behind_the_deletion(
    autojump_clock: Any,
) -> None:
    disk = full_disk()
    disk.faults.fail("create", errno.ENOSPC, path_part="given_up")
    await lose(disk, is_master=True)
    assert disk.durable(GIVEN_UP) is not None
    await numbers_go_on(disk)


async def test_other_errors_of_the_note_end_the_node(autojump_clock: Any) -> None:
    disk = full_disk()
    disk.faults.fail("sync", errno.EIO, path_part="given_up")
    with pytest.RaisesGroup(OSError, flatten_subgroups=True, allow_unwrapped=True):
        await lose(disk, is_master=True)


@pytest.mark.parametrize("part", [f"commitlog/{S:020}", "given_up"])
async def test_a_bad_sector_keeps_what_is_not_dispatched(
    part: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: Any,
) -> None:
    """It hides which queue offsets are used. It is said once, and files go once it can be read."""
    disk = full_disk()

    def unreadable(_: object, __: object, log: CommitLog, start: int, *___: object) -> Any:
        """The dispatcher reads it, too, and is not what is tested."""
        yield
        raise OSError(errno.EIO, "Input/output error", log.path_of(start))

    async with running(disk, old_group()) as kit:
        stuck(disk)
        await fill(kit, "u", 2)
        await fill(kit, "t", 2)
        await trio.sleep(5)
        disk.used = 0.86
        await trio.sleep(1.05)
        if part == "given_up":
            disk.faults.fail("read", errno.EIO, path_part=part, times=FOREVER, name="bad")
        else:
            monkeypatch.setattr(given_up, "add_offsets", unreadable)
        await trio.sleep(20)
        found = await kit.range()
        assert found.min_bytes == S
        assert f"no log file expires: {ROOT}/{part} cannot be read" in found.stands_still
        disk.faults.disarm("bad")
        monkeypatch.undo()
        await trio.sleep(20)
        found = await kit.range()
        assert (found.min_bytes, found.stands_still) == (3 * S, "")
    said = [each.getMessage() for each in caplog.records]
    assert len([line for line in said if "expire" in line]) == 2, said


async def test_a_damaged_note_refuses_the_start_of_a_master(autojump_clock: Any) -> None:
    disk = full_disk()
    await lose(disk, is_master=True)
    file = disk.open(GIVEN_UP, "w")
    file.pwrite(b"x" * 1024, 0)
    file.close()
    with pytest.RaisesGroup(CorruptLog, flatten_subgroups=True, allow_unwrapped=True):
        async with running(disk, old_group()):
            pass
    disk.unlink(GIVEN_UP)
    async with running(disk, old_group()):
        pass
