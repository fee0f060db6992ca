"""Reads a log file by file, behind damage too, and says of each file where its good records end.

Recovery (`actors.storage.commitlog.recovery`) stops at the first bad byte, because the log ends
there. A check has to look at every file.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing

import attrs

from actors.env.protocols import Disk
from actors.readable import counted
from actors.storage.commitlog.recovery import Ending, FileEnd, file_ending, is_beginning
from actors.storage.files.stepping import Step, Work, labelled
from actors.storage.log.commit_log import segment_path
from actors.storage.log.truncation import is_zero, written_chunks
from actors.storage.tools.stores import FoundStore, GroupStore
from wire.files.commit_log import Stop, scan

READ_BYTES = 4 << 20


@attrs.frozen
class Piece:
    """Whole records, as they were read.

    Attributes:
        offset: the log's offset of the first byte of `data`.
        data: the bytes, which begin with a record; after the last whole record a part of another
            may follow.
        found: the position in `data` and the size of each record.
    """

    offset: int
    data: bytes
    found: list[tuple[int, int]]


def read_file(
    disk: Disk,
    store: GroupStore,
    base: int,
    *,
    start: int | None = None,
    limit: int | None = None,
    record_bytes_max: int | None = None,
    check_crc: bool = True,
) -> Generator[Piece, None, FileEnd]:
    """Read the records of one file, in pieces of about 4 MiB, or of one record that is larger.

    Args:
        start: an offset at which a record begins; None: the file's first byte.
        limit: nothing from this offset on is read; None: the file's end.
        record_bytes_max: the size of the largest possible record; None: as in the store's settings.

    Raises: OSError; FileNotFoundError if the file has expired.
    """
    size_max = record_bytes_max or store.record_bytes_max
    segment_bytes = store.segment_bytes
    file_end = base + segment_bytes
    end = file_end if limit is None else min(file_end, limit)
    at, want = base if start is None else start, READ_BYTES
    with closing(disk.open(segment_path(store.layout.commit_log, base), "r")) as file:
        while at < end:
            data = file.pread(at - base, min(want, end - at))
            if not data:
                break
            found, stopped = scan(data, physical_offset=at, check_crc=check_crc, size_max=size_max)
            if found:
                yield Piece(at, data, found)
            rest = len(data) - stopped.end
            at += stopped.end
            if stopped.stop is Stop.END:
                want = READ_BYTES
            elif stopped.stop is Stop.INCOMPLETE and at + rest < end and len(data) >= want:
                want = max(READ_BYTES, rest + stopped.missing_bytes)
            elif stopped.stop is Stop.INCOMPLETE and at + rest == end < file_end:
                return _at_limit(data[stopped.end :], base, at, file_end, size_max)
            else:
                return file_ending(stopped, base, at, segment_bytes)
        if at == file_end:
            return FileEnd(base=base, at_bytes=at, ending=Ending.FULL)
        if limit is not None and at >= limit:
            return FileEnd(base=base, at_bytes=at, ending=Ending.LIMIT)
        reason = f"the file ends {counted(file_end - at, 'byte')} too early"
        return FileEnd(base=base, at_bytes=at, ending=Ending.BAD, reason=reason)


def _at_limit(have: bytes, base: int, at: int, file_end: int, record_bytes_max: int) -> FileEnd:
    """Judge the beginning of a record that goes on behind the limit.

    Otherwise a damaged size could hide everything from there to the limit.

    Args:
        have: the bytes from `at` to the limit.
    """
    if is_beginning(have, at, file_end - at, record_bytes_max):
        return FileEnd(base=base, at_bytes=at, ending=Ending.LIMIT)
    reason = "a record whose size is not what its lengths say"
    return FileEnd(base=base, at_bytes=at, ending=Ending.BAD, reason=reason)


def used_behind(
    disk: Disk, store: FoundStore, bases: Sequence[int], end_bytes: int
) -> Work[tuple[int, int]]:
    """Return where the bytes behind `end_bytes` end, and how many of them a start would keep that
    cuts there.

    The first value is the offset after the last byte that is not zero, `end_bytes` if there is
    none. The second counts, in each file, the bytes up to its last one that is not zero.
    """
    folder, size, used, kept = store.layout.commit_log, store.segment_bytes, end_bytes, 0
    step = Step(f"{store.name}: behind the end", 0, 0)
    for base in [each for each in bases if each + size > end_bytes]:
        start = max(end_bytes - base, 0)
        at = yield from labelled(used_bytes(disk, segment_path(folder, base), start, size), step)
        if at > start:
            used = base + at
            kept += at - start
    return used, kept


def used_bytes(disk: Disk, path: str, start: int, size_bytes: int) -> Generator[None, None, int]:
    """Return the position after a file's last byte that is not zero; `start` if there is none after
    it.

    Room that was never written is not read.

    Args:
        start, size_bytes: the part of the file that is read: its first position, and its end.
    """
    with closing(disk.open(path, "r")) as file:
        used = start
        for at, size in written_chunks(file, start, size_bytes):
            data = file.pread(at, size)
            if not is_zero(data):
                used = at + len(data.rstrip(b"\0"))
            yield
        return used
