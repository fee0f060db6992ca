"""Who led a term, and in which terms members were."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.audits.audit import EventAudit
from actors.pipeline.silver import view


def two_leaders(events: DataFrame) -> DataFrame:
    """Terms that more than one member led: group, term, leaders."""
    led = view(events, "RoleChanged").where(fn.col("role") == "LEADER")
    leaders = fn.sort_array(fn.collect_set("node")).alias("leaders")
    return led.groupBy("group", "term").agg(leaders).where(fn.size("leaders") > 1)


def falling_terms(events: DataFrame) -> DataFrame:
    """Roles of a lower term than that member's before: group, node, boot, seq, term, before."""
    in_order = Window.partitionBy("group", "node").orderBy("boot", "seq")
    return (
        view(events, "RoleChanged")
        .select(
            "group", "node", "boot", "seq", "term", fn.lag("term").over(in_order).alias("before")
        )
        .where(fn.col("term") < fn.col("before"))
    )


ONE_LEADER = EventAudit(
    name="one_leader_per_term",
    claim="No term of a DLedger group was led by two members.",
    severity="error",
    kinds=("RoleChanged",),
    query=two_leaders,
)
TERMS_RISE = EventAudit(
    name="terms_never_go_back",
    claim="No member of a DLedger group was in a lower term than before, restarts included.",
    severity="error",
    kinds=("RoleChanged",),
    query=falling_terms,
)
