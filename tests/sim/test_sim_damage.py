"""Damage on a simulated disk: old pages, repairs, full disks; what the atlas lets be damaged."""

from __future__ import annotations

import errno
import random

import pytest
import trio
from test_sim_disk import content, disk_with

from actors.sim.classic.atlas import CACHED_S, FaultAtlas
from actors.sim.classic.log_bytes import DiskLogBytes
from actors.sim.cluster import SimCluster, classic_config
from actors.sim.disk.pages import PAGE_BYTES
from actors.sim.world import World, open_world

GROUP = "orders"


def test_a_page_gives_back_what_it_was_before_its_last_sync() -> None:
    disk = disk_with()
    file = disk.open("/d/a", "w")
    file.pwrite(b"n" * PAGE_BYTES, PAGE_BYTES)
    inode = disk.inode("/d/a")
    assert 1 not in inode.older_pages()
    file.sync()
    assert 1 in inode.older_pages()
    inode.revert_page(1)
    assert content(disk) == b"o" * 8 * PAGE_BYTES
    assert disk.durable("/d/a") == content(disk)
    disk.power_loss()
    assert content(disk) == b"o" * 8 * PAGE_BYTES


def test_a_page_that_is_being_written_is_not_old() -> None:
    disk = disk_with()
    file = disk.open("/d/a", "w")
    assert 2 in disk.inode("/d/a").older_pages()
    file.pwrite(b"n", 2 * PAGE_BYTES)
    assert 2 not in disk.inode("/d/a").older_pages()


def test_a_patch_is_on_the_disk_and_in_the_cache() -> None:
    disk = disk_with()
    disk.inode("/d/a").patch(b"good", PAGE_BYTES - 2)
    assert content(disk)[PAGE_BYTES - 3 : PAGE_BYTES + 3] == b"ogoodo"
    assert disk.durable_range("/d/a", PAGE_BYTES - 2, PAGE_BYTES + 2) == b"good"
    assert disk.durable_range("/d/a", 8 * PAGE_BYTES - 1, 9 * PAGE_BYTES) == b"o"
    assert disk.durable_range("/d/none", 0, 9) == b""


async def test_no_sync_under_way_brings_damage_back(autojump_clock: object) -> None:
    disk = disk_with()
    disk.open("/d/a", "w").pwrite(b"new", 0)
    inode = disk.inode("/d/a")
    inode.flip_bit(1, 0)
    number = inode.begin_sync()  # takes the damage along
    inode.patch(b"e", 1)
    inode.end_sync(number)
    assert disk.durable_range("/d/a", 0, 4) == content(disk)[:4] == b"newo"
    number = inode.begin_sync()
    inode.flip_bit(1, 0)
    inode.end_sync(number)
    assert disk.durable_range("/d/a", 0, 4) == content(disk)[:4] == b"ndwo"


async def test_a_disk_is_full_for_a_while(autojump_clock: object) -> None:
    disk = disk_with()
    file = disk.open("/d/a", "w")
    felt: list[str] = []
    disk.faults.on_effect = felt.append
    disk.faults.fill(2.0)
    file.pwrite(b"in place", 0)
    with pytest.raises(OSError, match="No space") as refused:
        file.pwrite(b"x", 8 * PAGE_BYTES)
    assert refused.value.errno == errno.ENOSPC
    assert felt == ["full"]
    await trio.sleep(2.0)
    file.pwrite(b"x", 8 * PAGE_BYTES)


async def test_a_disk_that_is_full_has_no_room_for_names(autojump_clock: object) -> None:
    disk = disk_with()
    disk.mkdir("/other")
    felt: list[str] = []
    disk.faults.on_effect = felt.append
    for use_up, reported in ((disk.faults.fill, "full"), (disk.faults.use_up_inodes, "no_inodes")):
        use_up(2.0)
        for attempt in (
            lambda: disk.open("/d/new", "x"),
            lambda: disk.mkdir("/d/new"),
            *([lambda: disk.rename("/d/a", "/other/a")] if reported == "full" else []),
        ):
            with pytest.raises(OSError, match="No space"):
                attempt()
            assert felt.pop() == reported
        assert (disk.free_files("/d") == 0) == (reported == "no_inodes")
        with disk.faults.spared():
            disk.open("/d/b", "x").close()
        disk.exchange("/d/a", "/d/b")
        disk.rename("/d/a", "/d/c")
        disk.rename("/d/b", "/d/a")
        disk.unlink("/d/c")
        await trio.sleep(2.0)
        disk.mkdir("/d/folder")
        disk.rmtree("/d/folder")
    assert not felt


def test_a_rule_that_was_disarmed_takes_no_effect() -> None:
    disk = disk_with()
    file = disk.open("/d/a", "w")
    disk.faults.fail("write", errno.EIO, name="one")
    disk.faults.shorten_write(name="two")
    disk.faults.fail("sync", errno.EIO, name="three")
    disk.faults.disarm("one")
    disk.faults.disarm("two")
    file.pwrite(b"x", 0)
    with pytest.raises(OSError, match="Input/output"):
        file.sync()


# ---- the atlas ----


async def filled(world: World, *, records: int = 30) -> tuple[SimCluster, FaultAtlas]:
    cluster = SimCluster(world, classic_config(segment_bytes=16 << 10))
    await cluster.start()
    for number in range(records):
        await cluster.log(GROUP).append([b"%d;" % number + b"x" * 700])
    await cluster.converged(GROUP)
    await trio.sleep(2)
    group = cluster.config.groups[GROUP]
    return cluster, FaultAtlas(cluster=cluster, group=group, logs=DiskLogBytes(cluster, group))


async def test_what_every_other_has_may_be_damaged_once(autojump_clock: object) -> None:
    async with open_world(1) as world:
        cluster, atlas = await filled(world)
        end = (await cluster.offsets("n0", GROUP)).written
        assert atlas.may_damage("n1", 0, 800)
        assert not atlas.may_damage("n1", 0, end + 1)
        before = atlas.logs.written("n1", 0, end)
        where = atlas.flip_bit("n1", random.Random(1))
        assert where is not None
        assert atlas.logs.written("n1", 0, end) != before
        (damage,) = atlas.damaged["n1"]
        assert not atlas.may_damage("n1", 0, 800)  # one at a time
        assert not atlas.may_damage("n2", damage.start, damage.end)
        assert not atlas.may_damage("n0", damage.start, damage.end)
        assert not atlas.may_refill("n0")
        assert atlas.may_refill("n2")
        assert atlas.repair("n1") == [where]
        assert atlas.logs.written("n1", 0, end) == before
        assert atlas.repair("n1") == []
        await cluster.stop()


async def test_nothing_is_damaged_that_a_master_has_just_compared(autojump_clock: object) -> None:
    """It may be sending it without another look."""
    async with open_world(1) as world:
        cluster, atlas = await filled(world)
        await trio.sleep(CACHED_S)
        assert atlas.may_damage("n0", 0, 800)
        await cluster.kill("n1")
        world.node("n1").disk.rmtree("/data/n1/groups/orders")
        await cluster.start("n1")
        await cluster.converged(GROUP)
        assert not atlas.may_damage("n0", 0, 800)
        await trio.sleep(CACHED_S)
        assert atlas.may_damage("n0", 0, 800)
        await cluster.stop()


async def test_nothing_is_damaged_that_somebody_lacks(autojump_clock: object) -> None:
    async with open_world(2) as world:
        cluster, atlas = await filled(world, records=3)
        cluster.cut("n2")
        receipt = await cluster.log(GROUP).append([b"two have it"])
        await trio.sleep(3)
        assert not atlas.may_damage("n1", receipt.first, receipt.next)
        assert not atlas.may_damage("n0", receipt.first, receipt.next)
        cluster.heal()
        await cluster.converged(GROUP)
        await trio.sleep(3)
        assert atlas.may_damage("n1", receipt.first, receipt.next)
        await cluster.stop()


async def test_nothing_above_the_mark_is_damaged(autojump_clock: object) -> None:
    """There a start would cut the log instead of refusing."""
    async with open_world(3) as world:
        cluster, atlas = await filled(world, records=3)
        receipt = await cluster.log(GROUP).append([b"new"])
        await cluster.converged(GROUP, within_s=0.9)
        assert not atlas.may_damage("n1", receipt.first, receipt.next)
        await cluster.stop()


async def test_an_old_page_is_found_and_put_back(autojump_clock: object) -> None:
    async with open_world(4) as world:
        cluster, atlas = await filled(world)
        end = (await cluster.offsets("n0", GROUP)).written
        before = atlas.logs.written("n1", 0, end)
        assert atlas.revert_page("n1", random.Random(1)) is not None
        assert atlas.logs.durable("n1", 0, end) != before
        atlas.repair("n1")
        assert atlas.logs.durable("n1", 0, end) == before
        atlas.revert_page("n1", random.Random(2))
        atlas.forget("n1")
        assert atlas.repair("n1") == []
        world.node("n1").disk.rmtree("/data/n1/groups/orders")
        assert atlas.flip_bit("n1", random.Random(1)) is None
        assert atlas.revert_page("n1", random.Random(1)) is None
        await cluster.kill("n1")
        await cluster.stop()
