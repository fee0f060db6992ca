"""Keeps a stretch of the log as entries: a reader usually asks next for the entries that follow.

Upstream: openmessaging/dledger, DLedgerMmapFileStore.java, get (0.3.1.2), one entry at a time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import attrs
from msgspec import Raw

from actors.errors import StorageError
from actors.storage.ledger.ledger import FileGone, IndexGone
from actors.storage.ledger.recent import RecentEntries
from wire.dledger.entry import Entry, IndexRecord, decode_entries

AHEAD_BYTES: Final = 256 << 10
"""Read at once: some hundred entries for the price of one."""
STRETCHES_MAX: Final = 3
"""Held at once: a dispatcher looks at what comes next before it sends what it has."""


class EntrySource(Protocol):
    """A reader beside a ledger's writer: of files (`reader`), or of memory (`memory_ledger`)."""

    def record(self, index: int) -> IndexRecord:
        """Implements `reader.EntryReader.record`."""

    def read(self, index: int, end_index: int, bytes_max: int) -> bytes:
        """Implements `reader.EntryReader.read`."""

    def forget(self) -> None:
        """Entries have left the log: what was held of it may be another one now."""


@attrs.define
class EntryWindow:
    """The entries of one reader, not shared between owners; implements `core.dispatch.LedgerSizes`.

    Attributes:
        end: the index of the last entry that may be read; the owner raises it.
        recent: on a leader, entries that need not be read; None: all are read.
    """

    source: EntrySource
    end: int = -1
    recent: RecentEntries | None = None
    _stretches: list[list[Entry]] = attrs.field(factory=list, init=False)  # the newest first
    _end_bytes: tuple[int, int] = attrs.field(default=(-1, 0), init=False)

    def forget(self) -> None:
        """Implements `EntrySource.forget`."""
        self._stretches.clear()
        self._end_bytes = (-1, 0)
        self.source.forget()

    def entry(self, index: int) -> Entry:
        """Raises: IndexGone; StorageError; OSError."""
        held = self._at(index)
        return held[index - held[0].index]

    def entries(self, first: int, last: int) -> tuple[Entry, ...]:
        """From `first` to `last`. Raises: as `entry`."""
        found: tuple[Entry, ...] = ()
        while first <= last:
            held = self._at(first)
            start = held[0].index
            part = tuple(held[first - start : last + 1 - start])
            found = found + part if found else part
            first += len(part)
        return found

    def batch(self, first: int, last: int) -> tuple[tuple[Entry, ...], Raw | None]:
        """As `entries`, with their JSON where it is known. Raises: as `entry`."""
        entries = self.entries(first, last)
        return (entries, None) if self.recent is None else self.recent.batch(entries)

    def fits(self, first: int, last_max: int, bytes_max: int) -> int:
        """See `LedgerSizes`; of what has left the log, one entry."""
        try:
            held = self._at(first)
        except IndexGone:
            return first
        at = first - held[0].index
        limit = held[at].pos + bytes_max
        count = bisect_right(held, limit, lo=at, key=_end_of) - at
        return min(max(first + count - 1, first), last_max)

    def bytes_from(self, first: int) -> int:
        """See `LedgerSizes`; of what has left the log, 0."""
        try:
            return self._behind() - self.entry(first).pos
        except IndexGone:
            return 0

    def _behind(self) -> int:
        index, end = self._end_bytes
        if index != self.end:
            recent = None if self.recent is None else self.recent.end_of(self.end)
            if recent is not None:
                end = recent
            else:
                record = self.source.record(self.end)
                end = record.pos + record.size
            self._end_bytes = (self.end, end)
        return end

    def _at(self, index: int) -> list[Entry]:
        """The stretch that holds `index`."""
        assert 0 <= index <= self.end
        for held in self._stretches:
            if held[0].index <= index <= held[-1].index:
                return held
        found = [] if self.recent is None else self.recent.stretch(index, AHEAD_BYTES)
        if not found:
            found = decode_entries(self.source.read(index, self.end, AHEAD_BYTES))
        del self._stretches[STRETCHES_MAX - 1 :]
        self._stretches.insert(0, found)
        return found


def _end_of(entry: Entry) -> int:
    return entry.pos + entry.size


@attrs.frozen
class DoubtedSource:
    """An `EntrySource` that reports what it could not read; it raises what the one inside does.

    Its owner cannot know whether a file has expired, is damaged or lost, nor whether an error of
    the disk passes; the writer can find out (`store.Doubt`).

    Attributes:
        source: the one inside.
        doubt: called with `read`'s arguments where that failed; it does not wait.
    """

    source: EntrySource
    doubt: Callable[[int, int, int], None]

    def record(self, index: int) -> IndexRecord:
        with self._reporting(index, index, 0):
            return self.source.record(index)

    def read(self, index: int, end_index: int, bytes_max: int) -> bytes:
        with self._reporting(index, end_index, bytes_max):
            return self.source.read(index, end_index, bytes_max)

    def forget(self) -> None:
        self.source.forget()

    @contextmanager
    def _reporting(self, index: int, end_index: int, bytes_max: int) -> Iterator[None]:
        try:
            yield
        except (FileGone, StorageError, OSError):
            self.doubt(index, end_index, bytes_max)
            raise
