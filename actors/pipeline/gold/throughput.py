"""How much was acknowledged, second by second.

| Column | Type | Meaning |
|---|---|---|
| group, node | string | whose master or leader, by whose clock |
| second | bigint | since 1970; only seconds in which something was acknowledged |
| acknowledged | bigint | records of a classic group, entries of a DLedger group |
| size_bytes | bigint | in them; null for a DLedger group, whose events tell no bytes |

A DLedger leader's first commit of a boot counts nothing, for nobody knows where it began; its first
as a leader counts also what it had not heard of as a follower.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.silver import view

_US = 1_000_000
_COLUMNS = ("group", "node", "second", "acknowledged", "size_bytes")


def throughput(events: DataFrame) -> DataFrame:
    """Classic and DLedger groups together; see the module."""
    return (
        _classic(events)
        .unionByName(_ledger(events))
        .withColumn("second", fn.floor(fn.col("ts_us") / _US))
        .groupBy("group", "node", "second")
        .agg(
            fn.sum("acknowledged").alias("acknowledged"),
            fn.sum("size_bytes").alias("size_bytes"),
        )
        .select(*_COLUMNS)
    )


def _classic(events: DataFrame) -> DataFrame:
    return view(events, "AppendsAcknowledged").select(
        "group",
        "node",
        "ts_us",
        fn.col("records").alias("acknowledged"),
        (fn.col("next_bytes") - fn.col("first_bytes")).alias("size_bytes"),
    )


def _ledger(events: DataFrame) -> DataFrame:
    """What a follower tells counts only as the place from which it rose further as a leader."""
    in_order = Window.partitionBy("group", "node", "boot").orderBy("seq")
    return (
        view(events, "CommittedRose")
        .withColumn("acknowledged", fn.col("index") - fn.lag("index").over(in_order))
        .where(fn.col("path").endswith("/quorum_ack_checker") & (fn.col("acknowledged") > 0))
        .select(
            "group",
            "node",
            "ts_us",
            "acknowledged",
            fn.lit(None).cast("bigint").alias("size_bytes"),
        )
    )
