"""Makes the history of a classic group's clients for the judge of `linear`: fresh reads are strict;
other reads go on from what the same incarnation of a node has shown.

Times are positions in the history. An entry's index is the offset of its record's last byte, so
that a log that is acknowledged up to the middle of a record does not show it. A node that is then
promoted may cut the part off, so such an end counts as the end of the last whole record that was
seen by then. The receipt of a batch says where its last record ends; the others are before it, at
the positions where they are read.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence

import attrs

from actors.config import CommitLogGroup
from actors.events import store
from actors.sim.history import (
    AppendAnswered,
    AppendAsked,
    AppendUnknown,
    FaultInjected,
    Observation,
    RecordsRead,
    given_up,
    is_of,
)
from actors.sim.judges.linear.log import Append, ReadLog, Shown
from actors.sim.judges.linear.operations import Operation
from actors.sim.world import SimEvent


def client_operations(
    group: CommitLogGroup, observations: Sequence[Observation]
) -> Iterator[Operation]:
    """Return the history for the judge: all appends that may have been stored, and all reads."""
    cuts = [
        (position, end)
        for position, seen in enumerate(observations)
        if (end := given_up(seen)) is not None
    ]
    asked: dict[int, tuple[int, AppendAsked]] = {}
    answered: set[int] = set()
    incarnations, ends = _Incarnations(group), [0]  # the ends of records that were seen
    for position, seen in enumerate(observations):
        incarnations.see(position, seen)
        match seen:
            case AppendAsked(operation=number):
                asked[number] = position, seen
            case AppendAnswered(operation=number, receipt=receipt):
                kept = receipt is not None and receipt.next <= _kept_below(cuts, position)
                if receipt is not None:
                    _note(ends, receipt.next)
                called, append = asked[number]
                answered.add(number)
                end = receipt.next if receipt is not None and kept else None
                yield from _appended(append, called, position, end)
            case AppendUnknown(operation=number):
                called, append = asked[number]
                answered.add(number)
                yield from _appended(append, called, position, None)
            case RecordsRead(batch=batch):
                for record in batch.records:
                    _note(ends, record.next_position)
                yield _read(seen, position, incarnations, _kept_below(cuts, seen.asked), ends)
            case _:
                pass
    for number, (called, append) in asked.items():
        if number not in answered:
            yield from _appended(append, called, len(observations), None)


def _kept_below(cuts: list[tuple[int, int]], position: int) -> float:
    """Return the offset below which what was known at this position stays true after later forced
    promotions.

    What was above was given up: an append may still be there, and a read proves nothing.
    """
    return min((end for at, end in cuts if at > position), default=float("inf"))


def _appended(
    append: AppendAsked, called: int, position: int, end: int | None
) -> Iterator[Operation]:
    """Yield the operations of one batch.

    Args:
        end: where its last record ends; None: unknown.
    """
    *others, last = append.bodies
    for body in others:
        yield Operation(client=append.client, action=Append(body), called=called)
    if end is None:
        yield Operation(client=append.client, action=Append(last), called=called)
    else:
        yield Operation(
            client=append.client,
            action=Append(last),
            called=called,
            returned=position,
            result=end - 1,
        )


def _note(ends: list[int], end: int) -> None:
    if ends[bisect_right(ends, end) - 1] != end:
        insort(ends, end)


def _read(
    seen: RecordsRead, position: int, incarnations: _Incarnations, below: float, ends: Sequence[int]
) -> Operation:
    batch = seen.batch
    start = seen.start
    if start < incarnations.begin:  # what has expired may have been skipped
        start = batch.records[0].position if batch.records else batch.next
    end = min(batch.acknowledged - batch.lag_bytes, below)
    end = ends[bisect_right(ends, end) - 1]
    entries = tuple(
        (record.next_position - 1, record.body)
        for record in batch.records
        if record.next_position <= below
    )
    shown_to = max(start, min(batch.next, end))
    return Operation(
        client=seen.node,
        action=ReadLog(start=start, fresh=seen.fresh, session=incarnations.of(seen)),
        called=seen.asked,
        returned=position,
        result=Shown(entries=entries, next=shown_to, end=end),
    )


@attrs.define
class _Incarnations:
    """Knows which reads come from one incarnation of a node's readers, which never takes back what
    it has shown.

    Attributes:
        begin: the highest offset at which a log has begun, because older files have expired.
    """

    group: CommitLogGroup
    begin: int = 0
    _numbers: dict[str, int] = attrs.field(factory=dict)
    _since: dict[str, int] = attrs.field(factory=dict)

    def see(self, position: int, seen: Observation) -> None:
        match seen:
            case SimEvent(event=store.SegmentExpired(min_bytes=begin)) if is_of(self.group, seen):
                self.begin = max(self.begin, begin)
            case SimEvent(event=store.RecoveryFinished()) if is_of(self.group, seen):
                self._next(seen.node, position)
            case FaultInjected(kind="felt", where=where):
                self._next(where.partition(" ")[0], position)
            case _:
                pass

    def of(self, seen: RecordsRead) -> str:
        """Return the incarnation that answered a read; "" if it may be one of two."""
        if seen.asked <= self._since.get(seen.node, -1):
            return ""
        return f"{seen.node}#{seen.boot}.{self._numbers.get(seen.node, 0)}"

    def _next(self, node: str, position: int) -> None:
        self._numbers[node] = self._numbers.get(node, 0) + 1
        self._since[node] = position
