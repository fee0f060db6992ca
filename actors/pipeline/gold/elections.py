"""Leaders over time, how long elections took, and how long members were without a leader or master.

Each interval is one node's own: it begins and ends by that node's clock, so no clocks are compared.
An interval that is not over when the boot's log ends has null as its end.

| Table | Columns |
|---|---|
| role_changes | group, node, boot, session, role, term, leader, from_us, until_us |
| elections | group, node, boot, term, rounds, from_us, until_us, took_us |
| failovers | group, node, boot, before, after, from_us, until_us, took_us |
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.silver import view

_KEY = ("group", "node", "boot")


def role_changes(events: DataFrame) -> DataFrame:
    """Return a row for each role that a DLedger member took."""
    in_order = Window.partitionBy(*_KEY).orderBy("seq")
    return view(events, "RoleChanged").select(
        *_KEY,
        "session",
        "role",
        "term",
        "leader",
        fn.col("ts_us").alias("from_us"),
        fn.lead("ts_us").over(in_order).alias("until_us"),
        "seq",
    )


def elections(events: DataFrame) -> DataFrame:
    """Return a row for each election that was won, from the first candidacy to the leadership.

    `rounds` counts the winner's candidacies. Elections that the member did not win have no row;
    the time without a leader is in `failovers`.
    """
    in_order = Window.partitionBy(*_KEY).orderBy("seq")
    candidate = fn.col("role") == "CANDIDATE"
    began = candidate & fn.coalesce(fn.lag("role").over(in_order) != "CANDIDATE", fn.lit(True))
    rows = (
        role_changes(events)
        .withColumn("began", began.cast("int"))
        .withColumn("attempt", fn.sum("began").over(in_order))
        .withColumn("won", fn.col("role") == "LEADER")
        .withColumn("at_once", fn.lag("role").over(in_order) == "CANDIDATE")
        .where(candidate | (fn.col("won") & fn.col("at_once")))
    )
    return (
        rows.groupBy(*_KEY, "attempt")
        .agg(
            fn.max(fn.when(fn.col("won"), fn.col("term"))).alias("term"),
            fn.count_if(~fn.col("won")).alias("rounds"),
            fn.min(fn.when(~fn.col("won"), fn.col("from_us"))).alias("from_us"),
            fn.max(fn.when(fn.col("won"), fn.col("from_us"))).alias("until_us"),
        )
        .where(fn.col("term").isNotNull())
        .select(*_KEY, "term", "rounds", "from_us", "until_us", _took())
    )


def failovers(events: DataFrame) -> DataFrame:
    """Return the times in which a node had lost its leader or master and knew no other yet."""
    return _leaderless(events).unionByName(_masterless(events))


def _leaderless(events: DataFrame) -> DataFrame:
    named = view(events, "RoleChanged").select(*_KEY, "seq", "ts_us", fn.col("leader").alias("to"))
    return _gaps(named)


def _masterless(events: DataFrame) -> DataFrame:
    """Return the times in which a slave had no master.

    A slave follows from SlaveVerified on, until its connection is lost (MasterLost). A replica of
    an auto-switch group knows none from RoleGiven on, and itself from EpochBegun on.
    """
    columns = (*_KEY, "seq", "ts_us")
    found = view(events, "SlaveVerified").select(*columns, fn.col("master").alias("to"))
    begun = view(events, "EpochBegun").select(*columns, fn.col("node").alias("to"))
    lost = [
        view(events, kind).select(*columns, fn.lit("").alias("to"))
        for kind in ("MasterLost", "RoleGiven")
    ]
    return _gaps(reduce(DataFrame.unionByName, (found, begun, *lost)))


def _gaps(named: DataFrame) -> DataFrame:
    """Return a row for each time in which `to` is "" after a name, up to the boot's next name."""
    in_order = Window.partitionBy(*_KEY).orderBy("seq")
    backwards = Window.partitionBy(*_KEY).orderBy(fn.desc("seq"))
    later = backwards.rowsBetween(Window.unboundedPreceding, -1)  # the other way: n * n steps
    name = fn.when(fn.col("to") != "", fn.col("to"))
    named_at = fn.when(fn.col("to") != "", fn.col("ts_us"))
    return (
        named.withColumn("before", fn.lag("to").over(in_order))
        .withColumn("after", fn.last(name, True).over(later))
        .withColumn("until_us", fn.last(named_at, True).over(later))
        .where((fn.col("to") == "") & (fn.coalesce("before", fn.lit("")) != ""))
        .withColumnRenamed("ts_us", "from_us")
        .select(*_KEY, "before", "after", "from_us", "until_us", _took())
    )


def _took() -> Column:
    return (fn.col("until_us") - fn.col("from_us")).alias("took_us")
