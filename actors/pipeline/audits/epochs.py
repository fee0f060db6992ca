"""Epochs of classic and auto-switch groups, each from one opening to the next of a boot, and what
they answered.

An auto-switch group's epochs are numbered by its controllers, which elect of those that have all. A
promotion's number says which epoch is the later one, whatever the clocks say. Those of one number
are of one node, and its boots are in order; but number 0 is the cluster file's word, and nothing
tells which came first of the epochs of two nodes that it named.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.silver import view, worked_out

_KEY = ("group", "node", "boot")


@worked_out
def openings(events: DataFrame) -> DataFrame:
    """Return one row for each opening; they are few enough to be sent to every worker.

    Columns: group, node, boot, opened (its seq), until (the seq of the next one, or null), number,
    start, forced, elected (by controllers).
    """
    in_boot = Window.partitionBy(*_KEY).orderBy("opened")
    columns = (*_KEY, fn.col("seq").alias("opened"), fn.col("start_bytes").alias("start"))
    promoted = view(events, "GroupOpened").select(
        *columns,
        "number",
        fn.coalesce("forced", fn.lit(False)).alias("forced"),
        fn.lit(False).alias("elected"),
    )
    elected = view(events, "EpochBegun").select(
        *columns,
        fn.col("epoch").alias("number"),
        fn.lit(False).alias("forced"),
        fn.lit(True).alias("elected"),
    )
    return promoted.unionByName(elected).withColumn("until", fn.lead("opened").over(in_boot))


def in_eras(events: DataFrame, opened: DataFrame) -> DataFrame:
    """Return openings (of `openings`, or with more columns) with their eras.

    Columns: `begins`: whether an era begins with it; `era`: how many eras have begun.

    An auto-switch group has one. In a classic group an era begins with a promotion that was forced,
    which may lose what was acknowledged before, or that may have been: one without a known opening,
    and one whose first opening here is of a later boot than the promotion. Only the first opening
    tells that it was forced, and its line is lost if a log is missing, torn or expired, or its node
    was killed at once.
    """
    heard = (
        view(events, "PromotionRecorded")
        .groupBy(*_KEY, "number")
        .agg(fn.min("seq").alias("heard_at"))
    )
    in_order = Window.partitionBy("group").orderBy("number", "boot", "opened")
    before = fn.lag("number").over(in_order)
    is_first = fn.col("number") > before  # null for the first of all, which nothing precedes
    sure = (fn.col("number") == before + 1) & fn.coalesce(
        fn.col("heard_at") < fn.col("opened"), fn.lit(False)
    )
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    return (
        opened.join(fn.broadcast(heard), [*_KEY, "number"], "left")
        .withColumn("unsure", ~fn.col("elected") & fn.coalesce(is_first & ~sure, fn.lit(False)))
        .withColumn("begins", fn.col("forced") | fn.col("unsure"))
        .withColumn("era", fn.count_if("begins").over(so_far))
        .drop("heard_at", "unsure")
    )


@worked_out
def last_era(events: DataFrame) -> DataFrame:
    """Return, by group, the number from which on no promotion was forced: group, after."""
    opened = in_eras(events, openings(events))
    begun = opened.where("begins").select("group", "number")
    every = begun.unionByName(unopened(events, opened))
    return every.groupBy("group").agg(fn.max("number").alias("after"))


def unopened(events: DataFrame, opened: DataFrame) -> DataFrame:
    """Return the recorded promotions without a known opening: group, number."""
    heard = view(events, "PromotionRecorded").select("group", "number").distinct()
    return heard.join(opened.select("group", "number").distinct(), ["group", "number"], "left_anti")


def with_epoch(events: DataFrame, rows: DataFrame) -> DataFrame:
    """Return a master's rows with `opened` and `number` of their epoch; both 0 before the first."""
    return (
        rows.join(fn.broadcast(_epochs(events)), list(_KEY), "left")
        .where("opened is null or (seq >= opened and (until is null or seq < until))")
        .fillna(0, ["opened", "number"])
        .drop("until")
    )


@worked_out
def _epochs(events: DataFrame) -> DataFrame:
    """Return the epochs and, for each boot, one before its first: group, node, boot, opened, until,
    number.
    """
    opened = openings(events).select(*_KEY, "opened", "until", "number")
    first = opened.groupBy(*_KEY).agg(fn.min("opened").alias("until"))
    before = first.select(*_KEY, fn.lit(0).alias("opened"), "until", fn.lit(0).alias("number"))
    return opened.unionByName(before)


def answered(events: DataFrame) -> DataFrame:
    """Return the openings with the range that was answered in each.

    Columns: `acknowledged`: the end of the range, or 0; `answers_from`: its beginning, or null.
    """
    ends = (
        with_epoch(events, view(events, "AppendsAcknowledged"))
        .groupBy(*_KEY, "opened")
        .agg(
            fn.max("next_bytes").alias("acknowledged"), fn.min("first_bytes").alias("answers_from")
        )
    )
    return openings(events).join(ends, [*_KEY, "opened"], "left").fillna(0, ["acknowledged"])
