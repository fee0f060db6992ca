"""Keeps a few stretches of a DLedger log in memory, decoded into entries.

A reader usually asks next for the entries that follow, so one read fetches many of them.

Upstream: openmessaging/dledger, DLedgerMmapFileStore.java, get (0.3.1.2), which reads one entry at
a time.
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
"""How many bytes one read fetches: some hundred entries for the price of one."""
STRETCHES_MAX: Final = 3
"""How many stretches are kept: a dispatcher looks at the entries that come next before it sends
those it has."""


class EntrySource(Protocol):
    """A reader beside a ledger's writer: of files (`reader`), or of memory (`memory_ledger`)."""

    def record(self, index: int) -> IndexRecord:
        """Implements `reader.EntryReader.record`."""

    def read(self, index: int, end_index: int, bytes_max: int) -> bytes:
        """Implements `reader.EntryReader.read`."""

    def forget(self) -> None:
        """Drop what was kept of the log: entries were removed, and others may now have their
        indexes.
        """


@attrs.define
class EntryWindow:
    """The entries of one reader, which has one owner; implements `core.dispatch.LedgerSizes`.

    Attributes:
        end: the index of the last entry that may be read; the owner raises it.
        recent: on a leader, the entries that it appended last, which need not be read from the log;
            None: every entry is read from the log.
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
        """Return one entry. Raises: IndexGone: it has left the log; StorageError; OSError."""
        held = self._at(index)
        return held[index - held[0].index]

    def entries(self, first: int, last: int) -> tuple[Entry, ...]:
        """Return the entries from `first` to `last`, both included. Raises: as `entry`."""
        found: tuple[Entry, ...] = ()
        while first <= last:
            held = self._at(first)
            start = held[0].index
            part = tuple(held[first - start : last + 1 - start])
            found = found + part if found else part
            first += len(part)
        return found

    def batch(self, first: int, last: int) -> tuple[tuple[Entry, ...], Raw | None]:
        """Return the entries as `entries` does, and their JSON if it is known, else None.

        Raises: as `entry`.
        """
        entries = self.entries(first, last)
        return (entries, None) if self.recent is None else self.recent.batch(entries)

    def fits(self, first: int, last_max: int, bytes_max: int) -> int:
        """See `LedgerSizes`; `first` itself if that entry has left the log."""
        try:
            held = self._at(first)
        except IndexGone:
            return first
        at = first - held[0].index
        limit = held[at].pos + bytes_max
        count = bisect_right(held, limit, lo=at, key=_end_of) - at
        return min(max(first + count - 1, first), last_max)

    def bytes_from(self, first: int) -> int:
        """See `LedgerSizes`; 0 if that entry has left the log."""
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
        """Return the stretch that holds the entry at `index`; read it if none does."""
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
    """An `EntrySource` that reports what it could not read, and then raises the same error.

    Its owner cannot know whether a file has expired, is damaged or is lost, nor whether an error of
    the disk will pass; the store can find out (`store_messages.Doubt`).

    Attributes:
        source: the source that is asked.
        doubt: called with the arguments of the read that failed; it must not wait.
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
