"""Silver: each event once, with typed columns, and how complete each boot is.

The key of an event is (node, boot, seq). `events` has one row for each key, however often its line
was found (a backup read beside the original, a file that was copied), partitioned by kind; `view`
gives the rows of one kind with that kind's columns.

| Column | Type | Meaning |
|---|---|---|
| node .. kind | as in the envelope | never null |
| group | string | that the event names or, if none, whose actor said it; "" for the node's own |
| every field of every kind | `event_schema` | null where the kind has no such field |
| copies | bigint | how many lines had this key |
| differ | boolean | they were not all equal: somebody has changed a log |
| mistyped | boolean | a field had another type than the catalogue says; it is null |
| line | string | of kinds that the catalogue lacks; else null |
| day | string | of the file's folder |

`boots` and `holes` say what is missing. A hole that an EventsDropped names is no fault of the log,
nor is one up to what an EventFilesExpired calls the oldest event left: nobody had read it by then.
A boot without NodeStopped ended by a crash, or is not over, and its end is open.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from actors.events.codec import KINDS
from actors.pipeline.event_files import ABOVE_GROUPS, NO_GROUPS
from actors.pipeline.event_schema import CORRUPT, ENVELOPE, all_fields, fields_of, line_schema

KEY = ("node", "boot", "seq")
_BESIDE_KEY = tuple(name for name in ENVELOPE.names if name not in KEY)
LOST = {"dropped": "named", "expired": "expired", "missing": "not named and not expired"}
"""By the kind of loss, which holes of a boot count for it."""
SCHEMA = StructType(
    [
        *ENVELOPE,
        StructField("group", StringType()),
        *(field for field in all_fields() if field.name != "group"),
        StructField("copies", LongType()),
        StructField("differ", BooleanType()),
        StructField("mistyped", BooleanType()),
        StructField("line", StringType()),
        StructField("day", StringType()),
    ]
)
"""The schema of `events`; a test compares it with `typed`."""


def typed(bronze: DataFrame) -> DataFrame:
    """Make `events` of bronze: one row for each key, with its fields in columns of their own.

    The rows of a boot are together, in the order of kind and seq. They are moved and sorted before
    their lines are parsed, because then they have a hundred columns and are five times as wide.
    """
    good = bronze.where(fn.col("problem").isNull())
    once = (
        good.repartition("node", "boot")
        .groupBy(*KEY)
        .agg(
            fn.min(fn.struct("line", *_BESIDE_KEY)).alias("least"),
            fn.max("line").alias("greatest"),
            fn.count(fn.lit(1)).alias("copies"),
            fn.min("day").alias("day"),
        )
        .select(*KEY, "least.*", "greatest", "copies", "day")
        .sortWithinPartitions("kind", "seq")
    )
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    read = once.withColumn("event", fn.from_json("line", line_schema(), options))
    return read.select(
        *ENVELOPE.names,
        fn.coalesce("event.group", group_of(fn.col("path"))).alias("group"),
        *(fn.col(f"event.{name}") for name in all_fields().names if name != "group"),
        "copies",
        (fn.col("line") != fn.col("greatest")).alias("differ"),
        fn.col(f"event.{CORRUPT}").isNotNull().alias("mistyped"),
        fn.when(~fn.col("kind").isin(*KINDS), fn.col("line")).alias("line"),
        "day",
    )


def group_of(path: Column) -> Column:
    """Return the group in an actor's path: "orders" for /n0/orders/storage and /n0/roles/orders."""
    parts = fn.split(path, "/")
    second = fn.coalesce(fn.get(parts, fn.lit(2)), fn.lit(""))
    named = fn.coalesce(fn.get(parts, fn.lit(3)), fn.lit(""))
    above, none = second.isin(*ABOVE_GROUPS), second.isin(*NO_GROUPS)
    return fn.when(above, named).when(none, "").otherwise(second)


def view(events: DataFrame, kind: str) -> DataFrame:
    """Return the rows of one kind, with the envelope, `group` and that kind's own columns.

    Raises: KeyError: the catalogue lacks the kind.
    """
    names = [*ENVELOPE.names, "group", *fields_of(kind).names]
    return events.where(fn.col("kind") == kind).select(*dict.fromkeys(names))


def worked_out(make: Callable[[DataFrame], DataFrame]) -> Callable[[DataFrame], DataFrame]:
    """Decorate a view of few rows: it is computed once for the same events and kept as long as they
    are. In a plan it would be computed at each place where it stands.
    """
    known: WeakKeyDictionary[DataFrame, DataFrame] = WeakKeyDictionary()

    @wraps(make)
    def found(events: DataFrame) -> DataFrame:
        if events not in known:
            known[events] = events.sparkSession.createDataFrame(make(events).toArrow())
        return known[events]

    return found


def holes(events: DataFrame, everywhere: DataFrame | None = None) -> DataFrame:
    """Return ranges of `seq` without events: node, boot, first_seq, last_seq, named, expired.

    The numbers before a boot's first event are no hole, because old files are deleted.

    Args:
        everywhere: the events that tell about holes, if `events` has only some boots: the deletion
            of old files may be in a later boot.
    """
    everywhere = events if everywhere is None else everywhere
    before = fn.lag("seq").over(Window.partitionBy("node", "boot").orderBy("seq"))
    found = (
        events.select(*KEY)
        .withColumn("before", before)
        .where(fn.col("seq") > fn.col("before") + 1)
        .select(
            "node",
            "boot",
            (fn.col("before") + 1).alias("first_seq"),
            (fn.col("seq") - 1).alias("last_seq"),
        )
    )
    dropped = view(everywhere, "EventsDropped").select(
        "node", "boot", "first_seq", "last_seq", fn.lit(True).alias("named")
    )
    expired = (
        view(everywhere, "EventFilesExpired")
        .select(
            "node",
            fn.col("oldest_boot").alias("boot"),
            (fn.col("oldest_seq") - 1).alias("last_seq"),
            fn.lit(True).alias("expired"),
        )
        .distinct()  # a node that was killed says it again
    )
    return (
        found.join(dropped, ["node", "boot", "first_seq", "last_seq"], "left")
        .join(expired, ["node", "boot", "last_seq"], "left")
        .select(
            "node",
            "boot",
            "first_seq",
            "last_seq",
            fn.coalesce("named", fn.lit(False)).alias("named"),
            (fn.col("named").isNull() & fn.col("expired").isNotNull()).alias("expired"),
        )
    )


def followed_unseen(events: DataFrame) -> DataFrame:
    """Return members that followed a DLedger leader that has no event of leading the term.

    Its events are lost, or it is a Java member. Columns: group, node, boot, session, term, leader.
    """
    roles = view(events, "RoleChanged")
    led = roles.where("role = 'LEADER'").select("group", "term", fn.col("node").alias("leader"))
    return (
        roles.where("role = 'FOLLOWER' and leader != ''")
        .select("group", "node", "boot", "session", "term", "leader")
        .join(led, ["group", "term", "leader"], "left_anti")
    )


def boots(events: DataFrame) -> list[dict[str, Any]]:
    """Return one row for each boot of each node, sorted; nothing is compared between nodes.

    Columns: node, boot; first_seq, last_seq; first_us, last_us (by the node's clock); events;
    copies (lines beyond the first of a key); differ, mistyped, unknown (events); dropped, expired,
    missing (events in holes that are named, that expired unread, and all others); started, ended
    (whether NodeStarted is the first event, and NodeStopped the last).
    """
    counted = events.groupBy("node", "boot").agg(
        fn.min("seq").alias("first_seq"),
        fn.max("seq").alias("last_seq"),
        fn.min_by("ts_us", "seq").alias("first_us"),
        fn.max_by("ts_us", "seq").alias("last_us"),
        fn.count(fn.lit(1)).alias("events"),
        fn.sum(fn.col("copies") - 1).alias("copies"),
        fn.count_if("differ").alias("differ"),
        fn.count_if("mistyped").alias("mistyped"),
        fn.count_if(fn.col("line").isNotNull()).alias("unknown"),
        (fn.min_by("kind", "seq") == "NodeStarted").alias("started"),
        (fn.max_by("kind", "seq") == "NodeStopped").alias("ended"),
    )
    rows = sorted(counted.collect(), key=lambda row: (row["node"], row["boot"]))
    # An event has one row, so where they are as many as their numbers say, nothing is missing.
    has_holes = any(row["last_seq"] - row["first_seq"] >= row["events"] for row in rows)
    found = {
        (row["node"], row["boot"]): row.asDict()
        for row in (lost(events).collect() if has_holes else [])
    }
    nothing = dict.fromkeys(LOST, 0)
    return [{**row.asDict(), **found.get((row["node"], row["boot"]), nothing)} for row in rows]


def lost(events: DataFrame) -> DataFrame:
    """Return the boots with holes: node, boot and, as in `boots`, dropped, expired, missing."""
    size = fn.col("last_seq") - fn.col("first_seq") + 1
    sums = [
        fn.sum(fn.when(fn.expr(which), size).otherwise(0)).alias(name)
        for name, which in LOST.items()
    ]
    return holes(events).groupBy("node", "boot").agg(*sums)
