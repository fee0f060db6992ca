"""How long appends waited for their acknowledgement, as sketches that merge over any range.

A master emits an event for each write (RecordsAppended) and for each answer (AppendsAcknowledged),
with the time of its own clock. A write is answered by the first answer that reaches its end. There
are no events of writes in DLedger groups, so these have no rows here.

| Column | Type | Meaning |
|---|---|---|
| group, node | string | the group, and its master |
| minute | bigint | the minute since 1970 in which the writes were made |
| writes | bigint | answered writes, each of one or more appends |
| records | bigint | the records in them |
| worst_us | bigint | the longest wait |
| sketch | binary | KLL of the writes' microseconds, exact to RANK_ERROR of all writes |
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.silver import view

RANKS = (0.5, 0.9, 0.99, 0.999)
"""The ranks that are shown. At a higher one, a sketch's value could be the worst as well."""
SKETCH_K = 2000
"""The size of the sketches. It gives a tenth of the usual error, and takes some 50 kB per minute,
however many writes there are."""
RANK_ERROR = 0.002
"""The error of a sketch's ranks: a shown 99th percentile is between the 98.8th and the 99.2th."""
_US_PER_MINUTE = 60_000_000
_KEY = ("node", "boot", "group")


def answered_writes(events: DataFrame) -> DataFrame:
    """Return a row for each write that was answered: node, boot, group, ts_us, records, waited_us.

    Writes with a negative wait are left out: the clock was set back before the answer.
    """
    columns = (*_KEY, "seq", "ts_us", "next_bytes", "records")
    wrote = view(events, "RecordsAppended").select(*columns, fn.lit(None).alias("answered_us"))
    answers = view(events, "AppendsAcknowledged").select(
        *columns, fn.col("ts_us").alias("answered_us")
    )
    # From the end of the log back, an answer before the writes that it reaches: a frame that goes
    # on to the last row is worked out anew for each one, in the square of a boot's length.
    from_the_end = (
        Window.partitionBy(*_KEY)
        .orderBy(fn.desc("next_bytes"), fn.col("answered_us").isNotNull().desc(), fn.desc("seq"))
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    answer = fn.last("answered_us", True).over(from_the_end)
    return (
        wrote.unionByName(answers)
        .withColumn("waited_us", answer - fn.col("ts_us"))
        .where("answered_us is null and waited_us >= 0")
        .select(*_KEY, "ts_us", "records", "waited_us")
    )


def latency(events: DataFrame) -> DataFrame:
    """Return a sketch of the waits for each group, master and minute; see the module's text."""
    minute = fn.floor(fn.col("ts_us") / _US_PER_MINUTE).alias("minute")
    return (
        answered_writes(events)
        .groupBy("group", "node", minute)
        .agg(
            fn.count(fn.lit(1)).alias("writes"),
            fn.sum("records").alias("records"),
            fn.max("waited_us").alias("worst_us"),
            fn.kll_sketch_agg_bigint("waited_us", SKETCH_K).alias("sketch"),
        )
    )


def percentiles(
    latencies: DataFrame, by: Sequence[str] = ("group",), ranks: Sequence[float] = RANKS
) -> DataFrame:
    """Return the percentiles of `latency`'s rows, with sketches merged by some columns.

    The columns are `by`, then writes, records, worst_us, and one for each rank: p50_us, p99.9_us.
    """
    merged = latencies.groupBy(*by).agg(
        fn.sum("writes").alias("writes"),
        fn.sum("records").alias("records"),
        fn.max("worst_us").alias("worst_us"),
        fn.kll_merge_agg_bigint("sketch").alias("sketch"),
    )
    quantiles = [
        fn.kll_sketch_get_quantile_bigint("sketch", fn.lit(rank)).alias(f"p{100 * rank:g}_us")
        for rank in ranks
    ]
    return merged.select(*by, "writes", "records", "worst_us", *quantiles)
