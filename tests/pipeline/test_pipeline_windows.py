"""No table and no audit takes the square of a boot's length: by their plans, without running any.

Spark carries a window's frame on from row to row if it begins at the partition's first row, or
moves with the row. One that begins somewhere else and goes on to the last row is worked out anew
for each row: a boot of five million writes never ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from lines_kit import Boot, typed_of
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from actors.events.node import NodeStopped
from actors.pipeline import silver
from actors.pipeline.audits.audit import EventAudit
from actors.pipeline.audits.judging import AUDITS
from actors.pipeline.gold.tables import TABLES

ANEW = re.compile(r"specifiedwindowframe\(\w+, (?!unboundedpreceding)[^()]+(?:\(\))?, unboundedfol")
"""A frame to the last row that does not begin at the first one."""
MADE: dict[str, Callable[[DataFrame], DataFrame]] = {
    **TABLES,
    **{each.name: each.query for each in AUDITS if isinstance(each, EventAudit)},
    "lost": silver.lost,
}


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    boot = Boot("n0")
    boot.say(0, "", NodeStopped(reason="ordered"))
    return typed_of(spark, boot)


def plan_of(table: DataFrame) -> str:
    """As it is analysed, which is done when it is made; no later plan has other frames."""
    analysed = table._jdf.queryExecution().analyzed().toString()
    return str(analysed).lower().replace("$", "")


@pytest.mark.parametrize("name", MADE)
def test_no_window_is_worked_out_anew_for_each_row(events: DataFrame, name: str) -> None:
    plan = plan_of(MADE[name](events))
    assert "from_json(" in plan, "down to the events"
    assert not ANEW.search(plan)


@pytest.mark.parametrize(
    ("first", "last", "is_found"),
    [
        (0, Window.unboundedFollowing, True),
        (1, Window.unboundedFollowing, True),
        (Window.unboundedPreceding, 0, False),
        (Window.unboundedPreceding, -1, False),
        (Window.unboundedPreceding, Window.unboundedFollowing, False),
    ],
)
def test_such_frames_are_seen_in_a_plan(
    events: DataFrame, first: int, last: int, is_found: bool
) -> None:
    """In the words of the Spark that is here."""
    frame = Window.partitionBy("node").orderBy("seq").rowsBetween(first, last)
    plan = plan_of(events.select(fn.first("ts_us", True).over(frame)))
    assert "specifiedwindowframe(" in plan
    assert bool(ANEW.search(plan)) is is_found
