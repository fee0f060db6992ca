"""The log's beginning goes once a snapshot stands for it, and never what it does not stand for."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from ledger_kit import FILE, LAYOUT, fresh, model, opened, sim_disk
from ledger_store_kit import running

from actors.env.protocols import Disk
from actors.events.store import SegmentExpired
from actors.storage.files.whole_files import sync_file
from actors.storage.ledger import store_messages
from actors.storage.ledger.ledger import LedgerStore
from actors.storage.ledger.memory_ledger import MemoryLedger

BODY = bytes(900)


def synced(ledger: LedgerStore, disk: Disk | None) -> None:
    work = ledger.begin_sync()
    for path in work.paths:
        assert disk is not None
        sync_file(disk, path)
    ledger.end_sync(work)


def filled(ledger: LedgerStore, count: int = 40, disk: Disk | None = None) -> LedgerStore:
    """Four entries to a file, all committed and synced."""
    for _ in range(count):
        ledger.append_as_leader([BODY], 1)
    synced(ledger, disk)
    ledger.commit(count - 1)
    return ledger


def removed(ledger: LedgerStore, floor: int) -> int:
    """How many times something went."""
    count = 0
    while ledger.delete_expired(floor, snapshot=True) is not None:
        count += 1
    return count


def test_whole_files_below_the_floor_go_and_a_restart_finds_the_rest() -> None:
    disk = sim_disk()
    ledger = filled(fresh(disk), disk=disk)
    before = model(ledger)
    assert ledger.delete_expired(21) is None, "they have not expired"
    assert removed(ledger, 21) == 5
    assert ledger.begin_index == 20
    assert model(ledger) == before[20:]
    ledger.close(ordered=True)
    disk.power_loss()
    again = opened(disk)
    assert again.begin_index == 20
    assert model(again) == before[20:]


@pytest.mark.parametrize("floor", [0, 3])
def test_nothing_goes_while_the_first_file_holds_something_else(floor: int) -> None:
    disk = sim_disk()
    assert removed(filled(fresh(disk), disk=disk), floor) == 0


def test_what_is_not_committed_or_not_synced_stays() -> None:
    disk = sim_disk()
    ledger = filled(fresh(disk), 10, disk)
    for _ in range(20):
        ledger.append_as_leader([BODY], 1)
    removed(ledger, 30)
    assert ledger.begin_index == 8
    ledger.commit(29)
    removed(ledger, 30)
    assert ledger.begin_index == 8, "the rest is not on the disk"
    synced(ledger, disk)
    removed(ledger, 30)
    assert ledger.begin_index == 28, "the file that is written stays"


def test_in_memory_single_entries_go() -> None:
    ledger = filled(MemoryLedger(file_bytes=FILE), 10)
    assert ledger.delete_expired(7) is None
    assert removed(ledger, 7) == 1
    assert (ledger.begin_index, ledger.end_index) == (7, 9)
    assert [entry[0] for entry in model(ledger)] == [7, 8, 9]
    assert removed(ledger, 100) == 1
    assert (ledger.begin_index, ledger.end_index) == (9, 9)
    assert ledger.append_as_leader([BODY], 1).first_index == 10


async def test_the_store_removes_at_once_and_says_where_the_log_begins(
    autojump_clock: Any,
) -> None:
    async with running(sim_disk()) as kit:
        await kit.open(1)
        for _ in range(40):
            await kit.append(1, BODY)
        await kit.synced(39)
        await kit.store.tell(store_messages.Commit(session=1, index=39))
        cuts = kit.grown[-1].cuts
        await kit.store.tell(store_messages.DropBelow(index=21))
        await trio.sleep(2.0)
        assert kit.grown[-1].begin_index == 20
        assert kit.grown[-1].cuts == cuts + 5
        said = [each for each in kit.events if isinstance(each, SegmentExpired)]
        assert [each.reason for each in said] == ["snapshot"] * 5


def test_a_sync_under_way_finds_each_file_that_it_was_given() -> None:
    disk = sim_disk()
    ledger = filled(fresh(disk), disk=disk)
    before = model(ledger)
    records = [f"{folder}/{0:020}" for folder in (LAYOUT.index, LAYOUT.sums)]
    work = ledger.begin_sync(whole=True)
    assert set(records) <= set(work.paths)
    assert removed(ledger, 36) == 9, "entries go meanwhile"
    assert model(ledger) == before[36:]
    for path in work.paths:  # a written group's sync may begin a second later
        sync_file(disk, path)
    ledger.end_sync(work)
    assert not any(map(disk.exists, records)), "they hold only records of entries that have gone"
    gone = ledger.begin_sync()
    assert set(records) <= set(gone.gone), "the syncer must not keep them open"
    ledger.end_sync(gone)
    assert model(ledger) == before[36:]


def test_a_store_that_ends_during_a_whole_sync_opens_where_its_log_begins() -> None:
    disk = sim_disk()
    ledger = filled(fresh(disk), disk=disk)
    before = model(ledger)
    ledger.begin_sync(whole=True)
    assert removed(ledger, 36) == 9
    ledger.close(ordered=True)
    disk.power_loss()
    assert model(opened(disk)) == before[36:]
