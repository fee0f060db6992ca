"""What lies behind a log's end, whatever wrote it there, is kept in `cut/` before it goes."""

from __future__ import annotations

from typing import Any

import pytest
from tools_kit import LAYOUT, S, checked, log_of, node_disk, read_all, starts, write_at

from actors.sim.disk import SimDisk
from actors.storage.derived.small_files import create_abort

JUNK = b"no record, and nobody's"


async def stored(how: str) -> SimDisk:
    disk = await node_disk()
    if how != "stopped":
        create_abort(disk, LAYOUT.abort, "n0")
    if how == "unmarked":
        disk.unlink(LAYOUT.synced)
    return disk


def put(disk: SimDisk, offset: int, data: bytes) -> None:
    path = f"{LAYOUT.commit_log}/{offset - offset % S:020d}"
    if not disk.exists(path):
        file = disk.open(path, "x")
        file.resize(S)
        file.close()
    write_at(disk, path, offset % S, data)


@pytest.mark.parametrize("how", ["stopped", "killed", "unmarked"])
@pytest.mark.parametrize("where", ["there", "behind zeros", "next file"])
async def test_bytes_behind_the_end_are_kept(how: str, where: str, autojump_clock: Any) -> None:
    disk = await stored(how)
    end, before = checked(disk).end_bytes, log_of(disk)
    at = {"there": end, "behind zeros": end + 300, "next file": end - end % S + S + 40}[where]
    put(disk, at, JUNK)
    found = checked(disk)
    assert starts(disk) == end
    start = end if where != "next file" else at - at % S
    kept = {name: read_all(disk, f"{LAYOUT.cut}/{name}") for name in disk.listdir(LAYOUT.cut)}
    assert kept == {f"{start:020d}.1": bytes(at - start) + JUNK}
    assert found.torn_bytes == at - start + len(JUNK)
    assert log_of(disk) == before


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_zeros_are_not_kept(how: str, autojump_clock: Any) -> None:
    disk = await stored(how)
    end = checked(disk).end_bytes
    put(disk, end + 20, bytes(50))
    assert starts(disk) == end
    assert not disk.exists(LAYOUT.cut)
