"""A checksum of each entry, beside the log: DLedger's format has none, and is not to be changed.

Upstream: none; the fields `bodyCrc` and `chainCrc` of an entry are 0 in every version.

Record of an entry, at `index * SUM_BYTES` of the files in `sums/`:

| Offset | Width | Type | Field | Meaning                                                   |
|--------|-------|------|-------|-----------------------------------------------------------|
| 0      | 4     | uint | crc   | CRC-32 of the whole entry as it lies in its data file     |
| 4      | 4     | uint | check | crc xor CHECK_MASK, so that neither zeros nor half of one |
|        |       |      |       | whose write broke off say anything                        |

Size: SUM_BYTES = 8. Like the index it is synced once a second; a record is there, or is zeros, or
begins with a part of itself. An entry without a whole one (another program appended it, or the
record's page was lost) is believed as far as its head goes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from actors.storage.ledger.per_index import PerIndexFiles
from wire.crc import crc32
from wire.dledger.entry import INDEX_BYTES
from wire.dledger.scan import EntryHead

SUM_BYTES: Final = 8
CHECK_MASK: Final = 0xA5C35A3C
SUM_RECORD = struct.Struct(">II")


def sums_file_bytes(index_file_bytes: int) -> int:
    """A file of sums holds as many records as one of the index."""
    return index_file_bytes // INDEX_BYTES * SUM_BYTES


def sums_of(data: bytes, heads: Sequence[EntryHead]) -> bytes:
    """The records of the entries that these heads found in `data`."""
    return sums_at(data, [(head.at, head.at + head.size) for head in heads])


def sums_at(data: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
    """The records of the entries that lie there in `data`."""
    view = memoryview(data)
    crcs = [crc32(view[start:end]) for start, end in spans]
    return b"".join([SUM_RECORD.pack(crc, crc ^ CHECK_MASK) for crc in crcs])


def all_known(records: bytes) -> bool:
    """Whether each of these records is whole, and so says something."""
    return all(check == crc ^ CHECK_MASK for crc, check in SUM_RECORD.iter_unpack(records))


def contradicted(known: bytes, wanted: bytes) -> list[int]:
    """Numbers of the records in `wanted` of which what is known says something else.

    Args:
        known: as many records, or fewer.
    """
    if known == wanted:
        return []
    starts = range(0, len(known), SUM_BYTES)
    return [
        at // SUM_BYTES
        for at in starts
        if known[at : at + SUM_BYTES] != wanted[at : at + SUM_BYTES]
        and all_known(known[at : at + SUM_BYTES])
    ]


def stored_sums(files: PerIndexFiles, index: int, count: int) -> bytes:
    """What the files say of so many entries from `index` on; zeros where they say nothing."""
    below = min(max(-(-files.log.min_bytes // SUM_BYTES) - index, 0), count)
    found = files.read(index + below, count - below) if count > below else b""
    return (bytes(below * SUM_BYTES) + found).ljust(count * SUM_BYTES, b"\0")
