"""Finds the end of a commit log at a start, and decides what may be cut.

Upstream: apache/rocketmq store/.../CommitLog.java, recoverNormally, recoverAbnormally,
isMappedFileMatchedRecover (5.3.3); classic-ha.md 4.7.

Differs:
- The synced mark: a record that lies below it was once on the disk, so damage there refuses the
  start and says where. Above it the log is cut at the first bad record, and what follows is kept
  aside. `compat` cuts always, as upstream.
- A record at the wrong position (its physicalOffset is another) is bad: it is a stale byte range,
  not a message.
- A record above the mark (without a mark: the last one) that has zero bytes in its topic or
  properties is bad: its last bytes never came, which no CRC shows. Upstream keeps it, and its slave
  then differs from the master for good. Zeros in a record's head alone would pass: a slave never
  lets them arise (`raw_session`).
- Everything behind the end is made zero.
- A BLANK that is the last thing is kept if the mark covers its whole file; without a mark if a next
  file exists, as upstream. Otherwise it is cut and will be written or sent again.
"""

from __future__ import annotations

import enum
import re
import struct
from collections.abc import Generator
from contextlib import closing
from typing import Final

import attrs

from actors.config.bounds import SEGMENT
from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.files.whole_files import read_bytes
from actors.storage.log.commit_log import CommitLog, segment_path
from actors.storage.log.digests import RANGE_BYTES
from wire.files.commit_log import BLANK_BYTES, RECORD_BYTES_MAX, Checkpoint, Scanned, Stop, scan
from wire.files.message_record import (
    MAGIC_V1,
    MAGIC_V2,
    SYS_FLAG_AT,
    SYS_FLAG_BORN_HOST_IPV6,
    SYS_FLAG_HOSTS,
)

READ_BYTES = 1 << 20
"""Recovery yields after so many bytes, or after one record if that is longer. Of records of 200 B
they take some 10 ms."""
BEGINS_KEPT = 3
"""The end may be moved back, to a filler or a torn record, in front of what was read last: then one
is behind it, and one in its own range.
"""
CLOCK_SLACK_MS = 3000
"""The checkpoint's times are believed only so far back. Upstream: StoreCheckpoint.getMinTimestamp.
"""
TORN = "a record whose topic or properties are not there"
_STORE_TS_AT = 56
_BODY_AT = 88
_IPV6_MORE = 12
_HEAD_BYTES = 112
_HEAD_BYTES_MIN = 40
"""Size, magic, physical offset and sysFlag lie within."""


@attrs.frozen(kw_only=True)
class ScanResult:
    """What the scan says about the log. Nothing has been changed yet.

    Attributes:
        end_bytes: where the log ends: behind the last good record, or at a file's end behind a
            BLANK.
        scanned_from_bytes: first byte looked at.
        begins_bytes: where a record begins, or a file: at or below the range of a digest that holds
            the end, and not far below it.
        record_count: good records seen.
        last_store_ts: store timestamp of the last of them in ms; 0 without any.
        reason: why there are no more records; "" if nothing is written there.
    """

    end_bytes: int = 0
    scanned_from_bytes: int = 0
    begins_bytes: int = 0
    record_count: int = 0
    last_store_ts: int = 0
    reason: str = ""


def first_file(
    disk: Disk,
    log: CommitLog,
    *,
    clean: bool,
    dispatched_bytes: int,
    mark_bytes: int | None,
    checkpoint: Checkpoint,
) -> int:
    """The file where the scan begins: everything before it is taken as good.

    Clean: the newest file that starts at or below what was dispatched. Unclean: the newest whose
    first record is at least 3 s older than the checkpoint. Never above the synced mark, so that the
    file which holds it is looked at.

    Source: upstream 5.3.3 recoverNormally and isMappedFileMatchedRecover.
    """
    bases = log.bases()
    assert bases
    limit = bases[-1] if mark_bytes is None else mark_bytes
    trusted_ts = min(checkpoint.log_ts, checkpoint.queue_ts) - CLOCK_SLACK_MS
    for base in reversed(bases):
        if base > limit:
            continue
        if clean and base <= dispatched_bytes:
            return base
        if not clean and 0 < first_store_ts(disk, log, base) <= trusted_ts:
            return base
    return bases[0]


def first_store_ts(disk: Disk, log: CommitLog, base: int) -> int:
    """Store timestamp of the record that the file begins with, in ms; 0 if it begins with none."""
    head = read_bytes(disk, segment_path(log.folder, base), _HEAD_BYTES)
    (magic,) = struct.unpack_from(">4xI", head)
    return store_ms(head, 0) if magic in (MAGIC_V1, MAGIC_V2) else 0


def find_end(
    disk: Disk,
    log: CommitLog,
    *,
    start_bytes: int,
    mark_bytes: int | None,
    compat: bool = False,
    check_crc: bool = True,
    record_bytes_max: int = RECORD_BYTES_MAX,
) -> Generator[None, None, ScanResult]:
    """Scan from the file that begins at `start_bytes`. Reads only; yields at least every 1 MiB or
    record.

    Args:
        mark_bytes: the synced mark; None: the log has none (another program made it).
        compat: ignore the mark.

    Raises: CorruptLog: a record that lies wholly below the mark is bad or missing, or a file became
        shorter than its segment.
    """
    mark = None if compat else mark_bytes
    found = yield from _Scan(disk, log, mark, record_bytes_max, check_crc).run(start_bytes)
    if mark is not None and found.end_bytes < mark:
        _refuse_damage(disk, log, found, mark, record_bytes_max)
    return found


class Ending(enum.Enum):
    """Why the reading of a file ended."""

    FULL = enum.auto()  # the last record ends where the file does
    BLANK = enum.auto()  # a filler of the right size
    UNWRITTEN = enum.auto()  # nothing was ever written behind it
    LIMIT = enum.auto()  # the caller's limit, perhaps within a record that is good so far
    BAD = enum.auto()  # damage, or a torn end


@attrs.frozen(kw_only=True)
class FileEnd:
    """How one file ended.

    Attributes:
        base: its first offset.
        at_bytes: offset behind the last good record.
        ending: why there are no more.
        reason: what is wrong, for BAD.
    """

    base: int
    at_bytes: int
    ending: Ending
    reason: str = ""

    @property
    def goes_on(self) -> bool:
        """Whether the log goes on in the next file."""
        return self.ending in (Ending.FULL, Ending.BLANK)


@attrs.define
class _Scan:
    """One scan. `_mark` None: the log has no mark."""

    _disk: Disk
    _log: CommitLog
    _mark: int | None
    _record_bytes_max: int
    _check_crc: bool
    _count: int = 0
    _last_ts: int = 0
    _torn_at: int | None = None  # the last record seen, if bytes of it may be missing
    _begins: tuple[int, ...] = ()  # of the last ranges in which some read began: one of each

    def run(self, start: int) -> Generator[None, None, ScanResult]:
        """Scan one file after the other; a file's BLANK, or its exact end, leads to the next."""
        end, reason = start, ""
        blank_at: int | None = None  # of a BLANK that no record has followed yet
        for base in self._log.bases():
            if base < start:
                continue
            stopped = yield from self._file(base)
            end, reason = stopped.at_bytes, stopped.reason
            if end > base:
                blank_at = None
            if not stopped.goes_on:
                break
            if stopped.ending is Ending.BLANK:
                blank_at = end
            end = base + self._log.segment_bytes
        if blank_at is not None and not self._keeps_blank(blank_at):
            end, reason = blank_at, "a BLANK that nothing follows"
        elif self._torn_at is not None and blank_at is None:
            end, reason = self._torn_at, TORN
            self._count -= 1
        return ScanResult(
            end_bytes=end,
            scanned_from_bytes=start,
            begins_bytes=self._begins_below(end),
            record_count=self._count,
            last_store_ts=self._last_ts,
            reason=reason,
        )

    def _begin(self, offset: int) -> None:
        """A record is expected there, or a file's filler."""
        if not self._begins or self._range_start(offset) > self._begins[-1]:
            self._begins = (*self._begins[-BEGINS_KEPT + 1 :], offset)

    def _begins_below(self, end: int) -> int:
        limit = self._range_start(end)
        return max((at for at in self._begins if at <= limit), default=end - end % self._size)

    def _range_start(self, offset: int) -> int:
        return offset - offset % self._size % RANGE_BYTES

    @property
    def _size(self) -> int:
        return self._log.segment_bytes

    def _file(self, base: int) -> Generator[None, None, FileEnd]:
        size = self._log.segment_bytes
        want, at = READ_BYTES, 0
        with closing(self._disk.open(segment_path(self._log.folder, base), "r")) as file:
            while at < size:
                data = file.pread(at, min(want, size - at))
                if len(data) < min(want, size - at):
                    raise CorruptLog(f"{file.path}: {at + len(data)} bytes, expected {size}")
                self._begin(base + at)
                result = self._chunk(data, base + at)
                yield
                rest = len(data) - result.end
                at += result.end
                if result.stop is Stop.END:
                    want = READ_BYTES
                elif result.stop is Stop.INCOMPLETE and at + rest < size:
                    want = max(READ_BYTES, rest + result.missing_bytes)
                else:
                    return file_ending(result, base, base + at, size)
            return FileEnd(base=base, at_bytes=base + size, ending=Ending.FULL)

    def _chunk(self, data: bytes, offset: int) -> Scanned:
        found, result = scan(
            data,
            physical_offset=offset,
            check_crc=self._check_crc,
            size_max=self._record_bytes_max,
        )
        if not found:
            return result
        at, size = found[-1]
        if self._mark is None:
            self._torn_at = offset + at if _is_torn(data, at, size) else None
        elif offset + at + size > self._mark:
            for number, (at, size) in enumerate(found):
                if offset + at + size > self._mark and _is_torn(data, at, size):
                    del found[number:]
                    result = Scanned(end=at, stop=Stop.CORRUPT, reason=TORN)
                    break
        self._count += len(found)
        if found:
            self._last_ts = store_ms(data, found[-1][0])
        return result

    def _keeps_blank(self, blank_at: int) -> bool:
        size = self._log.segment_bytes
        file_end = blank_at - blank_at % size + size
        return file_end in self._log.bases() if self._mark is None else self._mark >= file_end


def _parts(data: bytes, at: int) -> tuple[int, int, int, int]:
    """Where the body ends, the topic begins and ends, and the record ends, by its lengths.

    A length that `data` does not hold gives 0 for what depends on it.
    """
    magic, sys_flag = struct.unpack_from(">4xI28xi", data, at)
    body_at = at + _BODY_AT
    body_at += _IPV6_MORE * ((sys_flag & SYS_FLAG_HOSTS) >> 4).bit_count()
    if len(data) < body_at:
        return 0, 0, 0, 0
    body_end = body_at + struct.unpack_from(">i", data, body_at - 4)[0]
    width = 1 if magic == MAGIC_V1 else 2
    if len(data) < body_end + width:
        return body_end, 0, 0, 0
    topic_at = body_end + width
    topic_end = topic_at + int.from_bytes(data[body_end:topic_at], "big")
    if len(data) < topic_end + 2:
        return body_end, topic_at, topic_end, 0
    properties_bytes = int.from_bytes(data[topic_end : topic_end + 2], "big")
    return body_end, topic_at, topic_end, topic_end + 2 + properties_bytes


def _is_torn(data: bytes, at: int, size: int) -> bool:
    """Whether topic or properties hold a zero byte: they were never written completely.

    The CRC covers only the body, so a record whose last bytes are missing passes for a good one.
    """
    _, topic_at, topic_end, end = _parts(data, at)
    assert end == at + size
    return 0 in data[topic_at:topic_end] or 0 in data[topic_end + 2 : end]


def file_ending(stopped: Scanned, base: int, at: int, segment_bytes: int) -> FileEnd:
    """What a stop at `at` means, inside the file that begins at `base`."""
    left = base + segment_bytes - at
    match stopped.stop:
        case Stop.BLANK if stopped.blank_bytes == left:
            return FileEnd(base=base, at_bytes=at, ending=Ending.BLANK)
        case Stop.BLANK:
            reason = f"a BLANK of {stopped.blank_bytes} bytes where {left} are left"
            if smaller := _smaller(base, at + stopped.blank_bytes, segment_bytes):
                reason += f"{_SMALLER}{smaller} bytes"
        case Stop.UNWRITTEN:
            return FileEnd(base=base, at_bytes=at, ending=Ending.UNWRITTEN)
        case Stop.INCOMPLETE:
            reason = "a record that reaches over the end of its file"
        case _:
            reason = stopped.reason
    return FileEnd(base=base, at_bytes=at, ending=Ending.BAD, reason=reason)


_SMALLER: Final = ", as at the end of a file of "


def _smaller(base: int, end: int, segment_bytes: int) -> int | None:
    """Return the size of a log's files if the first that begins at or behind `base` ends at `end`.

    Returns: None if it cannot, or is no smaller than `segment_bytes`.
    """
    size = end - base
    fits = size < segment_bytes and size % SEGMENT.step == 0 and base % size == 0
    return size if fits else None


def smaller_files(reason: str) -> int | None:
    """Return the size of the files for which a log's bytes were made, by the reason of a file's end
    or a text with it; None: it says nothing of smaller files than those there are.
    """
    found = re.search(rf"{_SMALLER}(\d+) bytes", reason)
    return None if found is None else int(found[1])


CURE: Final = (
    "Where another member has these records, empty this group's folder and start the node: it"
    " copies them anew. If it is the master, promote another node first (OPERATING.md, A node does"
    " not start)"
)
"""What to do about a log with which no start goes on, so that no `repair` can be asked for."""
UNLIKE: Final = (
    "on a slave: its master's log is not the one that it had copied (OPERATING.md, Something is"
    " wrong)"
)
"""What to do about a record from which a running node can derive nothing."""


def _refuse_damage(
    disk: Disk, log: CommitLog, found: ScanResult, mark: int, record_bytes_max: int
) -> None:
    """The log ends below what was once synced: allowed only if the mark cuts the record that begins
    there.

    A slave syncs what it has received, so its mark may lie in the middle of a record or of a
    filler.
    """
    end, size = found.end_bytes, log.segment_bytes
    have = b""
    path = log.path_of(end)
    if disk.exists(path):
        with closing(disk.open(path, "r")) as file:
            have = file.pread(end % size, min(mark - end, record_bytes_max))
    if len(have) == mark - end and is_beginning(have, end, size - end % size, record_bytes_max):
        return
    reason = found.reason or "nothing is written there"
    raise CorruptLog(
        f"{path}: byte {end % size} (offset {end}): {reason}, "
        f"but all below {mark} was synced once; nothing was changed. {CURE}"
    )


def is_beginning(have: bytes, offset: int, rest: int, record_bytes_max: int) -> bool:
    """Whether `have` is a good beginning of a record, or of the filler of `rest` bytes.

    Args:
        have: log bytes from `offset` on, as far as something proves them; at least one.
        rest: bytes from `offset` to the end of its file.
        record_bytes_max: largest record that is taken for one.

    A record all of which `have` holds is no beginning: its size says another end than its lengths.
    """
    _, result = scan(have, physical_offset=offset, size_max=record_bytes_max)
    if result.stop is Stop.BLANK:
        return result.blank_bytes == rest
    if result.stop is not Stop.INCOMPLETE:
        return False
    if len(have) < BLANK_BYTES:  # a filler's too, which leaves no room for another
        return rest >= BLANK_BYTES
    if len(have) + result.missing_bytes + BLANK_BYTES > rest:
        return False
    if len(have) < _HEAD_BYTES_MIN:
        return True
    size, position = struct.unpack_from(">i24xq", have)
    body_end, _, topic_end, end = _parts(have, 0)
    return position == offset and max(body_end, topic_end) < size and end in (0, size)


def store_ms(data: bytes, at: int) -> int:
    """The store timestamp of the record that begins at `at`, in ms; 0 for a negative one."""
    (sys_flag,) = struct.unpack_from(">i", data, at + SYS_FLAG_AT)
    more = _IPV6_MORE if sys_flag & SYS_FLAG_BORN_HOST_IPV6 else 0
    (store_ts,) = struct.unpack_from(">q", data, at + _STORE_TS_AT + more)
    return max(int(store_ts), 0)
