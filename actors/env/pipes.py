"""Received bytes that stay in the system: pipes between a socket and a file, filled and emptied by
`splice`. They cost one copy, where recv and pwrite cost two and a large object in between.

A pipe is in the pool of its connection, or in one `PipedBytes`. One that is let go with bytes in it
is closed, for whoever came next would find them there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
from typing import Final

import attrs

PIPE_BYTES = 1 << 20
"""The size that is asked for: what Linux allows without privileges (fs.pipe-max-size). A pipe holds
pages, so this is the most that it can take; fewer bytes fill it if they lie scattered."""
PIPES_MAX = 16
"""How many pipes, of two descriptors each, one connection may have. When none is free, bytes are
received into memory."""
CONNECTION_BYTES_MAX: Final = PIPES_MAX * PIPE_BYTES
"""How much of the system's memory, which is not the program's, one connection's pipes may take."""
DESCRIPTORS_SHARE = 2
"""The fraction of the process's descriptors, one half, up to which pipes are opened. Without a pipe
bytes are copied, but without a descriptor for its next file the store ends the node."""


@attrs.define(eq=False)
class PipedBytes:
    """Received bytes in a pipe of their own; implements `Held`."""

    _pool: PipePool
    _read_fd: int
    _write_fd: int
    _size: int = 0

    def __len__(self) -> int:
        return self._size

    def fill(self, socket_fd: int, max_bytes: int) -> int:
        """Take more bytes from the socket.

        Returns: how many; 0 at the end of the stream.

        Raises: BlockingIOError: no bytes are there now, or the pipe is full. OSError.
        """
        flags = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
        count = os.splice(socket_fd, self._write_fd, max_bytes, flags=flags)
        self._size += count
        return count

    def pour(self, file_fd: int, offset: int, size: int) -> None:
        """Write the first `size` bytes to the file at `offset`.

        Raises: OSError: how much of them was written is undefined, and nothing is held any more.
        """
        assert 0 < size <= self._size
        try:
            end = offset + size
            while offset < end:  # ends: every turn writes at least one byte
                offset += self._move(file_fd, offset, end - offset)
        except OSError:
            self.discard()
            raise
        self._size -= size
        if not self._size:
            self.give_back()

    def _move(self, file_fd: int, offset: int, size: int) -> int:
        try:
            count = os.splice(self._read_fd, file_fd, size, offset_dst=offset)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return self._copy(file_fd, offset, size)
        if count == 0:
            raise OSError(errno.EIO, f"{size} bytes were left to be written")
        return count

    def _copy(self, file_fd: int, offset: int, size: int) -> int:
        """Copy without splice, for file systems that lack it.

        All bytes that are read are written at once, because they have left the pipe.
        """
        data = memoryview(os.read(self._read_fd, size))
        done = 0
        while done < len(data):  # ends: every turn writes at least one byte
            count = os.pwrite(file_fd, data[done:], offset + done)
            if count == 0:
                raise OSError(errno.EIO, f"{len(data) - done} bytes were left to be written")
            done += count
        return done

    def give_back(self) -> None:
        """Give back the pipe, which is empty because it was not needed."""
        assert not self._size
        fds, self._read_fd, self._write_fd = (self._read_fd, self._write_fd), -1, -1
        self._pool.give_back(fds)

    def discard(self) -> None:
        """Drop the bytes; harmless if there are none."""
        self._size = 0
        if self._read_fd >= 0:
            fds, self._read_fd, self._write_fd = (self._read_fd, self._write_fd), -1, -1
            self._pool.throw_away(fds)

    def __del__(self) -> None:
        self.discard()


@attrs.define(eq=False)
class PipePool:
    """The pipes of one connection. Bytes that they hold when it closes can still be written."""

    _free: list[tuple[int, int]] = attrs.field(init=False, factory=list)
    _count: int = attrs.field(init=False, default=0)
    _closed: bool = attrs.field(init=False, default=False)

    def take(self) -> PipedBytes | None:
        """Return an empty pipe; None if PIPES_MAX are in use, or few descriptors are free."""
        assert not self._closed
        if self._free:
            return PipedBytes(self, *self._free.pop())
        if self._count == PIPES_MAX:
            return None
        try:
            fds = os.pipe()
        except OSError:  # no descriptor is left
            return None
        self._count += 1
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if 0 <= allowed <= DESCRIPTORS_SHARE * max(fds):  # the lowest free number is given first
            self.throw_away(fds)
            return None
        with contextlib.suppress(OSError):  # this user has many pipes: then a small one
            fcntl.fcntl(fds[1], fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return PipedBytes(self, *fds)

    def give_back(self, fds: tuple[int, int]) -> None:
        """Keep an empty pipe for the next use."""
        if self._closed:
            self.throw_away(fds)
        else:
            self._free.append(fds)

    def throw_away(self, fds: tuple[int, int]) -> None:
        """Close a pipe that is not needed any more, or that has bytes in it."""
        self._count -= 1
        for fd in fds:
            os.close(fd)

    def close(self) -> None:
        """Close the pipes; harmless if they are closed."""
        self._closed = True
        while self._free:
            self.throw_away(self._free.pop())
