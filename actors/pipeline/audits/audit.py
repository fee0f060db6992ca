"""The parts of an audit, and the evidence that it gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from actors.pipeline import silver
from actors.pipeline.audits.data_scan import LogScans
from actors.pipeline.audits.data_stores import loose_in
from actors.pipeline.locations import Location
from actors.pipeline.verdicts import WITNESSES_MAX, Checked, CheckedRange, Severity, Witness

_NAMES_MAX = 10
"""How many names of logs or groups a note has."""
_NOTHING = Checked(rows=0)


@attrs.frozen(kw_only=True)
class Count:
    """The events of one kind in one boot.

    Attributes:
        differ: how many events were found several times with different lines.
        strange: how many events have a kind, or a field of a type, that this version does not know.
    """

    kind: str
    node: str
    boot: int
    first_seq: int
    last_seq: int
    events: int
    differ: int = 0
    strange: int = 0


@attrs.frozen(kw_only=True, slots=False)
class Evidence:
    """The evidence for the audits.

    Attributes:
        events: the events of silver.
        data: the data directory, with the nodes' logs beside their events.
        out: the folder of the tables.
        part_of: the evidence of which this is a part, by `whole` or `strict`.
    """

    spark: SparkSession
    events: DataFrame
    data: Location
    out: Location
    part_of: Evidence | None = None

    def prepare(self) -> None:
        """Compute what most audits ask for, before several of them ask at once."""
        for each in (self.strict, self.whole.strict):
            each.checked()

    @cached_property
    def counts(self) -> tuple[Count, ...]:
        """The numbers of events of each kind, by one pass for all audits."""
        return counted(self.events)

    def checked(self, kinds: Sequence[str] = ()) -> Checked:
        """Return the ranges of the events of these kinds; of all kinds if none is named."""
        return checked_of(each for each in self.counts if not kinds or each.kind in kinds)

    @cached_property
    def logs(self) -> LogScans:
        """The nodes' logs, which the caller closes."""
        return LogScans(spark=self.spark, data=self.data)

    @cached_property
    def has_gaps(self) -> bool:
        """Whether any event is missing between the first and the last of a boot."""
        boots = self.checked().ranges
        return any(each.last_seq - each.first_seq >= each.events for each in boots)

    @cached_property
    def torn(self) -> tuple[tuple[str, int], ...]:
        """(node, boot) of the logs in which an event is missing or was changed."""
        boots = self.checked().ranges
        changed = {(each.node, each.boot) for each in self.counts if each.differ}
        lacking = {(b.node, b.boot) for b in boots if b.first_seq != 1 or b.last_seq != b.events}
        return tuple(sorted(lacking | changed))

    @cached_property
    def whole(self) -> Evidence:
        """The evidence without torn logs, for claims that a missing event would seem to break."""
        if not self.torn:
            return self
        key = fn.struct("node", "boot")
        torn = [fn.struct(fn.lit(node), fn.lit(boot).cast("bigint")) for node, boot in self.torn]
        return attrs.evolve(self, events=self.events.where(~key.isin(*torn)), part_of=self)

    @cached_property
    def loose(self) -> tuple[str, ...]:
        """Groups that have, or once had, upstream's looser rules.

        The events of their nodes' starts show it, which may have expired, and the nodes' settings.
        """
        if self.part_of is not None:
            return self.part_of.loose
        loose = silver.view(self.events, "GroupConfigured").where("upstream")
        found = {row["group"] for row in loose.select("group").distinct().collect()}
        return tuple(sorted(found | loose_in(self.data)))

    @cached_property
    def strict(self) -> Evidence:
        """The evidence without these groups, for claims that they do not promise."""
        if not self.loose:
            return self
        events = self.events.where(~fn.col("group").isin(*self.loose))
        return attrs.evolve(self, events=events, part_of=self)


def counted(events: DataFrame) -> tuple[Count, ...]:
    """Count events of each kind, node and boot; ordered by node, boot and kind.

    Views have no column `differ`.
    """
    sums = [
        fn.min("seq").alias("first_seq"),
        fn.max("seq").alias("last_seq"),
        fn.count(fn.lit(1)).alias("events"),
    ]
    if "differ" in events.columns:
        sums.append(fn.count_if("differ").alias("differ"))
        strange = fn.col("line").isNotNull() | fn.col("mistyped")
        sums.append(fn.count_if(strange).alias("strange"))
    found = events.groupBy("kind", "node", "boot").agg(*sums).collect()
    counts = (Count(**row.asDict()) for row in found)
    return tuple(sorted(counts, key=lambda each: (each.node, each.boot, each.kind)))


def checked_of(counts: Iterable[Count]) -> Checked:
    """Add up counts over their kinds."""
    ranges: dict[tuple[str, int], CheckedRange] = {}
    for count in counts:
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
    """The result of an audit.

    Attributes:
        findings: the number of findings.
        witnesses: the first WITNESSES_MAX of them.
        checked: the events and logs that were checked.
        note: a text for people.
    """

    findings: int = 0
    witnesses: tuple[Witness, ...] = ()
    checked: Checked = _NOTHING
    note: str = ""


class Audit(Protocol):
    """A claim that can be judged, without state; `judging` has all of them."""

    @property
    def name(self) -> str:
        """The audit's name, of small letters and _."""

    @property
    def claim(self) -> str:
        """The claim, in one sentence."""

    @property
    def severity(self) -> Severity:
        """The severity of a finding."""

    def judge(self, evidence: Evidence) -> Judged:
        """Judge the claim. Raises: PipelineError, OSError, pyspark.errors.PySparkException."""


@attrs.frozen(kw_only=True)
class EventAudit:
    """An audit over the event logs.

    Attributes:
        kinds: the kinds of the events that the claim is about; (): all. Without any such event the
            audit does not apply.
        query: makes one row for each finding of silver's events.
        needs: kinds without which nothing can be judged, as in the logs of an older version; of
            several with " or " between them one suffices.
        subject: selects the events that the claim is about, if the kinds do not suffice.
        whole: whether torn logs are left out, because a missing event would seem to break the
            claim.
        strict: whether groups with upstream's looser rules are left out, because they do not
            promise this.
        note: what the events cannot show, for people; "" for nothing.
        unseen: selects what the claim is about and has no events here, for people, as the column
            `what`.
        cleared: tells from the counts alone whether nothing can be found, so that no query is made.
    """

    name: str
    claim: str
    severity: Severity = "error"
    kinds: tuple[str, ...] = ()
    query: Callable[[DataFrame], DataFrame]
    needs: tuple[str, ...] = ()
    subject: Callable[[DataFrame], DataFrame] | None = None
    whole: bool = False
    strict: bool = False
    note: str = ""
    unseen: Callable[[DataFrame], DataFrame] | None = None
    cleared: Callable[[Evidence], bool] = lambda _: False

    def judge(self, evidence: Evidence) -> Judged:
        """Judge the claim by the events. Raises: PySparkException."""
        notes = [self.note] if self.note else []
        if self.whole and evidence.torn:
            torn = [f"{node} boot {boot}" for node, boot in evidence.torn]
            notes.append(f"Left out, as events are missing or were changed: {_some(torn)}.")
        if self.strict and evidence.loose:
            notes.append(f"Left out, as upstream's rules promise less: {_some(evidence.loose)}.")
        seen = evidence.whole if self.whole else evidence
        seen = seen.strict if self.strict else seen
        checked = self._checked(seen)
        if self.unseen is not None and checked.rows:
            rows = self.unseen(seen.events).orderBy("what").limit(_NAMES_MAX + 1).collect()
            if rows:
                names = [row["what"] for row in rows]
                notes.append(f"Not judged, as no events of it are here: {_some(names)}.")
        missing = [kinds for kinds in self.needs if not seen.checked(kinds.split(" or ")).rows]
        if checked.rows and missing:
            notes.append(f"There are no events {', '.join(missing)}.")
            checked = Checked(rows=0)
        note = " ".join(notes)
        if not checked.rows or self.cleared(seen):
            return Judged(checked=checked, note=note)
        findings, witnesses = collect(self.query(seen.events))
        return Judged(findings=findings, witnesses=witnesses, checked=checked, note=note)

    def _checked(self, evidence: Evidence) -> Checked:
        checked = evidence.checked(self.kinds)
        if self.subject is None or not checked.rows:
            return checked
        return checked_of(counted(self.subject(evidence.events)))


def _some(names: Sequence[str]) -> str:
    more = "" if len(names) <= _NAMES_MAX else ", ..."
    return ", ".join(names[:_NAMES_MAX]) + more


def collect(table: DataFrame) -> tuple[int, tuple[Witness, ...]]:
    """Return the number of findings, and the first of them, ordered by their columns."""
    rows = table.orderBy(*table.columns).limit(WITNESSES_MAX + 1).collect()
    findings = len(rows) if len(rows) <= WITNESSES_MAX else table.count()
    witnesses: list[Mapping[str, Any]] = [row.asDict(recursive=True) for row in rows]
    return findings, tuple(witnesses[:WITNESSES_MAX])
