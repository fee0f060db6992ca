"""The alarms as Spark's stateful operator, without Java: its state, its timers, its arguments."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

import attrs
from alarms_kit import LIMITS, Story, brief, found
from lines_kit import START_US
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from actors.events.dledger import CommittedRose, RoleChanged
from actors.pipeline.alarms.facts import Fact
from actors.pipeline.alarms.findings import Finding, of_dict
from actors.pipeline.alarms.processor import GroupAlarms

START_MS = START_US // 1000


def operator() -> TwsTester:
    return TwsTester(
        GroupAlarms(LIMITS),
        timeMode="EventTime",
        eventTimeExtractor=lambda row: round(row["clock"].timestamp() * 1000),
    )


def rows(facts: Iterable[Fact], time_s: float) -> list[Row]:
    """As the source gives them in the batch that reaches a time."""
    clock = datetime.datetime.fromtimestamp(START_US / 1e6 + time_s, datetime.UTC)
    return [Row(**attrs.asdict(fact), clock=clock) for fact in facts]


def findings(given: Iterable[Row]) -> list[Finding]:
    return [of_dict(row.asDict()) for row in given]


def role(term: int, leader: str) -> RoleChanged:
    return RoleChanged(session=term, role="FOLLOWER", term=term, leader=leader)


def batches(story: Story, count: int) -> list[list[Fact]]:
    """The story's facts in batches by time."""
    facts = sorted(story.facts(), key=lambda fact: (fact.ts_us, fact.node, fact.seq))
    size = -(-len(facts) // count)
    return [facts[at : at + size] for at in range(0, len(facts), size)]


def test_a_timer_tells_what_nobody_answered_and_only_once() -> None:
    story = Story()
    story.say("n1", 0, role(5, "n0"))
    story.say("n1", 10, role(6, ""))
    spark = operator()
    spark.setWatermark(START_MS)
    assert spark.test("g", rows(story.facts(), 10)) == []
    assert findings(spark.setWatermark(START_MS + 12_000)) == []
    (lost,) = findings(spark.setWatermark(START_MS + 12_500))
    assert brief([lost]) == [("failover", "n1", "n0", 2_500_000)]
    assert spark.setWatermark(START_MS + 60_000) == []
    story = Story()
    story.say("n1", 61, role(7, "n2"))
    (over,) = findings(spark.test("g", rows(story.facts(), 61)))
    assert brief([over]) == [("failover_over", "n1", "n0", 51_000_000)]
    story = Story()
    story.say("n1", 62, role(7, "n2"))
    assert spark.test("g", rows(story.facts(), 62)) == []


def test_two_leaders_are_told_at_once_and_groups_do_not_mix() -> None:
    spark = operator()
    leads = RoleChanged(session=1, role="LEADER", term=5, leader="n0")
    one, two = Story(), Story()
    one.say("n0", 0, leads)
    two.say("n2", 0, leads)
    assert spark.test("g", rows(one.facts(), 1)) == []
    assert spark.test("h", rows(two.facts(), 1)) == []
    assert brief(findings(spark.test("g", rows(two.facts(), 2)))) == [
        ("two_leaders", "n2", "n0", 5)
    ]


def test_batch_by_batch_the_same_is_found_as_in_one_piece() -> None:
    """State and timers lose nothing between batches, and add nothing."""
    story = Story()
    for number in range(1, 60):
        story.say("n0", number, CommittedRose(session=1, index=number * 10))
        if number < 20 or number % 7 == 0:
            story.say("n1", number + 0.3, CommittedRose(session=1, index=number * 10))
    story.say("n1", 65, role(5, "n0"))
    story.say("n1", 70, role(6, ""))
    story.say("n1", 72.001, role(6, "n2"))
    expected = brief(found(story.facts(), 80))
    assert [alarm for alarm, *_ in expected] == [
        "failover", *["stalled"] * 6, *["stalled_over"] * 5
    ]  # fmt: skip
    spark, told = operator(), []
    time_ms = 1
    spark.setWatermark(time_ms)
    for part in batches(story, 12):
        reached_us = max(fact.ts_us for fact in part)
        told += findings(spark.test("g", rows(part, (reached_us - START_US) / 1e6)))
        time_ms = max(time_ms + 1, reached_us // 1000)
        told += findings(spark.setWatermark(time_ms))
    told += findings(spark.setWatermark(START_MS + 80_000))
    assert brief(told) == expected
