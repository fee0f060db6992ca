"""What DLedger's members report as committed: it rises, a majority has it, it stays."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.audits.audit import EventAudit
from actors.pipeline.audits.endings import without_power
from actors.pipeline.audits.leaders import begun_in_doubt
from actors.pipeline.silver import followed_unseen, view

_KEY = ("group", "node", "boot")


def falling_commits(events: DataFrame) -> DataFrame:
    """Return committed indexes that are not above the one before, of one incarnation of an actor.

    An actor that is restarted knows only what is stored, and may have known a higher index before.
    """
    in_order = Window.partitionBy(*_KEY, "path", "incarnation").orderBy("seq")
    return (
        view(events, "CommittedRose")
        .withColumn("before", fn.lag("index").over(in_order))
        .where(fn.col("index") <= fn.col("before"))
        .select(*_KEY, "seq", "index", "before")
    )


def without_quorum(events: DataFrame) -> DataFrame:
    """Return what leaders reported as committed although no majority of the members held it."""
    counted = fn.array_intersect("holders", "members")  # each of them once
    return (
        told_by_leaders(events)
        .where(fn.size(counted) < fn.col("sure_copies"))
        .select(*_KEY, "seq", "term", "index", "holders", fn.col("sure_copies").alias("needed"))
    )


def told_by_leaders(events: DataFrame) -> DataFrame:
    """Return what `without_quorum` judges: CommittedRose of leaders with known term and members."""
    led = (
        view(events, "RoleChanged")
        .where(fn.col("role") == "LEADER")
        .select(*_KEY, "session", "term")
    )
    group = view(events, "GroupConfigured").select(*_KEY, "members", "sure_copies").distinct()
    return (
        view(events, "CommittedRose")
        .where(fn.col("path").endswith("/quorum_ack_checker"))
        .join(fn.broadcast(led), [*_KEY, "session"], "inner")
        .join(fn.broadcast(group), list(_KEY), "inner")
    )


def leaders_unseen(events: DataFrame) -> DataFrame:
    """Return the leaders, without Java members, of whose commits there is no event: what."""
    java = view(events, "GroupConfigured").select(
        "group", fn.explode("java_members").alias("leader")
    )
    what = fn.concat("leader", fn.lit(" led "), "group", fn.lit(" in term "), "term")
    return (
        followed_unseen(events)
        .join(fn.broadcast(java.distinct()), ["group", "leader"], "left_anti")
        .select(what.alias("what"))
        .distinct()
    )


def committed_removed(events: DataFrame) -> DataFrame:
    """Return removals of entries that the member had reported as committed.

    Entries before a log's new beginning do not count, because the leader's had expired. Nor do
    those of a log that a later start found empty, if the member reports that its vote counts for
    less, because they were lost before. A start that takes its log for whole has lost them itself.
    """
    cut = view(events, "LedgerTruncated").where("next >= 0 and next <= end")
    columns = ("group", "node", "boot", "seq", "next", "end")
    own = fn.broadcast(cut.select("group", "node").distinct())
    kept = told_for_good(events).join(own, ["group", "node"], "left_semi")
    empty = view(events, "RecoveryFinished").where("end_bytes = 0")
    emptied = (
        empty.join(own, ["group", "node"], "left_semi")
        .join(fn.broadcast(begun_in_doubt(events)), list(_KEY), "left_semi")
        .withColumn("is_empty", fn.lit(1))
    )
    in_order = Window.partitionBy("group", "node").orderBy("boot", "seq")
    so_far = Window.partitionBy("group", "node", "generation").orderBy("boot", "seq")
    return (
        kept.select(*_KEY, "seq", "index")
        .unionByName(cut.select(*columns), allowMissingColumns=True)
        .unionByName(emptied.select(*_KEY, "seq", "is_empty"), allowMissingColumns=True)
        .withColumn("generation", fn.sum(fn.coalesce("is_empty", fn.lit(0))).over(in_order))
        .withColumn("committed", fn.max("index").over(so_far))
        .where("next is not null and committed >= next")
        .select(*columns, "committed")
    )


def told_for_good(events: DataFrame) -> DataFrame:
    """Return what `committed_removed` judges: CommittedRose of groups that keep their entries."""
    in_memory = view(events, "GroupConfigured").where("store = 'memory'").select("group").distinct()
    kept = ~fn.col("group").isin(*without_power(events))
    rose = view(events, "CommittedRose").where(kept)
    return rose.join(fn.broadcast(in_memory), "group", "left_anti")


COMMITTED_RISES = EventAudit(
    name="committed_never_falls",
    claim="The committed index that a member tells rises within one incarnation of its actor.",
    kinds=("CommittedRose",),
    strict=True,
    query=falling_commits,
)
COMMITTED_ON_QUORUM = EventAudit(
    name="committed_on_a_majority",
    claim="Whatever a leader called committed had been acknowledged by a majority of the members.",
    kinds=("CommittedRose",),
    needs=("GroupConfigured", "RoleChanged"),
    subject=told_by_leaders,
    strict=True,
    query=without_quorum,
    unseen=leaders_unseen,
    note=(
        "Only the leader says which members acknowledged: they log no event for entries they store."
    ),
)
COMMITTED_STAYS = EventAudit(
    name="nothing_committed_removed",
    claim="No member removed an entry after it had said that it is committed.",
    kinds=("CommittedRose",),
    subject=told_for_good,
    strict=True,
    query=committed_removed,
    cleared=lambda evidence: not evidence.checked(("LedgerTruncated",)).rows,
    note="By each member's own words: the term of a removed entry is in no event, so another "
    "member's word is not held against it. Groups in memory are left out, and truncations of "
    "an older version, which did not say where the log goes on. So are groups that are written "
    "only, or have Java members, if one of their members came back after an end without an order, "
    "or has no log here: a loss of power looks the same as a kill. Nothing is held against a log "
    "that begins anew on an empty disk, where its member says that its vote counts for less.",
)
