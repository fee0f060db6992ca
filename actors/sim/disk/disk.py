"""The simulated disk of one machine: files in memory, and a second copy of what is really durable.

Content is kept in pages of 4 KiB. A write changes the page cache only; a sync makes durable what
had been written when it began. A power loss keeps, of every page that was not synced, either the
old or a newer version, chosen page by page at random (`pages`). It treats file sizes, and the order
in which names were created, renamed and removed (`namespace`), in the same way. A kill keeps
everything that was written.

One process at a time uses the disk: `kill` and `power_loss` end its handles and its locks.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import attrs
import trio

from actors.env.protocols import FileStat, Held, LockedByUs
from actors.sim.disk.faults import FULL, DiskFaults
from actors.sim.disk.namespace import Folder, Namespace
from actors.sim.disk.pages import PAGE_BYTES, Inode, Writeback


@attrs.define(eq=False)
class SimHeld:
    """Received bytes that the system keeps; implements `Held`."""

    _data: bytes

    def __len__(self) -> int:
        return len(self._data)

    def take(self, size: int) -> bytes:
        assert 0 < size <= len(self._data)
        data, self._data = self._data[:size], self._data[size:]
        return data


EPOCH_MS = 1_700_000_000_000
"""The wall clock, in ms since 1970, of simulated machines at virtual time 0, without skew."""


@attrs.frozen(kw_only=True)
class DiskOptions:
    """How slow and how large a disk is.

    Attributes:
        sync_min_s: the least time that a sync takes.
        sync_mean_s: the mean time of a sync; the part above the minimum is exponentially
            distributed.
        capacity_bytes: how much the disk holds; writes beyond it fail with ENOSPC.
        writeback_share: the share of the writes to an unsynced page before which the kernel has
            written the page back by itself.
    """

    sync_min_s: float = 0.0002
    sync_mean_s: float = 0.001
    capacity_bytes: int = 1 << 40
    writeback_share: float = 0.0


def os_error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


def virtual_wall_clock_ms() -> int:
    """Return the milliseconds since 1970 on a machine whose clock is right."""
    try:
        return EPOCH_MS + int(trio.current_time() * 1000)
    except RuntimeError:  # outside Trio, where no time passes
        return EPOCH_MS


@attrs.define(eq=False)
class SimFile:
    """One open file; implements `File`."""

    path: str
    _disk: SimDisk
    _inode: Inode
    _writable: bool
    _process: int  # handles of an earlier process are dead
    _closed: bool = attrs.field(init=False, default=False)

    @property
    def size_bytes(self) -> int:
        self._check()
        return self._inode.size_bytes

    def pread(self, offset: int, size: int) -> bytes:
        self._check()
        self._disk.faults.check("read", self.path)
        return self._inode.read_by_process(offset, size)

    def data_from(self, offset: int) -> tuple[int, int]:
        return offset, max(offset, self.size_bytes)  # a system that knows of no holes

    def pwrite(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        self._check(writing=True)
        view = memoryview(data).cast("B")
        if not len(view):
            return
        short = self._disk.faults.short_write(self.path, len(view))
        if short is not None:
            self._write(view[:short], offset)
            raise OSError(errno.EIO, f"wrote {short} of {len(view)} bytes", self.path)
        self._disk.faults.check("write", self.path)
        self._write(view, offset)

    def pwrite_held(self, held: Held, offset: int, size: int) -> None:
        if not isinstance(held, SimHeld):
            raise TypeError(f"a simulated file takes simulated bytes, not {held!r}")
        self.pwrite(held.take(size), offset)

    def resize(self, size_bytes: int) -> None:
        self._check(writing=True)
        self._disk.faults.check("write", self.path)
        self._inode.resize(size_bytes)
        self._inode.modified_ms = self._disk.wall_clock_ms()

    def prepare(self, offset: int, size: int) -> None:
        self._check(writing=True)
        self._disk.faults.check("prepare", self.path)
        self._disk.reserve(self._inode, offset, size, self.path)
        self._inode.resize(max(self._inode.size_bytes, offset + size))

    def sync(self) -> None:
        self._check()
        self._disk.sync_now(self._inode, self.path)

    def close(self) -> None:
        self._closed = True

    def page_cache_reader(self, offset: int, size: int) -> Callable[[], bytes]:
        """Return a function that reads the bytes as they are when it is called, as a socket buffer
        that points at the page cache does.
        """
        inode = self._inode
        return lambda: inode.read(offset, size).ljust(size, b"\0")

    def _write(self, view: memoryview, offset: int) -> None:
        self._disk.reserve(self._inode, offset, len(view), self.path)
        self._inode.write(view, offset)
        self._inode.modified_ms = self._disk.wall_clock_ms()

    def _check(self, *, writing: bool = False) -> None:
        if self._process != self._disk.process:
            raise OSError(errno.EIO, "the process that opened this file is gone", self.path)
        if self._closed or (writing and not self._writable):
            raise os_error(errno.EBADF, self.path)


@attrs.define(eq=False)
class SimLock:
    """A lock of a file; implements `FileLock`."""

    _locks: dict[Inode, SimLock]
    _inode: Inode

    def release(self) -> None:
        if self._locks.get(self._inode) is self:
            del self._locks[self._inode]


@attrs.define(eq=False)
class SimSyncer:
    """Syncs files in virtual time; implements `Syncer`."""

    _disk: SimDisk
    _process: int
    _busy: bool = attrs.field(init=False, default=False)
    _closed: bool = attrs.field(init=False, default=False)

    async def sync(self, paths: Sequence[str]) -> None:
        if self._closed:
            raise trio.ClosedResourceError("the syncer is closed")
        if self._busy:
            raise trio.BusyResourceError("one sync at a time")
        await trio.lowlevel.checkpoint_if_cancelled()
        self._busy = True
        try:
            await self._sync({path: self._disk.node(path) for path in paths})
        finally:
            self._busy = False

    async def _sync(self, nodes: dict[str, Inode | None]) -> None:
        begun = [(path, node, node.begin_sync() if node else -1) for path, node in nodes.items()]
        self._disk.on_sync(list(nodes))
        with trio.CancelScope(shield=True):
            await trio.sleep(self._disk.sync_duration_s())
        for path, inode, state in begun:
            if self._process != self._disk.process:
                raise OSError(errno.EIO, "the process that asked is gone", path)
            if inode is not None:
                self._disk.end_sync(inode, state, path)
            elif self._disk.exists(path):  # else the folder that held it is to be synced
                self._disk.sync_dir(path)

    def forget(self, paths: Sequence[str]) -> None:
        """Do nothing: no file is kept open."""

    def close(self) -> None:
        assert not self._busy, "a sync is in flight"
        self._closed = True


class SimDisk:
    """One machine's disk; implements `Disk`.

    Args:
        rng: the source of sync times, short writes and power losses.
        options: how slow and large it is.
        wall_clock_ms: this machine's clock, for modification times.
        kernel: the source that decides which pages the kernel writes back by itself; None: a fixed
            one.

    Attributes:
        faults: what goes wrong, and how often each kind took effect.
        writeback: how often its kernel writes pages back by itself, and how often a power loss kept
            such a page.
        unlinked: for each path, the last file whose name was removed there.
        on_sync: called with the paths of each sync that takes time, as it begins.
        process: the number of the process that uses the disk; it grows when a process ends.
    """

    def __init__(
        self,
        rng: random.Random,
        options: DiskOptions | None = None,
        wall_clock_ms: Callable[[], int] = virtual_wall_clock_ms,
        kernel: random.Random | None = None,
    ) -> None:
        self.options = options or DiskOptions()
        self.writeback = Writeback(self.options.writeback_share, kernel or random.Random(0))
        self.faults = DiskFaults(rng)
        self.unlinked: dict[str, Inode] = {}
        self.on_sync: Callable[[Sequence[str]], None] = lambda paths: None
        self.process = 1
        self.wall_clock_ms = wall_clock_ms
        self._rng = rng
        self._names = Namespace()
        self._locks: dict[Inode, SimLock] = {}
        self._reserved_pages = 0

    # Disk of the protocols.

    def open(self, path: str, mode: str) -> SimFile:
        assert path.startswith("/"), path
        assert mode in ("r", "w", "x"), mode
        if mode == "x":
            self.faults.check("create", path)
            if not self.exists(path):
                self.faults.check_room_for_file(path)
            inode = Inode(modified_ms=self.wall_clock_ms(), writeback=self.writeback)
            self._names.create(path, inode)
        else:
            inode = self._names.file(path)
        return SimFile(path, self, inode, mode in ("w", "x"), self.process)

    def exists(self, path: str) -> bool:
        return self._names.get(path) is not None

    has_name = exists  # there are no links

    def stat(self, path: str) -> FileStat:
        node = self._names.get(path)
        if node is None:
            raise os_error(errno.ENOENT, path)
        if not isinstance(node, Inode):
            return FileStat(size_bytes=0, modified_ms=EPOCH_MS, kind="folder")
        return FileStat(size_bytes=node.size_bytes, modified_ms=node.modified_ms)

    def listdir(self, path: str) -> list[str]:
        return self._names.listdir(path)

    def names(self, path: str) -> Iterator[str]:
        return iter(self._names.listdir(path))

    def mkdir(self, path: str, *, sync: bool = True) -> None:
        assert path.startswith("/"), path
        if not self.exists(path):
            self.faults.check_room_for_file(path)
        self._names.mkdir(path, sync=sync)

    def rename(self, source: str, target: str) -> None:
        self.faults.check("rename", source)
        if not self.exists(target) and os.path.dirname(source) != os.path.dirname(target):
            self.faults.check_room_for_name(target)
        self._names.rename(source, target)

    def exchange(self, one: str, other: str) -> None:
        self.faults.check("rename", one)
        self._names.exchange(one, other)

    def unlink(self, path: str) -> None:
        self.unlinked[path] = self._names.file(path)
        self._names.unlink(path)

    def rmtree(self, path: str) -> None:
        self._names.rmtree(path)

    def sync_dir(self, path: str) -> None:
        self.faults.check("sync", path)
        self._names.sync_dir(path)

    def usage(self, path: str) -> float:
        return self.faults.used(self._reserved_pages * PAGE_BYTES / self.options.capacity_bytes)

    def free_bytes(self, path: str) -> int:
        if self.faults.is_full:
            return 0
        reserved = sum(inode.allocated_pages for inode in self._names.inodes())
        return max(0, self.options.capacity_bytes - reserved * PAGE_BYTES)

    def free_files(self, path: str) -> int | None:
        return 0 if self.faults.lacks_inodes else None

    def lock(self, path: str) -> SimLock:
        if not self.exists(path):
            self.open(path, "x")
        inode = self._names.file(path)
        if inode in self._locks:
            raise LockedByUs(errno.EAGAIN, "locked by this process already", path)
        lock = self._locks[inode] = SimLock(self._locks, inode)
        return lock

    def syncer(self) -> SimSyncer:
        return SimSyncer(self, self.process)

    # What happens to the machine.

    def kill(self) -> None:
        """End the process: its handles are dead, its locks released, and everything it wrote
        stays.
        """
        self._end_process()
        for inode in self._names.inodes():
            inode.abandon_syncs()

    def power_loss(self, rng: random.Random | None = None) -> None:
        """Cut the power: of everything that was not synced, any part survives.

        Args:
            rng: decides which part survives; None: the disk's own source.
        """
        self._end_process()
        for inode in self._names.power_loss(rng or self._rng):
            inode.power_loss(rng or self._rng)
        self._recount()

    def flip_bits(self, path: str, offset: int, size: int, count: int = 1) -> list[int]:
        """Flip `count` bits of the range, on the disk and in the cache, and return their
        offsets.
        """
        inode = self._names.file(path)
        hit = sorted(self._rng.sample(range(offset, offset + size), count))
        for position in hit:
            inode.flip_bit(position, self._rng.randrange(8))
        self.faults.count("bit_rot", count)
        return hit

    def durable(self, path: str) -> bytes | None:
        """Return the bytes of the file that a power loss now is sure to leave; None if the file may
        vanish.
        """
        inode = self._names.durable_file(path)
        return None if inode is None else inode.durable_bytes()

    @property
    def names_changes(self) -> int:
        """A number that grows whenever a name comes, goes or means another file, so that a listing
        holds while it is the same.
        """
        return self._names.changes

    def durable_stamp(self, path: str) -> tuple[Inode, int] | None:
        """Return a value that is equal to an earlier one only if `durable` gives the same bytes as
        then.
        """
        inode = self._names.durable_file(path)
        return None if inode is None else (inode, inode.durable_changes)

    def durable_range(self, path: str, start: int, end: int) -> bytes:
        """Return a part of the bytes of `durable`; shorter at the end of the file, empty if the
        file may vanish.
        """
        inode = self._names.durable_file(path)
        return b"" if inode is None else inode.durable_range(start, end)

    @contextmanager
    def syncing(
        self, part: str, number: int = 1, then: Callable[[], None] = lambda: None
    ) -> Iterator[trio.Event]:
        """Within the block, which takes `on_sync`, yield an event that is set when a sync of a path
        with this part begins.

        Args:
            number: which such sync sets the event, counted from 1.
            then: called as that sync, and each later one, begins.
        """
        begun, left = trio.Event(), number

        def see(paths: Sequence[str]) -> None:
            nonlocal left
            left -= any(part in path for path in paths)
            if left <= 0 and any(part in path for path in paths):
                then()
                begun.set()

        self.on_sync = see
        try:
            yield begun
        finally:
            if self.on_sync is see:
                self.on_sync = lambda paths: None

    def written_range(self, path: str, start: int, end: int) -> bytes:
        """Return a part of a file as processes see it."""
        return self.inode(path).read(start, end - start) if self.exists(path) else b""

    # For files and syncers.

    def inode(self, path: str) -> Inode:
        return self._names.file(path)

    def node(self, path: str) -> Inode | None:
        """Return the file at a path; None if it is a folder."""
        return None if isinstance(self._names.get(path), Folder) else self._names.file(path)

    def reserve(self, inode: Inode, offset: int, size: int, path: str) -> None:
        """Allocate blocks. Raises: OSError: ENOSPC, because the disk has too little room."""
        wanted = inode.missing_pages(offset, size)
        free = self.options.capacity_bytes // PAGE_BYTES - self._reserved_pages
        if len(wanted) > free:
            self._recount()  # files may have been removed since
            free = self.options.capacity_bytes // PAGE_BYTES - self._reserved_pages
        if len(wanted) > free or (wanted and self.faults.is_full):
            self.faults.effect(FULL)
            raise os_error(errno.ENOSPC, path)
        inode.allocate(wanted)
        self._reserved_pages += len(wanted)

    def sync_duration_s(self) -> float:
        options = self.options
        spread_s = options.sync_mean_s - options.sync_min_s
        above_s = self._rng.expovariate(1 / spread_s) if spread_s > 0 else 0.0
        return options.sync_min_s + above_s + self.faults.sync_delay_s()

    def sync_now(self, inode: Inode, path: str) -> None:
        self.end_sync(inode, inode.begin_sync(), path)

    def end_sync(self, inode: Inode, state: int, path: str) -> None:
        """End the sync that began at `state`. Raises: OSError: a rule makes it fail."""
        try:
            self.faults.check("sync", path)
        except OSError:
            inode.fail_sync(state)
            raise
        inode.end_sync(state)

    def _end_process(self) -> None:
        self.process += 1
        self._locks.clear()

    def _recount(self) -> None:
        self._reserved_pages = sum(inode.allocated_pages for inode in self._names.inodes())
