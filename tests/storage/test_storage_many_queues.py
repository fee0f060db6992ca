"""Many queues: a start gives others a turn often, and a check passes over what is unused."""

from __future__ import annotations

import pathlib
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from storage_kit import fill, golden_copy
from store_kit import sim_disk

from actors.env.local_disk import LocalDisk, LocalFile
from actors.sim.disk import SimDisk, SimFile
from actors.storage.commitlog import recovery
from actors.storage.derived import queue_heads
from actors.storage.derived.queue_files import NAMES_PER_STEP, walk_names
from actors.storage.derived.queue_heads import NextOffsets, add_offsets
from actors.storage.files.stepping import finish
from actors.storage.layout import StoreLayout
from actors.storage.log.commit_log import CommitLog
from actors.storage.tools.commitlog import check_queues
from actors.storage.tools.commitlog.check import CheckOptions, check_store
from actors.storage.tools.target import find_target
from wire.files.consume_queue import decode_units

FOLDER = "/data/commitlog"
BODIES = [b"x"] * 25_000
STEP_BYTES = 1 << 20
"""Of records of some 100 B, which take a few microseconds each."""

QUEUE_FILE_BYTES = 6_000_000


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
    layout, end = StoreLayout(log.folder.rpartition("/")[0]), log.written_bytes
    work = add_offsets(log._disk, layout, log, 0, end, offsets)
    steps = read_at_once(work, monkeypatch)
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


@pytest.mark.real_io
@pytest.mark.parametrize("is_dense", [False, True])
def test_a_check_passes_what_is_unused_of_a_queue(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, is_dense: bool
) -> None:
    """A queue of one record has a file of 6 MB."""
    store = golden_copy("5.3.3", "master", tmp_path)
    files = [path for path in store.glob("consumequeue/*/*/*") if path.is_file()]
    for path in files:
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.truncate(QUEUE_FILE_BYTES)
            if is_dense:
                file.seek(size)
                file.write(bytes(QUEUE_FILE_BYTES - size))
    counts = {"read": 0, "decoded": 0}
    read = LocalFile.pread

    def counted(file: LocalFile, offset: int, size: int) -> bytes:
        counts["read"] += size if "consumequeue" in file.path else 0
        return read(file, offset, size)

    def decode(data: bytes) -> Iterator[tuple[int, int, int]]:
        counts["decoded"] += len(data)
        return decode_units(data)

    monkeypatch.setattr(LocalFile, "pread", counted)
    monkeypatch.setattr(check_queues, "decode_units", decode)
    disk = LocalDisk()
    (found,) = find_target(disk, str(store)).stores
    assert finish(check_store(disk, found, CheckOptions(index_slots=50))).is_good
    assert counts["decoded"] < QUEUE_FILE_BYTES / 10 * len(files)
    assert is_dense or counts["read"] < QUEUE_FILE_BYTES / 10 * len(files), "holes are passed"
