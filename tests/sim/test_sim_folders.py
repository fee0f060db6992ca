"""Folders on the simulated disk: made without a sync, removed, and made again."""

import random
from typing import Any

from actors.sim.disk import SimDisk


async def test_they_are_durable_with_the_folders_that_hold_them(autojump_clock: Any) -> None:
    seen = set()
    for seed in range(40):
        disk = SimDisk(random.Random(seed))
        disk.mkdir("/e/f", sync=False)
        disk.power_loss()
        seen.add((disk.exists("/e"), disk.exists("/e/f")))
    assert seen == {(False, False), (True, False), (True, True)}
    disk = SimDisk(random.Random(0))
    disk.mkdir("/e/f", sync=False)
    syncer = disk.syncer()
    await syncer.sync(["/", "/e"])
    syncer.close()
    disk.power_loss()
    assert disk.exists("/e/f")


async def test_a_folder_that_is_removed_while_it_is_synced(autojump_clock: Any) -> None:
    disk = SimDisk(random.Random(0))
    disk.mkdir("/e/f")
    syncer = disk.syncer()
    disk.on_sync = lambda paths: disk.rmtree("/e/f")
    await syncer.sync(["/e/f"])
    syncer.close()
    assert not disk.exists("/e/f")


def test_a_folder_that_is_made_again_holds_nothing_of_the_one_before() -> None:
    for seed in range(40):
        disk = SimDisk(random.Random(seed))
        disk.mkdir("/e")
        disk.open("/e/old", "x")
        disk.sync_dir("/e")
        disk.open("/e/new", "x")
        disk.rmtree("/e")
        disk.sync_dir("/")
        disk.mkdir("/e")
        disk.power_loss()
        assert disk.listdir("/e") == []


def test_a_folder_that_is_made_again_keeps_what_was_synced_in_it_before_its_own_name() -> None:
    for seed in range(40):
        disk = SimDisk(random.Random(seed))
        disk.mkdir("/e/f")
        for name in ("kept", "old"):
            disk.open(f"/e/f/{name}", "x")
        disk.sync_dir("/e/f")
        disk.rmtree("/e/f")
        disk.mkdir("/e/f", sync=False)
        disk.open("/e/f/kept", "x")
        disk.sync_dir("/e/f")
        if seed % 2:
            disk.sync_dir("/e")
        disk.power_loss()
        names = disk.listdir("/e/f") if disk.exists("/e/f") else None
        assert names == ["kept"] or (not seed % 2 and names in (None, [], ["old"], ["kept", "old"]))
