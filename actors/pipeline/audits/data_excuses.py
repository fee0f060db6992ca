"""What a receipt's records may lawfully be missing for, by what the nodes themselves tell.

| What is told | Then |
|---|---|
| a classic slave has forgotten what it had (`forgot` of its identity) | it may have had what lies \
behind its end |
| a DLedger member began empty in a later boot | likewise, but for what it called committed since |
| a promotion was forced | what was acknowledged before it, from its start on, was given up |
| a group is "written", and a node of it ended without an order | power was lost, perhaps |
| a group has, or once had, upstream's looser rules | one node, or none, may have it |

What a forced promotion gave up is told from what was fed later by the order of the record, in which
places rise but for it, and by how far the masters have answered since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from actors.pipeline.audits.data_record import Receipt
from actors.pipeline.audits.data_stores import GroupStores
from actors.pipeline.audits.reigns import answered
from actors.pipeline.silver import view

_KINDS: Final = ("GroupConfigured", "GroupOpened", "RecoveryFinished")
_COLUMNS: Final = (
    *("kind", "group", "node", "boot", "seq"),
    *("durability", "upstream", "forced", "was_clean", "end_bytes"),
)
Moment: TypeAlias = tuple[int, int]
"""Boot and seq, of one node."""


@attrs.frozen(kw_only=True)
class Forced:
    """A forced promotion of a group.

    Attributes:
        start: where its reign begins, in bytes.
        acknowledged: the end of what was answered in it and in later ones, as far as is told.
    """

    start: int
    acknowledged: int


@attrs.frozen(kw_only=True)
class Excuses:
    """Of one group.

    Attributes:
        behind: nodes that began empty, or lost bytes, and the place up to which they had all again,
            as far as they say it.
        forced: the promotions by force.
        may_lose: it promised no more than it may have kept: `may_lose`.
    """

    behind: Mapping[str, int] = attrs.field(factory=dict)
    forced: tuple[Forced, ...] = ()
    may_lose: bool = False


def excuses_in(events: DataFrame, groups: Iterable[GroupStores]) -> dict[str, Excuses]:
    """By group. Raises: PySparkException."""
    told = events.where(fn.col("kind").isin(*_KINDS)).select(*_COLUMNS).collect()
    rows = [row.asDict() for row in told]
    emptied = began_empty(rows)
    again = _committed_since(events, emptied) if emptied else {}
    forced = _forced(events) if any(row["forced"] for row in rows) else {}
    return {
        group.name: Excuses(
            behind=_behind(group, emptied, again),
            forced=tuple(forced.get(group.name, ())),
            may_lose=may_lose(group, rows),
        )
        for group in groups
    }


def began_empty(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Moment]:
    """By group and node: when a store was opened last with nothing in it, in a later boot than the
    node's first one.
    """
    found: dict[tuple[str, str], Moment] = {}
    for row in rows:
        if row["kind"] == "RecoveryFinished" and row["end_bytes"] == 0 and row["boot"] > 1:
            key, moment = (row["group"], row["node"]), (row["boot"], row["seq"])
            found[key] = max(moment, found.get(key, moment))
    return found


def may_lose(group: GroupStores, rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether what was acknowledged may be lost with no promise broken.

    So it may where upstream's rules are believed, or once were. And where the group is "written"
    and any of its stores was not closed in order, or nobody says that they were: a loss of power
    may have taken it.
    """
    own = [row for row in rows if row["group"] == group.name]
    if group.is_loose or any(row["upstream"] for row in own):
        return True
    is_written = group.is_written or any(row["durability"] == "written" for row in own)
    lives = [row["was_clean"] for row in own if row["kind"] == "RecoveryFinished"]
    return is_written and not (lives and all(lives))


def given_up(receipts: Sequence[Receipt], forced: Iterable[Forced]) -> set[int]:
    """The numbers of the receipts that a forced promotion may have given up.

    Args:
        receipts: in the order of the record.
    """
    found: set[int] = set()
    every = tuple(forced)
    lowest_later: float = float("inf")
    for number in range(len(receipts) - 1, -1, -1):
        receipt = receipts[number]
        is_before = lowest_later <= receipt.last
        if any(
            receipt.last >= each.start and (is_before or receipt.last >= each.acknowledged)
            for each in every
        ):
            found.add(number)
        lowest_later = min(lowest_later, receipt.first)
    return found


def _behind(
    group: GroupStores, emptied: Mapping[tuple[str, str], Moment], again: Mapping[Any, int]
) -> dict[str, int]:
    if not group.is_ledger:
        return {store.node: -1 for store in group.stores if store.has_forgotten}
    keys = [(group.name, node) for node in group.nodes]
    return {key[1]: again.get(key, -1) for key in keys if key in emptied}


def _committed_since(
    events: DataFrame, emptied: Mapping[tuple[str, str], Moment]
) -> dict[tuple[str, str], int]:
    """By group and node: the highest index that the node called committed after that moment."""
    rose = view(events, "CommittedRose").select("group", "node", "boot", "seq", "index")
    moments = [(*key, *moment) for key, moment in emptied.items()]
    since = events.sparkSession.createDataFrame(
        moments, "group string, node string, from_boot bigint, from_seq bigint"
    )
    found = (
        rose.join(fn.broadcast(since), ["group", "node"])
        .where("boot > from_boot or (boot = from_boot and seq > from_seq)")
        .groupBy("group", "node")
        .agg(fn.max("index"))
    )
    return {(row[0], row[1]): row[2] for row in found.collect()}


def _forced(events: DataFrame) -> dict[str, list[Forced]]:
    """By group. Reigns are in order by their promotions' numbers."""
    found: dict[str, list[Forced]] = {}
    reigns = [row.asDict() for row in answered(events).collect()]
    for one in (each for each in reigns if each["forced"]):
        ends = [
            each["acknowledged"]
            for each in reigns
            if each["group"] == one["group"] and each["number"] >= one["number"]
        ]
        forced = Forced(start=one["start"], acknowledged=max(ends))
        found.setdefault(one["group"], []).append(forced)
    return found
