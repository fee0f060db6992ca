"""Index files: recovery, cuts, damage, and what a crash leaves of them."""

import datetime
import errno

import attrs
import pytest
from derived_kit import LAYOUT, derived_on, head
from storage_kit import finish
from store_kit import ROOT, sim_disk

from actors.sim.disk import EPOCH_MS, SimDisk, SimFile
from actors.sim.disk.faults import Operation
from actors.storage.derived import index_files
from actors.storage.derived.dispatch_state import DispatchState
from actors.storage.derived.index_files import IndexDamaged, IndexFiles, local_name
from wire.files.index_file import index_key, key_hash, unit_position


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


def index_disk() -> SimDisk:
    disk = sim_disk()
    disk.mkdir(LAYOUT.index)
    return disk


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


@pytest.mark.parametrize("behind", [0, 1, 7, 8, 20])
def test_entries_behind_the_last_flush_are_read_in_chunks(
    behind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be twenty million of them: other actors get a turn after each chunk."""
    monkeypatch.setattr(index_files, "CHUNK_BYTES", 4 * 20)  # four entries
    disk = index_disk()
    made = index(disk, units=40)
    made.put([head(number, 10 * number, keys="k") for number in range(3)])
    state = state_of(made)
    made.put([head(number, 10 * number, keys="k") for number in range(3, 3 + behind)])
    made.close()
    again = index(disk, units=40)
    turns = sum(1 for _ in again.recover(state))
    assert turns >= 1 + behind // 4
    assert again.find("t", "k", 99) == (20, 10, 0)
    file = disk.open(f"{LAYOUT.index}/{again.newest()[0]}", "r")
    assert not any(file.pread(unit_position(4, 4), 20 * behind))


def test_entries_behind_the_last_flush_are_removed_in_chunks_the_last_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index_files, "CHUNK_BYTES", 4 * 20)
    disk = index_disk()
    made = index(disk, units=40)
    made.put([head(0, 0, keys="k")])
    state = state_of(made)
    made.put([head(number, 10 * number, keys="k") for number in range(1, 11)])
    made.close()
    written: list[tuple[int, int]] = []
    pwrite = SimFile.pwrite

    def seen(file: SimFile, data: bytes, offset: int) -> None:
        if not any(data) and len(data) > 4:
            written.append((offset, len(data)))
        pwrite(file, data, offset)

    monkeypatch.setattr(SimFile, "pwrite", seen)
    finish(index(disk, units=40).recover(state))
    first = unit_position(2, 4)
    assert written == [(first + 160, 40), (first + 80, 80), (first, 80)]


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


@pytest.mark.parametrize("ts", [-(2**63), -1, 2**63 - 1])
def test_records_of_any_store_time_are_indexed(ts: int) -> None:
    disk = index_disk()
    made = index(disk)
    made.put([head(number, 10 * number, keys="k", ts=ts) for number in range(3)])
    state = state_of(made)
    made.close()
    again = index(disk)
    assert finish(again.recover(state)) is False
    finish(again.cut(20))
    assert again.find("t", "k", 9) == (10, 0)


@pytest.mark.parametrize(
    ("at", "number"), [(16, -1), (24, -1), (32, -1), (36, -1), (36, 7), (36, 2**31 - 1)]
)
def test_a_damaged_index_header_is_reported(at: int, number: int) -> None:
    disk = index_disk()
    made = index(disk)
    made.put([head(0, 0, keys="k")])
    state, (name,) = state_of(made), disk.listdir(LAYOUT.index)
    made.close()
    width = 8 if at < 32 else 4
    disk.open(f"{LAYOUT.index}/{name}", "w").pwrite(number.to_bytes(width, signed=True), at)
    with pytest.raises(IndexDamaged):
        finish(index(disk).recover(state))


@pytest.mark.parametrize(
    "change",
    [{"index_units_next": 0}, {"index_units_next": 7}, {"index_end_offset": -1}],
)
def test_a_state_that_no_index_can_have_is_reported(change: dict[str, int]) -> None:
    disk = index_disk()
    made = index(disk)
    made.put([head(0, 0, keys="k")])
    with pytest.raises(IndexDamaged):
        finish(index(disk).recover(attrs.evolve(state_of(made), **change)))


@pytest.mark.parametrize("at", [4, 12])
def test_a_damaged_unit_at_the_cut_is_reported_and_never_found(at: int) -> None:
    disk = index_disk()
    made = index(disk)
    made.put([head(number, 10 * number, keys="k") for number in range(3)])
    unit_at = unit_position(2, 4) + at
    disk.open(f"{LAYOUT.index}/{made.newest()[0]}", "w").pwrite(b"\x80", unit_at)
    with pytest.raises(IndexDamaged):
        finish(made.cut(20))
    assert (10 in made.find("t", "k", 9)) == (at == 12)


def test_a_damaged_index_is_built_anew() -> None:
    disk = sim_disk()
    disk.mkdir(ROOT)
    path = ""
    for _ in range(2):
        derived = derived_on(disk)
        assert finish(derived.recover(0, 1000)) == 0  # all of the log is to be dispatched
        finish(derived.put([head(number, 10 * number, keys="k") for number in range(3)]))
        flush = derived.begin_flush(30, 30, 30)
        assert flush is not None
        derived.end_flush(flush)
        assert derived.index.find("t", "k", 9) == (20, 10, 0)
        path = f"{LAYOUT.index}/{derived.index.newest()[0]}"
        derived.close()
        disk.open(path, "w").pwrite(b"\xff", 36)


def test_a_crash_between_slots_and_header_breaks_no_chain() -> None:
    """The header is written last: slots may point at entries that it does not cover."""
    disk = sim_disk()
    made = index(disk)
    disk.mkdir(LAYOUT.index)
    made.put([head(n, 10 * n, keys="same") for n in range(3)])
    state = state_of(made)
    disk.faults.fail("write", errno.EIO, path_part="/index/", skip=2)  # the header's
    more = head(3, 30, keys="same")
    with pytest.raises(OSError, match="Input/output"):
        made.put([more])
    made.close()
    again = index(disk)
    assert finish(again.recover(state)) is False
    again.put([more])
    assert again.find("t", "same", 100) == (30, 20, 10, 0)


@pytest.mark.parametrize("seed", range(6))
def test_a_slot_that_was_written_in_part_breaks_no_chain(seed: int) -> None:
    """The slot says 5, the new entry is number 352: three of four bytes make it 261."""
    disk = sim_disk(seed)
    made = index(disk, units=1000)
    disk.mkdir(LAYOUT.index)
    keys = ["b"] * 4 + ["a"] + ["b"] * 346
    assert key_hash(index_key("t", "a")) % 4 != key_hash(index_key("t", "b")) % 4
    made.put([head(n, 10 * n, keys=key) for n, key in enumerate(keys)])
    state = state_of(made)
    disk.faults.shorten_write(path_part="/index/", skip=1)  # the slot's
    more = head(351, 3510, keys="a")
    with pytest.raises(OSError, match="wrote"):
        made.put([more])
    made.close()
    for _ in range(2):
        again = index(disk, units=1000)
        assert finish(again.recover(state)) is False
        assert again.find("t", "a", 100) == (40,)
        again.close()
    again = index(disk, units=1000)
    finish(again.recover(state))
    again.put([more])
    assert again.find("t", "a", 100) == (3510, 40)
    assert len(again.find("t", "b", 1000)) == 350


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_cut_that_was_interrupted_is_ended_by_the_next(operation: Operation) -> None:
    """What the last flush noted counts entries that the cut has made zero already."""
    interrupted = 0
    for skip in range(12):
        disk = sim_disk(skip)
        made = index(disk, units=1000)
        disk.mkdir(LAYOUT.index)
        made.put([head(n, 10 * n, keys="a" if n % 3 else "b") for n in range(300)])
        for path in made.take_dirty():
            disk.open(path, "w").sync()
        state = state_of(made)
        disk.faults.fail(operation, 5, path_part="/index/", skip=skip)
        try:
            finish(made.cut(1000))
        except OSError:
            interrupted += 1
        disk.faults.clear()
        made.close()
        disk.power_loss()
        again = index(disk, units=1000)
        assert finish(again.recover(state)) is False
        finish(again.cut(1000))
        expected = tuple(10 * n for n in range(99, -1, -1) if n % 3)
        assert again.find("t", "a", 1000) == expected, skip
        again.put([head(100, 1000, keys="a")])
        assert again.find("t", "a", 1000) == (1000, *expected), skip
        assert again.newest()[1].units_next == 102
    assert interrupted


def test_index_names_are_local_times() -> None:
    now = datetime.datetime.fromtimestamp(EPOCH_MS / 1000)
    assert str(local_name(EPOCH_MS + 42)) == now.strftime("%Y%m%d%H%M%S") + "042"
