"""A feed's own record of what was acknowledged, synced: `DATA_DIR/feed/GROUP.jsonl`.

The feed writes it and not the nodes, so it can testify against them: every receipt is a line here,
and the records that it names must stay in the log for ever. Each line is a JSON object:

| kind | other keys | when |
|---|---|---|
| opened | source, line | a feed begins with this line of its source, counted from 0 |
| acked | line, count, first, last, next, copies, crc | `count` lines have this receipt |
| ended | line | the source has ended and all its lines are acknowledged |

In a row of acked, `line` is the number of the first line, and `next` is the position after the last
record. If no receipt came, but the master's offsets showed that the lines are acknowledged, `next`
is the end of the master's log at that time, and `copies` is 0. `crc` is the `digest` of the lines,
which shows whether the log holds what was fed. Files of older versions lack the last two keys.

A last line that is torn (by a crash while writing) is cut off at the next start. Any other line
that is no row of the table is an error, and nothing is changed. Above FILE_BYTES_MAX the file
becomes `GROUP.1.jsonl` and replaces the one before: it exchanges names with the new file in one
step, and is called `GROUP.jsonl.tmp` until it gets its final name. Each step may fail, and is tried
again then.
"""

from __future__ import annotations

import fcntl
import heapq
import json
import logging
import os
from collections.abc import Iterable
from typing import Any

import attrs
import trio

from actors.env.file_kinds import FILE_MODE, kind_of
from actors.env.local_disk import LocalDisk
from actors.errors import NO_ROOM_CODES, ConfigError
from actors.log_types import Receipt
from actors.storage.files.replacing import NO_EXCHANGE
from actors.storage.files.room import NO_ROOM, ROOM_PAUSE_S
from wire.crc import crc32

FILE_BYTES_MAX = 16 << 20
SHOWN_BYTES_MAX = 60

_LOGGER = logging.getLogger("triolog.cluster")


def digest(lines: Iterable[bytes]) -> int:
    """Return the CRC-32 of lines, joined by newlines. It is computed once per batch, because it
    copies them.
    """
    return crc32(b"\n".join(lines))


class RecordTaken(ConfigError):
    """Another run writes the record.

    Attributes:
        path: the path of the record.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: expected a free feed record, found one that another run writes")
        self.path = path


@attrs.define
class Prefix:
    """Counts how many lines from the start on are acknowledged without a gap.

    Receipts may come out of order after a retry; those that are ahead wait in a heap.
    """

    line: int = 0
    _ahead: list[tuple[int, int]] = attrs.field(factory=list)

    def add(self, line: int, count: int) -> None:
        """Note that `count` lines from `line` on are acknowledged."""
        heapq.heappush(self._ahead, (line, line + count))
        while self._ahead and self._ahead[0][0] <= self.line:
            self.line = max(self.line, heapq.heappop(self._ahead)[1])


class FeedRecord:
    """The record of one group, locked. `note` and `end` sync in a thread, one at a time.

    Raises:
        RecordTaken: another run writes it.
        ConfigError: something else has its name, or its folder's.
        OSError: the disk failed.
    """

    def __init__(self, folder: str, group: str) -> None:
        self._path = os.path.join(folder, f"{group}.jsonl")
        self._older = os.path.join(folder, f"{group}.1.jsonl")
        self._source = ""
        self._prefix = Prefix()
        self._fresh, self._disk = f"{self._path}.tmp", LocalDisk()
        _check_kinds(folder, self._path, self._older)
        self._disk.mkdir(os.path.abspath(folder))
        if os.path.exists(self._fresh) and not os.path.exists(self._path):
            # it is left from a roll that could not exchange both names in one step
            os.rename(self._fresh, self._path)
        is_new = not os.path.exists(self._path)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        self._size_bytes = 0
        if is_new:
            os.fchmod(self._descriptor, FILE_MODE)  # whatever the umask is
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise RecordTaken(self._path) from None
        self._settle()

    def open(self, source: str, *, resumable: bool) -> int:
        """Begin with a source, or go on with it.

        Args:
            source: the name by which the record will recognise the source.
            resumable: whether the source yields the same lines again; standard input does not.

        Returns: the number of the line to go on with: 0, unless the same source was fed in part
            before.
        """
        found_source, prefix = self._read()
        line = prefix.line if resumable and found_source == source else 0
        self._source, self._prefix = source, Prefix(line)
        self._append([{"kind": "opened", "source": source, "line": line}])
        self._sync_names()
        return line

    async def note(self, receipts: list[tuple[int, Receipt, int]]) -> None:
        """Write receipts, each with its first line's number and the `digest` of its lines; return
        when they are synced.
        """
        rows: list[dict[str, Any]] = []
        for line, receipt, crc in receipts:
            self._prefix.add(line, receipt.count)
            place = {"first": receipt.first, "last": receipt.last, "next": receipt.next}
            proof = {"copies": receipt.copies, "crc": crc}
            rows.append({"kind": "acked", "line": line, "count": receipt.count, **place, **proof})
        await self._keep(rows)

    async def end(self) -> None:
        """Note that the source has ended; the next feed of it begins anew."""
        rows = [{"kind": "ended", "line": self._prefix.line}]
        await self._keep(rows)

    async def _keep(self, rows: list[dict[str, Any]]) -> None:
        """Write rows; if the disk is full, wait for room, and so make the feed wait.

        Lines whose receipts are not written would be appended again by the next feed.
        """
        waits = False
        while True:
            try:
                await trio.to_thread.run_sync(self._append, rows)
            except OSError as error:
                if error.errno not in NO_ROOM_CODES:
                    raise
                if not waits:
                    waits = True
                    _LOGGER.warning("%s: the feed waits: %s%s", self._path, NO_ROOM, error)
                await trio.sleep(ROOM_PAUSE_S)
                continue
            if waits:
                _LOGGER.warning("%s: the disk has room again", self._path)
            return

    def close(self) -> None:
        """Close the file. Nothing may be called afterwards."""
        os.close(self._descriptor)

    def _append(self, rows: list[dict[str, Any]]) -> None:
        if self._size_bytes > FILE_BYTES_MAX:
            self._roll()
        self._size_bytes += self._write(self._descriptor, rows, self._size_bytes)

    def _write(self, descriptor: int, rows: list[dict[str, Any]], at_bytes: int) -> int:
        """Write and sync rows. Raises: OSError: they are not written; the same rows may be tried
        again.
        """
        data, done = "".join(json.dumps(row) + "\n" for row in rows).encode(), 0
        while done < len(data):
            done += os.pwrite(descriptor, data[done:], at_bytes + done)
        os.fdatasync(descriptor)
        return done

    def _roll(self) -> None:
        """Begin a new file. It is written first, under its own name, so that a full disk changes
        nothing.

        Raises: OSError: the rows so far are in one of the two files; `_append` may try again.
        """
        self._settle()
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        fresh = os.open(self._fresh, flags, FILE_MODE)
        try:
            os.fchmod(fresh, FILE_MODE)
            fcntl.flock(fresh, fcntl.LOCK_EX | fcntl.LOCK_NB)
            opened = {"kind": "opened", "source": self._source, "line": self._prefix.line}
            size_bytes = self._write(fresh, [opened], 0)
            self._change_names()
            self._sync_names()  # before a row in the new file counts as kept
        except OSError:
            os.close(fresh)
            raise
        os.close(self._descriptor)
        self._descriptor, self._size_bytes = fresh, size_bytes
        self._settle()

    def _change_names(self) -> None:
        try:
            self._disk.exchange(self._fresh, self._path)
        except OSError as error:
            if error.errno not in NO_EXCHANGE:
                raise
            if os.path.exists(self._path):  # otherwise a failure in between is repeated now
                os.rename(self._path, self._older)
            os.rename(self._fresh, self._path)

    def _settle(self) -> None:
        """Finish an earlier roll, or undo one that had not exchanged the names. It may be
        repeated.
        """
        try:
            size_bytes = os.stat(self._fresh).st_size
        except FileNotFoundError:
            return
        if size_bytes > FILE_BYTES_MAX:
            os.rename(self._fresh, self._older)
        else:
            os.unlink(self._fresh)

    def _sync_names(self) -> None:
        self._disk.sync_dir(os.path.dirname(self._path))

    def _read(self) -> tuple[str, Prefix]:
        """Return the last source and how far it came; a torn end is cut off. Raises:
        ConfigError.
        """
        data = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
        source, prefix, self._size_bytes = read_rows(data, self._path)
        os.ftruncate(self._descriptor, self._size_bytes)
        return source, prefix


def read_rows(data: bytes, path: str) -> tuple[str, Prefix, int]:
    """Return the last source, how far it came, and the size of the file without a torn last line.

    Raises: ConfigError, which names `path`: a line is no row, which a crash does not explain.
    """
    source, prefix = "", Prefix()
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    if not lines[-1]:
        lines.pop()
    size_bytes = 0
    for number, line in enumerate(lines, 1):
        row = _row(line)
        if row is None and number == len(lines):
            break
        match row:
            case {"kind": "opened", "source": str(name), "line": int(at)} if at >= 0:
                source, prefix = name, Prefix(at)
            case {"kind": "acked", "line": int(at), "count": int(count)} if at >= 0 < count:
                prefix.add(at, count)
            case {"kind": "ended"}:
                source, prefix = "", Prefix()
            case _:
                shown = line[:SHOWN_BYTES_MAX].decode("utf-8", "replace").strip()
                raise ConfigError(
                    f"{path}: line {number}: expected a row of a feed record,"
                    f" found {json.dumps(shown)}"
                )
        size_bytes += len(line)
    return source, prefix, size_bytes


def _check_kinds(folder: str, *files: str) -> None:
    for path, expected in ((folder, "folder"), *((file, "file") for file in files)):
        if not os.path.exists(path):
            continue
        found = kind_of(os.stat(path))
        if found != expected:
            raise ConfigError(f"{path}: expected a {expected}, found a {found}")


def _row(line: bytes) -> dict[str, Any] | None:
    """Parse a line; None if a crash may have torn it."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if line.endswith(b"\n") and isinstance(row, dict) else None
