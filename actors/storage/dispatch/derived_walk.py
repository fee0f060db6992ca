"""One walk through a part of the log, comparing what derives from its records with them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import attrs

from actors.storage.derived.derived_mends import Mend
from actors.storage.derived.queue_files import QueueKey
from actors.storage.dispatch.index_scrub import IndexScrub
from actors.storage.dispatch.queue_scrub import QueueScrub
from actors.storage.log.log_reader import LogReader, OffsetGone
from wire.files.commit_log import RecordHead, Stop, scan_heads

SLICE_BYTES: Final = 64 << 10
"""Bytes of the log looked at in one step: some milliseconds where records are small."""
HOLES_MAX: Final = 64
"""Damaged files of a log that are remembered within one round; entries of others are judged."""


@attrs.define(kw_only=True)
class DerivedWalk:
    """Compares step by step. Reads only.

    Attributes:
        reader, record_bytes_max: of the log.
        queues: compares units.
        index: compares entries; None: they are not looked at.
        at: where the next record begins.
        end: the walk ends there, or where the log does.
        only: the one queue that is looked at; None: all.
        read_bytes: of the log so far.
    """

    reader: LogReader
    record_bytes_max: int
    queues: QueueScrub
    index: IndexScrub | None
    at: int
    end: int | None = None
    only: QueueKey | None = None
    is_done: bool = False
    read_bytes: int = 0
    _wanted: int = 0

    @property
    def cost_bytes(self) -> int:
        """Read so far, of the log and of what derives from it."""
        index = 0 if self.index is None else self.index.read_bytes
        return self.read_bytes + self.queues.read_bytes + index

    def step(self, min_bytes: int, limit_bytes: int) -> Generator[None, None, list[Mend]]:
        """Compare the next records; gives what is damaged. At the walk's end `is_done` is set.

        Args:
            min_bytes, limit_bytes: records between them have their units and entries.

        Raises: OSError: a file cannot be read. Yields after every few queues.
        """
        self.at = max(self.at, min_bytes)
        limit = limit_bytes if self.end is None else min(self.end, limit_bytes)
        proof = self.queues.proof
        proof.min_bytes, proof.limit_bytes = min_bytes, limit_bytes
        found: list[Mend] = []
        heads = self._heads(limit)
        if heads:
            found += yield from self.queues.compare(heads, self.only)
            if self.index is not None:
                found += yield from self.index.compare(heads)
        if self.is_done and self.index is not None:
            found += yield from self.index.finish()
        return found

    def skip(self) -> None:
        """Go on with the next file: these records cannot be compared."""
        self._skip_to(self.at + self.reader.segment_bytes - self.at % self.reader.segment_bytes)

    def _heads(self, limit: int) -> list[RecordHead]:
        size = self.reader.segment_bytes
        if self.at >= limit:
            self.is_done = True
            return []
        try:
            data = self.reader.read(self.at, max(SLICE_BYTES, self._wanted), limit)
        except OffsetGone:
            self.skip()
            return []
        self.read_bytes += len(data)
        heads, stopped = scan_heads(data, physical_offset=self.at, size_max=self.record_bytes_max)
        self.at += stopped.end
        rest, file_end = len(data) - stopped.end, self.at - self.at % size + size
        self._wanted = 0
        match stopped.stop:
            case Stop.END if data:
                pass
            case Stop.BLANK if self.at + stopped.blank_bytes == file_end:
                self.at = file_end
            case Stop.INCOMPLETE if self.at + rest < min(file_end, limit):
                self._wanted = rest + stopped.missing_bytes
            case Stop.INCOMPLETE if self.at + rest >= limit:
                self.is_done = True
            case _:  # damage of the log, which is not ours to judge
                self.skip()
        return heads

    def _skip_to(self, at: int) -> None:
        if self.index is not None:
            self.index.holes.append((self.at, at))
            del self.index.holes[:-HOLES_MAX]
        self.at = at
