"""The real disk: files, folders, POSIX locks, and a syncer beside the event loop.

One of the modules that touch the operating system; the others stand beside it in this folder.
Everything but `LocalSyncer.sync` is synchronous: the store writes inline and never yields.

POSIX record locks belong to the pair (process, inode): the kernel drops them as soon as the
process closes *any* descriptor of that file, also one that never locked anything. So every
descriptor here is closed through `_close_fd`, which keeps it open while this process holds a lock
on that inode and closes it at the release. They are also blind to their own process, hence the
table that `LockedByUs` is raised from; it is a module variable because the kernel's own table is
one per process.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import stat
import struct
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import attrs
import trio

from actors.env.file_kinds import FOLDER_MODE, kind_of, open_file, remove_folder, sync_folder
from actors.env.pipes import PipedBytes
from actors.env.protocols import (
    LOST_AND_FOUND,
    SYNC_PATHS_MAX,
    FileStat,
    Held,
    LockedByOther,
    LockedByUs,
    process_text,
)
from actors.env.sync_workers import SyncWorker, sync_worker

SYNCER_FILES_MAX = SYNC_PATHS_MAX
"""How many descriptors a syncer keeps open: the files of one store that are written at the same
time (log, consume queues, index) with room to spare."""
SYNCER_UNUSED_MAX = 16
"""After how many syncs without a file its descriptor is closed. An open one keeps a deleted file's
blocks, so that cleaning a full disk would delete file after file and free nothing."""

_FileKey = tuple[int, int]  # device and inode
_held_guard = threading.Lock()  # a process may run Trio in several threads
_held: dict[_FileKey, list[int]] = {}  # locked inode -> descriptors to close at its release


_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # of linux/fs.h
_renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def _exchange(one: str, other: str) -> None:
    """Exchange two names by renameat2, in glibc since 2.28; ext4, XFS, Btrfs and tmpfs can."""
    if _renameat2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), one)
    paths = os.fsencode(one), os.fsencode(other)
    if _renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), one, None, other)


def _usage(path: str) -> float:
    """Implement `Disk.usage`."""
    status = _of(path)
    used = status.f_blocks - status.f_bfree
    total = used + status.f_bavail  # what a user may fill, as `df` counts
    return used / total if total else 1.0


def _free_bytes(path: str) -> int:
    """Implement `Disk.free_bytes`."""
    status = _of(path)
    return status.f_bavail * status.f_frsize


def _free_files(path: str) -> int | None:
    """Implement `Disk.free_files`. Some file systems, such as Btrfs, make inodes when needed."""
    status = _of(path)
    return status.f_favail if status.f_files else None


def _of(path: str) -> os.statvfs_result:
    """Return the statistics of the file system of a path, which need not exist yet."""
    folder = path
    while not os.path.exists(folder):  # ends at the root, which exists
        folder = os.path.dirname(folder)
    return os.statvfs(folder)


def _key(status: os.stat_result) -> _FileKey:
    return (status.st_dev, status.st_ino)


def _close_fd(fd: int) -> None:
    """Close `fd` now, or at the release of the lock that closing it would drop."""
    key = _key(os.fstat(fd))
    with _held_guard:
        late = _held.get(key)
        if late is not None:
            late.append(fd)
            return
    os.close(fd)


def _of_file(error: OSError, path: str) -> OSError:
    """Return the same error with the file's path, which a descriptor's error lacks."""
    return OSError(error.errno, error.strerror, path)


@attrs.define(eq=False)
class LocalFile:
    """One open file; implements `File`."""

    path: str
    _fd: int

    def fileno(self) -> int:
        """Return the descriptor, for `os.sendfile`. Raises: OSError (EBADF): the file is closed."""
        if self._fd < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        return self._fd

    @property
    def size_bytes(self) -> int:
        return os.fstat(self.fileno()).st_size

    def pread(self, offset: int, size: int) -> bytes:
        fd = self.fileno()
        try:
            data = os.pread(fd, size, offset)
            if len(data) == size or not data:
                return data
            parts = [data]
            got = len(data)
            while got < size:  # ends: every turn reads at least one byte
                data = os.pread(fd, size - got, offset + got)
                if not data:
                    break
                parts.append(data)
                got += len(data)
        except OSError as error:
            raise _of_file(error, self.path) from None
        return b"".join(parts)

    def data_from(self, offset: int) -> tuple[int, int]:
        """Find data by the file system's knowledge of holes; unwritten pages count as data."""
        fd = self.fileno()
        try:  # the place that this moves is only what `read` and `write` go by
            start = os.lseek(fd, offset, os.SEEK_DATA)
            return start, os.lseek(fd, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise _of_file(error, self.path) from None
        end = max(offset, self.size_bytes)  # a hole up to the end, or behind it
        return end, end

    def pwrite(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        fd = self.fileno()
        size = memoryview(data).nbytes
        try:
            done = os.pwrite(fd, data, offset)
            if done == size:
                return
            rest = memoryview(data).cast("B")
            while done < size:  # the system says why it wrote less only when asked for the rest
                count = os.pwrite(fd, rest[done:], offset + done)
                if count == 0:
                    raise OSError(errno.EIO, f"wrote {done} of {size} bytes", self.path)
                done += count
        except OSError as error:
            raise _of_file(error, self.path) from None

    def pwrite_held(self, held: Held, offset: int, size: int) -> None:
        if not isinstance(held, PipedBytes):
            raise TypeError(f"a local file takes bytes from a pipe, not {type(held).__name__}")
        fd = self.fileno()
        try:
            held.pour(fd, offset, size)
        except OSError as error:
            raise _of_file(error, self.path) from None

    def resize(self, size_bytes: int) -> None:
        fd = self.fileno()
        try:
            os.ftruncate(fd, size_bytes)
        except OSError as error:
            raise _of_file(error, self.path) from None

    def prepare(self, offset: int, size: int) -> None:
        fd = self.fileno()
        try:
            os.posix_fallocate(fd, offset, size)
        except OSError as error:
            raise _of_file(error, self.path) from None

    def sync(self) -> None:
        fd = self.fileno()
        try:
            os.fdatasync(fd)
        except OSError as error:
            raise _of_file(error, self.path) from None

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _close_fd(fd)


_FLOCK = "hhqqi4x"
"""The kernel's `struct flock`: type, whence, start, length, process."""


def lock_holder(path: str) -> int | None:
    """Return the number of the other process that holds the lock of `LocalDisk.lock`.

    It takes no lock, so that a node that starts at this moment is not refused.

    Returns: None if the lock is free, is held by this process, or cannot be inspected. For other
        values see `process_text`.
    """
    try:
        fd = open_file(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return _holder_of(fd)
    finally:
        _close_fd(fd)


def _holder_of(fd: int) -> int | None:
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else int(pid)


@attrs.define(eq=False)
class LocalLock:
    """An exclusive record lock on byte 0; implements `FileLock`. Releasing it twice is harmless."""

    path: str
    _fd: int
    _key: _FileKey

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        with _held_guard:
            late = _held.pop(self._key)
        os.close(fd)
        for other in late:
            os.close(other)


@attrs.frozen
class _Synced:
    """A file that a syncer keeps open; `count` is the number of its last sync."""

    fd: int
    key: _FileKey
    count: int
    is_folder: bool


@attrs.define(eq=False)
class LocalSyncer:
    """Runs fdatasync, and fsync of folders, beside the loop; implements `Syncer`.

    Files are opened before the worker begins, so removing one afterwards is harmless. A path that
    is gone when `sync` is called raises FileNotFoundError.
    """

    _worker: SyncWorker = attrs.field(factory=sync_worker)
    _files: OrderedDict[str, _Synced] = attrs.field(init=False, factory=OrderedDict)  # oldest first
    _forgotten: list[int] = attrs.field(init=False, factory=list)  # to be closed after the sync
    _count: int = attrs.field(init=False, default=0)
    _busy: bool = attrs.field(init=False, default=False)
    _closed: bool = attrs.field(init=False, default=False)

    async def sync(self, paths: Sequence[str]) -> None:
        if self._closed:
            raise trio.ClosedResourceError("the syncer is closed")
        if self._busy:
            raise trio.BusyResourceError("one sync at a time")
        await trio.lowlevel.checkpoint_if_cancelled()
        self._count += 1
        found = [self._descriptor(path) for path in dict.fromkeys(paths)]
        files = [each.fd for each in found if not each.is_folder]
        folders = [each.fd for each in found if each.is_folder]
        self._busy = True
        try:
            await self._worker.sync(files, folders)
        except Exception:
            self._ended()
            raise
        self._ended()

    def close(self) -> None:
        """End the worker and close its files; wait for a sync that is still running."""
        if self._closed:
            return
        self._closed = True
        self._worker.close()
        self._busy = False
        self.forget(tuple(self._files))

    def _ended(self) -> None:
        self._busy = False
        self._trim()

    def _descriptor(self, path: str) -> _Synced:
        status = os.stat(path)
        is_folder = stat.S_ISDIR(status.st_mode)
        known = self._files.pop(path, None)
        if known is not None and known.key != _key(status):  # another file under the same name
            _close_fd(known.fd)
            known = None
        if known is not None:
            fd = known.fd
        elif is_folder:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        else:
            fd = open_file(path, os.O_RDONLY)
        key = known.key if known is not None else _key(os.fstat(fd))
        found = self._files[path] = _Synced(fd, key, self._count, is_folder)
        return found

    def forget(self, paths: Sequence[str]) -> None:
        known = [self._files.pop(path) for path in paths if path in self._files]
        self._forgotten += [file.fd for file in known]
        if not self._busy:
            self._trim()

    def _trim(self) -> None:
        while self._forgotten:
            _close_fd(self._forgotten.pop())
        while self._files:
            path, oldest = next(iter(self._files.items()))
            unused = self._count - oldest.count
            if len(self._files) <= SYNCER_FILES_MAX and unused <= SYNCER_UNUSED_MAX:
                return
            del self._files[path]
            _close_fd(oldest.fd)


_OPEN_FLAGS = {"r": os.O_RDONLY, "w": os.O_RDWR, "x": os.O_RDWR | os.O_CREAT | os.O_EXCL}


class LocalDisk:
    """This machine's file systems; implements `Disk`, and has no state."""

    def open(self, path: str, mode: str) -> LocalFile:
        assert os.path.isabs(path), path
        return LocalFile(path, open_file(path, _OPEN_FLAGS[mode]))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def has_name(self, path: str) -> bool:
        return os.path.lexists(path)

    def stat(self, path: str) -> FileStat:
        status = os.stat(path)
        modified_ms = status.st_mtime_ns // 1_000_000
        return FileStat(status.st_size, modified_ms, kind_of(status))

    def listdir(self, path: str) -> list[str]:
        try:
            return sorted(name for name in os.listdir(path) if name != LOST_AND_FOUND)
        except FileNotFoundError:
            return []

    def names(self, path: str) -> Iterator[str]:
        with contextlib.suppress(FileNotFoundError), os.scandir(path) as found:
            yield from (each.name for each in found if each.name != LOST_AND_FOUND)

    def mkdir(self, path: str, *, sync: bool = True) -> None:
        assert os.path.isabs(path), path
        missing = []
        folder = os.path.normpath(path)
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for folder in reversed(missing):
            try:
                os.mkdir(folder, FOLDER_MODE)
                os.chmod(folder, FOLDER_MODE)  # whatever the umask
            except FileExistsError:
                if not os.path.isdir(folder):
                    raise
                # Another process made it meanwhile.
            if sync:
                sync_folder(os.path.dirname(folder))

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def exchange(self, one: str, other: str) -> None:
        _exchange(one, other)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def rmtree(self, path: str) -> None:
        remove_folder(path)

    def sync_dir(self, path: str) -> None:
        sync_folder(path)

    def usage(self, path: str) -> float:
        return _usage(path)

    def free_bytes(self, path: str) -> int:
        return _free_bytes(path)

    def free_files(self, path: str) -> int | None:
        return _free_files(path)

    def lock(self, path: str) -> LocalLock:
        with contextlib.suppress(FileNotFoundError):
            self._refuse_own(path, _key(os.stat(path)))
        fd = open_file(path, os.O_RDWR | os.O_CREAT)
        key = _key(os.fstat(fd))
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except (BlockingIOError, PermissionError) as error:  # EAGAIN or EACCES, says POSIX
            pid = _holder_of(fd) or 0  # 0: it has let go since
            _close_fd(fd)
            refused = LockedByOther(error.errno, f"locked by {process_text(pid)}", path)
            refused.pid = pid
            raise refused from None
        except OSError:
            _close_fd(fd)
            raise
        with _held_guard:
            assert key not in _held, path  # _refuse_own looked, and nothing yielded since
            _held[key] = []
        return LocalLock(path, fd, key)

    def syncer(self) -> LocalSyncer:
        return LocalSyncer()

    @staticmethod
    def _refuse_own(path: str, key: _FileKey) -> None:
        with _held_guard:
            if key in _held:
                raise LockedByUs(errno.EAGAIN, "locked by this process already", path)
