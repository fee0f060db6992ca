"""What lies behind a log's end, whatever wrote it there, is kept in `cut/` before it goes."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from ledger_kit import FILE, LAYOUT, model, opened
from ledger_tools_kit import all_bytes, checked, filled

from actors.errors import LogFull
from actors.sim.disk import SimDisk

JUNK = b"not an entry, and nobody's"


def stored(how: str) -> SimDisk:
    disk = filled(ordered=how == "stopped")
    if how != "stopped":
        disk.kill()
    if how == "unmarked":
        disk.unlink(LAYOUT.synced)
    return disk


def put(disk: SimDisk, offset: int, data: bytes) -> None:
    path = f"{LAYOUT.commit_log}/{offset - offset % FILE:020d}"
    file = disk.open(path, "w" if disk.exists(path) else "x")
    file.resize(FILE)
    file.pwrite(data, offset % FILE)
    file.sync()
    file.close()


@pytest.mark.parametrize("how", ["stopped", "killed", "unmarked"])
@pytest.mark.parametrize("where", ["there", "behind zeros", "next file"])
def test_bytes_behind_the_end_are_kept(how: str, where: str) -> None:
    disk = stored(how)
    end = checked(disk).end_bytes
    at = {"there": end, "behind zeros": end + 300, "next file": end - end % FILE + FILE + 40}[where]
    put(disk, at, JUNK)
    found = checked(disk)
    again = opened(disk)
    start = end if where != "next file" else at - at % FILE
    expected = bytes(at - start) + JUNK
    assert again.opened.kept_bytes == len(expected) == found.torn_bytes
    assert [*all_bytes(disk, LAYOUT.cut).values()] == [expected]
    before = model(again)
    assert again.append_as_leader([b"x" * 500] * 9, 2).positions[0] == end
    again.close(ordered=False)
    disk.kill()
    assert model(opened(disk))[: len(before)] == before
    assert len(disk.listdir(LAYOUT.cut)) == 1, "nothing of it was left in the log"


@pytest.mark.parametrize(("operation", "part"), [("create", "truncating"), ("write", "synced")])
def test_a_start_that_finds_no_room_again_and_again_keeps_one_copy(
    operation: Any, part: str
) -> None:
    """As it is tried each second on a full disk."""
    disk = stored("stopped")
    end = checked(disk).end_bytes
    put(disk, end, JUNK)
    disk.faults.fail(operation, errno.ENOSPC, path_part=f"{LAYOUT.root}/{part}", times=20)
    for _ in range(20):
        with pytest.raises((OSError, LogFull)):
            opened(disk)
    assert opened(disk).opened.kept_bytes == len(JUNK)
    assert [*all_bytes(disk, LAYOUT.cut).values()] == [JUNK]


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_zeros_are_not_kept(how: str) -> None:
    disk = stored(how)
    put(disk, checked(disk).end_bytes + 20, bytes(50))
    assert opened(disk).opened.kept_bytes == 0
    assert not disk.exists(LAYOUT.cut)
