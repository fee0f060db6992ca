"""All audits, and how they are run over the tables of one data directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from actors.pipeline import layers, silver
from actors.pipeline.audits import commits, copies, kept, leaders, logs, sync_sets
from actors.pipeline.audits.audit import Audit, Evidence, Judged
from actors.pipeline.audits.data_receipts import ACKNOWLEDGED_READABLE, WRITTEN_READABLE
from actors.pipeline.audits.data_replicas import REPLICAS_EQUAL
from actors.pipeline.clock import now_us, stopwatch_s
from actors.pipeline.errors import PipelineError
from actors.pipeline.locations import Location
from actors.pipeline.side_by_side import side_by_side
from actors.pipeline.verdicts import OpenBoot, Verdict, Verdicts, word_for

AUDITS: Final[tuple[Audit, ...]] = (
    logs.LOGS_WHOLE,
    leaders.ONE_LEADER,
    leaders.TERMS_RISE,
    commits.COMMITTED_RISES,
    commits.COMMITTED_ON_QUORUM,
    commits.COMMITTED_STAYS,
    leaders.ONE_MASTER,
    sync_sets.ONE_MASTER,
    sync_sets.EPOCHS_RISE,
    sync_sets.ONE_SET,
    sync_sets.WHOLE_SET,
    copies.ENOUGH_COPIES,
    copies.AS_REPORTED,
    kept.NOTHING_LOST,
    kept.NOTHING_CUT,
    REPLICAS_EQUAL,
    ACKNOWLEDGED_READABLE,
    WRITTEN_READABLE,
    logs.NODES_THERE,
    logs.READ_IN_TIME,
    logs.NOTHING_DROPPED,
    logs.LINES_READ,
    logs.KINDS_KNOWN,
    logs.CLOCKS_RISE,
)
"""All audits, in the order in which they are judged. A new one is a line here."""


def run(
    spark: SparkSession,
    out: Location,
    data: Location,
    tell: Callable[[Verdict], None] = lambda _: None,
    audits: Sequence[Audit] = AUDITS,
) -> Verdicts:
    """Judge the events of silver, and the logs in `data`; write nothing.

    Args:
        tell: called with each verdict, in their order, as soon as it is known.

    Raises:
        PipelineError: there is no silver.
        PySparkException: Spark failed.
    """
    events = layers.read(spark, layers.current(out / "silver") / "events", silver.SCHEMA)
    evidence = Evidence(spark=spark, events=events, data=data, out=out)
    evidence.prepare()
    with closing(evidence.logs):
        verdicts = side_by_side((partial(judge, audit, evidence) for audit in audits), tell)
    return Verdicts(made_at_us=now_us(), audits=tuple(verdicts), open_boots=open_boots(evidence))


def judge(audit: Audit, evidence: Evidence) -> Verdict:
    """Run one audit. If it cannot read its evidence, that is a finding, so that others still run.

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
    return Judged(findings=1, witnesses=(witness,))


def open_boots(evidence: Evidence) -> tuple[OpenBoot, ...]:
    """Return the boots whose last event is no NodeStopped, ordered by node and boot."""
    stops = evidence.checked(("NodeStopped",)).ranges
    ends = {(boot.node, boot.boot, boot.last_seq) for boot in stops}
    boots = evidence.checked().ranges
    return tuple(
        OpenBoot(node=boot.node, boot=boot.boot)
        for boot in sorted(boots, key=lambda boot: (boot.node, boot.boot))
        if (boot.node, boot.boot, boot.last_seq) not in ends
    )
