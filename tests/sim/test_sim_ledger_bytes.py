"""What the simulation sees of members' logs keeps up with their disks."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from actors.sim.disk import SimDisk
from actors.sim.dledger.atlas import LedgerAtlas
from actors.sim.dledger.ledger_bytes import SimLedgers
from actors.sim.dledger.members import DATA_FILE_BYTES, ledger_config
from actors.storage.ledger.per_index import SUM_BYTES, sums_at, sums_file_bytes
from actors.storage.ledger.term_files import TermVote, write_term
from actors.storage.log.commit_log import segment_path
from wire.dledger.entry import BLANK_MAGIC


class Oldest(random.Random):
    """A power loss leaves what was synced."""

    def randint(self, a: int, b: int) -> int:
        return a

    def choice(self, seq: Any) -> Any:
        return seq[0]


@attrs.frozen
class Member:
    """One member's log, and its disk."""

    disk: SimDisk
    log: SimLedgers

    def add_file(self, number: int) -> None:
        path = segment_path(self.log.layout("n0").commit_log, number * DATA_FILE_BYTES)
        with_zeros = self.disk.open(path, "x")
        with_zeros.resize(DATA_FILE_BYTES)

    def begin(self) -> int:
        """The first place that it has not let go of, of those that matter here."""
        places = range(0, 4 * DATA_FILE_BYTES, 8)
        return next(place for place in places if not self.log.has_let_go("n0", place))


@pytest.fixture
def member() -> Member:
    config = ledger_config(1, {"g0": {}})
    disk = SimDisk(random.Random(1))
    groups: Any = SimpleNamespace(config=config, disk=lambda name: disk)
    log = SimLedgers(groups, config.ledger_groups_of("n0")[0])
    disk.mkdir(log.layout("n0").commit_log)
    disk.mkdir(log.layout("n0").term.rpartition("/")[0])
    return Member(disk, log)


def test_what_a_log_has_let_go_of(member: Member) -> None:
    folder = member.log.layout("n0").commit_log
    assert member.begin() == 0
    member.add_file(1)
    member.disk.sync_dir(folder)
    assert member.begin() == DATA_FILE_BYTES
    member.add_file(0)
    assert member.begin() == 0
    member.disk.unlink(segment_path(folder, 0))
    assert member.begin() == DATA_FILE_BYTES
    member.add_file(2)
    member.disk.unlink(segment_path(folder, DATA_FILE_BYTES))
    assert member.begin() == 2 * DATA_FILE_BYTES
    member.disk.power_loss(Oldest())
    assert member.begin() == DATA_FILE_BYTES


def test_a_log_that_begins_with_a_blank(member: Member) -> None:
    member.add_file(1)
    assert member.begin() == DATA_FILE_BYTES
    path = segment_path(member.log.layout("n0").commit_log, DATA_FILE_BYTES)
    blank = BLANK_MAGIC.to_bytes(4, "big", signed=True) + (64).to_bytes(4, "big")
    member.disk.open(path, "w").pwrite(blank, 0)
    assert member.begin() == DATA_FILE_BYTES + 64


def test_a_vote_is_what_the_disk_says_now(member: Member) -> None:
    path = member.log.layout("n0").term
    assert member.log.vote("n0") is None
    for vote in (TermVote(3, "n0"), TermVote(4, ""), TermVote(3, "n0")):
        write_term(member.disk, path, vote)
        assert member.log.vote("n0") == vote
    member.disk.unlink(path)
    member.disk.sync_dir(path.rpartition("/")[0])
    assert member.log.vote("n0") is None


def test_an_entry_counts_as_summed_once_its_checksum_is_synced(member: Member) -> None:
    """Else a start believes what was damaged: it is no fair thing to damage."""
    log, disk = member.log, member.disk
    atlas = LedgerAtlas(logs=(log,), chosen={}, damaged={})
    assert not atlas.is_summed(log, "n0", 3)
    disk.mkdir(log.layout("n0").sums)
    file = disk.open(segment_path(log.layout("n0").sums, 0), "x")
    file.resize(sums_file_bytes(log.group.index_file_bytes))
    file.pwrite(sums_at(b"entry", [(0, 5)]), 3 * SUM_BYTES)
    assert not atlas.is_summed(log, "n0", 3)
    file.sync()
    assert atlas.is_summed(log, "n0", 3)
    assert not atlas.is_summed(log, "n0", 4)
