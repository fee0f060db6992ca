"""Auto-switch groups: the masters of epochs, the sync state sets, and who held what was answered.

Controllers elect masters and number epochs and sets. What replicas say of both is judged here, and
what controllers say, where theirs are nodes of ours; Java's have no event log.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.audits.audit import EventAudit
from actors.pipeline.audits.copies import with_holders
from actors.pipeline.audits.leaders import owners_of
from actors.pipeline.silver import view

_KEY = ("group", "node", "boot")


def two_masters(events: DataFrame) -> DataFrame:
    """Return epochs that two nodes began: group, epoch, masters, told_by."""
    begun = view(events, "EpochBegun").withColumn("owner", fn.col("node"))
    return owners_of(begun, "epoch", "masters")


def falling_epochs(events: DataFrame) -> DataFrame:
    """Return roles of a lower epoch than before: group, node, boot, seq, epoch, before."""
    columns = (*_KEY, "seq", "epoch")
    told = view(events, "RoleGiven").select(*columns)
    begun = view(events, "EpochBegun").select(*columns)
    in_order = Window.partitionBy("group", "node").orderBy("boot", "seq")
    return (
        told.unionByName(begun)
        .withColumn("before", fn.lag("epoch").over(in_order))
        .where("epoch < before")
        .select(*columns, "before")
    )


def two_sets(events: DataFrame) -> DataFrame:
    """Return numbers that stand for two sync state sets: group, number, sets, told_by."""
    members = fn.array_join(fn.col("in_sync").cast("array<string>"), " ").alias("members")
    taken = view(events, "SyncStateSetTaken").select(
        "group", "node", fn.col("set_epoch").alias("number"), members
    )
    decided = view(events, "SyncStateSetChanged").select(
        fn.col("broker").alias("group"), "node", fn.col("epoch").alias("number"), members
    )
    return (
        taken.unionByName(decided)
        .groupBy("group", "number")
        .agg(
            fn.sort_array(fn.collect_set("members")).alias("sets"),
            fn.sort_array(fn.collect_set("node")).alias("told_by"),
        )
        .where(fn.size("sets") > 1)
    )


def beyond_the_set(events: DataFrame) -> DataFrame:
    """Return acknowledged ranges that fewer replicas held than the set had members then.

    The master counts as one. Its set is the one that it took last; it says so before it answers by
    it.
    """
    told = view(events, "SyncStateSetTaken").select(*_KEY, "seq", "in_sync")
    so_far = Window.partitionBy(*_KEY).orderBy("seq")
    return (
        with_holders(answers_with_set(events), events)
        .unionByName(told, allowMissingColumns=True)
        .withColumn("members", fn.last("in_sync", ignorenulls=True).over(so_far))
        .where("next_bytes is not null and size(slaves) + 1 < size(members)")
        .select(*_KEY, "seq", "first_bytes", "next_bytes", "slaves", "members")
    )


def answers_with_set(events: DataFrame) -> DataFrame:
    """Return what `beyond_the_set` judges: the answers of masters that have a set."""
    sets = view(events, "SyncStateSetTaken").select(*_KEY).distinct()
    return view(events, "AppendsAcknowledged").join(fn.broadcast(sets), list(_KEY), "left_semi")


ONE_MASTER = EventAudit(
    name="one_master_per_epoch",
    claim="No epoch of an auto-switch group was begun by two replicas.",
    kinds=("EpochBegun",),
    query=two_masters,
)
EPOCHS_RISE = EventAudit(
    name="epochs_never_go_back",
    claim="No replica of an auto-switch group took a role of a lower epoch than before, restarts "
    "included.",
    kinds=("EpochBegun",),
    query=falling_epochs,
    note="Controllers that lost what they had decided begin anew, and are found.",
)
ONE_SET = EventAudit(
    name="one_set_per_number",
    claim="No number of a sync state set stood for two sets, by the words of masters and "
    "controllers.",
    kinds=("SyncStateSetTaken",),
    query=two_sets,
)
WHOLE_SET = EventAudit(
    name="acknowledged_on_the_whole_set",
    claim="When an auto-switch group's append was answered, all of the sync state set had reported "
    "it.",
    kinds=("AppendsAcknowledged",),
    needs=("SyncStateSetTaken",),
    subject=answers_with_set,
    whole=True,
    strict=True,
    query=beyond_the_set,
    note="Reports are counted by replicas, whoever they are: a learner's is one. Groups with "
    "all_ack_in_sync_state_set = false do not promise it.",
)
