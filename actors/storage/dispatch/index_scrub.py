"""Compares records with their entries in the index, and finds damaged entries, slots and headers.

It only reads, while the index's owner writes, and follows the log. Entries are in the log's order,
so the entries around a wrong one show what it should be, and its own content does not matter: an
offset with a flipped bit, or the zeros at the end of a page, may lead to another record that has
the same key. So some entries ahead are read, and none is judged before one that is right is found
after it (`anchors`). The newest entry of each slot is noted on the way, four bytes for each slot of
one file, and compared with the slots at the file's end.

Damage is another entry in the position of an entry that a record lacks; an entry out of its chain;
a slot that does not lead to its newest entry. Entries of records that have expired are useless:
where the log begins, they are overwritten if the last positions are needed. These are no damage:
entries that occur twice, as a RocketMQ broker leaves them that was killed; entries of keys that are
no longer due; entries that are missing altogether, because there is no position for them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import attrs

from actors.env.protocols import Disk, File
from actors.storage.derived.derived_mends import MENDS_MAX, EntryMend, HeaderMend, Mend, SlotMend
from actors.storage.derived.index_files import is_index_name
from actors.storage.derived.record_proof import RecordProof
from wire.errors import RemoteProtocolError
from wire.files.commit_log import RecordHead
from wire.files.index_file import (
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
from wire.files.message_record import SYS_FLAG_TRANSACTION, TRANSACTION_ROLLBACK

Entry: TypeAlias = tuple[int, int]
"""An entry: key hash and physical offset."""
_Chain: TypeAlias = tuple[int, int, "_Chain | None"]

EQUAL_MAX = 4
"""If there are more equal entries, not all positions are tried for each. A record that names a key
more often has so many equal entries; they are paired from both ends, because the time would grow
with the square of their number."""
ENTRIES_PER_STEP = 128
"""How many entries are compared between two turns of other tasks: some 2 us each, if few positions
are tried."""


def anchors(
    due: Sequence[Entry], stored: Sequence[Entry]
) -> Generator[None, None, list[tuple[int, int]]]:
    """Return the most pairs of positions, ascending in both, at which the same entry is due and
    stored.

    There may be fewer among more than EQUAL_MAX equal entries of which two are damaged.

    The time grows little faster than the length. Yields after every few entries.
    """
    positions: dict[Entry, list[int]] = {}
    for at, entry in enumerate(due, 1):
        positions.setdefault(entry, []).append(at - 1)
        if at % ENTRIES_PER_STEP == 0:
            yield
    counts, seen = Counter(stored), Counter[Entry]()
    yield
    # by number of pairs: the lowest position in `due` at which so many can end
    ends: list[int] = []
    chains: list[_Chain] = []
    for at, entry in enumerate(stored):
        for position in _candidates(positions.get(entry, ()), seen[entry], counts[entry]):
            length = bisect_left(ends, position)
            chain = (position, at, chains[length - 1] if length else None)
            ends[length : length + 1] = [position]
            chains[length : length + 1] = [chain]
        seen[entry] += 1
        if at % ENTRIES_PER_STEP == 0:
            yield
    found: list[tuple[int, int]] = []
    last = chains[-1] if chains else None
    while last is not None:
        position, at, last = last
        found.append((position, at))
    return _spread(due, found[::-1])


def _spread(due: Sequence[Entry], pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pairs, with equal entries moved: as far behind the pair before in `due` as in what
    is stored.

    Then a missing entry is missing at the position of a damaged one.
    """
    number, before = 0, (-1, -1)
    while number < len(pairs):
        position, at = pairs[number]
        by, end = before[0] + at - before[1] - position, number + 1
        if by > 0:
            while end < len(pairs) and due[pairs[end][0]] == due[position]:
                end += 1
            behind = pairs[end][0] if end < len(pairs) else len(due)
            moved = [(each + by, where) for each, where in pairs[number:end]]
            if moved[-1][0] < behind and all(due[each] == due[position] for each, _ in moved):
                pairs[number:end] = moved
        number, before = end, pairs[end - 1]
    return pairs


def _candidates(positions: Sequence[int], number: int, count: int) -> Sequence[int]:
    """Return where equal entry `number`, of `count` that are stored, may be due, the last position
    first.
    """
    if len(positions) <= EQUAL_MAX:
        return positions[::-1]
    behind = len(positions) - count + number
    tried = sorted({number, behind}, reverse=True)
    return [positions[each] for each in tried if 0 <= each < len(positions)]


RECORDS_PER_STEP = 32
"""How many records are compared between two turns of other tasks: one takes some 30 us."""
UNITS_READ = 1024
"""How many units are read at once: 20 KiB."""
AHEAD = 512
"""How many entries after those of the given records are read: two pages and a half, because damage
has to end before what is missing in it is known."""
HELD_MAX = 4096
"""How many entries wait at most until it is known what they should be. A longer gap is mended from
its beginning, or before the log's begin in several rounds."""
SLOTS_PER_STEP = 1 << 16
"""How many slots are compared between two turns of other tasks."""
WRONG_PER_STEP = 1 << 10
"""How many wrong slots are handled between two turns of other tasks: one takes some 3 us."""
_NO_UNIT = bytes(INDEX_UNIT_BYTES)


class _Due(NamedTuple):
    """An entry that a record should have."""

    key_hash: int
    head: RecordHead

    @property
    def entry(self) -> Entry:
        return self.key_hash, self.head.physical_offset


class _Stored(NamedTuple):
    """An entry that the index has: the name of its file, its number there, and its content."""

    name: int
    number: int
    data: bytes
    unit: IndexUnit

    @property
    def entry(self) -> Entry:
        return self.unit.key_hash, self.unit.physical_offset


@attrs.define
class _At:
    """How far one index file has been judged.

    Attributes:
        name: the name of the file, as a number.
        newest: by slot, the number of the newest unit before `unit`; 0 if there is none.
        unit: the number of the next unit.
        first, last: the records of the first and the last unit, as far as they are known.
        begin_ts: the header's begin timestamp as some entry implies it, too low by a second at
            most; 0: unknown.
    """

    name: int
    newest: array[int]
    unit: int = 1
    begin_ts: int = 0
    first: RecordHead | None = None
    last: RecordHead | None = None


@attrs.define(kw_only=True)
class IndexScrub:
    """Compares one store's index with its log, in one round.

    Attributes:
        folder: absolute path of `index/`.
        slots, units: how many of them each file has.
        proof: reads the records to which entries lead.
        with_tag_keys: whether records have entries for their tags.
        newest: name and next unit of the newest file; set before each step.
        holes: parts of the log in which no records could be read; their entries are left alone.
        read_bytes: how many bytes were read so far.
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
    _due: list[_Due] = attrs.field(factory=list)
    _stored: list[_Stored] = attrs.field(factory=list)  # read, but not judged yet
    _read: tuple[int, int] | None = None  # file name and number of the next unit to read
    _at: _At | None = None
    _files: dict[int, File] = attrs.field(factory=dict)
    _newest_head: RecordHead | None = None  # the record of the last entry that is right
    _is_over: bool = False

    def compare(self, heads: Sequence[RecordHead]) -> Generator[None, None, list[Mend]]:
        """Compare records, in log order, with their entries; return the mends of damaged ones.

        Some may be found by a later call. Raises: OSError: no more of the index is compared then.
        """
        found: list[Mend] = []
        if self._is_over:
            return found
        try:
            for number, head in enumerate(heads, 1):
                for key in self._keys(head):
                    self._due.append(_Due(key_hash(key), head))
                    if len(self._due) % ENTRIES_PER_STEP == 0:
                        yield  # one record may have thousands of keys
                if number % RECORDS_PER_STEP == 0:
                    yield
            yield from self._look_ahead(found)
            yield from self._judge(found)
            if len(self._due) > HELD_MAX:
                count = len(self._due) - HELD_MAX // 2
                ahead = self._around_hole(self._due, self._due[-1].head.physical_offset)[0]
                yield from self._judge_first(min(ahead, count), found)
                del self._due[: max(0, count - ahead)]
        except OSError:
            self._is_over = True
            raise
        finally:
            self._close()
        return found

    def finish(self) -> Generator[None, None, list[Mend]]:
        """End a round: judge the remaining entries, and the slots of the newest file."""
        found: list[Mend] = []
        if self._is_over:
            return found
        try:
            due, stored = self._due, self._stored
            if due and due[-1].head.physical_offset >= self.proof.limit_bytes:
                due.clear()  # meanwhile everything is derived anew
            ahead, behind = self._around_hole(due, self.proof.limit_bytes)
            is_holed = bool(behind) or ahead < len(due)
            if due and stored and not self._is_other(stored[0].unit):
                yield from self._judge_first(ahead, found)
            if due and is_holed:  # they are written from the end of the index on
                while len(stored) <= HELD_MAX and (some := self._next_units()):
                    stored += some
                    yield
                if len(stored) > HELD_MAX:
                    due.clear()
            yield from self._gap(due, stored, self.proof.limit_bytes, found)
            due.clear()
            stored.clear()
            if self._at is not None:
                yield from self._end_file(self._at, found, is_full=self._at.name < self.newest[0])
        finally:
            self._close()
        return found

    # ---- what is due, and what is there ----

    def _keys(self, head: RecordHead) -> Iterator[str]:
        tags = head.tags if self.with_tag_keys else ""
        if head.sys_flag & SYS_FLAG_TRANSACTION != TRANSACTION_ROLLBACK:
            yield from index_keys(head.topic, head.keys, head.uniq_key, tags)

    def _look_ahead(self, found: list[Mend]) -> Generator[None, None, None]:
        """Read entries until there are enough after those whose records are not compared."""
        wanted, ahead = len(self._due) + AHEAD, 0
        for each in reversed(self._stored):
            if self._is_other(each.unit):
                break
            ahead += 1
        while ahead < wanted and (some := self._next_units()):
            self._stored += some
            for each in some:
                ahead = 0 if self._is_other(each.unit) else ahead + 1
            passed = max(0, len(self._stored) - ahead - HELD_MAX)
            for each in self._stored[:passed]:
                yield from self._pass(each, found)
            del self._stored[:passed]
            yield

    def _is_other(self, unit: IndexUnit) -> bool:
        """Whether this may be the entry of a record that has expired, or that cannot be read."""
        offset = unit.physical_offset
        return self._last_bytes <= offset and (
            offset < self.proof.min_bytes or self._is_in_hole(offset)
        )

    @property
    def _last_bytes(self) -> int:
        return -1 if self._newest_head is None else self._newest_head.physical_offset

    def _is_in_hole(self, offset: int) -> bool:
        return any(start <= offset < end for start, end in self.holes)

    def _around_hole(self, due: Sequence[_Due], end: int) -> tuple[int, int]:
        """Return how many of the due entries stand ahead of a hole before `end`, and the number of
        the first behind it; with no hole all are ahead, and the first is behind.
        """
        inside = [(start, stop) for start, stop in self.holes if self._last_bytes < start < end]
        if not inside:
            return len(due), 0
        offsets = [each.head.physical_offset for each in due]
        return bisect_left(offsets, inside[0][0]), bisect_left(offsets, inside[-1][1])

    def _leads(self, unit: IndexUnit) -> RecordHead | None:
        """Return the record to which the entry leads, if it has such a key; else None."""
        head = self.proof.head_at(unit.physical_offset)
        if head is None:
            return None
        self.read_bytes += head.size
        keys = index_keys(head.topic, head.keys, head.uniq_key, head.tags)
        return head if unit.key_hash in map(key_hash, keys) else None

    def _stays(self, unit: IndexUnit, end: int) -> bool:
        """Whether an entry that is not due must not be overwritten; it stands before those of the
        record at `end`.
        """
        offset = unit.physical_offset
        if not max(self._last_bytes, self.proof.min_bytes) <= offset <= end:
            return False
        if self._is_in_hole(offset):
            return True
        head = self._leads(unit)
        # The record has such a key, but none is due: its tags, if the version has no entries for
        # tags.
        return head is not None and unit.key_hash not in map(key_hash, self._keys(head))

    # ---- judging ----

    def _judge(self, found: list[Mend]) -> Generator[None, None, None]:
        """Judge all entries up to the last one that is where it should be."""
        due, stored = self._due, self._stored
        at, position = yield from self._same(0, 0, found)
        if at < len(due):
            pairs = yield from anchors(
                [each.entry for each in due[at:]], [each.entry for each in stored[position:]]
            )
            for ahead, behind in [(at + one, position + other) for one, other in pairs]:
                if ahead < at or behind < position:
                    continue  # an equal entry came first
                end = due[ahead].head.physical_offset
                yield from self._gap(due[at:ahead], stored[position:behind], end, found)
                at, position = yield from self._same(ahead, behind, found)
        del due[:at], stored[:position]

    def _same(
        self, at: int, position: int, found: list[Mend]
    ) -> Generator[None, None, tuple[int, int]]:
        """Take entries as long as the next one is the one that is due. Returns: the positions where
        it is not.
        """
        due, stored = self._due, self._stored
        while at < len(due) and position < len(stored) and due[at].entry == stored[position].entry:
            yield from self._take(stored[position], due[at], found)
            at, position = at + 1, position + 1
        return at, position

    def _gap(
        self, due: Sequence[_Due], stored: Sequence[_Stored], end: int, found: list[Mend]
    ) -> Generator[None, None, None]:
        """Judge the entries between two that are right.

        Missing entries are written over useless ones, the last first, because before the log's
        begin others were in the first positions. If records between them could not be read, those
        ahead of these are written first, and the positions between are left to another round.
        """
        ahead, behind = self._around_hole(due, end)
        missing, wanted = list(due[behind:]), {}
        if behind and (self._newest_head is not None or not self.proof.min_bytes):
            first = list(due[ahead - 1 :: -1]) if ahead else []
            for position in range(len(stored)):
                if not first:
                    break
                if not self._stays(stored[position].unit, end):
                    wanted[position] = first.pop()
                if position % ENTRIES_PER_STEP == 0:
                    yield
        for position in reversed(range(len(stored))):
            if not missing:
                break
            if position not in wanted and not self._stays(stored[position].unit, end):
                wanted[position] = missing.pop()
            if position % ENTRIES_PER_STEP == 0:
                yield
        for position, each in enumerate(stored):
            if position in wanted:
                yield from self._take(each, wanted[position], found)
            else:
                yield from self._pass(each, found)

    def _judge_first(self, count: int, found: list[Mend]) -> Generator[None, None, None]:
        """Judge the first positions, which must hold the first `count` entries that are due."""
        due, position = self._due, 0
        for each in due[:count]:
            end = each.head.physical_offset
            while position < len(self._stored) and self._stays(self._stored[position].unit, end):
                yield from self._pass(self._stored[position], found)
                position += 1
            if position == len(self._stored):
                break
            unit = self._stored[position].unit
            is_later = unit.physical_offset > end and self._leads(unit) is not None
            if not is_later and not self._is_other(unit):
                yield from self._take(self._stored[position], each, found)
                position += 1
            yield
        del due[:count], self._stored[:position]

    def _take(self, stored: _Stored, due: _Due, found: list[Mend]) -> Generator[None, None, None]:
        """Take a stored entry as the due one, and check it in its slot's chain."""
        at = yield from self._reach(stored, found)
        self._newest_head = at.last = due.head
        if at.unit == 1:
            at.first = due.head
        seconds = stored.unit.seconds
        is_right = stored.entry == due.entry and seconds >= 0  # no writer leaves a negative time
        # otherwise only the header could tell, which may be damaged
        if is_right and at.first is not None:
            is_right = seconds == seconds_since(at.first.store_ts, due.head.store_ts)
        if not is_right:
            unit = self._wanted(at, due)
        else:
            unit = stored.unit
            at.begin_ts = at.begin_ts or max(0, due.head.store_ts - 1000 * unit.seconds)
        self._chain(at, stored, unit, due.head, found)

    def _wanted(self, at: _At, due: _Due) -> IndexUnit:
        head = due.head
        begin_ts = self._begin_ts(at, self._header(at.name)) if at.unit > 1 else 0
        seconds = seconds_since(begin_ts, head.store_ts)
        return IndexUnit(due.key_hash, head.physical_offset, seconds, 0)

    def _begin_ts(self, at: _At, header: IndexHeader) -> int:
        """Return the header's begin timestamp. The file's first record may have expired, and the
        header be zero.
        """
        return (header.begin_ts or at.begin_ts) if at.first is None else at.first.store_ts

    def _pass(self, stored: _Stored, found: list[Mend]) -> Generator[None, None, None]:
        """Pass over a stored entry that no lookup finds, or whose right value is unknown."""
        at = yield from self._reach(stored, found)
        at.last = None
        if stored.data == _NO_UNIT:
            at.unit += 1
        else:
            is_led_to = min(stored.unit[:-1]) >= 0 and stored.unit[1] >= self.proof.min_bytes
            self._chain(at, stored, stored.unit, self._newest_head if is_led_to else None, found)

    def _chain(
        self, at: _At, stored: _Stored, unit: IndexUnit, head: RecordHead | None, found: list[Mend]
    ) -> None:
        """Compare a stored entry with the unit that it should be, after its slot's newest unit.

        Args:
            head: the record from which the unit follows; None: the entry is not compared.
        """
        slot = unit.key_hash % self.slots
        if head is not None:
            wanted = encode_index_unit(unit._replace(previous=at.newest[slot]))
            if wanted != stored.data:
                found.append(
                    EntryMend(
                        name=at.name,
                        unit=at.unit,
                        found=stored.data,
                        wanted=wanted,
                        first_bytes=head.physical_offset,
                        next_bytes=head.physical_offset + head.size,
                    )
                )
        at.newest[slot] = at.unit
        at.unit += 1

    # ---- files ----

    def _reach(self, stored: _Stored, found: list[Mend]) -> Generator[None, None, _At]:
        """Go on to a stored entry, which is the next to be judged; a file before its own is
        ended.
        """
        at = self._at
        if at is None or at.name != stored.name:
            if at is not None:
                yield from self._end_file(at, found, is_full=True)
            at = self._at = _At(stored.name, array("i", [0]) * self.slots)
        assert at.unit == stored.number, f"{stored} comes after unit {at.unit - 1}"
        if at.unit % ENTRIES_PER_STEP == 0:
            yield
        return at

    def _next_units(self) -> list[_Stored]:
        """Read the next units of a file; [] if there are no more."""
        while True:
            name, first = self._read or (0, 0)
            file = self._open(name) if name else None
            end = self.newest[1] if name == self.newest[0] else self.units
            if file is not None and first < end:
                count = min(UNITS_READ, end - first)
                where = unit_position(first, self.slots)
                data = file.pread(where, count * INDEX_UNIT_BYTES)
                self.read_bytes += len(data)
                found = [
                    _Stored(
                        name,
                        first + at // INDEX_UNIT_BYTES,
                        data[at : at + INDEX_UNIT_BYTES],
                        decode_index_unit(data, at),
                    )
                    for at in range(0, len(data) - INDEX_UNIT_BYTES + 1, INDEX_UNIT_BYTES)
                ]
                if found:
                    self._read = name, first + len(found)
                    return found
            if not self._next_file(name):
                return []

    def _next_file(self, before: int) -> bool:
        """Go on to the file after `before`, which is read completely. Returns: whether there is
        one.
        """
        if before == self.newest[0] or not self.disk.exists(self.folder):
            return False
        names = [int(name) for name in self.disk.listdir(self.folder) if is_index_name(name)]
        later = [name for name in names if before < name <= self.newest[0]]
        if later:
            self._read = min(later), 1
        return bool(later)

    def _header(self, name: int) -> IndexHeader:
        file = self._open(name)
        try:
            return (
                IndexHeader() if file is None else decode_index_header(file.pread(0, HEADER_BYTES))
            )
        except RemoteProtocolError:
            return IndexHeader()

    def _end_file(
        self, at: _At, found: list[Mend], *, is_full: bool
    ) -> Generator[None, None, None]:
        """End a file whose entries were all judged: judge its slots and its header."""
        used = 0
        for first in range(0, self.slots, SLOTS_PER_STEP):
            expected = at.newest[first : first + SLOTS_PER_STEP]
            used += len(expected) - expected.count(0)
            file = self._open(at.name)
            if file is None:
                return
            data = file.pread(HEADER_BYTES + SLOT_BYTES * first, SLOT_BYTES * len(expected))
            self.read_bytes += len(data)
            if len(data) < SLOT_BYTES * len(expected):
                return
            part = array("i", data)
            part.byteswap()
            if part != expected:
                yield from self._slots(at, first, part, expected, found)
            yield
        if at.last is not None:
            self._check_header(at, found, used, is_full=is_full)

    def _slots(
        self, at: _At, first: int, part: array[int], expected: array[int], found: list[Mend]
    ) -> Generator[None, None, None]:
        """Compare some slots, the first of which is number `first`, and add up to MENDS_MAX
        mends.
        """
        for slot, (is_so, due) in enumerate(zip(part, expected, strict=True), first):
            if is_so != due and len(found) < MENDS_MAX and not self._was_added(at, slot, is_so):
                found.append(
                    SlotMend(name=at.name, slot=slot, found=is_so, wanted=due, units_next=at.unit)
                )
            if slot % WRONG_PER_STEP == 0:
                yield

    def _was_added(self, at: _At, slot: int, unit: int) -> bool:
        """Whether the slot leads to an entry that was added after the slot had been judged."""
        file = self._open(at.name)
        if not at.unit <= unit <= self.units or file is None:
            return False
        data = file.pread(unit_position(unit, self.slots), INDEX_UNIT_BYTES)
        return decode_index_unit(data).key_hash % self.slots == slot and data != _NO_UNIT

    def _check_header(self, at: _At, found: list[Mend], used: int, *, is_full: bool) -> None:
        header = self._header(at.name)
        assert at.last is not None
        first = at.first
        wanted = attrs.evolve(
            header,
            begin_ts=self._begin_ts(at, header),
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

    def _open(self, name: int) -> File | None:
        """Open the file with this name; None if it does not exist any more."""
        if name not in self._files:
            try:
                self._files[name] = self.disk.open(f"{self.folder}/{name:017d}", "r")
            except FileNotFoundError:
                return None
        return self._files[name]

    def _close(self) -> None:
        while self._files:
            self._files.popitem()[1].close()
