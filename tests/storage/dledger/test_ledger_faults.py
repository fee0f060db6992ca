"""A full disk is a named refusal and changes nothing; any other failure ends the store's use."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from ledger_kit import (
    FILE,
    LAYOUT,
    ROOT,
    Env,
    chain,
    env_of,
    finish,
    fresh,
    model,
    opened,
    saved_term,
    sim_disk,
    small,
    sync,
)

from actors.errors import CorruptLog, LogFull, StorageError
from actors.sim.disk import DiskOptions, SimDisk
from actors.storage.ledger.file_ledger import FileLedger, open_ledger
from actors.storage.ledger.ledger import IndexGone, TermVote
from actors.storage.log.expiry import HOUR_MS

BODIES = [bytes([97 + n]) * 952 for n in range(6)]


def filled(disk: SimDisk) -> FileLedger:
    ledger = fresh(disk)
    ledger.append_as_leader(BODIES, 1)
    sync(ledger, disk, whole=True)
    return ledger


ACTS: dict[str, tuple[str, Callable[[FileLedger], object]]] = {
    "data": ("data/", lambda ledger: ledger.append_as_leader([b"x" * 900] * 8, 2)),
    "index": ("index/", lambda ledger: ledger.append_as_leader([b"x"] * 70, 2)),
    "follower": (
        "data/",
        lambda ledger: ledger.append_as_follower(
            chain([b"x" * 900] * 8, term=2, index=6, pos=ledger.end_bytes)
        ),
    ),
    "vote": ("currterm", lambda ledger: ledger.save_vote(TermVote(2, "n1"))),
    "checkpoint": ("checkpoint", lambda ledger: ledger.save_checkpoint()),
    "cut": ("cut/", lambda ledger: finish(ledger.truncate(3))),
}


@pytest.mark.parametrize("name", ACTS)
def test_without_room_nothing_changes(name: str) -> None:
    disk = sim_disk()
    ledger = filled(disk)
    part, act = ACTS[name]
    before = model(ledger)
    operation = "prepare" if part in ("data/", "index/") else "write"
    if operation == "write":
        disk.faults.fail("write", errno.ENOSPC, path_part=part, skip=int(part != "cut/"))
    else:
        disk.faults.fail("prepare", errno.ENOSPC, path_part=part)
    with pytest.raises(LogFull):
        act(ledger)
    assert model(ledger) == before
    assert ledger.vote == TermVote(1, "n0")
    assert disk.listdir(LAYOUT.cut) == []
    act(ledger)
    ledger.append_as_leader([b"more"], 2)
    sync(ledger, disk)
    held = model(ledger)
    disk.power_loss()
    assert model(opened(disk)) == held


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("short", [False, True])
def test_a_failed_write_ends_the_use_and_a_start_finds_what_was_synced(
    name: str, short: bool
) -> None:
    disk = sim_disk()
    ledger = filled(disk)
    part, act = ACTS[name]
    if short:
        disk.faults.shorten_write(path_part=part)
    else:
        disk.faults.fail("write", errno.EIO, path_part=part)
    with pytest.raises(StorageError):
        act(ledger)
    with pytest.raises(StorageError, match="not used any more after a failure"):
        ledger.append_as_leader([b"y"], 3)
    with pytest.raises(StorageError, match="not used any more after a failure"):
        ledger.save_vote(TermVote(3, ""))
    ledger.close(ordered=True)
    disk.power_loss()
    again = opened(disk)
    assert [entry[2] for entry in model(again)][:6] == BODIES
    assert again.vote == TermVote(1, "n0")


def test_a_log_that_goes_on_elsewhere_on_a_full_disk_waits_with_its_first_bytes() -> None:
    """All of it has left by then. What stands before its first entry in that file comes with it."""
    disk = sim_disk()
    ledger = filled(disk)
    index, pos = ledger.next_index + 100, 30 * FILE + 500
    disk.faults.fail("prepare", errno.ENOSPC, path_part="data/", times=2)
    finish(ledger.restart_at(index, pos))
    assert (ledger.end_index, ledger.next_index, ledger.end_bytes) == (-1, index, pos)
    entries = chain([b"on"], term=2, index=index, pos=pos)
    with pytest.raises(LogFull):
        ledger.append_as_follower(entries)
    assert (ledger.end_index, ledger.end_bytes) == (-1, pos)
    ledger.append_as_follower(entries)
    assert model(ledger) == [(index, 2, b"on")]
    sync(ledger, disk)


def test_a_disk_that_is_full_takes_no_entries() -> None:
    """As it was at the last look; expiry makes room when it may."""
    disk = SimDisk(sim_disk()._rng, DiskOptions(capacity_bytes=40 * 4096))
    saved_term(disk)
    ledger = opened(disk)
    while not ledger._cleaner.is_full:
        ledger.append_as_leader([b"x" * 3900], 1)
        ledger.commit(ledger.end_index)
        sync(ledger, disk)
        if disk.usage(ROOT) > 0.91:
            assert ledger.delete_expired(-1) is None
    with pytest.raises(LogFull, match="90% full"):
        ledger.append_as_leader([b"x"], 1)
    with pytest.raises(LogFull, match="90% full"):
        ledger.append_as_follower(
            chain([b"x"], index=ledger.next_index, pos=ledger.end_bytes + 8 + 140)
        )
    deleted = 0
    while ledger.delete_expired(ledger.end_index) == "usage":
        deleted += 1
        disk._recount()
    assert deleted > 1
    assert not ledger._cleaner.is_full
    ledger.append_as_leader([b"x"], 1)


def aged() -> tuple[SimDisk, FileLedger]:
    disk = sim_disk()
    saved_term(disk)
    now = [1_700_000_000_000]
    base = env_of(disk)
    env = Env(
        network=base.network,
        disk=disk,
        rng=base.rng,
        wall_clock_ms=lambda: now[0],
        events=base.events,
    )
    ledger = finish(open_ledger(env, LAYOUT, small(delete_when_hours=tuple(range(24)))))
    ledger.append_as_leader([b"x" * 900] * 12, 1)
    sync(ledger, disk)
    now[0] += 73 * HOUR_MS
    return disk, ledger


def test_a_damaged_file_behind_the_one_that_expires_is_damage() -> None:
    """Not a failure of the disk, for which a restart is tried."""
    disk, ledger = aged()
    ledger.commit(11)
    second = f"{LAYOUT.commit_log}/{sorted(disk.listdir(LAYOUT.commit_log))[1]}"
    disk.open(second, "w").pwrite(bytes(512), 0)
    with pytest.raises(CorruptLog, match=f"{second}: it is the first of several files and begins"):
        ledger.delete_expired(99)


def test_a_bad_sector_where_the_oldest_file_begins_does_not_keep_it() -> None:
    disk, ledger = aged()
    ledger.commit(11)
    disk.faults.fail("read", errno.EIO, path_part=f"{LAYOUT.commit_log}/{0:020}", times=99)
    assert ledger.delete_expired(99) == "age"
    assert ledger.begin_index == 4


@pytest.mark.parametrize("snapshot", [False, True])
def test_nothing_goes_before_a_file_whose_first_entry_cannot_be_read(
    snapshot: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It says where the log begins then. Nobody ends of it, and the log says why."""
    disk, ledger = aged()
    ledger.commit(11)
    second = f"{LAYOUT.commit_log}/{sorted(disk.listdir(LAYOUT.commit_log))[1]}"
    disk.faults.fail("read", errno.EIO, path_part=second, times=99)
    for _ in range(3):
        assert ledger.delete_expired(11, snapshot=snapshot) is None
    (said,) = [record.getMessage() for record in caplog.records]
    assert f"no log file expires: {second} cannot be read where it begins" in said
    assert ledger.read(0, 4096)
    disk.faults.clear()
    assert ledger.delete_expired(11, snapshot=snapshot) == ("snapshot" if snapshot else "age")
    assert ledger.begin_index == 4
    assert caplog.records[-1].getMessage().endswith("log files expire again")


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_bad_sector_of_the_index_keeps_files_and_ends_nobody(
    snapshot: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It says which files hold nothing else than what may go."""
    disk, ledger = aged()
    ledger.commit(11)
    disk.faults.fail("read", errno.EIO, path_part="index/", times=99)
    for _ in range(3):
        assert ledger.delete_expired(11, snapshot=snapshot) is None
    (said,) = [record.getMessage() for record in caplog.records]
    assert f"no log file expires: {LAYOUT.index}/{0:020} cannot be read" in said
    disk.faults.clear()
    assert ledger.delete_expired(11, snapshot=snapshot) == ("snapshot" if snapshot else "age")
    assert ledger.begin_index == 4
    ledger.delete_expired(11, snapshot=snapshot)
    assert caplog.records[-1].getMessage().endswith("log files expire again")


def test_files_expire_up_to_the_floor_and_never_above_what_is_committed() -> None:
    disk, ledger = aged()
    assert ledger.delete_expired(99) is None  # nothing is committed
    ledger.commit(5)
    assert ledger.delete_expired(3) is None  # the floor lies in the first file
    assert ledger.delete_expired(4) == "age"
    assert ledger.begin_index == 4
    assert ledger.delete_expired(99) is None
    ledger.commit(11)
    assert ledger.delete_expired(99) == "age"
    assert ledger.delete_expired(99) is None  # the file being written
    assert (ledger.begin_index, ledger.end_index) == (8, 11)
    with pytest.raises(IndexGone):
        ledger.read(7, 1)
    ledger.save_checkpoint()
    disk.power_loss()
    again = opened(disk)
    assert (again.begin_index, again.end_index) == (8, 11)
    assert [entry[0] for entry in model(again)] == [8, 9, 10, 11]


def test_a_doubt_is_about_what_is_there() -> None:
    """What has left in order, or is not there yet, nobody needs to read."""
    disk, ledger = aged()
    ledger.commit(11)
    path = f"{LAYOUT.commit_log}/{0:020d}"
    ledger.verify(0, 99, 4096)
    disk.unlink(path)
    ledger.verify(12, 99, 4096)
    with pytest.raises(CorruptLog, match=f"{path}: the file is missing, which has entry 3 "):
        ledger.verify(3, 99, 4096)
    assert ledger.read(4, 4096)


def test_a_doubt_about_what_has_expired_is_none() -> None:
    _, ledger = aged()
    ledger.commit(11)
    assert ledger.delete_expired(99) == "age"
    ledger.verify(3, 99, 4096)
    ledger.verify(4, 99, 4096)


def test_what_is_not_synced_does_not_expire() -> None:
    disk, ledger = aged()
    ledger.append_as_leader([b"y" * 900] * 12, 1)
    ledger.commit(23)
    ledger._synced_bytes = FILE + 1
    assert ledger.delete_expired(23) == "age"
    assert ledger.delete_expired(23) is None
    assert ledger.begin_index == 4
    assert disk.exists(f"{LAYOUT.commit_log}/{FILE:020d}")


def test_index_files_leave_with_their_entries() -> None:
    disk, ledger = aged()
    ledger.append_as_leader([b"z"] * 200, 1)
    sync(ledger, disk, whole=True)
    ledger.commit(211)
    while ledger.delete_expired(211):
        pass
    assert ledger.begin_index > 32
    assert disk.listdir(LAYOUT.index)[0] == f"{ledger.begin_index // 32 * 1024:020d}"
    gone = ledger.begin_sync().gone
    assert f"{LAYOUT.index}/{0:020d}" in gone
    assert f"{LAYOUT.commit_log}/{0:020d}" in gone


def test_a_read_of_a_bad_sector_is_an_error_of_storage() -> None:
    disk = sim_disk()
    ledger = filled(disk)
    disk.faults.fail("read", errno.EIO, path_part="data/")
    with pytest.raises(StorageError, match="a read failed"):
        ledger.read(0, 100)
    assert ledger.read(0, 100)


def test_an_index_that_leads_astray_is_noticed() -> None:
    disk = sim_disk()
    ledger = filled(disk)
    file = disk.open(f"{LAYOUT.index}/{0:020d}", "w")
    record = file.pread(32, 32)
    for wrong in (
        bytes(32),
        record[:20] + bytes([0, 0, 0, 9]) + record[24:],
        record[:11] + b"\7" + record[12:],
    ):
        file.pwrite(wrong, 32)
        with pytest.raises(StorageError):
            ledger.read(1, 100)
    file.pwrite(record, 32)
    assert ledger.read(1, 100)


@pytest.mark.parametrize("offset", [20, 48, 1000 + 500, 1999])
def test_an_entry_that_rotted_is_given_to_nobody(offset: int) -> None:
    disk = sim_disk()
    ledger = filled(disk)
    disk.flip_bits(f"{LAYOUT.commit_log}/{0:020d}", offset, 1)
    with pytest.raises(StorageError, match=r"is not what was written|expected entry"):
        ledger.read(offset // 1000, 100)
    with pytest.raises(StorageError):
        ledger.read(0, 4000)
    assert ledger.read(2, 4000)


def test_an_entry_without_a_checksum_is_read() -> None:
    disk = sim_disk()
    ledger = filled(disk)
    disk.open(f"{LAYOUT.sums}/{0:020d}", "w").pwrite(bytes(16), 0)
    disk.flip_bits(f"{LAYOUT.commit_log}/{0:020d}", 100, 1)
    assert len(ledger.read(0, 4000)) == 4000


def test_a_stop_without_room_for_the_checkpoint_is_an_ordered_one() -> None:
    disk = sim_disk()
    ledger = filled(disk)
    ledger.commit(3)
    disk.faults.fail("write", errno.ENOSPC, path_part="checkpoint", skip=1)
    ledger.close(ordered=True)
    again = opened(disk)
    assert again.opened.was_clean
    assert again.committed_index == -1
