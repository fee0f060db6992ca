"""`check` of a DLedger member's checksums: which one is damaged, and what follows from it."""

from __future__ import annotations

import copy

import pytest
from ledger_kit import LAYOUT, opened
from ledger_tools_kit import COUNT, checked, filled, flip

FILE_BYTES = 1024 // 4
"""Of checksums: as many records as a file of the index has."""


def path_of(index: int) -> str:
    at = index * 8
    return f"{LAYOUT.sums}/{at - at % FILE_BYTES:020d}"


@pytest.mark.parametrize("byte", range(8))
@pytest.mark.parametrize("index", [0, 40, COUNT - 1])
def test_a_damaged_checksum_is_named(index: int, byte: int) -> None:
    disk = filled()
    flip(disk, path_of(index), index * 8 % FILE_BYTES + byte)
    found = checked(disk)
    assert (found.result, found.summed) == ("good", COUNT - 1)
    (note,) = found.findings.notes
    assert note.startswith(
        f"{path_of(index)}: byte {index * 8 % FILE_BYTES}: the checksum of entry"
    )
    assert f"entry {index} is damaged" in note
    assert "damage of its body would not be noticed" in note
    assert "makes it again" not in note, "after an ordered stop a start believes what is there"
    again = copy.deepcopy(disk)
    opened(again).close(ordered=True)
    assert checked(again).summed == COUNT - 1


def test_after_a_kill_the_last_file_s_are_made_again() -> None:
    disk = filled()
    opened(disk)  # its mark says that the store is open
    disk.kill()
    flip(disk, path_of(COUNT - 1), (COUNT - 1) * 8 % FILE_BYTES)
    flip(disk, path_of(3), 3 * 8 % FILE_BYTES)
    first, last = checked(disk).findings.notes
    assert "entry 3 " in first
    assert "makes it again" not in first
    assert "the next start makes it again" in last
    opened(disk).close(ordered=True)
    (note,) = checked(disk).findings.notes
    assert "entry 3 " in note


def test_many_are_counted_and_none_at_all_is_no_damage() -> None:
    disk = filled()
    for index in range(20):
        flip(disk, path_of(index), index * 8 % FILE_BYTES)
    notes = checked(disk).findings.notes
    assert notes[-1] == f"{LAYOUT.sums}: 20 damaged checksums in all, the last of entry 19"
    disk.rmtree(LAYOUT.sums)
    found = checked(disk)
    assert (found.summed, found.findings.notes) == (0, [])


def test_files_of_another_size_are_named() -> None:
    disk = filled()
    disk.open(path_of(0), "w").resize(100)
    found = checked(disk)
    assert (found.result, found.summed) == ("good", 0)
    (note,) = found.findings.notes
    assert note.startswith(f"{path_of(0)}: expected {FILE_BYTES} bytes, found 100: none of the")
    opened(copy.deepcopy(disk)).close(ordered=True)
