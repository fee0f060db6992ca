"""Whether groups that keep commit logs kept what they acknowledged: the group, and each node that
had it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.audits.audit import EventAudit
from actors.pipeline.audits.endings import without_power
from actors.pipeline.audits.epochs import answered, in_eras, last_era, with_epoch
from actors.pipeline.silver import view, worked_out

_KEY = ("group", "node", "boot")


def opened_below(events: DataFrame) -> DataFrame:
    """Return openings at a lower offset than earlier epochs had acknowledged.

    A forced promotion may lose records, so neither it nor what was acknowledged before it is
    judged, see `in_eras`. Nor are groups that may have lost what they did not promise to keep.
    """
    of_era = Window.partitionBy("group", "era").orderBy("number")
    of_node = Window.partitionBy("group", "era", "number", "node").orderBy("boot", "opened")
    earlier = (
        of_era.rangeBetween(Window.unboundedPreceding, -1),
        of_node.rowsBetween(Window.unboundedPreceding, -1),
    )
    judged = answered(events).where(~fn.col("group").isin(*without_power(events)))
    return (
        in_eras(events, judged)
        .withColumn("before", fn.greatest(*(fn.max("acknowledged").over(w) for w in earlier)))
        .where(fn.col("start") < fn.col("before"))
        .select(*_KEY, fn.col("opened").alias("seq"), "number", "start", "before")
    )


def kept_answers(events: DataFrame) -> DataFrame:
    """Return what `opened_below` is about: the answers of the groups that it judges."""
    answers = view(events, "AppendsAcknowledged")
    return answers.where(~fn.col("group").isin(*without_power(events)))


def cut_on_a_node(events: DataFrame) -> DataFrame:
    """Return logs of `synced` groups that were opened without acknowledged bytes of theirs.

    The node had reported these bytes, or answered for them, in that epoch. An empty log is not
    judged: a node whose disk was lost or emptied knows that it has forgotten, and one that lost its
    log but not its mark refuses to start.
    """
    recoveries = opened_logs(events)
    later = "later.boot > held.boot or (later.boot = held.boot and later.recovery > held.recovery)"
    same = fn.expr("later.group = held.group and later.node = held.node")
    return (
        acknowledged_by_recovery(events, recoveries)
        .join(fn.broadcast(last_era(events)), "group", "left")
        .where("number >= coalesce(after, 0)")
        .alias("held")
        .join(fn.broadcast(recoveries.alias("later")), same & fn.expr(later), "inner")
        .where("later.end_bytes < held.held and later.end_bytes > 0")
        .groupBy("held.group", "held.node", "held.number")
        .agg(
            fn.max("held.held").alias("held"),
            fn.min(fn.struct("later.boot", "later.recovery", "later.end_bytes")).alias("cut"),
        )
        .select("group", "node", "number", "held", "cut.boot", "cut.recovery", "cut.end_bytes")
        .withColumnRenamed("recovery", "seq")
    )


def acknowledged_by_recovery(events: DataFrame, recoveries: DataFrame) -> DataFrame:
    """Return `held_by_recovery`, with `held` lowered to the end of the epoch's last answer.

    A slave also syncs and reports a part of a record, which its next start cuts.
    """
    ends = with_epoch(events, view(events, "AppendsAcknowledged")).select(
        "group", "number", fn.col("next_bytes").alias("end")
    )
    return (
        fn.broadcast(held_by_recovery(events, recoveries))
        .join(ends, ["group", "number"], "inner")
        .where("end <= held")
        .groupBy(*_KEY, "recovery", "number")
        .agg(fn.max("end").alias("held"))
    )


@worked_out
def opened_logs(events: DataFrame) -> DataFrame:
    """Return the recoveries of the stores of `synced` groups that keep commit logs.

    Columns: group, node, boot; recovery, the seq of RecoveryFinished; until, that of the next one
    in this boot, or null; end_bytes.
    """
    of_groups = (
        view(events, "GroupConfigured")
        .where("mode in ('classic', 'autoswitch') and durability = 'synced'")
        .select(*_KEY)
        .distinct()
    )
    in_boot = Window.partitionBy(*_KEY).orderBy("seq")
    return (
        view(events, "RecoveryFinished")
        .join(of_groups, list(_KEY), "left_semi")
        .select(
            *_KEY,
            fn.col("seq").alias("recovery"),
            fn.lead("seq").over(in_boot).alias("until"),
            "end_bytes",
        )
    )


def held_by_recovery(events: DataFrame, recoveries: DataFrame) -> DataFrame:
    """Return how far each node reported to hold the log: group, node, boot, recovery, number, held.

    A slave shows it by its reports to a master that it had verified, a master by its answers.
    """
    sessions = view(events, "SlaveVerified").select(*_KEY, "session", "number").distinct()
    reports = (
        view(events, "OffsetReported")
        .join(fn.broadcast(sessions), [*_KEY, "session"], "inner")
        .select(*_KEY, "seq", "number", fn.col("offset_bytes").alias("held"))
    )
    answers = with_epoch(events, view(events, "AppendsAcknowledged")).select(
        *_KEY, "seq", "number", fn.col("next_bytes").alias("held")
    )
    return (
        reports.unionByName(answers)
        .join(fn.broadcast(recoveries.drop("end_bytes")), list(_KEY), "inner")
        .where("seq >= recovery and (until is null or seq < until)")
        .groupBy(*_KEY, "recovery", "number")
        .agg(fn.max("held").alias("held"))
    )


def synced_answers(events: DataFrame) -> DataFrame:
    """Return what `cut_on_a_node` is about: the answers of `synced` groups."""
    synced = view(events, "GroupConfigured").where("durability = 'synced'").select(*_KEY)
    return view(events, "AppendsAcknowledged").join(synced.distinct(), list(_KEY), "left_semi")


NOTHING_LOST = EventAudit(
    name="nothing_acknowledged_lost",
    claim="No master opened its group below what had been acknowledged, unless by force.",
    kinds=("AppendsAcknowledged",),
    needs=("GroupOpened or EpochBegun",),
    subject=kept_answers,
    whole=True,
    strict=True,
    query=opened_below,
    note="What was acknowledged before a promotion that was forced, or may have been as the log of "
    "its first opening is not here, is not judged, nor a group with "
    'durability = "written" if as many nodes as hold an answer had ends without an order, or have '
    "no log here, and one of them came back: a loss of power looks the same as a kill.",
)
NOTHING_CUT = EventAudit(
    name="nothing_acknowledged_cut",
    claim="No node that had an acknowledged range of a synced commit log came back without it.",
    kinds=("AppendsAcknowledged",),
    needs=("GroupConfigured", "RecoveryFinished"),
    subject=synced_answers,
    whole=True,
    strict=True,
    query=cut_on_a_node,
    note='Groups with durability = "written" promise nothing over a loss of power, and are left '
    "out, as are what was acknowledged before a forced promotion and a log that begins with "
    "nothing. A node that an operator put back to an older copy is found.",
)
