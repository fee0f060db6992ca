"""Consume queues and index as plain classes: edges and damage."""

import errno
import struct
from pathlib import Path

import pytest
from derived_kit import LAYOUT, derived_on, head
from storage_kit import finish
from store_kit import sim_disk

from actors.env.local_disk import LocalDisk, LocalFile
from actors.sim.disk import SimDisk
from actors.storage.derived.consume_queue import ConsumeQueues
from actors.storage.derived.queue_files import (
    PROBE_UNITS,
    QUEUES_PER_STEP,
    QueueGap,
    first_kept,
    is_safe_topic,
    list_queues,
    scan_queue,
)
from wire.files.consume_queue import FILLER_SIZE, encode_unit

FOLDER = LAYOUT.consume_queue

FILE = 100  # five units


def queues(disk: SimDisk) -> ConsumeQueues:
    return ConsumeQueues(disk, FOLDER, FILE)


def recovered(disk: SimDisk, again: ConsumeQueues, end: int) -> bool:
    return finish(again.recover(list_queues(disk, FOLDER), end))


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
    assert [u[0] for u in made.units("t", 0, 3, 100)] == [30, 40]
    assert [u[0] for u in made.units("t", 0, 5, 100)] == [50, 60, 70, 80, 90]
    assert disk.listdir(f"{FOLDER}/t/0") == [f"{base:020d}" for base in (0, 100, 200)]
    assert len([path for path in made.take_dirty() if disk.stat(path).kind == "file"]) == 3
    assert made.end_bytes == 140
    assert made.min_offset("t", 0, 75) == 8
    assert made.min_offset("t", 0, 1000) == 14
    assert finish(made.trim(75)) == 1
    assert made.min_offset("t", 0, 0) == 5
    assert finish(made.trim(10_000)) == 1  # the last file stays
    made.close()


@pytest.mark.parametrize("wrong", [(0, 0), (1 << 60, 10)])
@pytest.mark.parametrize("unit", [3, 4, 5, 6])
def test_a_file_goes_though_a_unit_beside_its_end_is_damaged(
    unit: int, wrong: tuple[int, int]
) -> None:
    """What its record said has gone with it: no scrub can write it again."""
    disk = sim_disk()
    made = filled(disk, 17)
    where = f"{FOLDER}/t/0/{unit // 5 * FILE:020d}"
    disk.open(where, "w").pwrite(struct.pack(">qiq", *wrong, 0), unit % 5 * 20)
    assert finish(made.trim(110)) == 2
    assert made.min_offset("t", 0, 110) == 11
    made.close()


@pytest.mark.parametrize("unit", [9, 10])
def test_a_file_is_not_over_as_one_damaged_unit_says(unit: int) -> None:
    disk = sim_disk()
    made = filled(disk, 17)
    where = f"{FOLDER}/t/0/{unit // 5 * FILE:020d}"
    for wrong in (0, 5, 69):
        disk.open(where, "w").pwrite(struct.pack(">qiq", wrong, 10, 0), unit % 5 * 20)
        assert finish(made.trim(70)) in (0, 1)
        assert made.by_key["t", 0].bases[0] == FILE
    made.close()


def test_a_file_before_a_gap_stays() -> None:
    disk = sim_disk()
    made = filled(disk, 10)
    made.drop("t", 0)
    made.put("t", 0, [head(number, 10 * number) for number in (*range(10), *range(13, 17))])
    assert made.units("t", 0, 10, 5)[0] == (0, FILLER_SIZE, 0)
    assert finish(made.trim(70)) == 1
    assert made.by_key["t", 0].bases == [FILE, 2 * FILE, 3 * FILE]
    made.close()


@pytest.mark.checklist(44)
@pytest.mark.parametrize("end", [0, 5, 45, 50, 51, 99, 110, 119, 200])
def test_recovery_cuts_units_of_records_that_are_gone(end: int) -> None:
    disk = sim_disk()
    filled(disk, 12).close()
    again = queues(disk)
    assert recovered(disk, again, end) is False
    expected = min(12, -(-end // 10))
    assert again.next_offset("t", 0) == expected
    if expected:
        assert recovered(disk, again, end) is False
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
    recovered(disk, again, 1000)
    assert again.next_offset("t", 0) == 7
    with pytest.raises(QueueGap, match="t/0: unit 7 is missing before 9"):
        again.put("t", 0, [head(9, 90)])
    again.drop("t", 0)
    again.put("t", 0, [head(number, 10 * number) for number in range(12)])
    assert again.next_offset("t", 0) == 12


@pytest.mark.parametrize("kind", ["bit", "page"])
def test_a_queue_whose_only_unit_was_damaged_is_built_anew(kind: str) -> None:
    """Whether it had a unit, a start cannot know if the last flush counted none."""
    disk = sim_disk()
    filled(disk, 1).close()
    damage = b"\1" if kind == "bit" else bytes(FILE)
    disk.open(f"{FOLDER}/t/0/{0:020d}", "w").pwrite(damage, 0)
    for _ in range(2):  # the second start knows it, too
        again = queues(disk)
        assert recovered(disk, again, 1000) is False
        assert again.next_offset("t", 0) == 0
        with pytest.raises(QueueGap, match="t/0: unit 0 is missing before 1"):
            again.put("t", 0, [head(1, 10)])
        again.close()
    again.drop("t", 0)
    again.put("t", 0, [head(number, 10 * number) for number in range(3)])
    assert again.next_offset("t", 0) == 3


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
    assert recovered(disk, again, 1000) is True
    assert len(again) == 0
    assert not disk.exists(f"{FOLDER}/t/0")


def test_an_empty_last_file_is_removed() -> None:
    disk = sim_disk()
    filled(disk, 10).close()
    disk.open(f"{FOLDER}/t/0/{200:020d}", "x")
    again = queues(disk)
    assert recovered(disk, again, 1000) is False
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


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("count", [1, 255, 256, 257, 511, 777, 1499, 1500, 1501, 2999, 3000, 3100])
def test_the_end_is_found_without_reading_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, sparse: bool
) -> None:
    """Also where the rest of the file has no hole, or holds units of later records."""
    disk, size, folder = LocalDisk(), 20 * 1500, str(tmp_path / "consumequeue")
    made = ConsumeQueues(disk, folder, size)
    made.put("t", 0, [head(number, 10 * number) for number in range(3100)])
    made.close()
    reads: list[int] = []
    pread = LocalFile.pread

    def counted(file: LocalFile, at: int, size: int) -> bytes:
        reads.append(size)
        return pread(file, at, size)

    monkeypatch.setattr(LocalFile, "pread", counted)
    if not sparse:
        monkeypatch.setattr(LocalFile, "data_from", lambda file, at: (at, size))
    found = scan_queue(disk, f"{folder}/t/0", size, 10 * count)
    assert found is not None
    assert (found.next_offset, found.end_bytes) == (count, 10 * count)
    assert sum(reads) <= 8 * 20 * PROBE_UNITS


def test_fillers_end_where_the_newest_record_does() -> None:
    """More of them than are looked at in one go."""
    disk = sim_disk()
    made = ConsumeQueues(disk, FOLDER, 20 * 2000)
    made.put("t", 0, [head(900, 5)])
    made.close()
    found = scan_queue(disk, f"{FOLDER}/t/0", 20 * 2000, 100)
    assert found is not None
    assert (found.next_offset, found.end_bytes) == (901, 15)
    nothing = scan_queue(disk, f"{FOLDER}/t/0", 20 * 2000, 5)
    assert nothing is not None
    assert nothing.end_bytes == -1


def test_a_batch_for_many_new_topics_syncs_nothing_and_yields() -> None:
    """What it made is handed to the flush: files, and the folders that hold the new names."""
    disk = sim_disk()
    disk.faults.fail("sync", errno.EIO, times=1000)
    derived = derived_on(disk)
    heads = [head(0, 10 * number, topic=f"t{number:03}") for number in range(100)]
    assert sum(1 for _ in derived.put(heads)) >= 100 // QUEUES_PER_STEP
    assert derived.created_count == 100
    wanted = {FOLDER, *(f"{FOLDER}/t{number:03}" for number in range(100))}
    wanted |= {f"{FOLDER}/t{number:03}/0" for number in range(100)}
    wanted |= {f"{FOLDER}/t{number:03}/0/{0:020d}" for number in range(100)}
    assert wanted <= set(derived.queues.take_dirty())
    assert derived.created_count == 0


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


@pytest.mark.parametrize("count", [1, 3, 7, 300, 1000])
def test_one_damaged_unit_does_not_mislead_the_search_for_the_oldest_record(count: int) -> None:
    """Beside the unit itself nobody can know."""
    good = [100 * number for number in range(count)]
    step = max(1, count // 40)
    for boundary in range(0, count + 1, step):
        for damaged in range(0, count, step):
            for value in (0, 100 * count + 5):
                offsets = list(good)
                offsets[damaged] = value
                units = [encode_unit(offset, 50, 0) for offset in offsets]
                found = first_kept(
                    lambda first, most, units=units: b"".join(units[first : first + most]),  # type: ignore[misc]
                    0,
                    count,
                    100 * boundary,
                )
                is_near = -2 <= found - boundary <= 1 and abs(damaged - boundary) <= 2
                assert found == boundary or is_near
