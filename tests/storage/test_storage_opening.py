"""Opening, checkpoint, expiry rules and derived files as plain classes: edges and damage."""

import itertools
import pathlib
import random
import shutil
from typing import Any

import pytest
import trio
from storage_kit import GOLDEN_SEGMENT, finish, golden_copy, record
from store_kit import ROOT, sim_disk, small_group

from actors.env.local_disk import LocalDisk
from actors.env.protocols import Env
from actors.errors import ConfigError, CorruptLog
from actors.sim.disk import EPOCH_MS, SimDisk
from actors.storage.commitlog import opening
from actors.storage.commitlog.opening import close_store, open_store
from actors.storage.derived.adopting import adopt
from actors.storage.derived.derived_files import DerivedFiles
from actors.storage.derived.dispatch_state import DispatchState
from actors.storage.derived.small_files import read_checkpoint, write_checkpoint
from actors.storage.files.stepping import stepped
from actors.storage.layout import StoreLayout
from actors.storage.log import expiry
from actors.storage.log.commit_log import CommitLog
from wire.files.commit_log import Checkpoint, scan_heads

LAYOUT = StoreLayout(ROOT)


def test_checkpoint_round_trip_and_damage() -> None:
    disk = sim_disk()
    disk.mkdir(ROOT)
    assert read_checkpoint(disk, LAYOUT.checkpoint) == Checkpoint()
    for number in (1, 2):
        write_checkpoint(disk, LAYOUT.checkpoint, Checkpoint(log_ts=number, queue_ts=5))
        assert read_checkpoint(disk, LAYOUT.checkpoint) == Checkpoint(log_ts=number, queue_ts=5)
    disk.open(LAYOUT.checkpoint, "w").resize(10)
    assert read_checkpoint(disk, LAYOUT.checkpoint) == Checkpoint()


@pytest.mark.checklist(46)
@pytest.mark.parametrize(
    ("used", "hour", "age_h", "expected"),
    [
        (0.5, 4, 72, "age"),
        (0.5, 4, 71.9, None),
        (0.5, 5, 100, None),
        (0.75, 5, 100, None),
        (0.76, 5, 100, "age"),
        (0.76, 5, 1, None),
        (0.85, 5, 1, None),
        (0.86, 5, 1, "usage"),
    ],
)
def test_when_the_oldest_file_goes(used: float, hour: int, age_h: float, expected: Any) -> None:
    rules = expiry.Expiry.of(small_group())
    reason = rules.reason_to_delete(
        used=used, local_hour=hour, now_ms=EPOCH_MS, modified_ms=EPOCH_MS - int(age_h * 3_600_000)
    )
    assert reason == expected
    assert [rules.is_full(each) for each in (0.89, 0.90, 0.91)] == [False, False, True]


async def test_stepped_work_yields_its_result_and_is_closed_when_cancelled(
    autojump_clock: Any,
) -> None:
    closed = []

    def work() -> Any:
        try:
            for _ in range(10):
                yield
        finally:
            closed.append(True)
        return 7

    assert await stepped(work()) == 7
    with trio.CancelScope() as scope:
        scope.cancel()
        await stepped(work())
    assert scope.cancelled_caught
    assert closed == [True, True]


def opened(disk: SimDisk, **changes: Any) -> opening.OpenedStore:
    group = small_group(**changes)
    return finish(open_store(disk, LAYOUT, group, is_master=True, owner="n0"))


def test_next_offsets_come_from_the_log_where_queues_are_missing() -> None:
    disk = sim_disk()
    store = opened(disk)
    at = 0
    for number in range(30):
        data = record(at, b"x", topic="tu"[number % 2], queue_offset=number // 2)
        store.log.append(data)
        at += len(data)
    disk.kill()
    again = opened(disk)
    assert again.next_offsets == {("t", 0): 15, ("u", 0): 15}
    assert not again.was_clean
    disk.kill()
    assert opened(disk, compat="upstream").next_offsets == {}, (
        "upstream asks the queues alone (T22)"
    )


def test_next_offsets_are_not_guessed_from_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = sim_disk()
    store = opened(disk)
    first = record(0, b"x")
    store.log.append(first)
    log = CommitLog.load(disk, LAYOUT.commit_log, 4096)
    log.set_end(len(first) + 50)
    with pytest.raises(CorruptLog, match=f"offset {len(first)}: no record begins there"):
        finish(opening.next_offsets(disk, LAYOUT, small_group(), log, None))


def test_opening_with_another_segment_size_is_a_configuration_error() -> None:
    disk = sim_disk()
    store = opened(disk)
    store.log.append(record(0, b"x"))
    close_store(disk, LAYOUT, store.log, store.mark, (), synced_bytes=0)
    with pytest.raises(ConfigError, match="cut short, or segment_bytes was changed from 4096 to"):
        opened(disk, segment_bytes=8192)


@pytest.mark.real_io
@pytest.mark.parametrize("missing", ["consumequeue", "index", "index header", "queue file"])
def test_a_store_is_adopted_only_whole(tmp_path: pathlib.Path, missing: str) -> None:
    root = golden_copy("5.3.3", "master", tmp_path)
    layout, disk = StoreLayout(str(root)), LocalDisk()
    match missing:
        case "index header":
            (path,) = (root / "index").iterdir()
            path.write_bytes(b"short")
        case "queue file":
            (root / "consumequeue/GoldenA/0/00000000000000000000").write_bytes(b"short")
        case _:
            shutil.rmtree(root / missing)
    finish(adopt(disk, layout, small_group(segment_bytes=GOLDEN_SEGMENT), 1 << 62))
    assert DispatchState.read(disk, layout.dispatched) is None


def flushed_files(disk: SimDisk) -> tuple[Env, int, bytes]:
    """Queues and index of ten records, flushed; their size and the log."""
    disk.mkdir(ROOT)
    env = Env(
        network=None,  # type: ignore[arg-type]
        disk=disk,
        rng=random.Random(1),
        wall_clock_ms=lambda: EPOCH_MS,
        events=lambda path, incarnation, event: None,
    )
    data = bytearray()
    for number in range(10):
        data += record(len(data), b"x", queue_offset=number, properties={"KEYS": f"k{number}"})
    size = len(data) // 10
    heads, _ = scan_heads(bytes(data), physical_offset=0)
    files = DerivedFiles(env=env, layout=LAYOUT, group=small_group())
    assert finish(files.recover(0, 0)) == 0
    finish(files.put(heads))
    flush = files.begin_flush(len(data), len(data), len(data))
    assert flush is not None
    files.end_flush(flush)
    assert files.begin_flush(len(data), len(data), len(data)) is None
    files.close()
    return env, size, bytes(data)


def test_derived_files_of_a_log_that_was_cut_below_them() -> None:
    env, size, _ = flushed_files(sim_disk())
    again = DerivedFiles(env=env, layout=LAYOUT, group=small_group())
    assert finish(again.recover(0, 4 * size)) == 4 * size
    assert again.queues.next_offset("t", 0) == 4
    assert again.index.find("t", "k3", 9) == (3 * size,)
    assert again.index.find("t", "k4", 9) == ()
    # The log grows again, but a crash comes before the next flush: the cut units are still missing.
    third = DerivedFiles(env=env, layout=LAYOUT, group=small_group())
    assert finish(third.recover(0, 9 * size)) == 4 * size
    fourth = DerivedFiles(env=env, layout=LAYOUT, group=small_group())
    assert finish(fourth.recover(8 * size, 9 * size)) == 8 * size


@pytest.mark.parametrize("steps", range(6))
def test_a_recovery_that_dies_while_it_cuts(steps: int) -> None:
    """The log then grows to where it was: what may have been cut is derived again."""
    disk = sim_disk()
    env, size, data = flushed_files(disk)
    work = DerivedFiles(env=env, layout=LAYOUT, group=small_group()).recover(0, 4 * size)
    for _ in itertools.islice(work, steps):
        pass
    disk.kill()
    files = DerivedFiles(env=env, layout=LAYOUT, group=small_group())
    at = finish(files.recover(0, len(data)))
    assert at == (4 * size if steps > 2 else len(data))  # it notes so before it cuts
    finish(files.put(scan_heads(data, at, physical_offset=at)[0]))
    assert files.queues.next_offset("t", 0) == 10
    for number in range(10):
        assert files.index.find("t", f"k{number}", 9) == (number * size,)


def test_a_checkpoint_from_the_future_stamps_no_record() -> None:
    disk = sim_disk()
    store = opened(disk)
    store.log.append(record(0, b"x", ts=EPOCH_MS))
    disk.kill()
    write_checkpoint(disk, LAYOUT.checkpoint, Checkpoint(log_ts=1 << 60, queue_ts=1 << 60))
    assert opened(disk).last_store_ts == EPOCH_MS


def test_a_truncation_that_cannot_be_read_says_what_to_do() -> None:
    disk = sim_disk()
    data = record(0, b"x")
    opened(disk).log.append(data)
    disk.kill()
    disk.open(LAYOUT.truncating, "x").pwrite(b"x" * 1024, 0)
    with pytest.raises(CorruptLog, match=r"truncating: it cannot be read.* remove the file"):
        opened(disk)
    disk.unlink(LAYOUT.truncating)
    assert opened(disk).log.written_bytes == len(data)
