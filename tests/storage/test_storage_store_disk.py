"""The store actor and its disk: syncs, failures, no room, expiry."""

import errno
from collections.abc import Callable
from typing import Any, Literal

import pytest
import trio
from store_kit import (
    ROOT,
    Kit,
    full_disk,
    local_reply,
    log_of,
    running,
    sim_disk,
    small_group,
    until,
)
from store_tree import leaves

from actors.env import Held
from actors.errors import (
    LogFull,
    NodeStopped,
    StorageError,
)
from actors.events import store as events
from actors.sim.disk import EPOCH_MS
from actors.sim.disk.disk import SimHeld
from actors.storage.commitlog import store_messages
from actors.storage.files.side_file import SideFile
from actors.storage.log import expiry

S = 4096
HOUR_MS = 3_600_000


# ---- durability ----


@pytest.mark.checklist(47)
async def test_nothing_is_answered_before_its_sync(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.append(b"x")
        disk.faults.slow_syncs(3.0, 100.0)
        began = trio.current_time()
        await kit.append(b"y", timeout_s=10.0)
        assert trio.current_time() - began >= 3.0


async def test_what_is_written_during_a_sync_is_covered_by_the_next(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        disk.faults.slow_syncs(1.0, 100.0)
        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(kit.append, b"%d" % number, b"x" * 100)
                await trio.sleep(0.005)
        synced = [event.offset_bytes for event in kit.of(events.LogSynced)]
        assert len(synced) <= 4
        assert synced[-1] == (await kit.range()).written_bytes


async def test_a_written_group_syncs_at_its_interval(autojump_clock: Any) -> None:
    group = small_group(durability="written", flush_interval_s=2.0)
    async with running(sim_disk(), group) as kit:
        times = []
        began = trio.current_time()
        for _ in range(100):
            await kit.append(b"x")
            await trio.sleep(0.1)
            times.append(len(kit.of(events.LogSynced)))
        assert 4 <= times[-1] <= 7
        assert trio.current_time() - began < 11
        await until(
            lambda: kit.grown is not None and kit.grown.synced_bytes == kit.grown.written_bytes
        )


async def test_few_pages_of_a_written_group_wait_longer(autojump_clock: Any) -> None:
    """As flushCommitLogLeastPages and flushCommitLogThoroughInterval have it."""
    keys = {"flush_interval_s": 2.0, "flush_least_pages": 4, "flush_thorough_interval_s": 30.0}
    async with running(sim_disk(), small_group(durability="written", **keys)) as kit:

        async def synced_after_s(bodies: list[bytes]) -> float:
            """How long it takes until the next sync has ended."""
            began_s, count = trio.current_time(), len(kit.of(events.LogSynced))
            for body in bodies:
                await kit.append(body)
            await until(lambda: len(kit.of(events.LogSynced)) > count)
            return trio.current_time() - began_s

        pages = [b"x" * 900] * 20
        await synced_after_s([b"at once, as none was before"])
        assert 29 <= await synced_after_s([b"few"]) <= 31
        assert 1 <= await synced_after_s(pages) <= 3
        await trio.sleep(3)
        assert await synced_after_s(pages) <= 1


async def test_the_synced_mark_is_on_the_disk_within_two_seconds(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        answer = await kit.append(b"x")
        await trio.sleep(2)
        durable = disk.durable(f"{ROOT}/synced")
        assert durable is not None
        assert answer.next_bytes.to_bytes(8, "big") in durable


@pytest.mark.checklist(47)
async def test_a_failed_sync_stops_everything(autojump_clock: Any) -> None:
    disk = sim_disk()
    outcomes: list[Any] = []
    with pytest.RaisesGroup(StorageError, flatten_subgroups=True) as caught:
        async with running(disk) as kit:
            await kit.append(b"x")
            disk.faults.fail("sync", errno.EIO, path_part="commitlog")
            await kit.store.tell(
                store_messages.Append(
                    records=(b"y",),
                    deadline_s=trio.current_time() + 9,
                    reply_to=local_reply(outcomes),
                )
            )
            await trio.sleep(5)
    assert "sync" in str(leaves(caught.value)[0])
    # The stop that follows tries no sync again: one that passes now would prove nothing.
    assert disk.exists(f"{ROOT}/abort")
    mark, values = SideFile.open(disk, f"{ROOT}/synced", 1)
    mark.close()
    assert values == (kit.of(events.LogSynced)[-1].offset_bytes,)
    assert len(kit.of(events.SyncFailed)) == 1
    assert not any(isinstance(each, store_messages.Appended) for each in outcomes)
    assert len(outcomes) == 1


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, None])
async def test_a_failed_write_stops_everything(autojump_clock: Any, code: int | None) -> None:
    """Also for want of room: its blocks were there, so nobody knows what the disk holds now."""
    disk = sim_disk()
    with pytest.RaisesGroup(StorageError, flatten_subgroups=True):
        async with running(disk) as kit:
            await kit.append(b"x")
            if code is None:
                disk.faults.shorten_write(path_part="commitlog")
            else:
                disk.faults.fail("write", code, path_part="commitlog")
            with pytest.raises(NodeStopped) as caught:
                await kit.append(b"y" * 500)
            assert caught.value.first == 98
            await trio.sleep(5)
    (failed,) = kit.of(events.WriteFailed)
    assert failed.offset_bytes == 98
    async with running(disk) as kit:  # what was half written is cut and kept aside
        assert (await kit.range()).written_bytes in (98, 98 + 597)
        assert (await kit.append(b"z")).first_bytes in (98, 98 + 597)


@pytest.mark.checklist(24)
@pytest.mark.parametrize("of", [bytes, SimHeld])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
async def test_a_failed_write_of_received_bytes_is_reported_and_stops(
    autojump_clock: Any, code: int, of: Callable[[bytes], bytes | Held]
) -> None:
    disk = sim_disk()
    with pytest.RaisesGroup(StorageError, flatten_subgroups=True):
        async with running(disk, is_master=False) as kit:
            await kit.open_session(1)
            await kit.receive(1, 0, of(b"abc"))
            await kit.range()
            disk.faults.fail("write", code, path_part="commitlog")
            await kit.receive(1, 3, of(b"def"))
            await trio.sleep(5)
    assert [r.session for r in kit.refused] == [1]


@pytest.mark.checklist(48)
async def test_no_room_refuses_and_writes_nothing(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        end = (await kit.append(b"x")).next_bytes
        disk.faults.fail("prepare", errno.ENOSPC, times=2)
        with pytest.raises(LogFull):
            await kit.append(b"y" * 3000, b"z" * 3000)
        assert (await kit.range()).written_bytes == end
        disk.faults.clear()
        assert (await kit.append(b"y" * 3000, b"z" * 3000)).first_bytes == end
        await kit.dispatched((await kit.range()).written_bytes)
        assert (await kit.units("orders")).next_offset == 3


@pytest.mark.checklist(24, 48)
@pytest.mark.parametrize("of", [bytes, SimHeld])
async def test_no_room_on_a_slave_ends_the_session_only(
    autojump_clock: Any, of: Callable[[bytes], bytes | Held]
) -> None:
    disk = sim_disk()
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        disk.faults.fail("prepare", errno.ENOSPC)
        await kit.receive(1, 0, of(b"abc"))
        await until(lambda: kit.refused)
        assert "No space left" in kit.refused[0].reason
        await kit.open_session(2)
        await kit.receive(2, 0, b"abc")
        assert (await kit.range()).written_bytes == 3


async def test_without_inodes_the_client_hears_of_them(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        disk.faults.use_up_inodes(5.0)
        with pytest.raises(LogFull, match="the disk has no inode left for another file"):
            for _ in range(10):
                await kit.append(b"y" * 3000)
        await trio.sleep(6.0)
        await kit.append(b"y" * 3000)


async def test_another_error_before_a_write_stops(autojump_clock: Any) -> None:
    disk = sim_disk()
    with pytest.RaisesGroup(StorageError, flatten_subgroups=True):
        async with running(disk) as kit:
            disk.faults.fail("prepare", errno.EIO)
            with pytest.raises(LogFull):
                await kit.append(b"y")
            await trio.sleep(5)


# ---- disk usage and expiry ----


@pytest.mark.checklist(46, 48)
async def test_a_full_disk_refuses_appends_until_there_is_room(autojump_clock: Any) -> None:
    disk = full_disk()
    async with running(disk) as kit:
        await kit.append(b"x")
        disk.used = 0.90
        await trio.sleep(80)
        await kit.append(b"x")  # not above it yet
        disk.used = 0.901
        await trio.sleep(20)
        with pytest.raises(LogFull, match="more than 90% full"):
            await kit.append(b"x")
        assert "more than 90% full" in (await kit.range()).no_room
        disk.used = 0.5
        await trio.sleep(20)
        await kit.append(b"x")
        assert (await kit.range()).no_room == ""
        assert [e.is_full for e in kit.of(events.DiskUsageChanged)] == [True, False]


@pytest.mark.checklist(48)
async def test_a_full_disk_ends_a_slaves_session(autojump_clock: Any) -> None:
    disk = full_disk()
    disk.used = 0.95
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, 0, b"abc")
        await until(lambda: kit.refused)
        assert "more than 90% full" in kit.refused[0].reason


async def fill_segments(kit: Kit, count: int) -> None:
    for _ in range(count):
        await kit.append(b"x" * 3000)


@pytest.mark.checklist(46)
async def test_expired_files_go_from_the_front_ten_per_round(autojump_clock: Any) -> None:
    disk = full_disk()
    group = small_group(delete_when_hours=tuple(range(24)))
    async with running(disk, group) as kit:
        await fill_segments(kit, 14)
        await kit.dispatched((await kit.range()).written_bytes)
        kit.wall_ms += 71 * HOUR_MS
        await trio.sleep(65)
        assert (await kit.range()).min_bytes == 0
        kit.wall_ms += HOUR_MS + 60_000
        await trio.sleep(10)
        assert (await kit.range()).min_bytes == 10 * S
        await trio.sleep(12)
        held = await kit.range()
        assert held.min_bytes == held.written_bytes - held.written_bytes % S == 13 * S
        assert [e.reason for e in kit.of(events.SegmentExpired)] == ["age"] * 13
        assert kit.grown is not None
        assert kit.grown.min_bytes == 13 * S
        found = await kit.units("orders")
        assert (found.min_offset, found.next_offset, len(found.units)) == (13, 14, 1)
        assert (await kit.append(b"more")).first_bytes == held.written_bytes
    async with running(disk, group) as kit:
        assert (await kit.range()).min_bytes == 13 * S
        assert (await kit.units("orders")).next_offset == 15


@pytest.mark.checklist(46)
async def test_a_very_full_disk_deletes_before_the_time(autojump_clock: Any) -> None:
    disk = full_disk()
    another_hour = (expiry.local_hour(EPOCH_MS) + 12) % 24
    async with running(disk, small_group(delete_when_hours=(another_hour,))) as kit:
        await fill_segments(kit, 4)
        disk.used = 0.86
        await trio.sleep(62)
        assert [e.reason for e in kit.of(events.SegmentExpired)] == ["usage"] * 3
        assert (await kit.range()).min_bytes == 3 * S


@pytest.mark.checklist(46)
async def test_what_is_not_synced_does_not_expire(autojump_clock: Any) -> None:
    disk = full_disk()
    group = small_group(durability="written", flush_interval_s=10_000.0)
    async with running(disk, group) as kit:
        await fill_segments(kit, 1)
        await until(lambda: kit.of(events.LogSynced))
        await fill_segments(kit, 4)
        disk.used = 0.86
        await trio.sleep(62)
        assert kit.of(events.SegmentExpired) == []


@pytest.mark.checklist(46)
async def test_the_first_round_comes_after_the_configured_interval(autojump_clock: Any) -> None:
    disk = full_disk()
    async with running(disk, small_group(clean_resource_interval_s=2.0)) as kit:
        await fill_segments(kit, 4)
        disk.used = 0.86
        await trio.sleep(3)
        assert (await kit.range()).min_bytes == 3 * S


@pytest.mark.checklist(46)
@pytest.mark.parametrize(("used", "first"), [(0.86, 3 * S), (0.75, 0)])
async def test_a_disk_above_its_limit_is_cleaned_at_the_start(
    autojump_clock: Any, used: float, first: int
) -> None:
    disk = full_disk()
    group = small_group(clean_resource_interval_s=10_000.0)
    async with running(disk, group) as kit:
        await fill_segments(kit, 4)
    disk.used = used
    async with running(disk, group) as kit:
        await trio.sleep(1)
        assert (await kit.range()).min_bytes == first


@pytest.mark.checklist(46, 48)
@pytest.mark.parametrize("operation", ["prepare", "create"])
async def test_no_room_asks_for_cleaning_at_once(
    autojump_clock: Any, operation: Literal["prepare", "create"]
) -> None:
    """Between two looks at a small disk it fills up: the node goes on, and its readers too."""
    disk = full_disk()
    async with running(disk, small_group(clean_resource_interval_s=10_000.0)) as kit:
        await fill_segments(kit, 4)
        end = (await kit.range()).written_bytes
        await kit.dispatched(end)
        disk.used = 0.86
        disk.faults.fail(operation, errno.ENOSPC, path_part="commitlog")
        with pytest.raises(LogFull):
            await kit.append(b"y" * 3000)
        assert (await kit.range()).written_bytes == end
        assert (await kit.units("orders")).next_offset == 4
        await trio.sleep(1)
        assert [e.reason for e in kit.of(events.SegmentExpired)] == ["usage"] * 3
        await kit.append(b"y" * 3000)


@pytest.mark.checklist(46, 48)
async def test_no_room_deletes_no_more_than_the_rules_allow(autojump_clock: Any) -> None:
    disk = full_disk()
    async with running(disk, small_group(clean_resource_interval_s=10_000.0)) as kit:
        await fill_segments(kit, 4)
        disk.faults.fail("prepare", errno.ENOSPC, path_part="commitlog", times=9)
        for _ in range(9):
            with pytest.raises(LogFull):
                await kit.append(b"y" * 3000)
        await trio.sleep(1)
        assert kit.of(events.SegmentExpired) == []


@pytest.mark.checklist(46)
async def test_want_of_room_does_not_hurry_a_round(autojump_clock: Any) -> None:
    """What a deletion frees may take a moment: many refusals are no reason to delete faster."""
    disk = full_disk()
    async with running(disk, small_group(clean_resource_interval_s=10_000.0)) as kit:
        await fill_segments(kit, 9)
        disk.used = 0.86
        disk.faults.fail("prepare", errno.ENOSPC, path_part="commitlog", times=100)
        for _ in range(100):
            with pytest.raises(LogFull):
                await kit.append(b"y" * 3000)
        assert len(kit.of(events.SegmentExpired)) <= 1


@pytest.mark.checklist(46, 48)
async def test_no_room_on_a_slave_asks_for_cleaning_at_once(autojump_clock: Any) -> None:
    source = sim_disk()
    async with running(source) as master:
        await fill_segments(master, 4)
    disk = full_disk()
    group = small_group(clean_resource_interval_s=10_000.0)
    async with running(disk, group, is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, 0, log_of(source)[: 3 * S])
        await until(lambda: kit.of(events.LogSynced))
        disk.used = 0.86
        disk.faults.fail("prepare", errno.ENOSPC)
        await kit.receive(1, 3 * S, log_of(source)[3 * S :])
        await until(lambda: kit.refused)
        await trio.sleep(1)
        assert (await kit.range()).min_bytes == 3 * S
