"""Reads ranges of a log's files, and digests them.

That is done beside the event loop: half of the time Python's lock is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import attrs

from actors.env.protocols import File
from actors.storage.log.digests import digest_of

BLOCK_BYTES: Final = 256 << 10
"""How many bytes are read at once, so that they stay in the processor's cache while digested."""

Span: TypeAlias = tuple[int, int]
"""The log bytes [start, end) of one range."""


@attrs.frozen
class RangeRead:
    """The result of reading a range.

    Attributes:
        start, end: the range.
        digest: the digest of its bytes; None if they could not be read.
        data: its bytes, if they were wanted.
        problem: why they could not be read; "" if they could.
    """

    start: int
    end: int
    digest: int | None
    data: bytes = b""
    problem: str = ""


Reading: TypeAlias = Callable[[], list[RangeRead]]
"""A read that `RunBeside` runs beside the loop."""


def read_ranges(
    file: File, base: int, spans: Sequence[Span], *, keeps: bool, before: int = 0
) -> list[RangeRead]:
    """Read the ranges `spans`, which follow each other, of the log file that begins at `base`.

    Args:
        keeps: whether their bytes are wanted.
        before: the digest of the bytes of the first range that precede its span; 0: none do.

    If the disk fails nothing is raised; `RangeRead.problem` says why.
    """
    found: list[RangeRead] = []
    for block in _blocks(spans):
        found += _read_block(file, base, block, keeps=keeps, before=before)
        before = 0
    return found


def read_changed(
    file: File, base: int, spans: Sequence[Span], known: Sequence[int | None]
) -> list[RangeRead]:
    """Read ranges as `read_ranges` does; return only those whose digest is not the known one.

    Mostly there are none, so the loop has no work for each range.
    """
    changed: list[RangeRead] = []
    at = 0
    for block in _blocks(spans):
        digests = known[at : at + len(block)]
        at += len(block)
        found = _read_block(file, base, block, keeps=False)
        for each, digest in zip(found, digests, strict=True):
            if each.digest is None or each.digest != digest:
                changed.append(each)
    return changed


def _blocks(spans: Sequence[Span]) -> Iterator[Sequence[Span]]:
    first = 0
    for number, (_, end) in enumerate(spans, 1):
        if number == len(spans) or end - spans[first][0] >= BLOCK_BYTES:
            yield spans[first:number]
            first = number


def _read_block(
    file: File, base: int, block: Sequence[Span], *, keeps: bool, before: int = 0
) -> list[RangeRead]:
    """Read one block; if the disk fails, read each range alone. Args: as in `read_ranges`."""
    start, end = block[0][0], block[-1][1]
    try:
        data = file.pread(start - base, end - start)
    except OSError as error:
        if len(block) > 1:
            return [
                *read_ranges(file, base, block[:1], keeps=keeps, before=before),
                *(_read_block(file, base, (span,), keeps=keeps)[0] for span in block[1:]),
            ]
        problem = f"it cannot be read: {error.strerror or error}"
        return [RangeRead(start, end, None, problem=problem)]
    view, found = memoryview(data), []
    for first, behind in block:
        part = view[first - start : behind - start]
        if len(part) < behind - first:
            found.append(RangeRead(first, behind, None, problem="its file is too short"))
        else:
            kept = bytes(part) if keeps else b""
            found.append(RangeRead(first, behind, digest_of(part, before), kept))
        before = 0
    return found
