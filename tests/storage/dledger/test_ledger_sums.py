"""The checksums beside a log: half of one says nothing, a whole one that differs ends the log."""

from __future__ import annotations

import pytest
from entry_kit import encode_entry, new_entry
from ledger_kit import LAYOUT, dying_after, fresh, model, opened, sim_disk, sync
from ledger_tools_kit import checked

from actors.errors import CorruptLog
from actors.sim.disk import SimDisk
from actors.storage.ledger.per_index import SUM_BYTES, sums_at

BODIES = [bytes([97 + n]) * 300 for n in range(4)]
ENTRIES = [(n, 1, body) for n, body in enumerate(BODIES)]
PATH = f"{LAYOUT.sums}/{0:020d}"
TAIL = range(len(BODIES) * SUM_BYTES)
STEPS_MAX = 60


def filled(*, whole: bool = True) -> SimDisk:
    """A store whose process has ended, all of it below the mark."""
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader(BODIES, 1)
    sync(ledger, disk, whole=whole)
    sync(ledger, disk, whole=whole)
    disk.kill()
    return disk


def sums_in(disk: SimDisk) -> bytes:
    return disk.open(PATH, "r").pread(0, len(TAIL))


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("left", TAIL)
def test_a_write_that_broke_off_anywhere_takes_no_entry_away(left: int, whole: bool) -> None:
    disk = filled(whole=whole)
    good = sums_in(disk)
    disk.open(PATH, "w").pwrite(bytes(len(TAIL) - left), left)
    again = opened(disk)
    assert model(again) == ENTRIES
    assert sums_in(disk) == good


@pytest.mark.parametrize("left", range(SUM_BYTES))
def test_an_entry_is_read_beside_half_of_its_checksum(left: int) -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader(BODIES, 1)
    disk.open(PATH, "w").pwrite(bytes(SUM_BYTES - left), SUM_BYTES + left)
    assert model(ledger) == ENTRIES


@pytest.mark.parametrize("seed", range(8))
def test_a_start_whose_write_of_checksums_breaks_off_may_be_repeated(seed: int) -> None:
    disk = filled()
    disk.unlink(PATH)
    disk.faults._rng.seed(seed)
    disk.faults.shorten_write(path_part="/sums/")
    with pytest.raises(OSError, match="of 32 bytes"):
        opened(disk)
    disk.kill()
    assert model(opened(disk)) == ENTRIES


def test_a_whole_checksum_of_other_bytes_refuses_the_start() -> None:
    disk = filled()
    disk.open(PATH, "w").pwrite(sums_at(b"other", [(0, 5)]), 2 * SUM_BYTES)
    with pytest.raises(CorruptLog, match="not what was written"):
        opened(disk)


def of_another_program() -> SimDisk:
    """Our checksums beside an entry that is another's, something behind the end, and no mark."""
    disk = filled()
    disk.unlink(LAYOUT.synced)
    other = new_entry(index=2, term=1, pos=2 * 348, body=b"other" * 60)
    file = disk.open(f"{LAYOUT.commit_log}/{0:020d}", "w")
    file.pwrite(encode_entry(other), other.pos)
    file.pwrite(b"left over", 4 * 348)
    file.sync()
    return disk


def test_what_another_program_wrote_is_believed_at_the_second_start_too() -> None:
    disk = of_another_program()
    expected = [*ENTRIES[:2], (2, 1, b"other" * 60), ENTRIES[3]]
    for _ in range(3):
        ledger = opened(disk)
        assert model(ledger) == expected
        ledger.close(ordered=True)
    assert checked(disk).is_good


def test_and_behind_a_start_that_died(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark of its cut came before the new checksums."""
    for steps in range(STEPS_MAX):
        disk = of_another_program()
        with dying_after(monkeypatch, steps) as died:
            opened(disk)
        disk.kill()
        assert model(opened(disk))[2:] == [(2, 1, b"other" * 60), ENTRIES[3]], steps
        if not died[0]:
            return
    raise AssertionError(f"more than {STEPS_MAX} steps")
