"""DLedger's data files read without the project's own code: the judge of the mixed groups."""

from __future__ import annotations

import struct
from pathlib import Path

import attrs

HEAD = struct.Struct(">iiqqqiiii")  # magic, size, index, term, pos, channel, 2 checksums, body size
MAGIC_ENTRY, MAGIC_BLANK = 1, -1


@attrs.frozen
class LedgerFiles:
    """A log as its files say it.

    Attributes:
        content: all bytes in use, blanks included.
        terms, bodies: of the entries; the first has index 0.
    """

    content: bytes
    terms: tuple[int, ...]
    bodies: tuple[bytes, ...]

    @classmethod
    def read(cls, folder: Path) -> LedgerFiles:
        """Up to the first thing that is no next entry."""
        content = b""
        terms: list[int] = []
        bodies: list[bytes] = []
        for path in sorted(folder.glob("[0-9]" * 20)) if folder.is_dir() else ():
            if int(path.name) != len(content):
                break
            data = path.read_bytes()
            length, full = _entries(data, int(path.name), terms, bodies)
            content += data[:length]
            if not full:
                break
        return cls(content, tuple(terms), tuple(bodies))


def _entries(data: bytes, start: int, terms: list[int], bodies: list[bytes]) -> tuple[int, bool]:
    """How many bytes of a file are in use, and whether that is all of it."""
    at = 0
    while at + 8 <= len(data):
        magic, size = struct.unpack_from(">ii", data, at)
        if magic == MAGIC_BLANK and size == len(data) - at:
            return len(data), True
        if magic != MAGIC_ENTRY or not HEAD.size <= size <= len(data) - at:
            break
        _, _, index, term, pos, _, _, _, body_size = HEAD.unpack_from(data, at)
        follows = index == len(terms) and term >= (terms[-1] if terms else 0)
        if not follows or pos != start + at or body_size != size - HEAD.size:
            break
        terms.append(term)
        bodies.append(data[at + HEAD.size : at + size])
        at += size
    return at, at == len(data)
