"""The index files of a store: from a message key to the records that have it.

Upstream: apache/rocketmq store/.../index/IndexService.java, IndexFile.java (5.3.3);
classic-ha.md 4.10. Layout: `wire.files.index_file`.

Differs:
- After a crash the newest file is cut back to what the last flush covers; upstream deletes every
  file that is newer than the checkpoint.
- A record that is dispatched again adds no entry, not even the newest record (upstream adds it
  twice).
- Entries of records that were cut off the log are cut too.

Each file has slots, and each slot a chain of units (entries); `IndexFile` cuts them back.
"""

from __future__ import annotations

import datetime
import struct
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence

import attrs

from actors.env.path_kinds import check_kinds
from actors.env.protocols import Disk, File
from actors.errors import ConfigError
from actors.storage.derived.dispatch_state import DispatchState
from actors.storage.files.whole_files import create_sized
from wire.errors import RemoteProtocolError
from wire.files.commit_log import RecordHead
from wire.files.index_file import (
    HEADER_BYTES,
    INDEX_UNIT_BYTES,
    NO_UNIT,
    IndexHeader,
    IndexUnit,
    decode_index_header,
    decode_index_unit,
    decode_slot,
    encode_index_header,
    encode_index_unit,
    encode_slot,
    index_file_bytes,
    index_key,
    index_keys,
    key_hash,
    seconds_since,
    slot_position,
    unit_position,
)
from wire.files.message_record import SYS_FLAG_TRANSACTION, TRANSACTION_ROLLBACK

CHUNK_BYTES = 4 << 20
SLOTS_PER_STEP = 1 << 17
"""How many slots are read between two turns of other tasks, in some 5 ms; a file has 5,000,000 by
default."""
_UNIT = struct.Struct(">iqii")
_NO_ENTRY = (0, 0, 0, 0)


class IndexDamaged(Exception):
    """An index file contains something impossible, so the index has to be built anew."""


@attrs.define
class IndexFile:
    """An index file that is open for writing.

    Attributes:
        name: its name, as a number.
        header: the header that the file should have; whoever adds units writes it after the last of
            them.
        slots, units: how many slots and units the file has room for.
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
        """Make every slot lead to a unit below the header's `units_next`, and sync that.

        The slots of later entries are looked up again as well, because a write may have ended
        within one.

        Args:
            changed: whether the header differs from the one in the file.
            cutting: whether the dispatch state still covers the later entries. Then they stay as
                they are: a start after a crash has to see their records to cut them again.
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
        """Return the slots of the entries from the header's `units_next` on, up to the first gap.

        These are entries that were added since the last flush. Yields every 4 MiB.
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
        """Yield number and key hash of all units below `units_next`, ascending."""
        number = 1
        for data in self._chunks(number, units_next):
            for unit in _UNIT.iter_unpack(data):
                yield number, unit[0]
                number += 1

    def _chunks(self, first: int, end: int) -> Iterator[bytes]:
        """Yield the units from `first` up to `end`, exclusive, in pieces of at most CHUNK_BYTES."""
        per_chunk = CHUNK_BYTES // INDEX_UNIT_BYTES
        for number in range(first, end, per_chunk):
            count = min(per_chunk, end - number)
            yield self.file.pread(unit_position(number, self.slots), count * INDEX_UNIT_BYTES)

    def slot(self, slot: int) -> int:
        """Return the newest unit of a slot's chain, or NO_UNIT."""
        unit = decode_slot(self.file.pread(slot_position(slot), 4))
        return unit if unit < self.header.units_next else NO_UNIT

    def unit(self, unit: int) -> IndexUnit:
        """Read the unit with this number, from 1 to `units`."""
        return decode_index_unit(self.file.pread(unit_position(unit, self.slots), INDEX_UNIT_BYTES))

    def newest_since(self, first: int) -> dict[int, int]:
        """Return, by slot, the newest of the units that were added from number `first` on."""
        start, end = (unit_position(each, self.slots) for each in (first, self.header.units_next))
        data = self.file.pread(start, end - start)
        return {
            unit[0] % self.slots: number
            for number, unit in enumerate(_UNIT.iter_unpack(data), first)
        }

    def add(self, hashed: int, head: RecordHead) -> None:
        """Write a unit and its slot. The header in the file is not written."""
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


NAME_DIGITS = 17
STEPS_MAX = 65_536
"""How many units one lookup follows at most: a slot's chain is as long as there are keys that share
the slot."""
_LONG_MAX = 2**63 - 1


@attrs.define
class IndexFiles:
    """All index files of one store, owned by the dispatcher.

    Attributes:
        folder: absolute path of `index/`.
        slots, units: how many of them each file has.
        wall_clock_ms: returns the time, by which new files are named.
        with_tag_keys: whether records get an entry for their tags; see `store_version`.
    """

    _disk: Disk
    folder: str
    slots: int
    units: int
    wall_clock_ms: Callable[[], int]
    with_tag_keys: bool = attrs.field(default=True, init=False)
    _files: list[IndexFile] = attrs.field(factory=list, init=False)
    _dirty: dict[str, None] = attrs.field(factory=dict, init=False)
    _gone: list[str] = attrs.field(factory=list, init=False)

    @property
    def end_offset(self) -> int:
        """The physical offset of the newest record with an entry; -1 if there is none."""
        used = [each for each in self._files if each.header.units_next > 1]
        return used[-1].header.end_offset if used else -1

    @property
    def full_end_ts(self) -> int:
        """The store timestamp up to which all entries are in full files; 0 if no file is full."""
        full = [each for each in self._files if each.header.units_next >= self.units]
        return full[-1].header.end_ts if full else 0

    def newest(self) -> tuple[int, IndexHeader]:
        """Return name (as a number) and header of the newest file; the name is 0 if there is
        none.
        """
        if not self._files:
            return 0, IndexHeader()
        return self._files[-1].name, self._files[-1].header

    def recover(self, state: DispatchState) -> Generator[None, None, bool]:
        """Load all files, and cut the newest one back to what the last flush covers.

        Returns: whether a file is missing, so that the whole log has to be dispatched again.
        Raises: ConfigError: the files have other numbers of slots and units than configured, or one
            is a folder; IndexDamaged. Yields every 4 MiB.
        """
        self._disk.mkdir(self.folder)
        names = [name for name in self._disk.listdir(self.folder) if is_index_name(name)]
        check_kinds(self._disk, folders=(), files=(f"{self.folder}/{name}" for name in names))
        for name in names:
            self._load(int(name))
        while self._files and self._files[-1].name > state.index_name:
            self._remove(self._files.pop())
        if not state.index_name:
            return False
        if not self._files or self._files[-1].name != state.index_name:
            while self._files:
                self._remove(self._files.pop())
            return True
        newest = self._files[-1]
        if not (0 < state.index_units_next <= self.units and state.index_end_offset >= 0):
            raise IndexDamaged(f"{newest.path}: the saved state is out of range: {state}")
        covered = attrs.evolve(
            newest.header,
            end_ts=state.index_end_ts,
            end_offset=state.index_end_offset,
            slots_used=min(max(state.index_slots_used, 0), self.slots),
            units_next=state.index_units_next,
        )
        # This is done even if the header is the same: a crash may have come between slots and
        # header.
        changed, newest.header = newest.header != covered, covered
        yield from newest.cut_units(changed=changed)
        return False

    def cut(self, log_end_bytes: int) -> Generator[None, None, None]:
        """Remove the entries of records at or behind the log's end. Raises: IndexDamaged."""
        while self._files and self._files[-1].header.end_offset >= log_end_bytes:
            newest = self._files[-1]
            unit = newest.header.units_next
            while unit > 1 and newest.unit(unit - 1).physical_offset >= log_end_bytes:
                unit -= 1
            if unit == 1:
                self._remove(self._files.pop())
                continue
            last = newest.unit(unit - 1)
            if min(last.physical_offset, last.seconds) < 0:
                raise IndexDamaged(f"{newest.path}: unit {unit - 1}: negative number in {last}")
            newest.header = attrs.evolve(
                newest.header,
                units_next=unit,
                end_offset=last.physical_offset,
                end_ts=min(newest.header.begin_ts + 1000 * last.seconds, _LONG_MAX),
            )
            yield from newest.cut_units(changed=True, cutting=True)

    def put(self, heads: Sequence[RecordHead]) -> None:
        """Add entries for the keys of records, in log order; keys that have their entry are left
        out.
        """
        last = self.end_offset
        for head in heads:
            tags = head.tags if self.with_tag_keys else ""
            if not head.keys and not head.uniq_key and not tags:
                continue
            if head.sys_flag & SYS_FLAG_TRANSACTION == TRANSACTION_ROLLBACK:
                continue
            if head.physical_offset < last:
                continue
            keys = list(index_keys(head.topic, head.keys, head.uniq_key, tags))
            if head.physical_offset == last:
                del keys[: self._count_of(last)]
            for key in keys:
                self._add(key, head)
        if self._files:
            newest = self._files[-1]
            newest.file.pwrite(encode_index_header(newest.header), 0)
            self._dirty[newest.path] = None

    def find(self, topic: str, key: str, count: int) -> tuple[int, ...]:
        """Return physical offsets of records that may have the key, the newest first, at most
        `count`.

        Other keys can have the same hash, so the caller has to look at the records.
        """
        wanted = key_hash(index_key(topic, key))
        found: list[int] = []
        steps = 0
        for each in reversed(self._files):
            unit = each.slot(wanted % self.slots)
            while unit != NO_UNIT and steps < STEPS_MAX and len(found) < count:
                steps += 1
                entry = each.unit(unit)
                if entry.key_hash == wanted and entry.physical_offset >= 0:
                    found.append(entry.physical_offset)
                unit = entry.previous if entry.previous < unit else NO_UNIT
        return tuple(found)

    def trim(self, log_min_bytes: int) -> int:
        """Delete files whose last record has left the log, but never the newest. Returns:
        how many.
        """
        deleted = 0
        while len(self._files) > 1 and self._files[0].header.end_offset < log_min_bytes:
            self._remove(self._files.pop(0))
            deleted += 1
        return deleted

    def file(self, name: int) -> IndexFile | None:
        """Return the file with this name, or None."""
        return next((each for each in self._files if each.name == name), None)

    def patch(self, each: IndexFile, data: bytes, at: int) -> None:
        """Overwrite damaged bytes of a file with `data`, from byte `at` on; the next flush syncs
        them.
        """
        each.file.pwrite(data, at)
        self._dirty[each.path] = None

    def take_dirty(self) -> tuple[str, ...]:
        """Return the paths written since the last call, which a flush has to sync."""
        paths = tuple(self._dirty)
        self._dirty.clear()
        return paths

    def take_gone(self) -> tuple[str, ...]:
        """Return the paths deleted since the last call; whoever has them open closes them."""
        paths = tuple(self._gone)
        self._gone.clear()
        return paths

    def close(self) -> None:
        while self._files:
            self._files.pop().file.close()

    # ---- loading and cutting ----

    def _load(self, name: int) -> None:
        path = f"{self.folder}/{name:017d}"
        size = self._disk.stat(path).size_bytes
        if size == 0:  # a crash has left it empty
            self._disk.unlink(path)
            return
        if size != index_file_bytes(self.slots, self.units):
            raise ConfigError(
                f"{path}: index_slots_count, index_units_count: expected those of this file of "
                f"{size} bytes, found {self.slots}, {self.units}"
            )
        file = self._disk.open(path, "w")
        try:
            header = decode_index_header(file.pread(0, HEADER_BYTES))
        except RemoteProtocolError as error:
            file.close()
            raise IndexDamaged(f"{path}: {error}") from error
        self._files.append(IndexFile(name, file, header, self.slots, self.units))
        if header.units_next > self.units:
            raise IndexDamaged(f"{path}: more than {self.units} units in {header}")

    def _remove(self, each: IndexFile) -> None:
        self._dirty.pop(each.path, None)
        self._gone.append(each.path)
        each.file.close()
        self._disk.unlink(each.path)
        self._disk.sync_dir(self.folder)

    # ---- units ----

    def _count_of(self, physical_offset: int) -> int:
        """Return how many of the newest entries are of this record; they may lie in two files."""
        count = 0
        for each in reversed(self._files):
            unit = each.header.units_next - 1
            while unit > 0 and each.unit(unit).physical_offset == physical_offset:
                count += 1
                unit -= 1
            if unit > 0:
                break
        return count

    def _add(self, key: str, head: RecordHead) -> None:
        if not self._files or self._files[-1].header.units_next >= self.units:
            self._create()
        newest = self._files[-1]
        newest.add(key_hash(key), head)
        self._dirty[newest.path] = None

    def _create(self) -> None:
        """Make a new file. Its name is the local time, or follows the newest one if the clock went
        back.
        """
        now_ms = self.wall_clock_ms()
        name = local_name(now_ms)
        if self._files:
            newest = self._files[-1]
            newest.file.pwrite(encode_index_header(newest.header), 0)
            name = max(name, newest.name + 1)
        size_bytes = index_file_bytes(self.slots, self.units)
        file = create_sized(self._disk, f"{self.folder}/{name:017d}", size_bytes)
        self._files.append(IndexFile(name, file, IndexHeader(), self.slots, self.units))


def is_index_name(name: str) -> bool:
    """Whether a name in the folder is that of an index file."""
    return len(name) == NAME_DIGITS and name.isascii() and name.isdigit()


def local_name(wall_clock_ms: int) -> int:
    """Return the name of an index file that is created now, as a number: local
    yyyyMMddHHmmssSSS.
    """
    seconds, milliseconds = divmod(wall_clock_ms, 1000)
    text = datetime.datetime.fromtimestamp(seconds).strftime("%Y%m%d%H%M%S")
    return int(text) * 1000 + milliseconds
