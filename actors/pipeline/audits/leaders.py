"""The leaders of terms and promotions, and the terms of members."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.audits.audit import EventAudit
from actors.pipeline.silver import view

_KEY = ("group", "node", "boot")


def two_leaders(events: DataFrame) -> DataFrame:
    """Return terms for which members name two leaders: group, term, leaders, told_by.

    A leader names itself, and a follower the leader that it follows, so this is found even if the
    log of one of the two is lost.
    """
    named = view(events, "RoleChanged").where(fn.col("leader") != "")
    return owners_of(named.withColumnRenamed("leader", "owner"), "term", "leaders")


def two_masters(events: DataFrame) -> DataFrame:
    """Return promotions by which two nodes opened a group: group, number, masters, told_by."""
    opened = ruled_openings(events).withColumn("owner", fn.col("node"))
    return owners_of(opened, "number", "masters", "named")


def ruled_openings(events: DataFrame) -> DataFrame:
    """Return the openings that a promotion allowed to one node only, with the column `named`.

    Number 0 stands for the cluster file. As a changed file may name another master, each master
    that a file names (`named`, elsewhere "") counts as a promotion; the file's content must be
    known. A forced number is left out, because nodes that the operator did not reach may have given
    it to another master. So is a number whose first opening by a node, which tells that it was
    forced, is not in the log of the boot that recorded it.
    """
    files = (
        view(events, "GroupConfigured")
        .where("mode = 'classic'")
        .select(*_KEY, fn.get("members", fn.lit(0)).alias("first"))
        .distinct()
    )
    known = view(events, "PromotionRecorded").select(*_KEY, "number").distinct()
    of_node = Window.partitionBy("group", "number", "node")
    by_force = (fn.col("number") > 0) & (fn.coalesce("forced", fn.lit(False)) | ~fn.col("heard"))
    named = fn.when(fn.col("number") == 0, fn.col("first")).otherwise("")
    return (
        view(events, "GroupOpened")
        .join(fn.broadcast(known.withColumn("known", fn.lit(True))), [*_KEY, "number"], "left")
        .withColumn("heard", fn.max(fn.coalesce("known", fn.lit(False))).over(of_node))
        .withColumn("by_force", fn.max(by_force).over(Window.partitionBy("group", "number")))
        .where(~fn.col("by_force"))
        .join(fn.broadcast(files), list(_KEY), "left")
        .withColumn("named", named)
        .where("named is not null")
    )


def owners_of(rows: DataFrame, what: str, owners: str, *by: str) -> DataFrame:
    """Return what has two owners by the column `owner`: group, `what`, `owners`, told_by.

    Args:
        by: further columns that tell one `what` from another.
    """
    found = fn.sort_array(fn.collect_set("owner")).alias(owners)
    told_by = fn.sort_array(fn.collect_set("node")).alias("told_by")
    return rows.groupBy("group", what, *by).agg(found, told_by).where(fn.size(owners) > 1).drop(*by)


def falling_terms(events: DataFrame) -> DataFrame:
    """Return roles of a lower term than before: group, node, boot, seq, term, before.

    A boot on a disk that lost everything begins in term 0, too. It is no finding if the member
    reports that its vote counts for less until it has caught up.
    """
    in_order = Window.partitionBy("group", "node").orderBy("boot", "seq")
    in_boot = Window.partitionBy(*_KEY).orderBy("seq")
    anew = (fn.col("number") == 1) & (fn.col("term") == 0) & fn.col("doubted").isNotNull()
    return (
        view(events, "RoleChanged")
        .withColumn("before", fn.lag("term").over(in_order))
        .withColumn("number", fn.row_number().over(in_boot))
        .where(fn.col("term") < fn.col("before"))
        .join(fn.broadcast(begun_in_doubt(events)), list(_KEY), "left")
        .where(~anew)
        .select(*_KEY, "seq", "term", "before")
    )


def begun_in_doubt(events: DataFrame) -> DataFrame:
    """Return boots of members whose votes counted for less at first: group, node, boot, doubted."""
    return (
        view(events, "MembershipChanged")
        .groupBy(*_KEY)
        .agg(fn.min_by("membership", "seq").alias("doubted"))
        .where("doubted <> 'full'")
    )


ONE_LEADER = EventAudit(
    name="one_leader_per_term",
    claim="No term of a DLedger group was led by two members.",
    kinds=("RoleChanged",),
    strict=True,
    query=two_leaders,
)
TERMS_RISE = EventAudit(
    name="terms_never_go_back",
    claim="No member of a DLedger group was in a lower term than before, restarts included.",
    kinds=("RoleChanged",),
    strict=True,
    query=falling_terms,
    note="A member on an empty disk begins in term 0. It says that its vote counts for less.",
)
ONE_MASTER = EventAudit(
    name="one_master_per_promotion",
    claim="No two nodes took a classic group's appends by one promotion.",
    kinds=("GroupOpened",),
    subject=ruled_openings,
    strict=True,
    query=two_masters,
    note="A cluster file that names another master is another promotion 0. Not judged is what was "
    "forced, or may have been: while nodes are out of reach, another one may get its number.",
)
