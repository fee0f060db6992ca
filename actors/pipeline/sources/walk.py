"""Finds how far a log reaches: the ends and times of its records, without their contents.

For the driver: what it walks over, the tasks read. Only the record at the very end is looked at
closely, for it may be half written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np

from actors.pipeline.sources.cells import Numbers
from actors.pipeline.sources.log_files import Log, Segment
from actors.pipeline.sources.stretches import (
    CHUNK_BYTES,
    Finding,
    Reading,
    Span,
    Tail,
    next_good,
    stretches,
)

_NONE: Final[Numbers] = np.empty(0, np.int64)
_FIRST_READ_MIN: Final = 4096
NOBODY: Final = -1


@attrs.frozen(eq=False, kw_only=True)
class Walked:
    """The records that were found from one position on.

    Attributes:
        begin: that position.
        end: the offset behind the last record; the start of the next file if one is full.
        starts, times: the start and the time of each record; see `Chunk.times`.
        more: whether the walk ended at its limit.
        tail: how the log ends; None if the walk did not reach its end, or the last file is full.
    """

    begin: int
    end: int
    starts: Numbers
    times: Numbers
    more: bool
    tail: Tail | None

    @property
    def last(self) -> int:
        """The start of the last record; NOBODY if there is none."""
        return int(self.starts[-1]) if len(self.starts) else NOBODY

    def cut(self, count: int) -> Walked:
        """Return a walk of only the first `count` records."""
        if count == len(self.starts):
            return self
        end = int(self.starts[count])
        return attrs.evolve(
            self,
            end=end,
            starts=self.starts[:count],
            times=self.times[:count],
            more=True,
            tail=None,
        )


def walk(
    log: Log,
    segments: Sequence[Segment],
    begin: int,
    reading: Reading,
    *,
    limit_bytes: int | None = None,
    until: int | None = None,
) -> Walked:
    """Find the records from `begin` on.

    Args:
        segments: the written files, listed before. A file behind the last one must not be begun
            before the last one is read, or its end would be taken for that of the log.
        begin: where a record begins; below the first file, that file's start counts.
        limit_bytes: the most bytes that are found, but at least one record; None: all.
        until: the offset at which the last record may end; None: any.
    """
    if until is not None and begin >= until:
        segments = ()
    light = attrs.evolve(reading, crc=False, chunk_bytes=_chunk_bytes(limit_bytes))
    starts, times = [_NONE], [_NONE]
    end, reached, tail, first = begin, begin, None, begin
    for segment in segments:
        if segment.end <= begin or (until is not None and segment.start >= until):
            continue
        span = Span(log, segment, max(begin, segment.start), segment.end)
        end = span.begin
        first = max(first, segments[0].start)
        for item in stretches(span, light, is_tail=segment is segments[-1]):
            if isinstance(item, Tail):
                tail, end = item, item.end
            elif isinstance(item, Finding):
                end = reached = item.offset + (item.size or 0)
            else:
                starts.append(item.starts + item.position)
                times.append(item.times)
                end, reached = item.position + item.scanned.end, int(starts[-1][-1])
            if _is_enough(first, end, reached, limit_bytes, until):
                break
        else:
            end = segment.end if tail is None else end
            continue
        break
    found = Walked(
        begin=begin, end=end, starts=np.concatenate(starts), times=np.concatenate(times),
        more=False, tail=tail,
    )  # fmt: skip
    return _finished(_limited(found, first, limit_bytes, until), log, segments, reading)


def _chunk_bytes(limit_bytes: int | None) -> int:
    if limit_bytes is None:
        return CHUNK_BYTES
    return min(CHUNK_BYTES, max(limit_bytes, _FIRST_READ_MIN))


def _is_enough(
    first: int, end: int, reached: int, limit_bytes: int | None, until: int | None
) -> bool:
    """Return whether a record is behind the limit, so that the one before it is surely whole."""
    return (limit_bytes is not None and reached - first >= limit_bytes) or (
        until is not None and end >= until
    )


def _limited(walked: Walked, first: int, limit_bytes: int | None, until: int | None) -> Walked:
    """Cut a walk to the records that end by the limit, but to at least one record."""
    last = walked.end if until is None else min(walked.end, until)
    if limit_bytes is not None:
        last = min(last, first + limit_bytes)
    is_full = limit_bytes is not None and walked.end - first >= limit_bytes
    if walked.end > last and len(walked.starts):
        ends = np.append(walked.starts[1:], walked.end)
        count = int(np.searchsorted(ends, last, "right"))
        walked = walked.cut(max(count, 1))
    return attrs.evolve(walked, more=is_full and walked.tail is None and walked.end != until)


def _finished(walked: Walked, log: Log, segments: Sequence[Segment], reading: Reading) -> Walked:
    """Cut a last record that is not whole yet off a walk."""
    if walked.tail is None or walked.last < segments[-1].start:
        return walked  # or no record at all: NOBODY lies before every file
    for item in stretches(Span(log, segments[-1], walked.last, walked.end), reading):
        if isinstance(item, Finding | Tail):
            reason = "the last record is gone"
        else:
            reason = reading.form.unfinished(log, item)
        if reason:
            tail = Tail(walked.last, reason, is_unfinished=True)
            return attrs.evolve(walked.cut(len(walked.starts) - 1), more=False, tail=tail)
    return walked


def is_there(log: Log, segments: Sequence[Segment], start: int, end: int, reading: Reading) -> bool:
    """Return whether a whole record begins at `start` and ends at `end` or before."""
    for segment in segments:
        if segment.start <= start < segment.end:
            span = Span(log, segment, start, min(end, segment.end))
            first = next(iter(stretches(span, attrs.evolve(reading, crc=False))), None)
            return first is not None and not isinstance(first, Finding | Tail)
    return False


def begins_at(log: Log, segments: Sequence[Segment], start: int, reading: Reading) -> bool:
    """Return whether a record, or a file, begins at `start`."""
    for segment in segments:
        if segment.start == start:
            return True
        if segment.start < start < segment.end:
            return next_good(Span(log, segment, start, segment.end), reading, start) == start
    return False
