"""The commit log: files of one size that together are one sequence of bytes, with one writer.

Upstream: apache/rocketmq store/.../MappedFileQueue.java, CommitLog.java,
AllocateMappedFileService.java (5.3.3). The file format is upstream's, byte for byte: 20-digit
names, exact pre-sized files, a spare all-zero file after the one being written, removed at an
ordered stop.

Differs:
- `pwrite` instead of a mapped file: a full disk or a bad sector is an OSError instead of a SIGBUS.
- Data goes on in the next file when one is full (upstream's slave drops it, logged).
- All bytes after the end are zero, always: a truncation gives them back to the file system.
  Upstream leaves the old bytes, which a later recovery may take for records.
- A truncation is written down before it is done (`truncation.py`).
- A missing file in the middle refuses the load, as other names and sizes than a log's files have do
  (upstream: MappedFileQueue.java, load); upstream finds out when it reads there.
- What a start finds is made durable, for a crash may have left it in the page cache only; upstream
  believes what it finds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Final

import attrs

from actors.env.path_kinds import check_kinds
from actors.env.protocols import Disk, File, Held
from actors.errors import ConfigError, CorruptLog
from actors.storage.files.room import needing_room
from actors.storage.files.whole_files import create_sized, sync_file
from wire.files.commit_log import BLANK_BYTES, encode_blank, segment_name, segment_offset

CHUNK_BYTES = 4 << 20
"""The bytes after which a generator of this module yields."""


def write_again(disk: Disk, log: CommitLog, start_bytes: int) -> Generator[None, None, None]:
    """Write what lies above the mark once more, as it is, so that the next sync covers it.

    If a sync had failed before the crash, the kernel may take its pages for clean while they are
    not on the disk: a sync alone would then pass without writing them.
    """
    size = log.segment_bytes
    for base in log.bases():
        low, high = max(start_bytes, base), min(log.written_bytes, base + size)
        if low >= high:
            continue
        with closing(disk.open(segment_path(log.folder, base), "w")) as file:
            for at in range(low - base, high - base, CHUNK_BYTES):
                file.pwrite(file.pread(at, min(CHUNK_BYTES, high - base - at)), at)
                yield


def sync_found(disk: Disk, log: CommitLog, start_bytes: int) -> Generator[None, None, None]:
    """Sync the files from `start_bytes` on, a file's first byte, before they are published."""
    for base in log.bases():
        if start_bytes <= base < log.written_bytes:
            sync_file(disk, segment_path(log.folder, base))
            yield
    disk.sync_dir(log.folder)


PREPARE_BYTES = 16 << 20
"""How many bytes of blocks are reserved ahead of the data, so that a full disk is noticed before a
record is half written.
"""
SEGMENT_BYTES_MIN = 4096
SEGMENT_BYTES_MAX = (1 << 31) - 1
"""The largest size of a file: positions within it are 32-bit ints in upstream."""


class OffsetMismatch(Exception):
    """The bytes offered do not continue the log. Nothing was written."""


def segment_path(folder: str, base_bytes: int) -> str:
    return f"{folder}/{segment_name(base_bytes)}"


def is_segment_name(name: str) -> bool:
    """Return whether a file of a log can have this name."""
    return segment_offset(name) is not None


def segment_bases(disk: Disk, folder: str) -> list[int]:
    """Return the first offsets of the log files in `folder`, ascending; ignore other files."""
    offsets = (segment_offset(name) for name in disk.listdir(folder))
    return [base for base in offsets if base is not None]


@attrs.define
class CommitLog:
    """The files of one log, and the log's end.

    Attributes:
        folder: absolute path of `commitlog/`.
        segment_bytes: size of every file.
        written_bytes: end of the log, the offset of the next byte. After `load` it is the end of
            the last file, until recovery calls `set_end`.
        gone_paths: deleted files, until `take_gone` returns them.
        blank: makes the first BLANK_BYTES of a filler of a size, in the format of the log.
    """

    folder: str
    segment_bytes: int
    written_bytes: int
    _disk: Disk
    _bases: list[int]
    _reserved_bytes: int = 0
    gone_paths: tuple[str, ...] = ()
    blank: Callable[[int], bytes] = encode_blank
    _handles: dict[int, File] = attrs.field(factory=dict)
    _dirty: dict[str, None] = attrs.field(factory=dict)

    @classmethod
    def load(
        cls,
        disk: Disk,
        folder: str,
        segment_bytes: int,
        *,
        blank: Callable[[int], bytes] = encode_blank,
        least_bytes: int = SEGMENT_BYTES_MIN,
        key: str = "segment_bytes",
    ) -> CommitLog:
        """Open the folder, creating it if needed. A 0-byte last file is deleted (a crash left it).

        Args:
            key: the key of the configuration that sets the size of a file.

            Raises: ConfigError: all files have another size than configured, or one is no regular
                file. CorruptLog: a single file has another size, or one is missing.

            Upstream: MappedFileQueue.load.
        """
        assert least_bytes <= segment_bytes <= SEGMENT_BYTES_MAX
        bases = log_files(disk, folder, segment_bytes, key=key)
        disk.mkdir(folder)
        for base in [base for base in segment_bases(disk, folder) if base not in bases]:
            disk.unlink(segment_path(folder, base))
            disk.sync_dir(folder)
        end = bases[-1] + segment_bytes if bases else 0
        log = cls(
            folder=folder,
            segment_bytes=segment_bytes,
            written_bytes=end,
            disk=disk,
            bases=bases,
            blank=blank,
        )
        log._reserved_bytes = end
        return log

    @classmethod
    def look(cls, disk: Disk, folder: str, segment_bytes: int, bases: list[int]) -> CommitLog:
        """Return a log of the files that begin at `bases`, which is only to be read."""
        return cls(
            folder=folder,
            segment_bytes=segment_bytes,
            written_bytes=bases[-1] + segment_bytes if bases else 0,
            disk=disk,
            bases=bases,
        )

    @property
    def min_bytes(self) -> int:
        """Offset of the first byte kept; 0 for a log without files."""
        return self._bases[0] if self._bases else 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever written, so that a slave may begin at any file boundary."""
        return self.written_bytes == 0

    def bases(self) -> tuple[int, ...]:
        """Return the first offsets of all files, with that of the spare one."""
        return tuple(self._bases)

    def path_of(self, offset: int) -> str:
        return segment_path(self.folder, offset - offset % self.segment_bytes)

    def set_end(self, end_bytes: int) -> None:
        """Set the log's end. All bytes after it must be zero (`truncation.apply` does that)."""
        assert self.min_bytes <= end_bytes
        assert not self._bases or end_bytes <= self._bases[-1] + self.segment_bytes
        self.written_bytes = self._reserved_bytes = end_bytes
        self._close_handles()

    def reserve(self, up_to_bytes: int) -> None:
        """Make the files and blocks for all bytes below `up_to_bytes`, and the next, spare file.

        Raises: NoRoom, or another OSError. No bytes of the log have been written then.
        """
        while self._reserved_bytes < up_to_bytes:
            at = self._reserved_bytes
            size = self._piece_bytes(up_to_bytes)
            with needing_room(size):
                self._open(at - at % self.segment_bytes).prepare(at % self.segment_bytes, size)
            self._reserved_bytes = at + size

    @property
    def wants_bytes(self) -> int:
        """How many bytes of the disk the next `reserve` that asks for any asks for at least."""
        return self._piece_bytes(0)

    def _piece_bytes(self, up_to_bytes: int) -> int:
        """Return how many bytes are reserved at once, all of one file."""
        at, size = self._reserved_bytes, self.segment_bytes
        return min(max(PREPARE_BYTES, up_to_bytes - at), size - at % size)

    def append(
        self, data: bytes | bytearray | memoryview | Held, size_bytes: int | None = None
    ) -> None:
        """Write at the log's end; at a file's end, continue in the next file.

        Args:
            size_bytes: how many bytes from the beginning of `data` are written; None: all.

        Raises: NoRoom: nothing was written. Another OSError, such as ENOSPC: the log's end is
            unknown, and this object must not be used any further.
        """
        view = memoryview(data) if isinstance(data, (bytes, bytearray, memoryview)) else None
        size = len(data) if size_bytes is None else size_bytes
        self.reserve(self.written_bytes + size)
        done = 0
        while done < size:
            base = self.written_bytes - self.written_bytes % self.segment_bytes
            room = base + self.segment_bytes - self.written_bytes
            part = min(room, size - done)
            file = self._open(base)
            if view is None:
                file.pwrite_held(data, self.written_bytes - base, part)
            else:
                file.pwrite(view[done : done + part], self.written_bytes - base)
            self._dirty[file.path] = None
            self.written_bytes += part
            done += part
            if part == room:
                self._close_below(self.written_bytes)

    def append_raw(
        self, offset_bytes: int, data: bytes | memoryview | Held, size_bytes: int | None = None
    ) -> None:
        """Append bytes received from a master, which may be cut anywhere in a record.

        Args:
            offset_bytes: their offset, which must be the end of this log. An empty log takes any
                offset that is a file's first byte.
            size_bytes: as in `append`.

        Raises: OffsetMismatch: the bytes do not continue the log; nothing was written. NoRoom,
            OSError: as in `append`.
        """
        if self.is_empty and offset_bytes != 0:
            if offset_bytes + self.segment_bytes > LOG_BYTES_MAX:
                raise OffsetMismatch(f"offset {offset_bytes} is too high for any log")
            if offset_bytes < 0 or offset_bytes % self.segment_bytes:
                raise OffsetMismatch(
                    f"an empty log cannot begin at {offset_bytes}: "
                    f"that is no multiple of its file size {self.segment_bytes}"
                )
            empty_at = self.written_bytes
            self.restart_at(offset_bytes)  # its own empty files leave first
            try:
                self.reserve(offset_bytes + (len(data) if size_bytes is None else size_bytes))
            except OSError:
                self.restart_at(empty_at)  # an end without a byte before it would never be synced
                raise
        if offset_bytes != self.written_bytes:
            raise OffsetMismatch(f"expected {self.written_bytes}, offered {offset_bytes}")
        self.append(data, size_bytes)

    def roll(self) -> None:
        """Fill the rest of the present file with a BLANK record, so that the next one is begun.

        Raises: OSError, as in `append`.
        """
        self.fill(-self.written_bytes % self.segment_bytes)

    def fill(self, size_bytes: int) -> None:
        """Write a filler of `size_bytes` within one file: its head; the rest is zeros already.

        Raises: OSError, as in `append`.
        """
        assert size_bytes >= BLANK_BYTES, "the L + 8 rule keeps room for a filler"
        self.append(self.blank(size_bytes))
        self.written_bytes += size_bytes - BLANK_BYTES
        self._reserved_bytes = max(self._reserved_bytes, self.written_bytes)
        self._close_below(self.written_bytes)

    def forget_behind(self, end_bytes: int) -> None:
        """Close the files that hold nothing below `end_bytes`, which are about to be deleted.

        The first file stays.
        """
        self._close_handles()
        while len(self._bases) > 1 and self._bases[-1] >= end_bytes:
            self._forget(self._bases.pop())

    @property
    def is_dirty(self) -> bool:
        """Whether something was written since `take_dirty`."""
        return bool(self._dirty)

    def take_dirty(self) -> tuple[str, ...]:
        """Return the paths written since the last call, which a sync has to cover."""
        paths = tuple(self._dirty)
        self._dirty.clear()
        return paths

    def take_gone(self) -> tuple[str, ...]:
        """Return the files deleted since the last call, which a syncer has to close."""
        paths, self.gone_paths = self.gone_paths, ()
        return paths

    def delete_first(self) -> int:
        """Delete the oldest file, never the one being written. Returns: the new first offset.

        The folder is synced each time: files must not vanish in another order than from the front.
        """
        assert len(self._bases) > 1
        assert self._bases[1] <= self.written_bytes
        base = self._bases[0]
        self._close_below(base + self.segment_bytes)
        self._disk.unlink(segment_path(self.folder, base))
        self._disk.sync_dir(self.folder)
        del self._bases[0]
        self._forget(base)
        return self._bases[0]

    def restart_at(self, offset_bytes: int) -> None:
        """Delete every file, the last one first, and continue at `offset_bytes`, wherever that is.

        The folder is synced each time, so that a crash in between leaves a beginning of the log.
        """
        self._close_handles()
        while self._bases:
            self._disk.unlink(segment_path(self.folder, self._bases[-1]))
            self._disk.sync_dir(self.folder)
            self._forget(self._bases.pop())
        self.written_bytes = self._reserved_bytes = offset_bytes

    def close(self, *, remove_spare: bool) -> None:
        """Release the handles; at an ordered stop also remove the files that hold nothing yet."""
        self._close_handles()
        while remove_spare and self._bases and self._bases[-1] >= self.written_bytes:
            if (
                self._bases[-1] == self.written_bytes
                and self.written_bytes > 0
                and len(self._bases) == 1
            ):
                break  # The only trace of where an expired or a received log goes on.
            self._disk.unlink(segment_path(self.folder, self._bases.pop()))
            self._disk.sync_dir(self.folder)

    def _forget(self, base: int) -> None:
        path = segment_path(self.folder, base)
        self._dirty.pop(path, None)
        self.gone_paths += (path,)

    def _open(self, base: int) -> File:
        """Return the handle of the file at `base`; make that file and the spare one if missing."""
        file = self._handles.get(base)
        if file is None:
            self._create(base)
            self._create(base + self.segment_bytes)
            file = self._handles[base] = self._disk.open(segment_path(self.folder, base), "w")
        return file

    def _create(self, base: int) -> None:
        """Make a file. Size and name are synced at once, so that a crash leaves no hole.

        It runs on the loop, once for each file and one file ahead: this takes 0.2 to 0.3 ms for
        1 GiB, at most 3 ms beside syncs of 1.6 GB/s (measured on ext4).
        """
        if self._bases and base <= self._bases[-1]:
            return
        assert not self._bases or base == self._bases[-1] + self.segment_bytes
        create_sized(self._disk, segment_path(self.folder, base), self.segment_bytes).close()
        self._bases.append(base)

    def _close_below(self, offset_bytes: int) -> None:
        for base in [b for b in self._handles if b + self.segment_bytes <= offset_bytes]:
            self._handles.pop(base).close()

    def _close_handles(self) -> None:
        while self._handles:
            self._handles.popitem()[1].close()


def log_files(
    disk: Disk, folder: str, segment_bytes: int, *, key: str, fills_last: bool = False
) -> list[int]:
    """Return the first offsets of the files that `CommitLog.load` would take. It changes nothing.

    A last file of 0 bytes is left out.

    Args:
        fills_last: whether a last file that is too short will be filled up.

    Raises: as `CommitLog.load`.
    """
    bases = segment_bases(disk, folder)
    check_kinds(disk, folders=(), files=(segment_path(folder, base) for base in bases))
    sizes = [disk.stat(segment_path(folder, base)).size_bytes for base in bases]
    if sizes and fills_last and 0 < sizes[-1] < segment_bytes:
        sizes[-1] = segment_bytes
    follows = len(bases) < 2 or bases[-1] == bases[-2] + segment_bytes
    if sizes and sizes[-1] == 0 and follows and bases[-1] < LOG_BYTES_MAX:
        bases.pop()
        sizes.pop()
    check_sizes(folder, bases, sizes, segment_bytes, key)
    return bases


LOG_BYTES_MAX: Final = 1 << 62
"""An offset that no log ever reaches. A log that began near the largest 64-bit offset would soon
have no offset for a record, nor a name for a file.
"""


def short_text(path: str, size: int, segment_bytes: int, key: str) -> str:
    """Describe, for people, that a log's only file is too short, or its configured size is wrong.

    Args:
        size: the file's size in bytes.
        segment_bytes: the size that `key` of the configuration sets.
    """
    return (
        f"{path}: expected {segment_bytes} bytes, found {size}: it was cut short, or {key} was"
        f" changed from {size} to {segment_bytes}"
    )


def short_alone(
    disk: Disk, folder: str, bases: Sequence[int], last_bytes: int | None, key: str
) -> list[str]:
    """Describe, for people, that a log's only file is shorter than at the last start.

    The configuration of that start may have been the mistake.

    Args:
        last_bytes: the configured size at the last start; None if it is unknown.

    Returns: at most one line; [] if nothing is wrong.
    """
    if last_bytes is None or len(bases) != 1:
        return []
    path = f"{folder}/{segment_name(bases[0])}"
    size = disk.stat(path).size_bytes
    if size >= last_bytes:
        return []
    return [f"{short_text(path, size, last_bytes, key)}, with which a start is refused"]


def check_sizes(
    folder: str, bases: list[int], sizes: list[int], segment_bytes: int, key: str
) -> None:
    """Check that every file has the configured size and follows the one before it.

    Args:
        bases, sizes: the first offset of each file, ascending, and its size.
        key: the key of the configuration that sets the size of a file.

        Raises: ConfigError, CorruptLog: as `CommitLog.load`.
    """

    def path_of(base: int) -> str:
        return f"{folder}/{segment_name(base)}"

    if bases and bases[-1] + segment_bytes > LOG_BYTES_MAX:
        raise CorruptLog(
            f"{path_of(bases[-1])}: the offset in this file's name is too high for any log, so the"
            " file is none of this log: move it away"
        )
    if len(sizes) == 1 and 0 < sizes[0] < segment_bytes:
        raise ConfigError(short_text(path_of(bases[0]), sizes[0], segment_bytes, key))
    if len(set(sizes)) == 1 and sizes[0] not in (0, segment_bytes):  # nobody configures 0
        raise ConfigError(
            f"{folder}: {key}: expected {sizes[0]}, the size of the files there, "
            f"found {segment_bytes}"
        )
    for base, size in zip(bases, sizes, strict=True):
        if size != segment_bytes:
            path = path_of(base)
            raise CorruptLog(f"{path}: expected {segment_bytes} bytes, found {size}")
        if base % segment_bytes:
            raise CorruptLog(f"{path_of(base)}: the name is no multiple of {segment_bytes}")
    for before, base in itertools.pairwise(bases):
        if base != before + segment_bytes:
            missing = path_of(before + segment_bytes)
            raise CorruptLog(f"{missing}: the file is missing, {path_of(base)} follows")
