"""What excuses missing records of a receipt, by the events of the nodes themselves.

| What the events say | Then |
|---|---|
| a classic slave has forgotten what it had (`forgot` of its identity) | it may have had what lies \
behind its end |
| a DLedger member began empty in a later boot | likewise, but for what it called committed since |
| a promotion was forced | what was acknowledged before it, from its start on, was given up |
| a group is "written", and a node of it ended without an order | power was lost, perhaps |
| a group has, or once had, upstream's looser rules | one node, or none, may have it |

What a forced promotion gave up is known from what was fed later by the order of the record, and by
what the masters answered before it and since. A promotion counts as forced where the log of its
first opening is not here: force is named there alone. Then nobody knows where its epoch began.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from actors.pipeline.audits.data_record import Receipt
from actors.pipeline.audits.data_stores import GroupStores
from actors.pipeline.audits.epochs import answered, in_eras, unopened
from actors.pipeline.silver import view

_KINDS: Final = ("GroupConfigured", "GroupOpened", "PromotionRecorded", "RecoveryFinished")
_COLUMNS: Final = (
    *("kind", "group", "node", "boot", "seq"),
    *("durability", "upstream", "forced", "was_clean", "end_bytes"),
)
Moment: TypeAlias = tuple[int, int]
"""Boot and seq of an event of one node."""


@attrs.frozen(kw_only=True)
class Forced:
    """A promotion of a group that was forced, or may have been.

    Attributes:
        start: where its epoch begins, in bytes; 0 if it is unknown.
        before: the end of what earlier epochs answered, as far as is known.
        first, end: the range that it and later epochs answered, as far as is known.
    """

    start: int
    before: int
    first: int
    end: int

    def is_later(self, receipt: Receipt) -> bool:
        """Return whether the receipt is surely of this epoch or a later one."""
        from_on = max(self.start, self.before, self.first)
        return from_on <= receipt.first and receipt.last < self.end


@attrs.frozen(kw_only=True)
class Excuses:
    """What excuses differences between the stores of one group.

    Attributes:
        behind: nodes that began empty, or lost bytes, and the position up to which they had
            everything again, as far as they reported it.
        forced: the forced promotions.
        may_lose: whether what is missing breaks no promise: `may_lose`.
    """

    behind: Mapping[str, int] = attrs.field(factory=dict)
    forced: tuple[Forced, ...] = ()
    may_lose: bool = False


def excuses_in(events: DataFrame, groups: Iterable[GroupStores]) -> dict[str, Excuses]:
    """Return the excuses by group. Raises: PySparkException."""
    found = events.where(fn.col("kind").isin(*_KINDS)).select(*_COLUMNS).collect()
    rows = [row.asDict() for row in found]
    emptied = began_empty(rows)
    again = _committed_since(events, emptied) if emptied else {}
    promoted = any(row["kind"] == "PromotionRecorded" for row in rows)
    forced = _forced(events) if promoted or any(row["forced"] for row in rows) else {}
    return {
        group.name: Excuses(
            behind=_behind(group, emptied, again),
            forced=tuple(forced.get(group.name, ())),
            may_lose=may_lose(group, rows),
        )
        for group in groups
    }


def began_empty(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Moment]:
    """Return, by group and node, when its store was last found empty after its first boot."""
    found: dict[tuple[str, str], Moment] = {}
    for row in rows:
        if row["kind"] == "RecoveryFinished" and row["end_bytes"] == 0 and row["boot"] > 1:
            key, moment = (row["group"], row["node"]), (row["boot"], row["seq"])
            found[key] = max(moment, found.get(key, moment))
    return found


def may_lose(group: GroupStores, rows: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether acknowledged records may be lost without a broken promise.

    This holds for groups that have, or once had, upstream's rules. It also holds for a "written"
    group if one of its stores was not closed in order, or no event shows that all were, because a
    loss of power may have taken them.
    """
    own = [row for row in rows if row["group"] == group.name]
    if group.is_loose or any(row["upstream"] for row in own):
        return True
    is_written = group.is_written or any(row["durability"] == "written" for row in own)
    clean = [row["was_clean"] for row in own if row["kind"] == "RecoveryFinished"]
    return is_written and not (clean and all(clean))


def given_up(receipts: Sequence[Receipt], forced: Iterable[Forced]) -> set[int]:
    """Return the numbers of the receipts whose records a forced promotion may have given up.

    These are the receipts behind its beginning that precede the first surely later receipt in the
    record, and those whose position a later receipt has, or lies below.

    Args:
        receipts: all receipts, in the order of the record.
    """
    passed = _passed(receipts)
    found: set[int] = set()
    for each in forced:
        later = (
            number
            for number, receipt in enumerate(receipts)
            if each.is_later(receipt) and number not in passed
        )
        first_later = next(later, len(receipts))
        found |= {
            number
            for number, receipt in enumerate(receipts)
            if receipt.last >= each.start and (number < first_later or number in passed)
        }
    return found


def _passed(receipts: Sequence[Receipt]) -> set[int]:
    """Return the numbers of the receipts after which the record goes back to their position or
    below.
    """
    found: set[int] = set()
    lowest_later: float = float("inf")
    for number in range(len(receipts) - 1, -1, -1):
        if lowest_later <= receipts[number].last:
            found.add(number)
        lowest_later = min(lowest_later, receipts[number].first)
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
    """Return, by group and node, the highest index that it reported committed since that moment."""
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
    """Return the forced promotions by group, ordered by their numbers."""
    epochs = in_eras(events, answered(events))
    begun = {(row["group"], row["number"]): 0 for row in unopened(events, epochs).collect()}
    epochs_of = [row.asDict() for row in epochs.collect()]
    for one in epochs_of:
        if one["begins"]:
            begun[one["group"], one["number"]] = one["start"] if one["forced"] else 0
    found: dict[str, list[Forced]] = {}
    for (group, number), start in sorted(begun.items()):
        own = [each for each in epochs_of if each["group"] == group and each["acknowledged"]]
        since = [each for each in own if each["number"] >= number]
        forced = Forced(
            start=start,
            before=max((each["acknowledged"] for each in own if each not in since), default=0),
            first=min((each["answers_from"] for each in since), default=0),
            end=max((each["acknowledged"] for each in since), default=0),
        )
        found.setdefault(group, []).append(forced)
    return found
