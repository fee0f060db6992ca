"""How often each actor crashed and was started again, and why last.

| Column | Type | Meaning |
|---|---|---|
| node, path | string | |
| crashes, restarts | bigint | over all boots |
| gave_up | bigint | times that it, as a supervisor, had too many restarts below it |
| killed | bigint | times that it outlasted its stop |
| last_error | string | of its last crash; null without one |
| first_us, last_us | bigint | of these events, by the node's clock |
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

KINDS = ("ActorCrashed", "ActorRestarted", "RestartIntensityExceeded", "ChildKilled")


def restarts(events: DataFrame) -> DataFrame:
    """One row for each path with such an event; see the module."""
    kind = fn.col("kind")
    place = fn.struct("boot", "seq")
    return (
        events.where(kind.isin(*KINDS))
        .groupBy("node", "path")
        .agg(
            fn.count_if(kind == "ActorCrashed").alias("crashes"),
            fn.count_if(kind == "ActorRestarted").alias("restarts"),
            fn.count_if(kind == "RestartIntensityExceeded").alias("gave_up"),
            fn.count_if(kind == "ChildKilled").alias("killed"),
            fn.max_by("error", fn.when(kind == "ActorCrashed", place)).alias("last_error"),
            fn.min("ts_us").alias("first_us"),
            fn.max("ts_us").alias("last_us"),
        )
    )
