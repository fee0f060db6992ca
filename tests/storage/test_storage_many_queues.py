"""A start on many queues, or many small records, gives others a turn every few milliseconds."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest
from storage_kit import fill
from store_kit import sim_disk

from actors.sim.disk import SimDisk, SimFile
from actors.storage import queue_heads, recovery
from actors.storage.commit_log import CommitLog
from actors.storage.queue_files import NAMES_PER_STEP, walk_names
from actors.storage.queue_heads import NextOffsets, add_offsets

FOLDER = "/data/commitlog"
BODIES = [b"x"] * 25_000
STEP_BYTES = 1 << 20
"""Of records of some 100 B, which take a few microseconds each."""


@pytest.fixture(scope="module")
def small_records() -> CommitLog:
    log = CommitLog.load(sim_disk(), FOLDER, 8 << 20)
    fill(log, BODIES)
    return log


def read_at_once(work: Generator[None, None, Any], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes that each step of some work reads."""
    steps = [0]
    read = SimFile.pread

    def counted(file: SimFile, offset: int, size: int) -> bytes:
        data = read(file, offset, size)
        steps[-1] += len(data)
        return data

    monkeypatch.setattr(SimFile, "pread", counted)
    for _ in work:
        steps.append(0)
    return steps


def test_a_scan_for_the_end_reads_little_at_once(
    small_records: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = small_records
    work = recovery.find_end(log._disk, log, start_bytes=0, mark_bytes=None)
    steps = read_at_once(work, monkeypatch)
    assert sum(steps) >= log.written_bytes > 2 * STEP_BYTES
    assert max(steps) <= recovery.READ_BYTES <= STEP_BYTES


def test_so_does_one_for_queue_offsets(
    small_records: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, offsets = small_records, NextOffsets()
    steps = read_at_once(add_offsets(log._disk, log, 0, log.written_bytes, offsets), monkeypatch)
    assert offsets == {("t", 0): len(BODIES)}
    assert sum(steps) >= log.written_bytes
    assert max(steps) <= queue_heads.READ_BYTES <= STEP_BYTES // 2, "it takes twice as long"


def test_names_of_topics_are_read_little_by_little(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, steps = sim_disk(), [0]
    wanted = [f"topic-{number}" for number in range(2 * NAMES_PER_STEP + 5)]

    def names(_disk: SimDisk, _path: str) -> Iterator[str]:
        for name in wanted:
            steps[-1] += 1
            yield name

    monkeypatch.setattr(SimDisk, "names", names)
    found: list[str] = []

    def walked() -> Generator[None, None, None]:
        found.extend((yield from walk_names(disk, "/data/consumequeue")))

    for _ in walked():
        steps.append(0)
    assert found == wanted
    assert steps == [NAMES_PER_STEP, NAMES_PER_STEP, 5]
