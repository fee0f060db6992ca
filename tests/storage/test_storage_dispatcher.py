"""The dispatcher on a simulated disk: what it waits for, what it repairs, what it finds."""

import errno
from typing import Any

import pytest
import trio
from dispatcher_kit import received
from held_kit import HeldDisk
from storage_kit import record
from store_kit import ROOT, Kit, running, sim_disk, small_group
from store_tree import leaves

from actors.errors import ConfigError, CorruptLog
from actors.events import runtime as runtime_events
from actors.events import store as events
from actors.log_types import Message
from actors.runtime import RestartIntensityExceeded
from actors.sim.disk import SimDisk
from actors.storage.dispatch import dispatcher
from actors.storage.log.pacing import Pacing
from wire.files.commit_log import encode_blank

S = 4096


@pytest.mark.checklist(42)
async def test_a_cut_message_is_waited_for_at_every_byte(autojump_clock: Any) -> None:
    whole = record(0, b"first", topic="t")
    cut = record(len(whole), b"second" * 10, topic="t", queue_offset=1, properties={"KEYS": "k"})
    async with running(sim_disk(), is_master=False) as kit:
        await kit.open_session(1)
        await received(kit, whole, 0)
        for at in range(len(cut)):
            assert (await kit.progress()).dispatched_bytes == len(whole)
            await received(kit, cut[at : at + 1], len(whole) + at)
        assert (await kit.progress()).dispatched_bytes == len(whole) + len(cut)
        assert [unit[0] for unit in (await kit.units("t")).units] == [0, len(whole)]
        assert await kit.by_key("t", "k") == ((len(whole), len(cut)),)
        assert kit.of(runtime_events.ActorCrashed) == []


async def test_a_large_record_is_read_in_one_piece(autojump_clock: Any) -> None:
    group = small_group(segment_bytes=8 << 20, max_message_bytes=4 << 20)
    async with running(sim_disk(), group) as kit:
        await kit.append(Message("t", b"x" * (4 << 20), keys="k"), Message("t", b"y"))
        end = (await kit.range()).written_bytes
        await kit.dispatched(end)
        assert len((await kit.units("t")).units) == 2
        assert len(await kit.by_key("t", "k")) == 1


@pytest.mark.checklist(42)
async def test_a_filler_is_passed_only_when_all_of_it_came(autojump_clock: Any) -> None:
    first = record(0, b"x")
    blank = encode_blank(S - len(first)) + bytes(S - len(first) - 8)
    async with running(sim_disk(), is_master=False) as kit:
        await kit.open_session(1)
        await received(kit, first + blank[:100], 0)
        assert (await kit.progress()).dispatched_bytes == len(first)
        await received(kit, blank[100:], len(first) + 100)
        assert (await kit.progress()).dispatched_bytes == S
        await received(kit, record(S, b"y", queue_offset=1), S)
        assert (await kit.units("t")).next_offset == 2


async def test_only_synced_bytes_are_dispatched_in_a_synced_group(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        disk.faults.slow_syncs(5.0, 100.0)
        data = record(0, b"x")
        await received(kit, data, 0)
        progress = await kit.progress()
        assert (progress.dispatched_bytes, progress.limit_bytes) == (0, 0)
        await trio.sleep(6)
        assert (await kit.progress()).dispatched_bytes == len(data)


async def test_written_bytes_are_dispatched_in_a_written_group(autojump_clock: Any) -> None:
    group = small_group(durability="written", flush_interval_s=1000.0)
    async with running(sim_disk(), group, is_master=False) as kit:
        await kit.open_session(1)
        first = record(0, b"x")
        await received(kit, first, 0)
        await received(kit, record(len(first), b"y", queue_offset=1), len(first))
        held = await kit.range()
        assert held.synced_bytes < held.written_bytes
        await kit.dispatched(held.written_bytes)


async def test_many_slices_and_lookups_between_them(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "SLICE_BYTES", 300)
    async with running(sim_disk()) as kit:
        for number in range(40):
            await kit.append(Message(f"t{number % 3}", b"x" * 100, f"tag{number}", f"key{number}"))
        await kit.dispatched((await kit.range()).written_bytes)
        for number in range(40):
            assert len(await kit.by_key(f"t{number % 3}", f"key{number}")) == 1
        found = await kit.units("t1", 0, 5, 4)
        assert (found.min_offset, found.next_offset, found.first_offset) == (0, 13, 5)
        assert len(found.units) == 4


async def test_slices_with_pauses_between_them_reach_the_end(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pauses of a slave that catches up; under the virtual clock a slice takes no time."""
    pauses_s = [0.5, 0.0, 0.5]
    monkeypatch.setattr(dispatcher, "SLICE_BYTES", 300)
    monkeypatch.setattr(Pacing, "pause_s", lambda *_: pauses_s.pop() if pauses_s else 0.0)
    async with running(sim_disk()) as kit:
        began_s = trio.current_time()
        await kit.append(*(Message("t", b"x" * 100, keys=f"key{number}") for number in range(20)))
        await kit.dispatched((await kit.range()).written_bytes)
        assert trio.current_time() - began_s >= 0.5
        assert not pauses_s
        assert (await kit.units("t")).next_offset == 20


async def test_lookups_by_key(autojump_clock: Any) -> None:
    async with running(sim_disk()) as kit:
        for number in range(5):
            await kit.append(
                Message("t", b"%d" % number, keys=("same", f"own{number}")),
                Message("u", b"x", keys="same", properties=(("UNIQ_KEY", f"id{number}"),)),
            )
        await kit.dispatched((await kit.range()).written_bytes)
        offsets = [offset for offset, _ in await kit.by_key("t", "same")]
        assert len(offsets) == 5
        assert offsets == sorted(offsets, reverse=True)  # newest first
        assert [o for o, _ in await kit.by_key("t", "same", 2)] == offsets[:2]
        assert len(await kit.by_key("u", "id3")) == 1
        for topic, key in (("t", "id3"), ("t", "sam"), ("nobody", "same"), ("t", "")):
            assert await kit.by_key(topic, key) == ()


async def test_index_files_follow_each_other(autojump_clock: Any) -> None:
    disk = sim_disk()
    group = small_group(index_units_count=8, index_slots_count=3)
    async with running(disk, group) as kit:
        for number in range(20):
            await kit.append(Message("t", b"x", keys=f"k{number} same"))
        await kit.dispatched((await kit.range()).written_bytes)
        names = disk.listdir(f"{ROOT}/index")
        assert len(names) == 6  # 40 entries, 7 in each; the clock stands, so names count on
        assert [int(name) - int(names[0]) for name in names] == list(range(6))
        assert len(await kit.by_key("t", "same", 100)) == 20
        for number in range(20):
            assert len(await kit.by_key("t", f"k{number}")) == 1
    async with running(disk, group) as kit:
        assert len(await kit.by_key("t", "same", 100)) == 20


async def test_topics_that_are_no_names_are_counted_not_followed(autojump_clock: Any) -> None:
    bad = record(0, b"x", topic="../../etc", properties={"KEYS": "k"})
    good = record(len(bad), b"y")
    async with running(sim_disk(), is_master=False) as kit:
        await kit.open_session(1)
        await received(kit, bad + good, 0)
        (event,) = kit.of(events.RecordsNotDispatched)
        assert (event.first_bytes, event.count) == (0, 1)
        assert len((await kit.units("t")).units) == 1
        assert len(await kit.by_key("../../etc", "k")) == 1


async def test_a_queue_that_begins_late_has_fillers(autojump_clock: Any) -> None:
    disk = sim_disk()
    data = record(0, b"x", queue_offset=105)
    data += record(len(data), b"y", queue_offset=106)
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        await received(kit, data, 0)
        found = await kit.units("t")
        assert (found.min_offset, found.next_offset, found.first_offset) == (105, 107, 105)
        assert [unit[0] for unit in found.units] == [0, 93]
    raw = disk.open(f"{ROOT}/consumequeue/t/0/{2000:020d}", "r").pread(0, 2000)
    assert raw[:100] == bytes.fromhex("00000000000000007fffffff0000000000000000") * 5
    assert not any(raw[140:])


async def test_a_gap_in_the_log_itself_is_filled_after_one_rebuild(autojump_clock: Any) -> None:
    first = record(0, b"x")
    second = record(len(first), b"y", queue_offset=5)
    third = record(len(first + second), b"z", queue_offset=1000)
    async with running(sim_disk(), is_master=False) as kit:
        await kit.open_session(1)
        await received(kit, first + second + third, 0)
        assert len(kit.of(events.QueueRebuilt)) == 1
        await kit.dispatched(len(first + second + third))
        found = await kit.units("t", 0, 1000)
        assert (found.next_offset, len(found.units)) == (1001, 1)


async def test_repeated_queue_offsets_keep_the_first(autojump_clock: Any) -> None:
    """A promoted broker whose queues are behind writes such (T22): the first counts."""
    data = b""
    for offset in (0, 1, 2, 1, 2, 3):
        data += record(len(data), b"x", queue_offset=offset)
    async with running(sim_disk(), is_master=False) as kit:
        await kit.open_session(1)
        await received(kit, data, 0)
        found = [unit[0] for unit in (await kit.units("t")).units]
        assert found == [0, 93, 186, 465]
        (event,) = kit.of(events.QueueOffsetsRepeated)
        assert (event.first_bytes, event.count) == (279, 2)
        assert kit.of(events.QueuesBegunAnew) == []


async def damaged_log(disk: SimDisk, damage: bytes) -> Kit:
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, 0, record(0, b"x") + damage)
        await trio.sleep(1)
    return kit


@pytest.mark.parametrize("damage", [b"junk that is no record", bytes(20)])
async def test_bytes_that_are_no_record_stop_the_group(autojump_clock: Any, damage: bytes) -> None:
    with pytest.RaisesGroup(RestartIntensityExceeded, flatten_subgroups=True) as caught:
        await damaged_log(sim_disk(), damage)
    (error,) = leaves(caught.value)
    assert error.__cause__ is not None
    (cause,) = leaves(error.__cause__)
    assert isinstance(cause, CorruptLog)
    assert "offset 93" in str(cause)


async def test_a_failed_flush_is_done_again_from_what_is_sure(autojump_clock: Any) -> None:
    """After a failed sync pages may be lost, so all behind the last flush is written anew."""
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.append(Message("t", b"x", keys="a"))
        await trio.sleep(2.5)
        sure = (await kit.progress()).flushed_bytes
        assert sure > 0
        disk.faults.fail("sync", errno.EIO, path_part="consumequeue")
        await kit.append(Message("t", b"y", keys="b"))
        await trio.sleep(3)
        assert len(kit.of(events.SyncFailed)) == 1
        started = kit.of(events.DispatchStarted)
        assert [event.from_bytes for event in started] == [0, sure]
        end = (await kit.range()).written_bytes
        await kit.dispatched(end)
        await trio.sleep(3)
        assert (await kit.progress()).flushed_bytes == end
    disk.power_loss()
    async with running(disk) as kit:
        assert (await kit.units("t")).next_offset == 2
        assert len(await kit.by_key("t", "b")) == 1


async def test_expiry_trims_queues_and_index(autojump_clock: Any) -> None:
    disk = HeldDisk()
    hours = tuple(range(24))
    group = small_group(
        delete_when_hours=hours,
        consume_queue_bytes=100,
        index_units_count=5,
        file_reserved_time_h=1,
    )
    async with running(disk, group) as kit:
        for number in range(30):
            await kit.append(Message("t", b"x" * 600, keys=f"k{number}"))
        await kit.dispatched((await kit.range()).written_bytes)
        await trio.sleep(2)
        queues, index = disk.listdir(f"{ROOT}/consumequeue/t/0"), disk.listdir(f"{ROOT}/index")
        kit.wall_ms += 3_700_000
        await trio.sleep(75)
        held = await kit.range()
        assert held.min_bytes == held.written_bytes - held.written_bytes % S
        assert len(disk.listdir(f"{ROOT}/consumequeue/t/0")) < len(queues)
        assert len(disk.listdir(f"{ROOT}/index")) < len(index)
        assert [len(held) > 0 for held in disk.held] == [True, True]
        assert disk.deleted() == set(), "an open file keeps its blocks"
        found = await kit.units("t")
        assert found.first_offset == found.min_offset > 0
        assert all(unit[0] >= held.min_bytes for unit in found.units)
        assert await kit.by_key("t", "k0") == ()
        assert len(await kit.by_key("t", "k29")) == 1
        await kit.append(Message("t", b"more", keys="k30"))
        await kit.dispatched((await kit.range()).written_bytes)
    async with running(disk, group) as kit:
        assert (await kit.units("t")).next_offset == 31
        assert len(await kit.by_key("t", "k30")) == 1


async def test_other_index_sizes_are_refused(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.append(Message("t", b"x", keys="k"))
    with pytest.RaisesGroup(ConfigError, flatten_subgroups=True, allow_unwrapped=True):
        async with running(disk, small_group(index_slots_count=51)):
            pass


async def test_other_queue_sizes_are_rebuilt(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        for _ in range(7):
            await kit.append(Message("t", b"x", keys="k"))
    async with running(disk, small_group(consume_queue_bytes=100)) as kit:
        assert (await kit.append(Message("t", b"x"))).next_bytes > 0
        await kit.dispatched((await kit.range()).written_bytes)
        found = await kit.units("t")
        assert (found.next_offset, len(found.units)) == (8, 5)  # one file at a time
        assert len((await kit.units("t", 0, 5)).units) == 3
        assert len(await kit.by_key("t", "k")) == 7


async def test_a_lookup_before_the_queue_begins_and_behind_its_end(autojump_clock: Any) -> None:
    async with running(sim_disk()) as kit:
        await kit.append(b"a", b"b", b"c")
        await kit.dispatched((await kit.range()).written_bytes)
        assert len((await kit.units("orders", 0, -5)).units) == 3
        behind = await kit.units("orders", 0, 3)
        assert (behind.units, behind.first_offset, behind.next_offset) == ((), 3, 3)
        assert (await kit.units("orders", 0, 99)).units == ()
        nobody = await kit.units("orders", 1)
        assert (nobody.min_offset, nobody.next_offset, nobody.units) == (0, 0, ())
