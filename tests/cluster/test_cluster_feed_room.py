"""A feed's record on a disk that somebody else has filled."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.cluster import feed_record
from actors.cluster.feed_record import FeedRecord
from actors.env import local_disk
from actors.env.local_disk import LocalDisk
from actors.log_types import Receipt


def receipt(first: int, count: int) -> Receipt:
    return Receipt(
        first=first,
        last=first + count - 1,
        next=first + count,
        count=count,
        copies=2,
        durability="synced",
    )


@pytest.mark.parametrize("at", ["write", "roll"])
async def test_a_record_without_room_waits_and_loses_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    at: str,
) -> None:
    """Not even half a row that a write has left."""
    record = FeedRecord(str(tmp_path), "g")
    record.open("/x", resumable=True)
    await record.note([(0, receipt(0, 2), 0)])
    pwrite, opens, left = os.pwrite, os.open, [3]
    full = OSError(errno.ENOSPC, "No space left on device")

    def short(descriptor: int, data: bytes, offset: int) -> int:
        if not left[0]:
            return pwrite(descriptor, data, offset)
        left[0] -= 1
        if left[0] % 2 == 0:
            return pwrite(descriptor, data[:5], offset)
        raise full

    def refused(path: str, *words: int) -> int:
        if not left[0] or not path.endswith(".tmp"):
            return opens(path, *words)
        left[0] -= 1
        raise full

    monkeypatch.setattr(feed_record, "ROOM_PAUSE_S", 0.001)
    if at == "roll":
        monkeypatch.setattr(feed_record, "FILE_BYTES_MAX", 1)
        monkeypatch.setattr(os, "open", refused)
    else:
        monkeypatch.setattr(os, "pwrite", short)
    await record.note([(2, receipt(2, 3), 0)])
    assert not left[0]
    monkeypatch.undo()
    record.close()
    again = FeedRecord(str(tmp_path), "g")
    assert again.open("/x", resumable=True) == 5
    again.close()
    said = [each.getMessage() for each in caplog.records]
    assert [("no room: " in line, "room again" in line) for line in said] == [
        (True, False),
        (False, True),
    ]


async def crowded(record: FeedRecord, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Rows that each roll the record."""
    monkeypatch.setattr(feed_record, "ROOM_PAUSE_S", 0.001)
    monkeypatch.setattr(feed_record, "FILE_BYTES_MAX", 120)
    for number in range(count):
        await record.note([(number, receipt(number, 1), 0)])


@pytest.mark.parametrize("can_exchange", [True, False])
@pytest.mark.parametrize("failing", range(6))
async def test_each_step_of_a_roll_may_find_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int, can_exchange: bool
) -> None:
    """It is tried again, and neither the rows before it nor those after it are lost."""
    record = FeedRecord(str(tmp_path), "g")
    record.open("/x", resumable=True)
    steps = 0
    full = OSError(errno.ENOSPC, "No space left on device")

    def counted(step: Callable[..., None]) -> Callable[..., None]:
        def run(*names: str) -> None:
            nonlocal steps
            steps += 1
            if steps == 1 + failing:
                raise full
            step(*names)

        return run

    def none_there(_: LocalDisk, one: str, other: str) -> None:
        raise OSError(errno.EINVAL, "no such call on this file system")

    monkeypatch.setattr(os, "rename", counted(os.rename))
    monkeypatch.setattr(local_disk, "sync_folder", counted(local_disk.sync_folder))
    exchange = counted(LocalDisk.exchange) if can_exchange else none_there
    monkeypatch.setattr(LocalDisk, "exchange", exchange)
    await crowded(record, monkeypatch, 8)
    assert steps > failing + 1
    record.close()
    again = FeedRecord(str(tmp_path), "g")
    assert again.open("/x", resumable=True) == 8
    again.close()
    assert sorted(os.listdir(tmp_path)) == ["g.1.jsonl", "g.jsonl"]


@pytest.mark.parametrize("names", [("g.jsonl.tmp", "g.jsonl"), ("g.1.jsonl", "g.jsonl.tmp")])
async def test_a_roll_that_a_crash_interrupted_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]
) -> None:
    record = FeedRecord(str(tmp_path), "g")
    record.open("/x", resumable=True)
    await crowded(record, monkeypatch, 8)
    record.close()
    older, newer = ((tmp_path / name).read_bytes() for name in ("g.1.jsonl", "g.jsonl"))
    for name in os.listdir(tmp_path):
        (tmp_path / name).unlink()
    for name, data in zip(names, (older, newer), strict=True):
        (tmp_path / name).write_bytes(data)
    again = FeedRecord(str(tmp_path), "g")
    assert (tmp_path / "g.1.jsonl").read_bytes() == older
    assert again.open("/x", resumable=True) == 8
    again.close()


async def test_the_names_are_on_the_disk_before_a_row_behind_a_roll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = FeedRecord(str(tmp_path), "g")
    record.open("/x", resumable=True)
    done: list[str] = []
    sync_folder, exchange = local_disk.sync_folder, LocalDisk.exchange
    append = FeedRecord._write

    def synced(path: str) -> None:
        done.append("names")
        sync_folder(path)

    def exchanged(disk: LocalDisk, one: str, other: str) -> None:
        done.append("exchange")
        exchange(disk, one, other)

    def written(self: FeedRecord, descriptor: int, rows: list[Any], at_bytes: int) -> int:
        done.append("rows")
        return append(self, descriptor, rows, at_bytes)

    monkeypatch.setattr(local_disk, "sync_folder", synced)
    monkeypatch.setattr(LocalDisk, "exchange", exchanged)
    monkeypatch.setattr(FeedRecord, "_write", written)
    await crowded(record, monkeypatch, 3)
    record.close()
    assert done[-5:] == ["rows", "rows", "exchange", "names", "rows"]
