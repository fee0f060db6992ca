"""Which consume queue units and index entries a node may lack, though its log was whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from actors.config import ClassicGroup
from actors.events import store
from actors.sim.history import FaultInjected, Observation
from actors.sim.survival import is_of
from actors.sim.world import SimEvent
from wire.consume_queue import is_filler

Unit: TypeAlias = tuple[int, int, int]
"""Offset, size and tags code."""


def underived(group: ClassicGroup, observations: Iterable[Observation]) -> dict[str, int]:
    """Below which log offset each member may lack units and entries: its log began there, or what
    is derived was built anew then, or a full disk did not wait for the dispatcher.
    """
    lacks = dict.fromkeys(group.members, 0)
    first = dict.fromkeys(group.members, 0)
    empty = dict.fromkeys(group.members)
    for seen in observations:
        if isinstance(seen, FaultInjected) and seen.kind == "wiped":
            empty[seen.where.partition(" ")[0]] = None
        if not (isinstance(seen, SimEvent) and is_of(group, seen)):
            continue
        name, event = seen.node, seen.event
        match event:
            case store.BytesReceived(first_bytes=begin) if name in empty:
                del empty[name]
                lacks[name] = begin
            case store.DispatchStarted(from_bytes=begin, queue_count=0):
                lacks[name] = max(lacks[name], begin)
            case store.QueueRebuilt():
                lacks[name] = max(lacks[name], first[name])
            case store.SegmentExpired(min_bytes=begin):
                first[name] = begin
                if event.undispatched_bytes:
                    lacks[name] = max(lacks[name], begin)
    return lacks


def unit_fits(due: Unit | None, got: Unit | None, begin: int) -> bool:
    """Whether a queue has what is due; a unit of a record below `begin` may be missing."""
    gone = due is not None and due[0] < begin and (got is None or is_filler(*got))
    return gone or due == got


def first_wrong(
    due: Sequence[tuple[int, int]], got: Sequence[tuple[int, int]], begin: int, lacks: int
) -> int | None:
    """Where index entries (hash, log offset) are not those that are due; None: nowhere.

    A record may have equal entries, and the file with the first of them may have gone.
    """
    at = 0
    for place, entry in enumerate(got):
        limit = lacks if place else begin
        while at < len(due) and due[at] != entry and due[at][1] < limit:
            at += 1
        if at == len(due) or due[at] != entry:
            return place
        if place == 0 and entry[1] < begin:
            at += max(0, _equal(due, at) - _equal(got, 0))
        at += 1
    limit = lacks if got else begin
    return None if all(offset < limit for _, offset in due[at:]) else len(got)


def _equal(entries: Sequence[tuple[int, int]], at: int) -> int:
    """How many entries from there on are the same."""
    return next(
        (n for n in range(1, len(entries) - at) if entries[at + n] != entries[at]),
        len(entries) - at,
    )
