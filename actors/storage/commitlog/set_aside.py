"""Sets aside what a log has beyond an offset, before its store opens, for a slave's `resync`.

Whoever asks for it remembers that until the store has opened, so a start that was interrupted does
it again: every step may be repeated, and what was moved stays moved. Nothing is deleted: it lies in
`aside/OFFSET.N/`, under a number of its own for each attempt.

Order of a tail: have the file for the intent of the last step, see that files can be moved, and
copy what cannot get there by a new name, which may fail and has changed nothing then; lower the
synced mark; move the later files, the last one first; cut the file that holds the offset
(`truncation`). If the whole log has to go, all that belongs to it is moved, the log last; folders
stay, for they may be links or mounts, and so do names that are none of ours. Until all copies are
synced the new folder in `aside/` is called
`OFFSET.N.part`. The queues and the index are cut by the dispatcher when it starts, as after any
other cut.

Files get from one folder to another wherever either lies: on another disk they are copied. A folder
of a store may be a link, or a mount, so what is moved is what lies in it, never the folder itself:
the link would go elsewhere, a mount cannot be moved. Between two mounts, even of one file system,
nothing can be renamed (EXDEV): then a file is copied, its copy synced, and only then removed.
"""

from __future__ import annotations

import errno
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager

import attrs

from actors.env.path_kinds import is_folder
from actors.env.protocols import Disk
from actors.storage.derived.index_files import is_index_name
from actors.storage.derived.queue_files import is_safe_topic, walk_names
from actors.storage.derived.small_files import lower_offsets
from actors.storage.files.side_file import lower_side_file
from actors.storage.files.whole_files import write_new
from actors.storage.layout import LogLayout, StoreLayout
from actors.storage.log import truncation
from actors.storage.log.commit_log import CommitLog, segment_bases, segment_path
from actors.storage.log.truncation import written_chunks
from wire.files.commit_log import segment_name

PROBE = ".moving"
"""An empty file, for a moment; one that a crash left is no file of ours by its name."""


def may_rename(disk: Disk, source: str, target: str) -> bool:
    """Whether a file gets from one folder to the other by a new name. Tried with an empty one.

    Raises: OSError: nothing can be made in one of them; nothing was changed then.
    """
    probes = (f"{source}/{PROBE}", f"{target}/{PROBE}")
    _remove(disk, probes)
    disk.open(probes[0], "x").close()
    try:
        disk.rename(*probes)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        disk.open(probes[1], "x").close()  # raises if it may not be written to
        return False
    finally:
        _remove(disk, probes)
    return True


def _remove(disk: Disk, paths: tuple[str, ...]) -> None:
    for path in paths:
        if disk.exists(path):
            disk.unlink(path)


def copy_into(disk: Disk, source: str, folder: str) -> Generator[None, None, None]:
    """Copy a file, or a folder with all in it, into a folder; synced but for that folder's names.

    Yields at least every 4 MiB. Raises: OSError: part of the copy may be there.
    """
    target = f"{folder}/{source.rpartition('/')[2]}"
    if not is_folder(disk, source):
        yield from _copy_file(disk, source, target)
        return
    disk.mkdir(target)
    for name in disk.listdir(source):
        yield from copy_into(disk, f"{source}/{name}", target)
    disk.sync_dir(target)


def _copy_file(disk: Disk, source: str, target: str) -> Generator[None, None, None]:
    with closing(disk.open(source, "r")) as file:
        with closing(disk.open(target, "x")) as copy:
            size = file.size_bytes
            for at, length in written_chunks(file, 0, size):
                copy.pwrite(file.pread(at, length), at)
                yield
            copy.resize(size)
            copy.sync()
    yield


def remove(disk: Disk, path: str) -> None:
    """Remove a file, or a folder with all in it."""
    if is_folder(disk, path):
        disk.rmtree(path)
    else:
        disk.unlink(path)


CHUNK_BYTES = 4 << 20
PART = ".part"


def set_aside(
    disk: Disk, layout: StoreLayout, segment_bytes: int, offset: int | None
) -> Generator[None, None, None]:
    """Make `offset` the log's end; None: leave it. At or below its first byte: empty the store.

    Yields every 4 MiB. Raises: ConfigError: files of another size. OSError.
    """
    if offset is None:
        return
    truncation.finish_interrupted(disk, layout)
    bases = segment_bases(disk, layout.commit_log)
    if not bases:
        return
    if offset <= bases[0]:
        yield from _move_all(disk, layout, offset)
        return
    log = CommitLog.load(disk, layout.commit_log, segment_bytes)
    try:
        if not (yield from truncation.has_bytes_behind(disk, log, offset)):
            return
        truncation.keep_intent(disk, layout)
        later = [base for base in log.bases() if base >= offset]
        if later or not (yield from _has_end(disk, layout, log, offset)):
            yield from _set_tail_aside(disk, layout, log, offset, later)
    finally:
        log.close(remove_spare=False)
    rest = CommitLog.load(disk, layout.commit_log, segment_bytes)
    try:
        truncation.truncate(disk, layout, rest, offset)
    finally:
        rest.close(remove_spare=False)


def _set_tail_aside(
    disk: Disk, layout: StoreLayout, log: CommitLog, offset: int, later: list[int]
) -> Generator[None, None, None]:
    """Take all steps but the last one. `later` are the files that begin at the offset or later."""
    attempt = _Attempt.begin(disk, layout, offset)
    with attempt.copying():
        move = _Move(disk, log.folder, [segment_name(base) for base in reversed(later)], "")
        yield from _copy_end(disk, log, offset, attempt.part)
        yield from move.prepare(attempt)
    lower_side_file(disk, layout.synced, offset)
    lower_offsets(disk, layout.checkpoint, offset)
    attempt.publish()
    yield from move.carry_out(attempt, sync_each=True)


def _has_end(
    disk: Disk, layout: StoreLayout, log: CommitLog, offset: int
) -> Generator[None, None, bool]:
    """Whether an attempt that found no room for its last step has left the copy of `_copy_end`."""
    start, name = offset % log.segment_bytes, segment_name(offset)
    with closing(disk.open(segment_path(log.folder, offset - start), "r")) as source:
        for folder in disk.listdir(layout.aside):
            path = f"{layout.aside}/{folder}/{name}"
            is_tail = folder.startswith(f"{name}.") and not folder.endswith(PART)
            if is_tail and disk.exists(path):
                same = truncation.is_copy(disk, path, source, start, log.segment_bytes)
                if (yield from same):
                    return True
    return False


def keep_bytes(disk: Disk, layout: LogLayout, pieces: Sequence[tuple[int, bytes]]) -> None:
    """Keep bytes of the log that are about to be written over, each in a file that is named by its
    offset, in the folder of the first one's. Raises: OSError: nothing is kept.
    """
    attempt = _Attempt.begin(disk, layout, pieces[0][0])
    with attempt.copying():
        for offset, data in pieces:
            write_new(disk, f"{attempt.part}/{segment_name(offset)}", data)
    attempt.publish()


def _copy_end(disk: Disk, log: CommitLog, offset: int, folder: str) -> Generator[None, None, None]:
    """The part of the file around `offset` that lies behind it."""
    base = offset - offset % log.segment_bytes
    if base == offset or base not in log.bases():
        return
    source = disk.open(segment_path(log.folder, base), "r")
    target = disk.open(f"{folder}/{segment_name(offset)}", "x")
    try:
        for at in range(offset - base, log.segment_bytes, CHUNK_BYTES):
            data = source.pread(at, min(CHUNK_BYTES, log.segment_bytes - at))
            target.pwrite(data, at - (offset - base))
            yield
        target.sync()
    finally:
        source.close()
        target.close()
    disk.sync_dir(folder)


def _move_all(disk: Disk, layout: StoreLayout, offset: int) -> Generator[None, None, None]:
    files = (layout.checkpoint, layout.synced, layout.dispatched, layout.truncating)
    names = [path.rpartition("/")[2] for path in files if disk.exists(path)]
    segments = [segment_name(base) for base in segment_bases(disk, layout.commit_log)]
    topics = []
    for name in (yield from walk_names(disk, layout.consume_queue)):
        if is_safe_topic(name) and is_folder(disk, f"{layout.consume_queue}/{name}"):
            topics.append(name)
        yield
    indexes = [name for name in disk.listdir(layout.index) if is_index_name(name)]
    moves = [
        _Move(disk, layout.index, indexes, "index"),
        _Move(disk, layout.consume_queue, topics, "consumequeue"),
        _Move(disk, layout.root, names, ""),
        _Move(disk, layout.commit_log, segments[::-1], "commitlog"),
    ]
    moves = [move for move in moves if move.names]
    attempt = _Attempt.begin(disk, layout, offset)
    with attempt.copying():
        for move in moves:
            yield from move.prepare(attempt)
    attempt.publish()
    for move in moves:
        yield from move.carry_out(attempt, sync_each=False)


@attrs.frozen
class _Attempt:
    """The folder in `aside/` that is filled now.

    Attributes:
        folder: its path once it is published; `part`: before that.
    """

    disk: Disk
    folder: str

    @property
    def part(self) -> str:
        return self.folder + PART

    @classmethod
    def begin(cls, disk: Disk, layout: LogLayout, offset: int) -> _Attempt:
        """Begin an attempt, under a free number; remove what failed attempts have copied."""
        disk.mkdir(layout.aside)
        for name in disk.listdir(layout.aside):
            if name.endswith(PART):
                disk.rmtree(f"{layout.aside}/{name}")
        number = 1
        while disk.exists(folder := f"{layout.aside}/{segment_name(offset)}.{number}"):
            number += 1
        attempt = cls(disk, folder)
        disk.mkdir(attempt.part)
        return attempt

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Remove the copies if the block fails, so that all is as it was before."""
        try:
            yield
        except OSError:
            self.disk.rmtree(self.part)
            raise

    def publish(self) -> None:
        """Give the folder its name, because all copies are whole and synced."""
        self.disk.sync_dir(self.part)
        self.disk.rename(self.part, self.folder)
        self.disk.sync_dir(self.folder.rpartition("/")[0])


@attrs.define
class _Move:
    """The files that are moved from one folder.

    Attributes:
        source: the absolute path of the folder.
        names: the files' names, in the order in which they are moved.
        inner: the name of the folder for them in the attempt's folder; "": that one itself.
    """

    _disk: Disk
    source: str
    names: list[str]
    inner: str
    _by_name: bool = False

    def prepare(self, attempt: _Attempt) -> Generator[None, None, None]:
        """See whether they can be renamed; copy them otherwise. Raises: OSError."""
        target = f"{attempt.part}/{self.inner}".rstrip("/")
        self._disk.mkdir(target)
        self._by_name = may_rename(self._disk, self.source, target)
        for name in self.names if not self._by_name else ():
            yield from copy_into(self._disk, f"{self.source}/{name}", target)
        self._disk.sync_dir(target)

    def carry_out(self, attempt: _Attempt, *, sync_each: bool) -> Generator[None, None, None]:
        """Move the files out of their folder. Yields after each.

        Args:
            sync_each: whether each is synced before the next, so that no file is moved before a
                later one.
        """
        target = f"{attempt.folder}/{self.inner}".rstrip("/")
        for number, name in enumerate(self.names, 1):
            if self._by_name:
                self._disk.rename(f"{self.source}/{name}", f"{target}/{name}")
            else:
                remove(self._disk, f"{self.source}/{name}")
            if sync_each or number == len(self.names):
                self._disk.sync_dir(target)
                self._disk.sync_dir(self.source)
            yield
