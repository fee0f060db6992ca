"""Who led a term or a promotion's number, and in which terms members were."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.audits.audit import EventAudit
from actors.pipeline.silver import view


def two_leaders(events: DataFrame) -> DataFrame:
    """Terms for which members name two leaders: group, term, leaders, told_by.

    A leader names itself and a follower whom it follows, so it is seen too where the log of one of
    the two is lost.
    """
    named = view(events, "RoleChanged").where(fn.col("leader") != "")
    return _owners(named.withColumnRenamed("leader", "owner"), "term", "leaders")


def two_masters(events: DataFrame) -> DataFrame:
    """Promotions by which two nodes opened a group: group, number, masters, told_by."""
    opened = view(events, "GroupOpened").withColumn("owner", fn.col("node"))
    return _owners(opened, "number", "masters")


def _owners(rows: DataFrame, what: str, owners: str) -> DataFrame:
    found = fn.sort_array(fn.collect_set("owner")).alias(owners)
    told_by = fn.sort_array(fn.collect_set("node")).alias("told_by")
    return rows.groupBy("group", what).agg(found, told_by).where(fn.size(owners) > 1)


def falling_terms(events: DataFrame) -> DataFrame:
    """Roles of a lower term than that member's before: group, node, boot, seq, term, before."""
    before = fn.lag("term").over(Window.partitionBy("group", "node").orderBy("boot", "seq"))
    return (
        view(events, "RoleChanged")
        .select("group", "node", "boot", "seq", "term", before.alias("before"))
        .where(fn.col("term") < fn.col("before"))
    )


ONE_LEADER = EventAudit(
    name="one_leader_per_term",
    claim="No term of a DLedger group was led by two members.",
    severity="error",
    kinds=("RoleChanged",),
    strict=True,
    query=two_leaders,
)
TERMS_RISE = EventAudit(
    name="terms_never_go_back",
    claim="No member of a DLedger group was in a lower term than before, restarts included.",
    severity="error",
    kinds=("RoleChanged",),
    strict=True,
    query=falling_terms,
)
ONE_MASTER = EventAudit(
    name="one_master_per_promotion",
    claim="No two nodes took a classic group's appends by one promotion.",
    severity="error",
    kinds=("GroupOpened",),
    strict=True,
    query=two_masters,
)
