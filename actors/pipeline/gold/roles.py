"""What each node was to each group, and when: one row for each interval, of both kinds of groups.

Each interval is one node's own, by its own clock. It ends where the node's next one begins or, at
the latest, with the last event of its boot; so a node that is killed is nothing from then on.

| Column | Type | Meaning |
|---|---|---|
| group, node, boot | string, string, bigint | |
| role | string | see `ROLES` |
| number | bigint | DLedger: the term; classic: the promotion's number, null where no event has it |
| leader | string | whom it follows, its leader or master; "" for none |
| from_us, until_us | bigint | |
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.silver import view

ROLES: Final = {
    "leader": "a DLedger leader",
    "follower": "follows a leader, or waits for one",
    "candidate": "asks for votes",
    "master": "a classic master that takes appends",
    "slave": "follows a master",
    "fenced": "a master that takes no appends",
    "alone": "a slave without a master, or one whose log diverged",
}
_KEY = ("group", "node", "boot")
_COLUMNS = ("role", "number", "leader")


def roles(events: DataFrame) -> DataFrame:
    """See the module."""
    taken = _members(events)
    for more in (_masters(events), _fenced(events), _slaves(events), _alone(events)):
        taken = taken.unionByName(more)
    in_order = Window.partitionBy(*_KEY).orderBy("seq")
    before = fn.struct(*_COLUMNS)
    same = fn.lag(before).over(in_order).eqNullSafe(before)
    changed = taken.withColumn("same", same).where("not same")
    ends = events.groupBy("node", "boot").agg(fn.max_by("ts_us", "seq").alias("end_us"))
    until = fn.coalesce(fn.lead("ts_us").over(in_order), "end_us")
    return (
        changed.join(ends, ["node", "boot"], "inner")
        .withColumn("until_us", until)
        .select(*_KEY, *_COLUMNS, fn.col("ts_us").alias("from_us"), "until_us")
    )


def _members(events: DataFrame) -> DataFrame:
    rows = view(events, "RoleChanged")
    return _taken(rows, fn.lower("role"), fn.col("term"), fn.col("leader"))


def _masters(events: DataFrame) -> DataFrame:
    rows = view(events, "GroupOpened")
    return _taken(rows, fn.lit("master"), fn.col("number"), fn.col("node"))


def _fenced(events: DataFrame) -> DataFrame:
    return _taken(view(events, "MasterFenced"), fn.lit("fenced"), _nothing(), fn.col("node"))


def _slaves(events: DataFrame) -> DataFrame:
    rows = view(events, "SlaveVerified")
    return _taken(rows, fn.lit("slave"), fn.col("number"), fn.col("master"))


def _alone(events: DataFrame) -> DataFrame:
    """A promotion that is heard of ends what was: who stays master opens the group anew."""
    rows = [view(events, kind) for kind in ("MasterLost", "LogDiverged", "PromotionRecorded")]
    lost, diverged, promoted = (
        _taken(each, fn.lit("alone"), _nothing(), fn.lit("")) for each in rows
    )
    return lost.unionByName(diverged).unionByName(promoted)


def _nothing() -> Column:
    return fn.lit(None).cast("bigint")


def _taken(rows: DataFrame, role: Column, number: Column, leader: Column) -> DataFrame:
    return rows.select(
        *_KEY,
        "seq",
        "ts_us",
        role.alias("role"),
        number.alias("number"),
        leader.alias("leader"),
    )
