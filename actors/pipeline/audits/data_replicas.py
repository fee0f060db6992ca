"""Whether the logs of a group are equal, byte for byte, at every position that two nodes have.

Whole records are compared, by their size and the CRC-32 of all their bytes (the CRC that a message
carries covers its body alone). A slave writes the bytes that it receives, store host, flags and
time stamps included, and a member takes its leader's entries with the positions that these name.
Fillers at the ends of files are ignored. Nodes on which a stretch of the log has the same sum have
the same records there (`log_sums`). Single records are compared only where the sums differ.

| What differs, and is no finding | Why |
|---|---|
| where logs begin | old files expire; a slave may begin at its master's newest file |
| where logs end | what is on its way, or was torn by a kill |
| from where on a classic log is its own | it left the newest promotion's epochs: `own_from` |
| all but damage, in a group with upstream's looser rules | a slave with another log counts there |
| entries of two terms at one index, unless both nodes called it committed for good | a deposed \
leader's |

Between its first and its last record, a log must have every position that another log has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from actors.pipeline.audits.audit import Evidence, Judged, collect
from actors.pipeline.audits.commits import told_for_good
from actors.pipeline.audits.data_pieces import NOWHERE, Piece, compared
from actors.pipeline.audits.data_scan import LogScans
from actors.pipeline.audits.data_stores import GroupStores, own_from
from actors.pipeline.errors import line_of
from actors.pipeline.verdicts import WITNESSES_MAX, Checked, CheckedLog, Severity, Witness

TORN_SHOWN_MAX: Final = 10
_ENDS: Final = "the log ends here: "
_DIFFER: Final = "the records differ"
_BEHIND: Final = "a whole record lies behind it"


def committed(events: DataFrame) -> dict[tuple[str, str], int]:
    """Return, by group and node, the highest index that the node reported as committed."""
    found = told_for_good(events).groupBy("group", "node").agg(fn.max("index"))
    return {(row[0], row[1]): row[2] for row in found.collect()}


def sure_below(group: GroupStores, known: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return, by node, the position below which its log must equal those of the others."""
    if group.is_ledger:
        return {node: known.get((group.name, node), -1) + 1 for node in group.nodes}
    own = own_from(group.stores)
    return {node: NOWHERE if math.isinf(end) else int(end) for node, end in own.items()}


def positions(rows: DataFrame, group: GroupStores, sure: Mapping[str, int]) -> DataFrame:
    """Return one row for each position of a group's logs.

    Columns: position; nodes and sure (bits by the nodes' numbers: the nodes that have a record
    there, and those that have it below their `sure`); size; differ (whether whole records of one
    term differ); terms (whether the terms of those in `sure` do); damages (an array of what, nodes,
    size; empty if nothing is wrong there).
    """
    bits = by_node(group.nodes, [bit(number) for number in range(len(group.nodes))])
    limit = by_node(group.nodes, [sure[node] for node in group.nodes])
    position = fn.coalesce("index", "offset") if group.is_ledger else fn.col("offset")
    found = rows.select(
        position.alias("position"),
        (fn.col("term") if group.is_ledger else fn.lit(0)).alias("term"),
        "size",
        fn.col("record_crc").alias("crc"),
        fn.col("damage").alias("what"),
        bits.alias("nodes"),
        fn.when(position < limit, bits).otherwise(0).alias("sure"),
    )
    if not group.is_ledger:  # what is its own alone is nobody's copy
        found = found.where((fn.col("sure") != 0) | fn.col("what").isNotNull())
    one_term = (
        found.repartition("position")
        .groupBy("position", "term", "what")
        .agg(
            fn.bit_or("nodes").alias("nodes"),
            fn.bit_or("sure").alias("sure"),
            fn.max("size").alias("size"),
            ((fn.min("size") != fn.max("size")) | (fn.min("crc") != fn.max("crc"))).alias("differ"),
        )
    )
    good = fn.col("what").isNull()
    is_sure = good & (fn.col("sure") != 0)
    return one_term.groupBy("position").agg(
        fn.bit_or(fn.when(good, fn.col("nodes")).otherwise(0)).alias("nodes"),
        fn.bit_or(fn.when(good, fn.col("sure")).otherwise(0)).alias("sure"),
        fn.max(fn.when(good, fn.col("size"))).alias("size"),
        fn.bool_or(good & fn.col("differ")).alias("differ"),
        (
            fn.min(fn.when(is_sure, fn.col("term"))) != fn.max(fn.when(is_sure, fn.col("term")))
        ).alias("terms"),
        fn.array_agg(fn.when(~good, fn.struct("what", "nodes", "size"))).alias("damages"),
    )


def extents(found: DataFrame, nodes: Sequence[str], group: str) -> tuple[CheckedLog, ...]:
    """Return how much of each node's log was compared; nodes without records are left out."""
    sums: list[Column] = []
    for number, node in enumerate(nodes):
        has = fn.col("nodes").bitwiseAND(bit(number)) != 0
        sums += [
            fn.count_if(has).alias(f"{node} records"),
            fn.sum(fn.when(has, fn.col("size"))).alias(f"{node} bytes"),
            fn.min(fn.when(has, fn.col("position"))).alias(f"{node} first"),
            fn.max(fn.when(has, fn.col("position"))).alias(f"{node} last"),
        ]
    row = found.agg(*sums).collect()[0]
    return tuple(
        CheckedLog(
            group=group,
            node=node,
            records=row[4 * number],
            size_bytes=row[4 * number + 1],
            first=row[4 * number + 2],
            last=row[4 * number + 3],
        )
        for number, node in enumerate(nodes)
        if row[4 * number]
    )


def added(group: str, logs: Iterable[CheckedLog | Piece]) -> tuple[CheckedLog, ...]:
    """Add up parts of logs, one for each node, ordered by node."""
    found: dict[str, CheckedLog] = {}
    for each in logs:
        so_far = found.get(each.node)
        found[each.node] = CheckedLog(
            group=group,
            node=each.node,
            records=each.records + (so_far.records if so_far else 0),
            size_bytes=each.size_bytes + (so_far.size_bytes if so_far else 0),
            first=min(each.first, so_far.first if so_far else each.first),
            last=max(each.last, so_far.last if so_far else each.last),
        )
    return tuple(found[node] for node in sorted(found))


def differences(
    found: DataFrame,
    nodes: Sequence[str],
    checked: Sequence[CheckedLog],
    is_loose: bool = False,
) -> DataFrame:
    """Return what is wrong: position, what, nodes.

    Args:
        is_loose: whether only damage counts, in a group with upstream's looser rules.
    """
    due: Column = fn.lit(0)
    for log in checked:
        is_due = fn.col("position").between(log.first, log.last)
        due = due.bitwiseOR(fn.when(is_due, bit(nodes.index(log.node))).otherwise(0))
    lacking = due.bitwiseAND(fn.bitwise_not("nodes"))
    some = fn.col("nodes") != 0
    whats = [
        fn.when(fn.col("differ"), _what(_DIFFER, fn.col("nodes"), nodes)),
        fn.when(fn.col("terms"), _what("committed in two terms", fn.col("sure"), nodes)),
        fn.when(some & (lacking != 0), _what("no such record", lacking, nodes)),
    ]
    damages = fn.transform(
        fn.filter("damages", lambda each: ~_is_tail(each)),
        lambda each: fn.struct(each["what"].alias("what"), names_of(each["nodes"], nodes)),
    )
    every = damages if is_loose else fn.concat(fn.array_compact(fn.array(*whats)), damages)
    return found.select("position", fn.explode(every).alias("one")).select("position", "one.*")


def told_apart(
    rows: DataFrame, group: GroupStores, witnesses: Sequence[Witness]
) -> tuple[Witness, ...]:
    """Name in each witness the nodes that differ, if more than half of them have the same record.

    Only the differing records are read once more. To remember the nodes of every record would
    double the cost of comparing the equal ones, which are almost all.

    Args:
        rows: the rows that `positions` takes.
    """
    at = [each["position"] for each in witnesses if each["what"] == _DIFFER]
    if not at:
        return tuple(witnesses)
    position = fn.coalesce("index", "offset") if group.is_ledger else fn.col("offset")
    term = fn.col("term") if group.is_ledger else fn.lit(0)
    holding = (
        rows.where(fn.col("damage").isNull() & position.isin(at))
        .groupBy(position.alias("position"), term.alias("term"), "size", "record_crc")
        .agg(fn.sort_array(fn.collect_set("node")).alias("nodes"))
        .collect()
    )
    have: dict[int, dict[int, list[list[str]]]] = {}
    for row in holding:
        have.setdefault(row["position"], {}).setdefault(row["term"], []).append(row["nodes"])
    return tuple(
        _without_most(each, have.get(each["position"], {})) if each["what"] == _DIFFER else each
        for each in witnesses
    )


def _without_most(witness: Witness, have: Mapping[int, Sequence[Sequence[str]]]) -> Witness:
    """Name only the differing nodes in a witness. Args: have: by term, the nodes of each record."""
    for records in have.values():
        compared = [[node for node in nodes if node in witness["nodes"]] for nodes in records]
        most = max(compared, key=len)
        others = sorted(node for nodes in compared if nodes is not most for node in nodes)
        if others and len(most) > len(others):
            what = f"not the record that {' '.join(most)} have"
            return {**witness, "what": what, "nodes": others}
    return witness


def torn(found: DataFrame, nodes: Sequence[str]) -> list[str]:
    """Describe, for people, logs that end in other bytes than zeros, as a write was under way."""
    tails = fn.filter("damages", _is_tail)
    rows = found.select("position", fn.explode(tails).alias("one")).limit(TORN_SHOWN_MAX)
    ends = rows.select("position", "one.what", names_of(fn.col("one.nodes"), nodes)).collect()
    return sorted(f"{' '.join(row[2])} at {row[0]}: {row[1].removeprefix(_ENDS)}" for row in ends)


def _is_tail(each: Column) -> Column:
    what = each["what"]
    return what.startswith(_ENDS) & ~what.contains(_BEHIND)


def _what(text: str, bits: Column, nodes: Sequence[str]) -> Column:
    return fn.struct(fn.lit(text).alias("what"), names_of(bits, nodes))


def names_of(bits: Column, nodes: Sequence[str]) -> Column:
    each = [fn.when(bits.bitwiseAND(bit(number)) != 0, node) for number, node in enumerate(nodes)]
    return fn.array_compact(fn.array(*each)).alias("nodes")


def bit(number: int) -> int:
    """Return a node's bit, by its number; that of the 64th node is the sign of a bigint."""
    return 1 << number if number < 63 else -(1 << 63)


def by_node(nodes: Sequence[str], values: Sequence[int]) -> Column:
    """Return a column that has a number for each node."""
    found: Column = fn.lit(None).cast("bigint")
    for node, value in zip(nodes, values, strict=True):
        found = fn.when(fn.col("node") == node, fn.lit(value).cast("bigint")).otherwise(found)
    return found


# ---- the audit ----


@attrs.frozen(kw_only=True)
class ReplicasEqual:
    """The audit; see the module's text."""

    name: str = "replicas_equal"
    claim: str = (
        "The nodes' logs of a group are identical byte for byte wherever two of them have a record."
    )
    severity: Severity = "error"

    def judge(self, evidence: Evidence) -> Judged:
        groups = evidence.logs.groups
        ledgers = any(group.is_ledger for group in groups)
        known = committed(evidence.strict.events) if ledgers else {}
        judged = [
            _judge_group(
                evidence.logs,
                attrs.evolve(group, is_loose=group.is_loose or group.name in evidence.loose),
                sure_below(group, known),
            )
            for group in groups
        ]
        return joined(judged) if judged else Judged(note="no node has a log here")


def _judge_group(scans: LogScans, group: GroupStores, sure: Mapping[str, int]) -> Judged:
    notes = [f"{group.name}: {node} has no log here" for node in group.missing]
    if group.problem:
        return not_judged(group, group.problem, notes)
    if len(group.nodes) < 2:
        notes.append(f"{group.name}: only {group.nodes[0]} has a log: nothing to compare")
        return Judged(note="; ".join(notes))
    if group.is_loose:
        notes.append(f"{group.name}: only damage is looked for: upstream's rules promise no more")
    elif group.is_ledger and not any(sure.values()):
        notes.append(f"{group.name}: terms are not compared, as nothing is known to stay committed")
    for node, end in sure.items():
        if not group.is_ledger and end != NOWHERE:
            notes.append(f"{group.name}: from {end} on {node}'s log is its own, not compared")
    try:
        judged = _judge_logs(scans, group, sure)
    except PySparkException as error:
        return unreadable(group, error, notes)
    return attrs.evolve(judged, note="; ".join([*notes, judged.note] if judged.note else notes))


def _judge_logs(scans: LogScans, group: GroupStores, sure: Mapping[str, int]) -> Judged:
    """Compare the logs of one group. Raises: PySparkException."""
    sums = scans.sums(group)
    ends = dict.fromkeys(group.nodes, NOWHERE) if group.is_ledger else sure
    told = compared(pieces_in(sums), ends, group.is_loose)
    damages = sums.where("damage is not null").select("node", "offset", "size", "damage")
    logs = added(group.name, told.equal)
    if not told.within and damages.isEmpty():
        return Judged(checked=_checked(logs))
    columns = ["node", "offset", "size", "damage", "record_crc"]
    columns += ["index", "term"] if group.is_ledger else []
    records = scans.records_within(group, columns, told.within)
    rows = records.unionByName(damages, allowMissingColumns=True)
    found = positions(rows, group, sure).persist()
    try:
        logs = added(group.name, [*logs, *extents(found, group.nodes, group.name)])
        findings, witnesses = collect(differences(found, group.nodes, logs, group.is_loose))
        witnesses = told_apart(rows, group, witnesses)
        ends_torn = [f"{group.name}: torn end: {text}" for text in torn(found, group.nodes)]
    finally:
        found.unpersist()
    return Judged(
        findings=findings,
        witnesses=tuple({"group": group.name, **each} for each in witnesses),
        checked=_checked(logs),
        note="; ".join(ends_torn),
    )


def _checked(logs: tuple[CheckedLog, ...]) -> Checked:
    return Checked(rows=sum(log.records for log in logs), logs=logs)


def pieces_in(sums: DataFrame) -> list[Piece]:
    """Return the pieces of a group's logs."""
    rows = (
        sums.where("bucket is not null")
        .selectExpr(
            *("node", "bucket", "records", "bytes as size_bytes"),
            *("low as first", "high as last", "begin", "`end`", "digest"),
        )
        .collect()
    )
    return [Piece(**row.asDict()) for row in rows]


def unreadable(group: GroupStores, error: PySparkException, notes: Sequence[str]) -> Judged:
    """Return the finding that a log cannot be read. Raises: an error that no source reported."""
    said = line_of(error)
    if said is None:
        raise error
    return not_judged(group, said, notes)


def not_judged(group: GroupStores, why: str, notes: Sequence[str]) -> Judged:
    """Return a finding for a group that cannot be judged; other groups still are."""
    witness: Witness = {"group": group.name, "position": None, "what": why, "nodes": []}
    return Judged(findings=1, witnesses=(witness,), note="; ".join(notes))


def joined(judged: Sequence[Judged]) -> Judged:
    """Join the findings of several groups."""
    witnesses = tuple(witness for each in judged for witness in each.witnesses)
    return Judged(
        findings=sum(each.findings for each in judged),
        witnesses=witnesses[:WITNESSES_MAX],
        checked=Checked(
            rows=sum(each.checked.rows for each in judged),
            logs=tuple(log for each in judged for log in each.checked.logs),
        ),
        note="; ".join(each.note for each in judged if each.note),
    )


REPLICAS_EQUAL: Final = ReplicasEqual()
