"""Consume queues, index and small files as plain classes: edges and damage."""

import datetime
import itertools
import pathlib
import random
import shutil
from typing import Any

import pytest
from storage_kit import GOLDEN_SEGMENT, finish, golden_copy, record
from store_kit import ROOT, sim_disk, small_group

from actors.env.local_disk import LocalDisk
from actors.env.protocols import Env
from actors.errors import ConfigError, CorruptLog
from actors.sim.disk import EPOCH_MS, SimDisk
from actors.storage import expiry, opening
from actors.storage.commit_log import CommitLog
from actors.storage.consume_queue import ConsumeQueues, QueueGap, is_safe_topic, scan_queue
from actors.storage.derived_files import DerivedFiles, adopt
from actors.storage.dispatch_state import DispatchState
from actors.storage.index_files import IndexFiles, local_name
from actors.storage.layout import StoreLayout
from actors.storage.opening import close_store, open_store
from actors.storage.small_files import read_checkpoint, write_checkpoint
from actors.storage.stepping import stepped
from wire.commitlog import Checkpoint, RecordHead, scan_heads

LAYOUT = StoreLayout(ROOT)
FOLDER = LAYOUT.consume_queue
FILE = 100  # five units


def head(number: int, offset: int, *, keys: str = "", topic: str = "t", ts: int = 5) -> RecordHead:
    return RecordHead(offset, 10, topic, 0, number, 0, ts, 7, keys, "")


def queues(disk: SimDisk) -> ConsumeQueues:
    return ConsumeQueues(disk, FOLDER, FILE)


def filled(disk: SimDisk, count: int) -> ConsumeQueues:
    made = queues(disk)
    made.put("t", 0, [head(number, 10 * number) for number in range(count)])
    return made


@pytest.mark.parametrize(
    ("topic", "safe"),
    [
        ("orders", True),
        ("%RETRY%group-1_x|y", True),
        ("\u00e4\u00f6", True),
        ("t" * 255, True),
        ("t" * 256, False),
        ("\u20ac" * 86, False),
        ("", False),
        (".", False),
        ("..", False),
        ("a/b", False),
        ("a\0b", False),
        ("a\nb", False),
        ("a\ufffd", False),
    ],
)
def test_safe_topics(topic: str, safe: bool) -> None:
    assert is_safe_topic(topic) is safe


def test_units_cross_files_and_repeats_are_left_out() -> None:
    disk = sim_disk()
    made = filled(disk, 12)
    made.put("t", 0, [head(number, 10 * number) for number in range(9, 14)])
    assert made.next_offset("t", 0) == 14
    assert [u[0] for u in made.units("t", 0, 3, 100, 0)] == [30, 40]
    assert [u[0] for u in made.units("t", 0, 5, 100, 0)] == [50, 60, 70, 80, 90]
    assert disk.listdir(f"{FOLDER}/t/0") == [f"{base:020d}" for base in (0, 100, 200)]
    assert len(made.take_dirty()) == 3
    assert made.end_bytes == 140
    assert made.min_offset("t", 0, 75) == 8
    assert made.min_offset("t", 0, 1000) == 14
    assert made.trim(75) == 1
    assert made.min_offset("t", 0, 0) == 5
    assert made.trim(10_000) == 1  # the last file stays
    made.close()


@pytest.mark.checklist(44)
@pytest.mark.parametrize("end", [0, 5, 45, 50, 51, 99, 110, 119, 200])
def test_recovery_cuts_units_of_records_that_are_gone(end: int) -> None:
    disk = sim_disk()
    filled(disk, 12).close()
    again = queues(disk)
    assert finish(again.recover(end)) is False
    expected = min(12, -(-end // 10))
    assert again.next_offset("t", 0) == expected
    assert len(again) == (expected > 0)
    if expected:
        assert finish(again.recover(end)) is False
        files = disk.listdir(f"{FOLDER}/t/0")
        raw = b"".join(disk.open(f"{FOLDER}/t/0/{name}", "r").pread(0, FILE) for name in files)
        assert not any(raw[20 * expected :])
    again.put("t", 0, [head(number, 10 * number) for number in range(15)])
    assert again.next_offset("t", 0) == 15


def test_a_lost_unit_ends_the_queue_there() -> None:
    disk = sim_disk()
    filled(disk, 12).close()
    disk.open(f"{FOLDER}/t/0/{100:020d}", "w").pwrite(bytes(20), 40)
    again = queues(disk)
    finish(again.recover(1000))
    assert again.next_offset("t", 0) == 7
    with pytest.raises(QueueGap, match="t/0: unit 7 is missing before 9"):
        again.put("t", 0, [head(9, 90)])
    again.drop("t", 0)
    again.put("t", 0, [head(number, 10 * number) for number in range(12)])
    assert again.next_offset("t", 0) == 12


@pytest.mark.parametrize("kind", ["short", "hole", "off the grid"])
def test_files_that_do_not_fit_mean_a_rebuild(kind: str) -> None:
    disk = sim_disk()
    filled(disk, 12).close()
    match kind:
        case "short":
            disk.open(f"{FOLDER}/t/0/{100:020d}", "w").resize(40)
        case "hole":
            disk.unlink(f"{FOLDER}/t/0/{100:020d}")
        case _:
            disk.rename(f"{FOLDER}/t/0/{0:020d}", f"{FOLDER}/t/0/{7:020d}")
    again = queues(disk)
    assert finish(again.recover(1000)) is True
    assert len(again) == 0
    assert not disk.exists(f"{FOLDER}/t/0")


def test_an_empty_last_file_is_removed() -> None:
    disk = sim_disk()
    filled(disk, 10).close()
    disk.open(f"{FOLDER}/t/0/{200:020d}", "x")
    again = queues(disk)
    assert finish(again.recover(1000)) is False
    again.put("t", 0, [head(10, 100)])
    assert again.next_offset("t", 0) == 11


def test_a_large_gap_begins_anew_in_its_file() -> None:
    disk = sim_disk()
    made = filled(disk, 3)
    made.drop("t", 0)
    made.put("t", 0, [head(0, 0), head(1, 10), head(1001, 20)])
    assert disk.listdir(f"{FOLDER}/t/0") == [f"{20_000:020d}"]
    assert made.min_offset("t", 0, 0) == 1001
    assert made.next_offset("t", 0) == 1002


def test_scanning_reads_only_and_limits() -> None:
    disk = sim_disk()
    filled(disk, 12).close()
    before = disk.listdir(f"{FOLDER}/t/0")
    found = scan_queue(disk, f"{FOLDER}/t/0", FILE, 35)
    assert found is not None
    assert (found.next_offset, found.end_bytes) == (4, 40)
    assert disk.listdir(f"{FOLDER}/t/0") == before
    nothing = scan_queue(disk, f"{FOLDER}/no/0", FILE, 35)
    assert nothing is not None
    assert nothing.end_bytes == -1


# ---- index ----


def index(disk: SimDisk, units: int = 6) -> IndexFiles:
    return IndexFiles(disk, LAYOUT.index, 4, units, lambda: EPOCH_MS)


def state_of(made: IndexFiles) -> DispatchState:
    name, header = made.newest()
    return DispatchState(
        dispatched_bytes=0,
        seen_bytes=0,
        queue_count=0,
        index_name=name,
        index_units_next=header.units_next,
        index_slots_used=header.slots_used,
        index_end_ts=header.end_ts,
        index_end_offset=header.end_offset,
    )


def test_the_same_record_twice_adds_nothing() -> None:
    disk = sim_disk()
    made = index(disk)
    disk.mkdir(LAYOUT.index)
    heads = [head(n, 10 * n, keys=f"a{n} b{n} same") for n in range(5)]
    made.put(heads[:3])
    made.put(heads[1:])
    made.put([heads[-1]])
    assert len(made.find("t", "same", 100)) == 5
    assert made.find("t", "same", 2) == (40, 30)
    assert made.end_offset == 40
    assert made.full_end_ts == 5


@pytest.mark.parametrize("kept", range(6))
def test_cutting_the_log_cuts_the_index(kept: int) -> None:
    disk = sim_disk()
    made = index(disk)
    disk.mkdir(LAYOUT.index)
    heads = [head(n, 10 * n, keys=f"a{n} same") for n in range(5)]
    made.put(heads)
    finish(made.cut(10 * kept))
    assert made.find("t", "same", 100) == tuple(10 * n for n in reversed(range(kept)))
    made.put(heads)
    assert made.find("t", "same", 100) == (40, 30, 20, 10, 0)


def test_a_missing_index_file_means_a_rebuild() -> None:
    disk = sim_disk()
    made = index(disk)
    disk.mkdir(LAYOUT.index)
    made.put([head(n, 10 * n, keys=f"a{n}") for n in range(12)])
    state = state_of(made)
    made.close()
    disk.unlink(f"{LAYOUT.index}/{disk.listdir(LAYOUT.index)[-1]}")
    again = index(disk)
    assert finish(again.recover(state)) is True
    assert disk.listdir(LAYOUT.index) == []


def test_later_index_files_are_not_trusted_and_empty_ones_removed() -> None:
    disk = sim_disk()
    made = index(disk)
    disk.mkdir(LAYOUT.index)
    made.put([head(n, 10 * n, keys=f"a{n}") for n in range(3)])
    state = state_of(made)
    made.put([head(n, 10 * n, keys=f"a{n}") for n in range(3, 12)])
    made.close()
    disk.open(f"{LAYOUT.index}/{99991231235959999}", "x")
    disk.open(f"{LAYOUT.index}/notes", "x")
    again = index(disk)
    assert finish(again.recover(state)) is False
    assert len(disk.listdir(LAYOUT.index)) == 2
    assert again.find("t", "a2", 9) == (20,)
    assert again.find("t", "a3", 9) == ()


def test_index_names_are_local_times() -> None:
    now = datetime.datetime.fromtimestamp(EPOCH_MS / 1000)
    assert str(local_name(EPOCH_MS + 42)) == now.strftime("%Y%m%d%H%M%S") + "042"


# ---- the rest ----


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
    import trio

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
    close_store(disk, LAYOUT, store.log, store.mark, (), ordered=True)
    with pytest.raises(ConfigError, match="segment_bytes: expected 4096"):
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
    files.put(heads)
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


@pytest.mark.parametrize("steps", range(4))
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
    assert at == (4 * size if steps else len(data))
    files.put(scan_heads(data, at, physical_offset=at)[0])
    assert files.queues.next_offset("t", 0) == 10
    for number in range(10):
        assert files.index.find("t", f"k{number}", 9) == (number * size,)
