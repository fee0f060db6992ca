"""What an audit is made of, and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from actors.pipeline.places import Place
from actors.pipeline.verdicts import WITNESSES_MAX, Checked, CheckedRange, Severity, Witness


@attrs.frozen(kw_only=True)
class Count:
    """The events of one kind in one boot."""

    kind: str
    node: str
    boot: int
    first_seq: int
    last_seq: int
    events: int


@attrs.frozen(kw_only=True, slots=False)
class Evidence:
    """What the audits look at.

    Attributes:
        events: silver's.
        data: the data directory, with the nodes' logs beside their events.
        out: where the tables are.
    """

    spark: SparkSession
    events: DataFrame
    data: Place
    out: Place

    @cached_property
    def counts(self) -> tuple[Count, ...]:
        """What there is of each kind, by one pass for all audits."""
        found = (
            self.events.groupBy("kind", "node", "boot")
            .agg(
                fn.min("seq").alias("first_seq"),
                fn.max("seq").alias("last_seq"),
                fn.count(fn.lit(1)).alias("events"),
            )
            .collect()
        )
        counts = (Count(**row.asDict()) for row in found)
        return tuple(sorted(counts, key=lambda each: (each.node, each.boot, each.kind)))

    def checked(self, kinds: Sequence[str]) -> Checked:
        """The events of some kinds; of all, if none is named."""
        ranges: dict[tuple[str, int], CheckedRange] = {}
        for count in self.counts:
            if kinds and count.kind not in kinds:
                continue
            key = count.node, count.boot
            new = CheckedRange(
                node=count.node,
                boot=count.boot,
                first_seq=count.first_seq,
                last_seq=count.last_seq,
                events=count.events,
            )
            ranges[key] = _joined(ranges[key], new) if key in ranges else new
        rows = sum(each.events for each in ranges.values())
        return Checked(rows=rows, ranges=tuple(ranges.values()))


def _joined(one: CheckedRange, two: CheckedRange) -> CheckedRange:
    return attrs.evolve(
        one,
        first_seq=min(one.first_seq, two.first_seq),
        last_seq=max(one.last_seq, two.last_seq),
        events=one.events + two.events,
    )


@attrs.frozen(kw_only=True)
class Judged:
    """What an audit found.

    Attributes:
        findings: how many.
        witnesses: the first WITNESSES_MAX of them.
        checked: what it looked at.
        note: for people.
    """

    findings: int
    witnesses: tuple[Witness, ...]
    checked: Checked
    note: str = ""


class Audit(Protocol):
    """A claim that can be judged; `registry` has all. Stateless."""

    @property
    def name(self) -> str:
        """One word of small letters and _."""

    @property
    def claim(self) -> str:
        """One sentence."""

    @property
    def severity(self) -> Severity:
        """Of a finding."""

    def judge(self, evidence: Evidence) -> Judged:
        """Look. Raises: PipelineError, pyspark.errors.PySparkException."""


@attrs.frozen(kw_only=True)
class EventAudit:
    """An audit over the event logs.

    Attributes:
        kinds: of the events that the claim is about; none: of all. Without any of them the audit
            does not apply.
        query: silver's events -> one row for each finding.
        note: what the events cannot tell, if that is something.
    """

    name: str
    claim: str
    severity: Severity
    kinds: tuple[str, ...]
    query: Callable[[DataFrame], DataFrame]
    note: str = ""

    def judge(self, evidence: Evidence) -> Judged:
        """Look at the events. Raises: PySparkException."""
        checked = evidence.checked(self.kinds)
        if not checked.rows:
            return Judged(findings=0, witnesses=(), checked=checked, note=self.note)
        findings, witnesses = collect(self.query(evidence.events))
        return Judged(findings=findings, witnesses=witnesses, checked=checked, note=self.note)


def collect(table: DataFrame) -> tuple[int, tuple[Witness, ...]]:
    """The number of findings, and the first of them by the order of their columns."""
    rows = table.orderBy(*table.columns).limit(WITNESSES_MAX + 1).collect()
    findings = len(rows) if len(rows) <= WITNESSES_MAX else table.count()
    witnesses: list[Mapping[str, Any]] = [row.asDict(recursive=True) for row in rows]
    return findings, tuple(witnesses[:WITNESSES_MAX])
