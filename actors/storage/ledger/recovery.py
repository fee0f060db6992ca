"""Finds the end of a DLedger log at a start, and decides what may be cut.

Upstream: openmessaging/dledger, store/file/DLedgerMmapFileStore.java, recover (0.3.1.2);
dledger.md 3.5.

Differs:
- If there is a synced mark, the scan begins in the file that holds it, and damage below it refuses
  the start and says where. Without one upstream's rule holds: the scan begins in the third file
  from the end, or before it in one that begins with an entry.
- The file with which the log began, by the mark, has to exist.
- Entries that were committed by the checkpoint, and synced here, are not cut either.
- An entry that its checksum (`per_index`) contradicts ends the log; so does one above the mark of
  which no checksum is known and a part may never have been written. Upstream keeps both.
- A BLANK at the end of the log is cut: the next entry may fit there, and its leader may have it
  there.
- The log of a re-based follower begins with a BLANK that is shorter than its file.

The tools read files with `read_file` as well.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from contextlib import closing
from typing import TypeAlias

import attrs
from msgspec import structs

from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.files.stepping import Running
from actors.storage.files.whole_files import read_bytes
from actors.storage.ledger.ledger import may_be_torn
from actors.storage.ledger.mark import UNKNOWN, MarkValues
from actors.storage.ledger.per_index import (
    SUM_BYTES,
    PerIndexFiles,
    all_known,
    stored_sums,
    sums_of,
)
from actors.storage.ledger.term_files import TERM_MAX, read_checkpoint
from actors.storage.log.commit_log import CommitLog, segment_path
from wire.dledger.entry import (
    BLANK_BYTES,
    BLANK_MAGIC,
    ENTRY_HEAD_BYTES,
    encode_index_records,
)
from wire.dledger.scan import EntryHead, index_record, scan
from wire.files.scanned import Scanned, Stop

READ_BYTES = 4 << 20
"""How many bytes a piece has at most; one larger entry makes a larger piece."""
Judge: TypeAlias = Callable[[bytes, int, list[EntryHead]], tuple[int, str] | None]
"""Called with bytes, the log's offset of the first one, and the heads of the entries in them.
Returns the number, from 0, of the first entry that is not what was written, and why; None if none
is known to differ."""


@attrs.frozen
class Piece:
    """The bytes of one read.

    Attributes:
        offset: the offset of the first byte in the log.
        data: the bytes; some that are no whole entry may follow the last one.
        heads: the heads of the good entries in them; [] if there are none.
    """

    offset: int
    data: bytes
    heads: list[EntryHead]


@attrs.frozen
class FileEnd:
    """Where and why the entries of one file end.

    Attributes:
        at_bytes: the end of the last good entry, as an offset of the log.
        reason: why the log ends there, for people; "" if nothing is written there; None: the log
            goes on in the next file.
    """

    at_bytes: int
    reason: str | None


def read_file(
    disk: Disk,
    folder: str,
    base: int,
    file_bytes: int,
    *,
    is_first: bool,
    after: EntryHead | None,
    judge: Judge | None = None,
) -> Generator[Piece, None, FileEnd]:
    """Read the entries of the file that begins at offset `base`, piece by piece.

    Args:
        is_first: whether it is the log's first file, which may begin with a BLANK that is shorter
            than the file.
        after: the entry before the file's first one; None: any entry may be the first.
        judge: asked about all entries that look whole.

    Raises: CorruptLog: the file is shorter than `file_bytes`. OSError; FileNotFoundError if it is
        missing.
    """
    want, at, last = READ_BYTES, 0, after
    with closing(disk.open(segment_path(folder, base), "r")) as file:
        while at < file_bytes:
            data = file.pread(at, min(want, file_bytes - at))
            if len(data) < min(want, file_bytes - at):
                raise CorruptLog(f"{file.path}: {at + len(data)} bytes, expected {file_bytes}")
            heads, result = _scanned(data, base + at, last, judge)
            last = heads[-1] if heads else last
            yield Piece(base + at, data, heads)
            rest = file_bytes - at - result.end
            is_head = at + result.end == 0 and is_first
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
                return FileEnd(base + at, _reason(result, rest))
        return FileEnd(base + at, None)


def _scanned(
    data: bytes, offset: int, last: EntryHead | None, judge: Judge | None
) -> tuple[list[EntryHead], Scanned]:
    index = None if last is None else last.index + 1
    term = 0 if last is None else last.term
    heads, result = scan(data, pos=offset, index=index, term=term)
    bad = judge(data, offset, heads) if judge is not None and heads else None
    if bad is not None:
        number, reason = bad
        result = Scanned(end=heads[number].at, stop=Stop.CORRUPT, reason=reason)
        del heads[number:]
    return heads, result


def _reason(result: Scanned, rest: int) -> str | None:
    """Say why the log ends `rest` bytes before its file does; None: it goes on in the next file."""
    match result.stop:
        case Stop.BLANK if result.blank_bytes == rest:
            return None
        case Stop.BLANK:
            return f"a BLANK of {result.blank_bytes} bytes where {rest} are left"
        case Stop.INCOMPLETE if rest < BLANK_BYTES:
            # upstream leaves such a rest before an entry that is too large for the file
            return None
        case Stop.INCOMPLETE:
            return "an entry that reaches over the end of its file"
        case Stop.UNWRITTEN:
            return ""
        case _:
            return result.reason


FILES_SCANNED = 3
"""How many files, from the end, are scanned at least, as upstream does."""
TORN = "an entry of which a part may never have been written"
_BLANK = struct.Struct(">ii")

BAD_SUM = "an entry that is not what was written"
OnHeads = Callable[[bytes, list[EntryHead]], None]
"""Called with the bytes read, and the heads of the entries in them."""


@attrs.frozen(kw_only=True)
class ScanResult:
    """The result of a scan. A scan changes nothing.

    Attributes:
        first_base: the offset of the file in which the scan began.
        first_index: the index of the first entry found; -1 if there is none.
        end_index, end_term: index and term of the last entry; -1 if there is none.
        end_bytes: the end of the last entry; without entries, the offset at which the scan began.
        entry_count: how many entries were found.
        reason: why no entry follows, for people; "" if nothing is written there.
    """

    first_base: int
    first_index: int = -1
    end_index: int = -1
    end_term: int = -1
    end_bytes: int
    entry_count: int = 0
    reason: str = ""


def first_base(disk: Disk, log: CommitLog, mark_bytes: int | None) -> int:
    """Return the offset of the file in which a scan begins; the files before it are taken as good.

    Args:
        mark_bytes: everything below this offset was synced; None: that is unknown.
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
    """Return the head of a file's first entry, which may follow a BLANK that is shorter than the
    file.

    Its `at` is its position in the file. None: the file begins with no entry.
    """
    with closing(disk.open(segment_path(log.folder, base), "r")) as file:
        head = file.pread(0, ENTRY_HEAD_BYTES)
        at = 0
        blank_bytes = _blank_bytes(head)
        if blank_bytes and blank_bytes < log.segment_bytes:
            at, head = blank_bytes, file.pread(blank_bytes, ENTRY_HEAD_BYTES)
    if len(head) < ENTRY_HEAD_BYTES:
        return None
    size = int.from_bytes(head[4:8], "big")
    whole = head.ljust(size, b"\0") if size <= log.segment_bytes else head
    found, _ = scan(whole, 0, pos=base + at)
    return structs.replace(found[0], at=at) if found else None


def first_of_log(disk: Disk, log: CommitLog) -> EntryHead | None:
    """Return the head of the log's first entry; None: there is none, or it is damaged.

    Files that are all BLANK may come before it: upstream leaves two where an entry was too large
    for a file.
    """
    for base in log.bases():
        head = first_entry(disk, log, base)
        if head is not None:
            return head
        begin = read_bytes(disk, segment_path(log.folder, base), BLANK_BYTES)
        if _blank_bytes(begin) != log.segment_bytes:
            return None
    return None


def need_first_of_log(disk: Disk, log: CommitLog) -> EntryHead:
    """Return the head of the first entry of a log that must have one.

    Raises: CorruptLog: the oldest file is damaged at its beginning.
    """
    head = first_of_log(disk, log)
    if head is None:
        path = log.path_of(log.bases()[0])
        raise CorruptLog(f"{path}: it is the first of several files and begins with no entry")
    return head


def _blank_bytes(data: bytes) -> int:
    """Return the length of the BLANK with which `data` begins; 0 if there is none."""
    if len(data) < BLANK_BYTES:
        return 0
    magic, size = _BLANK.unpack_from(data)
    return int(size) if magic == BLANK_MAGIC and size >= BLANK_BYTES else 0


def find_at_start(
    disk: Disk,
    log: CommitLog,
    *,
    was: MarkValues | None,
    sums: PerIndexFiles,
    checkpoint: str,
    cuts_committed: bool = False,
    on_heads: OnHeads | None = None,
) -> Generator[None, None, ScanResult]:
    """Find the end of the log that a start would find, without changing anything; yields as
    `find_end`.

    Args:
        was: the mark's values; None: there is none, or it is ignored.
        checkpoint: the path of the file `checkpoint`.
        cuts_committed: whether entries may be cut that the checkpoint says were committed.
        on_heads: as of `find_end`.

    Raises: CorruptLog: the start is refused.
    """
    if not log.bases():
        if was is not None and was.end_bytes:
            raise CorruptLog(
                f"{log.folder}: no files, but all below {was.end_bytes} was synced once"
            )
        return ScanResult(first_base=0, end_bytes=0)
    least = None if was is None else min(was.end_bytes, was.whole_bytes)
    found = yield from find_end(
        disk,
        log,
        start_base=first_base(disk, log, least),
        mark_bytes=None if was is None else was.end_bytes,
        sums=sums,
        was_clean=was is not None and was.is_clean,
        on_heads=on_heads,
    )
    if was is not None and was.end_bytes:
        _refuse_headless(log, found, was)
    # Behind the mark of an ordered stop another program may have written; behind a mark of 0 the
    # log was begun anew.
    its_own = was is not None and was.end_bytes and not was.is_clean
    if its_own and not cuts_committed:
        refuse_lost(log, found, checkpoint, read_checkpoint(disk, checkpoint).committed_index)
    if found.end_term > TERM_MAX:
        raise CorruptLog(
            f"{log.folder}: entry {found.end_index} is of term {found.end_term}, above {TERM_MAX},"
            " in which no member can be; nothing was changed"
        )
    return found


def find_end(
    disk: Disk,
    log: CommitLog,
    *,
    start_base: int,
    mark_bytes: int | None,
    sums: PerIndexFiles,
    was_clean: bool = False,
    on_heads: OnHeads | None = None,
) -> Generator[None, None, ScanResult]:
    """Scan the log from the file that begins at `start_base` on; yields every 4 MiB, or every entry
    that is larger.

    Args:
        mark_bytes: the synced mark; None: there is none, and every entry that looks whole counts.
        sums: the checksums, with which entries are compared if there is a mark.
        was_clean: whether the mark is that of an ordered stop: entries above it are another
            program's, and count as they do for upstream.
        on_heads: called with the entries read, in order, each time before the scan yields.

    Raises: CorruptLog: the log ends below the mark, or a file is too short.
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


def _refuse_headless(log: CommitLog, found: ScanResult, was: MarkValues) -> None:
    """Refuse a log whose oldest files are missing though this node did not delete them.

    Another program that wrote after an ordered stop may have deleted some; such a log is accepted.

    Raises: CorruptLog: files are missing.
    """
    first, began = log.min_bytes, was.begin_bytes
    if began == UNKNOWN or first <= began or (was.is_clean and found.end_bytes != was.end_bytes):
        return
    raise CorruptLog(
        f"{log.path_of(began)}: the file with which the log began is missing;"
        f" {log.path_of(first)} is the first now; nothing was changed. If another program has"
        " deleted it, remove `synced` beside its folder"
    )


def refuse_lost(log: CommitLog, found: ScanResult, checkpoint: str, committed_index: int) -> None:
    """Refuse a log that ends below the committed index in its own checkpoint.

    The mark may be a second old. Entries that were committed and synced since are not cut because
    of a damaged size or a lost page: a majority may rest on this member's copy.

    Args:
        checkpoint: the path of its file.
        committed_index: the last entry that was committed, and synced here.

    Raises: CorruptLog: the log ends below that.
    """
    if found.end_index >= committed_index:
        return
    reason, end = found.reason or "nothing is written there", found.end_bytes
    raise CorruptLog(
        f"{log.path_of(end)}: byte {end % log.segment_bytes} (offset {end}): {reason}, but, says "
        f"{checkpoint}, entries up to {committed_index} were committed and synced once; nothing was"
        " changed"
    )


def is_surely_whole(found: ScanResult, was: MarkValues | None) -> bool:
    """Whether an accepted log surely lacks no entry at its end that was ever synced here.

    Then a checkpoint with a higher committed index is wrong. Otherwise it may be right, and this
    member has lost the entries up to it.

    Args:
        was: the mark's values; None: there is none, or it is ignored.
    """
    if was is None:
        return False
    return not was.end_bytes or (was.is_clean and was.end_bytes == found.end_bytes)


def index_records(heads: list[EntryHead]) -> bytes:
    """Make the index records of these entries."""
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

    def run(self, start: int) -> Generator[None, None, ScanResult]:
        """Scan one file after the other; a file's BLANK leads to the next."""
        reason: str | None = ""
        for base in self._log.bases():
            if base < start:
                continue
            reason = yield from self._file(base)
            if reason is not None:
                break
        first, last = self._first, self._last
        if first is None or last is None:
            return ScanResult(first_base=start, end_bytes=start, reason=reason or "")
        return ScanResult(
            first_base=start,
            first_index=first.index,
            end_index=last.index,
            end_term=last.term,
            end_bytes=last.pos + last.size,
            entry_count=self._count,
            reason=reason or "",
        )

    def _file(self, base: int) -> Generator[None, None, str | None]:
        """Scan one file.

        Returns: why the log ends in it, for people; "" if nothing is written there; None if the log
            goes on.
        """
        log = self._log
        reading = read_file(
            self._disk,
            log.folder,
            base,
            log.segment_bytes,
            is_first=base == log.bases()[0],
            after=self._last,
            judge=None if self._mark is None else self._first_bad,
        )
        with closing(reading):
            running = Running(reading)
            for piece in running:
                self._take(piece)
                yield
            return running.result.reason

    def _take(self, piece: Piece) -> None:
        heads = piece.heads
        if not heads:
            return
        self._first = self._first or heads[0]
        self._last = heads[-1]
        self._count += len(heads)
        if self._on_heads is not None:
            self._on_heads(piece.data, heads)

    def _first_bad(
        self, data: bytes, offset: int, heads: list[EntryHead]
    ) -> tuple[int, str] | None:
        """Implements `Judge` by the checksums that were written, and for torn entries by the
        mark.
        """
        assert self._mark is not None
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
