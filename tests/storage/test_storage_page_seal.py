"""A slave's store fills a page and syncs it before it writes on, where a hole would not be seen."""

from __future__ import annotations

import errno
import random
from typing import Any

import attrs
import pytest
import trio
from held_kit import HeldDisk
from storage_kit import record
from store_kit import ROOT, log_of, running, sim_disk, small_group
from store_tree import dying, leaves

from actors.errors import StorageError
from actors.events import store as events
from actors.sim.disk import DiskOptions, SimDisk
from actors.sim.disk.disk import SimHeld
from actors.storage.commitlog import raw_session
from actors.storage.commitlog.raw_session import PAGE_BYTES
from wire.files.commit_log import BLANK_BYTES, encode_blank

S = 4 * PAGE_BYTES
END = PAGE_BYTES - 40
"""Where the first bytes end: within the head of the record that lies over the first page's end."""
PATH = f"{ROOT}/commitlog/{0:020d}"
WRITTEN = small_group(durability="written", flush_interval_s=1000.0, segment_bytes=S)
"""Nothing but a seal syncs the log."""


def some_log(pad: int, size: int) -> bytes:
    """Records of one file; the second begins `pad` bytes before the first page's end."""
    head = record(0)
    out = record(0, b"x" * (PAGE_BYTES - pad - len(head) + 4))
    assert len(out) == PAGE_BYTES - pad
    while len(out) < size:
        out += record(len(out), b"y" * 300)
    assert len(out) + BLANK_BYTES <= S
    return out


LOG = some_log(100, 9000)


@pytest.mark.parametrize("held", [False, True])
async def test_the_page_is_on_the_disk_before_more_is_written(
    autojump_clock: Any, held: bool
) -> None:
    disk = SimDisk(random.Random(1), DiskOptions(sync_min_s=1.0, sync_mean_s=1.0))
    async with running(disk, WRITTEN, is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, 0, LOG[:END], ends_frame=False)
        await trio.sleep(2.0)
        rest = LOG[END:]
        await kit.receive(1, END, SimHeld(rest) if held else rest)
        await trio.sleep(0.5)
        assert log_of(disk)[: 2 * S] == LOG[:PAGE_BYTES].ljust(2 * S, b"\0")
        assert disk.durable_range(PATH, 0, S) != LOG[:PAGE_BYTES].ljust(S, b"\0")
        assert kit.of(events.PageSealed) == []
        await trio.sleep(0.6)
        assert disk.durable_range(PATH, 0, S) == LOG[:PAGE_BYTES].ljust(S, b"\0")
        assert kit.of(events.PageSealed) == [events.PageSealed(offset_bytes=PAGE_BYTES)]
        assert log_of(disk)[: len(LOG)] == LOG
        (first, second) = kit.of(events.BytesReceived)
        assert (second.first_bytes, second.next_bytes) == (first.next_bytes, len(LOG))


@pytest.mark.parametrize(
    ("cuts", "sealed"),
    [
        ([END], [PAGE_BYTES]),
        ([END, PAGE_BYTES], [PAGE_BYTES]),
        ([END, END + 10], [PAGE_BYTES]),
        ([PAGE_BYTES - 112], []),
        ([PAGE_BYTES - 100], []),  # there the record begins
        ([PAGE_BYTES], []),
        ([END, 2 * PAGE_BYTES - 60], [PAGE_BYTES, 2 * PAGE_BYTES]),
    ],
)
async def test_which_ends_need_it(autojump_clock: Any, cuts: list[int], sealed: list[int]) -> None:
    async with running(sim_disk(), WRITTEN, is_master=False) as kit:
        await kit.open_session(1)
        for start, end in zip([0, *cuts], [*cuts, len(LOG)], strict=True):
            await kit.receive(1, start, LOG[start:end])
        assert (await kit.range()).written_bytes == len(LOG)
        assert [event.offset_bytes for event in kit.of(events.PageSealed)] == sealed


async def test_upstream_has_none(autojump_clock: Any) -> None:
    group = small_group(segment_bytes=S, compat="upstream")
    async with running(sim_disk(), group, is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, 0, LOG[:END])
        await kit.receive(1, END, LOG[END:])
        assert (await kit.range()).written_bytes == len(LOG)
        assert kit.of(events.PageSealed) == []


async def test_a_failed_seal_stops_everything(autojump_clock: Any) -> None:
    disk = sim_disk()
    with pytest.RaisesGroup(StorageError, flatten_subgroups=True) as caught:
        async with running(disk, WRITTEN, is_master=False) as kit:
            await kit.open_session(1)
            await kit.receive(1, 0, LOG[:END])
            await kit.range()
            disk.faults.fail("sync", errno.EIO, path_part="commitlog")
            await kit.receive(1, END, LOG[END:])
            await trio.sleep(5)
    assert "sync" in str(leaves(caught.value)[0])
    assert disk.exists(f"{ROOT}/abort")
    assert log_of(disk)[:S] == LOG[:PAGE_BYTES].ljust(S, b"\0"), "nothing behind it"
    (failed,) = kit.of(events.SyncFailed)
    assert failed.paths == (PATH,)
    assert kit.of(events.PageSealed) == []


async def test_bytes_without_room_are_not_begun(autojump_clock: Any) -> None:
    """The next file cannot be made, so not even the page is filled."""
    disk = sim_disk()
    size = 2 * PAGE_BYTES
    group = small_group(durability="written", flush_interval_s=1000.0, segment_bytes=size)
    log = some_log(100, size - 600)
    log += encode_blank(size - len(log)).ljust(size - len(log), b"\0") + record(size)
    async with running(disk, group, is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, 0, log[:END])
        await kit.range()
        disk.faults.fail("prepare", errno.ENOSPC)
        await kit.receive(1, END, log[END:])
        await trio.sleep(1.0)
        assert len(kit.refused) == 1
        assert (await kit.range()).written_bytes == END
        assert kit.of(events.PageSealed) == []
        await kit.open_session(2)
        await kit.receive(2, END, log[END:])
        assert (await kit.range()).written_bytes == len(log)


async def test_a_sealed_file_is_let_go(autojump_clock: Any) -> None:
    disk = HeldDisk()
    async with running(disk, WRITTEN, is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, 0, LOG[:END])
        await kit.range()
        before = len(disk.held)
        await kit.receive(1, END, LOG[END:])
        await kit.range()
        assert len(kit.of(events.PageSealed)) == 1
        assert disk.held[before:] == [set()]


async def left_by_a_power_loss(seed: int) -> bytes:
    """The log of a slave that lost power while it received `LOG` in pieces, as it started again."""
    rng = random.Random(seed)
    options = DiskOptions(sync_min_s=0.01, sync_mean_s=0.01, writeback_share=0.5)
    disk = SimDisk(rng, options, kernel=random.Random(seed))
    log = some_log(rng.randrange(4, 100), 9000)
    with dying():
        async with running(disk, WRITTEN, is_master=False) as kit:
            await kit.open_session(1)
            at = 0
            while at < len(log):
                near = PAGE_BYTES - at % PAGE_BYTES - rng.randrange(1, 112)
                size = max(1, min(rng.choice([near, near, rng.randrange(1, 3000)]), len(log) - at))
                await kit.receive(1, at, log[at : at + size])
                at += size
            await trio.sleep(rng.choice([0.0, 0.005, 0.01, 0.02, 1.0]))
            kit.power_loss()
    async with running(disk, WRITTEN, is_master=False) as kit:
        end = (await kit.range()).written_bytes
    assert end <= len(log)
    return b"" if log_of(disk)[:end] == log[:end] else log_of(disk)[:end]


async def test_no_power_loss_leaves_another_log(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(60):
        assert await left_by_a_power_loss(seed) == b"", seed
    monkeypatch.setattr(raw_session, "bytes_to_seal", lambda *args: 0)
    for seed in range(400):  # one in forty of them shows it
        if await left_by_a_power_loss(seed):
            return
    raise AssertionError("the seal is why")


async def test_a_stop_writes_no_further_received_bytes(autojump_clock: Any) -> None:
    """They were not reported, so the master sends them again; and each may wait for a sync."""
    pages = 30
    disk = SimDisk(random.Random(1), DiskOptions(sync_min_s=1.0, sync_mean_s=1.0))
    group = attrs.evolve(WRITTEN, segment_bytes=(pages + 2) * PAGE_BYTES)
    log = some_log(100, PAGE_BYTES - 100)
    body = b"z" * (PAGE_BYTES - len(record(0, b"")))
    while len(log) < pages * PAGE_BYTES:
        log += record(len(log), body)
    async with running(disk, group, is_master=False) as kit:
        await kit.open_session(1)
        ends = [page * PAGE_BYTES - 40 for page in range(1, pages + 1)]
        for start, end in zip([0, *ends], ends, strict=False):
            await kit.receive(1, start, log[start:end])
        await trio.sleep(2.5)
        stopped_s = trio.current_time()
    assert trio.current_time() - stopped_s < 5
    sealed = kit.of(events.PageSealed)
    assert 2 <= len(sealed) < 5
    assert log_of(disk)[: sealed[-1].offset_bytes] == log[: sealed[-1].offset_bytes]
