"""What a member may not start with: a vote from before its log."""

from __future__ import annotations

from typing import Any

import pytest
from ledger_kit import LAYOUT, chain, env_of, finish, fresh, opened, sim_disk, small
from ledger_tools_kit import checked

from actors.errors import ConfigError, CorruptLog
from actors.sim.disk import SimDisk
from actors.storage.ledger.file_ledger import FileLedger
from actors.storage.ledger.ledger import TermVote
from actors.storage.ledger.member_opening import open_member
from actors.storage.ledger.term_files import LostVote


def member(disk: SimDisk, **changes: Any) -> FileLedger:
    return finish(open_member(env_of(disk), LAYOUT, small(**changes)))


def with_vote(disk: SimDisk, text: bytes) -> None:
    """As who copies an older file back, or writes a new one."""
    if disk.exists(LAYOUT.term):
        disk.unlink(LAYOUT.term)
    file = disk.open(LAYOUT.term, "x")
    file.pwrite(text, 0)
    file.close()


def stopped(*, ordered: bool) -> SimDisk:
    """It had voted for n2 in term 3, and follows it."""
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.save_vote(TermVote(3, "n2"))
    ledger.append_as_follower(chain([b"a"], term=3))
    if ordered:
        ledger.close(ordered=True)
    else:
        disk.kill()
    return disk


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("old", [b"voteLeader=n0\ncurrTerm=2\n", b"voteLeader=\ncurrTerm=0\n"])
def test_a_vote_older_than_the_log_refuses_the_start(
    old: bytes, ordered: bool, marked: bool
) -> None:
    """It would vote again in term 3, and two leaders of it give one place to two entries."""
    disk = stopped(ordered=ordered)
    with_vote(disk, old)
    if not marked:
        disk.unlink(LAYOUT.synced)
    for _ in range(2):
        assert checked(disk).result == "DAMAGE"
        with pytest.raises(
            LostVote, match=r"term [02], but the last entry is of term 3"
        ) as refused:
            member(disk)
    assert "N above the term of every other member" in str(refused.value)
    with_vote(disk, b"voteLeader=\ncurrTerm=4\n")
    ledger = member(disk)
    assert (ledger.vote, ledger.end_index) == (TermVote(4), 0)


def test_the_vote_of_the_last_term_or_a_later_one_is_believed() -> None:
    disk = stopped(ordered=True)
    ledger = member(disk)
    assert ledger.vote == TermVote(3, "n2")
    ledger.save_vote(TermVote(5, "n1"))
    ledger.close(ordered=True)
    assert member(disk).vote == TermVote(5, "n1")


def test_upstream_believes_an_older_one() -> None:
    disk = stopped(ordered=True)
    with_vote(disk, b"voteLeader=n0\ncurrTerm=2\n")
    assert member(disk, vote_unsynced=True).vote == TermVote(2, "n0")


@pytest.mark.parametrize(("changed", "now"), [("data_file_bytes", 8192), ("index_file_bytes", 512)])
def test_files_of_another_size_name_the_key_of_a_dledger_group(changed: str, now: int) -> None:
    disk = stopped(ordered=True)
    was = getattr(small(), changed)
    said = rf"{changed}(: expected| was changed from) {was}\b.* {now}$"
    with pytest.raises(ConfigError, match=said):
        opened(disk, **{changed: now})


def test_a_truncation_that_nobody_can_read_refuses_the_start() -> None:
    disk = stopped(ordered=True)
    disk.open(LAYOUT.truncating, "x").pwrite(b"x" * 1024, 0)
    with pytest.raises(CorruptLog, match=r"truncating: it cannot be read, .* \(OPERATING.md, "):
        opened(disk)
