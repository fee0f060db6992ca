"""A member that lacks what has left the leader's log gets a snapshot, whatever happens then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import trio
from group_kit import GROUP, Group, opened
from machine_kit import (
    SNAPSHOTS,
    Book,
    Shelf,
    appended,
    begin_of,
    begins,
    disk_of,
    grown,
    other,
    snapshot_dir,
    snapshots,
)

from actors.events.dledger import (
    DispatcherChanged,
    SnapshotFailed,
    SnapshotLoaded,
    SnapshotRefused,
    SnapshotSaved,
)
from actors.sim.disk import SimDisk
from actors.sim.disk.disk import SimSyncer
from wire.dledger.codes import ResponseCode
from wire.dledger.rpc import InstallSnapshotRequest


def emptied(group: Group, name: str) -> None:
    """Its disk is a new one."""
    disk_of(group, name).rmtree(f"/data/{name}")


async def needy(group: Group, shelf: Shelf) -> tuple[str, str, list[str]]:
    """The leader; a member that is down and has nothing; the bodies."""
    leader = await group.leader()
    bodies = await grown(group, shelf, leader)
    await group.until(lambda: begins(group, leader) > 0)
    follower = other(group, leader)
    await group.kill(follower)
    emptied(group, follower)
    return leader, follower, bodies


def filled(size: int) -> Shelf:
    """Snapshots of so many bytes more."""
    return Shelf(made=lambda name, book: setattr(book, "filler", size))


async def moment(reached: Callable[[], bool], disk: SimDisk, path: str) -> None:
    """Wait for a moment of an install; it is looked for closely once that file is there."""
    look_s = 0.001
    with trio.fail_after(60):
        while not reached():
            if disk.exists(path):
                look_s = 0.0001
            await trio.sleep(look_s)


@pytest.mark.parametrize("size", [0, 5 << 20])
async def test_an_empty_member_joins(autojump_clock: Any, size: int) -> None:
    """In one request as 0.4.0's, or in several."""
    shelf = filled(size)
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        leader, follower, bodies = await needy(group, shelf)
        await group.start(follower)
        await group.until(shelf.all_have(group, bodies))
        (saved,) = [each for each in group.events(SnapshotSaved, follower) if each.installed]
        assert saved.index == snapshots(group, leader)[-1]
        assert saved.size_bytes > size
        assert shelf.books[follower].loads == 1
        assert await begin_of(group, follower) == saved.index
        bodies += await appended(group, leader, 120, 5)
        await group.until(shelf.all_have(group, bodies))
        assert await group.entries(follower, saved.index) == await group.entries(
            leader, saved.index
        )


async def test_what_joined_so_lives_on_and_leads(autojump_clock: Any) -> None:
    shelf = Shelf()
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        leader, follower, bodies = await needy(group, shelf)
        await group.start(follower)
        await group.until(shelf.all_have(group, bodies))
        await group.power_loss(follower)
        await group.start(follower)
        await group.until(shelf.all_have(group, bodies))
        await trio.sleep(10)
        if (leader := await group.leader()) != follower:
            third = next(name for name in group.names if name not in (leader, follower))
            await group.kill(third)
            bodies += await appended(group, leader, 120, 30)
            await group.kill(leader)
            await group.start(third)  # it lacks the last entries
            leader = await group.leader()
        assert leader == follower
        bodies += await appended(group, leader, 150, 3)
        await group.until(shelf.all_have(group, bodies))


async def test_one_that_was_away_for_long_gets_one_too(autojump_clock: Any) -> None:
    shelf = Shelf()
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        leader = await group.leader()
        follower = other(group, leader)
        bodies = await appended(group, leader, 0, 10)
        await group.until(shelf.all_have(group, bodies))
        await group.kill(follower)
        bodies += await appended(group, leader, 10, 120)
        await group.until(lambda: begins(group, leader) > 4096)
        await group.start(follower)
        await group.until(shelf.all_have(group, bodies))
        assert shelf.books[follower].loads == 1


@pytest.mark.parametrize("when", ["pieces", "sync", "load", "rename"])
async def test_a_restart_in_the_middle_does_no_harm(autojump_clock: Any, when: str) -> None:
    shelf = filled(4 << 20)
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        _, follower, bodies = await needy(group, shelf)
        await group.start(follower)
        disk = disk_of(group, follower)
        folder = f"/data/{follower}/groups/{GROUP}/snapshot"

        def reached() -> bool:
            names = disk.listdir(folder)
            if when == "pieces":
                path = f"{folder}/install_tmp/data"
                return disk.exists(path) and disk.stat(path).size_bytes > (2 << 20)
            if when == "sync":
                return disk.exists(f"{folder}/install_tmp/snapshot_meta")
            if when == "rename":
                return any(name.startswith("snapshot_") for name in names)
            return bool(group.events(SnapshotSaved, follower)[-1:]) and "install_tmp" not in names

        await moment(reached, disk, f"{folder}/install_tmp")
        await group.power_loss(follower)
        await trio.sleep(1)
        await group.start(follower)
        await group.until(shelf.all_have(group, bodies))


async def test_the_leader_may_be_killed_during_it(autojump_clock: Any) -> None:
    shelf = filled(4 << 20)
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        leader, follower, bodies = await needy(group, shelf)
        await group.start(follower)
        disk = disk_of(group, follower)
        path = f"/data/{follower}/groups/{GROUP}/snapshot/install_tmp/data"
        await moment(
            lambda: disk.exists(path) and disk.stat(path).size_bytes >= (2 << 20), disk, path
        )
        await group.kill(leader)
        await group.start(leader)
        await group.until(shelf.all_have(group, bodies), within_s=120.0)
        done = await group.append(await group.leader(), b"and on")
        await group.until_shown(done.last_index)


async def test_appends_and_further_snapshots_go_on_during_it(autojump_clock: Any) -> None:
    """What is being sent stays, and the log from its index on."""
    shelf = filled(3 << 19)
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        leader, follower, bodies = await needy(group, shelf)
        before = len(group.events(SnapshotSaved, leader))
        await group.start(follower)
        while not group.events(SnapshotLoaded, follower):
            bodies += await appended(group, leader, len(bodies), 1)
            await trio.sleep(0.01)
        assert len(group.events(SnapshotSaved, leader)) > before + 2
        await group.until(shelf.all_have(group, bodies))
        assert len(group.events(SnapshotLoaded, follower)) == 1
        await group.until(lambda: len(snapshots(group, leader)) == 2, within_s=30.0)


async def test_a_damaged_one_is_said_and_the_next_one_serves(autojump_clock: Any) -> None:
    shelf = Shelf()
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        leader, follower, bodies = await needy(group, shelf)
        newest = snapshots(group, leader)[-1]
        path = f"/data/{leader}/groups/{GROUP}/snapshot/snapshot_{newest}/data"
        file = disk_of(group, leader).open(path, "w")
        file.pwrite(b"\0", 3)
        file.close()
        await group.start(follower)
        await group.until(lambda: bool(group.events(SnapshotFailed, leader)))
        assert "checksum" in group.events(SnapshotFailed, leader)[0].reason
        assert not group.events(SnapshotLoaded, follower)
        bodies += await appended(group, leader, 120, 25)
        await group.until(shelf.all_have(group, bodies))


async def test_a_full_disk_there_delays_it(autojump_clock: Any) -> None:
    shelf = filled(3 << 20)
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        leader, follower, bodies = await needy(group, shelf)
        disk_of(group, follower).faults.fail(
            "write", 28, path_part="install_tmp/data", skip=1, times=2
        )
        await group.start(follower)
        await group.until(shelf.all_have(group, bodies))
        failed = group.events(SnapshotFailed, follower)
        assert len(failed) == 2
        assert "no room" in failed[0].reason
        states = [
            each.state for each in group.events(DispatcherChanged, leader) if each.peer == follower
        ]
        assert states.count("INSTALL_SNAPSHOT") >= 3


async def test_without_a_machine_the_log_is_sent_from_its_beginning(autojump_clock: Any) -> None:
    async with opened(data_file_bytes=4096) as group:
        leader = await group.leader()
        done = await group.append(leader, b"x")
        await group.until_shown(done.last_index)
        found = await group.call(other(group, leader), request(group, leader, data=b"x"))
        assert found.code == ResponseCode.UNSUPPORTED


# ---- who may install ----


def request(group: Group, leader: str, **fields: Any) -> InstallSnapshotRequest:
    role = group.role(leader)
    assert role is not None
    base: dict[str, Any] = {
        "group": GROUP,
        "leader_id": leader,
        "local_id": leader,
        "remote_id": other(group, leader),
        "term": role.term,
        "last_included_index": 500,
        "last_included_term": role.term,
    }
    return InstallSnapshotRequest(**base | fields)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"data": b"x", "leader_id": "n9"}, ResponseCode.INCONSISTENT_LEADER),
        ({"data": b"x", "term": -1}, ResponseCode.EXPIRED_TERM),
        ({"data": b"x", "term": 9}, ResponseCode.NOT_FOLLOWER),
        ({"data": b""}, ResponseCode.UNEXPECTED_ARGUMENT),
        ({}, ResponseCode.UNEXPECTED_ARGUMENT),
        ({"data": b"x", "last_included_index": -1}, ResponseCode.UNEXPECTED_ARGUMENT),
        ({"data": b"x", "last_included_index": 1 << 62}, ResponseCode.UNEXPECTED_ARGUMENT),
        ({"data": b"x", "last_included_term": 7}, ResponseCode.UNEXPECTED_ARGUMENT),
        ({"data": b"x", "last_included_index": 0}, ResponseCode.REPEATED_REQUEST),
        ({"piece": b"x", "piece_at": 0}, ResponseCode.UNEXPECTED_ARGUMENT),
        (
            {"piece": b"x", "piece_at": 7, "total_bytes": 9, "total_crc": 1},
            ResponseCode.INSTALL_SNAPSHOT_ERROR,
        ),
        (
            {"piece": b"x", "piece_at": 0, "total_bytes": 1, "total_crc": 1},
            ResponseCode.INSTALL_SNAPSHOT_ERROR,
        ),
        (
            {"piece": b"xy", "piece_at": 0, "total_bytes": 1, "total_crc": 1},
            ResponseCode.UNEXPECTED_ARGUMENT,
        ),
        (
            {"piece": b"x", "piece_at": 0, "total_bytes": 1 << 50, "total_crc": 1},
            ResponseCode.UNEXPECTED_ARGUMENT,
        ),
        ({"piece": b"x", "piece_at": 0, "total_bytes": 9, "total_crc": 1}, ResponseCode.SUCCESS),
    ],
)
async def test_a_request_that_does_not_fit_is_refused(
    autojump_clock: Any, fields: dict[str, Any], code: ResponseCode
) -> None:
    """dledger.md 11.4, item 1; bug B4."""
    shelf = Shelf()
    async with opened(machine=shelf) as group:
        leader = await group.leader()
        done = await group.append(leader, b"x")
        await group.until_shown(done.last_index)
        follower = other(group, leader)
        found = await group.call(follower, request(group, leader, **fields))
        assert found.code == code
        assert shelf.books[follower].bodies == ["x"]
        assert not group.events(SnapshotSaved)


async def test_one_that_the_machine_has_passed_meanwhile_is_not_loaded(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever leads pushes on while its sync takes long: the machine would go back."""
    shelf, goes_on, sync = Shelf(), trio.Event(), SimSyncer.sync

    async def slow(self: SimSyncer, paths: Sequence[str]) -> None:
        if any("install_tmp" in path for path in paths):
            await goes_on.wait()
        await sync(self, paths)

    monkeypatch.setattr(SimSyncer, "sync", slow)
    async with opened(machine=shelf) as group:
        leader = await group.leader()
        follower = other(group, leader)
        bodies = await appended(group, leader, 0, 3)
        await group.until(shelf.all_have(group, bodies))
        index = (await group.offsets(leader)).written + 4
        installs = request(group, leader, data=b"[]\n", last_included_index=index)
        codes = []

        async def install() -> None:
            codes.append((await group.call(follower, installs)).code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(install)
            disk, folder = disk_of(group, follower), snapshot_dir(follower)
            await group.until(lambda: disk.exists(f"{folder}/install_tmp/snapshot_meta"))
            bodies += await appended(group, leader, 3, 5)  # up to it, and no further
            await group.until(shelf.all_have(group, bodies))
            goes_on.set()
        assert codes == [ResponseCode.REPEATED_REQUEST]
        assert shelf.books[follower].bodies == bodies
        assert disk.listdir(folder) == []
        bodies += await appended(group, leader, 8, 3)
        await group.until(shelf.all_have(group, bodies))


async def test_a_leader_takes_none(autojump_clock: Any) -> None:
    async with opened(machine=Shelf()) as group:
        leader = await group.leader()
        found = await group.call(
            leader, request(group, leader, data=b"x", remote_id=leader, leader_id="n9")
        )
        assert found.code == ResponseCode.NOT_FOLLOWER


async def test_a_leader_that_sends_none_is_refused_by_name(autojump_clock: Any) -> None:
    """Two members have no machine, as Java's: the third cannot begin where their log does."""
    shelf = Shelf()
    async with opened(machine=shelf, **SNAPSHOTS) as group:
        leader, follower, _ = await needy(group, shelf)
        group.machine = None
        for name in list(group.systems):
            await group.kill(name)
            await group.start(name)
        leader = await group.leader()
        group.machine = shelf
        await group.start(follower)
        await group.until(lambda: bool(group.events(SnapshotRefused, follower)))
        said = group.events(SnapshotRefused, follower)[0]
        assert said.peer == leader
        assert said.reason.endswith("the state machine is at -1")
        await trio.sleep(20)
        assert len(group.events(SnapshotRefused, follower)) == 1
        assert isinstance(shelf.books[follower], Book)
        assert shelf.books[follower].bodies == []
        done = await group.append(leader, b"others go on")
        assert done.copies == 2
