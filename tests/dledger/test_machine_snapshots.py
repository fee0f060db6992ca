"""Snapshots of a group's machine: taken, used at a start, passed over when damaged; the log's
beginning goes."""

from __future__ import annotations

import errno
from typing import Any

import pytest
import trio
from group_kit import Group, opened
from machine_kit import (
    FILE_ENTRIES,
    SNAPSHOTS,
    Book,
    Shelf,
    appended,
    begin_of,
    begins,
    disk_of,
    failed,
    grown,
    other,
    snapshot_dir,
    snapshots,
)

from actors.errors import OutcomeUnknown
from actors.events.dledger import SnapshotFailed, SnapshotLoaded, SnapshotSaved
from actors.events.runtime import DeadLettered
from actors.storage.layout import LedgerLayout


@pytest.mark.parametrize("lazy", [False, True])
async def test_two_are_kept_and_the_log_begins_later(autojump_clock: Any, lazy: bool) -> None:
    shelf = Shelf(made=lambda name, book: setattr(book, "lazy", lazy))
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        leader = await group.leader()
        await grown(group, shelf, leader)
        for name in group.names:
            older, _newest = snapshots(group, name)
            await group.until(lambda name=name: begins(group, name) > 0)
            begin = await begin_of(group, name)
            assert older - FILE_ENTRIES <= begin <= older
        saved = [each.index for each in group.events(SnapshotSaved, leader)]
        assert saved == sorted(set(saved))
        done = await group.append(leader, b"goes on")
        await group.until_shown(done.last_index)


async def test_in_memory_the_beginning_goes_too(autojump_clock: Any) -> None:
    shelf = Shelf()
    async with opened(machine=shelf, store="memory", **SNAPSHOTS) as group:
        leader = await group.leader()
        bodies = await grown(group, shelf, leader)
        assert await begin_of(group, leader) == snapshots(group, leader)[0]
        follower = other(group, leader)
        await group.kill(follower)
        await group.start(follower)
        await group.until(shelf.all_have(group, bodies))
        assert shelf.books[follower].loads == 1, "it had nothing, and got one"


async def test_a_member_starts_from_snapshot_and_log(autojump_clock: Any) -> None:
    shelf = Shelf()
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        leader = await group.leader()
        bodies = await grown(group, shelf, leader)
        follower = other(group, leader)
        newest = snapshots(group, follower)[-1]
        await group.power_loss(follower)
        bodies += await appended(group, leader, 120, 3)
        await group.start(follower)
        await group.until(shelf.all_have(group, bodies))
        assert shelf.books[follower].loads == 1
        assert shelf.books[follower].indexes[0] == newest + 1
        (loaded,) = group.events(SnapshotLoaded, follower)
        assert loaded.index == newest
        lost = [each.message_type for each in group.events(DeadLettered, follower)]
        assert not {"Applied", "MachineAt"} & set(lost), "sent to actors that had yet to start"


@pytest.mark.parametrize("what", ["data", "snapshot_meta"])
async def test_a_damaged_one_is_passed_over_for_the_older(autojump_clock: Any, what: str) -> None:
    shelf = Shelf()
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        leader = await group.leader()
        bodies = await grown(group, shelf, leader)
        follower = other(group, leader)
        older, newest = snapshots(group, follower)
        await group.kill(follower)
        damage(group, follower, newest, what)
        await group.start(follower)
        await group.until(shelf.all_have(group, bodies))
        assert shelf.books[follower].indexes[0] == older + 1
        (failed,) = group.events(SnapshotFailed, follower)
        assert failed.index == newest
        bodies += await appended(group, leader, 120, 25)
        await group.until(lambda: newest not in snapshots(group, follower))


def damage(group: Group, name: str, index: int, what: str = "data") -> None:
    file = disk_of(group, name).open(f"{snapshot_dir(name)}/snapshot_{index}/{what}", "w")
    file.pwrite(b"\0", 3)
    file.sync()
    file.close()


def forget_all_but_its_vote(group: Group, name: str) -> None:
    """As the refusal says: of the member's folder `currterm` is left."""
    disk, root = disk_of(group, name), snapshot_dir(name).removesuffix("/snapshot")
    folders = LedgerLayout(root).folders
    for path in [f"{root}/{each}" for each in disk.listdir(root) if each != "currterm"]:
        remove = disk.rmtree if path in folders else disk.unlink
        remove(path)
    assert disk.listdir(root) == ["currterm"]


async def test_without_a_good_one_and_without_the_log_the_start_is_refused_by_name(
    autojump_clock: Any,
) -> None:
    shelf = Shelf()
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        leader = await group.leader()
        await grown(group, shelf, leader)
        follower = other(group, leader)
        await group.until(lambda: begins(group, follower) > 0)
        await group.kill(follower)
        for index in snapshots(group, follower):
            damage(group, follower, index)
        await group.start(follower)
        text = await failed(group, follower)
        assert "the state machine needs entry 0, the log begins at" in text
        assert "remove all but currterm" in text
        assert "remove all but currterm" in text
        done = await group.append(leader, b"others go on")
        assert done.copies == 2
        forget_all_but_its_vote(group, follower)
        await group.start(follower)
        await group.until_shown(done.last_index, follower)
        assert group.leaders == [leader]


async def test_appends_go_on_while_a_large_one_is_written(autojump_clock: Any) -> None:
    shelf = Shelf(made=lambda name, book: setattr(book, "filler", 1 << 20))
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        leader = await group.leader()
        bodies = await appended(group, leader, 0, 15)
        disk_of(group, leader).faults.slow_syncs(1.0, 60.0)
        during = 0
        while not group.events(SnapshotSaved, leader):
            bodies += await appended(group, leader, len(bodies), 1)
            during += "tmp" in disk_of(group, leader).listdir(snapshot_dir(leader))
            await trio.sleep(0.01)
        assert during > 10
        disk_of(group, leader).faults.clear()
        await group.until(shelf.all_have(group, bodies))


async def test_a_full_disk_costs_a_snapshot_and_nothing_else(autojump_clock: Any) -> None:
    shelf = Shelf()
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        leader = await group.leader()
        follower = other(group, leader)
        faults = disk_of(group, follower).faults
        path = f"{snapshot_dir(follower)}/tmp/data"
        faults.fail("write", errno.ENOSPC, path_part=path)
        bodies = await appended(group, leader, 0, 30)
        await group.until(lambda: bool(group.events(SnapshotFailed, follower)))
        assert "no room" in group.events(SnapshotFailed, follower)[0].reason
        bodies += await appended(group, leader, 30, 30)
        await group.until(lambda: bool(group.events(SnapshotSaved, follower)))
        await group.until(shelf.all_have(group, bodies))


def fail() -> None:
    raise ValueError("cannot be written down")


async def test_a_save_that_raises_ends_the_member(autojump_clock: Any) -> None:
    shelf = Shelf()
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        leader = await group.leader()
        follower = other(group, leader)
        shelf.books[follower].breaks["save"] = fail
        await appended(group, leader, 0, 25)
        text = await failed(group, follower)
        what = "the state machine's save() failed: ValueError: cannot be written down"
        assert text == f"group ledger: {what}"


async def test_a_save_without_a_byte_ends_the_member(autojump_clock: Any) -> None:
    class Silent(Book):
        def save(self) -> list[bytes]:
            return []

    async with opened(1, machine=lambda name: Silent(), **SNAPSHOTS) as group:
        leader = await group.leader()
        with pytest.raises(OutcomeUnknown):
            await appended(group, leader, 0, 200)
        what = "the state machine's save() gave no byte"
        assert await failed(group, leader) == f"group ledger: {what}"
