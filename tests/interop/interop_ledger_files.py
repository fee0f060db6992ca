"""DLedger's data and index files read without the project's own code: the mixed groups' judge."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import attrs

HEAD = struct.Struct(">iiqqqiiii")  # magic, size, index, term, pos, channel, 2 checksums, body size
MAGIC_ENTRY, MAGIC_BLANK = 1, -1
RECORD = struct.Struct(">iqiqq")  # of the index: magic, pos, size, index, term


@attrs.frozen
class LedgerFiles:
    """A log as its files say it.

    Attributes:
        content: all bytes in use, blanks included.
        terms, bodies: of the entries; the first has index 0.
        indexed: how many of them, from the first on, have their own record in the index.
    """

    content: bytes
    terms: tuple[int, ...]
    bodies: tuple[bytes, ...]
    indexed: int

    @classmethod
    def read(cls, folder: Path) -> LedgerFiles:
        """Up to the first thing that is no next entry.

        Args:
            folder: with `data` and `index`.
        """
        content = b""
        terms: list[int] = []
        bodies: list[bytes] = []
        places: list[tuple[int, int]] = []
        for path in _files(folder / "data"):
            data = path.read_bytes()
            length, full = _entries(data, int(path.name), terms, bodies, places)
            content += data[:length]
            if not full:
                break
        records = _beginning(folder / "index", len(terms) * RECORD.size)
        return cls(content, tuple(terms), tuple(bodies), _indexed(records, terms, places))


def _files(folder: Path) -> Iterator[Path]:
    """Those that follow one another without a gap from 0 on."""
    end = 0
    for path in sorted(folder.glob("[0-9]" * 20)) if folder.is_dir() else ():
        if int(path.name) != end:
            return
        yield path
        end += path.stat().st_size


def _beginning(folder: Path, length: int) -> bytes:
    """So many bytes; upstream's index files have 160 MiB from the first record on."""
    found = b""
    for path in _files(folder):
        with path.open("rb") as file:
            found += file.read(length - len(found))
    return found


def _indexed(records: bytes, terms: list[int], places: list[tuple[int, int]]) -> int:
    """See `LedgerFiles.indexed`. What a truncation left behind the last one does not count."""
    for index, (term, (pos, size)) in enumerate(zip(terms, places, strict=True)):
        end = (index + 1) * RECORD.size
        if records[end - RECORD.size : end] != RECORD.pack(MAGIC_ENTRY, pos, size, index, term):
            return index
    return len(terms)


def _entries(
    data: bytes, start: int, terms: list[int], bodies: list[bytes], places: list[tuple[int, int]]
) -> tuple[int, bool]:
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
        places.append((pos, size))
        at += size
    return at, at == len(data)
