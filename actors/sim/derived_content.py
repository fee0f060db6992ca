"""What derives from the log of a stopped node, as its simulated disk has it: plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from actors.sim.disk import SimDisk
from actors.sim.underived import Unit
from actors.storage.derived.index_files import is_index_name
from actors.storage.derived.queue_files import QueueKey, list_queues
from wire.files.consume_queue import FILLER_UNIT, UNIT_BYTES, decode_units
from wire.files.index_file import (
    HEADER_BYTES,
    INDEX_UNIT_BYTES,
    SLOT_BYTES,
    IndexUnit,
    decode_index_header,
    decode_index_unit,
    decode_slot,
)

Units: TypeAlias = Mapping[QueueKey, Sequence[Unit]]
"""By topic and queue: its units, from queue offset 0 on."""
NO_ENTRY: Final = IndexUnit(0, 0, 0, 0)
"""Zeros."""


def queue_units(disk: SimDisk, folder: str) -> Units:
    """All consume queues of a store, as far as their units are used; fillers for deleted files."""
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
    """One index file: its units from number 1 on, and its slots."""

    name: str
    units: tuple[IndexUnit, ...]
    slots: tuple[int, ...]


def index_files(disk: SimDisk, folder: str, slots_count: int) -> list[IndexFileContent]:
    """All index files of a store, oldest first."""
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
