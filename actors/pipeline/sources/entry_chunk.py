"""Finds all entries in bytes of a DLedger data file, and their fields as columns.

Layout: `wire.dledger.entry`. What is accepted is what `wire.dledger.scan.scan` accepts, which also
says why there are no more; a test holds the two together.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from actors.pipeline.sources.cells import (
    Numbers,
    binary_cells,
    crc_cells,
    first_false,
    numbers,
    same_cells,
    steps,
)
from wire.dledger.entry import ENTRY_BYTES_MAX, ENTRY_HEAD_BYTES, MAGIC_NORMAL
from wire.dledger.scan import scan
from wire.files.scanned import Scanned

_SIZE = struct.Struct(">4xi").unpack_from
_MAGIC: Final = re.compile(b"(?=" + re.escape(MAGIC_NORMAL.to_bytes(4, "big")) + b")")


@attrs.frozen
class Behind:
    """What the next entry must follow.

    Attributes:
        index: the index of the entry before; None if it is unknown.
        term: the term of the entry before; 0 if it is unknown.
    """

    index: int | None = None
    term: int = 0


@attrs.frozen(eq=False, kw_only=True)
class Entries:
    """Whole entries that follow each other from the first byte of `buf` on.

    Attributes:
        buf: the bytes.
        position: the offset in the log of the first byte of `buf`.
        starts, sizes: where each entry begins, and its size in bytes.
        indexes, terms: the index and the term of each entry.
        scanned: why there are no more entries; its `end` is a position in `buf`.
    """

    buf: bytes
    position: int
    starts: Numbers
    sizes: Numbers
    indexes: Numbers
    terms: Numbers
    scanned: Scanned

    @property
    def times(self) -> Numbers:
        """The indexes, in place of times, which entries lack; all members agree on them."""
        return self.indexes


def find_entries(buf: bytes, position: int, behind: Behind) -> Entries:
    """Find the entries from the first byte of `buf` on.

    It never raises for what the bytes are.

    Args:
        position: the offset in the log of that byte, where an entry begins.
        behind: what the first entry must follow.
    """
    starts, sizes = steps(buf, _SIZE, ENTRY_HEAD_BYTES, ENTRY_BYTES_MAX)
    indexes = numbers(buf, ">i8", starts + 8)
    terms = numbers(buf, ">i8", starts + 16)
    good = numbers(buf, ">i4", starts) == MAGIC_NORMAL
    good &= numbers(buf, ">i4", starts + 44).astype(np.int64) == sizes - ENTRY_HEAD_BYTES
    good &= (indexes >= 0) & (terms >= behind.term)
    good &= numbers(buf, ">i8", starts + 24) == starts + position
    good[1:] &= (indexes[1:] - indexes[:-1] == 1) & (terms[1:] >= terms[:-1])
    if behind.index is not None:
        good[:1] &= indexes[:1] == behind.index + 1
    n = first_false(good)
    starts, sizes, indexes, terms = starts[:n], sizes[:n], indexes[:n], terms[:n]
    stop = int(starts[-1] + sizes[-1]) if n else 0
    last = Behind(int(indexes[-1]), int(terms[-1])) if n else behind
    wanted = None if last.index is None else last.index + 1
    more, scanned = scan(buf, stop, pos=position + stop, index=wanted, term=last.term)
    assert not more  # ChunkAgreesWithScan
    return Entries(
        buf=buf, position=position, starts=starts, sizes=sizes, indexes=indexes, terms=terms,
        scanned=scanned,
    )  # fmt: skip


def entry_candidates(buf: bytes, position: int) -> list[int]:
    """Return the positions in `buf` at which an entry may begin, by its magic and own position."""
    starts = np.array([match.start() for match in _MAGIC.finditer(buf)], np.int64)
    starts = starts[starts + ENTRY_HEAD_BYTES <= len(buf)]
    own = numbers(buf, ">i8", starts + 24) == starts + position
    return [int(start) for start in starts[own]]


# ---- columns ----


ENTRY_COLUMNS: Final[Mapping[str, tuple[pa.DataType, Callable[[Entries, str], pa.Array]]]] = {
    "node": (pa.string(), lambda e, node: same_cells(node, len(e.starts))),
    "offset": (pa.int64(), lambda e, _: pa.array(e.starts + e.position, pa.int64())),
    "size": (pa.int64(), lambda e, _: pa.array(e.sizes, pa.int64())),
    "damage": (pa.string(), lambda e, _: pa.nulls(len(e.starts), pa.string())),
    "index": (pa.int64(), lambda e, _: pa.array(e.indexes, pa.int64())),
    "term": (pa.int64(), lambda e, _: pa.array(e.terms, pa.int64())),
    "body": (
        pa.binary(),
        lambda e, _: binary_cells(e.buf, e.starts + ENTRY_HEAD_BYTES, e.sizes - ENTRY_HEAD_BYTES),
    ),
    "record": (pa.binary(), lambda e, _: binary_cells(e.buf, e.starts, e.sizes)),
    "record_crc": (pa.int64(), lambda e, _: crc_cells(e.buf, e.starts, e.sizes)),
}
"""The type and the maker of each column. The maker's second argument is the log's name.

| Column | Meaning |
|---|---|
| node | the log's name |
| offset, size | where the entry is in the log, and its bytes; of damage, where it is and how much |
| damage | null, or what is wrong; the other columns are null then |
| index, term | as stored |
| body | what was appended |
| record, record_crc | all its bytes; their CRC-32, by which members are compared |
"""
ENTRY_DEFAULT: Final = tuple(n for n in ENTRY_COLUMNS if n not in ("record", "record_crc"))
