"""Groups of real Java DLedger members and ours, in which everybody is killed once.

The judge shares no code with the project: all that was acknowledged is in the data files of all
members, which are the same to the last byte, and each entry has its record in their indexes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from interop_java_dledger import JavaDLedger
from interop_ledger import EQUAL, JAVAS, OURS, PAIR, PATIENT, MixedGroup, other
from interop_ledger_wire import ADDRESSES, SETTLE_S
from interop_processes import TEST_S, PeerFailed, Processes, wait_for
from interop_versions import beside

pytestmark = [pytest.mark.interop, pytest.mark.real_io, pytest.mark.timeout(TEST_S, func_only=True)]
T = TypeVar("T")

TRIES_MAX = 5
FAR = 3_000
"""Entries, some 25 files of them: three times what may be under way to a follower."""
SINGLE_FIRST = beside("dledger", batch=(False, True))
BATCH_FIRST = beside("dledger", batch=(True, False))
"""How a leader pushes: the one or the other beside the newest version."""


@pytest.mark.checklist(37, of="dledger")
@SINGLE_FIRST
def test_ours_follows_java_leaders(
    batch: bool, java: JavaDLedger, tmp_path: Path, processes: Processes
) -> None:
    group = MixedGroup(tmp_path, java, processes, leads="java", batch=batch)
    group.start(*JAVAS)
    group.append(60, *JAVAS)
    group.start(OURS)  # with nothing
    leader = group.append(60, *JAVAS)
    group.wait_until_equal()

    follower = other(JAVAS, leader)
    group.kill(follower)
    leader = group.append(60, leader)  # by our acknowledgements
    group.start(follower)
    group.append(20, *JAVAS)
    group.wait_until_equal()

    group.kill(OURS)
    group.append(20, *JAVAS)
    group.start(OURS)
    leader = group.append(20, *JAVAS)
    group.wait_until_equal()

    group.kill(leader)
    leader, killed = group.append(60, other(JAVAS, leader)), leader  # by our vote
    group.read_back(leader)
    group.start(killed)
    group.append(20, *JAVAS)
    log = group.wait_until_equal()
    assert len(set(log.terms)) > 1
    assert group.running[OURS].stop() == 0


@pytest.mark.checklist(37, of="dledger")
@BATCH_FIRST
def test_ours_leads_java_followers(
    batch: bool, java: JavaDLedger, tmp_path: Path, processes: Processes
) -> None:
    group = MixedGroup(tmp_path, java, processes, leads="python", batch=batch)
    group.start()
    group.append(120, OURS)
    group.use_java_client(30)
    group.wait_until_equal()

    one, two = JAVAS
    group.kill(one)
    group.append(60, OURS)
    group.start(one)
    group.append(20, OURS)
    group.wait_until_equal()

    group.empty(two)
    group.append(20, OURS)
    group.start(two)
    group.wait_until_equal()

    group.kill(OURS)
    group.start(OURS)
    group.append(60, OURS)
    log = group.wait_until_equal()
    assert len(set(log.terms)) > 1
    assert b"" in log.bodies  # a term's own entry, which Java's members took
    assert group.running[OURS].stop() == 0


@pytest.mark.checklist(37, of="dledger")
@beside("dledger", "0.3.3.4")
def test_two_of_ours_with_one_java(java: JavaDLedger, tmp_path: Path, processes: Processes) -> None:
    (theirs,) = set(ADDRESSES) - set(PAIR)
    group = MixedGroup(tmp_path, java, processes, leads="python", batch=True, ours=PAIR)
    group.start()
    group.append(60, OURS)
    one, two = PAIR

    group.kill(one)
    group.append(60, two)  # by the Java member's vote and acknowledgements
    group.start(one)
    group.append(20, one)  # the Java member follows one of ours after another
    group.wait_until_equal()

    group.kill(theirs)
    group.append(60, one)
    group.start(theirs)
    group.append(20, two)
    log = group.wait_until_equal()
    assert len(set(log.terms)) > 3
    assert [group.running[name].stop() for name in PAIR] == [0, 0]


@pytest.mark.checklist(37, of="dledger")
@SINGLE_FIRST
def test_leadership_is_handed_over_both_ways(
    batch: bool, java: JavaDLedger, tmp_path: Path, processes: Processes
) -> None:
    timings = dict.fromkeys(ADDRESSES, EQUAL)
    group = MixedGroup(tmp_path, java, processes, leads="any", batch=batch, timings=timings)
    group.start()
    group.append(20, OURS)
    group.wait_until_equal()
    for leader, to in ((OURS, JAVAS[0]), (JAVAS[0], OURS), (OURS, JAVAS[1])):

        def done(leader: str = leader, to: str = to) -> bool:
            """A Java member gives up where its first campaign finds no majority (418, 300)."""
            group.lead(leader)
            term = group.term_of(leader)
            if group.hand_over(leader, to) != 200:
                return False
            assert group.leader(to) == to
            assert group.term_of(to) > term
            return True

        wait_for(done, f"{leader} to hand over to {to}", timeout_s=SETTLE_S)
        group.append(20, to)
        group.wait_until_equal()
    assert group.running[OURS].stop() == 0


@pytest.mark.checklist(37, of="dledger")
@BATCH_FIRST
def test_far_behind_and_far_apart(
    batch: bool, java: JavaDLedger, tmp_path: Path, processes: Processes
) -> None:
    """Each kind in turn leads one that lacks thousands of entries, and one that has hundreds of
    another term, which nobody else has."""
    timings = dict.fromkeys(ADDRESSES, PATIENT)
    with MixedGroup(
        tmp_path, java, processes, leads="any", batch=batch, timings=timings, linked=True
    ) as group:
        group.start()
        group.append(5, OURS)
        for leader, behind in ((OURS, JAVAS[0]), (JAVAS[1], OURS)):
            within_tries(lambda: brings_far(group, leader, behind), leader)  # noqa: B023
            stray = within_tries(lambda: has_stray(group, behind), behind)  # noqa: B023
            group.append(400, other(tuple(ADDRESSES), leader, behind), leader)
            group.lead(leader)
            group.links.heal(lost=True)
            group.append(5, leader)
            assert not stray & set(group.wait_until_equal().bodies)
        assert group.running[OURS].stop() == 0


def within_tries(attempt: Callable[[], T | None], leader: str) -> T:
    """What it gives once `leader` has led for as long as it takes; beside other work it may not."""
    for _ in range(TRIES_MAX):
        found = attempt()
        if found:
            return found
    raise PeerFailed(f"{leader} was deposed {TRIES_MAX} times")


def brings_far(group: MixedGroup, leader: str, behind: str) -> bool:
    """Whether `leader` led, in one term, from before `behind` came back until it had all."""
    group.lead(leader)
    group.kill(behind)
    group.append_at_once(leader, FAR)
    term = group.term_of(group.lead(leader))
    group.start(behind)
    group.wait_until_equal()
    return group.leader_of(leader) == leader and group.term_of(leader) == term


def has_stray(group: MixedGroup, leader: str) -> set[bytes] | None:
    """Cut this leader off and send it entries; None: it led no more before it had them."""
    group.lead(leader)
    group.links.cut(leader)
    stray = group.send_many_unanswered(leader, 300)
    if stray is None:
        group.links.heal(lost=True)
    return stray
