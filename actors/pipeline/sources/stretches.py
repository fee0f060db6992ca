"""Reads a file of a log from one position to another: pieces of whole records, and what is wrong.

The end of a log is where its last file stops making sense: a record that is being written looks
like a broken one, and what lies behind may be left over from before a truncation. Anywhere else the
same is damage: it is named, and reading goes on at the next record that names its own position.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import attrs

from actors.pipeline.sources.entry_chunk import Behind
from actors.pipeline.sources.formats import Chunk, Format
from actors.pipeline.sources.log_files import Log, LogFolder, Segment
from actors.readable import counted
from wire.files.scanned import Scanned, Stop

CHUNK_BYTES: Final = 4 << 20
"""How many bytes are read at once: some ten thousand small records, a good size of an Arrow batch.
"""
_OVERLAP: Final = 128  # above the fixed part of any record
_SIZE_BYTES: Final = 4


@attrs.frozen
class Finding:
    """Something wrong in a log.

    Attributes:
        log: the log's name.
        offset: where it is.
        size: how many bytes cannot be read because of it; None if that is unknown.
        damage: what is wrong.
    """

    log: str
    offset: int
    size: int | None
    damage: str


@attrs.frozen
class Tail:
    """Where a log ends.

    Attributes:
        end: the offset behind its last whole record.
        reason: what is wrong with the bytes there; "" if nothing was written there.
        is_unfinished: whether they may be the beginning of a record.
    """

    end: int
    reason: str = ""
    is_unfinished: bool = False


@attrs.frozen
class Span:
    """A part of one file, from the start of a record to the end of another, or of the file.

    Attributes:
        log: the log.
        segment: the file.
        begin, end: its range of offsets in the log.
    """

    log: Log
    segment: Segment
    begin: int
    end: int


Item: TypeAlias = Chunk | Finding | Tail


@attrs.frozen
class Reading:
    """How a log's files are read.

    Attributes:
        form: the format of the log.
        crc: whether the CRCs of bodies are compared.
        size_max: the size of the largest record; a larger stated size is damage.
        chunk_bytes: how many bytes are read at once.
    """

    form: Format
    crc: bool
    size_max: int
    chunk_bytes: int = CHUNK_BYTES


def stretches(span: Span, reading: Reading, *, is_tail: bool = False) -> Iterator[Item]:
    """Yield all records of a span, and what is wrong in it.

    It never raises for what the bytes are, nor if the file is gone or shorter than it was.

    Args:
        is_tail: whether the file is the log's last one. Then a Tail comes at the end of its good
            records, unless it is full.
    """
    try:
        file = LogFolder(span.log).open(span.segment)
    except FileNotFoundError:
        yield Finding(span.log.name, span.begin, span.end - span.begin, "the file is gone")
        return
    with file:
        yield from _Stretches(file, span, reading, is_tail).items()


@attrs.define
class _Stretches:
    file: Any
    span: Span
    reading: Reading
    is_tail: bool

    def items(self) -> Iterator[Item]:
        at, end = self.span.begin, self.span.end
        want, behind = self.reading.chunk_bytes, Behind()
        while at < end:
            asked = min(want, end - at)
            data = self._read(at, asked)
            want = self.reading.chunk_bytes
            chunk = self._find(data, at, behind)
            if len(chunk.starts):
                yield chunk
            behind = self.reading.form.follow(chunk, behind)
            scanned = chunk.scanned
            at += scanned.end
            if len(data) < asked and scanned.stop in (Stop.END, Stop.INCOMPLETE):
                reason = f"the file ends {counted(end - at, 'byte')} too early"
                yield Tail(at, reason) if self.is_tail else self._finding(at, end, reason)
                return
            if scanned.stop is Stop.END:
                continue
            if scanned.stop is Stop.BLANK and at + scanned.blank_bytes == self.span.segment.end:
                return
            if scanned.stop is Stop.BLANK and self._is_head(at, scanned.blank_bytes):
                at += scanned.blank_bytes
                continue
            rest = len(data) - scanned.end
            if scanned.stop is Stop.INCOMPLETE and rest < end - at:
                want = max(want, rest + scanned.missing_bytes)
                continue
            reason = self._reason(scanned, at)
            if self.is_tail:
                yield Tail(at, reason, scanned.stop is Stop.INCOMPLETE)
                return
            good = self.next_good(at + 1)
            yield self._finding(at, good, reason or "nothing was written here")
            at, behind = good, Behind()

    def _is_head(self, at: int, blank_bytes: int) -> bool:
        """Return whether a BLANK fills a file up to where the log of a re-based member begins."""
        segment = self.span.segment
        is_first = at == segment.start and at + blank_bytes < segment.end
        return is_first and self.reading.form.has_blank_heads

    def next_good(self, at: int) -> int:
        """Return where the next whole record from `at` on begins; the span's end if none does."""
        while at < self.span.end:
            data = self._read(at, min(self.reading.chunk_bytes + _OVERLAP, self.span.end - at))
            for found in self.reading.form.candidates(data, at):
                if self._is_whole(data, found, at):
                    return at + found
            if len(data) <= _OVERLAP:
                break
            at += len(data) - _OVERLAP
        return self.span.end

    def _is_whole(self, data: bytes, found: int, at: int) -> bool:
        size_at = found + self.reading.form.size_at
        size = int.from_bytes(data[size_at : size_at + _SIZE_BYTES], "big")
        if size > min(self.reading.size_max, self.span.end - at - found):
            return False
        record = self._read(at + found, size)
        chunk = self._find(record, at + found, Behind())
        return len(chunk.starts) == 1 and self.reading.form.wrong(chunk) is None

    def _read(self, at: int, size: int) -> bytes:
        data: bytes = self.file.read_at(size, at - self.span.segment.start)
        return data

    def _find(self, data: bytes, at: int, behind: Behind) -> Chunk:
        reading = self.reading
        return reading.form.find(data, at, reading.crc, behind, reading.size_max)

    def _finding(self, at: int, end: int, damage: str) -> Finding:
        return Finding(self.span.log.name, at, end - at, damage)

    def _reason(self, scanned: Scanned, at: int) -> str:
        match scanned.stop:
            case Stop.UNWRITTEN:
                return ""
            case Stop.BLANK:
                rest = self.span.segment.end - at
                return f"a BLANK of {scanned.blank_bytes} bytes, {rest} before the file's end"
            case Stop.INCOMPLETE:
                return (
                    f"the file ends {counted(scanned.missing_bytes, 'byte')} before a record does"
                )
            case _:
                return scanned.reason


def next_good(span: Span, reading: Reading, at: int) -> int:
    """Return where a span's next whole record from `at` on begins; its end if none does.

    Raises:
        FileNotFoundError: the file is gone.
    """
    with LogFolder(span.log).open(span.segment) as file:
        return _Stretches(file, span, reading, is_tail=False).next_good(at)
