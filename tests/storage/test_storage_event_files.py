"""What the event log deletes when, and what its reader says about damage and holes."""

import gzip
import random

import pytest
import trio
import trio.testing
from event_log_kit import DAY_US, ROOT, STARTED, emit, running

from actors.config import bounds
from actors.events.codec import EventFormatError, LoggedEvent, decode_line
from actors.events.node import EventFilesExpired
from actors.events.runtime import ActorRestarted
from actors.events.sink import EventSink
from actors.sim.disk import SimDisk
from actors.storage.node import event_files
from actors.storage.node.event_files import EventFile
from actors.storage.node.event_reader import nodes, read_events, summarize


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
    rule = {"bytes_max": size_bytes // 2, "first_date": "1970-01-01"}
    gone = event_files.expired(files, count_max=2, **rule)
    assert gone == files[:2]
    gone += event_files.expired(files[2:], count_max=100, **rule)
    event_files.delete(disk, gone)
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
    assert all(isinstance(event, EventFilesExpired) for event in expired)
    found = [(event.files, event.oldest_boot, event.oldest_seq) for event in expired]
    assert found == [(2, 4, 1), (1, 5, 1)], "the newest of the old ones stayed until there was one"


RETENTION = {"retention_bytes": bounds.EVENT_BYTES_MIN, "roll_interval_s": 1.0}


class WatchedDisk(SimDisk):
    """Of event files that are deleted, it asks whether a published event says so.

    Attributes:
        gone: the boot and first seq of each.
        unreported: those of which none does.
        flooded: a sink that is filled up each time that a file is published.
    """

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.gone: list[tuple[int, int]] = []
        self.unreported: list[tuple[int, int]] = []
        self.flooded: EventSink | None = None

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        if self.flooded is not None:
            emit(self.flooded, 1000)

    def unlink(self, path: str) -> None:
        files = event_files.published(self, ROOT, "n0")
        for file in files:
            if file.path == path:
                self.gone.append((file.boot, file.start_seq))
                if all(self.gone[-1] >= each for each in self.reported(files)):
                    self.unreported.append(self.gone[-1])
        super().unlink(path)

    def reported(self, files: list[EventFile]) -> list[tuple[int, int]]:
        """The oldest events left, by these files."""
        found = []
        for file in files:
            members, _ = event_files.decompress(event_files.read_all(self, file.path))
            events = [decode_line(line).event for line in b"".join(members).splitlines()]
            expired = [event for event in events if isinstance(event, EventFilesExpired)]
            found += [(event.oldest_boot, event.oldest_seq) for event in expired]
        return found


def published_bytes(disk: SimDisk) -> int:
    return sum(file.size_bytes for file in event_files.published(disk, ROOT, "n0"))


async def test_no_file_goes_before_a_published_event_says_so(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Who finds it gone, finds the reason in what is there."""
    disk = WatchedDisk()
    async with running(disk, **RETENTION) as sink:
        for _ in range(30):
            emit(sink, 1000)
            await trio.sleep(1.5)
        await trio.sleep(60)
        assert published_bytes(disk) <= bounds.EVENT_BYTES_MIN
    assert len(disk.gone) > 20
    assert disk.unreported == []


async def test_nor_does_one_of_a_boot_that_was_killed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Whether that had said so already or not, the next one says it."""
    disk = WatchedDisk()
    for boot in range(1, 9):
        with pytest.raises(ExceptionGroup):
            async with running(disk, boot, policy="stop", **RETENTION) as sink:
                for _ in range(boot % 3 + 1):
                    emit(sink, 1000)
                    await trio.sleep(1.5)
                disk.kill()
                emit(sink, 1)
    assert {boot for boot, _ in disk.gone} >= {1, 2, 3, 4}
    assert disk.unreported == []


async def test_a_file_whose_end_found_no_room_to_be_reported_stays(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk = WatchedDisk()
    async with running(disk, pending_max_count=1000, **RETENTION) as sink:
        disk.flooded = sink
        emit(sink, 1000)
        await trio.sleep(20)
        assert sink.dropped
        assert published_bytes(disk) > 2 * bounds.EVENT_BYTES_MIN
        assert disk.gone == []
        disk.flooded = None
        await trio.sleep(20)
        assert published_bytes(disk) <= bounds.EVENT_BYTES_MIN
    assert disk.unreported == []


def test_the_newest_file_stays_whatever_the_retention() -> None:
    file = EventFile(boot=1, start_seq=1, folder=f"{ROOT}/v=1/dt=1970-01-01/node=n0", size_bytes=9)
    gone = event_files.expired([file], bytes_max=0, first_date="2020-01-01", count_max=9)
    assert gone == []


def test_a_damaged_published_file_is_reported(disk: SimDisk) -> None:
    file = EventFile(boot=1, start_seq=1, folder=f"{ROOT}/v=1/dt=1970-01-01/node=n0")
    disk.mkdir(file.folder)
    disk.open(file.path, "x").pwrite(gzip.compress(b"{}\n")[:-1], 0)
    with pytest.raises(EventFormatError, match="damaged at byte 0"):
        list(read_events(disk, ROOT))


def test_summaries_show_holes_doubles_and_disorder() -> None:
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


def test_all_members_of_a_file_have_one_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    member = event_files.compress([bytes(1000)])
    monkeypatch.setattr(event_files, "FILE_BYTES_MAX", 2999)
    assert event_files.decompress(member * 3) == ([bytes(1000)] * 2, 2 * len(member))
