"""Reads ranges of a log and digests them, beside the event loop: half of the time Python's lock is
free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import attrs

from actors.env.protocols import File
from actors.storage.log.digests import digest_of

BLOCK_BYTES: Final = 256 << 10
"""Read at once: it stays in the processor's cache while it is digested."""

Span: TypeAlias = tuple[int, int]
"""Log bytes [start, end) of one range."""


@attrs.frozen
class Found:
    """What lies in a range.

    Attributes:
        start, end: the range.
        digest: of its bytes; None: the disk did not give them.
        data: its bytes, if they were wanted.
        problem: why there is no digest.
    """

    start: int
    end: int
    digest: int | None
    data: bytes = b""
    problem: str = ""


Reading: TypeAlias = Callable[[], list[Found]]
"""Work for `RunBeside`."""


def read_ranges(file: File, base: int, spans: Sequence[Span], *, keeps: bool) -> list[Found]:
    """The ranges `spans`, one behind the other, of the log file that begins at `base`.

    Args:
        keeps: their bytes are wanted.

    Raises: nothing for what the disk does.
    """
    found: list[Found] = []
    for block in _blocks(spans):
        found += _read_block(file, base, block, keeps=keeps)
    return found


def read_changed(
    file: File, base: int, spans: Sequence[Span], known: Sequence[int | None]
) -> list[Found]:
    """As `read_ranges`, but only those whose digest is not the known one: mostly none, so that the
    loop has nothing to do for each.
    """
    changed: list[Found] = []
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


def _read_block(file: File, base: int, block: Sequence[Span], *, keeps: bool) -> list[Found]:
    """Where the disk does not give a block it is asked for each range alone."""
    start, end = block[0][0], block[-1][1]
    try:
        data = file.pread(start - base, end - start)
    except OSError as error:
        if len(block) > 1:
            return [_read_block(file, base, (span,), keeps=keeps)[0] for span in block]
        problem = f"it cannot be read: {error.strerror or error}"
        return [Found(start, end, None, problem=problem)]
    view, found = memoryview(data), []
    for first, behind in block:
        part = view[first - start : behind - start]
        if len(part) < behind - first:
            found.append(Found(first, behind, None, problem="its file is too short"))
        else:
            kept = bytes(part) if keeps else b""
            found.append(Found(first, behind, digest_of(part), kept))
    return found
