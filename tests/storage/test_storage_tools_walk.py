"""Reading a file up to a limit: what may lie across it, and what damage must not hide behind it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from storage_kit import finish, record
from store_kit import running
from tools_kit import LAYOUT, S, checked, node_disk, write_at

from actors.sim.disk import SimDisk
from actors.storage.commitlog.recovery import Ending, FileEnd
from actors.storage.layout import StoreLayout
from actors.storage.tools.commitlog.walk import read_file
from actors.storage.tools.stores import GroupStore
from wire.files.commit_log import encode_blank

STORE = GroupStore(name="g", layout=StoreLayout("/g"), segment_bytes=S, settings={})
FOLDER = STORE.layout.commit_log
PATH = f"{FOLDER}/{0:020d}"


def records(bodies: Sequence[bytes]) -> list[bytes]:
    """As they lie in a log, from its first byte on."""
    found: list[bytes] = []
    for body in bodies:
        at = sum(map(len, found))
        found.append(record(at, body, topic="t" * 30, properties={"KEYS": "k" * 50}))
    return found


def file_of(data: bytes, size: int = S) -> SimDisk:
    disk = SimDisk(random.Random(0))
    disk.mkdir(FOLDER)
    disk.open(PATH, "x").pwrite(data.ljust(size, b"\0"), 0)
    return disk


def ending(data: bytes, limit: int | None, size: int = S) -> FileEnd:
    def reading() -> Any:
        end: FileEnd = yield from read_file(file_of(data, size), STORE, 0, limit=limit)
        return end

    end = finish(reading())
    assert isinstance(end, FileEnd)
    return end


def test_a_limit_may_lie_anywhere_in_a_record() -> None:
    first, second = records([b"x" * 40, b"y" * 70])
    data = first + second
    for limit in range(len(first), len(data)):
        assert ending(data, limit) == FileEnd(base=0, at_bytes=len(first), ending=Ending.LIMIT)
    assert ending(data, len(data)).at_bytes == len(data)


@pytest.mark.parametrize("rest", [8, 9, 15, 16, 90, 500])
def test_a_limit_may_lie_anywhere_in_the_head_of_a_filler(rest: int) -> None:
    empty = len(record(0, b""))
    data = record(0, b"x" * (S - rest - empty)) + encode_blank(rest)
    for limit in range(S - rest, S - rest + 8):
        assert ending(data, limit) == FileEnd(base=0, at_bytes=S - rest, ending=Ending.LIMIT)
    assert ending(data, S).ending is Ending.BLANK


@pytest.mark.parametrize("bit", range(32))
def test_a_size_that_reaches_over_the_limit_is_seen(bit: int) -> None:
    """Whichever bit of whichever record below the limit: also of the one that ends there."""
    good = records([b"x" * 40, b"", b"y" * 70, b"z" * 700])
    end = sum(map(len, good))
    for number in range(len(good)):
        at = sum(map(len, good[:number]))
        data = bytearray(b"".join(good))
        data[at + bit // 8] ^= 1 << bit % 8
        for limit in (end, end + 1, S):
            found = ending(bytes(data), limit)
            assert (found.at_bytes, found.ending) == (at, Ending.BAD), limit
            assert found.reason


def test_a_file_that_ends_before_the_limit_within_a_record() -> None:
    first, second = records([b"x" * 40, b"y" * 70])
    data = first + second
    found = ending(data[:-1], len(data), size=0)
    assert (found.at_bytes, found.ending) == (len(first), Ending.BAD)


async def test_a_running_nodes_record_of_a_wrong_size_is_damage(autojump_clock: Any) -> None:
    """Larger than what lies between it and the synced mark: it is not the one that is written."""
    disk = await node_disk(10)
    end = checked(disk).end_bytes
    assert end < S
    async with running(disk):
        assert checked(disk, is_running=True).is_good
        write_at(disk, f"{LAYOUT.commit_log}/{0:020d}", 1, b"\1")
        (damage,) = checked(disk, is_running=True).findings.damage
    assert "byte 0 (offset 0): a record whose size is not what its lengths say" in damage
