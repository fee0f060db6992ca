"""Damage of a log that a running member meets: it ends, and names the file; the others go on."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
import trio
from group_kit import Group, opened

from actors.errors import Closed, CorruptLog, StorageError
from actors.runtime import ActorDown, AskTimeout
from actors.sim.disk import SimDisk
from actors.storage.layout import LedgerLayout

BODIES = [b"%04d" % number * 500 for number in range(80)]
"""Three data files."""
FIRST = f"{0:020d}"
TO_DO = r"\(OPERATING.md, A lost disk\)"
INDEX_TO_DO = r"\(stopped, remove the member's folder `index`: a start makes it again from `data`\)"


async def filled(group: Group) -> str:
    """All have all, each on its disk. Returns the leader."""
    leader = await group.leader()
    for start in range(0, len(BODIES), 10):
        done = await group.append(leader, *BODIES[start : start + 10])
    await group.until_shown(done.last_index)
    await trio.sleep(3.0)
    return leader


def files_of(group: Group, name: str) -> tuple[SimDisk, LedgerLayout]:
    return group.world.node(name).disk, LedgerLayout(f"/data/{name}/groups/ledger")


async def ended(group: Group, name: str) -> str:
    """What the member's end says, in one line."""
    with trio.fail_after(20.0):
        await group.world.node(name).wait_ended()
    failure = group.world.node(name).take_failure()
    del group.systems[name]
    assert failure is not None
    (line,) = {str(each) for each in behind(failure) if isinstance(each, StorageError)}
    return line


def behind(error: BaseException) -> list[BaseException]:
    """The errors of a group and their causes."""
    if isinstance(error, BaseExceptionGroup):
        return [each for one in error.exceptions for each in behind(one)]
    return [error, *([] if error.__cause__ is None else behind(error.__cause__))]


async def read_all(group: Group, name: str) -> None:
    """As a client does, which asks again."""
    for _ in range(3):
        try:
            await group.entries(name)
        except (ActorDown, AskTimeout, Closed):
            await trio.sleep(1.0)


Spoil = Callable[[SimDisk, LedgerLayout], str]
"""Gives the pattern of the line that tells of it."""


def a_byte_of_a_body(disk: SimDisk, layout: LedgerLayout) -> str:
    path = f"{layout.commit_log}/{FIRST}"
    disk.flip_bits(path, 9000, 1)
    return (
        rf"{path}: byte \d+ \(offset \d+\): expected entry \d, found other bytes than were written"
        rf": the checksums differ {TO_DO}"
    )


def a_head(disk: SimDisk, layout: LedgerLayout) -> str:
    path = f"{layout.commit_log}/{FIRST}"
    disk.open(path, "w").pwrite(b"\7", 15)  # of the index, in the entry that opens the term
    where = rf"{path}: byte 0 \(offset 0\): expected entry 0"
    return rf"{where}, found index 7 for 0 {TO_DO}"


def a_data_file(disk: SimDisk, layout: LedgerLayout) -> str:
    path = f"{layout.commit_log}/{FIRST}"
    disk.unlink(path)
    return rf"{path}: the file is missing, which has entry 0 {TO_DO}"


def the_end_of_a_data_file(disk: SimDisk, layout: LedgerLayout) -> str:
    path = f"{layout.commit_log}/{FIRST}"
    disk.open(path, "w").resize(9000)
    return rf"{path}: byte \d+ \(offset \d+\): expected entry \d, found \d+ of its 2048 bytes"


def a_record(disk: SimDisk, layout: LedgerLayout) -> str:
    path = f"{layout.index}/{FIRST}"
    disk.flip_bits(path, 32 * 5 + 11, 1)  # of the position
    where = rf"{path}: byte 160 \(offset 160\): expected the record of entry 5, found "
    return rf"{where}IndexRecord\(.*\) {INDEX_TO_DO}"


def the_first_record(disk: SimDisk, layout: LedgerLayout) -> str:
    path = f"{layout.index}/{FIRST}"
    disk.open(path, "w").pwrite(bytes(32), 0)
    return rf"{path}: byte 0 \(offset 0\): expected the record of entry 0, found IndexRecord\("


def the_end_of_the_index(disk: SimDisk, layout: LedgerLayout) -> str:
    path = f"{layout.index}/{FIRST}"
    disk.open(path, "w").resize(100)
    where = rf"{path}: byte 96 \(offset 96\): the file ends, expected the record of entry 3"
    return f"{where} {INDEX_TO_DO}"


def the_index(disk: SimDisk, layout: LedgerLayout) -> str:
    path = f"{layout.index}/{FIRST}"
    disk.unlink(path)
    return rf"{path}: the file is missing, which has entry 0 {INDEX_TO_DO}"


SPOILS = (
    a_byte_of_a_body,
    a_head,
    a_data_file,
    the_end_of_a_data_file,
    a_record,
    the_first_record,
    the_end_of_the_index,
    the_index,
)
SPOILT = pytest.mark.parametrize("spoil", SPOILS, ids=lambda spoil: spoil.__name__)


@SPOILT
async def test_a_read_that_meets_damage_ends_the_member(
    autojump_clock: object, spoil: Spoil
) -> None:
    async with opened() as group:
        leader = await filled(group)
        line = spoil(*files_of(group, leader))
        await read_all(group, leader)
        said = await ended(group, leader)
        assert pytest.RaisesExc(CorruptLog, match=line).matches(CorruptLog(said)), said
        second = await group.leader()
        done = await group.append(second, b"after")
        await group.until_shown(done.last_index)
        assert await group.bodies(second) == [*BODIES, b"after"]


@pytest.mark.parametrize("spoil", [a_byte_of_a_body, a_data_file, the_end_of_the_index])
async def test_a_leader_that_lacks_what_a_follower_needs_ends(
    autojump_clock: object, spoil: Spoil
) -> None:
    """The next one has it, and brings the follower to the end."""
    async with opened() as group:
        await group.leader()
        await group.kill("n2")
        leader = await filled(group)
        await group.kill(leader)  # what is read anew is read from its files
        await group.start(leader)
        spoil(*files_of(group, await group.leader()))
        first = await group.leader()
        await group.start("n2")
        await ended(group, first)
        second = await group.leader()
        assert second not in (first, "n2")
        done = await group.append(second, b"after")
        await group.until_shown(done.last_index)
        assert await group.bodies("n2") == [*BODIES, b"after"]


async def test_a_member_that_cannot_compare_its_end_ends(autojump_clock: object) -> None:
    """As follower or as leader, whichever it becomes."""
    async with opened() as group:
        leader = await filled(group)
        name = next(each for each in group.names if each != leader)
        disk, layout = files_of(group, name)
        path = f"{layout.commit_log}/{2 * (64 << 10):020d}"
        data = disk.open(path, "r").pread(0, 64 << 10).rstrip(b"\0")
        disk.flip_bits(path, len(data) - 100, 1)
        await group.kill(leader)
        said = await ended(group, name)
        assert said.startswith(f"{path}: byte {len(data) - 2048} ")
        await group.start(leader)
        done = await group.append(await group.leader(), b"after")
        await group.until_shown(done.last_index)


async def test_an_error_of_the_disk_that_passes_ends_nobody(autojump_clock: object) -> None:
    async with opened() as group:
        leader = await filled(group)
        disk, layout = files_of(group, leader)
        disk.faults.fail("read", errno.EIO, path_part=layout.commit_log)
        await read_all(group, leader)
        assert disk.faults.counts == {f"read:{errno.EIO}": 1}
        assert await group.bodies(leader) == BODIES


async def test_an_error_of_the_disk_that_stays_ends_the_member(autojump_clock: object) -> None:
    async with opened() as group:
        leader = await filled(group)
        disk, layout = files_of(group, leader)
        disk.faults.fail("read", errno.EIO, path_part=layout.commit_log, times=2)
        await read_all(group, leader)
        said = await ended(group, leader)
        assert said.startswith(f"{layout.root}: a read failed: [Errno 5] ")
        assert f"'{layout.commit_log}/{FIRST}'" in said
