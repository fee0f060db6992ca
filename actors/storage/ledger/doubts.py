"""A reader beside a ledger's writer that tells of what it could not read.

Upstream has nothing like it. The owner of such a reader cannot know whether a file was let go of,
damaged or lost, nor whether an error of the disk passes; the writer can (`store.Doubt`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs

from actors.errors import StorageError
from actors.storage.ledger.entry_window import EntrySource
from actors.storage.ledger.ledger import FileGone
from wire.dledger.entry import IndexRecord


@attrs.frozen
class DoubtedSource:
    """`EntrySource`; raises what the one inside does.

    Attributes:
        source: reads.
        doubt: told `read`'s arguments where that failed; does not wait.
    """

    source: EntrySource
    doubt: Callable[[int, int, int], None]

    def record(self, index: int) -> IndexRecord:
        with self._telling(index, index, 0):
            return self.source.record(index)

    def read(self, index: int, end_index: int, bytes_max: int) -> bytes:
        with self._telling(index, end_index, bytes_max):
            return self.source.read(index, end_index, bytes_max)

    def forget(self) -> None:
        self.source.forget()

    @contextmanager
    def _telling(self, index: int, end_index: int, bytes_max: int) -> Iterator[None]:
        try:
            yield
        except (FileGone, StorageError, OSError):
            self.doubt(index, end_index, bytes_max)
            raise
