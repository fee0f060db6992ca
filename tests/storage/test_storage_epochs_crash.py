"""A log and its epochs, whatever dies between two steps of a change: each byte stays of the epoch
in which it was written."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from storage_kit import finish, record
from store_kit import ROOT, sim_disk, small_group
from store_tree import Died, die_after

from actors.epochs import Epoch, History, Kind, compare
from actors.sim.disk import SimDisk
from actors.storage.commitlog.epoch_store import EpochStore, record_begins
from actors.storage.commitlog.opening import OpenedStore, open_store
from actors.storage.commitlog.store_messages import Guard
from actors.storage.layout import StoreLayout
from actors.storage.log.log_reader import LogReader

LAYOUT = StoreLayout(ROOT)
GROUP = small_group()
S = 4096
SIZE = 1024
"""Bytes of a record: four fill a file."""
OVERHEAD = len(record(0, b""))


def history(*epochs: tuple[int, int]) -> History:
    return tuple(Epoch(number, 0, "", start) for number, start in epochs)


def open_log(disk: SimDisk, cut: int | None = None) -> OpenedStore:
    guard = Guard(keeper=None, promotion=None, cut_bytes=cut)  # type: ignore[arg-type]
    return finish(open_store(disk, LAYOUT, GROUP, is_master=False, owner="n1", guard=guard))


def open_epochs(disk: SimDisk, store: OpenedStore) -> EpochStore:
    log = store.log
    with closing(LogReader(disk, LAYOUT.commit_log, S)) as reader:
        begins = record_begins(reader, log.written_bytes)
        return EpochStore.open(disk, LAYOUT, log.min_bytes, log.written_bytes, begins)


def write(disk: SimDisk, store: OpenedStore, epoch: int, count: int) -> None:
    """Records that say of which epoch they are, on the disk when this returns."""
    log = store.log
    for _ in range(count):
        at = log.written_bytes
        log.append(record(at, b"%d" % epoch * (SIZE - OVERHEAD)))
        disk.open(log.path_of(at), "w").sync()
    disk.sync_dir(LAYOUT.commit_log)
    store.mark.write((log.written_bytes,))
    store.mark.sync()


def written_in(disk: SimDisk, store: OpenedStore) -> list[int]:
    """The epoch in which each record of the log was written, by what it says."""
    log = store.log
    with closing(LogReader(disk, LAYOUT.commit_log, S)) as reader:
        starts = range(log.min_bytes, log.written_bytes, SIZE)
        return [int(reader.read(at, SIZE, log.written_bytes)[600:601]) for at in starts]


def told_of(kept: EpochStore, store: OpenedStore) -> list[int]:
    """The same by the log's history."""
    starts = range(store.log.min_bytes, store.log.written_bytes, SIZE)
    return [[each.number for each in kept.history if each.start_bytes <= at][-1] for at in starts]


def deaths(
    monkeypatch: pytest.MonkeyPatch,
    before: Callable[[SimDisk], None],
    act: Callable[[SimDisk], None],
    *,
    loses_power: bool,
) -> Iterator[tuple[SimDisk, bool]]:
    """Disks of machines that died before each step of `act`, and whether they did; the last one
    did not."""
    steps, died = 0, True
    while died:
        disk = sim_disk(steps)
        before(disk)
        disk.kill()
        die_after(monkeypatch, steps)
        try:
            act(disk)
            died = False
        except Died:
            died = True
        monkeypatch.undo()
        if loses_power:
            disk.power_loss(random.Random(steps))
        else:
            disk.kill()
        yield disk, died
        steps += 1
    assert steps > 20


def of_one_master(disk: SimDisk) -> None:
    """Three files: six records of epoch 1, then four of epoch 2."""
    store = open_log(disk)
    kept = open_epochs(disk, store)
    for number, count in ((1, 6), (2, 4)):
        kept.begin(number, store.log.written_bytes)
        write(disk, store, number, count)
    disk.sync_dir(ROOT)


BEFORE = [1] * 6 + [2] * 4
END = len(BEFORE) * SIZE


@pytest.mark.checklist(20, of="autoswitch")
@pytest.mark.parametrize("loses_power", [False, True])
def test_a_master_that_dies_as_it_begins_an_epoch(
    monkeypatch: pytest.MonkeyPatch, loses_power: bool
) -> None:
    def act(disk: SimDisk) -> None:
        store = open_log(disk)
        open_epochs(disk, store).begin(3, store.log.written_bytes)
        write(disk, store, 3, 2)

    for disk, died in deaths(monkeypatch, of_one_master, act, loses_power=loses_power):
        store = open_log(disk)
        kept, records = open_epochs(disk, store), written_in(disk, store)
        assert kept.problem == ""
        assert records[: len(BEFORE)] == BEFORE
        assert died or records == [*BEFORE, 3, 3]
        assert told_of(kept, store) == records


@pytest.mark.parametrize("loses_power", [False, True])
def test_a_slave_that_dies_as_it_follows_through_epochs(
    monkeypatch: pytest.MonkeyPatch, loses_power: bool
) -> None:
    """Also through one without bytes, and one that begins with a file."""
    master = history((1, 0), (2, 6 * SIZE), (4, END), (5, END), (6, 12 * SIZE))

    def act(disk: SimDisk) -> None:
        store = open_log(disk)
        kept = open_epochs(disk, store)
        for number in (5, 5, 6, 6):
            kept.follow(master, store.log.written_bytes)
            write(disk, store, number, 1)

    for disk, died in deaths(monkeypatch, of_one_master, act, loses_power=loses_power):
        store = open_log(disk)
        kept, records, end = open_epochs(disk, store), written_in(disk, store), 0
        assert kept.problem == ""
        assert records == [*BEFORE, 5, 5, 6, 6][: len(records)]
        assert died or len(records) == len(BEFORE) + 4
        assert told_of(kept, store) == records
        end = store.log.written_bytes
        assert compare(kept.history, end, master, 99 * SIZE).kind is Kind.FITS


@pytest.mark.checklist(14, 15, of="autoswitch")
@pytest.mark.parametrize("cut", [8 * SIZE, 5 * SIZE, 0])
@pytest.mark.parametrize("loses_power", [False, True])
def test_a_slave_that_dies_as_it_is_cut(
    monkeypatch: pytest.MonkeyPatch, loses_power: bool, cut: int
) -> None:
    """The log is cut as its store opens, then its history: whatever dies, no byte behind the cut
    comes back (autoswitch-ha.md T10), and none is of an epoch that is not its own.
    """
    starts = [(1, 0), (2, 6 * SIZE)]
    master = history(*[each for each in starts if each[1] < cut], (4, cut))

    def act(disk: SimDisk) -> None:
        store = open_log(disk, cut)
        open_epochs(disk, store).follow(master, store.log.written_bytes)
        write(disk, store, 4, 1)

    kept_count = cut // SIZE
    for disk, died in deaths(monkeypatch, of_one_master, act, loses_power=loses_power):
        # It is not known whether it was cut: its master is asked again.
        store = open_log(disk)
        kept, records = open_epochs(disk, store), written_in(disk, store)
        end = store.log.written_bytes
        assert kept.problem == ""
        assert told_of(kept, store) == records
        assert records in (
            [*BEFORE[:kept_count], 4],
            BEFORE[:kept_count],
            *([BEFORE[: len(records)]] if died else []),
        )
        found = compare(kept.history, end, master, 99 * SIZE)
        if 4 in records or end <= cut:
            assert found.kind is Kind.FITS
        else:
            assert found.consistent_bytes == cut
        # Had it become a master here, nobody would take its bytes for another epoch's.
        kept.begin(9, end)
        write(disk, store, 9, 1)
        assert told_of(kept, store) == [*records, 9]


@pytest.mark.checklist(21, of="autoswitch")
@pytest.mark.parametrize("loses_power", [False, True])
def test_a_replica_that_dies_as_its_files_expire(
    monkeypatch: pytest.MonkeyPatch, loses_power: bool
) -> None:
    def act(disk: SimDisk) -> None:
        store = open_log(disk)
        kept = open_epochs(disk, store)
        for _ in range(2):
            kept.expire(store.log.delete_first())
        kept.begin(3, store.log.written_bytes)
        write(disk, store, 3, 1)

    for disk, died in deaths(monkeypatch, of_one_master, act, loses_power=loses_power):
        store = open_log(disk)
        kept, records, gone = open_epochs(disk, store), written_in(disk, store), 0
        gone = store.log.min_bytes // SIZE
        assert kept.problem == ""
        assert gone in ((0, 4, 8) if died else (8,))
        assert records[: len(BEFORE) - gone] == BEFORE[gone:]
        assert told_of(kept, store) == records
        assert [each.number for each in kept.history][:1] == ([2] if gone == 8 else [1])
