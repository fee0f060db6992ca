"""Gold's numbers over time -> curves of a bounded number of points, worked out in Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.gold.latency import percentiles
from actors.pipeline.report.facts import LINES_MAX, Line, RoleSpan, Waits
from actors.pipeline.report.time_axis import US, TimeAxis

RANKS = (
    *(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(0.95, 0.98, 0.99, 0.995, 0.998, 0.999),
)
"""The ranks at which the curve of all writes has points; higher ones the sketches do not tell
apart.
"""
RANKS_BY_TIME = (0.5, 0.99)
_MINUTE_S = 60


def bucket(axis: TimeAxis, first_s: Column, last_s: Column, width_s: int) -> Column:
    """Return the first second of the bucket that holds a row about some seconds.

    The first bucket of each stretch of the axis begins with the stretch. The column is null for
    rows outside all stretches.
    """
    cases = []
    for each in axis.stretches:
        begin, end = each.first_us // US, each.last_us // US
        number = fn.floor((fn.greatest(first_s, fn.lit(begin)) - begin) / width_s)
        touches = (last_s >= begin) & (first_s <= end)
        cases.append(fn.when(touches, begin + number * width_s))
    return fn.coalesce(*cases)


def lag(
    rows: DataFrame, axis: TimeAxis, width_s: int, spans: Sequence[RoleSpan] = ()
) -> tuple[tuple[Line, ...], list[tuple[str, int]]]:
    """Return each follower's lag as a curve, and how many followers of each group were left out.

    Args:
        spans: the roles of the nodes. A node that is a classic group's master follows no other.
    """
    second = fn.col("second")
    points = (
        rows.withColumn("bucket", bucket(axis, second, second, width_s))
        .where(fn.col("bucket").isNotNull())
        .groupBy("group", "follower", "bucket")
        .agg(
            fn.max("lag").alias("value"),
            fn.max_by("lag", "second").alias("end"),
            fn.max("second").alias("end_s"),
            fn.max("unit").alias("unit"),
        )
    )
    by_worst = Window.partitionBy("group").orderBy(fn.desc("worst"), "follower")
    ranked = (
        points.groupBy("group", "follower")
        .agg(fn.max("value").alias("worst"))
        .withColumn("rank", fn.row_number().over(by_worst))
        .withColumn("lines", fn.count(fn.lit(1)).over(Window.partitionBy("group")))
        .where(fn.col("rank") <= LINES_MAX)
    )
    found = points.join(ranked, ["group", "follower"], "inner").collect()
    more = {row["group"]: row["lines"] - LINES_MAX for row in found}
    lines = followed([row.asDict() for row in found], width_s, spans)
    return lines, [(name, n) for name, n in sorted(more.items()) if n > 0]


def followed(
    rows: Sequence[Mapping[str, Any]], width_s: int, spans: Sequence[RoleSpan] = ()
) -> tuple[Line, ...]:
    """Return curves from the lag by bucket.

    Within a bucket a curve has the worst lag. After it, the lag of its last second holds.

    Args:
        rows: group, follower, unit, bucket, value (the worst in it), end (the last in it), end_s
            (the second of that), in any order.
        spans: the roles of the nodes. A curve is interrupted where its follower becomes the
            master of the group.
    """
    led: dict[tuple[str, str], list[RoleSpan]] = {}
    for span in spans:
        if span.role == "master":
            led.setdefault((span.group, span.node), []).append(span)
    points: dict[tuple[str, str, str], dict[int, float | None]] = {}
    after: dict[tuple[str, str, str], dict[int, float | None]] = {}
    for row in rows:
        key = (row["group"], row["follower"], row["unit"])
        points.setdefault(key, {})[row["bucket"] * US] = float(row["value"])
        end_us, until_us = (row["end_s"] + 1) * US, (row["bucket"] + width_s) * US
        leads = any(
            each.from_us <= until_us and each.until_us > end_us for each in led.get(key[:2], ())
        )
        after.setdefault(key, {})[until_us] = None if leads else float(row["end"])
    found = []
    for key, known in sorted(points.items()):
        since = min(known)
        breaks = {each.from_us: None for each in led.get(key[:2], ()) if each.from_us > since}
        steps = sorted({**breaks, **after[key], **known}.items())
        found.append(Line(group=key[0], name=key[1], unit=key[2], points=tuple(steps)))
    return tuple(found)


def throughput(rows: DataFrame, axis: TimeAxis, width_s: int) -> tuple[Line, ...]:
    """Return how much each group acknowledged per second, as the mean of each bucket.

    Buckets without any acknowledgement have 0.
    """
    second = fn.col("second")
    found = (
        rows.withColumn("bucket", bucket(axis, second, second, width_s))
        .where(fn.col("bucket").isNotNull())
        .groupBy("group", "bucket")
        .agg(
            (fn.sum("acknowledged") / width_s).alias("value"),
            fn.when(fn.count("size_bytes") > 0, "records").otherwise("entries").alias("unit"),
        )
        .collect()
    )
    points = ((row["group"], "", row["unit"], row["bucket"], row["value"]) for row in found)
    return tuple(_filled(line, axis, width_s) for line in _lines(points))


def _filled(line: Line, axis: TimeAxis, width_s: int) -> Line:
    known = dict(line.points)
    moments = [
        us for each in axis.stretches for us in range(each.first_us, each.last_us, width_s * US)
    ]
    points = tuple((us, known.get(us, 0.0)) for us in moments)
    return Line(group=line.group, name=line.name, unit=line.unit, points=points)


def waits(latency: DataFrame) -> tuple[Waits, ...]:
    """Return how long each group's writes waited, over the whole time."""
    found = percentiles(latency, ["group"], RANKS).orderBy("group").collect()
    return tuple(
        Waits(
            group=row["group"],
            writes=row["writes"],
            records=row["records"],
            worst_ms=row["worst_us"] / 1000,
            by_rank=tuple((rank, row[f"p{100 * rank:g}_us"] / 1000) for rank in RANKS),
        )
        for row in found
    )


def waits_by_time(latency: DataFrame, axis: TimeAxis, width_s: int) -> tuple[Line, ...]:
    """Return the waits at `RANKS_BY_TIME` as curves over time, in milliseconds.

    Buckets are whole minutes, as gold has no finer sketches.
    """
    width_s = -(-width_s // _MINUTE_S) * _MINUTE_S
    first_s = fn.col("minute") * _MINUTE_S
    rows = latency.withColumn("bucket", bucket(axis, first_s, first_s + _MINUTE_S - 1, width_s))
    known = rows.where(fn.col("bucket").isNotNull())
    found = percentiles(known, ["group", "bucket"], RANKS_BY_TIME).collect()
    names = [f"p{100 * rank:g}" for rank in RANKS_BY_TIME]
    lines = _lines(
        (row["group"], name, "ms", row["bucket"], row[f"{name}_us"] / 1000)
        for row in found
        for name in names
    )
    return tuple(interrupted(each, width_s) for each in lines)


def interrupted(line: Line, width_s: int) -> Line:
    """Return a curve with a gap after each bucket that no other follows: no writes waited there."""
    ends = {us + width_s * US: None for us, _ in line.points}
    steps = sorted({**ends, **dict(line.points)}.items())
    return Line(group=line.group, name=line.name, unit=line.unit, points=tuple(steps))


def _lines(points: Iterable[tuple[str, str, str, int, float]]) -> tuple[Line, ...]:
    """Return the curves of points (group, name, unit, second, value), which can be in any order."""
    found: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for group, name, unit, second, value in sorted(points):
        found.setdefault((group, name, unit), []).append((second * US, float(value)))
    return tuple(
        Line(group=group, name=name, unit=unit, points=tuple(values))
        for (group, name, unit), values in found.items()
    )
