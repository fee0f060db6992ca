"""One index file of a store: its slots, each with a chain of units, and cutting it back.

Layout: `wire.files.index_file`.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Generator, Iterator

import attrs

from actors.env.protocols import File
from wire.files.commit_log import RecordHead
from wire.files.index_file import (
    HEADER_BYTES,
    INDEX_UNIT_BYTES,
    NO_UNIT,
    IndexHeader,
    IndexUnit,
    decode_index_unit,
    decode_slot,
    encode_index_header,
    encode_index_unit,
    encode_slot,
    seconds_since,
    slot_position,
    unit_position,
)

CHUNK_BYTES = 4 << 20
SLOTS_PER_STEP = 1 << 17
"""Looked at between two turns of others, in some 5 ms; a file has 5,000,000 by default."""
_UNIT = struct.Struct(">iqii")
_NO_ENTRY = (0, 0, 0, 0)


class IndexDamaged(Exception):
    """What a file says cannot be: the index has to be built anew."""


@attrs.define
class IndexFile:
    """Open for writing.

    Attributes:
        name: as a number.
        header: what it is to be; who adds units writes it behind the last of them.
        slots, units: how many it has.
    """

    name: int
    file: File
    header: IndexHeader
    slots: int
    units: int

    @property
    def path(self) -> str:
        return self.file.path

    def cut_units(self, *, changed: bool, cutting: bool = False) -> Generator[None, None, None]:
        """Make every slot point below the header's `units_next`. Synced.

        The slots of entries behind it are looked for anew too: a write may have ended in one.

        Args:
            changed: the header is not what the file says.
            cutting: the dispatch state still covers the entries behind, so they stay as they are:
                a start after a crash has to see what they belong to, to cut them again.
        """
        units_next = self.header.units_next
        slots = array("i")
        for at in range(0, 4 * self.slots, CHUNK_BYTES):
            size = min(CHUNK_BYTES, 4 * self.slots - at)
            slots.frombytes(self.file.pread(HEADER_BYTES + at, size))
            yield
        slots.byteswap()
        yield
        stale = yield from self._entries_behind()
        wrong = dict.fromkeys(stale, NO_UNIT)
        for first in range(0, self.slots, SLOTS_PER_STEP):
            part = slots[first : first + SLOTS_PER_STEP]
            if min(part) < 0 or max(part) >= units_next:
                for slot, unit in enumerate(part, first):
                    if not 0 <= unit < units_next:
                        wrong[slot] = NO_UNIT
            yield
        if not changed and not wrong:
            return
        if wrong:
            for unit, hashed in self._hashes(units_next):
                if hashed % self.slots in wrong:
                    wrong[hashed % self.slots] = unit
                if unit % 100_000 == 0:
                    yield
            for slot, unit in wrong.items():
                self.file.pwrite(encode_slot(unit), slot_position(slot))
                slots[slot] = unit
        if not cutting:
            at = unit_position(units_next, self.slots)
            end = at + len(stale) * INDEX_UNIT_BYTES
            # The last first: after a crash in between, the first gap is still behind them all.
            for position in reversed(range(at, end, CHUNK_BYTES)):
                self.file.pwrite(bytes(min(CHUNK_BYTES, end - position)), position)
                yield
        used = self.slots
        for first in range(0, self.slots, SLOTS_PER_STEP):
            used -= slots[first : first + SLOTS_PER_STEP].count(NO_UNIT)
            yield
        self.header = attrs.evolve(self.header, slots_used=used)
        self.file.pwrite(encode_index_header(self.header), 0)
        self.file.sync()

    def _entries_behind(self) -> Generator[None, None, list[int]]:
        """The slots of the entries that lie behind the header's `units_next`, up to the first gap.

        As many as were put since the last flush. Yields every 4 MiB.
        """
        found: list[int] = []
        for data in self._chunks(self.header.units_next, self.units):
            for unit in _UNIT.iter_unpack(data):
                if unit == _NO_ENTRY:
                    return found
                found.append(unit[0] % self.slots)
            yield
        return found

    def _hashes(self, units_next: int) -> Iterator[tuple[int, int]]:
        """Number and key hash of all units below `units_next`, ascending."""
        number = 1
        for data in self._chunks(number, units_next):
            for unit in _UNIT.iter_unpack(data):
                yield number, unit[0]
                number += 1

    def _chunks(self, first: int, end: int) -> Iterator[bytes]:
        """The units from `first` on and before `end`, in pieces of at most CHUNK_BYTES."""
        per_chunk = CHUNK_BYTES // INDEX_UNIT_BYTES
        for number in range(first, end, per_chunk):
            count = min(per_chunk, end - number)
            yield self.file.pread(unit_position(number, self.slots), count * INDEX_UNIT_BYTES)

    def slot(self, slot: int) -> int:
        """The newest unit of a slot's chain, or NO_UNIT."""
        unit = decode_slot(self.file.pread(slot_position(slot), 4))
        return unit if unit < self.header.units_next else NO_UNIT

    def unit(self, unit: int) -> IndexUnit:
        """What a unit says, of any number from 1 to `units`."""
        return decode_index_unit(self.file.pread(unit_position(unit, self.slots), INDEX_UNIT_BYTES))

    def newest_since(self, first: int) -> dict[int, int]:
        """By slot, the newest of the units that were added from number `first` on."""
        start, end = (unit_position(each, self.slots) for each in (first, self.header.units_next))
        data = self.file.pread(start, end - start)
        return {
            unit[0] % self.slots: number
            for number, unit in enumerate(_UNIT.iter_unpack(data), first)
        }

    def add(self, hashed: int, head: RecordHead) -> None:
        """Write a unit and its slot. The header in the file stays as it is."""
        header, unit, slot = self.header, self.header.units_next, hashed % self.slots
        previous = self.slot(slot)
        entry = IndexUnit(
            key_hash=hashed,
            physical_offset=head.physical_offset,
            seconds=seconds_since(header.begin_ts, head.store_ts),
            previous=previous,
        )
        self.file.pwrite(encode_index_unit(entry), unit_position(unit, self.slots))
        self.file.pwrite(encode_slot(unit), slot_position(slot))
        self.header = IndexHeader(
            begin_ts=head.store_ts if unit == 1 else header.begin_ts,
            end_ts=head.store_ts,
            begin_offset=head.physical_offset if unit == 1 else header.begin_offset,
            end_offset=head.physical_offset,
            slots_used=header.slots_used + (previous == NO_UNIT),
            units_next=unit + 1,
        )
