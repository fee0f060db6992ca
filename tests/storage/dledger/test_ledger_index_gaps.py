"""An index that lacks records in the middle is made whole by a start, and `check` says so."""

from __future__ import annotations

import copy

import pytest
from ledger_kit import FILE, INDEX_FILE, LAYOUT, dying_after, model, opened
from ledger_tools_kit import COUNT, all_bytes, checked, filled

from actors.errors import CorruptLog
from actors.sim.disk import SimDisk
from actors.storage.ledger import per_index
from wire.dledger.entry import INDEX_BYTES

BASES = range(0, COUNT * INDEX_BYTES, INDEX_FILE)


def index_after_start(disk: SimDisk) -> dict[str, bytes]:
    """The index as an ordered stop leaves it."""
    ledger = opened(disk)
    assert len(model(ledger)) == COUNT
    ledger.close(ordered=True)
    return all_bytes(disk, LAYOUT.index)


def made_anew() -> dict[str, bytes]:
    disk = filled()
    disk.rmtree(LAYOUT.index)
    return index_after_start(disk)


def cut(disk: SimDisk, base: int, size: int) -> None:
    file = disk.open(f"{LAYOUT.index}/{base:020d}", "w")
    file.resize(size)
    file.sync()
    file.close()


def zero(disk: SimDisk, index: int, count: int = 1) -> None:
    """Make the records of these entries zeros; all are in one file."""
    at = index * INDEX_BYTES
    file = disk.open(f"{LAYOUT.index}/{at - at % INDEX_FILE:020d}", "w")
    file.pwrite(bytes(count * INDEX_BYTES), at % INDEX_FILE)
    file.sync()
    file.close()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("base", BASES)
def test_an_index_file_cut_short_is_made_whole(base: int, clean: bool) -> None:
    wanted = made_anew()
    for size in (1, 31, 32, 33, 63, 320, 321, 500, 660, 700, 735, 992, 1023):
        disk = filled(ordered=clean)
        if not clean:
            disk.kill()
        cut(disk, base, size)
        found = checked(disk)
        assert not found.findings.damage, (size, found.findings)
        assert index_after_start(disk) == wanted, size
        assert checked(disk).is_good


def test_what_is_none_of_ours_in_the_folder_stays() -> None:
    """Also where a file is missing, and all of them are made again."""
    wanted = made_anew()
    disk = filled()
    notes = f"{LAYOUT.index}/notes.txt"
    disk.open(notes, "x").close()
    disk.unlink(f"{LAYOUT.index}/{BASES[1]:020d}")
    found = index_after_start(disk)
    assert found.pop(notes) == b""
    assert found == wanted


@pytest.mark.parametrize("index", [1, 9, 31, 32, 63, 100, 120, 127])
def test_records_of_zeros_are_made_again(index: int) -> None:
    wanted = made_anew()
    disk = filled()
    zero(disk, index)
    found = checked(disk)
    assert (found.result, found.findings.damage) == ("mends", [])
    assert index_after_start(disk) == wanted
    assert checked(disk).result == "good"


def test_what_an_earlier_start_has_left_of_zeros_is_made_again() -> None:
    """It filled up a short file, and wrote only the records of the entries that it scanned."""
    wanted = made_anew()
    disk = filled()
    zero(disk, 97, 20)
    assert index_after_start(disk) == wanted


def test_far_below_the_entries_that_are_scanned_nobody_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A start of a large log would take minutes; `check` looks, and says what is to be done."""
    monkeypatch.setattr(per_index, "LOOKED_BYTES", 20 * INDEX_BYTES)
    disk = filled()
    zero(disk, 40)
    assert "remove" in checked(disk).findings.damage[0]
    opened(disk).close(ordered=True)
    assert checked(disk).result == "DAMAGE"
    disk.rmtree(LAYOUT.index)
    assert index_after_start(disk) == made_anew()


def test_a_log_that_is_damaged_where_the_index_lacks_records_keeps_its_index() -> None:
    disk = filled()
    zero(disk, 40)
    file = disk.open(f"{LAYOUT.commit_log}/{FILE:020d}", "w")
    file.pwrite(b"\x55" * 4, 0)
    file.close()
    before = all_bytes(disk)
    with pytest.raises(CorruptLog):
        opened(disk)
    assert all_bytes(disk) == before


def test_a_power_loss_while_the_index_is_made_leaves_no_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wherever it comes: what was synced of the old index says nothing about the new one."""
    wanted, steps, died = made_anew(), 0, True
    template = filled()
    template.rmtree(LAYOUT.index)
    while died:
        disk = copy.deepcopy(template)
        with dying_after(monkeypatch, steps) as ended:
            opened(disk)
        died = ended[0]
        disk.power_loss()
        assert index_after_start(disk) == wanted, steps
        steps += 1
    assert steps > 10
