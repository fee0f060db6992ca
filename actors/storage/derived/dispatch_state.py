"""Records how far the derived files of a store surely reach: the side file `dispatched`.

Upstream judges by the units that it finds and by the checkpoint's times. After a power loss one
queue may lack units of records whose units another queue still has, and index files are deleted.
Ours records after each flush up to which offset every unit and index entry is on the disk, so
nothing behind it is trusted and nothing before it is derived again. It also counts the units: a
queue that ends early, because its last file was deleted or damaged, would give the same queue
offsets to other records.

A queue may begin anew at a lower queue offset, which the side file `begun_anew` remembers. A
RocketMQ master on which a topic is deleted and made again gives the topic's queue offsets from 0
once more. Its own queue files were deleted with the topic, and our queues begin anew too, so that
the new records are found as they are there; the units of the older records are deleted. If the
record with which a queue began anew is cut off the log later, those units are missing. So before
they are deleted, the side file `begun_anew` records up to which offset such records lie: a start
that trusts less of the log than that derives everything anew.

Upstream: a slave of 5.5.0 keeps the old units and drops the new ones (ConsumeQueue.java,
putMessagePositionInfo), until somebody deletes the topic there as well.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from actors.env.protocols import Disk
from actors.storage.files.side_file import (
    SideFile,
    SideFileDamaged,
    read_side_file,
    write_side_file,
)

NEVER = -1
EVERYWHERE = 1 << 62
"""The value for a damaged file `begun_anew`: a queue may have begun anew anywhere."""


def read_begun_anew(disk: Disk, path: str) -> int:
    """Return the offset up to which records lie with which a queue began anew; NEVER without
    any.
    """
    try:
        values = read_side_file(disk, path, 1)
    except SideFileDamaged:
        return EVERYWHERE
    return NEVER if values is None else values[0]


def write_begun_anew(disk: Disk, path: str, offset_bytes: int) -> None:
    """Write `begun_anew`; it is on the disk when this returns. Raises: OSError."""
    try:
        write_side_file(disk, path, (offset_bytes,))
    except SideFileDamaged:
        disk.unlink(path)
        write_side_file(disk, path, (offset_bytes,))


UNKNOWN_COUNT = 0
_COUNT_MAX = (1 << 63) - 1


@attrs.frozen(kw_only=True)
class DispatchState:
    """What the derived files contain after one flush.

    Attributes:
        dispatched_bytes: all records that end at or below this offset have their units and entries.
        seen_bytes: the log's end as the dispatcher knew it then; if it is above `dispatched_bytes`,
            only the beginning of a record lay between them.
        queue_count: the number of consume queues; if a start finds fewer, some were deleted.
        index_name: the name of the newest index file as a number; 0 if there is none.
        index_units_next, index_slots_used, index_end_ts, index_end_offset: the fields of that
            file's header.
        units_count: the sum of the queues' next offsets; UNKNOWN_COUNT if a queue had units of
            records behind `dispatched_bytes`.
        store_version: the RocketMQ version whose files these are; see the module `store_version`.
    """

    FIELDS: ClassVar[int] = 10
    FIELDS_BEFORE: ClassVar[int] = 9
    """The number of fields in files of earlier versions, without `store_version`."""

    dispatched_bytes: int
    seen_bytes: int
    queue_count: int
    index_name: int = 0
    index_units_next: int = 1
    index_slots_used: int = 0
    index_end_ts: int = 0
    index_end_offset: int = 0
    units_count: int = UNKNOWN_COUNT
    store_version: int = 0

    @classmethod
    def open(cls, disk: Disk, path: str) -> tuple[SideFile, DispatchState | None]:
        """Open the side file, and read the newest state. A damaged file counts as none: all is
        derived anew.
        """
        try:
            side, values = SideFile.open(disk, path, cls.FIELDS, older=cls.FIELDS_BEFORE)
        except SideFileDamaged:
            disk.unlink(path)
            side, values = SideFile.open(disk, path, cls.FIELDS)
        return side, None if values is None else cls._of(values)

    @classmethod
    def read(cls, disk: Disk, path: str) -> DispatchState | None:
        """Read the newest state without changing the file or becoming its owner."""
        try:
            values = read_side_file(disk, path, cls.FIELDS, older=cls.FIELDS_BEFORE)
        except SideFileDamaged:
            return None
        return None if values is None else cls._of(values)

    @classmethod
    def _of(cls, values: tuple[int, ...]) -> DispatchState:
        names = [field.name for field in attrs.fields(cls)]
        return cls(**dict(zip(names, values, strict=False)))

    def values(self) -> tuple[int, ...]:
        """Return the fields in the order of the side file."""
        found: tuple[int, ...] = attrs.astuple(self)
        return found

    def up_to(self, offset_bytes: int) -> DispatchState:
        """Return this state without what is derived from records that end after the offset."""
        if offset_bytes >= self.dispatched_bytes:
            return self
        return attrs.evolve(self, dispatched_bytes=offset_bytes, units_count=UNKNOWN_COUNT)

    def lacks_units(self, count: int, below_bytes: int) -> bool:
        """Whether queues lack units that were counted at the flush.

        Args:
            count: the sum of the queues' next offsets now.
            below_bytes: only units of records below this offset are in it.
        """
        if self.units_count == UNKNOWN_COUNT or below_bytes != self.dispatched_bytes:
            return False
        return known_count(count) != self.units_count


def known_count(count: int) -> int:
    """Return a sum of next offsets as the state holds it; UNKNOWN_COUNT if it is too large for a
    field.
    """
    return count if count <= _COUNT_MAX else UNKNOWN_COUNT
