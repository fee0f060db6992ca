"""A disk as it will be once an interrupted truncation has ended, to be read from alone.

A start that is refused changes nothing, so it looks at what it will have before it ends one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import attrs

from actors.env.protocols import Disk, File, FileStat
from actors.storage.layout import LogLayout
from actors.storage.log.commit_log import segment_bases, segment_path
from actors.storage.log.truncation import interrupted_at
from wire.files.commit_log import segment_name


def as_if_cut(disk: Disk, layout: LogLayout, *, do: str) -> Disk:
    """`disk` itself, where no truncation was interrupted.

    Args:
        do: what is to be done where the file that says so is damaged.

    Raises: CorruptLog: what says so cannot be read.
    """
    cut = interrupted_at(disk, layout, do=do)
    if cut is None:
        return disk
    end, size = cut
    bases = segment_bases(disk, layout.commit_log)
    gone = set[str]()
    while bases and bases[-1] >= end and len(bases) > 1:  # as `truncation.cut_files`
        gone.add(segment_name(bases.pop()))
    last, left = "", 0
    if bases and bases[-1] + size > end:
        last, left = segment_path(layout.commit_log, bases[-1]), max(end - bases[-1], 0)
    view = _CutView(disk, layout.commit_log, gone, last, left, size)
    return cast("Disk", view)  # Nobody who was given it may write.


@attrs.define
class _CutView:
    """See the module's text; `_last` ends in zeros behind its first `_left` bytes."""

    _disk: Disk
    _folder: str
    _gone: set[str]
    _last: str
    _left: int
    _size: int

    def open(self, path: str, mode: str) -> File:
        assert mode == "r"
        file = self._disk.open(path, mode)
        if path != self._last:
            return file
        return cast("File", _CutFile(file, self._left, self._size))

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def stat(self, path: str) -> FileStat:
        found = self._disk.stat(path)
        return attrs.evolve(found, size_bytes=self._size) if path == self._last else found

    def listdir(self, path: str) -> list[str]:
        names = self._disk.listdir(path)
        return [name for name in names if path != self._folder or name not in self._gone]

    def names(self, path: str) -> Iterator[str]:
        return self._disk.names(path)  # of derived files, which are as they were


@attrs.define
class _CutFile:
    _file: File
    _left: int
    size_bytes: int

    @property
    def path(self) -> str:
        return self._file.path

    def pread(self, offset: int, size: int) -> bytes:
        wanted = max(min(size, self.size_bytes - offset), 0)
        return self._file.pread(offset, max(min(wanted, self._left - offset), 0)).ljust(
            wanted, b"\0"
        )

    def data_from(self, offset: int) -> tuple[int, int]:
        start, end = self._file.data_from(offset)
        if start < min(end, self._left):
            return start, min(end, self._left)
        return max(offset, self.size_bytes), max(offset, self.size_bytes)

    def close(self) -> None:
        self._file.close()
