"""Where an audit has to look closely: what counts as a copy, what may go, and what force excuses.

What the golden run has, and each plain violation of it, is in the matrix.
"""

from __future__ import annotations

from typing import Any

import pytest
from audit_events_kit import (
    VERIFIED,
    acked,
    answered,
    follows,
    heard,
    opening,
    promise,
    recovered,
    removed,
)
from lines_kit import Boot, events_of
from pyspark.sql import DataFrame, SparkSession

from actors.events import dledger, ha
from actors.pipeline.audits import commits, copies, kept, leaders, logs


def copies_of(boot: Boot) -> None:
    """Who counts: n1 of `mixed`, n1 and the Java slave n2 of `loose`, and nobody unknown."""
    boot.say(0, "mixed", promise(java="n2"))
    boot.say(0, "loose", promise(durability="written", java="n2"))
    for group in ("mixed", "loose"):
        boot.say(0, f"roles/{group}", opening(0, 0))
        place = f"{group}/group_transfer"
        boot.say(1, place, acked("n1", 100))
        boot.say(1, place, answered(100))
        boot.say(2, place, acked("n2", 200))
        boot.say(2, place, answered(200))
        boot.say(3, place, acked("n9", 300))
        boot.say(3, place, answered(300))
        boot.say(3, place, acked("n1", 300))


def connections_of(boot: Boot) -> None:
    """n1 reports less by a newer connection: with `older` the first one lives on."""
    for group, more in (("anew", ()), ("older", (acked("n1", 500, connection=1),))):
        place = f"{group}/group_transfer"
        boot.say(0, group, promise())
        boot.say(0, f"roles/{group}", opening(0, 0))
        boot.say(1, place, acked("n1", 400, connection=1))
        boot.say(1, place, answered(400))
        boot.say(2, place, acked("n1", 100, connection=2))
        for report in more:
            boot.say(3, place, report)
        boot.say(4, place, answered(300))


def epochs_of(n0: Boot, n1: Boot) -> None:
    """`forced` loses by force only; `again` is opened by its own master below what it answered."""
    steps = (("forced", n0, 0, 0, 100), ("forced", n1, 2, 80, 90), ("forced", n0, 3, 85, 95))
    for group, boot, number, start, end in steps:
        if number:
            boot.say(0, f"roles/{group}", heard(number))
        boot.say(0, f"roles/{group}", opening(number, start, forced=number == 2))
        boot.say(0, f"{group}/group_transfer", answered(end))
    for start, end in ((0, 100), (100, 120), (110, 130)):
        n0.say(0, "roles/again", opening(0, start))
        n0.say(0, "again/group_transfer", answered(end))


def cuts_of(first: Boot, second: Boot) -> None:
    """Logs that come back shorter: one promises that they do not, one says nothing of power."""
    for group, durability in (("sure", "synced"), ("loose_cut", "written")):
        first.say(0, group, promise(durability=durability))
        first.say(0, f"{group}/storage/store", recovered(0))
        first.say(0, f"roles/{group}", opening(0, 0))
        first.say(1, f"{group}/group_transfer", answered(100))
        second.say(9, group, promise(durability=durability))
        second.say(9, f"{group}/storage/store", recovered(40))


def shortened_slaves(n0: Boot, first: Boot, second: Boot) -> None:
    """Slaves that reported 250 of 300 bytes, of which 100 are whole records, and come back."""
    for group, end in (("begun", 100), ("short", 90), ("emptied", 0)):
        n0.say(0, group, promise())
        n0.say(0, f"roles/{group}", opening(0, 0))
        for answer in (100, 300):
            n0.say(1, f"{group}/group_transfer", answered(answer))
        first.say(0, group, promise())
        first.say(0, f"{group}/storage/store", recovered(0))
        first.say(1, f"roles/{group}", VERIFIED)
        first.say(2, f"{group}/ha_client", ha.OffsetReported(session=1, offset_bytes=250))
        second.say(9, group, promise())
        second.say(9, f"{group}/storage/store", recovered(end))


def removals_of(boot: Boot) -> None:
    """A member of a group in memory began with nothing, and may remove what it once committed."""
    for group, where in (("kept", "file"), ("gone", "memory")):
        handler = f"{group}/entry_pusher/entry_handler"
        boot.say(0, group, promise("dledger", store=where))
        boot.say(1, handler, dledger.CommittedRose(session=1, index=7))
        boot.say(2, handler, removed(8, 9, 8))
        boot.say(3, handler, removed(0, 9, 50))
        boot.say(4, handler, removed(7, 9, 7))
        boot.say(4, handler, removed(0, 9, -1))  # of a version that does not tell


def lost_logs_of(first: Boot, second: Boot) -> None:
    """Members that had committed eight entries find their log empty, and remove what is new, then
    what they have committed of it. One of them says that its vote counts for less.
    """
    for group, membership in (("anew_log", "forgot"), ("full_log", "")):
        place = f"{group}/entry_pusher/entry_handler"
        for boot, index, end in ((first, 7, 900), (second, 2, 0)):
            boot.say(0, group, promise("dledger"))
            boot.say(0, f"{group}/storage", recovered(end))
            if boot is second and membership:
                said = dledger.MembershipChanged(membership=membership)
                boot.say(0, f"{group}/state_maintainer", said)
            boot.say(1, place, dledger.CommittedRose(session=1, index=index))
        second.say(2, place, removed(3, 6, 3))
        second.say(3, place, removed(1, 6, 2))


def terms_of(first: Boot, second: Boot) -> None:
    """Members that lead term 4 and then begin below; what the new life says of its vote."""
    lives = (
        *(("emptied", "new", (0, 1)), ("rebuilt", "forgot", (0, 1)), ("unsaid", "", (0, 1))),
        *(("older", "new", (3,)), ("again", "forgot", (0, 5, 0)), ("full", "full", (0,))),
    )
    for name, membership, terms in lives:
        group = f"terms_{name}"
        for boot, its in ((first, (4,)), (second, terms)):
            boot.say(0, group, promise("dledger"))
            if boot is second and membership:
                boot.say(0, f"{group}/state", dledger.MembershipChanged(membership=membership))
            for term in its:
                boot.say(1, f"{group}/state", follows(term))


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    n0, n1 = Boot("n0"), Boot("n1")
    again, n1_again = Boot("n0", boot=2), Boot("n1", boot=2)
    copies_of(n0)
    connections_of(n0)
    epochs_of(n0, n1)
    cuts_of(n0, again)
    shortened_slaves(n0, n1, n1_again)
    removals_of(n1)
    lost_logs_of(n0, again)
    terms_of(n0, again)
    return events_of(spark, n0, n1, again, n1_again)


def found(table: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in table.select(*columns).collect())


def test_only_members_that_sync_are_copies_of_a_synced_group(events: DataFrame) -> None:
    broken = found(copies.too_few_copies(events), "group", "next_bytes", "slaves")
    of_both = [each for each in broken if each[0] in ("loose", "mixed")]
    assert of_both == [("loose", 300, []), ("mixed", 200, []), ("mixed", 300, [])]


def test_what_a_slave_reported_before_it_came_anew_is_no_copy(events: DataFrame) -> None:
    broken = found(copies.too_few_copies(events), "group", "next_bytes", "slaves")
    assert [each for each in broken if each[0] in ("anew", "older")] == [("anew", 300, [])]


def test_what_force_gave_up_is_no_finding_and_later_losses_are(events: DataFrame) -> None:
    broken = found(kept.opened_below(events), "group", "number", "start", "before")
    assert broken == [("again", 0, 110, 120), ("forced", 3, 85, 90)]


def test_a_log_may_come_back_shorter_only_where_nothing_was_promised(events: DataFrame) -> None:
    broken = found(kept.cut_on_a_node(events), "group", "node", "held", "boot", "end_bytes")
    assert broken == [("short", "n1", 100, 2, 90), ("sure", "n0", 100, 2, 40)]
    judged = {row["group"] for row in kept.synced_answers(events).collect()}
    assert judged == {"anew", "begun", "emptied", "mixed", "older", "short", "sure"}


def test_only_what_was_committed_and_replaced_was_lost(events: DataFrame) -> None:
    broken = found(commits.committed_removed(events), "group", "next", "end", "committed")
    assert [each for each in broken if each[0] in ("gone", "kept")] == [("kept", 7, 9, 7)]


def test_a_log_that_was_found_empty_had_nothing_to_remove(events: DataFrame) -> None:
    """Where its member says so. One that believes to have all has lost it by our fault."""
    broken = found(commits.committed_removed(events), "group", "next", "committed")
    assert [each for each in broken if each[0].endswith("_log")] == [
        ("anew_log", 2, 2),
        ("full_log", 2, 7),
        ("full_log", 3, 7),
    ]


def test_a_term_falls_to_0_only_with_a_vote_that_counts_for_less(events: DataFrame) -> None:
    """And only as the first of a boot: what falls later was not lost with a disk."""
    broken = found(leaders.falling_terms(events), "group", "boot", "term", "before")
    assert broken == [
        ("terms_again", 2, 0, 5),
        ("terms_full", 2, 0, 4),
        ("terms_older", 2, 3, 4),
        ("terms_unsaid", 2, 0, 4),
    ]


def test_a_member_that_is_a_java_node_has_no_log_to_miss(events: DataFrame) -> None:
    """n2 is missed all the same: other groups have it as one of ours."""
    ((node, groups),) = found(logs.absent_nodes(events), "node", "groups")
    others = [
        "anew",
        "anew_log",
        "begun",
        "emptied",
        "full_log",
        "gone",
        "kept",
        "loose_cut",
        "older",
        "short",
        "sure",
    ]
    assert node == "n2"
    assert [each for each in groups if not each.startswith("terms_")] == others
