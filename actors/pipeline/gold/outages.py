"""Times in which nobody's appends were acknowledged, as a group's clients saw them.

An answer is an AppendsAcknowledged of a classic master or a CommittedRose of a DLedger leader. Two
answers of a group that are further apart than the limit enclose an outage, if somebody waited. Who
asked where no master was, is in no event, so an outage has a witness only if a write stood there
longer than the limit, or a deadline came, or another node (or its next boot) answers now; without
one, perhaps nobody had anything to append.

The answers of two nodes are set in the order of their clocks: an outage over a failover is as exact
as these are.

| Column | Type | Meaning |
|---|---|---|
| group | string | |
| from_us, until_us, took_us | bigint | the last answer before, the first one after |
| from_node, until_node | string | who gave them: not the same after a failover |
| writes | bigint | written meanwhile, that with the first answer among them; 0 for DLedger |
| waited_us | bigint | how long the first of these had waited for it; null without any |
| timed_out | bigint | appends whose deadline came meanwhile |
| witnessed | boolean | see above |
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.silver import view

LIMIT_US = 100_000


def outages(events: DataFrame, limit_us: int = LIMIT_US) -> DataFrame:
    """See the module."""
    told = (
        _rows(view(events, "AppendsAcknowledged"), answers=fn.lit(1))
        .unionByName(_rows(_leaders_commits(events), answers=fn.lit(1)))
        .unionByName(_rows(view(events, "RecordsAppended"), writes=fn.lit(1)))
        .unionByName(_rows(view(events, "AppendsTimedOut"), timed_out=fn.col("appends")))
    )
    in_order = Window.partitionBy("group").orderBy("ts_us", "answers", "node", "seq")
    answer = fn.col("answers") == 1
    # What stands before an answer and after the one before it belongs to this answer's gap.
    numbered = told.withColumn("gap", fn.sum("answers").over(in_order) - fn.col("answers"))
    gaps = numbered.groupBy("group", "gap").agg(
        fn.max(fn.when(answer, fn.col("ts_us"))).alias("until_us"),
        fn.max(fn.when(answer, fn.col("node"))).alias("until_node"),
        fn.max(fn.when(answer, fn.col("boot"))).alias("boot"),
        fn.sum("writes").alias("writes"),
        fn.min(fn.when(fn.col("writes") > 0, fn.col("ts_us"))).alias("first_us"),
        fn.sum("timed_out").alias("timed_out"),
    )
    waited = fn.col("until_us") - fn.col("first_us")
    by_gap = Window.partitionBy("group").orderBy("gap")
    took = fn.col("until_us") - fn.col("from_us")
    moved = (fn.col("from_node") != fn.col("until_node")) | (fn.col("from_boot") != fn.col("boot"))
    return (
        gaps.withColumn("from_us", fn.lag("until_us").over(by_gap))
        .withColumn("from_node", fn.lag("until_node").over(by_gap))
        .withColumn("from_boot", fn.lag("boot").over(by_gap))
        .where(took > limit_us)
        .select(
            "group",
            "from_us",
            "until_us",
            took.alias("took_us"),
            "from_node",
            "until_node",
            "writes",
            waited.alias("waited_us"),
            "timed_out",
            (
                fn.coalesce(waited > limit_us, fn.lit(False)) | (fn.col("timed_out") > 0) | moved
            ).alias("witnessed"),
        )
    )


def _leaders_commits(events: DataFrame) -> DataFrame:
    """A follower hears of what is committed later, and of nobody's append."""
    rose = view(events, "CommittedRose")
    return rose.where(fn.col("path").endswith("/quorum_ack_checker"))


def _rows(events: DataFrame, **counts: Column) -> DataFrame:
    columns = ("answers", "writes", "timed_out")
    return events.select(
        "group",
        "node",
        "boot",
        "seq",
        "ts_us",
        *(counts.get(name, fn.lit(0)).cast("bigint").alias(name) for name in columns),
    )
