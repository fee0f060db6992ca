"""Where a log begins: a first file that was deleted in order is none that was lost."""

from __future__ import annotations

import pytest
from ledger_kit import (
    FILE,
    LAYOUT,
    chain,
    dying_after,
    finish,
    fresh,
    model,
    opened,
    sim_disk,
    sync,
)

from actors.errors import CorruptLog
from actors.sim.disk import SimDisk
from actors.storage.files.side_file import SideFile
from actors.storage.ledger.file_ledger import FileLedger

FIRST = f"{LAYOUT.commit_log}/{0:020d}"
SECOND = f"{LAYOUT.commit_log}/{FILE:020d}"


def filled(disk: SimDisk) -> FileLedger:
    """Four entries in each file."""
    ledger = fresh(disk)
    ledger.append_as_leader([b"x" * 900] * 12, 1)
    sync(ledger, disk, whole=True)
    ledger.commit(11)
    return ledger


def stopped(ledger: FileLedger, disk: SimDisk, *, clean: bool) -> None:
    if clean:
        ledger.close(ordered=True)
    else:
        disk.kill()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("files", [1, 2])
def test_a_lost_beginning_refuses_the_start(clean: bool, files: int) -> None:
    disk = sim_disk()
    stopped(filled(disk), disk, clean=clean)
    for number in range(files):
        disk.unlink(f"{LAYOUT.commit_log}/{number * FILE:020d}")
    first = f"{LAYOUT.commit_log}/{files * FILE:020d}"
    for _ in range(2):
        with pytest.raises(CorruptLog) as refused:
            opened(disk)
        assert str(refused.value).startswith(
            f"{FIRST}: the file with which the log began is missing; {first} is the first now;"
        )
        assert "(OPERATING.md, A lost disk" in str(refused.value)
    disk.unlink(LAYOUT.synced)
    again = opened(disk)
    assert (again.begin_index, again.end_index) == (4 * files, 11)


@pytest.mark.parametrize("clean", [True, False])
def test_a_beginning_that_was_deleted_in_order_is_none(clean: bool) -> None:
    disk = sim_disk()
    ledger = filled(disk)
    assert ledger.delete_expired(11, snapshot=True) == "snapshot"
    stopped(ledger, disk, clean=clean)
    disk.power_loss()
    again = opened(disk)
    assert (again.begin_index, again.end_index) == (4, 11)
    stopped(again, disk, clean=clean)
    disk.unlink(SECOND)
    with pytest.raises(CorruptLog, match=f"{SECOND}: the file with which the log began is missing"):
        opened(disk)


def test_a_deletion_that_breaks_off_anywhere_refuses_no_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps, found = 0, set()
    while True:
        for power in (False, True):
            disk = sim_disk(steps)
            ledger = filled(disk)
            with dying_after(monkeypatch, steps) as died:
                ledger.delete_expired(11, snapshot=True)
            disk.kill()
            if power:
                disk.power_loss()
            again = opened(disk)
            assert again.end_index == 11
            found.add(again.begin_index)
        if not died[0]:
            break
        steps += 1
    assert found == {0, 4}


@pytest.mark.parametrize("base", [5 * FILE, 20 * FILE])
def test_a_log_that_begins_elsewhere_than_it_did_is_whole(base: int) -> None:
    """A leader has re-based this follower, once or twice, up or down."""
    disk = sim_disk()
    ledger = filled(disk)
    finish(ledger.restart_at(500, 9 * FILE))
    ledger.append_as_follower(chain([b"b"], index=500, pos=9 * FILE))
    sync(ledger, disk)
    finish(ledger.restart_at(700, base))
    ledger.append_as_follower(chain([b"c"], index=700, pos=base))
    sync(ledger, disk)
    disk.power_loss()
    for _ in range(2):
        again = opened(disk)
        assert [each[2] for each in model(again)] == [b"c"]
        again.close(ordered=True)


def test_another_program_may_have_deleted_what_it_wrote_behind() -> None:
    """A Java member that ran on the folder behind a clean stop of ours, and let go of a file."""
    disk = sim_disk()
    ledger = filled(disk)
    ledger.close(ordered=True)
    mark = disk.open(LAYOUT.synced, "r").pread(0, 4096)
    ledger = opened(disk)
    ledger.append_as_leader([b"java's"], 2)
    ledger.close(ordered=True)
    disk.open(LAYOUT.synced, "w").pwrite(mark, 0)
    disk.unlink(FIRST)
    assert opened(disk).begin_index == 4


def test_a_mark_of_an_earlier_version_knows_of_no_beginning() -> None:
    disk = sim_disk()
    filled(disk).close(ordered=True)
    _, values = SideFile.open(disk, LAYOUT.synced, 4)
    assert values is not None
    disk.unlink(LAYOUT.synced)
    SideFile.open(disk, LAYOUT.synced, 3)[0].write(values[:3])
    disk.unlink(FIRST)
    again = opened(disk)
    assert (again.begin_index, again.opened.was_clean) == (4, True)
    again.close(ordered=True)
    disk.unlink(SECOND)
    with pytest.raises(CorruptLog, match=f"{SECOND}: the file with which the log began is"):
        opened(disk)
