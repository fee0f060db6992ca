"""Does the index have the entries of these records, and can each be found?

Reads only, beside the index's owner, in the log's direction: entries stand in the log's order. What
each entry's slot led to before it is counted along, four bytes for each slot of one file, and
compared with the slots at the file's end.

Damage is an entry that is not of a record with such a key, where one is due; an entry out of its
chain; a slot that does not lead to its newest entry. So these are none: entries that stand there
twice, as a RocketMQ broker leaves them that was killed; entries of records that have expired;
entries that are not there at all, which no place is left for.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Sequence

import attrs

from actors.env.protocols import Disk, File
from actors.storage.derived_mends import EntryMend, HeaderMend, Mend, SlotMend
from actors.storage.index_files import is_index_name
from actors.storage.record_proof import RecordProof
from wire.commitlog import RecordHead
from wire.errors import RemoteProtocolError
from wire.index_file import (
    HEADER_BYTES,
    INDEX_UNIT_BYTES,
    SLOT_BYTES,
    IndexHeader,
    IndexUnit,
    decode_index_header,
    decode_index_unit,
    encode_index_unit,
    index_keys,
    key_hash,
    seconds_since,
    unit_position,
)
from wire.message_record import SYS_FLAG_TRANSACTION, TRANSACTION_ROLLBACK

RECORDS_PER_STEP = 32
"""After so many records others get a turn: one costs some 30 us."""
UNITS_READ = 2048
"""Read at once: 40 KiB."""
SLOTS_PER_STEP = 1 << 16
"""Compared between two turns of others."""
_NO_UNIT = bytes(INDEX_UNIT_BYTES)


@attrs.define
class _At:
    """How far one file was looked at.

    Attributes:
        unit: the next one.
        newest: by slot, the newest unit before it.
        first, last: the records of the first and the last unit, as far as they are known.
        buffer: units from `buffer_unit` on.
    """

    name: int
    newest: array[int]
    unit: int = 1
    first: RecordHead | None = None
    last: RecordHead | None = None
    buffer: bytes = b""
    buffer_unit: int = 1


@attrs.define(kw_only=True)
class IndexScrub:
    """One round over one store's index.

    Attributes:
        folder: absolute path of `index/`.
        slots, units: of each file.
        proof: looks at what entries lead to.
        with_tag_keys: records have entries for their tags.
        newest: name and next unit of the file that entries are added to; set before each step.
        holes: parts of the log that no records were found in: their entries are let be.
        read_bytes: so far.
    """

    disk: Disk
    folder: str
    slots: int
    units: int
    proof: RecordProof
    with_tag_keys: bool
    newest: tuple[int, int] = (0, 1)
    holes: list[tuple[int, int]] = attrs.field(factory=list)
    read_bytes: int = 0
    _at: _At | None = None
    _done: int = -1  # name of the last file that was looked at as a whole
    _file: File | None = None
    _has_begun: bool = False  # entries of records that are still there were seen

    def compare(self, heads: Sequence[RecordHead]) -> Generator[None, None, list[Mend]]:
        """What is damaged of the entries of these records, in log order. Raises: OSError."""
        found: list[Mend] = []
        try:
            for number, head in enumerate(heads, 1):
                if number % RECORDS_PER_STEP == 0:
                    yield
                if not (head.keys or head.uniq_key or head.tags):
                    continue
                if head.sys_flag & SYS_FLAG_TRANSACTION != TRANSACTION_ROLLBACK:
                    yield from self._record(head, found)
        finally:
            self._close()
        return found

    def finish(self) -> Generator[None, None, list[Mend]]:
        """At the end of a round: the slots of the newest file, as far as it was looked at."""
        found: list[Mend] = []
        try:
            if self._at is not None and self._open() is not None:
                yield from self._end_file(self._at, found, is_full=False)
        finally:
            self._close()
        return found

    # ---- one record ----

    def _record(self, head: RecordHead, found: list[Mend]) -> Generator[None, None, None]:
        due = [key_hash(key) for key in self._keys(head)]
        while True:
            data = yield from self._peek(found)
            if data is None:
                return
            unit = decode_index_unit(data)
            if unit.physical_offset == head.physical_offset and unit.key_hash in due:
                due.remove(unit.key_hash)
                self._take(head, unit, data, found)
            elif self._may_stand(unit):
                if unit.physical_offset > head.physical_offset:
                    return
                self._pass(unit, data)
            elif due:
                self._take(head, self._wanted(head, due.pop(0)), data, found)
            else:
                return  # it is for the next record to say what it should be

    def _keys(self, head: RecordHead) -> list[str]:
        tags = head.tags if self.with_tag_keys else ""
        return list(index_keys(head.topic, head.keys, head.uniq_key, tags))

    def _may_stand(self, unit: IndexUnit) -> bool:
        """Whether it is an entry of some record, or may have been one of a record that is gone."""
        offset = unit.physical_offset
        if 0 <= offset < self.proof.min_bytes:
            return not self._has_begun
        if any(start <= offset < end for start, end in self.holes):
            return True
        head = self.proof.head_at(offset)
        if head is None:
            return False
        self.read_bytes += head.size
        keys = index_keys(head.topic, head.keys, head.uniq_key, head.tags)
        return unit.key_hash in map(key_hash, keys)

    def _wanted(self, head: RecordHead, hashed: int) -> IndexUnit:
        assert self._at is not None
        begin_ts = self._header().begin_ts if self._at.first is None else self._at.first.store_ts
        seconds = seconds_since(begin_ts, head.store_ts) if self._at.unit > 1 else 0
        return IndexUnit(hashed, head.physical_offset, seconds, 0)

    def _take(self, head: RecordHead, unit: IndexUnit, data: bytes, found: list[Mend]) -> None:
        """The next entry is one of this record, or has to be: `unit`, but for its chain."""
        at = self._at
        assert at is not None
        self._has_begun = True
        slot = unit.key_hash % self.slots
        wanted = encode_index_unit(unit._replace(previous=at.newest[slot]))
        if at.unit == 1:
            at.first = head
        at.last = head
        if wanted != data:
            found.append(
                EntryMend(
                    name=at.name,
                    unit=at.unit,
                    found=data,
                    wanted=wanted,
                    first_bytes=head.physical_offset,
                    next_bytes=head.physical_offset + head.size,
                )
            )
        at.newest[slot] = at.unit
        at.unit += 1

    def _pass(self, unit: IndexUnit, data: bytes) -> None:
        at = self._at
        assert at is not None
        if data != _NO_UNIT:
            at.newest[unit.key_hash % self.slots] = at.unit
        at.last = None
        at.unit += 1

    # ---- files ----

    def _peek(self, found: list[Mend]) -> Generator[None, None, bytes | None]:
        """The next entry; None if there are no more."""
        while True:
            if self._at is None and not self._next_file():
                return None
            at = self._at
            assert at is not None
            if self._open() is None:
                self._leave(at)  # it has gone meanwhile
                continue
            if at.unit < self._units_next(at) and len(data := self._unit(at)) == INDEX_UNIT_BYTES:
                return data
            if at.name == self.newest[0]:
                return None
            yield from self._end_file(at, found, is_full=True)
            self._leave(at)

    def _next_file(self) -> bool:
        if not self.disk.exists(self.folder):
            return False
        names = [int(name) for name in self.disk.listdir(self.folder) if is_index_name(name)]
        later = [name for name in names if self._done < name <= self.newest[0]]
        if not later:
            return False
        self._at = _At(min(later), array("i", [0]) * self.slots)
        return True

    def _leave(self, at: _At) -> None:
        self._close()
        self._done, self._at = at.name, None

    def _units_next(self, at: _At) -> int:
        """Files that are not the newest are full."""
        return self.newest[1] if at.name == self.newest[0] else self.units

    def _unit(self, at: _At) -> bytes:
        place = (at.unit - at.buffer_unit) * INDEX_UNIT_BYTES
        if not at.buffer_unit <= at.unit or place + INDEX_UNIT_BYTES > len(at.buffer):
            file = self._open()
            assert file is not None
            count = min(UNITS_READ, self._units_next(at) - at.unit)
            where = unit_position(at.unit, self.slots)
            at.buffer, at.buffer_unit = file.pread(where, count * INDEX_UNIT_BYTES), at.unit
            self.read_bytes += len(at.buffer)
            place = 0
        return at.buffer[place : place + INDEX_UNIT_BYTES]

    def _header(self) -> IndexHeader:
        file = self._open()
        assert file is not None
        try:
            return decode_index_header(file.pread(0, HEADER_BYTES))
        except RemoteProtocolError:
            return IndexHeader()

    def _end_file(
        self, at: _At, found: list[Mend], *, is_full: bool
    ) -> Generator[None, None, None]:
        """All entries of a file were looked at: its slots, and its header."""
        used = 0
        for first in range(0, self.slots, SLOTS_PER_STEP):
            expected = at.newest[first : first + SLOTS_PER_STEP]
            used += len(expected) - expected.count(0)
            file = self._open()
            if file is None:
                return
            part = array("i")
            part.frombytes(
                file.pread(HEADER_BYTES + SLOT_BYTES * first, SLOT_BYTES * len(expected))
            )
            part.byteswap()
            self.read_bytes += SLOT_BYTES * len(part)
            if part != expected:
                for slot, (is_so, due) in enumerate(zip(part, expected, strict=True), first):
                    if is_so != due and not self._was_added(at, slot, is_so):
                        found.append(
                            SlotMend(
                                name=at.name, slot=slot, found=is_so, wanted=due, units_next=at.unit
                            )
                        )
            yield
        if at.last is not None and self._open() is not None:
            self._check_header(at, found, used, is_full=is_full)

    def _was_added(self, at: _At, slot: int, unit: int) -> bool:
        """Whether the slot leads to an entry that was not there yet when it was looked at."""
        file = self._open()
        if not at.unit <= unit <= self.units or file is None:
            return False
        data = file.pread(unit_position(unit, self.slots), INDEX_UNIT_BYTES)
        return decode_index_unit(data).key_hash % self.slots == slot and data != _NO_UNIT

    def _check_header(self, at: _At, found: list[Mend], used: int, *, is_full: bool) -> None:
        header = self._header()
        assert at.last is not None
        first = at.first
        wanted = attrs.evolve(
            header,
            begin_ts=header.begin_ts if first is None else first.store_ts,
            begin_offset=header.begin_offset if first is None else first.physical_offset,
        )
        if is_full:
            wanted = attrs.evolve(
                wanted,
                end_ts=at.last.store_ts,
                end_offset=at.last.physical_offset,
                slots_used=used,
                units_next=self.units,
            )
        if wanted != header:
            found.append(HeaderMend(name=at.name, wanted=wanted))

    def _open(self) -> File | None:
        """The file that is looked at; None if it has gone."""
        if self._file is None and self._at is not None:
            try:
                self._file = self.disk.open(f"{self.folder}/{self._at.name:017d}", "r")
            except FileNotFoundError:
                return None
        return self._file

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
