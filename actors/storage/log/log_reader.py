"""Reads a commit log beside its writer, with handles of its own and only in published ranges.

Upstream: SelectMappedBufferResult and MappedFile.hold (5.3.3) count references so that a mapped
file outlives its deletion. Here an open handle does that: POSIX keeps a deleted file readable, and
its blocks in use. So an owner calls `drop_below` with each LogGrew, even while nothing is read.
"""

from __future__ import annotations

from collections import OrderedDict

import attrs

from actors.env.protocols import Disk, File
from actors.errors import TriologError
from actors.storage.log.commit_log import segment_bases, segment_path

HANDLES_MAX = 8
"""How many files are kept open. A reader that follows needs one; one that catches up needs one
after the other.
"""


class OffsetGone(TriologError):
    """The file that holds the offset was deleted: the reader is too slow, or the offset too low."""


@attrs.define
class LogReader:
    """One reader's view of a log. Not shared between owners.

    Attributes:
        folder: absolute path of `commitlog/`.
        segment_bytes: size of every file.
    """

    _disk: Disk
    folder: str
    segment_bytes: int
    _handles: OrderedDict[int, File] = attrs.field(factory=OrderedDict, init=False)

    def read(self, offset: int, max_bytes: int, limit_offset: int) -> bytes:
        """Read bytes from `offset` on, of one file: at most `max_bytes`, and below `limit_offset`.

        Raises: OffsetGone; OSError.
        """
        size = min(max_bytes, limit_offset - offset)
        if size <= 0:
            return b""
        file, at, rest = self.file_at(offset)
        return file.pread(at, min(size, rest))

    def file_at(self, offset: int) -> tuple[File, int, int]:
        """Return the file that holds `offset`, the position in it, and the bytes to its end.

        The handle belongs to this reader, and is valid until the next call.

        Raises: OffsetGone; OSError.
        """
        assert offset >= 0
        base = offset - offset % self.segment_bytes
        file = self._handles.get(base)
        if file is None:
            try:
                file = self._disk.open(segment_path(self.folder, base), "r")
            except FileNotFoundError:
                raise OffsetGone(f"offset {offset} is not in {self.folder}") from None
            self._handles[base] = file
            while len(self._handles) > HANDLES_MAX:
                self._handles.popitem(last=False)[1].close()
        else:
            self._handles.move_to_end(base)
        return file, offset - base, base + self.segment_bytes - offset

    def bases(self) -> list[int]:
        """Return the first offsets of the files, ascending. Raises: OSError."""
        return segment_bases(self._disk, self.folder)

    def drop_below(self, min_bytes: int) -> None:
        """Release the files that end at or below the log's new first offset."""
        for base in [b for b in self._handles if b + self.segment_bytes <= min_bytes]:
            self._handles.pop(base).close()

    def close(self) -> None:
        while self._handles:
            self._handles.popitem()[1].close()
