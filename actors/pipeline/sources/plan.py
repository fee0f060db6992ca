"""Plans the reading of a log, in parts that tasks read at the same time.

Cuts lie at files, and inside files where records begin: only a walk from a file's start finds those
surely, for a body may hold anything. The driver walks the last file anyway, to find the end; others
it walks only where a log has too few files to keep a cluster busy, and one is too large for a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs
import numpy as np
from pyspark.sql.datasource import InputPartition

from actors.pipeline.errors import SourceError
from actors.pipeline.sources.cells import Numbers
from actors.pipeline.sources.log_files import Log, LogFolder, Segment
from actors.pipeline.sources.options import EARLIEST, LATEST, Options
from actors.pipeline.sources.stretches import Finding, Reading, Span, Tail, next_good
from actors.pipeline.sources.walk import Walked, begins_at, walk

FILES_ENOUGH: Final = 4
"""The number of files from which on one task for each suffices. A walk over all of them would take
16 bytes of the driver's memory for each record."""

Part = Span | Finding


@attrs.frozen
class Extent:
    """The extent of a log at one moment.

    Attributes:
        segments: the written files.
        walked: the walk over the last file, or over all files if they are few.
    """

    segments: Sequence[Segment]
    walked: Walked | None

    @property
    def begin(self) -> int:
        return self.segments[0].start if self.segments else 0

    @property
    def end(self) -> int:
        return self.begin if self.walked is None else self.walked.end


def extent_of(log: Log, reading: Reading, *, task_bytes: int | None = None) -> Extent:
    """Return where a log begins and ends now.

    Args:
        task_bytes: the size above which files are cut; None: they are not.
    """
    folder = LogFolder(log)
    segments = folder.written(folder.segments())
    if not segments:
        return Extent((), None)
    is_large = task_bytes is not None and any(each.size > task_bytes for each in segments)
    first = 0 if is_large and len(segments) < FILES_ENOUGH else -1
    return Extent(segments, walk(log, segments, segments[first].start, reading))


def begin_of(log: Log, extent: Extent, start: str | int, reading: Reading) -> int:
    """Return where reading begins, by the option from.

    Raises:
        SourceError: no record begins at that offset.
    """
    if start == EARLIEST:
        return extent.begin
    if start == LATEST:
        return extent.end
    assert isinstance(start, int)
    if start > extent.end:
        raise SourceError(f"option from: {log.name} ends at {extent.end}, before {start}")
    below = start < extent.begin or start == extent.end
    if not below and not begins_at(log, extent.segments, start, reading):
        raise SourceError(f"option from: no record of {log.name} begins at {start}")
    return start


def parts_of(
    log: Log, segments: Sequence[Segment], begin: int, end: int, cuts: Sequence[int] = ()
) -> list[Part]:
    """Plan the reading between two offsets: spans in order, and findings where files are missing.

    Args:
        segments: the written files.
        cuts: the offsets at which a span may end, ascending.
    """
    parts: list[Part] = []
    at = begin
    for segment in segments:
        if segment.end <= at or segment.start >= end:
            continue
        if segment.start > at:
            parts.append(_missing(log, at, segment.start, is_first=segment is segments[0]))
            at = segment.start
        stop = min(segment.end, end)
        for edge in (*(cut for cut in cuts if at < cut < stop), stop):
            parts.append(Span(log, segment, at, edge))
            at = edge
    if at < end:
        parts.append(_missing(log, at, end, is_first=not segments or segments[0].start >= end))
    return parts


def _missing(log: Log, begin: int, end: int, *, is_first: bool) -> Finding:
    why = "expired: deleted before it was read" if is_first else "a file is missing here"
    return Finding(log.name, begin, end - begin, why)


def cuts_of(starts: Numbers, partition_bytes: int) -> list[int]:
    """Return starts of records that are about `partition_bytes` apart."""
    if not len(starts):
        return []
    wanted = np.arange(starts[0] + partition_bytes, starts[-1], partition_bytes)
    found = np.unique(starts[np.searchsorted(starts, wanted)])
    return [int(cut) for cut in found]


def batch_parts(log: Log, options: Options, reading: Reading) -> list[Part]:
    """Return the parts of a log from where the option from says, and how the log ends.

    Raises:
        SourceError: the option from does not fit a batch, or the log.
    """
    if options.start == LATEST:
        raise SourceError("option from: latest is for streams; a batch would read nothing")
    extent = extent_of(log, reading, task_bytes=options.partition_bytes)
    begin = begin_of(log, extent, options.start, reading)
    if extent.walked is None:
        return []
    cuts = cuts_of(extent.walked.starts, options.partition_bytes)
    parts = parts_of(log, extent.segments, begin, extent.end, cuts)
    return [*parts, *_end_of(log, extent, reading)]


def _end_of(log: Log, extent: Extent, reading: Reading) -> list[Finding]:
    """Return a finding about what is behind the log's end; [] if nothing is."""
    tail = None if extent.walked is None else extent.walked.tail
    if tail is None or not tail.reason:
        return []
    text = f"the log ends here: {tail.reason}"
    behind = None if tail.is_unfinished else _behind(log, extent.segments[-1], tail, reading)
    if behind is not None:
        text += f"; a whole record lies behind it at {behind}, damaged or left from a truncation"
    return [Finding(log.name, tail.end, None, text)]


def _behind(log: Log, segment: Segment, tail: Tail, reading: Reading) -> int | None:
    span = Span(log, segment, tail.end, segment.end)
    try:
        found = next_good(span, reading, tail.end + 1)
    except FileNotFoundError:
        return None
    return found if found < span.end else None


def packed(parts: Iterable[Part], partition_bytes: int) -> list[tuple[Part, ...]]:
    """Divide parts, in their order, into packs of about `partition_bytes`, one for each task."""
    packs: list[tuple[Part, ...]] = []
    pack: list[Part] = []
    size = 0
    for part in parts:
        bytes_of = part.end - part.begin if isinstance(part, Span) else 0
        if pack and size + bytes_of > partition_bytes:
            packs.append(tuple(pack))
            pack, size = [], 0
        pack.append(part)
        size += bytes_of
    return [*packs, tuple(pack)] if pack else packs


class LogPartition(InputPartition):
    """The parts of one log that one task reads, in order."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        super().__init__(parts)
        self.parts = parts
