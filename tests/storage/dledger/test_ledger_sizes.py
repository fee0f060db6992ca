"""A DLedger store's files have one size each, which the configuration has to say."""

from __future__ import annotations

import pytest
from ledger_kit import INDEX_FILE, LAYOUT, fresh, opened, sim_disk

from actors.errors import ConfigError
from actors.sim.disk import SimDisk
from actors.storage.ledger.per_index import SUM_BYTES
from wire.dledger.entry import INDEX_BYTES


def files_of(disk: SimDisk) -> dict[str, bytes]:
    """Path -> content of the index."""
    found = {}
    for name in disk.listdir(LAYOUT.index):
        file = disk.open(f"{LAYOUT.index}/{name}", "r")
        found[file.path] = file.pread(0, 1 << 20)
        file.close()
    return found


def test_files_of_another_size_are_a_mistake_in_the_configuration() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a"], 1)
    ledger.close(ordered=True)
    with pytest.raises(ConfigError, match="cut short, or data_file_bytes was changed from 4096"):
        opened(disk, data_file_bytes=8192)
    with pytest.raises(ConfigError, match="expected 1024"):
        opened(disk, index_file_bytes=512)


@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize("has_sums", [True, False])
def test_a_larger_index_file_is_no_short_one(count: int, has_sums: bool) -> None:
    """One file, and more; of a Java member's store there are no sums."""
    disk = sim_disk()
    ledger = fresh(disk)
    for _ in range(count):
        ledger.append_as_leader([b"a"] * (INDEX_FILE // INDEX_BYTES // 3), 1)
    ledger.close(ordered=True)
    if not has_sums:
        disk.rmtree(LAYOUT.sums)
    before = files_of(disk)
    for larger in (INDEX_FILE * 2, INDEX_FILE * 4):
        said = rf"index_file_bytes(: expected| was changed from) {INDEX_FILE}\b.* {larger}$"
        with pytest.raises(ConfigError, match=said):
            opened(disk, index_file_bytes=larger)
    assert files_of(disk) == before
    again = opened(disk)
    assert again.end_index == count * (INDEX_FILE // INDEX_BYTES // 3) - 1


@pytest.mark.parametrize("folder", [LAYOUT.index, LAYOUT.sums])
@pytest.mark.parametrize("records", [0, 1, 3])
def test_a_file_that_a_crash_left_short_while_it_was_cut_is_filled_up(
    folder: str, records: int
) -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a"] * 5, 1)
    ledger.close(ordered=False)
    file = disk.open(f"{folder}/{0:020d}", "w")
    size = disk.stat(file.path).size_bytes
    file.resize(records * (INDEX_BYTES if folder == LAYOUT.index else SUM_BYTES))
    file.sync()
    file.close()
    again = opened(disk)
    assert (again.end_index, again.begin_index) == (4, 0)
    assert disk.stat(f"{folder}/{0:020d}").size_bytes == size
