"""What a log has beyond an offset is set aside before it opens, also when that is interrupted."""

from __future__ import annotations

import errno
import random
from typing import Any

import pytest
from storage_kit import finish
from store_kit import ROOT, log_of, running, sim_disk

from actors.sim.disk import SimDisk, SimFile
from actors.storage.commitlog.set_aside import PART, set_aside
from actors.storage.layout import StoreLayout
from actors.storage.log.truncation import keep_intent

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
    for foreign in ("commitlog/notes.txt", "consumequeue/README", "index/.snapshot"):
        disk.open(f"{ROOT}/{foreign}", "x").close()
    disk.open(f"{ROOT}/index/20260102030405006", "x").close()
    finish(set_aside(disk, LAYOUT, SEGMENT, 0))
    for foreign in ("commitlog/notes.txt", "consumequeue/README", "index/.snapshot"):
        assert disk.exists(f"{ROOT}/{foreign}"), "what is not ours stays"
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
        if name not in ("rename", "sync_dir", "open", "mkdir", "unlink"):
            return found

        def counted(*arguments: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Died
            return found(*arguments)

        return counted


VOLUMES = (
    (),
    (LAYOUT.commit_log,),
    (LAYOUT.consume_queue, LAYOUT.index),
    (LAYOUT.aside,),
)
"""Folders on other volumes than the store's root."""


class VolumesDisk(SimDisk):
    """Nothing can be renamed into a folder of VOLUMES, or out of it, nor can the folder itself."""

    volumes: tuple[str, ...] = ()
    room_bytes = 1 << 60

    def rename(self, source: str, target: str) -> None:
        assert not {source, target} & set(self.volumes), "as a mount, or a link"
        if self._volume(source) != self._volume(target):
            raise OSError(errno.EXDEV, "Invalid cross-device link", source)
        super().rename(source, target)

    def _volume(self, path: str) -> str:
        return next((each for each in self.volumes if path.startswith(f"{each}/")), "")

    def open(self, path: str, mode: str) -> SimFile:
        if mode == "x" and self._volume(path) != self._volume(LAYOUT.root) and self.room_bytes < 0:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        return super().open(path, mode)


async def with_volumes(volumes: tuple[str, ...]) -> tuple[VolumesDisk, list[int]]:
    disk = VolumesDisk(random.Random(0))
    ends = await filled(disk)
    disk.volumes = volumes
    return disk, ends


@pytest.mark.parametrize("offset", [0, 8])
@pytest.mark.parametrize("volumes", VOLUMES)
async def test_folders_on_other_volumes(
    volumes: tuple[str, ...], offset: int, autojump_clock: Any
) -> None:
    disk, ends = await with_volumes(volumes)
    before = log_of(disk)
    cut = ends[offset] if offset else 0
    finish(set_aside(disk, LAYOUT, SEGMENT, cut))
    for number in range(offset + 1, 40):
        assert bytes([number]) * 400 in kept(disk)
    assert not [name for name in disk.listdir(LAYOUT.aside) if name.endswith(PART)]
    disk.volumes = ()
    async with running(disk) as kit:
        assert (await kit.range()).written_bytes == cut
        assert log_of(disk)[:cut] == before[:cut]


@pytest.mark.parametrize("offset", [0, 8])
async def test_without_room_for_a_copy_nothing_is_changed(offset: int, autojump_clock: Any) -> None:
    disk, ends = await with_volumes((LAYOUT.aside,))
    keep_intent(disk, LAYOUT)  # which may be there, and says nothing
    everything = snapshot(disk)
    disk.room_bytes = -1
    with pytest.raises(OSError, match="No space left"):
        finish(set_aside(disk, LAYOUT, SEGMENT, ends[offset] if offset else 0))
    assert snapshot(disk) == everything
    disk.room_bytes = 0
    finish(set_aside(disk, LAYOUT, SEGMENT, ends[offset] if offset else 0))
    assert bytes([20]) * 400 in kept(disk)


def snapshot(disk: SimDisk, folder: str = ROOT) -> dict[str, bytes]:
    """All files under a folder."""
    found = {}
    for name in disk.listdir(folder):
        path = f"{folder}/{name}"
        if disk.stat(path).kind == "folder":
            found.update(snapshot(disk, path))
        else:
            file = disk.open(path, "r")
            found[path] = file.pread(0, file.size_bytes)
            file.close()
    return found


@pytest.mark.parametrize("offset", [0, 8])
@pytest.mark.parametrize("volumes", VOLUMES)
@pytest.mark.parametrize("at", range(0, 100, 5))
async def test_a_power_loss_anywhere_is_made_up_for(
    volumes: tuple[str, ...], offset: int, at: int, autojump_clock: Any
) -> None:
    disk, ends = await with_volumes(volumes)
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
    disk.volumes = ()
    async with running(disk) as kit:
        assert (await kit.range()).written_bytes == cut
        assert log_of(disk)[:cut] == before[:cut]
        await kit.append(b"after")
