"""What a log has beyond an offset is set aside before it opens, also when that is interrupted."""

from __future__ import annotations

import random
from typing import Any

import pytest
from storage_kit import finish
from store_kit import ROOT, log_of, running, sim_disk

from actors.sim.disk import SimDisk
from actors.storage.layout import StoreLayout
from actors.storage.set_aside import set_aside

LAYOUT = StoreLayout(ROOT)
SEGMENT = 4096


async def filled(disk: SimDisk) -> list[int]:
    """Forty records over several files; gives where each ends."""
    async with running(disk) as kit:
        ends = [(await kit.append(bytes([number]) * 400)).next_bytes for number in range(40)]
        await kit.dispatched(ends[-1])
    return ends


def kept(disk: SimDisk) -> bytes:
    """The bytes of all log files that were set aside."""
    data = b""
    for attempt in disk.listdir(LAYOUT.aside):
        folder = f"{LAYOUT.aside}/{attempt}"
        inside = disk.listdir(f"{folder}/commitlog")
        paths = [f"{folder}/commitlog/{name}" for name in inside] or [
            f"{folder}/{name}" for name in disk.listdir(folder) if name.isdigit()
        ]
        for path in paths:
            file = disk.open(path, "r")
            data += file.pread(0, file.size_bytes)
            file.close()
    return data


async def ends_at(disk: SimDisk, offset: int, before: bytes) -> None:
    """It opens there, with what it had below, and goes on."""
    async with running(disk) as kit:
        held = await kit.range()
        assert held.written_bytes == offset
        assert log_of(disk)[:offset] == before[:offset]
        following = await kit.append(b"after")
        await kit.dispatched(following.next_bytes)
        units = await kit.units("orders")
        assert len(units.units) == sum(1 for at in (await ends_of(before)) if at <= offset) + 1


async def ends_of(before: bytes) -> list[int]:
    disk = sim_disk()
    ends = await filled(disk)
    assert log_of(disk)[: ends[-1]] != b""
    return ends


@pytest.mark.parametrize("record", [3, 8, 20, 38])
async def test_a_tail_is_set_aside(record: int, autojump_clock: Any) -> None:
    disk = sim_disk()
    ends = await filled(disk)
    before = log_of(disk)
    finish(set_aside(disk, LAYOUT, SEGMENT, ends[record]))
    tail = kept(disk)
    for number in range(record + 1, 40):
        assert bytes([number]) * 400 in tail
    assert bytes([record]) * 400 not in tail
    finish(set_aside(disk, LAYOUT, SEGMENT, ends[record]))
    assert kept(disk) == tail, "a second time changes nothing"
    await ends_at(disk, ends[record], before)


async def test_nothing_is_set_aside_from_a_log_that_ends_there(autojump_clock: Any) -> None:
    disk = sim_disk()
    ends = await filled(disk)
    before = log_of(disk)
    for offset in (None, ends[-1], ends[-1] + 100):
        finish(set_aside(disk, LAYOUT, SEGMENT, offset))
    assert disk.listdir(LAYOUT.aside) == []
    await ends_at(disk, ends[-1], before)


async def test_the_whole_store_is_set_aside(autojump_clock: Any) -> None:
    disk = sim_disk()
    await filled(disk)
    finish(set_aside(disk, LAYOUT, SEGMENT, 0))
    (folder,) = disk.listdir(LAYOUT.aside)
    inside = disk.listdir(f"{LAYOUT.aside}/{folder}")
    assert {"commitlog", "consumequeue", "index", "synced", "dispatched"} <= set(inside)
    finish(set_aside(disk, LAYOUT, SEGMENT, 0))
    async with running(disk) as kit:
        assert (await kit.range()).written_bytes == 0
        assert (await kit.append(b"anew")).first_bytes == 0


class Died(Exception):
    """Nothing runs after this."""


class Dying:
    """A disk whose process dies at its `at`-th change of a name, or sync."""

    def __init__(self, disk: SimDisk, at: int) -> None:
        self.disk, self.left = disk, at

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.disk, name)
        if name not in ("rename", "sync_dir", "open", "mkdir"):
            return found

        def counted(*arguments: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Died
            return found(*arguments)

        return counted


@pytest.mark.parametrize("offset", [0, 8])
@pytest.mark.parametrize("at", range(0, 60, 3))
async def test_a_power_loss_anywhere_is_made_up_for(
    offset: int, at: int, autojump_clock: Any
) -> None:
    disk = sim_disk()
    ends = await filled(disk)
    before = log_of(disk)
    cut = ends[offset] if offset else 0
    dying: Any = Dying(disk, at)
    try:
        finish(set_aside(dying, LAYOUT, SEGMENT, cut))
    except Died:
        disk.power_loss(random.Random(at))
        finish(set_aside(disk, LAYOUT, SEGMENT, cut))
    tail = kept(disk)
    for number in range(offset + 1, 40):
        assert bytes([number]) * 400 in tail, "nothing is lost"
    async with running(disk) as kit:
        assert (await kit.range()).written_bytes == cut
        assert log_of(disk)[:cut] == before[:cut]
        await kit.append(b"after")
