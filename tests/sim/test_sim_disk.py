"""What the simulated disk loses and keeps, and its faults."""

from __future__ import annotations

import errno
import random

import pytest
import trio

from actors.env import LockedByUs
from actors.sim.disk import DiskOptions, SimDisk
from actors.sim.disk.pages import PAGE_BYTES

SEEDS = range(200)


def disk_with(path: str = "/d/a", seed: int = 0, options: DiskOptions | None = None) -> SimDisk:
    """A disk with one synced file of 8 pages of "o"."""
    disk = SimDisk(random.Random(seed), options)
    disk.mkdir("/d")
    file = disk.open(path, "x")
    file.pwrite(b"o" * 8 * PAGE_BYTES, 0)
    file.sync()
    disk.sync_dir("/d")
    return disk


def content(disk: SimDisk, path: str = "/d/a") -> bytes:
    return disk.open(path, "r").pread(0, 1 << 20)


def test_a_kill_keeps_what_was_written_and_makes_handles_useless() -> None:
    disk = disk_with()
    file = disk.open("/d/a", "w")
    file.pwrite(b"new", 0)
    lock = disk.lock("/d/lock")
    disk.kill()
    with pytest.raises(OSError, match="process that opened this file is gone"):
        file.pwrite(b"zombie", 0)
    assert content(disk)[:4] == b"newo"
    newer = disk.lock("/d/lock")
    lock.release()
    with pytest.raises(LockedByUs):
        disk.lock("/d/lock")
    newer.release()


def test_any_subset_of_unsynced_pages_survives_a_power_loss() -> None:
    seen = set()
    for seed in SEEDS:
        disk = disk_with(seed=seed)
        disk.open("/d/a", "w").pwrite(b"n" * 3 * PAGE_BYTES, PAGE_BYTES)
        disk.power_loss()
        after = content(disk)
        pages = [after[at : at + PAGE_BYTES] for at in range(0, len(after), PAGE_BYTES)]
        assert all(page in (b"o" * PAGE_BYTES, b"n" * PAGE_BYTES) for page in pages)
        kinds = "".join(page[:1].decode() for page in pages)
        assert kinds[0] + kinds[4:] == "ooooo"
        seen.add(kinds[1:4])
    assert len(seen) == 8


def test_what_was_synced_survives_every_power_loss() -> None:
    for seed in range(20):
        disk = disk_with(seed=seed)
        file = disk.open("/d/a", "w")
        file.pwrite(b"n" * 100, 5 * PAGE_BYTES)
        file.sync()
        expected = content(disk)
        assert disk.durable("/d/a") == expected
        for _ in range(3):
            disk.power_loss()
            assert content(disk) == expected


def test_unsynced_growth_may_vanish_or_read_as_zeros() -> None:
    sizes, zeros = set(), 0
    for seed in SEEDS:
        disk = disk_with(seed=seed)
        disk.open("/d/a", "w").pwrite(b"n" * PAGE_BYTES, 8 * PAGE_BYTES)
        disk.power_loss()
        after = content(disk)
        sizes.add(len(after))
        tail = after[8 * PAGE_BYTES :]
        assert tail in (b"", bytes(PAGE_BYTES), b"n" * PAGE_BYTES)
        zeros += tail == bytes(PAGE_BYTES)
    assert sizes == {8 * PAGE_BYTES, 9 * PAGE_BYTES}
    assert zeros > 0


def test_an_unsynced_cut_may_come_back() -> None:
    seen = set()
    for seed in SEEDS:
        disk = disk_with(seed=seed)
        disk.open("/d/a", "w").resize(PAGE_BYTES + 10)
        disk.power_loss()
        seen.add(len(content(disk)))
    assert seen == {8 * PAGE_BYTES, PAGE_BYTES + 10}


def test_unsynced_creation_and_rename_may_vanish_and_synced_ones_stay() -> None:
    seen = set()
    for seed in SEEDS:
        disk = disk_with(seed=seed)
        disk.open("/d/b", "x").sync()
        disk.rename("/d/a", "/d/c")
        disk.unlink("/d/b")
        disk.power_loss()
        seen.add(tuple(disk.listdir("/d")))
    assert seen == {("a",), ("a", "b"), ("b", "c"), ("c",)}
    for seed in range(20):
        disk = disk_with(seed=seed)
        disk.rename("/d/a", "/d/c")
        disk.sync_dir("/d")
        disk.power_loss()
        assert disk.listdir("/d") == ["c"]


def test_a_rename_between_folders_happens_wholly_or_not_at_all() -> None:
    seen = set()
    for seed in SEEDS:
        disk = disk_with(seed=seed)
        disk.mkdir("/e")
        disk.open("/e/x", "x")
        disk.rename("/d/a", "/e/a")
        disk.power_loss()
        where = (tuple(disk.listdir("/d")), tuple(disk.listdir("/e")))
        assert where[0] + tuple(name for name in where[1] if name == "a") == ("a",)
        seen.add(where)
    assert seen == {(("a",), ()), (("a",), ("x",)), ((), ("a", "x"))}


def test_a_name_used_again_never_replaces_what_was_not_yet_moved_away() -> None:
    for seed in SEEDS:
        disk = disk_with(seed=seed)
        disk.mkdir("/e")
        disk.rename("/d/a", "/e/a")
        disk.open("/d/a", "x")
        disk.power_loss()
        homes = [path for path in ("/d/a", "/e/a") if disk.exists(path)]
        assert any(content(disk, path) for path in homes), seed


def test_syncing_a_folder_takes_along_what_its_names_depend_on() -> None:
    disk = disk_with()
    disk.mkdir("/e")
    disk.open("/d/new", "x")
    disk.rename("/d/new", "/e/new")
    disk.sync_dir("/e")
    disk.power_loss()
    assert disk.listdir("/e") == ["new"]
    assert disk.listdir("/d") == ["a"]


def test_a_removed_folder_comes_back_with_its_content_or_not_at_all() -> None:
    seen = set()
    for seed in SEEDS:
        disk = disk_with(seed=seed)
        disk.rmtree("/d")
        disk.power_loss()
        seen.add((disk.exists("/d"), tuple(disk.listdir("/d"))))
    assert seen == {(True, ("a",)), (True, ()), (False, ())}


async def test_a_sync_covers_what_was_written_before_it_began(
    autojump_clock: trio.abc.Clock,
) -> None:
    seen = set()
    for seed in range(50):
        disk = disk_with(seed=seed)
        file = disk.open("/d/a", "w")
        file.pwrite(b"1", 0)
        syncer = disk.syncer()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(syncer.sync, ["/d/a"])
            await trio.testing.wait_all_tasks_blocked()
            file.pwrite(b"2", 0)
            file.pwrite(b"2", 3 * PAGE_BYTES)
        disk.power_loss()
        after = content(disk)
        assert after[:1] in (b"1", b"2")
        seen.add((after[:1], after[3 * PAGE_BYTES : 3 * PAGE_BYTES + 1]))
    assert len(seen) == 4


async def test_two_syncers_at_once_each_keep_their_promise(
    autojump_clock: trio.abc.Clock,
) -> None:
    """The later call may end first: it covers the pages that the earlier one has taken."""
    options = DiskOptions(sync_min_s=1.0, sync_mean_s=1.0)
    disk = disk_with(options=options)
    file = disk.open("/d/a", "w")
    file.pwrite(b"1", 0)
    disk.faults.slow_syncs(10.0, duration_s=0.5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(disk.syncer().sync, ["/d/a"])
        await trio.sleep(0.6)
        await disk.syncer().sync(["/d/a"])
        assert trio.current_time() < 2.0
        durable = disk.durable("/d/a")
        assert durable is not None
        assert durable[:1] == b"1"
        file.pwrite(b"2", 0)
        file.resize(9 * PAGE_BYTES)
        await disk.syncer().sync(["/d/a"])
    assert trio.current_time() > 10.0
    durable = disk.durable("/d/a")
    assert durable is not None
    assert durable[:1] == b"2"  # the slow one has not brought the old version back
    assert len(durable) == 9 * PAGE_BYTES


@pytest.mark.parametrize("syncs_again", [False, True])
def test_a_slow_sync_under_way_keeps_no_old_version_of_what_a_later_one_wrote(
    syncs_again: bool,
) -> None:
    """Neither for a power loss nor for the syncs that begin while it still runs."""
    for seed in SEEDS:
        disk = disk_with(seed=seed)
        file, inode = disk.open("/d/a", "w"), disk.inode("/d/a")
        file.pwrite(b"1", 0)
        inode.begin_sync()
        file.pwrite(b"2", 0)
        file.resize(9 * PAGE_BYTES)
        file.sync()
        if syncs_again:
            file.pwrite(b"3", PAGE_BYTES)
            file.sync()
        disk.power_loss()
        after = content(disk)
        assert (after[:1], len(after)) == (b"2", 9 * PAGE_BYTES)
        assert after[PAGE_BYTES : PAGE_BYTES + 1] == (b"3" if syncs_again else b"o")


async def test_syncs_take_time_and_cannot_be_cancelled_half_way(
    autojump_clock: trio.abc.Clock,
) -> None:
    disk = disk_with(options=DiskOptions(sync_min_s=2.0, sync_mean_s=2.0))
    syncer = disk.syncer()
    with trio.move_on_after(1.0) as scope:
        await syncer.sync(["/d/a"])
    assert trio.current_time() == pytest.approx(2.0)
    assert not scope.cancelled_caught
    disk.faults.slow_syncs(5.0, duration_s=1.0)
    await syncer.sync(["/d/a"])
    assert trio.current_time() == pytest.approx(9.0)
    assert disk.faults.counts == {"slow_sync": 1}
    with pytest.raises(FileNotFoundError):
        await syncer.sync(["/d/none"])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(syncer.sync, ["/d/a"])
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await syncer.sync(["/d/a"])
        with pytest.raises(AssertionError, match="in flight"):
            syncer.close()
    syncer.close()
    with pytest.raises(trio.ClosedResourceError):
        await syncer.sync(["/d/a"])


async def test_a_failed_sync_may_not_be_assumed_to_work_the_second_time(
    autojump_clock: trio.abc.Clock,
) -> None:
    old = 0
    for seed in range(50):
        disk = disk_with(seed=seed)
        file = disk.open("/d/a", "w")
        file.pwrite(b"n", 0)
        disk.faults.fail("sync", errno.EIO)
        syncer = disk.syncer()
        with pytest.raises(OSError, match="Input/output"):
            await syncer.sync(["/d/a"])
        await syncer.sync(["/d/a"])
        assert content(disk)[:1] == b"n"
        disk.power_loss()
        old += content(disk)[:1] == b"o"
    assert old > 10
    disk = disk_with()
    disk.faults.fail("sync", errno.EIO, path_part="/d/a")
    file = disk.open("/d/a", "w")
    file.pwrite(b"n", 0)
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.pwrite(b"n", 0)
    file.sync()
    disk.power_loss()
    assert content(disk)[:1] == b"n"


async def test_a_power_loss_in_the_middle_of_a_sync_ends_it_with_an_error(
    autojump_clock: trio.abc.Clock,
) -> None:
    disk = disk_with()
    disk.open("/d/a", "w").pwrite(b"n", 0)

    async def sync() -> None:
        with pytest.raises(OSError, match="process that asked is gone"):
            await disk.syncer().sync(["/d/a"])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sync)
        await trio.testing.wait_all_tasks_blocked()
        disk.power_loss()
    assert content(disk)[:1] in (b"o", b"n")


def test_operations_fail_as_set() -> None:
    disk = disk_with()
    file = disk.open("/d/a", "w")
    disk.faults.fail("write", errno.EIO, path_part="/d/a", skip=1, times=2)
    file.pwrite(b"works", 0)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            file.pwrite(b"fails", 0)
    file.resize(100)
    disk.faults.fail("read", errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        file.pread(0, 1)
    disk.faults.fail("create", errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        disk.open("/d/new", "x")
    disk.faults.fail("prepare", errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        file.prepare(0, 1)
    disk.faults.fail("rename", errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        disk.rename("/d/a", "/d/b")
    disk.faults.fail("sync", errno.EIO, path_part="elsewhere", times=5)
    disk.sync_dir("/d")
    assert content(disk)[:5] == b"works"
    disk.faults.fail("write", errno.EIO)
    disk.faults.clear()
    file.pwrite(b"again", 0)
    assert disk.faults.counts[f"write:{errno.EIO}"] == 2


def test_a_short_write_stores_a_part_and_raises() -> None:
    disk = disk_with()
    file = disk.open("/d/a", "w")
    disk.faults.shorten_write(path_part="/d/a")
    with pytest.raises(OSError, match="of 1000 bytes"):
        file.pwrite(b"n" * 1000, 0)
    written = content(disk)[:1000].count(b"n")
    assert written < 1000
    assert content(disk)[:1000] == b"n" * written + b"o" * (1000 - written)
    file.pwrite(b"n" * 1000, 0)


def test_a_full_disk_says_so_until_something_is_removed() -> None:
    options = DiskOptions(capacity_bytes=16 * PAGE_BYTES)
    disk = disk_with(options=options)
    assert disk.usage("/d") == 0.5
    file = disk.open("/d/b", "x")
    file.prepare(0, 8 * PAGE_BYTES)
    assert disk.usage("/d") == 1.0
    file.pwrite(b"x" * 8 * PAGE_BYTES, 0)
    with pytest.raises(OSError, match="No space left"):
        file.pwrite(b"x", 8 * PAGE_BYTES)
    assert file.size_bytes == 8 * PAGE_BYTES
    disk.unlink("/d/a")
    disk.sync_dir("/d")
    file.pwrite(b"x", 8 * PAGE_BYTES)
    assert disk.faults.counts == {"full": 1}


def test_bit_rot_is_on_the_disk_and_in_what_is_read() -> None:
    disk = disk_with()
    (at,) = disk.flip_bits("/d/a", 100, 50)
    assert 100 <= at < 150
    rotten = content(disk)
    assert rotten[at] != ord("o")
    assert rotten[:at] + b"o" + rotten[at + 1 :] == b"o" * 8 * PAGE_BYTES
    disk.power_loss()
    assert content(disk) == rotten


def test_names_fail_as_a_real_system_lets_them() -> None:
    disk = disk_with()
    disk.mkdir("/d/sub/deep")
    for code, action in [
        (errno.EISDIR, lambda: disk.open("/d/sub", "r")),
        (errno.EISDIR, lambda: disk.rename("/d/a", "/d/sub")),
        (errno.ENOTEMPTY, lambda: disk.rename("/d/sub/deep", "/d/sub")),
        (errno.ENOTDIR, lambda: disk.listdir("/d/a")),
        (errno.ENOTDIR, lambda: disk.open("/d/a/b", "x")),
        (errno.ENOTDIR, lambda: disk.rmtree("/d/a")),
    ]:
        with pytest.raises(OSError, match=r"directory|empty") as caught:
            action()
        assert caught.value.errno == code
    disk.rename("/d/a", "/d/a")
    disk.rename("/d/sub", "/d/other")
    assert disk.listdir("/d/other") == ["deep"]
    assert disk.durable("/d/none") is None
    assert disk.stat("/d").size_bytes == 0
