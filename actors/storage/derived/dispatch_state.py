"""How far the derived files of a store surely reach: the side file `dispatched`.

Upstream judges by the units it finds and by the checkpoint's times. After a power loss a queue may
have lost units that another one still has, and index files are deleted. Ours writes down, after
each flush, up to where every unit and index entry is on the disk, so nothing behind is trusted and
nothing before is done again. It also counts the units: a queue that ends early, as its last file
was deleted or damaged, would have its offsets given away a second time.

A queue may begin anew at a lower queue offset, which the side file `begun_anew` remembers.
A RocketMQ master on which a topic is deleted and made again gives the topic's queue offsets from 0
once more. Its own queue files were deleted with the topic, and ours begin anew too, so that the new
records are reachable as they are there; the units of the older records go. Should the record that a
queue began anew with be cut off the log later, those units are missing. So the side file
`begun_anew` says, before they go, up to where such records lie: who trusts less of the log than
that derives everything anew.

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
"""What a damaged side file is taken to say."""


def read_begun_anew(disk: Disk, path: str) -> int:
    """An offset that no record lies above with which a queue began anew; NEVER without any."""
    try:
        values = read_side_file(disk, path, 1)
    except SideFileDamaged:
        return EVERYWHERE
    return NEVER if values is None else values[0]


def write_begun_anew(disk: Disk, path: str, offset_bytes: int) -> None:
    """Durably. Raises: OSError."""
    try:
        write_side_file(disk, path, (offset_bytes,))
    except SideFileDamaged:
        disk.unlink(path)
        write_side_file(disk, path, (offset_bytes,))


UNKNOWN_COUNT = 0
_COUNT_MAX = (1 << 63) - 1


@attrs.frozen(kw_only=True)
class DispatchState:
    """The state of one flush.

    Attributes:
        dispatched_bytes: all records that end at or below it have their units and entries.
        seen_bytes: the log's end as the dispatcher knew it then; above `dispatched_bytes` only the
            beginning of a record was there.
        queue_count: consume queues there were; fewer at a start means that some were deleted.
        index_name: name of the newest index file as a number; 0 without one.
        index_units_next, index_slots_used, index_end_ts, index_end_offset: its header's fields.
        units_count: the next offsets of all queues together; UNKNOWN_COUNT: some queue had units of
            records behind `dispatched_bytes`.
        store_version: what the files are like; see `store_version`.
    """

    FIELDS: ClassVar[int] = 10
    FIELDS_BEFORE: ClassVar[int] = 9
    """Without `store_version`."""

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
        """The side file, and the newest state. A damaged file counts as none: all is rebuilt."""
        try:
            side, values = SideFile.open(disk, path, cls.FIELDS, older=cls.FIELDS_BEFORE)
        except SideFileDamaged:
            disk.unlink(path)
            side, values = SideFile.open(disk, path, cls.FIELDS)
        return side, None if values is None else cls._of(values)

    @classmethod
    def read(cls, disk: Disk, path: str) -> DispatchState | None:
        """The newest state, without becoming the file's owner or changing it."""
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
        """The fields in the order of the side file."""
        found: tuple[int, ...] = attrs.astuple(self)
        return found

    def up_to(self, offset_bytes: int) -> DispatchState:
        """The same state without what is derived from records after the offset."""
        if offset_bytes >= self.dispatched_bytes:
            return self
        return attrs.evolve(self, dispatched_bytes=offset_bytes, units_count=UNKNOWN_COUNT)

    def lacks_units(self, count: int, below_bytes: int) -> bool:
        """Whether queues that count so many units, scanned for records below `below_bytes`, are not
        all there was.
        """
        if self.units_count == UNKNOWN_COUNT or below_bytes != self.dispatched_bytes:
            return False
        return known_count(count) != self.units_count


def known_count(count: int) -> int:
    """A sum of next offsets as the state holds it; UNKNOWN_COUNT if no field does."""
    return count if count <= _COUNT_MAX else UNKNOWN_COUNT
