"""Reads lines from a file or standard input, in chunks, and writes to standard output, in threads.

Threads are used because a pipe is shared with the program that opened it: making it non-blocking
here would make it so there (for a terminal's shell too), and a plain file cannot be waited for at
all.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections.abc import Sequence
from typing import TypeAlias

import trio

from actors.config.command_line import OutputFailed
from actors.errors import ConfigError, TriologError

READ_BYTES = 256 << 10
CHUNK_LINES_MAX = 1024
CHUNKS_WAITING_MAX = 4
STDIN = "-"
STDIN_DESCRIPTOR = 0

Chunk: TypeAlias = tuple[bytes, ...]
"""Consecutive lines without their newlines; each is one record."""


class LineTooLong(TriologError):
    """A line of the input is longer than a record may be."""


def open_missing_streams() -> None:
    """Open /dev/null for each standard stream that was closed when the program started (`>&-`).

    Otherwise the next file to be opened would take the stream's number, and `sys.stdout` is None.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 - open as long as the program
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def open_source(name: str, where: str) -> int:
    """Open a file to read lines from; `-` is standard input.

    Args:
        where: the source of the name, for people: an option, or a key of the cluster file.

    Raises:
        ConfigError: it cannot be read.
    """
    if name == STDIN:
        return os.dup(STDIN_DESCRIPTOR)
    try:
        if os.path.isdir(name):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        # `read_lines` waits for a named pipe that has no writer yet; this does not.
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(descriptor, True)
        return descriptor
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or "no such file").lower()
        found = json.dumps(name, ensure_ascii=not name.isprintable())
        raise ConfigError(f"{where}: expected a file to read, found {found}: {reason}") from None


async def read_lines(
    descriptor: int,
    targets: Sequence[trio.MemorySendChannel[Chunk]],
    *,
    line_bytes_max: int,
    limit: str = "the group's max_message_bytes",
    skip: int = 0,
    repeat: bool = False,
    empty: bool = True,
) -> None:
    """Send every line to every target; the slowest sets the pace. Closes descriptor and targets.

    Args:
        descriptor: the input, which is read to its end; with `repeat` it has to be a file, which is
            read again from its start.
        line_bytes_max: the longest line; a longer one ends the reading, after the lines before it
            were sent.
        limit: the origin of that limit, for people.
        skip: how many lines to skip, over all repetitions.
        empty: whether to send and count empty lines.

    Raises: LineTooLong; OSError from reading.
    """
    splitter = _Splitter(line_bytes_max, limit)
    mode = os.fstat(descriptor).st_mode
    may_wait = not stat.S_ISREG(mode)
    reading = False
    left, lines_in_file, known = skip, 0, False
    try:
        if stat.S_ISFIFO(mode):  # before the first writer comes a read would find the end
            await trio.lowlevel.wait_readable(descriptor)
        while True:
            reading = True
            data = await trio.to_thread.run_sync(
                os.read, descriptor, READ_BYTES, abandon_on_cancel=may_wait
            )
            reading = False
            lines = splitter.take(data) if data else splitter.end()
            if not empty:
                lines = list(filter(None, lines))
            lines_in_file += 0 if known else len(lines)
            dropped = min(left, len(lines))
            left -= dropped
            await _send(lines[dropped:], targets)
            if splitter.too_long is not None:
                raise splitter.too_long
            if not data:
                if not repeat or not lines_in_file:
                    return
                if not known:
                    known, left = True, left % lines_in_file
                os.lseek(descriptor, 0, os.SEEK_SET)
    finally:
        # An abandoned read of a pipe still uses the descriptor: if it were closed, that read would
        # take the bytes of the next file with its number. The process is about to end then.
        if not (reading and may_wait):
            os.close(descriptor)
        for target in targets:
            target.close()


async def write_out(descriptor: int, data: bytes) -> None:
    """Write all of `data`, however long the reader takes. Raises: OutputFailed."""
    await trio.to_thread.run_sync(_write_all, descriptor, data, abandon_on_cancel=True)


def _write_all(descriptor: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError as error:
        raise OutputFailed(error) from error


async def _send(lines: list[bytes], targets: Sequence[trio.MemorySendChannel[Chunk]]) -> None:
    for start in range(0, len(lines), CHUNK_LINES_MAX):
        chunk = tuple(lines[start : start + CHUNK_LINES_MAX])
        for target in targets:
            await target.send(chunk)


class _Splitter:
    """Cuts bytes into lines; a last line without a newline counts.

    Attributes:
        too_long: the error for a line that is too long, after those returned; None: there is none.
    """

    def __init__(self, line_bytes_max: int, whose: str) -> None:
        self.too_long: LineTooLong | None = None
        self._max = line_bytes_max
        self._whose = whose
        self._rest = b""
        self._number = 0

    def take(self, data: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for number, line in enumerate((*lines, self._rest)):
            if len(line) > self._max:
                at_least = "at least " if line is self._rest else ""
                self.too_long = LineTooLong(
                    f"the input's line {self._number + 1} has {at_least}{len(line)} bytes,"
                    f" more than {self._whose}, {self._max}"
                )
                return lines[:number]
            self._number += 1
        self._number -= 1  # the rest is not a line yet
        return lines

    def end(self) -> list[bytes]:
        rest, self._rest = self._rest, b""
        self._number += bool(rest)
        return [rest] if rest else []
