"""Whether the event logs are complete, and what a reader has to know about them."""

from __future__ import annotations

import attrs
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from actors.pipeline import bronze, silver
from actors.pipeline.alarms.event_logs import passed_over
from actors.pipeline.audits.audit import EventAudit, Evidence, Judged, collect
from actors.pipeline.silver import view
from actors.pipeline.verdicts import WITNESSES_MAX, Severity


def holes(events: DataFrame) -> DataFrame:
    """Return events that are missing or were changed: node, boot, first_seq, last_seq, what."""
    columns = ("node", "boot", "first_seq", "last_seq")
    missing = _holes(events).where("not named and not expired")
    differ = events.where("differ").select(
        "node", "boot", fn.col("seq").alias("first_seq"), fn.col("seq").alias("last_seq")
    )
    return missing.select(*columns, fn.lit("missing").alias("what")).unionByName(
        differ.select(*columns, fn.lit("lines differ").alias("what"))
    )


def _holes(events: DataFrame) -> DataFrame:
    """Return `silver.holes`, for which only boots with missing numbers have to be sorted."""
    lacking = (
        events.groupBy("node", "boot")
        .agg((fn.max("seq") - fn.min("seq") + 1 - fn.count("seq")).alias("lacking"))
        .where("lacking > 0")
    )
    torn = events.join(fn.broadcast(lacking.drop("lacking")), ["node", "boot"], "left_semi")
    return silver.holes(torn, events)


def _is_whole(evidence: Evidence) -> bool:
    return not evidence.has_gaps and not any(each.differ for each in evidence.counts)


def expired(events: DataFrame) -> DataFrame:
    """Return events that were deleted before they were read: node, boot, first_seq, last_seq."""
    return _holes(events).where("expired").select("node", "boot", "first_seq", "last_seq")


def dropped(events: DataFrame) -> DataFrame:
    """Return events that a node reports as dropped: node, boot, first_seq, last_seq."""
    return view(events, "EventsDropped").select("node", "boot", "first_seq", "last_seq")


def absent_nodes(events: DataFrame) -> DataFrame:
    """Return members, without Java nodes, of which there is no event: node, groups."""
    expected = fn.array_except("members", "java_members")
    return (
        view(events, "GroupConfigured")
        .select("group", fn.explode(expected).alias("node"))
        .groupBy("node")
        .agg(fn.sort_array(fn.collect_set("group")).alias("groups"))
        .join(events.select("node").distinct(), "node", "left_anti")
    )


def strange(events: DataFrame) -> DataFrame:
    """Return events of another catalogue: node, kind, what, events, first_seq."""
    what = fn.when(fn.col("mistyped"), "a field of another type").otherwise("unknown kind")
    return (
        events.where(fn.col("line").isNotNull() | fn.col("mistyped"))
        .groupBy("node", "kind", what.alias("what"))
        .agg(fn.count(fn.lit(1)).alias("events"), fn.min("seq").alias("first_seq"))
    )


def clock_jumps(events: DataFrame) -> DataFrame:
    """Return nodes whose clock went back: node, times, most_us; boot and seq of the first time."""
    before = fn.lag("ts_us").over(Window.partitionBy("node").orderBy("boot", "seq"))
    return (
        events.select("node", "boot", "seq", "ts_us")
        .withColumn("back_us", before - fn.col("ts_us"))
        .where("back_us > 0")
        .groupBy("node")
        .agg(
            fn.count(fn.lit(1)).alias("times"),
            fn.max("back_us").alias("most_us"),
            fn.min(fn.struct("boot", "seq")).alias("first"),
        )
        .select("node", "times", "most_us", "first.boot", "first.seq")
    )


@attrs.frozen(kw_only=True)
class LinesAudit:
    """Judges whether every line is an event, by what bronze could not read."""

    name: str = "every_line_is_an_event"
    claim: str = "Every line of every event file could be read."
    severity: Severity = "warning"

    def judge(self, evidence: Evidence) -> Judged:
        """Judge the lines of bronze, and the files that never get there.

        Raises: PipelineError, PySparkException.
        """
        found = (
            bronze.read_bronze(evidence.spark, evidence.out)
            .where(fn.col("problem").isNotNull())
            .groupBy(fn.regexp_replace("file", "^file:", "").alias("file"), "problem")
            .agg(
                fn.count(fn.lit(1)).alias("lines"),
                fn.min("line_number").alias("first_line"),
            )
        )
        findings, witnesses = collect(found)
        unread = passed_over(evidence.data)
        witnesses += tuple(
            {"file": path.removeprefix("file:"), "problem": problem} for path, problem in unread
        )
        return Judged(
            findings=findings + len(unread),
            witnesses=witnesses[:WITNESSES_MAX],
            checked=evidence.checked(),
        )


LOGS_WHOLE = EventAudit(
    name="event_logs_without_holes",
    claim="No event is missing between the first and the last of a boot, and none was changed.",
    query=holes,
    cleared=_is_whole,
    note="What a node says that it dropped is no hole, nor is what it deleted as too old before it "
    "was read. The end of an open boot is not known. Lines that differ are of a log that somebody "
    "changed, or of two generations of one node.",
)
READ_IN_TIME = EventAudit(
    name="read_before_deleted",
    claim="No node had deleted events of its log as too old before they were read here.",
    severity="warning",
    query=expired,
    cleared=lambda evidence: not evidence.has_gaps,
    note="Found are gaps within a boot; that a log begins later, or lacks whole boots, is lawful.",
)
NOTHING_DROPPED = EventAudit(
    name="no_events_dropped",
    claim="No node had to drop events for want of room.",
    severity="warning",
    query=dropped,
    cleared=lambda evidence: not evidence.checked(("EventsDropped",)).rows,
)
NODES_THERE = EventAudit(
    name="every_node_has_a_log",
    claim="Of every member that logs events there is an event log here.",
    severity="warning",
    kinds=("GroupConfigured",),
    query=absent_nodes,
    note="Of a missing log the audits know only what others say.",
)
LINES_READ = LinesAudit()
KINDS_KNOWN = EventAudit(
    name="events_of_this_version",
    claim="Every event is of a kind, and has fields of the types, that this version knows.",
    severity="warning",
    query=strange,
    cleared=lambda evidence: not any(each.strange for each in evidence.counts),
)
CLOCKS_RISE = EventAudit(
    name="clocks_never_go_back",
    claim="No node's clock went back, restarts included.",
    severity="warning",
    query=clock_jumps,
    note="No audit compares clocks; the gold tables are by them.",
)
