"""How nodes' boots ended, and which groups may therefore have lost what was not on a disk.

A boot that has no NodeStopped of an ordered stop was killed, lost its power, or is not over: its
log is the same in each case. A boot that is not here at all may have ended in any way.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from actors.pipeline.silver import view


def without_power(events: DataFrame) -> list[str]:
    """Return the groups that may have had a loss of power, which their promise does not cover.

    A classic or auto-switch group that is `written` promises nothing once as many nodes are lost as
    hold an answer, if some of them come back without what was in their page cache. A DLedger group
    that is `written`, or has Java members, does so once a single member comes back like that: it
    may help to elect a leader that lacks what it acknowledged.
    """
    soft = _soft(events)
    if soft.isEmpty():  # as mostly: all groups sync
        return []
    members = soft.select("group", fn.explode("members").alias("node")).distinct()
    unsure = (
        members.join(fn.broadcast(endings(events)), "node", "left")
        .fillna(True, ["came_back", "is_open"])  # who has no log may be anything
        .groupBy("group")
        .agg(
            fn.count_if("came_back").alias("came_back"),
            fn.count_if(fn.col("came_back") | fn.col("is_open")).alias("lost"),
        )
    )
    needed = soft.groupBy("group").agg(fn.min("needed").alias("needed"))
    found = unsure.join(fn.broadcast(needed), "group", "inner")
    rows = found.where("came_back > 0 and lost >= needed").select("group").collect()
    return [row["group"] for row in rows]


def _soft(events: DataFrame) -> DataFrame:
    """Return groups that do not sync: group, members, needed (how many lost nodes are too many)."""
    has_copies = fn.col("mode").isin("classic", "autoswitch")
    return (
        view(events, "GroupConfigured")
        .where("durability = 'written' or (mode = 'dledger' and size(java_members) > 0)")
        .select(
            "group",
            "members",
            fn.when(has_copies, fn.col("sure_copies")).otherwise(1).alias("needed"),
        )
    )


def endings(events: DataFrame) -> DataFrame:
    """Return how each node's boots ended.

    Columns: node; came_back: whether a boot without an ordered end has a later boot; is_open:
    whether its last boot has no ordered end.
    """
    boots = view(events, "GroupConfigured").select("node", "boot").distinct()
    ordered = (
        view(events, "NodeStopped")
        .where("reason = 'ordered'")
        .select("node", "boot", fn.lit(True).alias("ordered"))
        .distinct()
    )
    last = fn.max("boot")
    return (
        boots.join(fn.broadcast(ordered), ["node", "boot"], "left")
        .fillna(False, ["ordered"])
        .groupBy("node")
        .agg(
            last.alias("last"),
            fn.count_if("ordered").alias("ends"),
            fn.max_by("ordered", "boot").alias("ended"),
        )
        .select(
            "node",
            (fn.col("ends") - fn.col("ended").cast("int") < fn.col("last") - 1).alias("came_back"),
            (~fn.col("ended")).alias("is_open"),
        )
    )
