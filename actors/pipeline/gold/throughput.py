"""How much was acknowledged, second by second.

| Column | Type | Meaning |
|---|---|---|
| group, node | string | the group, and its master or leader, whose clock counts |
| second | bigint | seconds since 1970 in which something was acknowledged |
| acknowledged | bigint | records of a classic group, entries of a DLedger group |
| size_bytes | bigint | their bytes; null for a DLedger group, whose events have no sizes |

A DLedger leader's first commit of a boot counts nothing, because it is unknown where it began. Its
first commit as a leader includes entries of which it had not heard as a follower.

The table `resent` has the bytes that a slave received, and how many of them it had received before.

A slave emits an event for each write of received bytes. Bytes below the highest end so far were
sent again, because the slave's log had been cut, or a new connection began lower than the last one
ended.

| Column | Type | Meaning |
|---|---|---|
| group, node | string | the group, and the slave |
| received_bytes, resent_bytes | bigint | over all boots; the second is a part of the first |
| sessions | bigint | connections on which bytes were received |
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.silver import view

_US = 1_000_000
_COLUMNS = ("group", "node", "second", "acknowledged", "size_bytes")


def throughput(events: DataFrame) -> DataFrame:
    """Return the throughput of classic and DLedger groups; see the module's text."""
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
    """Return the entries that leaders committed.

    A follower's event counts only as the index from which the node rose further as a leader.
    """
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


def resent(events: DataFrame) -> DataFrame:
    """Return a row for each slave; see the module's text."""
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
