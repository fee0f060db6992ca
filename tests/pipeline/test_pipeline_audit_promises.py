"""What no promise covers is no finding; what an audit did not look at, it does not call held.

A member's life is written as its boots in order: `.` for one with an ordered end, `!` for one
without: a kill, a loss of power, or a node that still runs. "" is a member without an event log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from audit_events_kit import (
    STOPPED,
    VERIFIED,
    acked,
    answered,
    heard,
    opening,
    promise,
    recovered,
    removed,
)
from lines_kit import Boot, events_of
from pyspark.sql import DataFrame, SparkSession

from actors.events import dledger, ha
from actors.pipeline.audits import commits, copies, judging, kept, leaders, logs, sync_sets
from actors.pipeline.audits.audit import EventAudit, Evidence
from actors.pipeline.audits.judging import AUDITS
from actors.pipeline.locations import Location

LEADER = "it/entry_pusher/quorum_ack_checker"
FOLLOWER = "it/entry_pusher/entry_handler"
ROLE = "it/state_maintainer"
MASTER = "it/group_transfer"
LEADS = dledger.RoleChanged(session=1, role="LEADER", term=1, leader="n0")
FOLLOWS = dledger.RoleChanged(session=1, role="FOLLOWER", term=1, leader="n2")
COMMITTED = dledger.CommittedRose(session=1, index=7, holders=("n0", "n1"))

LOST = {
    "synced": (1, ("!.",), True),
    "alone": (1, ("!.",), False),
    "stopped": (1, ("..",), True),
    "one_of_two": (2, ("!.", "."), True),
    "both": (2, ("!.", "!."), False),
    "other_gone": (2, ("!.", "!"), False),
    "other_unheard": (2, ("!.", ""), False),
    "none_came_back": (2, (".!", "!"), True),
}
"""A classic group that is opened by its master's last boot below what its first one answered: its
copies, its members' lives, and whether the loss breaks its promise. All but the first are
`written`.
"""

REMOVED = {
    "own_disk": ("synced", ("!.", ".", "."), True),
    "own_cache": ("written", ("!.", ".", "."), False),
    "other_cache": ("written", (".", "!.", "."), False),
    "down_for_good": ("written", ("..", "!", "."), True),
    "member_unheard": ("written", (".", "", "."), False),
    "java": ("synced", ("..", ".", ""), False),
}
"""A DLedger group of which a member says that an entry is committed, and later removes it: its
durability, its members' lives, and whether that breaks its promise. The last has a Java member.
"""

FORCED = {
    "seen": ((4, 5, 6), (), True),
    "known": ((4, 5, 6), (5,), False),
    "before_known": ((4, 5, 6), (4,), True),
    "opened_in_no_log": ((4, 6), (), False),
    "its_boot_is_gone": ((4, -5, 6), (), False),
}
"""A classic group that acknowledges 2000 bytes by promotion 4 and is opened at 1900 by the last: by
which numbers it is opened, negative: in a later boot than the one that heard of it; which of them
were forced; whether that breaks its promise.
"""


COUNTED = {
    "all_there": (1, 0, ()),
    "first_torn": (1, 1, (1,)),
    "first_begins_late": (1, 1, (0, 1)),
    "first_expired": (1, 1, (0, 1, 2)),
    "last_torn": (1, 2, (1,)),
    "master_torn": (2, 0, ()),
}
"""Slaves of two boots that are counted with 100 bytes, and of whose word for that nothing is left:
with which seq the master's log begins, in which boot they reported them, and which of the three
lines of that are gone. Only the first is sure to have said no such thing.
"""


def boots_of(group: str, lives: tuple[str, ...], said: Any) -> list[list[Boot]]:
    """By member GROUP-0, GROUP-1, ...: its boots, each of which begins with `said`."""
    found = []
    for number, life in enumerate(lives):
        boots = [Boot(f"{group}-{number}", boot) for boot in range(1, len(life) + 1)]
        for boot in boots:
            boot.say(0, group, said)
        found.append(boots)
    return found


def stopped(members: list[list[Boot]], lives: tuple[str, ...]) -> Iterator[Boot]:
    """All of them, the last event said where there is one."""
    for boots, life in zip(members, lives, strict=True):
        for boot, end in zip(boots, life, strict=True):
            if end == ".":
                boot.say(9, "", STOPPED)
            yield boot


def losses() -> Iterator[Boot]:
    """See LOST."""
    for group, (needed, lives, _) in LOST.items():
        names = tuple(f"{group}-{number}" for number in range(len(lives)))
        durability = "synced" if group == "synced" else "written"
        said = promise(durability=durability, members=names, copies=needed)
        members = boots_of(group, lives, said)
        first, last = members[0][0], members[0][-1]
        first.say(0, f"roles/{group}", opening(0, 0))
        first.say(1, f"{group}/group_transfer", answered(2000))
        last.say(5, f"roles/{group}", opening(0, 1900))
        yield from stopped(members, lives)


def forced() -> Iterator[Boot]:
    """See FORCED; the nodes of the last opening once held, and lack, what was acknowledged."""
    for group, (numbers, by_force, _) in FORCED.items():
        slave = Boot(f"{group}-slave")
        slave.say(0, group, promise())
        slave.say(0, f"{group}/storage/store", recovered(0))
        slave.say(1, f"roles/{group}", attrs.evolve(VERIFIED, number=4))
        slave.say(2, f"{group}/ha_client", ha.OffsetReported(session=1, offset_bytes=2000))
        slave.say(3, f"{group}/storage/store", recovered(1900))
        yield slave
        for number in numbers:
            place = f"roles/{group}"
            boot = Boot(f"{group}-{abs(number)}")
            boot.say(0, group, promise())
            if number > 0:
                boot.say(1, place, heard(number))
            boot.say(2, place, opening(abs(number), 1900, forced=number in by_force))
            if number == 4:
                boot.say(3, f"{group}/group_transfer", answered(2000))
            yield boot


def removals() -> Iterator[Boot]:
    """See REMOVED."""
    for group, (durability, lives, _) in REMOVED.items():
        names = tuple(f"{group}-{number}" for number in range(len(lives)))
        java = "java-2" if group == "java" else ""
        said = promise("dledger", durability=durability, members=names, java=java)
        members = boots_of(group, lives, said)
        handler = f"{group}/entry_pusher/entry_handler"
        members[0][0].say(1, handler, attrs.evolve(COMMITTED, index=500))
        members[0][-1].say(2, handler, removed(485, 490, 485))
        yield from stopped(members, lives)


def openings() -> Iterator[Boot]:
    """What is lawful: a cluster file that names another master (`file`), a number that was forced
    while others could not hear of it (`forced`), or may have been (`unsure`). And what is not: two
    masters by one file (`same`) or by one promotion (`twice`). `old` is of a version that does not
    tell what its file says.
    """
    n0, n1, n1_again = Boot("m0"), Boot("m1"), Boot("m1", boot=2)
    for boot, first, other in ((n0, "m0", "m1"), (n1, "m1", "m0"), (n1_again, "m1", "m0")):
        for group in ("file", "forced", "unsure", "twice"):
            boot.say(0, group, promise(members=(first, other)))
        boot.say(0, "same", promise(members=("m0", "m1")))
    for group in ("file", "same", "old"):
        n0.say(1, f"roles/{group}", opening(0, 3000))
        n1_again.say(1, f"roles/{group}", opening(0, 5000))
        n1_again.say(2, f"{group}/group_transfer", answered(6000))
    n0_again = Boot("m0", boot=3)
    n0_again.say(0, "file", promise(members=("m0", "m1")))
    n0_again.say(1, "roles/file", opening(0, 3000))
    n0_again.say(2, "file/group_transfer", answered(3500))
    for group in ("forced", "unsure", "twice"):
        n0.say(1, f"roles/{group}", heard(5))
        n0.say(1, f"roles/{group}", opening(5, 10))
        n1.say(1, f"roles/{group}", heard(5))
        last = n1_again if group == "unsure" else n1
        last.say(2, f"roles/{group}", opening(5, 10, forced=group == "forced"))
    n1_again.say(3, "roles/file", heard(1))
    n1_again.say(3, "roles/file", opening(1, 5900))
    return iter((n0, n1, n1_again, n0_again))


def some_judged() -> Iterator[Boot]:
    """j0 leads, follows and is a master; of its slaves j1 stopped in order, and j2 did not."""
    j0, j1, j2 = Boot("j0"), Boot("j1"), Boot("j2")
    follows = attrs.evolve(FOLLOWS, session=2)
    for place, event in (
        ("it", promise("dledger")),
        (ROLE, LEADS),
        (ROLE, follows),
        (LEADER, COMMITTED),
        (FOLLOWER, attrs.evolve(COMMITTED, session=2)),
        (MASTER, answered(100)),
        (MASTER, acked("j1", 100)),
        (MASTER, acked("j2", 100)),
        ("once", promise(copies=1)),
        ("once/group_transfer", answered(100)),
        ("expired/entry_pusher/quorum_ack_checker", COMMITTED),
        ("expired/group_transfer", answered(100)),
        ("memory", promise("dledger", store="memory")),
        ("memory/entry_pusher/entry_handler", COMMITTED),
    ):
        j0.say(0, place, event)
    j1.say(9, "", STOPPED)
    j2.say(9, "it/ha_client", ha.OffsetReported(session=1, offset_bytes=100))
    return iter((j0, j1, j2))


def counted() -> Iterator[Boot]:
    """See COUNTED."""
    for group, (seq, number, lost) in COUNTED.items():
        master = Boot(f"{group}-master", seq=seq)
        master.say(0, f"{group}/group_transfer", acked(f"{group}-slave", 100))
        yield master
        for at in (1, 2):
            boot = Boot(f"{group}-slave", at)
            for offset in (50, 100 if at == number else 50):
                report = ha.OffsetReported(session=1, offset_bytes=offset)
                boot.say(at, f"{group}/ha_client", report)
            boot.say(at, "", STOPPED)
            if at == number:
                boot.lines = [line for nth, line in enumerate(boot.lines) if nth not in lost]
            yield boot


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return events_of(spark, *losses(), *forced(), *removals(), *openings(), *some_judged())


def groups(table: DataFrame) -> set[str]:
    return {row["group"] for row in table.select("group").collect()}


def test_a_written_group_may_lose_what_all_that_had_it_lost_with_the_power(
    events: DataFrame,
) -> None:
    expected = {group for group, (*_, is_broken) in LOST.items() if is_broken}
    assert groups(kept.opened_below(events)) & set(LOST) == expected
    assert groups(kept.kept_answers(events)) & set(LOST) == expected


def test_what_a_forced_promotion_may_have_given_up_is_not_judged(events: DataFrame) -> None:
    expected = {group for group, (*_, is_broken) in FORCED.items() if is_broken}
    assert groups(kept.opened_below(events)) & set(FORCED) == expected
    assert groups(kept.cut_on_a_node(events)) & set(FORCED) == expected


def test_a_written_ledger_may_replace_what_a_member_lost_with_its_power(events: DataFrame) -> None:
    expected = {group for group, (*_, is_broken) in REMOVED.items() if is_broken}
    assert groups(commits.committed_removed(events)) == expected
    assert groups(commits.told_for_good(events)) & set(REMOVED) == expected


def test_a_cluster_file_that_names_another_master_is_another_word(events: DataFrame) -> None:
    """Which of its masters came first nobody knows; a promotion came after all of them."""
    assert groups(leaders.two_masters(events)) == {"same", "twice"}
    judged = leaders.ruled_openings(events).where("group in ('file', 'old', 'same')")
    assert sorted((row["group"], row["node"], row["boot"]) for row in judged.collect()) == [
        ("file", "m0", 1),
        ("file", "m0", 3),
        ("file", "m1", 2),
        ("file", "m1", 2),
        ("same", "m0", 1),
        ("same", "m1", 2),
    ]
    below = kept.opened_below(events).where("group in ('file', 'old', 'same')").collect()
    assert [(row["group"], row["number"], row["before"]) for row in below] == [("file", 1, 6000)]


def test_a_slave_whose_word_is_not_all_there_is_not_held_against_its_master(
    spark: SparkSession,
) -> None:
    nowhere = Location("/nowhere")
    events = events_of(spark, *counted())
    evidence = Evidence(spark=spark, events=events, data=nowhere, out=nowhere)
    verdict = judging.judge(copies.AS_REPORTED, evidence)
    assert [each["slave"] for each in verdict.witnesses] == ["all_there-slave"]
    assert verdict.checked.rows == 1


def test_upstreams_rules_are_held_to_no_promise_of_ours(spark: SparkSession) -> None:
    """`ours` is judged although a log is torn, `theirs` not even where its newest boot is strict.
    And a claim is not held by a member of which nothing was judged.
    """
    n0, again, torn = Boot("n0"), Boot("n0", boot=2), Boot("n1", seq=2)
    for boot, upstream in ((n0, True), (again, False)):
        boot.say(0, "theirs", promise(upstream=upstream))
        boot.say(0, "ours", promise())
        for group in ("ours", "theirs"):
            boot.say(1, f"{group}/group_transfer", answered(100))
    torn.say(0, "ours", promise())
    again.say(2, ROLE, FOLLOWS)
    again.say(2, FOLLOWER, COMMITTED)
    nowhere = Location("/nowhere")
    events = events_of(spark, n0, again, torn)
    evidence = Evidence(spark=spark, events=events, data=nowhere, out=nowhere)
    verdict = judging.judge(copies.ENOUGH_COPIES, evidence)
    found = [(each["group"], each["boot"]) for each in verdict.witnesses]
    assert found == [("ours", 1), ("ours", 2)]
    assert verdict.checked.rows == 2
    assert "Left out, as events are missing or were changed: n1 boot 1." in verdict.note
    assert verdict.note.endswith("Left out, as upstream's rules promise less: theirs.")
    verdict = judging.judge(commits.COMMITTED_ON_QUORUM, evidence)
    assert (verdict.verdict, verdict.checked.rows) == ("not_applicable", 0)


def test_whatever_is_a_promise_is_none_of_upstreams_rules() -> None:
    """But for what holds by all rules: whole event logs, and what controllers decide once."""
    errors = [each for each in AUDITS if isinstance(each, EventAudit) and each.severity == "error"]
    by_all = [logs.LOGS_WHOLE, sync_sets.ONE_MASTER, sync_sets.EPOCHS_RISE, sync_sets.ONE_SET]
    assert [each.name for each in errors if not each.strict] == [each.name for each in by_all]


def test_only_what_is_judged_is_counted(events: DataFrame) -> None:
    """Not what a follower of Java members hears, a leader whose beginning has expired says, a group
    in memory commits, one copy needs, an older version answers, or a killed slave was counted with.
    """

    def rows(table: DataFrame) -> list[tuple[str, int]]:
        mine = table.where("node = 'j0'").select("group", "seq", "boot", "kind").collect()
        return sorted((row["group"], row["seq"]) for row in mine)

    assert rows(commits.told_by_leaders(events)) == [("it", 4)]
    assert rows(commits.told_for_good(events)) == [("expired", 11), ("it", 4), ("it", 5)]
    assert rows(copies.promised_answers(events)) == [("it", 6)]
    assert rows(copies.sure_counts(events)) == [("it", 7)]
