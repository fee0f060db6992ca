"""Reigns of classic groups: from an opening to the next one of that boot, and what they answered.

A promotion's number says which reign is the later one, whatever the clocks say. Those of one number
are of one node, and its boots are in order; but number 0 is the cluster file's word, and nothing
tells which came first of the reigns of two nodes that it named.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.silver import view

_PLACE = ("group", "node", "boot")


def openings(events: DataFrame) -> DataFrame:
    """group, node, boot, opened (its seq), until (the next one's, or null), number, start, forced.

    One row for each opening: few, small enough to be sent to every worker.
    """
    in_boot = Window.partitionBy(*_PLACE).orderBy("seq")
    return view(events, "GroupOpened").select(
        *_PLACE,
        fn.col("seq").alias("opened"),
        fn.lead("seq").over(in_boot).alias("until"),
        "number",
        fn.col("start_bytes").alias("start"),
        fn.coalesce("forced", fn.lit(False)).alias("forced"),
    )


def with_reign(events: DataFrame, rows: DataFrame) -> DataFrame:
    """Rows of a master with the `opened` and `number` of their reign: 0 and 0 before the first."""
    opened = openings(events).select(*_PLACE, "opened", "until", "number")
    first = opened.groupBy(*_PLACE).agg(fn.min("opened").alias("until"))
    before = first.select(*_PLACE, fn.lit(0).alias("opened"), "until", fn.lit(0).alias("number"))
    reigns = opened.unionByName(before)
    return (
        rows.join(fn.broadcast(reigns), list(_PLACE), "left")
        .where("opened is null or (seq >= opened and (until is null or seq < until))")
        .fillna(0, ["opened", "number"])
        .drop("until")
    )


def answered(events: DataFrame) -> DataFrame:
    """The openings, each with `acknowledged`: the end of what was answered in it, or 0."""
    ends = (
        with_reign(events, view(events, "AppendsAcknowledged"))
        .groupBy(*_PLACE, "opened")
        .agg(fn.max("next_bytes").alias("acknowledged"))
    )
    return openings(events).join(ends, [*_PLACE, "opened"], "left").fillna(0, ["acknowledged"])
