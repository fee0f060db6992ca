"""What happened to the replicas of auto-switch groups beside their roles: one row for each moment.

| Column | Type | Meaning |
|---|---|---|
| group, node, boot | string, string, bigint | |
| at_us | bigint | when, by the node's clock |
| what | string | see `TURNS` |
| detail | string | the ids that are in the set now, or the bytes that are cut, for people |

A master that begins has taken a set, which is no change; one that another master had is not
compared with it.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.silver import view

TURNS: Final = {
    "set grows": "a replica has joined the sync state set",
    "set shrinks": "a replica has left the sync state set",
    "log cut": "a replica gives up what its master does not have",
    "lease ends": "a master acknowledges nothing, as no controller answers it",
    "role not taken": "a change of the role has failed, and is tried again",
}
_KEY = ("group", "node", "boot")
_COLUMNS = (*_KEY, "at_us", "what", "detail")


def turns(events: DataFrame) -> DataFrame:
    """Return the moments; see the module's text."""
    at = fn.col("ts_us").alias("at_us")
    cut = fn.concat_ws(" ", fn.lit("from"), "written_bytes", fn.lit("to"), "end_bytes")
    cuts = view(events, "LogCutAsked").select(
        *_KEY, at, fn.lit("log cut").alias("what"), cut.alias("detail")
    )
    epoch = fn.concat(fn.lit("in epoch "), "epoch").alias("detail")
    leases = (
        view(events, "LeaseChanged")
        .where("not holds")
        .select(*_KEY, at, fn.lit("lease ends").alias("what"), epoch)
    )
    failed = view(events, "RoleNotTaken").select(
        *_KEY, at, fn.lit("role not taken").alias("what"), fn.col("reason").alias("detail")
    )
    return _sets(events).unionByName(cuts).unionByName(leases).unionByName(failed)


def _sets(events: DataFrame) -> DataFrame:
    """Return how sets changed while one run of an actor had them."""
    in_order = Window.partitionBy(*_KEY, "incarnation", "path", "epochs").orderBy("seq")
    so_far = Window.partitionBy(*_KEY).orderBy("seq")
    sizes = fn.size("in_sync")
    what = fn.when(sizes > fn.col("before"), "set grows").when(
        sizes < fn.col("before"), "set shrinks"
    )
    begun = view(events, "EpochBegun").select(*_KEY, "seq", fn.lit(1).alias("begun"))
    return (
        view(events, "SyncStateSetTaken")
        .unionByName(begun, allowMissingColumns=True)
        .withColumn("epochs", fn.count("begun").over(so_far))
        .where("in_sync is not null")
        .withColumn("before", fn.lag(sizes).over(in_order))
        .withColumn("what", what)
        .where("what is not null")
        .withColumn("detail", fn.array_join(fn.col("in_sync").cast("array<string>"), " "))
        .withColumn("at_us", fn.col("ts_us"))
        .select(*_COLUMNS)
    )
