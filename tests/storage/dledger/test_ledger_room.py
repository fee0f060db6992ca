"""A DLedger log that finds no room says so once, and once that it has room again."""

from __future__ import annotations

import errno
import logging
import random
from typing import Any

import pytest
import trio
from ledger_kit import ROOT
from ledger_store_kit import Kit, running

from actors.errors import LogFull
from actors.events import store as events
from actors.sim.disk import DiskOptions, SimDisk
from actors.storage.files.room import NO_ROOM

FULL = f"{NO_ROOM}the disk of {ROOT} is more than 90% full (95%, 1 GiB free)"
LOOK_S = 20.0


class FullDisk(SimDisk):
    """Its use is what a test says."""

    used = 0.5

    def usage(self, path: str) -> float:
        return self.used

    def free_bytes(self, path: str) -> int:
        return 1 << 30


def full_disk() -> FullDisk:
    return FullDisk(random.Random(1), DiskOptions())


def reported(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    return [record.getMessage() for record in caplog.records]


def changes(kit: Kit) -> list[tuple[bool, str]]:
    found = [event for event in kit.events if isinstance(event, events.DiskUsageChanged)]
    return [(each.is_full, each.reason) for each in found]


async def test_a_disk_that_is_full(autojump_clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    disk = full_disk()
    async with running(disk) as kit:
        await kit.open(1)
        await kit.append(1, b"a")
        disk.used = 0.95
        await trio.sleep(LOOK_S)
        for _ in range(3):
            with pytest.raises(LogFull, match="90% full"):
                await kit.append(1, b"b")
        await trio.sleep(LOOK_S)
        assert changes(kit) == [(True, FULL)], "once"
        disk.used = 0.5
        await trio.sleep(LOOK_S)
        await kit.append(1, b"b")
        assert changes(kit) == [(True, FULL), (False, "")]
    assert reported(caplog) == [f"n0: ledger: {FULL}", "n0: ledger: the disk has room again"]


async def test_entries_that_do_not_fit_below_every_ratio(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is deleted for them: the words say from where on it would be."""
    disk = full_disk()
    async with running(disk) as kit:
        await kit.open(1)
        disk.faults.fail("prepare", errno.ENOSPC, path_part="data/", times=3)
        for _ in range(3):
            with pytest.raises(LogFull, match=NO_ROOM):
                await kit.append(1, b"a")
        ((is_full, reason),) = changes(kit)
        assert is_full
        assert reason.startswith(f"{NO_ROOM}[Errno 28] No space left on device")
        assert reason.endswith(
            "; the disk is 50% full, 1 GiB free, 4 KiB wanted: expired files go at any hour above"
            " 70%, others above 85%"
        )
        await trio.sleep(LOOK_S)
        assert len(changes(kit)) == 1, "a look at the disk does not find more"
        await kit.append(1, b"a")
        assert changes(kit)[1:] == [(False, "")]
        assert len(reported(caplog)) == 2


async def test_a_disk_that_is_full_at_the_start(autojump_clock: Any) -> None:
    disk = full_disk()
    disk.used = 0.95
    async with running(disk) as kit:
        await kit.open(1)
        assert changes(kit) == [(True, FULL)]
