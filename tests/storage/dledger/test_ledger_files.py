"""The DLedger store on disk: appending, reading, comparing, cutting, going on elsewhere."""

from __future__ import annotations

import pathlib
from typing import Any

import msgspec
import pytest
from ledger_kit import (
    FILE,
    LAYOUT,
    chain,
    entries_of,
    finish,
    folder_bytes,
    fresh,
    local,
    model,
    opened,
    sim_disk,
    sync,
)

from actors.errors import CorruptLog, LogFull, TooLarge
from actors.storage.ledger.ledger import (
    BelowCommitted,
    EntryRefused,
    IndexGone,
    IndexNotThere,
    NotInSequence,
    TermVote,
    WrongPlace,
    is_equal,
)
from actors.storage.ledger.memory_ledger import MemoryLedger
from wire.dledger.entry import decode_entry


@pytest.mark.checklist(2, of="dledger")
def test_the_first_entries_are_those_of_the_specification() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    assert (ledger.begin_index, ledger.end_index, ledger.end_term) == (-1, -1, -1)
    added = ledger.append_as_leader([b"msg0", b""], 1)
    want = "00000001 00000034 0000000000000000 0000000000000001 0000000000000000"
    want += "00000000 00000000 00000000 00000004 6d736730"
    assert added.runs[0][1][:52].hex() == want.replace(" ", "")
    assert added.positions == (0, 52)
    assert (added.first_index, added.last_index, added.term) == (0, 1, 1)
    record = disk.open(f"{LAYOUT.index}/{0:020d}", "r").pread(0, 32).hex()
    assert record == "00000001000000000000000000000034000000000000000000000000" + "00000001"
    assert model(ledger) == [(0, 1, b"msg0"), (1, 1, b"")]
    assert (ledger.begin_index, ledger.end_index, ledger.end_term) == (0, 1, 1)


@pytest.mark.checklist(29, of="dledger")
def test_an_entry_that_leaves_eight_bytes_fits_and_one_more_byte_rolls() -> None:
    for extra, pos in ((0, FILE - 8 - 2000), (1, FILE)):
        disk = sim_disk()
        ledger = fresh(disk)
        ledger.append_as_leader([bytes([7]) * (FILE - 8 - 2000 - 48)], 1)
        added = ledger.append_as_leader([bytes([8]) * (2000 - 48 + extra)], 1)
        assert added.positions == (pos,)
        third = ledger.append_as_leader([b"x"], 1)
        tail = disk.open(f"{LAYOUT.commit_log}/{0:020d}", "r").pread(
            FILE - 2008 + 2000 * (not extra), 8
        )
        assert tail == b"\xff\xff\xff\xff" + (2008 if extra else 8).to_bytes(4, "big")
        assert third.positions == (FILE + 2001 if extra else FILE,)
        sync(ledger, disk)
        disk.power_loss()
        assert len(model(opened(disk))) == 3


@pytest.mark.checklist(29, of="dledger")
@pytest.mark.parametrize("size", [FILE - 8 - 48 + 1, FILE])
def test_an_entry_that_no_file_holds_leaves_the_store_unchanged(size: int) -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a"], 1)
    before = ledger.end_bytes
    with pytest.raises(TooLarge):
        ledger.append_as_leader([b"b", bytes(size)], 1)
    with pytest.raises(EntryRefused):
        ledger.append_as_follower(chain([b"b", b"c" * size], index=1, pos=49, file_bytes=1 << 24))
    assert ledger.end_bytes == before
    assert model(ledger) == [(0, 1, b"a")]
    ledger.append_as_leader([bytes([1]) * (FILE - 8 - 48)], 1)
    assert ledger.end_bytes == FILE + FILE - 8


def test_an_entry_above_four_mebibytes_is_refused_whatever_the_files_hold() -> None:
    ledger = fresh(sim_disk(), data_file_bytes=16 << 20)
    with pytest.raises(TooLarge, match="at most 4194304"):
        ledger.append_as_leader([bytes((4 << 20) - 47)], 1)
    assert ledger.end_index == -1
    ledger.append_as_leader([bytes((4 << 20) - 48)], 1)


def test_a_follower_writes_what_its_leader_has(tmp_path: pathlib.Path) -> None:
    leader, follower = fresh(sim_disk()), fresh(sim_disk())
    for size in (10, 700, 0, 2000, 3000, 100, 1, 4040):
        leader.append_as_leader([bytes([size % 251]) * size, b"small"], 3)
    entries = entries_of(leader)
    added = follower.append_as_follower(entries[:3])
    assert added.last_index == 2
    follower.append_as_follower(entries[3:])
    assert entries_of(follower) == entries
    assert follower.end_bytes == leader.end_bytes
    assert len(added.runs) == 1


def test_what_does_not_belong_at_the_end_is_refused_and_nothing_written() -> None:
    ledger = fresh(sim_disk())
    ledger.append_as_leader([b"a", b"b"], 2)
    good = chain([b"c", b"d"], term=2, index=2, pos=98)
    with pytest.raises(NotInSequence, match="entry 3 came, expected entry 2"):
        ledger.append_as_follower(good[1:])
    with pytest.raises(NotInSequence, match="entry 2 came, expected entry 3"):
        ledger.append_as_follower([good[0], good[0]])
    with pytest.raises(NotInSequence, match="entry 2 is of term 1, the one before of 2"):
        ledger.append_as_follower(chain([b"c"], term=1, index=2, pos=98))
    with pytest.raises(WrongPlace, match="this log goes on at 98"):
        ledger.append_as_follower(chain([b"c"], term=2, index=2, pos=99))
    assert ledger.end_index == 1
    ledger.append_as_follower(good)
    assert model(ledger)[2:] == [(2, 2, b"c"), (3, 2, b"d")]


def test_a_leader_that_rolled_early_is_followed() -> None:
    """As one does that crashed behind its BLANK: what comes next goes to the next file."""
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a"], 1)
    ledger.append_as_follower(chain([b"b"], index=1, pos=FILE))
    sync(ledger, disk)
    disk.power_loss()
    again = opened(disk)
    assert model(again) == [(0, 1, b"a"), (1, 1, b"b")]
    assert again.end_bytes == FILE + 49


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_reads_end_at_a_file_and_at_the_bytes_asked_for(kind: str) -> None:
    ledger = fresh(sim_disk()) if kind == "file" else MemoryLedger(file_bytes=FILE)
    ledger.append_as_leader([bytes([65 + n]) * 952 for n in range(9)], 1)
    assert len(ledger.read(0, 0)) == 1000
    assert len(ledger.read(0, 2999)) == 2000
    assert len(ledger.read(0, 3000)) == 3000
    assert len(ledger.read(1, 1 << 20)) == 3000
    assert decode_entry(ledger.read(4, 1 << 20)).index == 4
    assert len(ledger.read(8, 1 << 20)) == 1000
    with pytest.raises(IndexNotThere):
        ledger.read(9, 100)
    with pytest.raises(IndexNotThere):
        ledger.read(-1, 100)


@pytest.mark.parametrize(
    ("change", "equal"),
    [
        ({}, True),
        ({"chain_crc": 7}, True),
        ({"body_crc": 7}, True),
        ({"index": 4}, False),
        ({"term": 2}, False),
        ({"pos": 49}, False),
        ({"size": 50}, False),
        ({"magic": 2}, False),
        ({"channel": 1}, False),
        ({"body": b"b"}, False),
    ],
)
def test_entries_are_equal_but_for_their_checksums(change: dict[str, Any], equal: bool) -> None:
    """As upstream compares them."""
    (entry,) = chain([b"a"], index=3)
    other = msgspec.structs.replace(entry, **change)
    assert (is_equal(entry, other), is_equal(other, entry)) == (equal, equal)


@pytest.mark.parametrize("index", [0, 1, 3, 4, 8])
def test_a_truncation_leaves_what_was_before(index: int) -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    bodies = [bytes([65 + n]) * 952 for n in range(9)]
    ledger.append_as_leader(bodies, 1)
    sync(ledger, disk, whole=True)
    finish(ledger.truncate(index))
    assert [entry[0] for entry in model(ledger)] == list(range(index))
    assert ledger.next_index == index
    assert ledger.end_term == (1 if index else -1)
    assert ledger.synced_index == index - 1
    assert sum(disk.stat(f"{LAYOUT.cut}/{name}").size_bytes for name in disk.listdir(LAYOUT.cut))
    disk.power_loss()
    again = opened(disk)
    assert [entry[0] for entry in model(again)] == list(range(index))
    added = again.append_as_leader([b"new"], 4)
    assert added.first_index == index
    assert model(again)[-1] == (index, 4, b"new")


def test_nothing_of_what_was_cut_is_left_in_any_file() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"%d" % n * 30 for n in range(150)], 1)
    finish(ledger.truncate(40))
    for folder, end in (
        (LAYOUT.commit_log, ledger.end_bytes),
        (LAYOUT.index, 40 * 32),
        (LAYOUT.sums, 40 * 8),
    ):
        names = disk.listdir(folder)
        size = disk.stat(f"{folder}/{names[0]}").size_bytes
        data = b"".join(disk.open(f"{folder}/{name}", "r").pread(0, size) for name in names)
        assert any(data[end - 8 : end])
        assert not any(data[end:])


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_nothing_committed_is_cut(kind: str) -> None:
    ledger = fresh(sim_disk()) if kind == "file" else MemoryLedger(file_bytes=FILE)
    ledger.append_as_leader([b"a", b"b", b"c"], 1)
    ledger.commit(1)
    ledger.commit(0)
    assert ledger.committed_index == 1
    with pytest.raises(BelowCommitted):
        finish(ledger.truncate(1))
    with pytest.raises(BelowCommitted):
        finish(ledger.restart_at(1, 0))
    with pytest.raises(IndexNotThere):
        finish(ledger.truncate(3))
    finish(ledger.truncate(2))
    assert [entry[0] for entry in model(ledger)] == [0, 1]


@pytest.mark.checklist(26, of="dledger")
@pytest.mark.parametrize("loses_power", [False, True])
def test_no_ghost_entries_after_a_truncation_and_a_restart(loses_power: bool) -> None:
    """Upstream, terms 1, 5, 5 cut to 1, 4 of the same sizes: a restart brings back the second 5."""
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"a"], 1)
    ledger.append_as_leader([b"b", b"c"], 5)
    sync(ledger, disk)
    finish(ledger.truncate(1))
    ledger.append_as_leader([b"d"], 4)
    sync(ledger, disk)
    if loses_power:
        disk.power_loss()
    else:
        disk.kill()
    assert model(opened(disk)) == [(0, 1, b"a"), (1, 4, b"d")]


@pytest.mark.checklist(27, of="dledger")
@pytest.mark.parametrize("pos", [500, FILE, FILE + 48, 5 * FILE + 3000])
@pytest.mark.parametrize("loses_power", [False, True])
def test_a_re_based_follower_keeps_its_log(pos: int, loses_power: bool) -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"old" * 300] * 9, 1)
    sync(ledger, disk, whole=True)
    finish(ledger.restart_at(700, pos))
    assert (ledger.begin_index, ledger.end_index, ledger.next_index) == (-1, -1, 700)
    entries = chain([b"n" * 900] * 7, term=3, index=700, pos=pos)
    ledger.append_as_follower(entries)
    assert (ledger.begin_index, ledger.end_index) == (700, 706)
    sync(ledger, disk)
    if loses_power:
        disk.power_loss()
    else:
        disk.kill()
    again = opened(disk)
    assert entries_of(again) == entries
    assert (again.begin_index, again.end_index) == (700, 706)
    with pytest.raises(IndexGone):
        again.read(699, 10)
    head = disk.open(f"{LAYOUT.commit_log}/{pos - pos % FILE:020d}", "r").pread(0, 8)
    if pos % FILE:
        assert head == b"\xff\xff\xff\xff" + (pos % FILE).to_bytes(4, "big")


def test_a_re_based_log_without_its_entry_is_empty_after_a_restart() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"old"], 1)
    finish(ledger.restart_at(700, 3 * FILE + 500))
    disk.kill()
    again = opened(disk)
    assert (again.begin_index, again.end_index, again.next_index) == (-1, -1, 0)
    assert again.append_as_leader([b"x"], 1).positions == (0,)


def test_a_log_cannot_go_on_where_no_filler_fits() -> None:
    for ledger in (fresh(sim_disk()), MemoryLedger(file_bytes=FILE)):
        ledger.append_as_leader([b"old"], 1)
        with pytest.raises(WrongPlace):
            finish(ledger.restart_at(9, FILE + 5))
        assert ledger.end_index == 0


@pytest.mark.checklist(7, of="dledger")
def test_term_vote_and_committed_index_come_back() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    assert ledger.vote == TermVote(1, "n0")
    ledger.append_as_leader([b"a", b"b", b"c"], 1)
    ledger.commit(1)
    ledger.save_vote(TermVote(7, "n2"))
    ledger.save_checkpoint()
    ledger.close(ordered=True)
    again = opened(disk)
    assert again.vote == TermVote(7, "n2")
    assert again.committed_index == 1
    assert again.opened.was_clean
    with pytest.raises(AssertionError):
        again.save_vote(TermVote(7, "n1"))
    with pytest.raises(AssertionError):
        again.save_vote(TermVote(6, ""))
    disk.kill()
    assert not opened(disk).opened.was_clean


@pytest.mark.real_io
def test_an_ordered_stop_leaves_no_spare_files(tmp_path: pathlib.Path) -> None:
    disk, layout = local(tmp_path)
    ledger = opened(disk, layout)
    ledger.append_as_leader([b"x" * 900] * 5, 1)
    assert len(folder_bytes(layout)) == 5
    ledger.close(ordered=True)
    names = [f"data/{0:020d}", f"data/{FILE:020d}", f"index/{0:020d}"]
    assert list(folder_bytes(layout)) == names
    again = opened(disk, layout)
    assert len(model(again)) == 5
    again.close(ordered=False)


def test_a_missing_data_file_refuses_the_start() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"x" * 900] * 12, 1)
    ledger.close(ordered=True)
    disk.unlink(f"{LAYOUT.commit_log}/{FILE:020d}")
    with pytest.raises(CorruptLog, match="the file is missing"):
        opened(disk)


def test_the_memory_store_is_bounded() -> None:
    ledger = MemoryLedger(file_bytes=FILE, bytes_max=1000)
    ledger.append_as_leader([bytes(900)], 1)
    with pytest.raises(LogFull):
        ledger.append_as_leader([bytes(100)], 1)
    assert ledger.end_index == 0
    finish(ledger.truncate(0))
    ledger.append_as_leader([bytes(900)], 1)
