"""Upstream's looser ways of the DLedger store; `tests/scripts/upstream/` shows what they do."""

from __future__ import annotations

import pytest
from ledger_kit import FILE, LAYOUT, finish, fresh, model, opened, sim_disk, sync

from actors.errors import CorruptLog
from actors.storage.ledger.term_files import TermVote, read_term, write_term
from actors.storage.log.commit_log import segment_bases


def test_an_unsynced_vote_replaces_the_file_and_keeps_a_copy() -> None:
    disk = sim_disk()
    fresh(disk)
    write_term(disk, LAYOUT.term, TermVote(6, "n2"), unsynced=True)
    assert read_term(disk, LAYOUT.term) == TermVote(6, "n2")
    assert read_term(disk, f"{LAYOUT.term}.bak") == TermVote(1, "n0")
    assert not disk.exists(f"{LAYOUT.term}.tmp")


def test_upstream_begins_anew_where_ours_refuses_or_finds_the_copy() -> None:
    disk = sim_disk()
    fresh(disk)
    write_term(disk, LAYOUT.term, TermVote(6, "n2"), unsynced=True)
    disk.unlink(LAYOUT.term)
    assert read_term(disk, LAYOUT.term) == TermVote(1, "n0")
    assert read_term(disk, LAYOUT.term, unsynced=True) is None
    disk.open(LAYOUT.term, "x").pwrite(b"currTerm=", 0)
    with pytest.raises(CorruptLog):
        read_term(disk, LAYOUT.term)
    assert read_term(disk, LAYOUT.term, unsynced=True) is None


def test_a_cut_that_leaves_bytes_removes_later_files_and_the_log_goes_on() -> None:
    disk = sim_disk()
    ledger = fresh(disk, cut_stays=True)
    bodies = [bytes([65 + number]) * 1000 for number in range(9)]
    ledger.append_as_leader(bodies, 1)
    sync(ledger, disk)
    assert len(segment_bases(disk, LAYOUT.commit_log)) > 2
    finish(ledger.truncate(1))
    assert segment_bases(disk, LAYOUT.commit_log) == [0]
    assert not disk.exists(LAYOUT.cut)
    ledger.append_as_leader([b"z" * (FILE - 1048 - 48 - 8), b"y"], 2)
    sync(ledger, disk)
    disk.kill()
    again = opened(disk, cut_stays=True)
    assert [(index, term) for index, term, _ in model(again)] == [(0, 1), (1, 2), (2, 2)]


def test_committed_entries_leave_only_by_upstreams_rule() -> None:
    disk = sim_disk()
    ledger = fresh(disk, cuts_committed=True)
    ledger.append_as_leader([b"a", b"b", b"c"], 1)
    ledger.commit(2)
    finish(ledger.truncate(1))
    assert (ledger.end_index, ledger.committed_index) == (0, 2)
    finish(ledger.restart_at(1, 500))
    assert (ledger.end_index, ledger.next_index) == (-1, 1)
