"""Ask Spark for what a page shows. What is asked for has a bound: `facts` names them.

Works on silver and gold as they are on the disk; nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from actors.pipeline import layers, silver
from actors.pipeline.clock import now_us
from actors.pipeline.gold.tables import TABLES
from actors.pipeline.locations import Location
from actors.pipeline.report import curves
from actors.pipeline.report.facts import (
    BOOTS_MAX,
    BUCKETS_MAX,
    GROUPS_MAX,
    HOURS_MAX,
    NODES_MAX,
    OUTAGE_US,
    OUTAGES_MAX,
    ROWS_MAX,
    SPANS_MAX,
    TURNS_MAX,
    Boot,
    Facts,
    Outage,
    OutageCount,
    ProcessCounts,
    RoleSpan,
    Table,
    Turn,
    process_counts,
)
from actors.pipeline.report.time_axis import Stretch, TimeAxis, joined, time_axis
from actors.pipeline.report.unknown import masked, missing_logs, unknown_times
from actors.pipeline.side_by_side import both, side_by_side
from actors.pipeline.verdicts import Verdicts
from actors.readable import counted

Tell = Callable[[str], None]
_US_PER_HOUR = 3_600_000_000
IDLE_IN_BOOT_US = 6 * _US_PER_HOUR
"""A longer time without any event of a boot is not drawn: its clock was set, or it was idle."""

_TABLES = {
    "elections": ("-took_us", "group", "node", "term", "rounds", "from_us", "took_us"),
    "failovers": ("-took_us", "group", "node", "before", "after", "from_us", "took_us"),
    "turns": ("-at_us", "group", "node", "at_us", "what", "detail"),
    "restarts": (
        "-crashes",
        *("node", "path", "crashes", "restarts", "gave_up", "killed", "last_error", "last_us"),
    ),
    "pressure": (
        "-worst_lag_s",
        *("node", "path", "minute", "asks_timed_out", "appends_timed_out"),
        *("dead_letters", "lags", "worst_lag_s", "events_dropped"),
    ),
    "resent": ("-resent_bytes", "group", "node", "received_bytes", "resent_bytes", "sessions"),
}
"""The gold tables that are shown as they are: first the column that orders the rows (with "-" for
the highest first), then the columns that are shown."""


def gather(spark: SparkSession, data: Location, out: Location, tell: Tell) -> Facts:
    """Return everything for a page but the verdicts.

    Raises:
        PipelineError: the tables of silver or gold are missing.
    """
    events = layers.read(spark, layers.current(out / "silver") / "events", silver.SCHEMA)
    folder = layers.current(out / "gold")
    gold = {name: layers.read(spark, folder / name) for name in TABLES}
    tell("report: which time to show")
    (boots, active, is_cut), named = both(
        partial(shown_boots, events), partial(named_by_others, events)
    )
    missing = () if is_cut else missing_logs(boots, named)
    empty = Facts(
        data=str(data),
        tables_at=str(out),
        verdicts=Verdicts(made_at_us=now_us(), audits=()),
        is_judged=False,
        events=sum(each.events for each in boots),
    )
    if not active:
        return empty
    axis, outside = time_axis(active)
    shown = attrs.evolve(
        empty,
        axis=axis,
        outside=outside,
        boots=boots[-BOOTS_MAX:],
        processes=process_counts(boots),
        hidden=_hidden_processes(process_counts(boots), is_cut),
        missing=missing,
    )
    known = None if is_cut else boots
    return _with_curves(_with_tables(shown, gold, tell), axis, gold, known, tell)


def named_by_others(events: DataFrame) -> dict[str, tuple[int, int]]:
    """Return by node when other nodes named it first and last.

    The moments are microseconds since 1970 by the clocks of the naming nodes.
    """
    kind = fn.col("kind")
    naming = (
        events.where(kind.isin("SlaveAcked", "SlaveVerified", "CommittedRose"))
        .groupBy("node", "slave", "master", "holders")
        .agg(fn.min("ts_us").alias("first_us"), fn.max("ts_us").alias("last_us"))
    )
    nobody = fn.array().cast("array<string>")
    names = fn.concat(fn.array("slave", "master"), fn.coalesce("holders", nobody))
    found = (
        naming.withColumn("name", fn.explode(fn.array_compact(names)))
        .where("name != node")
        .groupBy("name")
        .agg(fn.min("first_us"), fn.max("last_us"))
        .collect()
    )
    return {row[0]: (row[1], row[2]) for row in found}


def _hidden_processes(processes: ProcessCounts, is_cut: bool) -> tuple[str, ...]:
    found = []
    if is_cut:
        found.append(
            f"Events and processes are those of {HOURS_MAX:,} hours of nodes: of all in which a "
            "node stopped, then of the busiest."
        )
    if processes.boots > BOOTS_MAX:
        found.append(
            f"The timeline and the list of processes lack the {processes.boots - BOOTS_MAX:,} "
            "oldest "
            f"of {processes.boots:,} processes."
        )
    if len(processes.nodes) > NODES_MAX:
        found.append(f"The timeline has {NODES_MAX} of {len(processes.nodes)} nodes.")
    return tuple(found)


def _with_tables(facts: Facts, gold: dict[str, DataFrame], tell: Tell) -> Facts:
    tell("report: outages, restarts, pressure")
    tables = side_by_side(partial(table, name, gold[name], *_TABLES[name]) for name in _TABLES)
    return attrs.evolve(facts, outages=outages(gold["outages"]), tables=tuple(tables))


def _with_curves(
    facts: Facts,
    axis: TimeAxis,
    gold: dict[str, DataFrame],
    boots: Sequence[Boot] | None,
    tell: Tell,
) -> Facts:
    """Return the facts with roles, curves and outages.

    Args:
        boots: all boots, or None if some were left out, so that unknown times cannot be found.
    """
    tell("report: roles and terms")
    busy = busiest(gold["roles"])
    groups = busy.names
    spans, counts = both(
        partial(role_spans, gold["roles"], groups), partial(outage_counts, gold["outages"], groups)
    )
    hidden = []
    if busy.more:
        hidden.append(
            f"{counted(busy.more, 'more group has', 'more groups have')} no pictures and numbers"
            " here: the quietest."
        )
    if busy.spans > len(spans):
        left_out = busy.spans - len(spans)
        hidden.append(f"The timeline lacks {counted(left_out, 'interval')} of roles: the shortest.")
    of_these = {
        name: gold[name].where(fn.col("group").isin(*groups))
        for name in ("lag", "throughput", "latency")
    }
    if (total := counts.get("", OutageCount()).total) > OUTAGES_MAX:
        hidden.append(
            f"Of {total:,} times without an answer the pictures have {OUTAGES_MAX}: those in "
            "which somebody waited before all others, then the longest."
        )
    width_s = axis.bucket_s(BUCKETS_MAX)
    tell("report: throughput, lag")
    (lag, without), throughput = both(
        partial(curves.lag, of_these["lag"], axis, width_s, spans),
        partial(curves.throughput, of_these["throughput"], axis, width_s),
    )
    unknown = {} if boots is None else unknown_times(spans, boots)
    hidden += [
        f"The lag of {counted(count, 'more follower')} of {group} is missing."
        for group, count in without
    ]
    tell("report: latency")
    waits, waits_by_time = both(
        partial(curves.waits, of_these["latency"]),
        partial(curves.waits_by_time, of_these["latency"], axis, width_s),
    )
    return attrs.evolve(
        facts,
        roles=spans,
        roles_count=busy.spans,
        turns=shown_turns(gold["turns"], groups),
        led=busy.led,
        lag=tuple(masked(line, unknown.get(line.group, ())) for line in lag),
        throughput=tuple(masked(line, unknown.get(line.group, ())) for line in throughput),
        unknown=unknown,
        waits=waits,
        waits_by_time=waits_by_time,
        all_outages=counts,
        hidden=(*facts.hidden, *hidden),
    )


def shown_boots(events: DataFrame) -> tuple[tuple[Boot, ...], list[Stretch], bool]:
    """Return the boots, by their first moment, and the stretches of time in which each has events.

    The third value tells whether there were more hours of nodes than HOURS_MAX.
    """
    reason = fn.coalesce("reason", fn.lit(""))
    hour = fn.floor(fn.col("ts_us") / _US_PER_HOUR).alias("hour")
    found = (
        events.groupBy("node", "boot", hour)
        .agg(
            fn.min("ts_us").alias("first_us"),
            fn.max("ts_us").alias("last_us"),
            fn.count(fn.lit(1)).alias("events"),
            fn.max(fn.when(fn.col("kind") == "NodeStopped", reason)).alias("stop_reason"),
        )
        .orderBy(fn.col("stop_reason").isNull(), fn.desc("events"))
        .limit(HOURS_MAX + 1)
        .collect()
    )
    is_cut, found = len(found) > HOURS_MAX, found[:HOURS_MAX]
    by_boot = sorted(found, key=lambda row: (row["node"], row["boot"], row["hour"]))
    last = {row["node"]: row["boot"] for row in by_boot}
    boots, active = [], []
    for (node, boot), each in groupby(by_boot, key=lambda row: (row["node"], row["boot"])):
        rows = list(each)
        parts = [Stretch(row["first_us"], row["last_us"], row["events"]) for row in rows]
        active += joined(parts, IDLE_IN_BOOT_US)
        boots.append(
            Boot(
                node=node,
                boot=boot,
                first_us=parts[0].first_us,
                last_us=max(part.last_us for part in parts),
                events=sum(part.events for part in parts),
                stop_reason=max(
                    (row["stop_reason"] for row in rows if row["stop_reason"] is not None),
                    default=None,
                ),
                is_last=last[node] == boot,
            )
        )
    return tuple(sorted(boots, key=lambda each: (each.first_us, each.node))), active, is_cut


@attrs.frozen(kw_only=True)
class Busiest:
    """The groups whose roles changed most.

    Attributes:
        names: their names, sorted.
        more: how many other groups there are.
        spans: how many intervals of roles these groups have.
        led: by group, how many times leadership began anew; see `Facts`.
    """

    names: tuple[str, ...]
    more: int
    spans: int
    led: Mapping[str, int]


def busiest(roles: DataFrame) -> Busiest:
    """Return the groups whose roles changed most, at most GROUPS_MAX."""
    leads = fn.col("role").isin("leader", "master")
    epoch = fn.when(leads, fn.struct("node", "number"))
    counted = (
        roles.groupBy("group")
        .agg(fn.count(fn.lit(1)).alias("spans"), fn.count_distinct(epoch).alias("epochs"))
        .orderBy(fn.desc("spans"), "group")
    )
    rows = counted.limit(GROUPS_MAX + 1).collect()
    kept = rows[:GROUPS_MAX]
    return Busiest(
        names=tuple(sorted(row["group"] for row in kept)),
        more=counted.count() - GROUPS_MAX if len(rows) > GROUPS_MAX else 0,
        spans=sum(row["spans"] for row in kept),
        led={row["group"]: max(row["epochs"] - 1, 0) for row in kept},
    )


def role_spans(roles: DataFrame, groups: Sequence[str]) -> tuple[RoleSpan, ...]:
    """Return the longest SPANS_MAX intervals of these groups, by group, node and time."""
    of_these = roles.where(fn.col("group").isin(*groups))
    longest = of_these.orderBy(fn.expr("from_us - until_us"), "group", "node", "from_us")
    rows = longest.limit(SPANS_MAX).collect()
    names = [field.name for field in attrs.fields(RoleSpan)]
    spans = [RoleSpan(**{name: row[name] for name in names}) for row in rows]
    return tuple(sorted(spans, key=lambda each: (each.group, each.node, each.from_us)))


def shown_turns(found: DataFrame, groups: Sequence[str]) -> tuple[Turn, ...]:
    """Return the newest TURNS_MAX moments of replicas of these groups, the newest first."""
    of_these = found.where(fn.col("group").isin(*groups))
    rows = of_these.orderBy(fn.desc("at_us"), "group", "node", "what").limit(TURNS_MAX).collect()
    names = [field.name for field in attrs.fields(Turn)]
    return tuple(Turn(**{name: row[name] for name in names}) for row in rows)


def outages(found: DataFrame) -> tuple[Outage, ...]:
    """Return OUTAGES_MAX times without an answer: first those in which an append waited."""
    worst_first = found.orderBy(fn.desc("witnessed"), fn.desc("took_us"), "group", "from_us")
    rows = worst_first.limit(OUTAGES_MAX).collect()
    names = [field.name for field in attrs.fields(Outage)]
    return tuple(Outage(**{name: row[name] for name in names}) for row in rows)


def outage_counts(found: DataFrame, groups: Sequence[str]) -> dict[str, OutageCount]:
    """Return the counts by group.

    Under "" are the counts of all groups together, including those not in `groups`.
    """
    witnessed, is_long = fn.col("witnessed"), fn.col("took_us") >= OUTAGE_US
    known = fn.when(fn.col("group").isin(*groups), fn.col("group"))
    rows = (
        found.groupBy(known.alias("group"))
        .agg(
            fn.count_if(witnessed & is_long).alias("outages"),
            fn.count_if(witnessed & ~is_long).alias("pauses"),
            fn.count_if(~witnessed).alias("silences"),
            fn.coalesce(fn.max(fn.when(witnessed, fn.col("took_us"))), fn.lit(0)).alias("worst_us"),
        )
        .collect()
    )
    counts = [("", row) for row in rows] + [(row["group"], row) for row in rows if row["group"]]
    total: dict[str, OutageCount] = {}
    for group, row in counts:
        before = total.get(group, OutageCount())
        total[group] = OutageCount(
            outages=before.outages + row["outages"],
            pauses=before.pauses + row["pauses"],
            silences=before.silences + row["silences"],
            worst_us=max(before.worst_us, row["worst_us"]),
        )
    return total


def table(name: str, rows: DataFrame, order: str, *columns: str) -> Table:
    """Return the first ROWS_MAX rows by a column, the highest first; rows with null come before.

    Args:
        order: the column, which may begin with "-".
        columns: the columns to keep.
    """
    worst = fn.col(order.removeprefix("-")).desc_nulls_first()
    found = rows.orderBy(worst, *columns).limit(ROWS_MAX + 1).collect()
    count = len(found) if len(found) <= ROWS_MAX else rows.count()
    kept = tuple({column: row[column] for column in columns} for row in found[:ROWS_MAX])
    return Table(name=name, columns=columns, rows=kept, count=count)
