"""Digests of a log's ranges on a simulated disk."""

from __future__ import annotations

import errno
import random

import pytest

from actors.sim.disk import SimDisk
from actors.storage.log.digests import ENTRY_BYTES, RANGE_BYTES, UNSAVED_MAX, Digests, digest_of

FOLDER = "/d/digests"
SEGMENT = 3 * RANGE_BYTES + 4096
"""Four ranges, the last one short."""


def opened(disk: SimDisk, low: int = 0, end: int = 2 * SEGMENT) -> Digests:
    return Digests.open(disk, FOLDER, SEGMENT, low, end)


def filled(disk: SimDisk) -> Digests:
    digests = opened(disk)
    at = 0
    while at < 2 * SEGMENT:
        start, at = digests.range_at(at)
        digests.put(start, start + 7)
    return digests


def test_ranges_tile_a_segment() -> None:
    digests = opened(SimDisk(random.Random(0)))
    assert digests.range_at(0) == (0, RANGE_BYTES)
    assert digests.range_at(SEGMENT - 1) == (3 * RANGE_BYTES, SEGMENT)
    assert digests.range_at(SEGMENT + RANGE_BYTES) == (
        SEGMENT + RANGE_BYTES,
        SEGMENT + 2 * RANGE_BYTES,
    )


def test_what_was_put_is_there_again_after_a_restart() -> None:
    disk = SimDisk(random.Random(0))
    digests = filled(disk)
    files = [f"{FOLDER}/{base:020d}" for base in (0, SEGMENT)]
    assert sorted(digests.take_dirty()) == [FOLDER, *files]
    digests.close()
    again = opened(disk)
    assert again.get(SEGMENT + RANGE_BYTES) == SEGMENT + RANGE_BYTES + 7
    assert again.get(2 * SEGMENT) is None
    assert not again.is_dirty


def test_nothing_is_known_of_what_lies_behind_the_end() -> None:
    """The log was cut there, and may go on otherwise."""
    disk = SimDisk(random.Random(0))
    filled(disk).close()
    cut = opened(disk, end=SEGMENT - 1)
    assert cut.get(2 * RANGE_BYTES) is not None
    assert cut.get(3 * RANGE_BYTES) is None
    assert disk.listdir(FOLDER) == [f"{0:020d}"]
    cut.close()
    assert opened(disk, low=SEGMENT).get(0) is None
    assert disk.listdir(FOLDER) == []


def test_an_entry_that_was_damaged_says_nothing() -> None:
    disk = SimDisk(random.Random(0))
    digests = filled(disk)
    disk.inode(f"{FOLDER}/{0:020d}").flip_bit(ENTRY_BYTES + 1, 0)
    assert digests.get(0) is not None
    assert digests.get(RANGE_BYTES) is None


def test_an_entry_of_another_place_says_nothing() -> None:
    """A file that was copied, or pages that were exchanged."""
    disk = SimDisk(random.Random(0))
    digests = filled(disk)
    data = disk.inode(f"{FOLDER}/{0:020d}").read(0, ENTRY_BYTES)
    disk.inode(f"{FOLDER}/{0:020d}").patch(data, ENTRY_BYTES)
    assert digests.get(RANGE_BYTES) is None


def test_without_room_they_are_kept_in_memory_for_a_while() -> None:
    disk = SimDisk(random.Random(0))
    digests = opened(disk)
    disk.faults.fail("write", errno.ENOSPC, path_part=FOLDER, times=UNSAVED_MAX + 2)
    for number in range(UNSAVED_MAX + 1):
        digests.put(number * SEGMENT, number)
    assert digests.get(0) is None  # the oldest went
    assert digests.get(SEGMENT) == 1
    assert digests.is_dirty
    digests.save()  # still no room
    digests.save()
    assert digests.get(SEGMENT) == 1
    assert len(digests.take_dirty()) == UNSAVED_MAX
    assert not digests.is_dirty


def test_many_are_known_at_once() -> None:
    disk = SimDisk(random.Random(0))
    digests = filled(disk)
    disk.inode(f"{FOLDER}/{0:020d}").flip_bit(2 * ENTRY_BYTES, 0)
    disk.faults.fail("write", errno.ENOSPC, path_part=FOLDER)
    digests.put(RANGE_BYTES, 5)
    places = [None, 5, None, 3 * RANGE_BYTES + 7]
    assert digests.known(0, 4) == [7, *places[1:]]
    disk.faults.fail("read", errno.EIO, path_part=FOLDER)
    assert digests.known(0, 4) == [None, 5, None, None]


def test_a_file_that_cannot_be_cleared_goes_as_a_whole() -> None:
    """A later start would believe what is left in it."""
    disk = SimDisk(random.Random(0))
    filled(disk).close()
    disk.faults.fail("write", errno.ENOSPC, path_part=FOLDER)
    digests = opened(disk, end=SEGMENT + RANGE_BYTES)
    assert digests.get(0) == 7
    assert disk.listdir(FOLDER) == [f"{0:020d}"]
    digests.close()


def test_files_that_could_not_be_cleared_are_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: SimDisk, path: str) -> None:
        raise OSError(errno.EIO, "no", path)

    monkeypatch.setattr(SimDisk, "unlink", refuse)
    disk = SimDisk(random.Random(0))
    filled(disk).close()
    disk.faults.fail("write", errno.EIO, path_part=FOLDER)
    digests = opened(disk, end=SEGMENT + RANGE_BYTES)
    assert digests.get(0) is None
    digests.put(0, digest_of(b"x"))
    assert digests.get(0) == digest_of(b"x")
    digests.close()


def test_files_of_expired_segments_go() -> None:
    disk = SimDisk(random.Random(0))
    digests = filled(disk)
    assert digests.drop_below(SEGMENT) == (f"{FOLDER}/{0:020d}",)
    assert disk.listdir(FOLDER) == [f"{SEGMENT:020d}"]
    assert digests.drop_below(SEGMENT) == ()


def test_a_new_file_that_was_synced_outlives_a_loss_of_power() -> None:
    """Its name, too: a range that nobody digested may be damaged where no CRC shows it."""
    disk = SimDisk(random.Random(0))
    disk.mkdir("/d")
    digests = filled(disk)
    for path in digests.take_dirty():
        if path == FOLDER:
            disk.sync_dir(path)
        else:
            disk.open(path, "w").sync()
    digests.close()
    disk.power_loss(random.Random(1))
    assert opened(disk).get(SEGMENT + RANGE_BYTES) == SEGMENT + RANGE_BYTES + 7


def test_who_only_reads_keeps_what_is_put_in_memory() -> None:
    disk = SimDisk(random.Random(0))
    filled(disk).close()
    disk.unlink(f"{FOLDER}/{SEGMENT:020d}")
    reader = Digests(disk, FOLDER, SEGMENT, reads_only=True)
    reader.put(SEGMENT, 5)
    reader.put(0, 6)
    assert (reader.get(SEGMENT), reader.get(0)) == (5, 6)
    reader.close()
    assert disk.listdir(FOLDER) == [f"{0:020d}"]
    assert opened(disk).get(0) == 7
