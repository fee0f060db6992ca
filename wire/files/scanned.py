"""How a scan of a log's bytes ended, for RocketMQ's commit log and DLedger's data files."""

from __future__ import annotations

import enum

import attrs


class Stop(enum.Enum):
    """Why a scan stopped."""

    END = enum.auto()  # the last record ends exactly where the bytes do
    BLANK = enum.auto()  # a BLANK: go on with the next file
    UNWRITTEN = enum.auto()  # size and magic are 0: nothing was ever written here
    INCOMPLETE = enum.auto()  # a record's correct beginning; more bytes may complete it
    CORRUPT = enum.auto()  # no record begins here, whatever follows


@attrs.frozen(kw_only=True)
class Scanned:
    """The result of a scan: where and why it stopped.

    Attributes:
        end: where the scan stopped: the position in the buffer behind the last good record.
        stop: why it stopped.
        reason: for CORRUPT, what is wrong; else "".
        blank_bytes: for BLANK, the number of bytes from `end` to the end of the file; else 0.
        missing_bytes: for INCOMPLETE, the least number of bytes that are missing; else 0.
    """

    end: int
    stop: Stop
    reason: str = ""
    blank_bytes: int = 0
    missing_bytes: int = 0
