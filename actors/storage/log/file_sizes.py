"""What is wrong with the names and sizes of a log's files: a start refuses it.

Upstream: apache/rocketmq store/.../MappedFileQueue.java, load (5.3.3).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from actors.env.protocols import Disk
from actors.errors import ConfigError, CorruptLog
from wire.files.commit_log import segment_name

LOG_BYTES_MAX: Final = 1 << 62
"""No log ever comes there. One that begins near the last long would soon have no position for a
record, nor a name for a file."""


def short_text(path: str, size: int, segment_bytes: int, key: str) -> str:
    """What is wrong with an only file that is too short: nothing beside it says what was changed.

    Args:
        size: of the file, in bytes.
        segment_bytes: that the configuration says, by `key`.
    """
    return (
        f"{path}: expected {segment_bytes} bytes, found {size}: it was cut short, or {key} was"
        f" changed from {size} to {segment_bytes}"
    )


def short_alone(
    disk: Disk, folder: str, bases: Sequence[int], told_bytes: int | None, key: str
) -> list[str]:
    """The same as a line, if it is so, by what the last start's configuration told: that start may
    have been the mistake.

    Args:
        told_bytes: None: nobody knows.
    """
    if told_bytes is None or len(bases) != 1:
        return []
    path = f"{folder}/{segment_name(bases[0])}"
    size = disk.stat(path).size_bytes
    if size >= told_bytes:
        return []
    return [f"{short_text(path, size, told_bytes, key)}, with which a start is refused"]


def check_sizes(
    folder: str, bases: list[int], sizes: list[int], segment_bytes: int, key: str
) -> None:
    """Every file has the configured size and follows the one before it.

    Args:
        bases, sizes: the first offset of each file, ascending, and its size.
        key: where the configuration says the size of a file.

    Raises: ConfigError, CorruptLog: as `CommitLog.load`.
    """

    def path_of(base: int) -> str:
        return f"{folder}/{segment_name(base)}"

    if bases and bases[-1] + segment_bytes > LOG_BYTES_MAX:
        raise CorruptLog(
            f"{path_of(bases[-1])}: no log ever comes to where this file's name says that it"
            " begins: it is none of this log: move it away"
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
