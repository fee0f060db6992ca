"""Reading one data file of a DLedger log: its entries in pieces, and why there are no more.

A start (`recovery`) ends the log where a file does not go on; the tools look at it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import TypeAlias

import attrs

from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.log.commit_log import segment_path
from wire.dledger.entry import BLANK_BYTES
from wire.dledger.scan import EntryHead, scan
from wire.files.scanned import Scanned, Stop

READ_BYTES = 4 << 20
"""A piece has so many bytes at most, or those of one entry if that is longer."""
Judge: TypeAlias = Callable[[bytes, int, list[EntryHead]], tuple[int, str] | None]
"""Given bytes, the log's offset of the first one, and the entries in them: the number of the first
that is not what was written, and why; None: all are, as far as one knows."""


@attrs.frozen
class Piece:
    """What was read at once.

    Attributes:
        offset: of the first byte of `data` in the log.
        data: behind the last entry other bytes may follow.
        heads: the good entries in it; there may be none.
    """

    offset: int
    data: bytes
    heads: list[EntryHead]


@attrs.frozen
class FileEnd:
    """How one file ended.

    Attributes:
        at_bytes: the log's offset behind the last good entry.
        reason: why the log ends there, "" if nothing is written; None: the next file goes on.
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
    """The entries of the file that begins at offset `base`.

    Args:
        is_first: of the log: it may begin with a BLANK that is shorter than the file.
        after: the entry before its first one; None: whatever follows is right.
        judge: asked about all that look whole.

    Raises: CorruptLog: the file is shorter. OSError, FileNotFoundError among them.
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
