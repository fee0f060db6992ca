"""Numbers near the last long that others bring into a store: none of them is what ends it.

Of each input, what becomes of it, and that appends go on behind it.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from storage_kit import record
from store_kit import ROOT, Kit, log_of, running, sim_disk, until

from actors.errors import CorruptLog
from actors.events import store as events
from actors.sim.disk import EPOCH_MS, SimDisk
from actors.storage.commitlog.group_commit import AHEAD_MAX_MS
from actors.storage.derived.queue_files import QUEUE_OFFSET_LAST, QUEUE_OFFSET_MAX
from actors.storage.derived.small_files import write_checkpoint
from actors.storage.layout import StoreLayout
from actors.storage.log.commit_log import LOG_BYTES_MAX
from wire.files.checkpoint import Checkpoint
from wire.files.commit_log import RecordHead, scan_heads, segment_name

LONG_MAX = 2**63 - 1
FIELDS = {"queue_offset": (20, 8), "store_ts": (56, 8)}
"""Place and width in a record."""


def record_with(field: str, value: int, at: int = 0) -> bytes:
    """As a master of any kind may send it: nothing in a record covers these fields."""
    data = bytearray(record(at, topic="orders", ts=EPOCH_MS, properties={"KEYS": "k"}))
    place, width = FIELDS[field]
    data[place : place + width] = value.to_bytes(width, signed=True)
    return bytes(data)


async def received(disk: SimDisk, data: bytes) -> None:
    """By a slave, which derives queues and index from it."""
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, 0, data)
        await kit.dispatched(len(data))
        assert await kit.by_key("orders", "k") == ((0, len(data)),)


async def appended(disk: SimDisk, starts: int = 2) -> list[RecordHead]:
    """By the same node as master, with a restart in between: the heads of what it appended."""
    first = len(scan_heads(log_of(disk)[:4096], physical_offset=0)[0])
    for _ in range(starts):
        async with running(disk) as kit:
            done = await kit.append(b"one", b"two")
            await kit.dispatched(done.next_bytes)
            await readable(kit, done.first_bytes)
    return scan_heads(log_of(disk)[:4096], physical_offset=0)[0][first:]


async def readable(kit: Kit, offset: int) -> None:
    """Its queue leads to the record there."""
    queue = await kit.units("orders")
    units = await kit.units("orders", position=queue.min_offset)
    assert offset in [unit[0] for unit in units.units]


@pytest.mark.parametrize(
    ("queue_offset", "own"),
    [
        (LONG_MAX, [0, 1, 2, 3]),  # no unit can lead to it
        (QUEUE_OFFSET_MAX, [0, 1, 2, 3]),
        (QUEUE_OFFSET_MAX - 1, [0, 1, 2, 3]),  # one could, and to none behind it
        (QUEUE_OFFSET_LAST, [0, 1, 2, 3]),
        (QUEUE_OFFSET_LAST - 1, [QUEUE_OFFSET_LAST, QUEUE_OFFSET_LAST + 1, 0, 1]),
        (1 << 40, [(1 << 40) + number for number in range(1, 5)]),
        (-1, [0, 1, 2, 3]),
        (-LONG_MAX - 1, [0, 1, 2, 3]),
    ],
)
async def test_a_queue_offset(autojump_clock: Any, queue_offset: int, own: list[int]) -> None:
    disk = sim_disk()
    await received(disk, record_with("queue_offset", queue_offset))
    assert [head.queue_offset for head in await appended(disk)] == own


@pytest.mark.parametrize(
    ("store_ts", "own"),
    [
        (LONG_MAX, EPOCH_MS),
        (EPOCH_MS + AHEAD_MAX_MS + 1, EPOCH_MS),
        (EPOCH_MS + AHEAD_MAX_MS, EPOCH_MS + AHEAD_MAX_MS),
        (EPOCH_MS + 86_400_000, EPOCH_MS + 86_400_000),  # a clock that was put back
        (0, EPOCH_MS),
        (-1, EPOCH_MS),
        (-LONG_MAX - 1, EPOCH_MS),
    ],
)
async def test_a_store_time(autojump_clock: Any, store_ts: int, own: int) -> None:
    disk = sim_disk()
    await received(disk, record_with("store_ts", store_ts))
    async with running(disk) as kit:  # with which a topic's deletion may not begin either
        assert max(kit.time.newest_ms, EPOCH_MS) == max(kit.time.begun_ms, EPOCH_MS) == own
    assert {head.store_ts for head in await appended(disk)} == {own}


@pytest.mark.parametrize("value", [LONG_MAX, 1 << 62, -1, -LONG_MAX - 1])
@pytest.mark.parametrize("field", [each.name for each in attrs.fields(Checkpoint)])
async def test_a_checkpoint(autojump_clock: Any, field: str, value: int) -> None:
    """Behind a crash, too: what was synced is there, and what lies behind it is looked at."""
    disk = sim_disk()
    layout = StoreLayout(ROOT)
    await received(disk, record_with("queue_offset", 0))
    write_checkpoint(disk, layout.checkpoint, Checkpoint(**{field: value}))
    disk.open(layout.abort, "x").close()
    assert [head.queue_offset for head in await appended(disk)] == [1, 2, 3, 4]


def log_file(disk: SimDisk, base: int, data: bytes = b"", size: int = 4096) -> str:
    folder = f"{ROOT}/commitlog"
    disk.mkdir(folder)
    path = f"{folder}/{segment_name(base)}"
    file = disk.open(path, "x")
    file.resize(size)
    file.pwrite(data, 0)
    file.close()
    return path


def leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    inner = (leaves(e) if isinstance(e, BaseExceptionGroup) else [e] for e in group.exceptions)
    return [error for errors in inner for error in errors]


@pytest.mark.parametrize("size", [4096, 0])
@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("base", [LONG_MAX // 4096 * 4096, LOG_BYTES_MAX, LONG_MAX])
async def test_the_name_of_a_log_file(
    autojump_clock: Any, base: int, beside: bool, size: int
) -> None:
    """The start names it, and it stays: an append, or its next file, ended the node before."""
    disk = sim_disk()
    if beside:
        log_file(disk, 0, record_with("queue_offset", 0))
    path = log_file(disk, base, size=size)
    with pytest.raises(BaseExceptionGroup) as caught:
        async with running(disk):
            pass
    (named,) = leaves(caught.value)
    assert isinstance(named, CorruptLog)
    assert str(named).startswith(f"{path}: the offset in this file's name is too high")
    assert disk.exists(path)


async def test_the_last_log_file_that_a_log_may_have(autojump_clock: Any) -> None:
    disk = sim_disk()
    base = LOG_BYTES_MAX - 3 * 4096
    log_file(disk, base, record(base, topic="orders"))
    async with running(disk) as kit:
        assert (await kit.append(b"x")).first_bytes > base


@pytest.mark.parametrize("offset", [LONG_MAX // 4096 * 4096, LOG_BYTES_MAX])
async def test_where_a_master_begins(autojump_clock: Any, offset: int) -> None:
    """An empty slave takes any first offset of a file but one that no log comes to."""
    disk = sim_disk()
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, offset, record(offset, topic="orders"))
        await until(lambda: kit.refused)
        (refused,) = kit.of(events.RawAppendRefused)
        assert refused.offset_bytes == offset
        assert (await kit.range()).written_bytes == 0
        await kit.open_session(2)
        await kit.receive(2, 8192, record(8192, topic="orders"))
        await until(lambda: kit.grown is not None and kit.grown.written_bytes > 8192)
