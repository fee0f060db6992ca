"""Whether as many nodes held what a master acknowledged as its group promises."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline.audits.audit import EventAudit
from actors.pipeline.audits.epochs import with_epoch
from actors.pipeline.silver import view, worked_out

_EPOCH = ("group", "node", "boot", "opened")


def too_few_copies(events: DataFrame) -> DataFrame:
    """Return acknowledged ranges that too few nodes had reported by then: one row for each answer.

    The master counts as one; see `with_holders`.
    """
    place = ["group", "node", "boot"]
    answers = view(events, "AppendsAcknowledged").join(
        fn.broadcast(promises(events)), place, "inner"
    )
    return (
        with_holders(answers, events)
        .withColumn("slaves", fn.array_intersect("slaves", "counting"))
        .where(fn.size("slaves") + 1 < fn.col("sure_copies"))
        .select(*place, "seq", "first_bytes", "next_bytes", "slaves", "sure_copies")
    )


def with_holders(answers: DataFrame, events: DataFrame) -> DataFrame:
    """Return answers (AppendsAcknowledged) with `slaves`, that had reported their ranges by then.

    A slave counts from the report on that reaches the range's end. Once it has reported over a
    newer connection, its earlier reports do not count, because it may have lost its log. An older
    connection that is still open may report again, and counts then. (SlaveAcked of one batch are in
    the order in which they counted, because group_transfer's mailbox keeps only the newest of each
    connection.)
    """
    acked = with_epoch(events, view(events, "SlaveAcked"))
    answers = with_epoch(events, answers)
    slaves = acked.select(*_EPOCH, "slave").distinct()
    of_each = answers.join(fn.broadcast(slaves), list(_EPOCH), "inner")
    columns = (*_EPOCH, "slave", "seq")
    so_far = Window.partitionBy(*_EPOCH, "slave").orderBy("seq")
    since = Window.partitionBy(*_EPOCH, "slave", "newest").orderBy("seq")
    holding = (
        acked.select(*columns, "connection", "offset_bytes")
        .unionByName(of_each.select(*columns, "next_bytes"), allowMissingColumns=True)
        .withColumn("newest", fn.max("connection").over(so_far))
        .withColumn("held", fn.max("offset_bytes").over(since))
        .where(fn.col("held") >= fn.col("next_bytes"))
        .groupBy(*_EPOCH, "seq")
        .agg(fn.sort_array(fn.collect_set("slave")).alias("slaves"))
    )
    nobody = fn.array().cast("array<string>")
    return answers.join(holding, [*_EPOCH, "seq"], "left").withColumn(
        "slaves", fn.coalesce("slaves", nobody)
    )


def promised_answers(events: DataFrame) -> DataFrame:
    """Return what `too_few_copies` judges: answers that needed more nodes than the master."""
    answers = view(events, "AppendsAcknowledged")
    return answers.join(fn.broadcast(promises(events)), ["group", "node", "boot"], "left_semi")


@worked_out
def promises(events: DataFrame) -> DataFrame:
    """Return which boots promise more copies than the master's.

    Columns: group, node, boot, sure_copies, counting (the nodes that may count). A Java slave
    reports what it has not synced, so in a synced group it does not count.
    """
    python = fn.array_except("members", "java_members")
    counting = fn.when(fn.col("durability") == "synced", python).otherwise(fn.col("members"))
    return (
        view(events, "GroupConfigured")
        .where("sure_copies > 1")
        .select("group", "node", "boot", "sure_copies", counting.alias("counting"))
        .distinct()
    )


def never_reported(events: DataFrame) -> DataFrame:
    """Return slaves that a master counted with more than they ever reported: group, node, slave.

    Columns: those, and counted, reported. A slave without an event log is not judged, nor one that
    was killed, as its last events may not be on its disk; see `sure_counts` for others.
    """
    reported = (
        view(events, "OffsetReported")
        .groupBy("group", fn.col("node").alias("slave"))
        .agg(fn.max("offset_bytes").alias("reported"))
    )
    return (
        sure_counts(events)
        .groupBy("group", "node", "slave")
        .agg(fn.max("offset_bytes").alias("counted"))
        .join(reported, ["group", "slave"], "left")
        .where(fn.col("counted") > fn.coalesce("reported", fn.lit(-1)))
        .select("group", "node", "slave", "counted", "reported")
    )


def sure_counts(events: DataFrame) -> DataFrame:
    """Return what `never_reported` judges: SlaveAcked of slaves whose event logs are complete.

    These have every boot from the first on, each whole and ended in order. A report of a boot that
    has expired or is torn may still be counted by the master in a later one. Torn logs have to be
    seen for this, so the audit leaves them out by itself, those of masters, too.
    """
    numbers_add_up = (fn.min("seq") == 1) & (fn.max("seq") == fn.count("seq"))
    boots = events.groupBy("node", "boot").agg(
        (numbers_add_up & ~fn.bool_or("differ")).alias("whole"),
        fn.bool_or(fn.col("kind") == "NodeStopped").alias("ended"),
    )
    has_all = fn.bool_and(fn.col("whole") & fn.col("ended")) & (fn.max("boot") == fn.count("boot"))
    sure = boots.groupBy("node").agg(has_all.alias("sure")).where("sure")
    slaves = sure.select(fn.col("node").alias("slave"))
    masters = boots.where("whole").select("node", "boot")
    return (
        view(events, "SlaveAcked")
        .join(fn.broadcast(slaves), "slave", "left_semi")
        .join(fn.broadcast(masters), ["node", "boot"], "left_semi")
    )


ENOUGH_COPIES = EventAudit(
    name="acknowledged_on_enough_nodes",
    claim="When a master answered an append, as many nodes as its group promises had reported it.",
    kinds=("AppendsAcknowledged",),
    needs=("GroupConfigured",),
    subject=promised_answers,
    whole=True,
    strict=True,
    query=too_few_copies,
)
AS_REPORTED = EventAudit(
    name="slaves_counted_as_they_reported",
    claim="No master counted a slave with more than the slave's own log says that it reported.",
    severity="warning",
    kinds=("SlaveAcked",),
    needs=("OffsetReported",),
    subject=sure_counts,
    query=never_reported,
    note="Not judged are slaves without an event log, slaves that were killed, and those of whose "
    "log any event is missing, dropped or expired. One that began anew in an empty directory has "
    "lost its word, and is found.",
)
