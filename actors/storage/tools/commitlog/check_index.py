"""Compares the index files with the log, both ways, in one pass over each: entries are in the log's
order.

A RocketMQ broker that was killed derives again what it had not recorded, so that entries repeat. A
repetition is no damage.
"""

from __future__ import annotations

import struct
from array import array
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice

import attrs

from actors.env.protocols import Disk, File
from actors.readable import counted
from actors.storage.derived.index_files import is_index_name
from actors.storage.tools.commitlog.check_queues import Summed
from actors.storage.tools.findings import MENDED_BY_NODE, Findings
from actors.storage.tools.stores import size_of
from wire.errors import RemoteProtocolError
from wire.files.commit_log import RecordHead
from wire.files.index_file import (
    HEADER_BYTES,
    INDEX_UNIT_BYTES,
    SLOT_BYTES,
    SLOTS,
    IndexHeader,
    decode_index_header,
    index_file_bytes,
    index_keys,
    key_hash,
    tag_key,
    unit_position,
)
from wire.files.message_record import SYS_FLAG_TRANSACTION, TRANSACTION_ROLLBACK

UNITS_READ = 200_000
AHEAD = 1024
"""How many entries are searched for a record's own after some that belong to later records: five
pages."""
_UNIT = struct.Struct(">iqii")


@attrs.frozen
class _Entry:
    file: str
    unit: int
    key_hash: int
    offset: int


@attrs.define
class IndexCheck:
    """One check of all index files of a store. It keeps the slots of one file in memory, 4 bytes
    each.

    Attributes:
        folder: absolute path of `index/`.
        slots: the number of hash slots of each file.
        trusted_bytes: entries of records that end behind this offset may be missing or wrong.
        log_min_bytes: the log's first offset; records before it have expired.
        is_running: whether entries are being added, so that slots may lead to units above the
            header's.
        is_gone: returns whether the record at an offset has expired since the check began.
        with_tag_keys: whether records have entries for their tags, from some record on.
        is_scrubbed: whether a node on this store compares its index with the log
            (`scrub_bytes_per_s`).
        files, entries: how many were read so far.
    """

    _disk: Disk
    folder: str
    slots: int
    trusted_bytes: int
    log_min_bytes: int
    is_running: bool
    is_gone: Callable[[int], bool]
    _findings: Findings
    files: int = attrs.field(default=0, init=False)
    entries: int = attrs.field(default=0, init=False)
    _entries: Iterator[_Entry] = attrs.field(init=False)
    _next: _Entry | None = attrs.field(default=None, init=False)
    _ahead: deque[_Entry] = attrs.field(factory=deque, init=False)  # the entries after `_next`
    with_tag_keys: bool = attrs.field(default=True, kw_only=True)
    is_scrubbed: bool = attrs.field(default=True, kw_only=True)
    _tags_are_due: bool = attrs.field(default=False, init=False)
    _last_offset: int = attrs.field(default=-1, init=False)
    _repeats: int = attrs.field(default=0, init=False)
    _gone_bytes: int = attrs.field(default=0, init=False)
    _gone_wrong: int = attrs.field(default=0, init=False)
    # the number of positions in files that have lost all entries
    _blank: int = attrs.field(default=0, init=False)
    # the offset of the last entry before them
    _blank_from: int | None = attrs.field(default=None, init=False)
    # how many keys of records from there on are missing
    _missing_behind: int = attrs.field(default=0, init=False)
    # the offset of the last entry that was read
    _end_offset: int = attrs.field(default=-1, init=False)
    _missing: Summed = attrs.field(factory=Summed, init=False)
    _wrong: Summed = attrs.field(factory=Summed, init=False)
    _links: Summed = attrs.field(factory=Summed, init=False)

    def __attrs_post_init__(self) -> None:
        self._entries = self._all_entries()
        self._next = next(self._entries, None)

    def take(self, heads: Sequence[RecordHead]) -> None:
        """Compare the entries of the next records of the log."""
        for head in heads:
            if not (head.keys or head.uniq_key or head.tags):
                continue
            if head.sys_flag & SYS_FLAG_TRANSACTION == TRANSACTION_ROLLBACK:
                continue
            self._skip_below(head.physical_offset)
            keys = index_keys(head.topic, head.keys, head.uniq_key)
            tagged = key_hash(tag_key(head.topic, head.tags)) if head.tags else None
            self._compare(head, Counter(map(key_hash, keys)), tagged)
            self._last_offset = head.physical_offset

    def _compare(self, head: RecordHead, expected: Counter[int], tagged: int | None) -> None:
        """Compare a record with its entries, which come next.

        Args:
            expected: how often each key hash is due.
            tagged: the hash of the key of the record's tags, which has an entry since 5.4.0; from
                the first such entry on all are due. None: it has no tags.
        """
        found: Counter[int] = Counter()
        if expected:
            self._skip_later(head.physical_offset)
        while self._next is not None and self._next.offset == head.physical_offset:
            found[self._next.key_hash] += 1
            self._advance()
        if tagged is not None:
            has_entry = found[tagged] > expected[tagged]
            self._tags_are_due |= has_entry and self.with_tag_keys
            expected[tagged] += self._tags_are_due or has_entry
        if found == expected or head.physical_offset + head.size > self.trusted_bytes:
            return
        if self.is_gone(head.physical_offset):
            return
        missing, extra = expected - found, found - expected
        where = f"index: record at {head.physical_offset}"
        if missing:
            what = f"{where}: {missing.total():,} of {counted(expected.total(), 'key')} missing"
            self._missing.add(what, missing.total())
            if self._blank_from is not None and head.physical_offset >= self._blank_from:
                self._missing_behind += missing.total()
        foreign = sum(count for hashed, count in extra.items() if hashed not in expected)
        if foreign:
            self._wrong.add(f"{where}: an entry of a key that it does not have", foreign)
        self._repeats += extra.total() - foreign

    def _skip_below(self, offset: int) -> None:
        while self._next is not None and self._next.offset < offset:
            self._stray(self._next)
            self._advance()

    def _skip_later(self, offset: int) -> None:
        """Skip entries with a later offset that are before those of the record at `offset`.

        Otherwise an entry whose offset is damaged would keep all after it from being compared.
        """
        if self._next is None or self._next.offset <= offset:
            return
        self._ahead.extend(islice(self._entries, AHEAD - len(self._ahead)))
        count = next((n for n, entry in enumerate(self._ahead) if entry.offset == offset), None)
        if count is None:
            return
        for entry in (self._next, *islice(self._ahead, count)):
            self._misplaced(entry)
        for _ in range(count + 1):
            self._advance()

    def _misplaced(self, entry: _Entry) -> None:
        self._wrong.add(
            f"{entry.file}: unit {entry.unit}: points at {entry.offset}, where no record with a "
            "key is"
        )

    def _stray(self, entry: _Entry) -> None:
        if entry.offset < self.log_min_bytes:
            is_blank = not (entry.key_hash or entry.offset)
            self._gone_wrong += is_blank or entry.offset < self._gone_bytes
            self._gone_bytes = max(self._gone_bytes, entry.offset)
            return
        if entry.offset >= self.trusted_bytes:
            return
        if entry.offset <= self._last_offset:
            self._repeats += 1
            return
        if not self.is_gone(entry.offset):
            self._misplaced(entry)

    def _advance(self) -> None:
        self._next = self._ahead.popleft() if self._ahead else next(self._entries, None)

    def finish(self, log_end_bytes: int) -> Generator[None, None, None]:
        """Judge the entries that remain: they belong to no record, or to one after the log's
        end.
        """
        behind = 0
        while self._next is not None:
            if self._next.offset < log_end_bytes:
                self._stray(self._next)
            elif self._next.offset < self.trusted_bytes and not self.is_running:
                behind += 1
            self._advance()
            if self.entries % UNITS_READ == 0:
                yield
        if behind:
            self._findings.note(
                f"index: {counted(behind, 'entry', 'entries')} of records behind the log's end:"
                " the next start cuts them"
            )
        self._report_damage()
        if self._repeats:
            self._findings.note(
                f"index: {counted(self._repeats, 'entry occurs', 'entries occur')} more than once"
            )

    def _report_damage(self) -> None:
        """Report missing and wrong entries, as damage if a node cannot mend them.

        A node writes due entries over entries that are wrong or repeated, and into a file that has
        lost all of its entries. For others there is no position.
        """
        positions = self._wrong.count + self._repeats + self._gone_wrong
        # their positions are in files that have lost all entries
        again = min(self._missing_behind, self._blank)
        if self._missing.count - again > positions:
            self._findings.hurt(
                f"index: {counted(self._missing.count, 'key has', 'keys have')} no entry,"
                f" {counted(self._wrong.count, 'entry is', 'entries are')} wrong; the first is"
                f" {self._missing.first}"
            )
        elif self._wrong.count or self._missing.count:
            count, found = max(self._wrong.count, self._missing.count), self._wrong
            found = found if found.count else self._missing
            do = counted(count, "entry does not fit its record", "entries do not fit their records")
            self._mended(do, found)
        if self._links.count:
            are = counted(self._links.count, "link is", "links are")
            self._mended(f"{are} wrong between entries", self._links)

    def _mended(self, what: str, found: Summed) -> None:
        text = f"index: {what}; the first is {found.first}"
        if self.is_scrubbed:
            self._findings.mend(f"{text}: {MENDED_BY_NODE}")
        else:
            self._findings.hurt(text)

    # ---- files ----

    def _all_entries(self) -> Iterator[_Entry]:
        for name in self._disk.listdir(self.folder):
            if is_index_name(name):
                yield from self._entries_of(f"{self.folder}/{name}")

    def _entries_of(self, path: str) -> Iterator[_Entry]:
        try:
            file = self._disk.open(path, "r")
        except FileNotFoundError:
            return  # it has expired meanwhile
        try:
            header = self._header(file)
            if header is None:
                return
            self.files += 1
            slots = array("i", bytes(SLOT_BYTES * self.slots))
            last = None
            for entry in self._units(file, header, slots):
                last = entry
                self._end_offset = entry.offset
                self.entries += 1
                yield entry
            if last is not None and header.end_offset != last.offset:
                self._blame(
                    last, f"{path}: header: the end is {header.end_offset}, not its entry's"
                )
            if last is not None:
                self._check_slots(file, header, slots, last)
        finally:
            file.close()

    def _header(self, file: File) -> IndexHeader | None:
        if not file.size_bytes:
            self._findings.note(f"{file.path}: empty; a crash left it")
            return None
        try:
            header = decode_index_header(file.pread(0, HEADER_BYTES))
        except RemoteProtocolError as error:
            self._findings.hurt(f"{file.path}: {error}")
            return None
        if unit_position(header.units_next, self.slots) > file.size_bytes:
            self._findings.hurt(
                f"{file.path}: header:"
                f" {counted(header.units_next - 1, 'unit is', 'units are')} more than it can hold"
            )
            return None
        if header.units_next == 1:  # or the header lies in a page that has become zero
            count = self._units_there(file)
            if not count:
                self._blank += (file.size_bytes - unit_position(1, self.slots)) // INDEX_UNIT_BYTES
                if self._blank_from is None:
                    self._blank_from = self._end_offset
            return attrs.evolve(header, units_next=1 + count)
        return header

    def _units_there(self, file: File) -> int:
        """Return the number of the last unit that is not blank; 0: there is none."""
        first = at = unit_position(1, self.slots)
        end = first
        while data := file.pread(at, UNITS_READ * INDEX_UNIT_BYTES):
            if used := len(data.rstrip(b"\0")):
                end = at + used
            at += len(data)
        return -(-(end - first) // INDEX_UNIT_BYTES)

    def _units(self, file: File, header: IndexHeader, slots: array[int]) -> Iterator[_Entry]:
        """Yield every unit, and compare its `previous` with the unit that its slot led to
        before.
        """
        for first in range(1, header.units_next, UNITS_READ):
            count = min(UNITS_READ, header.units_next - first)
            data = file.pread(unit_position(first, self.slots), count * INDEX_UNIT_BYTES)
            for number, unit in enumerate(_UNIT.iter_unpack(data), first):
                hashed, offset, _, previous = unit
                entry = _Entry(file.path, number, hashed, offset)
                slot = hashed % self.slots
                if previous != slots[slot]:
                    self._blame(entry, f"{file.path}: unit {number}: the chain of its slot is cut")
                slots[slot] = number
                yield entry

    def _check_slots(
        self, file: File, header: IndexHeader, slots: array[int], last: _Entry
    ) -> None:
        for first in range(0, self.slots, UNITS_READ):
            part = array("i")
            part.frombytes(
                file.pread(HEADER_BYTES + SLOT_BYTES * first, SLOT_BYTES * UNITS_READ)[
                    : SLOT_BYTES * (self.slots - first)
                ]
            )
            part.byteswap()
            expected = slots[first : first + UNITS_READ]
            if part == expected:
                continue
            wrong = [
                first + number
                for number, (found, wanted) in enumerate(zip(part, expected, strict=True))
                if found != wanted and not (self.is_running and found >= header.units_next)
            ]
            if wrong:
                self._blame(
                    last,
                    f"{file.path}: {counted(len(wrong), 'slot points', 'slots point')} elsewhere,"
                    f" slot {wrong[0]} first",
                )

    def _blame(self, entry: _Entry, line: str) -> None:
        if entry.offset < self.trusted_bytes:
            self._links.add(line)


def slots_of(disk: Disk, folder: str) -> int | None:
    """Return the slots of the index files if they have the usual size; 0: no files; None: it is
    unknown.
    """
    names = [name for name in disk.listdir(folder) if is_index_name(name)]
    sizes = [size for name in names if (size := size_of(disk, f"{folder}/{name}"))]
    if not sizes:
        return 0
    return SLOTS if sizes[0] == index_file_bytes() else None
