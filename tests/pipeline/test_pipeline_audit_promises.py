"""What no promise covers is no finding; what an audit did not look at, it does not call held.

A member's life is written as its boots in order: `.` for one with an ordered end, `!` for one
without: a kill, a loss of power, or a node that still runs. "" is a member without an event log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from audit_events_kit import STOPPED, answered, opening, promise
from lines_kit import Boot, events_of
from pyspark.sql import DataFrame, SparkSession

from actors.pipeline.audits import copies, judging, kept, logs
from actors.pipeline.audits.audit import EventAudit, Evidence
from actors.pipeline.audits.registry import AUDITS
from actors.pipeline.places import Place
from actors.pipeline.verdicts import Verdict

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
    for group, (copies, lives, _) in LOST.items():
        names = tuple(f"{group}-{number}" for number in range(len(lives)))
        durability = "synced" if group == "synced" else "written"
        said = promise(durability=durability, members=names, copies=copies)
        members = boots_of(group, lives, said)
        first, last = members[0][0], members[0][-1]
        first.say(0, f"roles/{group}", opening(0, 0))
        first.say(1, f"{group}/group_transfer", answered(2000))
        last.say(5, f"roles/{group}", opening(0, 1900))
        yield from stopped(members, lives)


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return events_of(spark, *losses()).cache()


def judged(spark: SparkSession, audit: EventAudit, *boots: Boot) -> Verdict:
    nowhere = Place("/nowhere")
    events = events_of(spark, *boots)
    evidence = Evidence(spark=spark, events=events, data=nowhere, out=nowhere)
    return judging.judge(audit, evidence)


def groups(table: DataFrame) -> set[str]:
    return {row["group"] for row in table.select("group").collect()}


def test_a_written_group_may_lose_what_all_that_had_it_lost_with_the_power(
    events: DataFrame,
) -> None:
    expected = {group for group, (*_, is_broken) in LOST.items() if is_broken}
    assert groups(kept.opened_below(events)) == expected
    assert groups(kept.kept_answers(events)) == expected


def test_upstreams_rules_are_held_to_no_promise_of_ours(spark: SparkSession) -> None:
    """`ours` is judged although a log is torn, `theirs` although its newest boot is strict."""
    n0, again, torn = Boot("n0"), Boot("n0", boot=2), Boot("n1", seq=2)
    for boot, upstream in ((n0, True), (again, False)):
        boot.say(0, "theirs", promise(upstream=upstream))
        boot.say(0, "ours", promise())
        for group in ("ours", "theirs"):
            boot.say(1, f"{group}/group_transfer", answered(100))
    torn.say(0, "ours", promise())
    verdict = judged(spark, copies.ENOUGH_COPIES, n0, again, torn)
    assert [(each["group"], each["boot"]) for each in verdict.witnesses] == [
        ("ours", 1),
        ("ours", 2),
    ]
    assert verdict.checked.rows == 2
    assert "Left out, as events are missing or were changed: n1 boot 1." in verdict.note
    assert verdict.note.endswith("Left out, as upstream's rules promise less: theirs.")


def test_whatever_is_a_promise_is_none_of_upstreams_rules() -> None:
    errors = [each for each in AUDITS if isinstance(each, EventAudit) and each.severity == "error"]
    assert [each.name for each in errors if not each.strict] == [logs.LOGS_WHOLE.name]
