"""Dying before every step that changes the disk: what was there is there, or what was asked for."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
from ledger_kit import FILE, chain, dying_after, finish, fresh, model, opened, sim_disk, sync

from actors.sim.disk import SimDisk
from actors.storage.ledger.file_ledger import FileLedger
from actors.storage.ledger.ledger import TermVote
from actors.storage.log.expiry import HOUR_MS

BODIES = [bytes([97 + n]) * 952 for n in range(6)]
Entries = list[tuple[int, int, bytes]]
BEFORE: Entries = [(n, 1, body) for n, body in enumerate(BODIES)]


def prefixes(entries: Entries, least: int) -> list[Entries]:
    return [entries[:count] for count in range(least, len(entries) + 1)]


def append(ledger: FileLedger, disk: SimDisk) -> None:
    ledger.append_as_leader([b"x" * 952, b"\0" * 3000, b"y" * 952], 2)
    sync(ledger, disk)
    ledger.append_as_leader([b"z" * 10], 2)
    sync(ledger, disk, whole=True)
    sync(ledger, disk, whole=True)


def truncate(ledger: FileLedger, disk: SimDisk) -> None:
    finish(ledger.truncate(2))


def truncate_and_append(ledger: FileLedger, disk: SimDisk) -> None:
    finish(ledger.truncate(1))
    ledger.append_as_leader([b"n" * 952], 2)
    sync(ledger, disk)


def truncate_all(ledger: FileLedger, disk: SimDisk) -> None:
    finish(ledger.truncate(0))


def re_base(ledger: FileLedger, disk: SimDisk) -> None:
    finish(ledger.restart_at(60, 3 * FILE + 500))
    ledger.append_as_follower(chain([b"r" * 900], term=2, index=60, pos=3 * FILE + 500))
    sync(ledger, disk)


def expire(ledger: FileLedger, disk: SimDisk) -> None:
    ledger.commit(5)
    object.__setattr__(ledger._cleaner.env, "wall_clock_ms", lambda: 1 << 42)
    assert 1_700_000_000_000 + 72 * HOUR_MS < 1 << 42
    for hour in range(24):
        object.__setattr__(
            ledger._cleaner.env, "wall_clock_ms", lambda hour=hour: (1 << 42) + hour * HOUR_MS
        )
        ledger.delete_expired(5)


def save_vote(ledger: FileLedger, disk: SimDisk) -> None:
    ledger.save_vote(TermVote(2, "n1"))


def stop(ledger: FileLedger, disk: SimDisk) -> None:
    ledger.commit(3)
    ledger.close(ordered=True)


@attrs.frozen
class Case:
    """What is done, and what a log may be afterwards; `done` only, once it has been."""

    act: Callable[[FileLedger, SimDisk], None]
    may: list[Entries]
    done: Entries


ADDED: Entries = [*BEFORE, (6, 2, b"x" * 952), (7, 2, bytes(3000)), (8, 2, b"y" * 952)]
ADDED_ALL: Entries = [*ADDED, (9, 2, b"z" * 10)]
CUT: Entries = [BEFORE[0], (1, 2, b"n" * 952)]
BASED: Entries = [(60, 2, b"r" * 900)]
CASES = {
    "append": Case(append, prefixes(ADDED_ALL, 6), ADDED_ALL),
    "truncate": Case(truncate, [BEFORE], BEFORE[:2]),
    "truncate_and_append": Case(truncate_and_append, [BEFORE, BEFORE[:1]], CUT),
    "truncate_all": Case(truncate_all, prefixes(BEFORE, 0), []),
    "re_base": Case(re_base, prefixes(BEFORE, 0), BASED),
    "expire": Case(expire, [BEFORE], BEFORE[4:]),
    "save_vote": Case(save_vote, [BEFORE], BEFORE),
    "stop": Case(stop, [BEFORE], BEFORE),
}


@pytest.mark.checklist(7, 26, 27, of="dledger")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("loses_power", [False, True])
def test_dying_before_every_step(
    monkeypatch: pytest.MonkeyPatch, name: str, loses_power: bool
) -> None:
    case = CASES[name]
    steps, died = 0, True
    seen = []
    while died:
        disk = sim_disk(steps)
        ledger = fresh(disk)
        ledger.append_as_leader(BODIES, 1)
        sync(ledger, disk, whole=True)
        sync(ledger, disk, whole=True)
        assert model(ledger) == BEFORE
        with dying_after(monkeypatch, steps) as has_died:
            case.act(ledger, disk)
        died = has_died[0]
        if loses_power:
            disk.power_loss()
        else:
            disk.kill()
        again = opened(disk)
        found = model(again)
        assert found == case.done or (died and found in case.may)
        assert again.vote in (
            (TermVote(1, "n0"), TermVote(2, "n1"))
            if died
            else (TermVote(2, "n1") if name == "save_vote" else TermVote(1, "n0"),)
        )
        again.append_as_leader([b"after"], 3)
        sync(again, disk)
        disk.power_loss()
        assert model(opened(disk)) == [*found, (again.end_index, 3, b"after")]
        seen.append(found)
        steps += 1
    assert steps > 2
    assert seen[0] in (BEFORE, case.done)
    assert seen[-1] == case.done


@pytest.mark.parametrize("loses_power", [False, True])
def test_dying_before_every_step_of_an_opening(
    monkeypatch: pytest.MonkeyPatch, loses_power: bool
) -> None:
    """It cuts a torn entry, makes the index again, and dies over it."""
    steps, died = 0, True
    while died:
        disk = sim_disk(steps)
        ledger = fresh(disk)
        ledger.append_as_leader(BODIES, 1)
        sync(ledger, disk)
        ledger.append_as_leader([b"k" * 700] * 4, 1)
        path = f"{ledger._log.path_of(ledger.end_bytes)}"
        disk.open(path, "w").pwrite(bytes(200), ledger.end_bytes % FILE - 800)
        disk.unlink(f"{ledger._index.log.path_of(0)}")
        disk.kill()
        with dying_after(monkeypatch, steps) as has_died:
            opened(disk)
        died = has_died[0]
        if loses_power:
            disk.power_loss()
        else:
            disk.kill()
        found = model(opened(disk))
        assert found[:6] == BEFORE
        assert len(found) <= 9
        steps += 1
    assert steps > 12


def test_a_new_store_may_die_at_any_step(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, died = 0, True
    while died:
        disk = sim_disk(steps)
        with dying_after(monkeypatch, steps) as has_died:
            ledger = fresh(disk)
            ledger.save_vote(TermVote(3, "n1"))
            ledger.append_as_leader([b"a"], 3)
        died = has_died[0]
        disk.power_loss()
        again = fresh(disk)
        assert model(again) in ([], [(0, 3, b"a")])
        assert again.vote in (TermVote(1, "n0"), TermVote(3, "n1"), TermVote(0, ""))
        steps += 1
    assert steps > 20
