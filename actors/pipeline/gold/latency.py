"""How long appends waited for their acknowledgement, as sketches that merge over any range.

A master tells each write (RecordsAppended) and each answer (AppendsAcknowledged) with its own
clock. A write is answered by the first answer that reaches its end. DLedger's events tell no
writes, so its groups have no rows here.

| Column | Type | Meaning |
|---|---|---|
| group, node | string | whose master |
| minute | bigint | minutes since 1970 in which it was written |
| writes | bigint | answered writes, one or more appends each |
| records | bigint | in them |
| worst_us | bigint | |
| sketch | binary | KLL of the writes' microseconds, exact to RANK_ERROR of all writes |
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.silver import view

RANKS = (0.5, 0.9, 0.99, 0.999)
"""No higher one: what stands for it could be the worst as well."""
SKETCH_K = 2000
"""The sketches' size: a tenth of the usual error for some 50 kB a minute, however many writes."""
RANK_ERROR = 0.002
"""What is shown as the 99th percentile lies between the 98.8th and the 99.2th."""
_US_PER_MINUTE = 60_000_000
_KEY = ("node", "boot", "group")


def answered_writes(events: DataFrame) -> DataFrame:
    """One row for each write that was answered: node, boot, group, ts_us, records, waited_us.

    A clock that was set back in between makes no sense of the time; such writes are left out.
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
    """By group, master and minute; see the module."""
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
    """Sketches of any rows of `latency` merged: writes, records, worst_us, p50_us, p99.9_us ..."""
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
