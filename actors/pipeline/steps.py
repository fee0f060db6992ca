"""The steps as the command runs them: read, transform, write, and say in lines what was found."""

from __future__ import annotations

import json
from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from actors.events.codec import KINDS
from actors.pipeline import bronze, layers, silver, verdicts
from actors.pipeline.alarms import findings
from actors.pipeline.alarms.event_logs import empty_files
from actors.pipeline.alarms.limits import Limits
from actors.pipeline.alarms.watch import watch
from actors.pipeline.audits import judging
from actors.pipeline.compaction import compact
from actors.pipeline.event_files import EMPTY
from actors.pipeline.gold.tables import TABLES
from actors.pipeline.places import Place, event_folders, other_formats

FILES_SHOWN_MAX = 20
PROBLEMS_SHOWN_MAX = 10
WITNESSES_SHOWN_MAX = 5

Tell = Callable[[str], None]


def run_bronze(spark: SparkSession, data: Place, out: Place, tell: Tell) -> None:
    """Read the new files. Raises: PipelineError."""
    for folder in other_formats(event_folders(data)):
        tell(f"bronze: {folder} is of another format and is left alone")
    empty = empty_files(data)
    for path in empty[:PROBLEMS_SHOWN_MAX]:
        tell(f"bronze: {path.removeprefix('file:')}: {EMPTY}")
    if len(empty) > PROBLEMS_SHOWN_MAX:
        tell(f"bronze: {len(empty):,} files are empty")
    read: list[bronze.BatchRead] = []

    def tell_batch(batch: bronze.BatchRead) -> None:
        read.append(batch)
        for path, size in batch.files[:FILES_SHOWN_MAX]:
            tell(f"bronze: read {path.removeprefix('file:')}, {size:,} bytes")
        if len(batch.files) > FILES_SHOWN_MAX:
            tell(f"bronze: read {len(batch.files) - FILES_SHOWN_MAX} more files")
        tell(f"bronze: batch {batch.batch} is written, {batch.events:,} events")

    bronze.ingest(spark, data, out, tell_batch)
    files = sum(len(batch.files) for batch in read)
    if not files:
        tell("bronze: no new files, 0 bytes read")
        return
    size, events = sum(batch.size_bytes for batch in read), sum(batch.events for batch in read)
    tell(f"bronze: {files:,} new files, {size:,} bytes, {events:,} events")
    unknown = sum(batch.unknown for batch in read)
    if unknown:
        tell(f"bronze: {unknown:,} events are of kinds that this version does not know")
    if any(batch.problems for batch in read):
        _tell_problems(spark, out, [batch.batch for batch in read], tell)


def _tell_problems(spark: SparkSession, out: Place, batches: list[int], tell: Tell) -> None:
    found = (
        bronze.read_batches(spark, out, batches)
        .where(fn.col("problem").isNotNull())
        .groupBy("file", "problem")
        .agg(fn.count(fn.lit(1)).alias("count"), fn.min("line_number").alias("first"))
        .orderBy("file", "first")
        .collect()
    )
    for row in found[:PROBLEMS_SHOWN_MAX]:
        place = f"{row['file'].removeprefix('file:')}: line {row['first']}"
        tell(f"bronze: {place}: {row['problem']} ({row['count']:,} such)")
    count = sum(row["count"] for row in found)
    tell(f"bronze: {count:,} problems in {len({row['file'] for row in found}):,} files")


def run_silver(spark: SparkSession, out: Place, tell: Tell) -> None:
    """Type all that is in bronze. Raises: PipelineError."""
    events = silver.typed(bronze.read_bronze(spark, out))
    layer = out / "silver"
    folder = layers.publish(layer, {"events": events}, partitions={"events": "kind"})
    boots = silver.boots(layers.read(spark, folder / "events", silver.SCHEMA)).collect()
    nodes = sorted({row["node"] for row in boots})
    events_count = sum(row["events"] for row in boots)
    tell(f"silver: {events_count:,} events of {len(boots)} boots of {', '.join(nodes)}")
    for column, what in _FAULTS.items():
        for row in sorted(boots):
            if row[column]:
                tell(f"silver: {row['node']}, boot {row['boot']}: {row[column]:,} {what}")
    unknown = layers.read(spark, folder / "events", silver.SCHEMA).where(
        ~fn.col("kind").isin(*KINDS)
    )
    for row in sorted(unknown.groupBy("kind").count().collect()):
        tell(f"silver: {row['count']:,} events of the unknown kind {row['kind']}")


_FAULTS = {
    "missing": "events are missing",
    "dropped": "events were dropped by the node, which says so",
    "copies": "lines repeat an event",
    "differ": "events stand in lines that differ",
    "mistyped": "events have a field of another type",
}


def run_gold(spark: SparkSession, out: Place, tell: Tell) -> None:
    """Work out every gold table. Raises: PipelineError."""
    events = layers.read(spark, layers.current(out / "silver") / "events", silver.SCHEMA)
    tables = {name: make(events).repartition(1) for name, make in TABLES.items()}
    folder = layers.publish(out / "gold", tables)
    for name in TABLES:
        count = layers.read(spark, folder / name).count()
        tell(f"gold: {name}: {count:,} rows")
    tell(f"gold: written to {folder}")


def run_audit(spark: SparkSession, data: Place, out: Place, tell: Tell) -> verdicts.Verdicts:
    """Judge every claim and write the verdicts. Those of an earlier run are gone from the start.

    Raises: PipelineError.
    """

    def tell_verdict(verdict: verdicts.Verdict) -> None:
        tell(f"audit: {verdicts.line_of(verdict)}")
        for witness in verdict.witnesses[:WITNESSES_SHOWN_MAX]:
            tell(f"audit:   {verdicts.witness_text(witness)}")

    verdicts.forget(out)
    found = judging.run(spark, out, data, tell_verdict)
    for boot in found.open_boots:
        tell(f"audit: {boot.node}, boot {boot.boot}: open: it was killed, or is not over")
    tell(f"audit: written to {verdicts.write(out, found)}")
    return found


def run_compact(spark: SparkSession, out: Place, tell: Tell) -> None:
    """Compact bronze. Raises: PipelineError."""
    batches, files = compact(spark, out)
    tell(f"compact: {batches:,} batches of {files:,} files are now one folder by day and node")


def run_watch(
    spark: SparkSession,
    data: Place,
    out: Place,
    limits: Limits,
    seconds: float | None,
    tell: Tell,
    *,
    as_json: bool,
) -> None:
    """Tell alarms as they come, until Ctrl-C or for some seconds. Raises: PipelineError."""

    def tell_finding(finding: findings.Finding) -> None:
        line = json.dumps(findings.as_dict(finding)) if as_json else findings.sentence(finding)
        tell(line)

    try:
        watch(spark, data, out, limits, tell_finding, seconds)
    except KeyboardInterrupt:
        return  # how a watch ends
