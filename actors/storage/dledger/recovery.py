"""Finding the end of a DLedger log at start, and judging what may be cut.

Upstream: openmessaging/dledger, store/file/DLedgerMmapFileStore.java, recover (0.3.1.2);
specification section 3.5.

Differs:
- The synced mark, if there is one: the scan begins in the file that holds it, and damage below it
  refuses the start and says where. Without one upstream's rule holds: the third file from the end,
  and back to one that begins with an entry.
- What the checkpoint says was committed, and had been synced here, is not cut either.
- An entry that its checksum (`sums`) contradicts ends the log; so does one above the mark of which
  no checksum is known and a piece may never have come. Upstream keeps both.
- A BLANK that is the last thing is cut: the next entry may fit there, and its leader has put it
  there.
- The log of a re-based follower begins with a BLANK that is shorter than its file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator

import attrs
from msgspec import structs

from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.commit_log import CommitLog, segment_path
from actors.storage.dledger.batches import may_be_torn
from actors.storage.dledger.per_index import PerIndexFiles
from actors.storage.dledger.sums import SUM_BYTES, all_known, stored_sums, sums_of
from wire.dledger_entry import (
    BLANK_BYTES,
    BLANK_MAGIC,
    ENTRY_HEAD_BYTES,
    encode_index_records,
)
from wire.dledger_scan import EntryHead, Scanned, Stop, index_record, scan

READ_BYTES = 4 << 20
"""A scan yields after so many bytes, or after one entry if that is longer."""
FILES_SCANNED = 3
"""Upstream's: so many files from the end are believed least."""
TORN = "an entry of which a part may never have come"
_BLANK = struct.Struct(">ii")

BAD_SUM = "an entry that is not what was written"
OnHeads = Callable[[bytes, list[EntryHead]], None]
"""Told the bytes read, and the heads of the entries in them."""


@attrs.frozen(kw_only=True)
class Found:
    """What a scan says about the log. Nothing has been changed yet.

    Attributes:
        first_base: the file in which it began.
        first_index: of the first entry seen; -1 if there is none.
        first_pos: its position.
        end_index, end_term: of the last one; -1 if there is none.
        end_bytes: behind it; of a log without entries, where the first file begins.
        entry_count: entries seen.
        reason: why there are no more; "" if nothing is written there.
    """

    first_base: int
    first_index: int = -1
    first_pos: int = -1
    end_index: int = -1
    end_term: int = -1
    end_bytes: int
    entry_count: int = 0
    reason: str = ""


def first_base(disk: Disk, log: CommitLog, mark_bytes: int | None) -> int:
    """The file where the scan begins; what lies before it is taken as good.

    Args:
        mark_bytes: everything below is known to be synced; None: nobody knows.
    """
    bases = log.bases()
    assert bases
    at = max(len(bases) - FILES_SCANNED, 0)
    if mark_bytes is not None:
        below = [number for number, base in enumerate(bases) if base < mark_bytes]
        at = below[-1] if below else 0
    while at and first_entry(disk, log, bases[at]) is None:
        at -= 1
    return bases[at]


def first_entry(disk: Disk, log: CommitLog, base: int) -> EntryHead | None:
    """The entry that a file begins with, behind a BLANK that is shorter than the file.

    Its `at` is its place in the file. None: it begins with no entry.
    """
    file = disk.open(segment_path(log.folder, base), "r")
    try:
        head = file.pread(0, ENTRY_HEAD_BYTES)
        at = 0
        blank_bytes = _blank_bytes(head)
        if blank_bytes and blank_bytes < log.segment_bytes:
            at, head = blank_bytes, file.pread(blank_bytes, ENTRY_HEAD_BYTES)
    finally:
        file.close()
    if len(head) < ENTRY_HEAD_BYTES:
        return None
    size = int.from_bytes(head[4:8], "big")
    whole = head.ljust(size, b"\0") if size <= log.segment_bytes else head
    found, _ = scan(whole, 0, pos=base + at)
    return structs.replace(found[0], at=at) if found else None


def first_of_log(disk: Disk, log: CommitLog) -> EntryHead | None:
    """The entry that the log begins with. Files that are all BLANK may come before it.

    Upstream leaves two such behind an entry that is too large for a file.
    """
    for base in log.bases():
        head = first_entry(disk, log, base)
        if head is not None:
            return head
        file = disk.open(segment_path(log.folder, base), "r")
        try:
            if _blank_bytes(file.pread(0, BLANK_BYTES)) != log.segment_bytes:
                return None
        finally:
            file.close()
    return None


def need_first_of_log(disk: Disk, log: CommitLog) -> EntryHead:
    """The same, where there is one for sure.

    Raises: CorruptLog: the oldest file is damaged where it begins.
    """
    head = first_of_log(disk, log)
    if head is None:
        path = log.path_of(log.bases()[0])
        raise CorruptLog(f"{path}: it is the first of several files and begins with no entry")
    return head


def _blank_bytes(data: bytes) -> int:
    """The length of the BLANK that begins here; 0 if none does."""
    if len(data) < BLANK_BYTES:
        return 0
    magic, size = _BLANK.unpack_from(data)
    return int(size) if magic == BLANK_MAGIC and size >= BLANK_BYTES else 0


def find_end(
    disk: Disk,
    log: CommitLog,
    *,
    start_base: int,
    mark_bytes: int | None,
    sums: PerIndexFiles,
    was_clean: bool = False,
    on_heads: OnHeads | None = None,
) -> Generator[None, None, Found]:
    """Scan from the file that begins at `start_base` on. Reads only; yields every 4 MiB or entry.

    Args:
        mark_bytes: the synced mark; None: there is none, and every entry that looks whole is.
        sums: with a mark, entries are compared with what they say.
        was_clean: the mark is that of an ordered stop: what lies above it another program wrote,
            and it is believed as upstream believes it.
        on_heads: told the entries seen, in order, each time before the scan yields.

    Raises: CorruptLog: the log ends below the mark, or a file became shorter.
    """
    found = yield from _Scan(disk, log, mark_bytes, sums, was_clean, on_heads).run(start_base)
    if mark_bytes is not None and found.end_bytes < mark_bytes:
        reason = found.reason or "nothing is written there"
        end = found.end_bytes
        raise CorruptLog(
            f"{log.path_of(end)}: byte {end % log.segment_bytes} (offset {end}): {reason}, but all "
            f"below {mark_bytes} was synced once; nothing was changed"
        )
    return found


def refuse_lost(log: CommitLog, found: Found, committed_index: int) -> None:
    """Refuse a log that ends before what its own checkpoint says.

    The mark may be a second old. What was committed and synced meanwhile is not cut for a damaged
    size or a lost page: a majority may count on this member's copy.

    Args:
        committed_index: so far the log was committed, and synced here, while it was this log.

    Raises: CorruptLog.
    """
    if found.end_index >= committed_index:
        return
    reason, end = found.reason or "nothing is written there", found.end_bytes
    raise CorruptLog(
        f"{log.path_of(end)}: byte {end % log.segment_bytes} (offset {end}): {reason}, but entries "
        f"up to {committed_index} were committed and synced once; nothing was changed"
    )


def index_records(heads: list[EntryHead]) -> bytes:
    """The index records of these entries."""
    return encode_index_records([index_record(head) for head in heads])


@attrs.define
class _Scan:
    """One scan; see `find_end`."""

    _disk: Disk
    _log: CommitLog
    _mark: int | None
    _sums: PerIndexFiles
    _was_clean: bool
    _on_heads: OnHeads | None
    _first: EntryHead | None = None
    _last: EntryHead | None = None
    _count: int = 0

    def run(self, start: int) -> Generator[None, None, Found]:
        """One file after the other; a file's BLANK leads to the next."""
        reason: str | None = ""
        for base in self._log.bases():
            if base < start:
                continue
            reason = yield from self._file(base)
            if reason is not None:
                break
        first, last = self._first, self._last
        if first is None or last is None:
            return Found(first_base=start, end_bytes=start, reason=reason or "")
        return Found(
            first_base=start,
            first_index=first.index,
            first_pos=first.pos,
            end_index=last.index,
            end_term=last.term,
            end_bytes=last.pos + last.size,
            entry_count=self._count,
            reason=reason or "",
        )

    def _file(self, base: int) -> Generator[None, None, str | None]:
        """Why the log ends in this file, "" if nothing is written there; None: it goes on."""
        size = self._log.segment_bytes
        want, at = READ_BYTES, 0
        file = self._disk.open(segment_path(self._log.folder, base), "r")
        try:
            while at < size:
                data = file.pread(at, min(want, size - at))
                if len(data) < min(want, size - at):
                    raise CorruptLog(f"{file.path}: {at + len(data)} bytes, expected {size}")
                result = self._chunk(data, base + at)
                yield
                rest = size - at - result.end
                is_head = at + result.end == 0 and base == self._log.bases()[0]
                at += result.end
                if result.stop is Stop.END:
                    want = READ_BYTES
                elif result.stop is Stop.INCOMPLETE and result.missing_bytes <= rest - (
                    len(data) - result.end
                ):
                    want = max(READ_BYTES, len(data) - result.end + result.missing_bytes)
                elif result.stop is Stop.BLANK and is_head and result.blank_bytes < rest:
                    at, want = result.blank_bytes, READ_BYTES
                else:
                    return _judge(result, rest)
            return None
        finally:
            file.close()

    def _chunk(self, data: bytes, offset: int) -> Scanned:
        last = self._last
        index = None if last is None else last.index + 1
        term = 0 if last is None else last.term
        heads, result = scan(data, pos=offset, index=index, term=term)
        bad = self._first_bad(data, offset, heads)
        if bad is not None:
            number, reason = bad
            result = Scanned(end=heads[number].at, stop=Stop.CORRUPT, reason=reason)
            del heads[number:]
        if heads:
            self._first = self._first or heads[0]
            self._last = heads[-1]
            self._count += len(heads)
            if self._on_heads is not None:
                self._on_heads(data, heads)
        return result

    def _first_bad(
        self, data: bytes, offset: int, heads: list[EntryHead]
    ) -> tuple[int, str] | None:
        """The first that is not what was written, and why; None: all are, as far as one knows."""
        if self._mark is None or not heads:
            return None
        known = stored_sums(self._sums, heads[0].index, len(heads))
        wanted = sums_of(data, heads)
        if known == wanted:
            return None
        for number, head in enumerate(heads):
            at, end = number * SUM_BYTES, head.at + head.size
            record = known[at : at + SUM_BYTES]
            if record == wanted[at : at + SUM_BYTES]:
                continue
            if all_known(record):
                return number, BAD_SUM
            is_unsure = offset + end > self._mark and not self._was_clean
            if is_unsure and may_be_torn(data[head.at : end], head.pos):
                return number, TORN
        return None


def _judge(result: Scanned, rest: int) -> str | None:
    """What a stop inside a file means, `rest` bytes before its end; None: the next file follows."""
    match result.stop:
        case Stop.BLANK if result.blank_bytes == rest:
            return None
        case Stop.BLANK:
            return f"a BLANK of {result.blank_bytes} bytes where {rest} are left"
        case Stop.INCOMPLETE if rest < BLANK_BYTES:
            return None  # upstream leaves such a rest behind an entry that is too large for a file
        case Stop.INCOMPLETE:
            return "an entry that reaches over the end of its file"
        case Stop.UNWRITTEN:
            return ""
        case _:
            return result.reason
