"""Times in which no appends to a group were acknowledged, as the group's clients saw them.

An answer is an AppendsAcknowledged of a classic master or a CommittedRose of a DLedger leader. Two
answers of a group that are further apart than the limit enclose an outage, if an append waited.
Appends that were sent while there was no master are in no event. So an outage has a witness only if
a write waited longer than the limit, if the deadline of an append passed, or if the second answer
comes from another node or from a later boot. Without a witness it is possible that there was
nothing to append.

The second answer is no witness if all nodes had ended in between and the last one had been ordered
to stop, as no answers were due then. But it remains a witness if more than AROUND_STOPS_US of the
outage are left without the stop: the time from a member's loss of its leader until the nodes were
stopped, together with the time since their start.

Answers of two nodes are ordered by the nodes' clocks: an outage over a failover is as exact as
these are.

A DLedger leader may have no events here by which it leads a term, because its disk is lost or
because it is a Java member. Then an answer is each CommittedRose of its followers with a
higher index than all events of the group before: a follower that only catches up is not counted.
The follower that heard it may have been away when there were other answers. So next to such an
answer, that of another node is a witness only if a member lost its leader in between.

| Column | Type | Meaning |
|---|---|---|
| group | string | |
| from_us, until_us, took_us | bigint | the last answer before and the first one after |
| from_node, until_node | string | the nodes that gave them; they differ after a failover |
| heard | boolean | whether one of the two is known from followers only |
| writes | bigint | the writes in between, with the one first answered; 0 for DLedger |
| waited_us | bigint | how long the first of these had waited; null without any |
| timed_out | bigint | how many appends had their deadline in between |
| witnessed | boolean | see above |
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from actors.events.node import ORDERED
from actors.pipeline.silver import followed_unseen, view

LIMIT_US = 100_000
AROUND_STOPS_US = 30_000_000
"""The most microseconds without an answer that are excused around a stop of all nodes. They allow
for nodes that stop one after the other, and for a start with its election, which takes 6 s at worst
with the usual timers if no node hangs."""
_KEY = ("group", "node", "boot")


def outages(events: DataFrame, limit_us: int = LIMIT_US) -> DataFrame:
    """Return the times without an answer; see the module's text."""
    rows = (
        _rows(view(events, "AppendsAcknowledged"), answers=fn.lit(1))
        .unionByName(_rows(_leaders_commits(events), answers=fn.lit(1)))
        .unionByName(_rows(_heard_commits(events), answers=fn.lit(1), heard=fn.lit(1)))
        .unionByName(_rows(_losses(events), losses=fn.lit(1)))
        .unionByName(_rows(_stops(events), stops=fn.lit(1), stopped_us=fn.col("stopped_us")))
        .unionByName(_rows(view(events, "RecordsAppended"), writes=fn.lit(1)))
        .unionByName(_rows(view(events, "AppendsTimedOut"), timed_out=fn.col("appends")))
    )
    in_order = Window.partitionBy("group").orderBy("ts_us", "answers", "node", "seq")
    answer = fn.col("answers") == 1
    # What stands before an answer and after the one before it belongs to this answer's gap.
    numbered = rows.withColumn("gap", fn.sum("answers").over(in_order) - fn.col("answers"))
    gaps = numbered.groupBy("group", "gap").agg(
        fn.max(fn.when(answer, fn.col("ts_us"))).alias("until_us"),
        fn.max(fn.when(answer, fn.col("node"))).alias("until_node"),
        fn.max(fn.when(answer, fn.col("boot"))).alias("boot"),
        fn.sum("heard").alias("until_heard"),
        fn.sum("losses").alias("losses"),
        fn.sum("stopped_us").alias("stopped_us"),
        fn.min(fn.when(fn.col("stops") > 0, fn.col("ts_us"))).alias("stop_us"),
        fn.min(fn.when(fn.col("losses") > 0, fn.col("ts_us"))).alias("loss_us"),
        fn.sum("writes").alias("writes"),
        fn.min(fn.when(fn.col("writes") > 0, fn.col("ts_us"))).alias("first_us"),
        fn.sum("timed_out").alias("timed_out"),
    )
    waited = fn.col("until_us") - fn.col("first_us")
    by_gap = Window.partitionBy("group").orderBy("gap")
    took = fn.col("until_us") - fn.col("from_us")
    again = fn.coalesce(fn.col("from_boot") != fn.col("boot"), fn.lit(False))
    moved = (fn.col("from_node") != fn.col("until_node")) | again
    heard = (fn.col("from_heard") + fn.col("until_heard")) > 0
    waited_long = fn.coalesce(waited > limit_us, fn.lit(False))
    around = fn.col("until_us") - fn.least("stop_us", "loss_us") - fn.col("stopped_us")
    excused = fn.col("stop_us").isNotNull() & (around <= AROUND_STOPS_US)
    seen_to_move = moved & (~heard | (fn.col("losses") > 0)) & ~excused
    return (
        gaps.withColumn("from_us", fn.lag("until_us").over(by_gap))
        .withColumn("from_node", fn.lag("until_node").over(by_gap))
        .withColumn("from_boot", fn.lag("boot").over(by_gap))
        .withColumn("from_heard", fn.lag("until_heard").over(by_gap))
        .where(took > limit_us)
        .select(
            "group",
            "from_us",
            "until_us",
            took.alias("took_us"),
            "from_node",
            "until_node",
            heard.alias("heard"),
            "writes",
            waited.alias("waited_us"),
            "timed_out",
            (waited_long | (fn.col("timed_out") > 0) | seen_to_move).alias("witnessed"),
        )
    )


def _leaders_commits(events: DataFrame) -> DataFrame:
    """Return the commits that leaders reported. Followers report later, and know of no appends."""
    rose = view(events, "CommittedRose")
    return rose.where(fn.col("path").endswith("/quorum_ack_checker"))


def _heard_commits(events: DataFrame) -> DataFrame:
    """Return the commits that followers heard from leaders without events, as events of these."""
    silent = followed_unseen(events)
    so_far = Window.partitionBy("group").orderBy("ts_us", "node", "seq")
    before = so_far.rowsBetween(Window.unboundedPreceding, -1)
    return (
        view(events, "CommittedRose")
        .join(fn.broadcast(silent.select("group").distinct()), "group", "left_semi")
        .withColumn("known", fn.max("index").over(before))
        .where("known is null or index > known")
        .join(fn.broadcast(silent.drop("term")), [*_KEY, "session"], "inner")
        .withColumn("node", fn.col("leader"))
        .withColumn("boot", fn.lit(None).cast("bigint"))
    )


def _losses(events: DataFrame) -> DataFrame:
    """Return the events of members that lost their leader or their leadership.

    A member that has just started had no leader before it first follows one. It can become a
    candidate several times until then, as it hears of later terms.
    """
    before = fn.lag("role").over(Window.partitionBy(*_KEY).orderBy("seq"))
    return (
        view(events, "RoleChanged")
        .withColumn("before", before)
        .where("role = 'CANDIDATE' and before in ('FOLLOWER', 'LEADER')")
    )


def _stops(events: DataFrame) -> DataFrame:
    """Return for each group the moments at which the last running node stopped as ordered.

    `stopped_us` is for how long no node ran then, or 0 if none of these nodes ran again.
    """
    boots = events.groupBy("node", "boot").agg(
        fn.max("seq").alias("seq"),
        fn.min("ts_us").alias("first_us"),
        fn.max("ts_us").alias("last_us"),
        fn.max((fn.col("kind") == "NodeStopped") & (fn.col("reason") == ORDERED)).alias("ordered"),
    )
    place = ("node", "boot", "seq", "ordered")
    begun = boots.select(*place, fn.col("first_us").alias("ts_us"), fn.lit(1).alias("runs"))
    ended = boots.select(*place, fn.col("last_us").alias("ts_us"), fn.lit(-1).alias("runs"))
    by_time = Window.partitionBy(fn.lit(0)).orderBy("ts_us", fn.desc("runs"), "node", "boot")
    running = fn.sum("runs").over(by_time.rowsBetween(Window.unboundedPreceding, 0))
    stopped_us = fn.lead("ts_us").over(by_time) - fn.col("ts_us")
    groups = view(events, "GroupConfigured").select("group").distinct()
    return (
        begun.unionByName(ended)
        .withColumn("running", running)
        .withColumn("stopped_us", fn.coalesce(stopped_us, fn.lit(0)))
        .where("running = 0 and runs = -1 and ordered")
        .crossJoin(fn.broadcast(groups))
    )


def _rows(events: DataFrame, **counts: Column) -> DataFrame:
    columns = ("answers", "heard", "losses", "stops", "stopped_us", "writes", "timed_out")
    return events.select(
        "group",
        "node",
        "boot",
        "seq",
        "ts_us",
        *(counts.get(name, fn.lit(0)).cast("bigint").alias(name) for name in columns),
    )
