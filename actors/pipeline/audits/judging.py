"""Run the audits over one data directory's tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from actors.pipeline import layers, silver
from actors.pipeline.audits.audit import Audit, Evidence, Judged
from actors.pipeline.audits.registry import AUDITS
from actors.pipeline.clock import now_us, stopwatch_s
from actors.pipeline.errors import PipelineError
from actors.pipeline.locations import Location
from actors.pipeline.verdicts import Checked, OpenBoot, Verdict, Verdicts, word_for


def run(
    spark: SparkSession,
    out: Location,
    data: Location,
    tell: Callable[[Verdict], None] = lambda _: None,
    audits: Sequence[Audit] = AUDITS,
) -> Verdicts:
    """Judge what silver has, and the logs in `data`. Writes nothing.

    Args:
        tell: called for each verdict as it is there.

    Raises:
        PipelineError: there is no silver.
        PySparkException: Spark failed.
    """
    events = layers.read(spark, layers.current(out / "silver") / "events", silver.SCHEMA)
    evidence = Evidence(spark=spark, events=events, data=data, out=out)
    verdicts = []
    for audit in audits:
        verdicts.append(judge(audit, evidence))
        tell(verdicts[-1])
    return Verdicts(made_at_us=now_us(), audits=tuple(verdicts), open_boots=open_boots(evidence))


def judge(audit: Audit, evidence: Evidence) -> Verdict:
    """One verdict. An audit that cannot look finds that, and the others are heard all the same.

    Raises: PySparkException.
    """
    began_s = stopwatch_s()
    try:
        judged = audit.judge(evidence)
    except (PipelineError, OSError) as error:
        judged = _without_a_look(error)
    return Verdict(
        name=audit.name,
        claim=audit.claim,
        severity=audit.severity,
        verdict=word_for(judged.findings, judged.checked.rows),
        findings=judged.findings,
        witnesses=judged.witnesses,
        checked=judged.checked,
        note=judged.note,
        seconds=round(stopwatch_s() - began_s, 3),
    )


def _without_a_look(error: Exception) -> Judged:
    witness = {"what": " ".join(str(error).split())}
    return Judged(findings=1, witnesses=(witness,), checked=Checked(rows=0))


def open_boots(evidence: Evidence) -> tuple[OpenBoot, ...]:
    """The boots whose last event is no NodeStopped, by node and boot."""
    last = fn.max_by("kind", "seq").alias("last")
    found = evidence.events.groupBy("node", "boot").agg(last).where("last <> 'NodeStopped'")
    keys = sorted((row["node"], row["boot"]) for row in found.collect())
    return tuple(OpenBoot(node=node, boot=boot) for node, boot in keys)
