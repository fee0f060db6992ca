"""The checksums beside a log: half of one says nothing, a whole one that differs ends the log."""

from __future__ import annotations

import pytest
from ledger_kit import LAYOUT, fresh, model, opened, sim_disk, sync

from actors.errors import CorruptLog
from actors.sim.disk import SimDisk
from actors.storage.dledger.sums import SUM_BYTES, sums_at

BODIES = [bytes([97 + n]) * 300 for n in range(4)]
ENTRIES = [(n, 1, body) for n, body in enumerate(BODIES)]
PATH = f"{LAYOUT.sums}/{0:020d}"
TAIL = range(len(BODIES) * SUM_BYTES)


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
