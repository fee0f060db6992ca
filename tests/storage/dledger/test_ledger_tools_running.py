"""`check` and `dump` of a running member's store: what is committed, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from ledger_kit import LAYOUT, chain, finish, fresh, opened, sim_disk, sync
from ledger_tools_kit import COUNT, body, checked, dumped, filled, flip
from meddling_disk import MeddlingDisk

from actors.sim.disk import SimDisk
from actors.storage.ledger.file_ledger import FileLedger
from actors.storage.ledger.ledger import TermVote


def running(count: int = COUNT, committed: int = COUNT - 11) -> tuple[SimDisk, FileLedger]:
    """A member with entries that are not committed."""
    disk = sim_disk()
    ledger = fresh(disk)
    for number in range(count):
        ledger.append_as_leader([body(number)], 1)
    sync(ledger, disk, whole=True)
    ledger.commit(committed)
    ledger.save_checkpoint()
    return disk, ledger


def test_what_is_committed_is_looked_at_and_no_more() -> None:
    disk, ledger = running()
    ledger.append_as_leader([b"unsynced" * 9] * 3, 1)
    found = checked(disk, is_running=True)
    assert found.is_good, found.findings
    assert found.state == "running"
    assert (found.end_index, found.entries) == (COUNT - 11, COUNT - 10)
    assert (found.indexed, found.summed) == (found.entries, found.entries)
    lines, done = dumped(disk, limit=COUNT - 11)
    assert [line["index"] for line in lines] == list(range(COUNT - 10))
    assert done.problems == []


def test_damage_in_what_is_committed_is_found() -> None:
    disk, _ = running()
    flip(disk, f"{LAYOUT.commit_log}/{4096:020d}", 0)
    found = checked(disk, is_running=True)
    assert "byte 0 (entry" in found.findings.damage[0]
    assert (
        f"but entries up to {COUNT - 11} are committed; `repair` mends it once"
        in (found.findings.damage[0])
    )


def test_what_is_not_committed_may_be_anything() -> None:
    """It may be cut, and written anew, while it is read."""
    disk, ledger = running()
    end = ledger.end_bytes
    flip(disk, f"{LAYOUT.commit_log}/{end - end % 4096:020d}", end % 4096 - 60)
    assert checked(disk, is_running=True).is_good
    _, done = dumped(disk, limit=COUNT - 11)
    assert done.problems == []


def cut(ledger: FileLedger) -> None:
    finish(ledger.truncate(ledger.committed_index + 1))
    ledger.append_as_leader([b"another"], 2)


def expire(ledger: FileLedger) -> None:
    for _ in range(2):
        assert ledger.delete_expired(ledger.end_index, snapshot=True) is not None


def begin_anew(ledger: FileLedger) -> None:
    """Its leader has let go of what it lacks."""
    (entry,) = chain([b"far ahead"], term=2, index=5000, pos=1 << 20)
    finish(ledger.restart_at(entry.index, entry.pos))
    ledger.append_as_follower([entry])


@pytest.mark.parametrize("change", [cut, expire, begin_anew])
def test_whatever_the_member_does_meanwhile_is_no_damage(
    change: Callable[[FileLedger], None],
) -> None:
    calls = 0
    while True:
        disk, ledger = running(90, 79)
        meddling = MeddlingDisk(disk, calls, partial(change, ledger))
        found = checked(meddling, is_running=True)
        assert found.is_good, (calls, found.findings.damage)
        if not meddling.met:
            break
        calls += 2
    assert calls > 20


@pytest.mark.parametrize("change", [cut, expire])
def test_a_dump_shows_what_is_there(change: Callable[[FileLedger], None]) -> None:
    for calls in range(0, 40, 3):
        disk, ledger = running()
        meddling = MeddlingDisk(disk, calls, partial(change, ledger))
        lines, done = dumped(meddling, limit=COUNT - 11)
        assert done.problems == []
        assert lines[-1]["index"] == COUNT - 11
        assert {line["index"]: line["body"] for line in lines}.items() <= {
            number: body(number).decode() for number in range(COUNT)
        }.items()


def test_a_member_that_knows_of_nothing_committed() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"first"], 1)
    found = checked(disk, is_running=True)
    assert found.is_good, found.findings
    assert "no entry was checked" in found.findings.notes[0]
    ledger.save_vote(TermVote(3, ""))
    assert checked(disk, is_running=True).term == 3


def test_a_member_that_starts_on_a_checked_store() -> None:
    """Its start and a check do not disturb each other."""
    disk = filled()
    ledger = opened(disk)
    assert checked(disk, is_running=True).is_good
    ledger.close(ordered=True)
    assert checked(disk).is_good
