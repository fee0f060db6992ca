"""The event log on a simulated disk: files, restarts, torn ends, failures, policies, retention."""

import errno
import gzip
import random
from pathlib import Path

import pytest
import trio
import trio.testing
from event_log_kit import DAY_US, ROOT, emit, numbers, running, sound
from held_kit import HeldDisk

from actors.env.local_disk import LocalDisk
from actors.events.node import EventFileRepaired, EventWriteFailed
from actors.events.sink import SinkFull
from actors.sim.disk import SimDisk
from actors.storage.node import event_files, event_log
from actors.storage.node.event_files import EventFile
from actors.storage.node.event_reader import read_events, summarize


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(random.Random(1))


async def test_an_ordered_boot_is_one_published_file(
    disk: SimDisk, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(disk) as sink:
        emit(sink, 3)
        await trio.sleep(1)
    folder = f"{ROOT}/v=1/dt=1970-01-01/node=n0"
    assert disk.listdir(folder) == ["000001-000000000001.jsonl.gz"]
    events = list(read_events(disk, ROOT))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert (events[0].kind, events[-1].kind) == ("NodeStarted", "NodeStopped")
    assert numbers(disk) == [0, 1, 2]
    assert sound(disk) == [True]


async def test_a_published_file_is_plain_gzip(
    disk: SimDisk, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(disk) as sink:
        emit(sink, 2000)
    (file,) = event_files.published(disk, ROOT, "n0")
    lines = gzip.decompress(event_files.read_all(disk, file.path)).splitlines()
    assert len(lines) == sink.next_seq - 1


async def test_events_reach_the_disk_while_the_node_runs(
    disk: SimDisk, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(disk) as sink:
        emit(sink, 3)
        await trio.sleep(2 * event_log.FLUSH_INTERVAL_S)
        assert sink.pending == 0
        assert numbers(disk) == [0, 1, 2]
        emit(sink, event_log.BLOCK_COUNT)
        await trio.testing.wait_all_tasks_blocked()
        assert sink.pending == 0, "many events do not wait for the timer"


async def test_no_published_file_is_kept_open(autojump_clock: trio.testing.MockClock) -> None:
    """Its sync was the last use of it; it was renamed since, and may be deleted any time."""
    disk = HeldDisk()
    async with running(disk, roll_count=100) as sink:
        for _ in range(5):
            emit(sink, 250)
            await trio.sleep(1)
        assert len(event_files.published(disk, ROOT, "n0")) >= 5
        assert disk.held == [set()]


async def test_no_repaired_file_is_kept_open(autojump_clock: trio.testing.MockClock) -> None:
    disk = HeldDisk()
    with pytest.RaisesGroup(OSError, flatten_subgroups=True):
        async with running(disk, policy="stop") as sink:
            emit(sink, 3)
            await trio.sleep(1)
            disk.faults.fail("sync", errno.EIO)
            emit(sink, 10_000)
            await trio.sleep(100)
    async with running(disk, boot=2) as sink:
        assert disk.held[-1] == set()


async def test_files_roll_by_number_and_by_age(
    disk: SimDisk, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(disk, roll_count=1000, roll_interval_s=10.0) as sink:
        emit(sink, 2500)
        await trio.sleep(1)
        assert len(event_files.published(disk, ROOT, "n0")) == 2
        await trio.sleep(10)
        assert len(event_files.published(disk, ROOT, "n0")) == 3
        assert event_files.live(disk, ROOT, "n0") == []
        await trio.sleep(60)
        assert len(event_files.published(disk, ROOT, "n0")) == 3, "an idle node writes nothing"
    assert numbers(disk) == list(range(2500))
    assert sound(disk) == [True]


async def test_files_roll_by_bytes(
    disk: SimDisk, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "ROLL_BYTES", 100)
    async with running(disk) as sink:
        emit(sink, 3 * event_log.BLOCK_COUNT)
        await trio.sleep(1)
        assert len(event_files.published(disk, ROOT, "n0")) >= 3


async def test_the_folder_is_the_day_of_the_first_event(
    disk: SimDisk, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(disk, start_us=DAY_US - 3_000_000, roll_interval_s=5.0) as sink:
        for _ in range(4):
            emit(sink, 1)
            await trio.sleep(5)
    days = disk.listdir(f"{ROOT}/v=1")
    assert days == ["dt=1970-01-01", "dt=1970-01-02"]
    assert sound(disk) == [True]


async def run_until_killed(disk: SimDisk, boot: int) -> None:
    """A boot that is ended by SIGKILL: from that moment on it cannot touch the disk."""
    with pytest.raises(ExceptionGroup):
        async with running(disk, boot, policy="stop") as sink:
            emit(sink, 700)
            await trio.sleep(2 * event_log.FLUSH_INTERVAL_S)
            emit(sink, 10)
            disk.kill()


async def test_a_killed_boot_is_published_by_the_next(
    disk: SimDisk, autojump_clock: trio.testing.MockClock
) -> None:
    await run_until_killed(disk, 1)
    await run_until_killed(disk, 2)
    assert len(event_files.live(disk, ROOT, "n0")) == 1
    async with running(disk, 3) as sink:
        assert event_files.live(disk, ROOT, "n0") == []
        emit(sink, 1)
    assert sound(disk) == [False, False, True]
    assert numbers(disk) == [*range(700), *range(700), 0]
    repaired = [
        each for each in read_events(disk, ROOT) if isinstance(each.event, EventFileRepaired)
    ]
    assert [(each.boot, each.event.file) for each in repaired] == [
        (2, "000001-000000000001.jsonl.gz"),
        (3, "000002-000000000001.jsonl.gz"),
    ]


@pytest.mark.parametrize("seed", range(20))
async def test_a_power_loss_leaves_no_hole(
    seed: int, autojump_clock: trio.testing.MockClock
) -> None:
    disk = SimDisk(random.Random(seed))
    with pytest.raises(ExceptionGroup):
        async with running(disk, 1, policy="stop", roll_count=1000) as sink:
            for _ in range(10):
                emit(sink, 700)
                await trio.sleep(0.5)
            disk.power_loss()
            emit(sink, 1)
    async with running(disk, 2):
        pass
    assert sound(disk)[-1]
    found = numbers(disk)
    assert len(found) >= 5000, "what was published before is durable"
    assert found == [number % 700 for number in range(len(found))]


@pytest.mark.parametrize("cut", [1, 10, 30])
@pytest.mark.parametrize("junk", [b"", b"junk", b"\x1f\x8b\x08" + bytes(50)])
async def test_a_torn_live_file_is_cut_at_its_last_whole_member(
    disk: SimDisk, autojump_clock: trio.testing.MockClock, cut: int, junk: bytes
) -> None:
    await run_until_killed(disk, 1)
    (file,) = event_files.live(disk, ROOT, "n0")
    data = event_files.read_all(disk, file.part_path)
    members, _ = event_files.decompress(data)
    handle = disk.open(file.part_path, "w")
    handle.resize(len(data) - cut)
    handle.pwrite(junk, len(data) - cut)
    handle.close()
    async with running(disk, 2):
        pass
    assert sound(disk) == [False, True]
    first_boot = [each for each in read_events(disk, ROOT) if each.boot == 1]
    assert len(first_boot) == sum(content.count(b"\n") for content in members[:-1])
    (repaired,) = [
        each.event for each in read_events(disk, ROOT) if isinstance(each.event, EventFileRepaired)
    ]
    assert repaired.cut_bytes > 0
    assert repaired.events == len(first_boot)


async def test_a_live_file_without_a_whole_member_is_removed(
    disk: SimDisk, autojump_clock: trio.testing.MockClock
) -> None:
    file = EventFile(boot=1, start_seq=1, folder=f"{ROOT}/v=1/dt=1970-01-01/node=n0")
    disk.mkdir(file.folder)
    handle = disk.open(file.part_path, "x")
    handle.pwrite(b"\x1f\x8b", 0)
    async with running(disk, 2):
        assert event_files.live(disk, ROOT, "n0") == []
    assert sound(disk) == [True]


async def test_a_repair_that_was_interrupted_is_repeated(
    disk: SimDisk, autojump_clock: trio.testing.MockClock
) -> None:
    await run_until_killed(disk, 1)
    (file,) = event_files.live(disk, ROOT, "n0")
    data = event_files.read_all(disk, file.part_path)
    for path in (file.path, f"{file.part_path}.copy"):
        handle = disk.open(path, "x")
        handle.pwrite(data, 0)
        handle.close()
    assert numbers(disk) == list(range(700)), "the published file counts, not its live twin"
    async with running(disk, 2):
        pass
    assert numbers(disk) == list(range(700))
    assert sound(disk) == [False, True]


@pytest.mark.parametrize("seed", range(5))
async def test_a_repaired_file_outlasts_a_power_loss(
    seed: int, autojump_clock: trio.testing.MockClock
) -> None:
    disk = SimDisk(random.Random(seed))
    await run_until_killed(disk, 1)
    with pytest.raises(ExceptionGroup):
        async with running(disk, 2, policy="stop") as sink:
            disk.power_loss()
            emit(sink, 1)
    async with running(disk, 3):
        pass
    assert numbers(disk)[:700] == list(range(700))


async def test_the_reason_why_events_wait_has_room_in_the_live_view(
    disk: SimDisk, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Whose notes begin with the time, and are cut where a terminal of 80 columns ends."""
    disk.faults.fail("write", errno.ENOSPC, path_part=".part", times=3)
    async with running(disk) as sink:
        emit(sink, 10)
        await trio.sleep(60)
    (said,) = caplog.messages
    assert "events wait in memory: no room: [Errno 28] No space" in f"0:00:00 {said}"[:79]
    assert said.endswith("; the oldest go if they become too many")


@pytest.mark.parametrize("operation", ["write", "create", "sync", "rename"])
async def test_drop_goes_on_after_a_disk_failure(
    disk: SimDisk, autojump_clock: trio.testing.MockClock, operation: str
) -> None:
    disk.faults.fail(operation, errno.ENOSPC, path_part=".part", times=3)  # type: ignore[arg-type]
    async with running(disk, roll_interval_s=1.0) as sink:
        for _ in range(60):
            emit(sink, 10)
            await trio.sleep(1)
    assert len(numbers(disk)) == 600, "the memory was large enough"
    assert sound(disk) == [True]
    failed = [each.event for each in read_events(disk, ROOT) if each.kind == "EventWriteFailed"]
    assert isinstance(failed[0], EventWriteFailed)
    assert "No space left" in failed[0].error
    assert sum(event.count for event in failed) == 3


async def test_drop_names_what_memory_could_not_hold(
    disk: SimDisk, autojump_clock: trio.testing.MockClock
) -> None:
    disk.faults.fail("write", errno.EIO, times=3)
    async with running(disk, pending_max_count=100) as sink:
        for _ in range(20):
            emit(sink, 50)
            await trio.sleep(1)
    (boot,) = summarize(read_events(disk, ROOT))
    assert boot.problems == ()
    assert boot.ended
    assert boot.dropped == sink.dropped > 0
    assert boot.events + boot.dropped == boot.last_seq


async def test_drop_stops_in_order_while_the_disk_fails(
    disk: SimDisk, autojump_clock: trio.testing.MockClock
) -> None:
    disk.faults.fail("write", errno.EIO, times=1)
    async with running(disk) as sink:
        emit(sink, 10)
        await trio.sleep(0.5)
        assert sink.pending
    assert numbers(disk) == list(range(10))
    assert sound(disk) == [True]


async def test_drop_starts_on_a_failing_disk(
    disk: SimDisk, autojump_clock: trio.testing.MockClock
) -> None:
    await run_until_killed(disk, 1)
    disk.faults.fail("read", errno.EIO, times=2)
    async with running(disk, 2) as sink:
        emit(sink, 1)
        await trio.sleep(10)
    assert sound(disk) == [False, True]


async def test_stop_ends_the_node_when_the_disk_fails(
    disk: SimDisk, autojump_clock: trio.testing.MockClock
) -> None:
    disk.faults.fail("write", errno.EIO)
    with pytest.RaisesGroup(OSError, flatten_subgroups=True):
        async with running(disk, policy="stop") as sink:
            emit(sink, 1)
            await trio.sleep_forever()


async def test_stop_ends_the_node_when_memory_is_full(
    disk: SimDisk, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.RaisesGroup(SinkFull, flatten_subgroups=True):
        async with running(disk, policy="stop", pending_max_count=10) as sink:
            emit(sink, 20)
            await trio.sleep_forever()


@pytest.mark.real_io
async def test_on_a_real_disk(tmp_path: Path) -> None:
    disk, root = LocalDisk(), str(tmp_path / "events")
    for boot in (1, 2):
        async with running(disk, boot, root=root, roll_count=5000) as sink:
            for _ in range(30):
                emit(sink, 1000)
                await trio.sleep(0.001)
    assert sound(disk, root) == [True, True]
    assert len(numbers(disk, root)) == 60_000
