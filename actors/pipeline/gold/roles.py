"""What each node was to each group, and when: one row for each interval, of every kind of group.

Each interval is about one node, by its own clock. It ends where the node's next interval begins or,
at the latest, with the last event of its boot. So a node that was killed has no role from then on.

| Column | Type | Meaning |
|---|---|---|
| group, node, boot | string, string, bigint | |
| role | string | see `ROLES` |
| number | bigint | the term, the epoch, or the number of the promotion; null if no event has that |
| leader | string | the leader or master that it follows; "" for none |
| from_us, until_us | bigint | the beginning and the end of the interval |
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.silver import view

ROLES: Final = {
    "leader": "a DLedger leader",
    "follower": "follows a leader, or waits for one",
    "candidate": "asks for votes",
    "master": "a master that takes appends, of a classic or an auto-switch group",
    "slave": "follows a master",
    "fenced": "a master that takes no appends",
    "alone": "a slave without a master, or whose log diverged; a replica between two roles",
}
_KEY = ("group", "node", "boot")
_COLUMNS = ("role", "number", "leader")


def roles(events: DataFrame) -> DataFrame:
    """Return the intervals of roles; see the module's text."""
    taken = reduce(DataFrame.unionByName, _taken(events))
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


def _taken(events: DataFrame) -> Iterator[DataFrame]:
    """Yield the roles that events of each kind show.

    A recorded promotion ends a node's role: a node that remains master opens the group again.
    """
    nothing, nobody = fn.lit(None).cast("bigint"), fn.lit("")
    own, number, master = fn.col("node"), fn.col("number"), fn.col("master")
    taken: list[tuple[str, Column, Column, Column]] = [
        ("RoleChanged", fn.lower("role"), fn.col("term"), fn.col("leader")),
        ("GroupOpened", fn.lit("master"), number, own),
        ("MasterFenced", fn.lit("fenced"), nothing, own),
        ("SlaveVerified", fn.lit("slave"), number, master),
        ("MasterLost", fn.lit("alone"), nothing, nobody),
        ("LogDiverged", fn.lit("alone"), nothing, nobody),
        ("PromotionRecorded", fn.lit("alone"), nothing, nobody),
        ("RoleGiven", fn.lit("alone"), nothing, nobody),
        ("EpochBegun", fn.lit("master"), fn.col("epoch"), own),
        (
            "LeaseChanged",
            fn.when(fn.col("holds"), "master").otherwise("fenced"),
            fn.when(fn.col("holds"), fn.col("epoch")),
            own,
        ),
    ]
    for kind, role, epoch, leader in taken:
        columns = (role.alias("role"), epoch.alias("number"), leader.alias("leader"))
        yield view(events, kind).select(*_KEY, "seq", "ts_us", *columns)
