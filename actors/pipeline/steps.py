"""The steps as the command runs them: read, transform, write, and report what was found."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from actors.events.codec import KINDS
from actors.pipeline import bronze, layers, silver, verdicts
from actors.pipeline.alarms import findings
from actors.pipeline.alarms.event_logs import passed_over
from actors.pipeline.alarms.limits import Limits
from actors.pipeline.alarms.watch import LAYER, watch
from actors.pipeline.audits import judging
from actors.pipeline.audits.judging import AUDITS
from actors.pipeline.clock import stopwatch_s
from actors.pipeline.compaction import compact
from actors.pipeline.ending import Terminated
from actors.pipeline.gold.tables import TABLES
from actors.pipeline.locations import Location, event_folders, other_formats
from actors.pipeline.side_by_side import ahead
from actors.readable import counted

if TYPE_CHECKING:
    from actors.pipeline.report.facts import Facts

FILES_SHOWN_MAX = 20
PROBLEMS_SHOWN_MAX = 10
WITNESSES_SHOWN_MAX = 5

Tell = Callable[[str], None]


def run_bronze(spark: SparkSession, data: Location, out: Location, tell: Tell) -> None:
    """Read the new files. Raises: PipelineError."""
    for folder in other_formats(event_folders(data)):
        tell(f"bronze: {folder} is of another format and is left alone")
    unread = passed_over(data)
    for path, problem in unread[:PROBLEMS_SHOWN_MAX]:
        tell(f"bronze: {path.removeprefix('file:')}: {problem}")
    if len(unread) > PROBLEMS_SHOWN_MAX:
        tell(f"bronze: {counted(len(unread), 'file has', 'files have')} nothing to read")
    read: list[bronze.BatchRead] = []

    def tell_batch(batch: bronze.BatchRead) -> None:
        read.append(batch)
        for path, size in batch.files[:FILES_SHOWN_MAX]:
            tell(f"bronze: read {path.removeprefix('file:')}, {counted(size, 'byte')}")
        if len(batch.files) > FILES_SHOWN_MAX:
            tell(f"bronze: read {counted(len(batch.files) - FILES_SHOWN_MAX, 'more file')}")
        tell(f"bronze: batch {batch.batch} is written, {counted(batch.events, 'event')}")

    bronze.ingest(spark, data, out, tell_batch)
    files = sum(len(batch.files) for batch in read)
    if not files:
        tell("bronze: no new files, 0 bytes read")
        return
    size, events = sum(batch.size_bytes for batch in read), sum(batch.events for batch in read)
    sizes = f"{counted(size, 'byte')}, {counted(events, 'event')}"
    tell(f"bronze: {counted(files, 'new file')}, {sizes}")
    unknown = sum(batch.unknown for batch in read)
    if unknown:
        are = counted(unknown, "event is", "events are")
        tell(f"bronze: {are} of kinds that this version does not know")
    if unread or any(batch.problems for batch in read):
        _tell_problems(spark, out, [batch.batch for batch in read], len(unread), tell)


def _tell_problems(
    spark: SparkSession, out: Location, batches: list[int], unread: int, tell: Tell
) -> None:
    """Report the problems of some batches.

    Args:
        unread: how many files Spark skipped, which were reported; each is a further problem.
    """
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
    problems = counted(sum(row["count"] for row in found) + unread, "problem")
    files = counted(len({row["file"] for row in found}) + unread, "file")
    tell(f"bronze: {problems} in {files}")


def run_silver(spark: SparkSession, out: Location, tell: Tell) -> None:
    """Make silver of all that is in bronze. Raises: PipelineError."""
    events = silver.typed(bronze.read_bronze(spark, out))
    layer = out / "silver"
    tell("silver: typing all events")
    folder = layers.publish(layer, {"events": events}, partitions={"events": "kind"})
    typed = layers.read(spark, folder / "events", silver.SCHEMA)
    boots = silver.boots(typed)
    nodes = sorted({row["node"] for row in boots})
    of = f"{counted(sum(row['events'] for row in boots), 'event')} of {counted(len(boots), 'boot')}"
    tell(f"silver: {of} of {', '.join(nodes)}")
    for column, words in _FAULTS.items():
        for row in boots:
            if row[column]:
                tell(f"silver: {row['node']}, boot {row['boot']}: {counted(row[column], *words)}")
    if not any(row["unknown"] for row in boots):
        return
    unknown = typed.where(~fn.col("kind").isin(*KINDS))
    for kind, count in sorted(unknown.groupBy("kind").count().collect()):
        tell(f"silver: {counted(count, 'event')} of the unknown kind {kind}")


_FAULTS = {
    "missing": ("event is missing", "events are missing"),
    "expired": (
        "event was deleted as too old before it was read",
        "events were deleted as too old before they were read",
    ),
    "dropped": (
        "event was dropped by the node, which says so",
        "events were dropped by the node, which says so",
    ),
    "copies": ("line repeats an event", "lines repeat an event"),
    "differ": ("event stands in lines that differ", "events stand in lines that differ"),
    "mistyped": ("event has a field of another type", "events have a field of another type"),
}


def run_gold(spark: SparkSession, out: Location, tell: Tell) -> None:
    """Compute every gold table. Raises: PipelineError."""
    events = layers.read(spark, layers.current(out / "silver") / "events", silver.SCHEMA)
    tables = {name: make(events).repartition(1) for name, make in TABLES.items()}
    began_s, done = stopwatch_s(), itertools.count(1)

    def tell_table(name: str) -> None:
        took = f"{stopwatch_s() - began_s:.1f} s"
        tell(f"gold: {next(done)} of {len(TABLES)} tables, {name}, after {took}")

    folder = layers.publish(out / "gold", tables, written=tell_table)
    for name in TABLES:
        tell(f"gold: {name}: {counted(layers.count_rows(folder / name), 'row')}")
    tell(f"gold: written to {folder}")


def run_audit(spark: SparkSession, data: Location, out: Location, tell: Tell) -> verdicts.Verdicts:
    """Judge every claim and write the verdicts. Those of an earlier run are removed first.

    Raises: PipelineError.
    """

    done = itertools.count(1)

    def tell_verdict(verdict: verdicts.Verdict) -> None:
        far = f"{next(done)} of {len(AUDITS)}, {verdict.seconds:.1f} s"
        tell(f"audit: {verdicts.line_of(verdict)} ({far})")
        for witness in verdict.witnesses[:WITNESSES_SHOWN_MAX]:
            tell(f"audit:   {verdicts.witness_text(witness)}")

    verdicts.forget(out)
    found = judging.run(spark, out, data, tell_verdict)
    for boot in found.open_boots:
        tell(f"audit: {boot.node}, boot {boot.boot}: open: it was killed, or is not over")
    tell(f"audit: written to {verdicts.write(out, found)}")
    return found


def run_compact(spark: SparkSession, out: Location, tell: Tell) -> None:
    """Compact bronze. Raises: PipelineError."""
    batches, files = compact(spark, out)
    are = f"{counted(batches, 'batch', 'batches')} of {counted(files, 'file')}"
    tell(f"compact: {are}, now one folder by day and node")


def run_watch(
    spark: SparkSession,
    data: Location,
    out: Location,
    limits: Limits,
    seconds: float | None,
    tell: Tell,
    tell_aside: Tell,
    *,
    as_json: bool,
) -> None:
    """Report alarms as they come, until Ctrl-C or for some seconds. Raises: PipelineError.

    Args:
        tell: prints a finding.
        tell_aside: prints that it runs, which may be the only line.
    """

    def tell_finding(finding: findings.Finding) -> None:
        line = json.dumps(findings.as_dict(finding)) if as_json else findings.sentence(finding)
        tell(line)

    end = "until Ctrl-C" if seconds is None else f"for {seconds:g} s"
    does = f"follows {data} {end}" if seconds != 0 else f"reads what is in {data}, and ends"

    def tell_begun() -> None:
        tell_aside(f"watch: {does}; what it finds is kept in {out / LAYER}")

    try:
        watch(spark, data, out, limits, tell_finding, seconds, begun=tell_begun)
    except Terminated:
        raise
    except KeyboardInterrupt:
        return  # how a watch ends


def run_report(
    spark: SparkSession, data: Location, out: Location, report: Location, tell: Tell
) -> Facts:
    """Run all steps and write the page, first without the verdicts, which take the longest.

    Returns: what the page shows in the end.

    Raises: PipelineError.
    """
    ahead("actors.pipeline.report.page")
    run_bronze(spark, data, out, tell)
    run_silver(spark, out, tell)
    run_gold(spark, out, tell)
    from actors.pipeline.report.gather import gather
    from actors.pipeline.report.page import page
    from actors.pipeline.report.pictures import pictures

    facts = gather(spark, data, out, tell)
    tell("report: drawing")
    drawn = pictures(facts)
    report.write_bytes(page(facts, drawn).encode())
    tell(f"report: written to {report}, without the verdicts, which follow")
    found = run_audit(spark, data, out, tell)
    facts = attrs.evolve(facts, verdicts=found, is_judged=True)
    content = page(facts, drawn).encode()
    report.write_bytes(content)
    tell(f"report: written to {report}, {len(content):,} bytes")
    return facts
