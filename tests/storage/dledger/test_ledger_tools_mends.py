"""`check` of DLedger stores: what the next start mends is distinguished from damage that it
refuses.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import attrs
import pytest
from ledger_kit import LAYOUT, env_of, finish, opened, small
from ledger_tools_kit import COUNT, all_bytes, checked, filled, flip, ledger_at, write_file

from actors.errors import CorruptLog
from actors.sim.disk import SimDisk
from actors.storage.ledger.member_opening import open_member
from actors.storage.tools.commitlog.check import CheckOptions
from actors.storage.tools.findings import LedgerReport
from actors.storage.tools.ledger.check import check_ledger
from wire.dledger.files import LedgerCheckpoint, encode_ledger_checkpoint

DATA, INDEX = LAYOUT.commit_log, LAYOUT.index
STEP = 97
"""Bytes from one flip to the next; prime, so that every field of an entry is met."""


def unmarked(committed: int = 0) -> SimDisk:
    """Whose checkpoint says that so far it is committed."""
    disk = filled()
    disk.unlink(LAYOUT.synced)
    write_file(disk, LAYOUT.checkpoint, checkpoint_text(committed))
    return disk


def checkpoint_text(committed: int) -> bytes:
    return encode_ledger_checkpoint(LedgerCheckpoint(committed_index=committed, end_index=COUNT))


def file_of(offset: int) -> str:
    return f"{DATA}/{offset - offset % 4096:020d}"


def test_a_flip_far_behind_is_cut_as_it_says() -> None:
    """Files with entries follow the bad one; a start cuts them all the same."""
    disk = unmarked()
    last = checked(disk).end_bytes // 4096 * 4096
    flip(disk, file_of(last - 4096), 3)
    before = all_bytes(disk)
    found = checked(disk)
    assert (found.result, found.findings.damage) == ("mends", [])
    cut = next(line for line in found.findings.mends if line.startswith("offset "))
    pattern = r"offset (\d+): magic .*: the next start cuts ([\d,]+) bytes with (\d+) whole entries"
    reported = re.match(pattern, cut)
    assert reported is not None, cut
    assert "it is unknown whether it was acknowledged as synced" in cut
    assert all_bytes(disk) == before
    again = opened(disk)
    assert (again.end_bytes, again.opened.kept_bytes) == (
        int(reported[1]),
        int(reported[2].replace(",", "")),
    )
    behind = [entry for entry in range(COUNT) if entry > again.end_index]
    assert 0 < int(reported[3]) < len(behind), "what is in the bad file cannot be counted"
    assert (again.end_index, again.end_bytes) == (found.end_index, found.end_bytes)


def test_a_group_that_acknowledges_what_is_written_has_lost_nothing_synced() -> None:
    disk = unmarked()
    flip(disk, file_of(checked(disk).end_bytes // 4096 * 4096 - 4096), 3)
    ledger = attrs.evolve(ledger_at(disk), settings={"durability": '"written"'})
    found = finish(check_ledger(disk, ledger, CheckOptions()))
    (cut,) = [line for line in found.findings.mends if line.startswith("offset ")]
    assert "nothing acknowledged as synced is touched" in cut


def test_above_the_mark_it_says_what_is_not_touched() -> None:
    disk = filled(ordered=False)
    ledger = opened(disk)
    ledger.append_as_leader([b"torn" * 20, b"more" * 20], 2)
    end, mark = ledger.end_bytes, checked(disk).mark_bytes
    disk.kill()
    flip(disk, file_of(end - 60), (end - 60) % 4096)
    found = checked(disk)
    assert (found.result, found.findings.mends) == ("good", [])
    (note,) = [line for line in found.findings.notes if "the next start cuts" in line]
    assert f"nothing below {mark} is touched" in note


def verdict(disk: SimDisk) -> tuple[LedgerReport, Any]:
    """What a check says, and what a start then does: its ledger, or why it is refused."""
    found = checked(disk)
    again = copy.deepcopy(disk)
    try:
        ledger = finish(open_member(env_of(again), LAYOUT, small()))
    except CorruptLog as error:
        return found, error
    ledger.close(ordered=True)
    return found, checked(again)


@pytest.mark.parametrize(
    ("folder", "template", "wanted"),
    [
        ("data", filled(), {"DAMAGE"}),
        ("data", unmarked(), {"mends", "DAMAGE"}),
        ("data", unmarked(COUNT - 1), {"DAMAGE"}),
        ("index", filled(), {"mends", "DAMAGE"}),
        ("index", unmarked(), {"mends", "DAMAGE"}),
    ],
    ids=["data-marked", "data", "data-committed", "index-marked", "index"],
)
def test_a_check_and_a_start_agree(folder: str, template: SimDisk, wanted: set[str]) -> None:
    """Whatever byte is another: "mends" is what a start mends, and damage what it refuses or keeps,
    or goes on without though it was committed."""
    kinds = set()
    size = checked(template).end_bytes if folder == "data" else COUNT * 32
    each = 4096 if folder == "data" else 1024
    for at in range(0, size, STEP if folder == "data" else 31):
        disk = copy.deepcopy(template)
        flip(disk, f"{LAYOUT.root}/{folder}/{at - at % each:020d}", at % each)
        found, after = verdict(disk)
        kinds.add(found.result)
        if found.result == "mends":
            assert isinstance(after, LedgerReport), (at, found.findings)
            assert after.is_good, (at, found.findings, after)
            assert after.end_index == found.end_index >= found.committed_index, at
        elif found.result == "DAMAGE" and not isinstance(after, CorruptLog):
            assert not after.is_good or after.end_index < found.committed_index, (at, found)
    assert wanted <= kinds


def harmed(how: str) -> SimDisk:
    """All of it was committed; its last files are not what they were."""
    disk = unmarked(COUNT - 1)
    last = checked(disk).end_bytes // 4096 * 4096
    if how == "flip":
        flip(disk, file_of(last - 4096), 3)
    elif how == "lost":
        disk.unlink(file_of(last))
    else:
        write_file(disk, file_of(last), bytes(4096))
    return disk


@pytest.mark.parametrize("how", ["flip", "lost", "zeros"])
def test_a_log_that_ends_below_what_was_committed_is_damage(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A start takes it and says so; its vote counts for less (`test_ledger_lost.py`)."""
    disk = harmed(how)
    found, after = verdict(disk)
    end = found.end_index
    assert (found.result, found.committed_index) == ("DAMAGE", COUNT - 1)
    assert 0 < end < COUNT - 1
    (line,) = found.findings.damage
    assert f"entries up to {COUNT - 1} were committed, but the log ends at {end}" in line
    assert f"goes on without {end + 1} to {COUNT - 1}" in line
    assert "its vote counts only with all others'" in line
    assert "remove all but currterm" in line
    assert isinstance(after, LedgerReport)
    assert (after.end_index, after.committed_index) == (end, end)
    (reported,) = [each for each in caplog.messages if LAYOUT.checkpoint in each]
    assert f"goes on without {end + 1} to {COUNT - 1}" in reported
    assert "A lost disk" in reported


@pytest.mark.parametrize("text", ["committedIndex=x\n", "committedIndex=999\nendIndex=999\n"])
def test_a_checkpoint_is_corrected(text: str) -> None:
    """After an ordered stop the log is surely whole: then it is the checkpoint that is wrong."""
    disk = filled()
    write_file(disk, LAYOUT.checkpoint, text.encode())
    found, after = verdict(disk)
    assert found.result == "mends", found.findings
    assert isinstance(after, LedgerReport)
    assert after.committed_index <= after.end_index


def test_of_a_copy_nothing_is_mended() -> None:
    """No start is made on it: it lacks what follows."""
    disk = unmarked()
    flip(disk, file_of(checked(disk).end_bytes // 4096 * 4096 - 4096), 3)
    found = checked(disk, is_backup=True)
    assert (found.result, found.findings.mends) == ("DAMAGE", [])
    assert "make another backup" in found.findings.damage[0]
