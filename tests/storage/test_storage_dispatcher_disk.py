"""The dispatcher's stops, flushes and checkpoint, and a disk that is full."""

import errno
from typing import Any, Literal

import pytest
import trio
from dispatcher_kit import received
from storage_kit import record
from store_kit import ROOT, running, sim_disk, small_group

from actors.errors import StorageError
from actors.events import runtime as runtime_events
from actors.events import store as events
from actors.log_types import Message
from actors.sim.disk import EPOCH_MS, SimDisk
from actors.storage.commitlog.store_messages import LogGrew
from actors.storage.derived.small_files import (
    lower_logics_offset,
    read_checkpoint,
    write_checkpoint,
)
from actors.storage.dispatch import dispatcher
from actors.storage.log.pacing import Pacing
from wire.files.commit_log import Checkpoint


async def test_a_stop_derives_and_flushes_what_was_just_written(autojump_clock: Any) -> None:
    disk = sim_disk()
    for number in range(1, 6):
        async with running(disk) as kit:
            await kit.append(Message("t", b"x" * 100, keys=f"k{number}"))
        assert not disk.exists(f"{ROOT}/abort")
        async with running(disk) as kit:
            assert kit.of(events.RecoveryFinished)[0].was_clean
            (started,) = kit.of(events.DispatchStarted)
            assert started.from_bytes == started.end_bytes == (await kit.range()).written_bytes
            assert (await kit.units("t")).next_offset == number


async def test_a_stop_leaves_to_the_next_start_what_takes_too_long(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slave that was catching up may have far more than a stop can wait for."""
    monkeypatch.setattr(dispatcher, "SLICE_BYTES", 300)
    monkeypatch.setattr(dispatcher, "STOP_DISPATCH_S", -1.0)
    monkeypatch.setattr(Pacing, "pause_s", lambda *_: 100.0)
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.append(*(Message("t", b"x" * 100, keys=f"k{number}") for number in range(20)))
        end = (await kit.range()).written_bytes

    assert disk.exists(f"{ROOT}/abort")
    monkeypatch.undo()
    async with running(disk) as kit:
        (started,) = kit.of(events.DispatchStarted)
        assert 0 < started.from_bytes < started.end_bytes == end
        await kit.dispatched(end)
        assert (await kit.units("t")).next_offset == 20


async def test_a_stop_covers_a_flush_that_was_stopped_before_its_sync(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stuck(self: dispatcher.Dispatcher, flush: Any) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(dispatcher.Dispatcher, "_feed_flush", stuck)
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.append(Message("t", b"x" * 100, keys="k"))
        await trio.sleep(2.5)
        await kit.append(Message("u", b"x" * 100, keys="k"))
    disk.power_loss()
    async with running(disk) as kit:
        (started,) = kit.of(events.DispatchStarted)
        assert started.from_bytes == (await kit.range()).written_bytes
        for topic in ("t", "u"):
            assert (await kit.units(topic)).next_offset == 1
            assert len(await kit.by_key(topic, "k")) == 1


async def test_what_is_flushed_is_written_down_durably_with_the_next_flush(
    autojump_clock: Any,
) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        first = (await kit.append(Message("t", b"x"))).next_bytes
        await trio.sleep(1.5)
        assert (await kit.progress()).flushed_bytes == first
        await kit.append(Message("t", b"x"))
        await trio.sleep(1.5)
        durable = disk.durable(f"{ROOT}/dispatched")
        assert durable is not None
        assert first.to_bytes(8, "big") in durable


@pytest.mark.checklist(43)
async def test_the_checkpoint_does_not_run_ahead_of_the_logs_sync(autojump_clock: Any) -> None:
    disk = sim_disk()
    group = small_group(durability="written", flush_interval_s=1000.0)
    async with running(disk, group) as kit:
        await kit.append(Message("t", b"x"))
        await trio.sleep(1.5)
        kit.wall_ms += 60_000
        await kit.append(Message("t", b"x"))
        await trio.sleep(1.5)
        held = await kit.range()
        assert held.synced_bytes < held.written_bytes
        found = read_checkpoint(disk, f"{ROOT}/checkpoint")
        assert (found.log_ts, found.queue_ts) == (EPOCH_MS, EPOCH_MS + 60_000)


@pytest.mark.checklist(48)
@pytest.mark.parametrize("skip", range(0, 40, 8))
@pytest.mark.parametrize("part", ["consumequeue", "index"])
@pytest.mark.parametrize("operation", ["write", "create"])
async def test_a_full_disk_is_waited_for(
    autojump_clock: Any, operation: Literal["write", "create"], part: str, skip: int
) -> None:
    """Wherever it fills up: the node and lookups go on, and nothing is missing or double later."""
    disk = sim_disk()
    group = small_group(index_units_count=40)
    async with running(disk, group) as kit:
        disk.faults.fail(operation, errno.ENOSPC, path_part=part, skip=skip, times=3)
        stored = []
        for number in range(350):
            message = Message(topic=f"t{number % 3}", body=b"x", keys=(f"k{number}",))
            stored.append((await kit.append(message)).first_bytes)
            if number % 50 == 0:
                await kit.units("t0")
                await trio.sleep(0.5)
        await kit.dispatched((await kit.range()).written_bytes)
        for topic in range(3):
            units = (await kit.units(f"t{topic}")).units
            assert [unit[0] for unit in units] == stored[topic::3][: len(units)]
            assert (await kit.units(f"t{topic}")).next_offset == len(stored[topic::3])
        for number, offset in enumerate(stored):
            found = await kit.by_key(f"t{number % 3}", f"k{number}")
            assert [at for at, _ in found] == [offset]


@pytest.mark.checklist(48)
async def test_a_queue_that_begins_later_is_made_whole_or_not_at_all(autojump_clock: Any) -> None:
    """Its fillers fail, as on a slave whose log begins behind the queue's first records."""
    disk = sim_disk()
    first = record(0, b"x", topic="t", queue_offset=30)
    async with running(disk, is_master=False) as kit:
        disk.faults.fail("write", errno.ENOSPC, path_part="consumequeue", skip=1, times=2)
        await kit.open_session(1)
        await received(kit, first, 0)
        await kit.dispatched(len(first))
        found = await kit.units("t")
        assert (found.min_offset, found.next_offset, len(found.units)) == (30, 31, 1)


@pytest.mark.checklist(48)
@pytest.mark.parametrize(
    ("operation", "part"),
    [("write", "dispatched"), ("write", "checkpoint"), ("sync", "checkpoint")],
)
async def test_a_queue_that_lacks_units_waits_for_room_to_be_built_anew(
    autojump_clock: Any, operation: Literal["write", "sync"], part: str
) -> None:
    """On a file system that never overwrites, what is trusted less cannot be written down."""
    disk = sim_disk()
    first, second = record(0, b"x"), record(93, b"y", queue_offset=5)
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        await received(kit, first, 0)
        await trio.sleep(3)
        write_checkpoint(disk, f"{ROOT}/checkpoint", Checkpoint(logics_offset=93))
        disk.faults.fail(operation, errno.ENOSPC, path_part=f"{ROOT}/{part}", times=3)
        await received(kit, second, len(first))
        assert kit.of(events.QueueRebuilt) == []
        await kit.dispatched(len(first + second))
        assert len(kit.of(events.QueueRebuilt)) == 1
        assert disk.faults.counts[f"{operation}:{errno.ENOSPC}"] == 3
        assert (await kit.units("t")).next_offset == 6
        assert kit.of(runtime_events.ActorCrashed) == []


def test_a_lowered_checkpoint_whose_sync_failed_is_written_and_synced_again() -> None:
    """What is in the page cache behind a failed sync may never get to the disk."""
    disk, path = sim_disk(), f"{ROOT}/checkpoint"
    disk.mkdir(ROOT)
    lower_logics_offset(disk, path, 0)
    assert not disk.exists(path), "there is nothing to be lowered"
    write_checkpoint(disk, path, Checkpoint(logics_offset=93))
    disk.sync_now(disk.inode(path), path)
    disk.sync_dir(ROOT)
    disk.faults.fail("sync", errno.ENOSPC, path_part=path)
    with pytest.raises(OSError, match="No space left"):
        lower_logics_offset(disk, path, 50)
    lower_logics_offset(disk, path, 50)
    disk.power_loss()
    assert read_checkpoint(disk, path).logics_offset == 50


@pytest.mark.checklist(48)
@pytest.mark.parametrize(
    ("operation", "part"),
    [("create", "consumequeue"), ("write", "consumequeue"), ("sync", "index")],
)
async def test_a_file_that_could_not_be_made_is_made_later(
    autojump_clock: Any, operation: Literal["create", "write", "sync"], part: str
) -> None:
    """A queue's files are not synced when they are made, but with the next flush."""
    disk = sim_disk()
    async with running(disk) as kit:
        disk.faults.fail(operation, errno.ENOSPC, path_part=part, times=2)
        message = Message(topic="t", body=b"x", keys=("k",))
        end = (await kit.append(message)).next_bytes
        await kit.dispatched(end)
        assert len((await kit.units("t")).units) == 1
        assert await kit.by_key("t", "k") == ((0, end),)


@pytest.mark.checklist(48)
@pytest.mark.parametrize("operation", ["write", "create"])
async def test_a_checkpoint_that_finds_no_room_is_written_later(
    autojump_clock: Any, operation: Literal["write", "create"]
) -> None:
    """Without another append."""
    disk = sim_disk()
    async with running(disk) as kit:
        disk.faults.fail(operation, errno.ENOSPC, path_part="checkpoint", times=2)
        await kit.append(b"x")
        await trio.sleep(1.5)
        assert (await kit.progress()).flushed_bytes == (await kit.range()).written_bytes
        assert read_checkpoint(disk, f"{ROOT}/checkpoint").queue_ts == 0
        await trio.sleep(5.0)
        assert read_checkpoint(disk, f"{ROOT}/checkpoint").queue_ts == EPOCH_MS
        assert kit.of(runtime_events.ActorCrashed) == []


async def test_a_plain_file_among_the_topics_is_none_of_ours(autojump_clock: Any) -> None:
    """As a file manager leaves them; a Java broker passes over it, too."""
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.append(Message("t", b"x"))
    disk.open(f"{ROOT}/consumequeue/.DS_Store", "x").close()
    async with running(disk) as kit:
        assert (await kit.units("t")).next_offset == 1
        await kit.append(Message("t", b"x"))
        await kit.dispatched((await kit.range()).written_bytes)
        assert (await kit.units("t")).next_offset == 2
        assert disk.exists(f"{ROOT}/consumequeue/.DS_Store")


def lose(disk: SimDisk, path: str) -> None:
    disk.unlink(path)


def cut_short(disk: SimDisk, path: str) -> None:
    disk.open(path, "w").resize(500)


def go_bad(disk: SimDisk, path: str) -> None:
    disk.faults.fail("read", errno.EIO, path_part=path)


QUEUE_UNITS = 100
"""Of one file."""


async def with_two_files(disk: SimDisk) -> None:
    async with running(disk) as kit:
        for _ in range(130):
            await kit.append(Message("t", b"x"), Message("u", b"y"))


@pytest.mark.parametrize("spoil", [lose, cut_short, go_bad])
async def test_a_lookup_in_a_spoiled_queue_has_it_built_anew(
    autojump_clock: Any, spoil: Any
) -> None:
    """The restart of a dispatcher would restart what appends wait for, too."""
    disk = sim_disk()
    await with_two_files(disk)
    async with running(disk) as kit:
        spoil(disk, f"{ROOT}/consumequeue/t/0/{0:020d}")
        with pytest.raises(StorageError, match=r"t/0: unit .* ask again"):
            await kit.units("t", 0, 10)
        await kit.dispatched((await kit.range()).written_bytes)
        found = await kit.units("t")
        assert (found.min_offset, found.next_offset) == (0, 130)
        assert len(found.units) == QUEUE_UNITS
        (rebuilt,) = kit.of(events.QueueRebuilt)
        assert (rebuilt.topic, rebuilt.queue_id) == ("t", 0)
        assert not kit.of(runtime_events.ActorCrashed)
        assert len((await kit.units("u")).units) == QUEUE_UNITS


async def test_a_lookup_that_fails_for_another_reason_fails_alone(autojump_clock: Any) -> None:
    disk = sim_disk()
    await with_two_files(disk)
    async with running(disk) as kit:
        disk.faults.fail("read", errno.ENOMEM, path_part="consumequeue/t")
        with pytest.raises(StorageError, match="cannot look that up"):
            await kit.units("t")
        assert len((await kit.units("t")).units) == QUEUE_UNITS
        assert not kit.of(events.QueueRebuilt)
        assert not kit.of(runtime_events.ActorCrashed)


async def test_a_queue_whose_oldest_file_is_gone_is_built_anew_as_the_log_expires(
    autojump_clock: Any,
) -> None:
    disk = sim_disk()
    await with_two_files(disk)
    async with running(disk) as kit:
        held = await kit.range()
        disk.unlink(f"{ROOT}/consumequeue/t/0/{0:020d}")
        await kit.dispatcher.tell(
            LogGrew(
                min_bytes=held.segment_bytes,
                written_bytes=held.written_bytes,
                synced_bytes=held.synced_bytes,
            )
        )
        await kit.dispatched(held.written_bytes)
        found = await kit.units("t", 0, 120)
        assert (found.next_offset, len(found.units)) == (130, 10)
        assert kit.of(events.QueueRebuilt)
        assert not kit.of(runtime_events.ActorCrashed)
