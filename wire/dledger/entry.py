"""DLedger's entry and index record: their layout, and how they are decoded.

Upstream: openmessaging/dledger, entry/DLedgerEntry.java, DLedgerEntryCoder.java,
store/file/DLedgerMmapFileStore.java, MmapFileList.java, tag dledger-all-0.3.1.2. Reading a stretch
of a data file: `wire.dledger.scan`. The same entry as JSON: `wire.dledger.rpc`.

Entry, big-endian, ENTRY_HEAD_BYTES + n bytes:

| Offset | Width | Type | Field      | Meaning                            | Range           |
|--------|-------|------|------------|------------------------------------|-----------------|
| 0      | 4     | int  | magic      | MAGIC_NORMAL                       | 1               |
| 4      | 4     | int  | size       | the whole entry, 48 + n            | 48 .. 4 194 304 |
| 8      | 8     | long | index      | number of the entry                | 0 ..            |
| 16     | 8     | long | term       | of the leader that appended it     | 0 ..            |
| 24     | 8     | long | pos        | its first byte's offset in the log | 0 ..            |
| 32     | 4     | int  | channel    | 0                                  |                 |
| 36     | 4     | int  | chainCrc   | 0: never computed or checked       |                 |
| 40     | 4     | int  | bodyCrc    | 0, likewise                        |                 |
| 44     | 4     | int  | bodyLength | n                                  | 0 .. 4 194 256  |
| 48     | n     | raw  | body       |                                    |                 |

BLANK, which ends a data file that the next entry does not fit in:

| Offset | Width  | Type | Field | Meaning                                   | Range |
|--------|--------|------|-------|-------------------------------------------|-------|
| 0      | 4      | int  | magic | BLANK_MAGIC                               | -1    |
| 4      | 4      | int  | rest  | bytes to the end of the file, these 8 too | 8 ..  |
| 8      | rest-8 | raw  | -     | zeros                                     | 0     |

Index record, INDEX_BYTES, at index * INDEX_BYTES of the index stream:

| Offset | Width | Type | Field | Meaning     |
|--------|-------|------|-------|-------------|
| 0      | 4     | int  | magic | the entry's |
| 4      | 8     | long | pos   | the entry's |
| 12     | 4     | int  | size  | the entry's |
| 16     | 8     | long | index | the entry's |
| 24     | 8     | long | term  | the entry's |

Rolling: an entry of s bytes fits if s + BLANK_BYTES <= the bytes left in the file; otherwise a
BLANK fills it and the entry begins the next file. Positions must be equal on all nodes of a group.

Differs:
- An entry above ENTRY_BYTES_MAX or above what any file holds is refused before anything is written;
  upstream throws, or leaves two blank files behind.
- An entry whose `size` is not 48 + n, or whose magic recovery would not accept, is not stored.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import astuple

from wire.errors import IncompleteData, LocalProtocolError, RemoteProtocolError
from wire.remoting.tolerant_json import Int

ENTRY_HEAD_BYTES: Final = 48
INDEX_BYTES: Final = 32
BLANK_BYTES: Final = 8
MAGIC_NORMAL: Final = 1
BLANK_MAGIC: Final = -1
ENTRY_BYTES_MAX: Final = 4 << 20
"""The size of upstream's encode buffer; a Java leader refuses larger entries."""
BODY_BYTES_MAX: Final = ENTRY_BYTES_MAX - ENTRY_HEAD_BYTES
DATA_FILE_BYTES: Final = 1 << 30
"""The size of a data file. Upstream: mappedFileSizeForEntryData."""
INDEX_FILE_BYTES: Final = 5 * 1024 * 1024 * INDEX_BYTES
"""The size of an index file. Upstream: mappedFileSizeForEntryIndex."""
POS_MAX: Final = 1 << 62
INDEX_MAX: Final = POS_MAX // INDEX_BYTES
"""An index that no log ever reaches. An entry near the largest long would leave no position for the
next one.
"""

Buffer: TypeAlias = bytes | bytearray | memoryview
Place: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]

ENTRY_HEAD = struct.Struct(">iiqqqiiii")
ENTRY_POSITION = struct.Struct(">4xiq")
"""Reads the size and the index of an entry's head."""
INDEX_RECORD = struct.Struct(">iqiqq")
_BLANK = struct.Struct(">ii")


class Entry(
    Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, gc=False
):
    """One entry. In JSON it has exactly these keys, none of which Java leaves out.

    Attributes:
        body: what was appended; it may be empty.
        body_crc, chain_crc, channel: 0, see the module's table.
        index: its number, from 0.
        magic: MAGIC_NORMAL.
        pos: its position in the leader's log, in bytes.
        size: 48 + the body's bytes, as the sender states it; see `entry_problem`.
        term: the term of the leader that appended it.
    """

    body: bytes
    body_crc: Int = 0
    chain_crc: Int = 0
    channel: Int = 0
    index: Place
    magic: Int
    pos: Place
    size: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    term: Place


class IndexRecord(Struct, frozen=True, gc=False):
    """One index record, with its fields in the order of the file."""

    magic: int
    pos: int
    size: int
    index: int
    term: int


def entry_bytes_max(file_bytes: int) -> int:
    """Return the size of the largest entry of a group with data files of `file_bytes`."""
    return min(ENTRY_BYTES_MAX, file_bytes - BLANK_BYTES)


def fits_in_file(entry_bytes: int, rest_bytes: int) -> bool:
    """Return whether an entry may be written where `rest_bytes` of the file are left."""
    return entry_bytes + BLANK_BYTES <= rest_bytes


def position(end: int, entry_bytes: int, file_bytes: int) -> int:
    """Return the position of an entry in a log that ends at `end`: there, or in the next file.

    Args:
        end: the offset behind the last entry, >= 0.
        entry_bytes: the entry's size, at most `entry_bytes_max(file_bytes)`.
        file_bytes: the size of every data file of the group.

    Raises:
        LocalProtocolError: no file holds such an entry.
    """
    if entry_bytes > entry_bytes_max(file_bytes):
        limit = entry_bytes_max(file_bytes)
        raise LocalProtocolError(f"entry of {entry_bytes} bytes, at most {limit}")
    rest_bytes = file_bytes - end % file_bytes
    return end if fits_in_file(entry_bytes, rest_bytes) else end + rest_bytes


def encode_blank(rest_bytes: int) -> bytes:
    """Encode the BLANK that fills the last `rest_bytes` of a file: 8 bytes, which zeros follow.

    Raises:
        LocalProtocolError: `rest_bytes` is below 8, or above an int.
    """
    if not BLANK_BYTES <= rest_bytes < 2**31:
        raise LocalProtocolError(f"a BLANK cannot fill the last {rest_bytes} bytes of a file")
    return _BLANK.pack(BLANK_MAGIC, rest_bytes)


def entry_problem(entry: Entry) -> str | None:
    """Return why an entry of a peer must not be stored in any log; None if it may be."""
    if entry.magic != MAGIC_NORMAL:
        return f"entry {entry.index} has magic {entry.magic}, not {MAGIC_NORMAL}"
    if entry.size != ENTRY_HEAD_BYTES + len(entry.body):
        return f"entry {entry.index} of {len(entry.body)} body bytes says size {entry.size}"
    if entry.size > ENTRY_BYTES_MAX:
        return f"entry {entry.index} of {entry.size} bytes, at most {ENTRY_BYTES_MAX}"
    if entry.index > INDEX_MAX or entry.pos > POS_MAX:
        return f"entry {entry.index} at {entry.pos} lies where no log ever comes"
    return None


def decode_entry(buf: Buffer, at: int = 0, end: int | None = None) -> Entry:
    """Decode the entry at `at`.

    Args:
        buf: bytes of one data file.
        end: the end of the bytes that are read; None for the end of `buf`.

    Raises:
        IncompleteData: it is correct so far, but ends behind `end`.
        RemoteProtocolError: its magic, sizes or numbers are not those of an entry.
    """
    limit = len(buf) if end is None else end
    assert 0 <= at <= limit <= len(buf)
    if limit - at < ENTRY_HEAD_BYTES:
        missing = ENTRY_HEAD_BYTES - (limit - at)
        raise IncompleteData(f"{limit - at} bytes of an entry's head", missing)
    magic, size, index, term, pos, channel, chain_crc, body_crc, body_bytes = (
        ENTRY_HEAD.unpack_from(buf, at)
    )
    if magic != MAGIC_NORMAL:
        raise RemoteProtocolError(f"magic {magic} is not {MAGIC_NORMAL}")
    if not ENTRY_HEAD_BYTES <= size <= ENTRY_BYTES_MAX or size != ENTRY_HEAD_BYTES + body_bytes:
        raise RemoteProtocolError(f"size {size} with {body_bytes} body bytes")
    if min(index, term, pos) < 0:
        raise RemoteProtocolError(f"index {index}, term {term}, pos {pos}: one is negative")
    if size > limit - at:
        raise IncompleteData(f"{limit - at} of {size} bytes of an entry", size - (limit - at))
    return Entry(
        body=bytes(buf[at + ENTRY_HEAD_BYTES : at + size]),
        body_crc=body_crc,
        chain_crc=chain_crc,
        channel=channel,
        index=index,
        magic=magic,
        pos=pos,
        size=size,
        term=term,
    )


def decode_entries(buf: bytes) -> list[Entry]:
    """Decode whole entries that follow each other, from the first byte to the last.

    Raises: the errors of `decode_entry`.
    """
    found: list[Entry] = []
    add, unpack, limit, at = found.append, ENTRY_HEAD.unpack_from, len(buf), 0
    while at < limit:
        if limit - at < ENTRY_HEAD_BYTES:
            decode_entry(buf, at)  # says what is missing
        magic, size, index, term, pos, channel, chain_crc, body_crc, body_bytes = unpack(buf, at)
        behind = at + size
        good = magic == MAGIC_NORMAL and size == ENTRY_HEAD_BYTES + body_bytes
        if not good or body_bytes < 0 or size > ENTRY_BYTES_MAX or behind > limit:
            decode_entry(buf, at)
        if index < 0 or term < 0 or pos < 0:
            decode_entry(buf, at)
        add(
            Entry(
                body=buf[at + ENTRY_HEAD_BYTES : behind],
                body_crc=body_crc,
                chain_crc=chain_crc,
                channel=channel,
                index=index,
                magic=magic,
                pos=pos,
                size=size,
                term=term,
            )
        )
        at = behind
    return found


def encode_index_records(records: Sequence[IndexRecord]) -> bytes:
    """Encode index records that were made again from a scan of the data."""
    return b"".join([INDEX_RECORD.pack(*astuple(record)) for record in records])


def decode_index(buf: Buffer, at: int = 0, end: int | None = None) -> list[IndexRecord]:
    """Decode all whole index records between `at` and `end`, with unused ones (zeros).

    It never raises for what the bytes are. Only the data shows whether a record fits its entry.
    """
    limit = len(buf) if end is None else end
    assert 0 <= at <= limit <= len(buf)
    whole = (limit - at) // INDEX_BYTES * INDEX_BYTES
    return [IndexRecord(*each) for each in INDEX_RECORD.iter_unpack(buf[at : at + whole])]


def has_body(buf: bytes) -> bool:
    """Return whether any of the whole entries that follow each other has a body."""
    at = 0
    while at + ENTRY_HEAD_BYTES <= len(buf):
        size = max(ENTRY_HEAD_BYTES, ENTRY_HEAD.unpack_from(buf, at)[1])
        if size > ENTRY_HEAD_BYTES:
            return True
        at += size
    return False
