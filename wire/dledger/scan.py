"""Scans bytes of a DLedger data file: which entries they hold, where these stop, and why.

Upstream: openmessaging/dledger, store/file/DLedgerMmapFileStore.java, recover, tag
dledger-all-0.3.1.2. Layout: `wire.dledger.entry`. One pass, one tuple per entry, no body is copied.

Differs:
- An entry above ENTRY_BYTES_MAX is corrupt: upstream cannot have written it.
- Zeros end the log only where magic and size are both 0; upstream looks at the size alone.
"""

from __future__ import annotations

import struct
from typing import Final

from msgspec import Struct

from wire.dledger.entry import (
    BLANK_BYTES,
    BLANK_MAGIC,
    ENTRY_BYTES_MAX,
    ENTRY_HEAD_BYTES,
    MAGIC_NORMAL,
    Buffer,
    IndexRecord,
    decode_entry,
)
from wire.errors import IncompleteData, RemoteProtocolError
from wire.files.scanned import Scanned, Stop

_HEAD = struct.Struct(">iiqqq12xi")
_MAGIC_SIZE = struct.Struct(">ii")
_NO_INDEX: Final = -1


class EntryHead(Struct, frozen=True, gc=False):
    """An entry without its body.

    Attributes:
        at: where it begins in the buffer.
        size: the size of the whole entry, in bytes.
        index, term, pos: as the entry itself states them.
    """

    at: int
    size: int
    index: int
    term: int
    pos: int


def index_record(head: EntryHead) -> IndexRecord:
    """Return the index record that belongs to the entry."""
    return IndexRecord(MAGIC_NORMAL, head.pos, head.size, head.index, head.term)


def scan(
    buf: Buffer,
    start: int = 0,
    end: int | None = None,
    *,
    pos: int | None = None,
    index: int | None = None,
    term: int = 0,
) -> tuple[list[EntryHead], Scanned]:
    """Return the head of each good entry from `start` on, and why there are no more.

    It never raises for what the bytes are.

    Args:
        buf: bytes of one data file.
        start: where an entry begins in it.
        end: the end of the bytes that are read; None for the end of `buf`.
        pos: the offset in the log of the byte at `start`; None: positions are not checked.
        index: the first entry's index; None: any. The others must follow it without a gap.
        term: the lowest term of an entry; an entry's term must not be below the one before it.
    """
    limit = len(buf) if end is None else end
    assert 0 <= start <= limit <= len(buf)
    shift = None if pos is None else pos - start
    wanted = _NO_INDEX if index is None else index
    found: list[EntryHead] = []
    unpack = _HEAD.unpack_from
    at = start
    while limit - at >= ENTRY_HEAD_BYTES:
        magic, size, its_index, its_term, its_pos, body_bytes = unpack(buf, at)
        if (
            magic != MAGIC_NORMAL
            or size != ENTRY_HEAD_BYTES + body_bytes
            or not ENTRY_HEAD_BYTES <= size <= ENTRY_BYTES_MAX
            or size > limit - at
            or its_term < term
            or its_index < 0
            or its_pos < 0
            or (its_index != wanted and wanted != _NO_INDEX)
            or (shift is not None and its_pos != at + shift)
        ):
            break
        found.append(EntryHead(at, size, its_index, its_term, its_pos))
        wanted = its_index + 1
        term = its_term
        at += size
    return found, _why(buf, at, limit, shift, wanted, term)


def _why(buf: Buffer, at: int, limit: int, shift: int | None, wanted: int, term: int) -> Scanned:
    """Return why the scan stops at `at`, where the fast loop stopped, by an exact, slow reading."""
    rest = limit - at
    if not rest:
        return Scanned(end=at, stop=Stop.END)
    if rest >= _MAGIC_SIZE.size:
        magic, size = _MAGIC_SIZE.unpack_from(buf, at)
        if magic == BLANK_MAGIC and size >= BLANK_BYTES:
            return Scanned(end=at, stop=Stop.BLANK, blank_bytes=size)
        if magic == size == 0:
            return Scanned(end=at, stop=Stop.UNWRITTEN)
    try:
        entry = decode_entry(buf, at, limit)
    except IncompleteData as error:
        return Scanned(end=at, stop=Stop.INCOMPLETE, missing_bytes=error.missing_bytes)
    except RemoteProtocolError as error:
        return Scanned(end=at, stop=Stop.CORRUPT, reason=str(error))
    if entry.index != wanted and wanted != _NO_INDEX:
        reason = f"index {entry.index} where {wanted} belongs"
    elif entry.term < term:
        reason = f"term {entry.term} behind term {term}"
    else:
        # DLedgerScanAgreesWithDecode: only the position can be wrong with what is left.
        assert shift is not None
        assert entry.pos != at + shift
        reason = f"pos {entry.pos} in an entry at {at + shift}"
    return Scanned(end=at, stop=Stop.CORRUPT, reason=reason)
