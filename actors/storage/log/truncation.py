"""Cuts the end off a log, crash-safe, and keeps what it cuts.

Upstream: MappedFileQueue.truncateDirtyFiles (5.3.3) moves positions and deletes files.
Differs: the bytes cut off are kept aside in `cut/`; the intent is on disk before the first byte
goes, so that a crash in the middle is finished at the next start; the rest of the file is zero
afterwards, so that no old record can be taken for one that follows the new end.

Order, each step synced before the next: have the file for the intent; copy aside; lower the synced
mark (the caller); write the intent; delete the later files from the last to the first; zero the
rest of the file that holds the end; clear the intent.

A start that is refused changes nothing, so it looks at the disk as it will be once an interrupted
truncation has ended (`as_if_cut`), before it ends one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import cast

import attrs

from actors.env.protocols import Disk, File, FileStat
from actors.errors import CorruptLog
from actors.storage.files.side_file import SideFile, SideFileDamaged, read_side_file
from actors.storage.files.whole_files import sync_folder_of
from actors.storage.layout import LogLayout
from actors.storage.log.commit_log import CommitLog, segment_bases, segment_path
from wire.files.commit_log import segment_name

CHUNK_BYTES = 4 << 20
"""The bytes after which a generator of this module yields."""
CUT_FILES_MAX = 256
"""How many files are kept in `cut/` before the oldest is deleted. A restart in the middle of a
message leaves one of a few KiB.
"""
REMOVE = "remove the file to have the log end where its records do"
NOTHING = -1
_ZEROS = bytes(CHUNK_BYTES)


def has_bytes_behind(disk: Disk, log: CommitLog, end_bytes: int) -> Generator[None, None, bool]:
    """Return whether any byte from `end_bytes` on is not zero. Yields every 4 MiB."""
    for base in log.bases():
        if base + log.segment_bytes <= end_bytes:
            continue
        with closing(disk.open(segment_path(log.folder, base), "r")) as file:
            for at, size in written_chunks(file, max(end_bytes - base, 0), log.segment_bytes):
                if not is_zero(file.pread(at, size)):
                    return True
                yield
    return False


def keep_aside(
    disk: Disk, layout: LogLayout, log: CommitLog, end_bytes: int
) -> Generator[None, None, int]:
    """Copy what is in the log from `end_bytes` on to `cut/OFFSET.N`, one file per segment.

    Trailing zeros are left out. It looks for bytes up to `log.written_bytes`, which after a load is
    the end of the last file. A copy of an earlier attempt that then found no room is used again, so
    that a full disk does not get more of them.

    Returns: how many bytes were kept. Yields every 4 MiB.
    """
    keep_intent(disk, layout)
    kept = 0
    for base in log.bases():
        if base + log.segment_bytes <= end_bytes or base >= log.written_bytes:
            continue
        start = max(end_bytes - base, 0)
        with closing(disk.open(segment_path(log.folder, base), "r")) as source:
            used = start
            end = min(log.segment_bytes, log.written_bytes - base)
            for at, size in written_chunks(source, start, end):
                data = source.pread(at, size)
                used = used if is_zero(data) else at + len(data.rstrip(b"\0"))
                yield
            if used == start:
                continue
            kept += used - start
            if not (yield from _has_copy(disk, layout, base + start, source, start, used)):
                yield from _copy(disk, layout, base + start, source, start, used)
    return kept


def _copy(
    disk: Disk, layout: LogLayout, offset: int, source: File, start: int, end: int
) -> Generator[None, None, None]:
    target = disk.open(_new_cut_path(disk, layout, offset), "x")
    try:
        for at in range(start, end, CHUNK_BYTES):
            target.pwrite(source.pread(at, min(CHUNK_BYTES, end - at)), at - start)
            yield
        target.sync()
    except OSError:
        disk.unlink(target.path)
        raise
    finally:
        target.close()
    disk.sync_dir(layout.cut)


def _has_copy(
    disk: Disk, layout: LogLayout, offset: int, source: File, start: int, end: int
) -> Generator[None, None, bool]:
    for name in disk.listdir(layout.cut):
        path = f"{layout.cut}/{name}"
        if name.startswith(f"{offset:020d}.") and (
            yield from is_copy(disk, path, source, start, end)
        ):
            return True
    return False


def is_copy(
    disk: Disk, path: str, source: File, start: int, end: int
) -> Generator[None, None, bool]:
    """Return whether the file at `path` holds the bytes [start, end) of `source`.

    If so, sync it and its name. Yields every 4 MiB.
    """
    with closing(disk.open(path, "r")) as file:
        if file.size_bytes != end - start:
            return False
        for at in range(start, end, CHUNK_BYTES):
            size = min(CHUNK_BYTES, end - at)
            if file.pread(at - start, size) != source.pread(at, size):
                return False
            yield
        file.sync()  # its maker may have been killed before it did that
    sync_folder_of(disk, path)
    return True


def cut_behind(
    disk: Disk, layout: LogLayout, log: CommitLog, end_bytes: int, lower: Callable[[], None]
) -> Generator[None, None, int]:
    """Keep aside and cut what is behind `end_bytes`, if anything is.

    Args:
        lower: lowers the synced mark to the end, and syncs that.

    Returns: how many bytes were kept aside.
    """
    if not (yield from has_bytes_behind(disk, log, end_bytes)):
        return 0
    kept = yield from keep_aside(disk, layout, log, end_bytes)
    lower()
    truncate(disk, layout, log, end_bytes)
    return kept


def keep_intent(disk: Disk, layout: LogLayout) -> None:
    """Make the file for a truncation's intent beforehand, so that writing it needs no room."""
    SideFile.open(disk, layout.truncating, 2)[0].close()


def truncate(disk: Disk, layout: LogLayout, log: CommitLog, end_bytes: int) -> None:
    """Make `end_bytes` the log's end. The synced mark must not be above it any more.

    Effects order: the intent is written and synced; the files are cut; the intent is cleared. If
    this raises, the log must be loaded anew.
    """
    assert log.min_bytes <= end_bytes
    with closing(SideFile.open(disk, layout.truncating, 2)[0]) as intent:
        intent.write((end_bytes, log.segment_bytes))
        intent.sync()
        log.forget_behind(end_bytes)
        cut_files(disk, log.folder, log.segment_bytes, end_bytes)
        intent.write((NOTHING, 0))
        intent.sync()
    log.set_end(end_bytes)


def set_end_only(disk: Disk, log: CommitLog, end_bytes: int) -> None:
    """Truncate as upstream: delete later files, but leave bytes behind the end in its file."""
    log.forget_behind(end_bytes)
    for base in segment_bases(disk, log.folder):
        if base >= end_bytes and base > log.min_bytes:
            disk.unlink(segment_path(log.folder, base))
    log.set_end(end_bytes)


def finish_interrupted(disk: Disk, layout: LogLayout, *, do: str = REMOVE) -> int | None:
    """Finish a truncation that a crash interrupted; called before the log is loaded.

    Args:
        do: what to do if the file of its intent is damaged, for people.

    Returns: the new end of the log; None if no truncation was interrupted.

    Raises: CorruptLog: the intent cannot be read.
    """
    cut = interrupted_at(disk, layout, do=do)
    if not disk.exists(layout.truncating):
        return None
    with closing(SideFile.open(disk, layout.truncating, 2)[0]) as intent:
        if cut is None:
            intent.sync()  # Cleared perhaps in the page cache only: it must not come back later.
            return None
        end_bytes, segment_bytes = cut
        cut_files(disk, layout.commit_log, segment_bytes, end_bytes)
        intent.write((NOTHING, 0))
        intent.sync()
        return end_bytes


def interrupted_at(disk: Disk, layout: LogLayout, *, do: str = REMOVE) -> tuple[int, int] | None:
    """Return the end that an interrupted truncation makes, and its file size; None without one.

    It only reads. Args, Raises: as `finish_interrupted`.
    """
    try:
        values = read_side_file(disk, layout.truncating, 2)
    except SideFileDamaged:
        raise CorruptLog(
            f"{layout.truncating}: it cannot be read, and says whether the log was being cut, and"
            f" where; {do}"
        ) from None
    return None if values is None or values[0] == NOTHING else (values[0], values[1])


def cut_files(disk: Disk, folder: str, segment_bytes: int, end_bytes: int) -> None:
    """Make all bytes from `end_bytes` on zero, and sync that. It may be repeated.

    The first file stays even if it is empty, because its name shows where the log continues.
    """
    bases = segment_bases(disk, folder)
    while bases and bases[-1] >= end_bytes and len(bases) > 1:
        disk.unlink(segment_path(folder, bases.pop()))
        disk.sync_dir(folder)
    if not bases or bases[-1] + segment_bytes <= end_bytes:
        return
    with closing(disk.open(segment_path(folder, bases[-1]), "w")) as file:
        file.resize(max(end_bytes - bases[-1], 0))
        file.resize(segment_bytes)
        file.sync()


def written_chunks(file: File, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the position and size of each chunk from `start` to `end` that may hold other bytes
    than zeros.

    Room that was only reserved is left out, because reading it fills the page cache with zeros, and
    takes 2 s of processor time for each GiB.
    """
    at = start
    while True:
        at, stretch_end = file.data_from(at)
        if at >= end or at == stretch_end:
            return
        size = min(CHUNK_BYTES, min(stretch_end, end) - at)
        yield at, size
        at += size


def is_zero(data: bytes) -> bool:
    """Return whether all bytes are zero. It is six times as fast as counting them."""
    return data == (_ZEROS if len(data) == CHUNK_BYTES else bytes(len(data)))


def _new_cut_path(disk: Disk, layout: LogLayout, offset: int) -> str:
    """Return a free path `cut/OFFSET.N`. If `cut/` is full, delete its oldest file."""
    disk.mkdir(layout.cut)
    names = disk.listdir(layout.cut)
    if len(names) >= CUT_FILES_MAX:
        ages = [(disk.stat(f"{layout.cut}/{name}").modified_ms, name) for name in names]
        disk.unlink(f"{layout.cut}/{min(ages)[1]}")
    number = 1
    while f"{offset:020d}.{number}" in names:
        number += 1
    return f"{layout.cut}/{offset:020d}.{number}"


def as_if_cut(disk: Disk, layout: LogLayout, *, do: str) -> Disk:
    """Return a view of the disk as it will be once an interrupted truncation is finished.

    Args:
        do: what to do if the file of its intent is damaged, for people.

    Returns: the view, which must only be read; `disk` itself if no truncation was interrupted.

    Raises: CorruptLog: the intent cannot be read.
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
    """A disk as it is after a truncation: `_last` has only zeros behind its first `_left` bytes."""

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
