"""Ranges of a log file, read and digested in one call."""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Generator

import pytest
import trio

from actors.env.protocols import run_here
from actors.sim.disk import SimDisk, SimFile
from actors.storage.files.stepping import answered
from actors.storage.log.digests import RANGE_BYTES, digest_of
from actors.storage.scrub.range_reading import BLOCK_BYTES, RangeRead, read_changed, read_ranges

BASE = 1 << 20
COUNT = 2 * BLOCK_BYTES // RANGE_BYTES + 1
DATA = random.Random(4).randbytes(COUNT * RANGE_BYTES - 100)
SPANS = [
    (BASE + at, BASE + min(at + RANGE_BYTES, len(DATA))) for at in range(0, len(DATA), RANGE_BYTES)
]


def log_file(disk: SimDisk, size: int = len(DATA)) -> SimFile:
    file = disk.open("/log", "x")
    file.pwrite(DATA[:size], 0)
    return file


def good(number: int, *, keeps: bool = False) -> RangeRead:
    start, end = SPANS[number]
    data = DATA[start - BASE : end - BASE]
    return RangeRead(start, end, digest_of(data), data if keeps else b"")


@pytest.mark.parametrize("keeps", [False, True])
def test_each_range_has_its_digest_and_its_bytes_if_they_are_wanted(keeps: bool) -> None:
    found = read_ranges(log_file(SimDisk(random.Random(0))), BASE, SPANS, keeps=keeps)
    assert found == [good(number, keeps=keeps) for number in range(COUNT)]


def test_ranges_that_a_file_does_not_hold_whole_say_so() -> None:
    file = log_file(SimDisk(random.Random(0)), size=3 * RANGE_BYTES - 1)
    found = read_ranges(file, BASE, SPANS[:4], keeps=False)
    assert found[:2] == [good(0), good(1)]
    assert [each.problem for each in found[2:]] == ["its file is too short"] * 2
    assert [each.digest for each in found[2:]] == [None, None]


def test_of_a_block_that_cannot_be_read_only_the_bad_range_is_named() -> None:
    disk = SimDisk(random.Random(0))
    file = log_file(disk)
    disk.faults.fail("read", errno.EIO, times=2)  # the block, then its first range
    found = read_ranges(file, BASE, SPANS, keeps=False)
    assert found[0].digest is None
    assert found[0].problem == "it cannot be read: Input/output error"
    assert found[1:] == [good(number) for number in range(1, COUNT)]


def digests() -> list[int | None]:
    return [good(number).digest for number in range(COUNT)]


def test_of_ranges_that_are_what_was_written_nothing_is_given() -> None:
    file = log_file(SimDisk(random.Random(0)))
    assert read_changed(file, BASE, SPANS, digests()) == []


@pytest.mark.parametrize("number", [0, BLOCK_BYTES // RANGE_BYTES, COUNT - 1])
def test_of_ranges_that_differ_in_one_bit_just_these_are_given(number: int) -> None:
    file = log_file(SimDisk(random.Random(0)))
    at = SPANS[number][0] - BASE
    file.pwrite(bytes([DATA[at] ^ 1]), at)
    (found,) = read_changed(file, BASE, SPANS, digests())
    assert (found.start, found.end) == SPANS[number]
    assert found.digest not in (None, good(number).digest)


def test_a_range_that_nobody_has_digested_counts_as_changed() -> None:
    known = digests()
    known[1] = None
    assert read_changed(log_file(SimDisk(random.Random(0))), BASE, SPANS, known) == [good(1)]


def test_ranges_that_cannot_be_read_are_given_with_what_the_disk_said() -> None:
    disk = SimDisk(random.Random(0))
    file = log_file(disk)
    disk.faults.fail("read", errno.EIO, times=2)
    known = [None, *digests()[1:]]  # which is no digest that it could have
    (found,) = read_changed(file, BASE, SPANS, known)
    assert (found.start, found.digest) == (BASE, None)
    assert found.problem == "it cannot be read: Input/output error"


def asking(answers: list[int]) -> Generator[object, int, str]:
    for number in range(2):
        answers.append((yield lambda number=number: 10 * number))
    return "done"


async def test_what_is_asked_for_is_run_and_answered() -> None:
    answers: list[int] = []
    assert await answered(asking(answers), run_here) == "done"  # type: ignore[arg-type]
    assert answers == [0, 10]


async def test_a_cancellation_closes_the_work() -> None:
    ended = threading.Event()

    def work() -> Generator[object, int, None]:
        try:
            yield lambda: 1
        finally:
            ended.set()

    with trio.CancelScope() as scope:
        scope.cancel()
        await answered(work(), run_here)  # type: ignore[arg-type]
    assert ended.is_set()
