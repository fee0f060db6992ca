"""Bytes that a slave received, and how many of them it had received before.

A slave tells each write of what it received. What lies below the highest end so far came again: its
log had been cut, or a new connection began lower than the last one ended.

| Column | Type | Meaning |
|---|---|---|
| group, node | string | of the slave |
| received_bytes, resent_bytes | bigint | over all boots; the second is a part of the first |
| sessions | bigint | connections that brought any |
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.silver import view


def resent(events: DataFrame) -> DataFrame:
    """One row for each slave; see the module."""
    before = (
        Window.partitionBy("group", "node")
        .orderBy("boot", "seq")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    end = fn.coalesce(fn.max("next_bytes").over(before), fn.col("first_bytes"))
    again = fn.least(end, fn.col("next_bytes")) - fn.col("first_bytes")
    return (
        view(events, "BytesReceived")
        .withColumn("again", fn.greatest(again, fn.lit(0)))
        .groupBy("group", "node")
        .agg(
            fn.sum(fn.col("next_bytes") - fn.col("first_bytes")).alias("received_bytes"),
            fn.sum("again").alias("resent_bytes"),
            fn.count_distinct("boot", "session").alias("sessions"),
        )
    )
