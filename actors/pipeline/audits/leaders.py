"""Leaders of terms and promotions, and in which terms members were."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.audits.audit import EventAudit
from actors.pipeline.silver import view

_KEY = ("group", "node", "boot")


def two_leaders(events: DataFrame) -> DataFrame:
    """Terms for which members name two leaders: group, term, leaders, told_by.

    A leader names itself and a follower whom it follows, so it is seen too where the log of one of
    the two is lost.
    """
    named = view(events, "RoleChanged").where(fn.col("leader") != "")
    return _owners(named.withColumnRenamed("leader", "owner"), "term", "leaders")


def two_masters(events: DataFrame) -> DataFrame:
    """Promotions by which two nodes opened a group: group, number, masters, told_by."""
    opened = ruled_openings(events).withColumn("owner", fn.col("node"))
    return _owners(opened, "number", "masters", "named")


def ruled_openings(events: DataFrame) -> DataFrame:
    """The openings that a promotion allowed one node, with `named`.

    Number 0 is the cluster file's word. A changed file is another word, so there each master that a
    file names (`named`, elsewhere "") has a promotion; what the file said must be known. A number
    that somebody forced is left out: another master may have been given it where he did not reach.
    So is one of which a node's first opening, which tells that, is not in the log of the boot that
    heard of it.
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


def _owners(rows: DataFrame, what: str, owners: str, *by: str) -> DataFrame:
    found = fn.sort_array(fn.collect_set("owner")).alias(owners)
    told_by = fn.sort_array(fn.collect_set("node")).alias("told_by")
    return rows.groupBy("group", what, *by).agg(found, told_by).where(fn.size(owners) > 1).drop(*by)


def falling_terms(events: DataFrame) -> DataFrame:
    """Roles of a lower term than that member's before: group, node, boot, seq, term, before.

    A boot begins in term 0, too, on a disk that lost all; that is no finding where the member says
    that its vote counts for less until it has caught up.
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
    """Boots of members whose votes counted for less at the start: group, node, boot, doubted."""
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
