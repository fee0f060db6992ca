"""A feed's record on a disk that somebody else has filled."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from actors.cluster import feed_record
from actors.cluster.feed_record import FeedRecord
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
