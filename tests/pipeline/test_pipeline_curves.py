"""Curves of the page: what stands between two moments that somebody told of."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from facts_kit import START_US, at, line, span
from pyspark.sql import SparkSession

from actors.pipeline.report import cells, curves, gather
from actors.pipeline.report.curves import followed, interrupted
from actors.pipeline.report.facts import Line, OutageCount, RoleSpan
from actors.pipeline.report.time_axis import US, Stretch, TimeAxis

START_S = START_US // US


def row(follower: str, second: int, value: int, end: int, end_s: int) -> dict[str, Any]:
    """What Spark says of a bucket; seconds after START_S."""
    return {
        "group": "orders",
        "follower": follower,
        "unit": "bytes",
        "bucket": START_S + second,
        "value": value,
        "end": end,
        "end_s": START_S + end_s,
    }


def shown(one: Line) -> list[tuple[float, float | None]]:
    return [((us - START_US) / US, value) for us, value in one.points]


def test_after_a_bucket_holds_its_last_second_not_its_worst() -> None:
    """A slave that is level when a group falls idle is shown level, and said to be."""
    (found,) = followed([row("n1", 99, 5000, 0, 101), row("n1", 96, 70, 60, 98)], 3)
    assert shown(found) == [(96, 70), (99, 5000), (102, 0)]
    assert (found.worst, found.last) == (5000, 0)
    (said,) = cells.followers((found,))
    assert (said["worst"], said["last"]) == (5000, 0)


def test_a_master_follows_nobody() -> None:
    """Its curve as a slave does not go on beside it; it goes on when it is a slave again."""
    rows = [row("n1", 0, 9, 8, 2), row("n1", 60, 7, 6, 62), row("n2", 0, 5, 4, 2)]
    spans = [span("orders", "n1", "master", 30, 55, 1), span("books", "n2", "master", 30, 55, 1)]
    n1, n2 = followed(rows, 3, spans)
    assert shown(n1) == [(0, 9), (3, 8), (30, None), (60, 7), (63, 6)]
    assert shown(n2) == [(0, 5), (3, 4)]


def test_a_slave_that_became_master_within_a_bucket_has_no_last_lag() -> None:
    rows = [row("n1", 0, 9, 8, 4)]
    (found,) = followed(rows, 60, [span("orders", "n1", "master", 20, 90, 1)])
    assert shown(found) == [(0, 9), (20, None), (60, None)]
    assert cells.cell("last", cells.followers((found,))[0]["last"]) == "–"
    assert found.worst == 9


def test_where_nothing_was_written_nobody_waited() -> None:
    minutes = Line(
        group="g", name="p50", unit="ms", points=((at(0), 3.0), (at(60), 4.0), (at(600), 5.0))
    )
    told = shown(interrupted(minutes, 60))
    assert told == [(0, 3), (60, 4), (120, None), (600, 5), (660, None)]
    assert line("g", "", "ms").last is None


def test_spark_tells_the_worst_and_the_last_of_a_bucket(spark: SparkSession) -> None:
    axis = TimeAxis((Stretch(at(0), at(1000)),))
    told = [(100, 5000), (101, 0), (400, 10)]
    rows = [("orders", "n1", START_S + second, lag, "bytes") for second, lag in told]
    table = spark.createDataFrame(
        rows, "`group` string, follower string, second bigint, lag bigint, unit string"
    )
    (found,), more = curves.lag(table, axis, axis.bucket_s(400))
    assert shown(found) == [(99, 5000), (102, 0), (399, 10), (402, 10)]
    assert more == []


def test_spark_keeps_the_outages_that_somebody_minded(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longest of those without a witness fill what room is left; a short one is a pause."""
    monkeypatch.setattr(gather, "OUTAGES_MAX", 2)
    told = [(10, 9, False), (30, 8, False), (50, 0.5, True), (70, 7, False)]
    rows = [
        ("orders", at(begin), at(begin + took), int(took * US), "n0", "n0", 0, witnessed)
        for begin, took, witnessed in told
    ]
    rows.append(("far", at(90), at(91), US, "n0", "n0", 0, True))
    table = spark.createDataFrame(
        rows,
        "`group` string, from_us bigint, until_us bigint, took_us bigint, from_node string, "
        "until_node string, timed_out bigint, witnessed boolean",
    )
    orders = table.where("`group` = 'orders'")
    assert [each.from_us for each in gather.outages(orders)] == [at(50), at(10)]
    assert gather.outage_counts(table, ["orders", "idle"]) == {
        "": OutageCount(outages=1, pauses=1, silences=3, worst_us=US),
        "orders": OutageCount(pauses=1, silences=3, worst_us=500_000),
    }


def test_spark_counts_epochs_of_all_intervals(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of those that no picture has."""
    monkeypatch.setattr(gather, "GROUPS_MAX", 1)
    monkeypatch.setattr(gather, "SPANS_MAX", 2)
    told = [span("g", "n0", "leader", 0, 9, 1), span("g", "n0", "leader", 10, 11, 2)]
    told += [span("g", "n1", "leader", 12, 13, 3), span("g", "n1", "follower", 0, 9, 2)]
    told += [span("other", "n0", "master", 0, 1, None)]
    names = [field.name for field in attrs.fields(RoleSpan)]
    table = spark.createDataFrame(
        [tuple(getattr(each, name) for name in names) for each in told],
        "`group` string, node string, boot bigint, role string, number bigint, leader string, "
        "from_us bigint, until_us bigint",
    )
    assert gather.busiest(table) == gather.Busiest(names=("g",), more=1, spans=4, led={"g": 2})
    assert gather.role_spans(table, ["g"]) == (told[0], told[3])
