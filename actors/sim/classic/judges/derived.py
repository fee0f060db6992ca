"""Reads the derived files of a stopped node from its simulated disk, and knows which units and
entries a node may lack, or not have mended, although its log is whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Final, TypeAlias

import attrs

from actors.config import CommitLogGroup
from actors.events import store
from actors.sim.disk import SimDisk
from actors.sim.history import FaultInjected, Observation, is_of
from actors.sim.world import SimEvent
from actors.storage.derived.index_files import is_index_name
from actors.storage.derived.queue_files import QueueKey, list_queues
from wire.files.consume_queue import FILLER_UNIT, UNIT_BYTES, decode_units, is_filler
from wire.files.index_file import (
    HEADER_BYTES,
    INDEX_UNIT_BYTES,
    SLOT_BYTES,
    IndexUnit,
    decode_index_header,
    decode_index_unit,
    decode_slot,
)

Unit: TypeAlias = tuple[int, int, int]
"""A unit of a consume queue: offset, size and tags code."""
Entry: TypeAlias = tuple[int, int]
"""An entry of the index: key hash and offset."""
DERIVED_DAMAGED: Final = "derived damaged"
"""The kind of a `FaultInjected` whose `where` is "NODE PATH: WHERE"."""


def underived(group: CommitLogGroup, observations: Iterable[Observation]) -> dict[str, int]:
    """Return, by member, the log offset below which it may lack units and entries.

    Its log began there, or the derived files were built anew from there, or a full disk deleted
    files before the dispatcher had read them.
    """
    lacks = dict.fromkeys(group.members, 0)
    first = dict.fromkeys(group.members, 0)
    empty = dict.fromkeys(group.members)
    for seen in observations:
        if not (isinstance(seen, SimEvent) and is_of(group, seen)):
            continue
        name, event = seen.node, seen.event
        match event:
            case store.RecoveryFinished(end_bytes=0):  # wiped, or emptied by a resync
                empty[name] = None
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


@attrs.define
class Damaged:
    """Which derived files of a node were damaged on purpose.

    If a record expires before the node has come to its damaged unit or entry, it cannot be mended,
    and is not judged.

    Attributes:
        queues: the damaged consume queues.
        index: whether an index file was damaged.
    """

    queues: set[QueueKey] = attrs.field(factory=set)
    index: bool = False


def damaged(group: CommitLogGroup, observations: Iterable[Observation]) -> dict[str, Damaged]:
    """Return the damage by member."""
    found = {name: Damaged() for name in group.members}
    for seen in observations:
        if not isinstance(seen, FaultInjected):
            continue
        node, _, where = seen.where.partition(" ")
        if seen.kind == "wiped":
            found[node] = Damaged()
        elif seen.kind == DERIVED_DAMAGED:
            *_, topic, folder, _ = where.partition(": ")[0].split("/")
            if folder == "index":
                found[node].index = True
            else:
                found[node].queues.add((topic, int(folder)))
    return found


def first_unfit(
    due: Sequence[Unit], got: Sequence[Unit], begin: int, lacks: int, *, is_damaged: bool
) -> int | None:
    """Return the number of the first unit of a queue that is not the due one; None: all are.

    Args:
        begin: files that only have units of records below this offset may be missing. If
            `is_damaged`, units of these records do not matter.
        lacks: any unit of a record below this offset may be missing.
    """
    gone = next((at for at, unit in enumerate(got) if not is_filler(*unit)), len(got))
    for at, (wanted, unit) in enumerate(zip_longest(due, got)):
        if is_damaged and wanted is not None and wanted[0] < begin:
            continue
        if not unit_fits(wanted, unit, begin if at < gone else lacks):
            return at
    return None


def unit_fits(due: Unit | None, got: Unit | None, begin: int) -> bool:
    """Whether a queue has the unit that is due; a unit of a record below `begin` may be missing."""
    gone = due is not None and due[0] < begin and (got is None or is_filler(*got))
    return gone or due == got


def first_lost(due: Sequence[Entry], got: Sequence[Entry], begin: int, lacks: int) -> int | None:
    """Return the first wrong entry as `first_wrong` does, for an index that was damaged.

    Entries of records below `begin` do not matter. Some entries may occur twice, because the node
    may have written them over one that cannot be known any more.
    """
    known, at = set(due), 0
    due = [entry for entry in due if entry[1] >= max(begin, lacks)]
    for position, entry in enumerate(got):
        if entry not in known and entry[1] >= begin:
            return position
        at += at < len(due) and entry == due[at]
    return None if at == len(due) else len(got)


def first_wrong(due: Sequence[Entry], got: Sequence[Entry], begin: int, lacks: int) -> int | None:
    """Return the number of the first index entry that is not the due one; None: all are.

    A record may have equal entries, and the file with the first of them may be missing.
    """
    at = 0
    for position, entry in enumerate(got):
        limit = lacks if position else begin
        while at < len(due) and due[at] != entry and due[at][1] < limit:
            at += 1
        if at == len(due) or due[at] != entry:
            return position
        if position == 0 and entry[1] < begin:
            at += max(0, _equal(due, at) - _equal(got, 0))
        at += 1
    limit = lacks if got else begin
    return None if all(offset < limit for _, offset in due[at:]) else len(got)


def _equal(entries: Sequence[Entry], at: int) -> int:
    """Return how many entries from `at` on are equal."""
    return next(
        (n for n in range(1, len(entries) - at) if entries[at + n] != entries[at]),
        len(entries) - at,
    )


Units: TypeAlias = Mapping[QueueKey, Sequence[Unit]]
"""The units of each queue, by topic and queue id, from queue offset 0 on."""
NO_ENTRY: Final = IndexUnit(0, 0, 0, 0)
"""An entry of zeros."""


def queue_units(disk: SimDisk, folder: str) -> Units:
    """Read the units of all consume queues of a store, up to the last used one, with fillers for
    deleted files.
    """
    found: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for topic, queue_id in list_queues(disk, folder):
        names = disk.listdir(f"{folder}/{topic}/{queue_id}")
        data = b"".join(
            disk.inode(path).read(0, disk.stat(path).size_bytes)
            for name in names
            for path in [f"{folder}/{topic}/{queue_id}/{name}"]
        )
        gone = int(names[0]) // UNIT_BYTES if names else 0
        units = list(decode_units(FILLER_UNIT * gone + data))
        while units and units[-1][1] == 0:
            units.pop()
        found[topic, queue_id] = units
    return found


@attrs.frozen(kw_only=True)
class IndexFileContent:
    """The content of one index file: its units from number 1 on, and its slots."""

    name: str
    units: tuple[IndexUnit, ...]
    slots: tuple[int, ...]


def index_files(disk: SimDisk, folder: str, slots_count: int) -> list[IndexFileContent]:
    """Read all index files of a store, the oldest first."""
    found = []
    for name in disk.listdir(folder):
        if not is_index_name(name):
            continue
        path = f"{folder}/{name}"
        data = disk.inode(path).read(0, disk.stat(path).size_bytes)
        header = decode_index_header(data)
        units_at = HEADER_BYTES + SLOT_BYTES * slots_count
        found.append(
            IndexFileContent(
                name=name,
                units=tuple(
                    decode_index_unit(data, units_at + INDEX_UNIT_BYTES * number)
                    for number in range(1, header.units_next)
                ),
                slots=tuple(
                    decode_slot(data, HEADER_BYTES + SLOT_BYTES * slot)
                    for slot in range(slots_count)
                ),
            )
        )
    return found
