"""How far each follower was behind, second by second.

| Column | Type | Meaning |
|---|---|---|
| group, follower | string | |
| second | bigint | seconds since 1970, by the clock of `seen_by`, in which something moved |
| lag | bigint | what the follower lacked at the end of that second, 0 or more |
| unit | string | "bytes" of a classic group, "entries" of a DLedger group |
| seen_by | string | the node that knew this: the master, or the follower of a DLedger group |

Seconds without any event have no row, so a clock that jumps by years costs nothing. The same holds
for the seconds before a master's events show how much is written, if its event log begins late.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.silver import view

_US = 1_000_000
_KEY = ("node", "boot", "group")


def lag(events: DataFrame) -> DataFrame:
    """Return the lag of classic and DLedger groups; see the module's text."""
    return classic_lag(events).unionByName(ledger_lag(events))


def classic_lag(events: DataFrame) -> DataFrame:
    """Return how many bytes a slave had not acknowledged of what its master had written.

    Both numbers are from the master's events.
    """
    written = _written(events)
    acked = (
        view(events, "SlaveAcked")
        .groupBy(*_KEY, "slave", _second())
        .agg(fn.max_by("offset_bytes", "seq").alias("acked"), fn.max("seq").alias("seq"))
    )
    moments = (
        written.select(*_KEY, "second", "seq")
        .unionByName(acked.select(*_KEY, "second", "seq"))
        .groupBy(*_KEY, "second")
        .agg(fn.max("seq").alias("seq"))
    )
    slaves = acked.groupBy(*_KEY, "slave").agg(fn.min("seq").alias("since"))
    grid = moments.join(slaves, list(_KEY), "inner").where("seq >= since")
    both = grid.join(written.drop("seq"), [*_KEY, "second"], "left").join(
        acked.drop("seq"), [*_KEY, "slave", "second"], "left"
    )
    so_far = Window.partitionBy(*_KEY, "slave").orderBy("seq")
    behind = fn.last("written", True).over(so_far) - fn.last("acked", True).over(so_far)
    known = both.withColumn("behind", behind).where("behind is not null")
    return known.select(
        "group",
        fn.col("slave").alias("follower"),
        "second",
        fn.greatest("behind", fn.lit(0)).alias("lag"),
        fn.lit("bytes").alias("unit"),
        fn.col("node").alias("seen_by"),
    )


def ledger_lag(events: DataFrame) -> DataFrame:
    """Return how much lower a member's committed index was than the highest one up to that second.

    Events of several members are matched by second, so their clocks are compared here.
    """
    rose = (
        view(events, "CommittedRose")
        .groupBy("group", "node", _second())
        .agg(fn.max("index").alias("own"))
    )
    best = rose.groupBy("group", "second").agg(fn.max("own").alias("best"))
    members = rose.groupBy("group", "node").agg(fn.min("second").alias("since"))
    grid = best.join(members, "group", "inner").where("second >= since")
    both = grid.join(rose, ["group", "node", "second"], "left")
    own = Window.partitionBy("group", "node").orderBy("second")
    behind = fn.max("best").over(own) - fn.max("own").over(own)
    return both.select(
        "group",
        fn.col("node").alias("follower"),
        "second",
        behind.alias("lag"),
        fn.lit("entries").alias("unit"),
        fn.col("node").alias("seen_by"),
    )


def _written(events: DataFrame) -> DataFrame:
    """Return where each master's log ended by second, from its recovery and its appends."""
    opened = view(events, "RecoveryFinished").withColumnRenamed("end_bytes", "end")
    grown = view(events, "RecordsAppended").withColumnRenamed("next_bytes", "end")
    columns = (*_KEY, "ts_us", "seq", "end")
    return (
        opened.select(*columns)
        .unionByName(grown.select(*columns))
        .groupBy(*_KEY, _second())
        .agg(fn.max_by("end", "seq").alias("written"), fn.max("seq").alias("seq"))
    )


def _second() -> Column:
    return fn.floor(fn.col("ts_us") / _US).alias("second")
