"""What a start refuses `check` calls damage, with the same advice; the start writes nothing."""

from __future__ import annotations

import attrs
import pytest
from ledger_kit import LAYOUT, env_of, finish, small
from ledger_tools_kit import all_bytes, filled, ledger_at, write_file

from actors.dledger.core import member_state
from actors.errors import ConfigError, CorruptLog
from actors.sim.disk import SimDisk
from actors.storage.ledger.member_opening import MemberNote, open_member
from actors.storage.ledger.term_files import NEW_VOTE, REMOVE_THEN, TERM_MAX
from actors.storage.tools.commitlog.check import CheckOptions
from actors.storage.tools.ledger.check import check_ledger


def refused(disk: SimDisk, *, had_vote: bool = False) -> str:
    """Why a start is; nothing is another afterwards."""
    before = all_bytes(disk)
    note = MemberNote(had_vote=lambda: had_vote, membership=lambda: None, take=pytest.fail)
    with pytest.raises(CorruptLog) as caught:
        finish(open_member(env_of(disk), LAYOUT, small(), note=note))
    assert all_bytes(disk) == before
    return str(caught.value)


def damage(disk: SimDisk, **changes: object) -> str:
    """The only one that a check names."""
    ledger = attrs.evolve(ledger_at(disk), **changes)
    before = all_bytes(disk)
    found = finish(check_ledger(disk, ledger, CheckOptions()))
    assert all_bytes(disk) == before
    (line,) = found.findings.damage
    return line


@pytest.mark.parametrize("data", [b"", b"x", b"x" * 1024, bytes(1024)])
@pytest.mark.parametrize("path", [LAYOUT.synced, LAYOUT.truncating])
def test_what_to_do_about_an_unreadable_side_file(path: str, data: bytes) -> None:
    """Its entries may have been counted on: whoever removes the file alone may lose some."""
    disk = filled()
    write_file(disk, path, data)
    for said in (refused(disk), damage(disk)):
        assert said.startswith(f"{path}: ")
        assert REMOVE_THEN in said
        assert "emove the file" not in said


def test_of_a_group_that_believes_no_mark_too() -> None:
    disk = filled()
    write_file(disk, LAYOUT.synced, b"")
    assert "cannot be read" in damage(disk, settings={"compat": '"upstream"'})


def term_text(term: int) -> bytes:
    return b"voteLeader=\ncurrTerm=%d\n" % term


@pytest.mark.parametrize("term", [-(1 << 63), -2, TERM_MAX + 1, (1 << 63) - 1, 1 << 63])
def test_a_term_that_no_member_can_be_in(term: int) -> None:
    """A candidate could not go on from there, and nobody would hear it."""
    disk = filled()
    write_file(disk, LAYOUT.term, term_text(term))
    for said in (refused(disk), damage(disk)):
        assert said.startswith(f"{LAYOUT.term}: the term and the vote cannot be read: currTerm")
        assert str(term) in said
        assert NEW_VOTE in said


def test_the_last_term_there_is() -> None:
    disk = filled()
    write_file(disk, LAYOUT.term, term_text(TERM_MAX))
    assert not finish(check_ledger(disk, ledger_at(disk), CheckOptions())).findings.damage
    assert finish(open_member(env_of(disk), LAYOUT, small())).vote.term == TERM_MAX
    assert member_state.TERM_MAX == TERM_MAX


def test_an_only_data_file_that_is_too_short() -> None:
    disk = filled(3)
    path = f"{LAYOUT.commit_log}/{0:020d}"
    file = disk.open(path, "w")
    file.resize(3000)
    file.close()
    with pytest.raises(ConfigError, match=f"{path}: expected 4096 bytes, found 3000: it was cut"):
        finish(open_member(env_of(disk), LAYOUT, small()))
    settings = {"data_file_bytes": "4096"}
    ledger = attrs.evolve(ledger_at(disk), settings=settings, segment_bytes=3000)
    found = finish(check_ledger(disk, ledger, CheckOptions()))
    assert any("cut short, or data_file_bytes" in line for line in found.findings.notes)
