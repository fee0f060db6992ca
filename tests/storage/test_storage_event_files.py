"""What the event log deletes when, and what its reader says about damage and holes."""

import gzip
import random

import pytest
import trio
import trio.testing
from event_log_kit import DAY_US, ROOT, STARTED, emit, running

from actors.events.codec import EventFormatError
from actors.events.envelope import LoggedEvent
from actors.events.node import EventFilesExpired
from actors.events.runtime import ActorRestarted
from actors.sim.disk import SimDisk
from actors.storage import event_files
from actors.storage.event_files import EventFile
from actors.storage.event_reader import nodes, read_events, summarize


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(random.Random(1))


async def test_old_files_go_by_bytes(disk: SimDisk, autojump_clock: trio.testing.MockClock) -> None:
    async with running(disk, roll_interval_s=1.0) as sink:
        for _ in range(10):
            emit(sink, 2000)
            await trio.sleep(5)
    size_bytes = sum(file.size_bytes for file in event_files.published(disk, ROOT, "n0"))
    files = event_files.published(disk, ROOT, "n0")
    gone = event_files.expire(
        disk, files, bytes_max=size_bytes // 2, first_date="1970-01-01", count_max=2
    )
    assert gone == files[:2]
    gone += event_files.expire(
        disk, files[2:], bytes_max=size_bytes // 2, first_date="1970-01-01", count_max=100
    )
    left = event_files.published(disk, ROOT, "n0")
    assert left == files[len(gone) :]
    assert sum(file.size_bytes for file in left) <= size_bytes // 2
    assert sum(file.size_bytes for file in [gone[-1], *left]) > size_bytes // 2, "not one too many"


async def test_old_files_go_by_days_and_their_folders_too(
    disk: SimDisk, autojump_clock: trio.testing.MockClock
) -> None:
    for boot in range(1, 5):
        async with running(disk, boot, start_us=boot * DAY_US, retention_days=2):
            pass
    assert disk.listdir(f"{ROOT}/v=1") == ["dt=1970-01-03", "dt=1970-01-04", "dt=1970-01-05"]
    async with running(disk, 5, start_us=40 * DAY_US, roll_interval_s=1.0) as sink:
        emit(sink, 1)
        await trio.sleep(20)
    assert disk.listdir(f"{ROOT}/v=1") == ["dt=1970-02-10"]
    expired = [each.event for each in read_events(disk, ROOT) if each.kind == "EventFilesExpired"]
    assert [event.files for event in expired if isinstance(event, EventFilesExpired)] == [3]


def test_the_newest_file_stays_whatever_the_retention() -> None:
    disk = SimDisk(random.Random(1))
    file = EventFile(boot=1, start_seq=1, folder=f"{ROOT}/v=1/dt=1970-01-01/node=n0", size_bytes=9)
    gone = event_files.expire(disk, [file], bytes_max=0, first_date="2020-01-01", count_max=9)
    assert gone == []


def test_a_damaged_published_file_is_told(disk: SimDisk) -> None:
    file = EventFile(boot=1, start_seq=1, folder=f"{ROOT}/v=1/dt=1970-01-01/node=n0")
    disk.mkdir(file.folder)
    disk.open(file.path, "x").pwrite(gzip.compress(b"{}\n")[:-1], 0)
    with pytest.raises(EventFormatError, match="damaged at byte 0"):
        list(read_events(disk, ROOT))


def test_summaries_tell_holes_doubles_and_disorder() -> None:
    def logged(seq: int, event: object) -> LoggedEvent:
        return LoggedEvent(
            node="n0", boot=1, seq=seq, path="/n0", incarnation=0, ts_us=0, event=event
        )

    other = ActorRestarted(restarts=1)
    events = [logged(1, STARTED), logged(3, other), logged(3, other), logged(4, STARTED)]
    (boot,) = summarize(events)
    assert boot.problems == (
        "seq 3 after 3",
        "NodeStarted is seq 4",
        "seq 2 to 2 are missing",
    )


def test_nobody_has_no_events(disk: SimDisk) -> None:
    assert nodes(disk, ROOT) == []
    assert summarize(read_events(disk, ROOT)) == ()


def test_a_file_of_very_many_members_is_read() -> None:
    """A quiet node writes up to five small members a second."""
    member = event_files.compress([b"a line\n"])
    members, whole_bytes = event_files.decompress(member * 200_000 + member[:-1])
    assert members == [b"a line\n"] * 200_000
    assert whole_bytes == 200_000 * len(member)


@pytest.mark.parametrize("size_bytes", [0, 1, 4095, 4096, 4097, 1 << 20])
def test_members_of_any_size_are_read(size_bytes: int) -> None:
    content = random.Random(1).randbytes(size_bytes)
    member = event_files.compress([content])
    assert event_files.decompress(member * 2) == ([content] * 2, 2 * len(member))
    assert event_files.decompress(member + member[:-1]) == ([content], len(member))


def test_a_member_that_unpacks_to_more_than_ours_do_is_damage() -> None:
    most = event_files.MEMBER_BYTES_MAX
    assert event_files.decompress(event_files.compress([bytes(most - 1)]))[0] == [bytes(most - 1)]
    assert event_files.decompress(event_files.compress([bytes(most + 1)])) == ([], 0)
