"""The step `report`: all steps before it, the verdicts, then the page."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from actors.pipeline import steps
from actors.pipeline.locations import Location
from actors.pipeline.report.facts import Facts
from actors.pipeline.report.gather import gather
from actors.pipeline.report.page import page

Tell = Callable[[str], None]


def run_report(
    spark: SparkSession, data: Location, out: Location, report: Location, tell: Tell
) -> Facts:
    """Write the page, and the tables before it; returns what it shows. Raises: PipelineError."""
    steps.run_bronze(spark, data, out, tell)
    steps.run_silver(spark, out, tell)
    steps.run_gold(spark, out, tell)
    verdicts = steps.run_audit(spark, data, out, tell)
    facts = gather(spark, data, out, verdicts, tell)
    tell("report: drawing")
    content = page(facts).encode()
    report.write_bytes(content)
    tell(f"report: written to {report}, {len(content):,} bytes")
    return facts
