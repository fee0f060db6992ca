"""Whether all that was acknowledged to the feed can be read at the end, by the feed's record.

A receipt names the positions of its first and last record, how many they are, how many nodes had
them, and a CRC of the lines that were fed (`data_record`). Held against the nodes' logs, as the
sources read them: whole records, their own CRCs right.

| A node's log | Then |
|---|---|
| has these records there, these lines, in this order | it is a holder |
| begins behind them, or is empty | it may have had them: one copy less is needed |
| ends before them | no holder; but one that began empty and has not caught up may have had it |
| has that stretch, and something else in it | a finding, unless that tail is its own, or is not \
called committed by its member |

Fewer holders than the receipt's copies (at least one, less the members without a log here) are a
finding; a warning, where a loss of power may be why, or upstream's rules are; and none where an
operator forced a promotion that gave it up (`data_excuses`). Lines may be in the logs a second
time, after an outage: that breaks no promise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from actors.pipeline.audits.audit import Evidence, Judged, collect
from actors.pipeline.audits.data_excuses import Excuses, excuses_in, given_up
from actors.pipeline.audits.data_record import Record
from actors.pipeline.audits.data_replicas import (
    bit,
    by_node,
    committed,
    joined,
    names_of,
    not_judged,
    sure_below,
    unreadable,
)
from actors.pipeline.audits.data_scan import LogScans
from actors.pipeline.audits.data_stores import GroupStores, in_memory
from actors.pipeline.verdicts import WITNESSES_MAX, Checked, CheckedLog, Severity, Witness
from actors.readable import counted

_BATCHES: Final = (
    "batch bigint, line bigint, count bigint, first bigint, last bigint, copies bigint, "
    "crc bigint, excused bigint"
)


def batches_of(spark: SparkSession, record: Record, excused: Collection[int] = ()) -> DataFrame:
    """Return the receipts, numbered; `excused` is 1 if they may have been given up, else 0."""
    rows = [
        {
            "batch": number,
            **attrs.asdict(each, filter=lambda field, _: field.name != "session"),
            "excused": int(number in excused),
        }
        for number, each in enumerate(record.receipts)
    ]
    names = [word.split()[0] for word in _BATCHES.split(", ")]
    schema = pa.schema([(name, pa.int64()) for name in names])
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema), _BATCHES)


def found_in(sums: DataFrame) -> DataFrame:
    """Return what is at the positions of receipts.

    Columns: node, batch (null for records of no receipt), records, bytes, low, high, crc (of the
    bodies, `actors.cluster.feed_record.digest`).

    Args:
        sums: the rows of `log_sums` of a group. Most receipts have one row for each node.
    """
    text = fn.struct("low", fn.col("text").cast("string").alias("text"))
    found = fn.collect_list(fn.when(fn.col("text").isNotNull(), text))
    parts = fn.transform(fn.array_sort(found), lambda each: each["text"])
    return (
        sums.where("damage is null and bucket is null")
        .groupBy("node", fn.col("receipt").alias("batch"))
        .agg(
            fn.sum("records").alias("records"),
            fn.sum("bytes").alias("bytes"),
            fn.min("low").alias("low"),
            fn.max("high").alias("high"),
            fn.coalesce(fn.max("crc"), fn.crc32(fn.array_join(parts, "\n"))).alias("crc"),
        )
    )


def extents(found: DataFrame, group: str) -> tuple[CheckedLog, ...]:
    """Return how much of each node's log was read."""
    rows = (
        found.groupBy("node")
        .agg(fn.sum("records"), fn.sum("bytes"), fn.min("low"), fn.max("high"))
        .collect()
    )
    return tuple(
        CheckedLog(
            group=group, node=row[0], records=row[1], size_bytes=row[2], first=row[3], last=row[4]
        )
        for row in sorted(rows)
    )


def standing(
    found: DataFrame,
    batches: DataFrame,
    nodes: Sequence[str],
    logs: Sequence[CheckedLog],
    sure: Mapping[str, int],
    behind: Mapping[str, int],
) -> DataFrame:
    """Return each receipt with bits for nodes: holders, gone (may have had it), due (must have it).

    Args:
        behind: see `Excuses`.
    """
    at = {name: fn.col(f"batches.{name}") for name in ("first", "last", "count", "crc")}
    same = (fn.col("records") == at["count"]) & (fn.col("low") == at["first"])
    same &= (fn.col("high") == at["last"]) & fn.coalesce(
        fn.col("found.crc") == at["crc"], fn.lit(True)
    )
    bits = by_node(nodes, [bit(number) for number in range(len(nodes))])
    holders = (
        found.alias("found")
        .join(batches.alias("batches"), "batch")
        .where(same)
        .groupBy("batch")
        .agg(fn.bit_or(bits).alias("holders"))
    )
    gone: Column = fn.lit(0)
    due: Column = fn.lit(0)
    extent = {log.node: log for log in logs}
    for number, node in enumerate(nodes):
        log = extent.get(node)
        is_gone = fn.lit(True) if log is None else fn.col("first") < log.first
        if log is not None and node in behind:
            is_gone |= fn.col("last") > max(log.last, behind[node])
        gone = gone.bitwiseOR(fn.when(is_gone, bit(number)).otherwise(0))
        if log is not None:
            end = min(log.last, sure[node] - 1)
            is_due = (fn.col("first") >= log.first) & (fn.col("last") <= end)
            due = due.bitwiseOR(fn.when(is_due, bit(number)).otherwise(0))
    return batches.join(holders, "batch", "left").select(
        *batches.columns,
        fn.coalesce("holders", fn.lit(0)).alias("holders"),
        gone.cast("bigint").alias("gone"),
        due.cast("bigint").alias("due"),
    )


def lost(stood: DataFrame, nodes: Sequence[str], missing: int) -> DataFrame:
    """Return the receipts that are not kept: line, count, first, last, what, nodes, excused."""
    other = fn.col("due").bitwiseAND(fn.bitwise_not("holders"))
    away = fn.bit_count("gone") + fn.lit(missing)
    needed = fn.greatest(fn.col("copies"), fn.lit(1)) - away
    few = fn.bit_count("holders") < needed
    what = fn.when(other != 0, "something else is there").when(
        few,
        fn.concat(
            fn.lit("found on "), fn.bit_count("holders"), fn.lit(", acknowledged on "), "copies"
        ),
    )
    shown = fn.when(other != 0, other).otherwise(fn.col("holders"))
    return (
        stood.withColumn("what", what)
        .where(fn.col("what").isNotNull())
        .select("line", "count", "first", "last", "what", names_of(shown, nodes), "excused")
    )


# ---- the audit ----


@attrs.frozen(kw_only=True)
class AcknowledgedReadable:
    """The audit; see the module's text.

    Attributes:
        is_weak: whether it judges the groups that may have lost records without breaking a promise,
            and no others.
    """

    name: str
    claim: str
    severity: Severity
    is_weak: bool

    def judge(self, evidence: Evidence) -> Judged:
        groups = {group.name: group for group in evidence.logs.groups}
        records = evidence.logs.records
        if not records:
            return Judged(note="no feed record here: DATA_DIR/feed/GROUP.jsonl")
        excuses = excuses_in(evidence.events, groups.values())
        mine = [each for each in records if self._is_for(each, excuses)]
        if not mine:
            return Judged(note="no such group has a feed record")
        fed = [groups[each.group] for each in mine if each.group in groups]
        known = committed(evidence.events) if any(group.is_ledger for group in fed) else {}
        unkept = in_memory(evidence.data)
        judged = []
        for record in mine:
            group = groups.get(record.group)
            if group is not None:
                judged.append(
                    _judge_group(evidence.logs, group, record, known, excuses[group.name])
                )
            elif record.group in unkept:
                judged.append(Judged(note=f"{record.group}: its entries are in memory only"))
            elif record.receipts:
                judged.append(_no_log(record))
            judged.append(_unread(record))
        return joined(judged)

    def _is_for(self, record: Record, excuses: Mapping[str, Excuses]) -> bool:
        return excuses.get(record.group, Excuses()).may_lose is self.is_weak


def _no_log(record: Record) -> Judged:
    what = f"{counted(len(record.receipts), 'receipt')}, and no node has a log of the group here"
    return _found([{"group": record.group, "what": what}])


def _unread(record: Record) -> Judged:
    """Return findings for the lines of the record that are no rows."""
    return _found(
        [
            {"group": record.group, "what": f"{file}: line {number} is no row of a record: {shown}"}
            for file, number, shown in record.problems
        ]
    )


def _found(witnesses: Sequence[Witness]) -> Judged:
    return Judged(findings=len(witnesses), witnesses=tuple(witnesses[:WITNESSES_MAX]))


def _judge_group(
    scans: LogScans,
    group: GroupStores,
    record: Record,
    known: Mapping[tuple[str, str], int],
    excuses: Excuses,
) -> Judged:
    notes = _notes(group, record)
    if group.problem:
        return not_judged(group, group.problem, notes)
    sure = sure_below(group, known)
    batches = batches_of(scans.spark, record, given_up(record.receipts, excuses.forced))
    try:
        found = found_in(scans.sums(group)).persist()
        try:
            logs = extents(found, group.name)
            stood = standing(found, batches, group.nodes, logs, sure, excuses.behind)
            gone = lost(stood, group.nodes, len(group.missing))
            findings, witnesses = collect(gone.where("excused = 0").drop("excused"))
            sums = _sums(stood, len(group.nodes))
            if excuses.forced:
                notes += _given_up(gone, group)
        finally:
            found.unpersist()
    except PySparkException as error:
        return unreadable(group, error, notes)
    if sums["expired"]:
        also = ", or not copied again" if excuses.behind else ""
        notes.append(
            f"{group.name}: {counted(sums['expired'], 'receipt is', 'receipts are')} older"
            f" than all logs{also}"
        )
    return Judged(
        findings=findings,
        witnesses=tuple({"group": group.name, **each} for each in witnesses),
        checked=Checked(rows=sums["records"] or 0, logs=logs),
        note="; ".join([*notes, *_late(group, record, logs, excuses.behind)]),
    )


def _given_up(gone: DataFrame, group: GroupStores) -> list[str]:
    """Describe, for people, how many receipts a forced promotion may have given up."""
    count = gone.where("excused = 1").count()
    what = (
        f"{group.name}: a promotion that was forced, or may have been, gave up"
        f" {counted(count, 'receipt')}"
    )
    return [what] if count else []


def _late(
    group: GroupStores, record: Record, logs: Sequence[CheckedLog], behind: Mapping[str, int]
) -> list[str]:
    """Describe, for people, which nodes lost records and do not have all of them again."""
    ends = {log.node: log.last for log in logs}
    highest = max((each.last for each in record.receipts), default=-1)
    return [
        f"{group.name}: {node} lost what it had, and has not all of it again"
        for node, again in sorted(behind.items())
        if max(ends.get(node, -1), again) < highest
    ]


def _notes(group: GroupStores, record: Record) -> list[str]:
    notes = [f"{group.name}: {node} has no log here" for node in group.missing]
    unproved = sum(each.crc is None for each in record.receipts)
    if unproved:
        notes.append(
            f"{group.name}: {counted(unproved, 'receipt')} without a CRC: only positions are"
            " compared"
        )
    if record.out_of_order:
        notes.append(
            f"{group.name}: {counted(record.out_of_order, 'receipt lies', 'receipts lie')}"
            " before earlier lines"
        )
    return notes


def _sums(stood: DataFrame, nodes: int) -> dict[str, Any]:
    """Return the number of judged records, and of receipts that are older than all logs."""
    is_old = fn.bit_count("gone") == nodes
    return (
        stood.agg(
            fn.sum(fn.when(~is_old, fn.col("count"))).alias("records"),
            fn.count_if(is_old).alias("expired"),
        )
        .collect()[0]
        .asDict()
    )


ACKNOWLEDGED_READABLE: Final = AcknowledgedReadable(
    name="acknowledged_readable",
    claim="All that was acknowledged to the feed is in the logs at the end, as it was fed, "
    "on as many nodes as its receipt named, unless a promotion was forced or power may take it.",
    severity="error",
    is_weak=False,
)
WRITTEN_READABLE: Final = AcknowledgedReadable(
    name="written_readable",
    claim="All that was acknowledged to the feed is there also of groups that promise less: with "
    "upstream's looser rules, or "
    'durability = "written" and a node that ended as by a loss of power.',
    severity="warning",
    is_weak=True,
)
