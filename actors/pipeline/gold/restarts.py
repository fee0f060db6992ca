"""How often each actor crashed and was started again, and why last.

| Column | Type | Meaning |
|---|---|---|
| node, path | string | |
| crashes, restarts | bigint | over all boots |
| gave_up | bigint | times that this supervisor had too many restarts of its children |
| killed | bigint | times that it outlasted its stop |
| last_error | string | the error of its last crash; null without one |
| first_us, last_us | bigint | the times of the first and last event, by the node's clock |

The table `pressure` shows where more work came than was done, by the effects of full mailboxes and
busy loops.

There are no events about the depth of a mailbox, but about what follows from a full one: questions
that were not answered in time, appends whose deadline passed, timers that fired late, messages that
were never read, and events that were dropped.

| Column | Type | Meaning |
|---|---|---|
| node, path | string | the actor concerned |
| minute | bigint | the minute since 1970, by the node's clock |
| asks_timed_out | bigint | questions to it that were not answered in time |
| appends_timed_out | bigint | appends whose deadline passed |
| dead_letters | bigint | messages that came after it had ended |
| lags | bigint | times that its timers fired much too late |
| worst_lag_s | double | the longest of these delays; null without one |
| events_dropped | bigint | events of the node that were dropped |
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

_CRASHES = ("ActorCrashed", "ActorRestarted", "RestartIntensityExceeded", "ChildKilled")


def restarts(events: DataFrame) -> DataFrame:
    """Return a row for each path with an event about a crash; see the module's text."""
    kind = fn.col("kind")
    place = fn.struct("boot", "seq")
    return (
        events.where(kind.isin(*_CRASHES))
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


_PRESSING = ("AskTimedOut", "AppendsTimedOut", "DeadLettered", "LoopLagged", "EventsDropped")
_US_PER_MINUTE = 60_000_000


def pressure(events: DataFrame) -> DataFrame:
    """Return a row for each path and minute with an event about overload; see the module's text."""
    minute = fn.floor(fn.col("ts_us") / _US_PER_MINUTE).alias("minute")
    return (
        events.where(fn.col("kind").isin(*_PRESSING))
        .groupBy("node", "path", minute)
        .agg(
            _sum("AskTimedOut", fn.lit(1)).alias("asks_timed_out"),
            _sum("AppendsTimedOut", fn.col("appends")).alias("appends_timed_out"),
            _sum("DeadLettered", fn.col("count")).alias("dead_letters"),
            _sum("LoopLagged", fn.lit(1)).alias("lags"),
            fn.max("lag_s").alias("worst_lag_s"),
            _sum("EventsDropped", fn.col("last_seq") - fn.col("first_seq") + 1).alias(
                "events_dropped"
            ),
        )
    )


def _sum(kind: str, of: Column) -> Column:
    return fn.sum(fn.when(fn.col("kind") == kind, of).otherwise(0))
