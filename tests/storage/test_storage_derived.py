"""Consume queues and index as plain classes: edges and damage."""

import pytest
from derived_kit import LAYOUT, head
from storage_kit import finish
from store_kit import sim_disk

from actors.sim.disk import SimDisk
from actors.storage.consume_queue import ConsumeQueues, QueueGap, is_safe_topic
from actors.storage.queue_files import scan_queue

FOLDER = LAYOUT.consume_queue

FILE = 100  # five units


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
