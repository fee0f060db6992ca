"""Outages of DLedger groups, where the events of one who led are lost."""

from __future__ import annotations

import pytest
from audit_events_kit import promise
from lines_kit import SECOND, START_US, Boot, events_of, rows
from pyspark.sql import SparkSession

from actors.events import dledger, node
from actors.events.node import ORDERED
from actors.pipeline.gold.outages import outages

COLUMNS = ("from_us", "took_us", "from_node", "until_node", "heard", "witnessed")


def at(seconds: float) -> int:
    return START_US + round(seconds * SECOND)


def takes(boot: Boot, at_s: float, session: int, role: str, term: int, leader: str) -> None:
    event = dledger.RoleChanged(session=session, role=role, term=term, leader=leader)
    boot.say(at_s, "ledger/state_maintainer", event)


def leads(boot: Boot, session: int, *told: tuple[float, int]) -> None:
    for at_s, index in told:
        rose = dledger.CommittedRose(session=session, index=index, holders=("n0", "n2"))
        boot.say(at_s, "ledger/entry_pusher/quorum_ack_checker", rose)


def hears(boot: Boot, session: int, *told: tuple[float, int]) -> None:
    for at_s, index in told:
        rose = dledger.CommittedRose(session=session, index=index)
        boot.say(at_s, "ledger/entry_pusher/entry_handler", rose)


def test_what_followers_hear_of_a_lost_leader_is_its_answers(spark: SparkSession) -> None:
    """n2 leads, then n1, whose disk is lost later, then n0. n2 catches up in between and at the
    end, with nothing that is new.
    """
    n0, n2, n2_again = Boot("n0"), Boot("n2"), Boot("n2", boot=2)
    takes(n2, 0.1, 1, "CANDIDATE", 0, "")
    takes(n2, 0.2, 2, "LEADER", 0, "n2")
    leads(n2, 2, (0.9, 5), (0.95, 10))
    takes(n0, 0.3, 1, "FOLLOWER", 0, "n2")
    hears(n0, 1, (0.96, 10))
    takes(n0, 2.5, 2, "CANDIDATE", 0, "")
    takes(n0, 3.0, 3, "FOLLOWER", 1, "n1")
    hears(n0, 3, *((3.1 + step / 20, 11 + step) for step in range(100)))  # up to 8.05
    takes(n2_again, 5.0, 1, "CANDIDATE", 0, "")
    takes(n2_again, 5.1, 2, "FOLLOWER", 1, "n1")
    hears(n2_again, 2, (5.12, 20), (8.4, 90), (8.41, 110))
    takes(n2_again, 8.5, 3, "CANDIDATE", 1, "")
    takes(n0, 8.9, 4, "LEADER", 2, "n0")
    leads(n0, 4, (9.05, 111), (9.1, 112))
    found = outages(events_of(spark, n0, n2, n2_again))
    assert rows(found, *COLUMNS) == [
        (at(0.95), 2_150_000, "n2", "n1", True, True),
        (at(8.05), 1_000_000, "n1", "n0", True, True),
    ]


def test_whoever_was_away_is_no_witness_of_what_lost_leaders_did(spark: SparkSession) -> None:
    """n0 was down for a minute, and stands again before it follows, as a heartbeat tells it of a
    later term; nobody else has a log here.
    """
    first, second = Boot("n0"), Boot("n0", boot=2)
    takes(first, 0.1, 1, "CANDIDATE", 1, "")
    takes(first, 0.2, 2, "FOLLOWER", 1, "n1")
    hears(first, 2, (1.0, 10), (1.05, 20))
    takes(second, 61.0, 1, "CANDIDATE", 1, "")
    takes(second, 61.05, 2, "CANDIDATE", 3, "")
    takes(second, 61.1, 3, "FOLLOWER", 3, "n2")
    hears(second, 3, (61.2, 4000))
    found = outages(events_of(spark, first, second))
    assert rows(found, *COLUMNS) == [(at(1.05), 60_150_000, "n1", "n2", True, False)]


def test_a_leader_that_speaks_for_itself_needs_no_follower(spark: SparkSession) -> None:
    """Whose clock is ahead of its leader's."""
    n0, n1 = Boot("n0"), Boot("n1")
    takes(n0, 0.1, 1, "LEADER", 1, "n0")
    leads(n0, 1, (1.0, 10), (9.0, 20))
    takes(n1, 0.1, 1, "FOLLOWER", 1, "n0")
    hears(n1, 1, (5.0, 20))
    found = outages(events_of(spark, n0, n1))
    assert rows(found, *COLUMNS) == [(at(1), 8_000_000, "n0", "n0", False, False)]


@pytest.mark.parametrize(
    ("reasons", "witnessed"),
    [
        ((ORDERED, ORDERED), False),
        ((None, ORDERED), False),  # killed before, and the rest was stopped then
        ((ORDERED, None), True),
        ((ORDERED, "the disk failed"), True),
    ],
)
def test_a_night_in_which_all_were_stopped_is_no_outage(
    spark: SparkSession, reasons: tuple[str | None, ...], witnessed: bool
) -> None:
    before, after = (Boot("n0"), Boot("n1")), (Boot("n0", boot=2), Boot("n1", boot=2))
    for boot, at_s in zip((*before, *after), (0.0, 0.0, 600.0, 600.0), strict=True):
        boot.say(at_s, "ledger", promise(members=("n0", "n1")))
    for boot, at_s in ((before[0], 0.2), (after[1], 601.0)):
        takes(boot, at_s, 1, "LEADER", 1, boot.node)
        leads(boot, 1, (at_s + 0.1, 4), (at_s + 0.15, 5))
    for boot, reason, at_s in zip(before, reasons, (2.0, 3.0), strict=True):
        if reason is None:
            takes(boot, at_s, 2, "CANDIDATE", 1, "")
        else:
            boot.say(at_s, "", node.NodeStopped(reason=reason))
    found = outages(events_of(spark, *before, *after))
    assert rows(found, "took_us", "witnessed") == [(600_750_000, witnessed)]


@pytest.mark.parametrize(
    ("lost_s", "elected_s", "witnessed"),
    [
        (2.0, 605.0, False),
        (2.0, 700.0, True),  # they found no leader for long once they ran again
        (300.0, 1205.0, True),  # stopped and started because nobody led
        (580.0, 1205.0, False),
    ],
)
def test_a_stop_excuses_no_outage_that_is_longer_than_itself(
    spark: SparkSession, lost_s: float, elected_s: float, witnessed: bool
) -> None:
    """All stop at 3 s and run again at 600 s, or stop at 600 s and run again at 1,200 s."""
    stopped_s, again_s = (3.0, 600.0) if lost_s == 2.0 else (600.0, 1200.0)
    before, after = (Boot("n0"), Boot("n1")), (Boot("n0", boot=2), Boot("n1", boot=2))
    for boot, at_s in zip((*before, *after), (0.0, 0.0, again_s, again_s), strict=True):
        boot.say(at_s, "ledger", promise(members=("n0", "n1")))
    takes(before[0], 0.2, 1, "LEADER", 1, "n0")
    leads(before[0], 1, (0.3, 4), (0.35, 5))
    takes(before[1], 0.2, 1, "FOLLOWER", 1, "n0")
    takes(before[1], lost_s, 2, "CANDIDATE", 1, "")
    for boot in before:
        boot.say(stopped_s, "", node.NodeStopped(reason=ORDERED))
    takes(after[1], elected_s, 1, "LEADER", 2, "n1")
    leads(after[1], 1, (elected_s + 0.1, 6), (elected_s + 0.15, 7))
    found = outages(events_of(spark, *before, *after))
    assert rows(found, "from_us", "witnessed") == [(at(0.35), witnessed)]
