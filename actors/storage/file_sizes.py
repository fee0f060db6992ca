"""What is wrong with the names and sizes of a log's files: a start refuses it.

Upstream: apache/rocketmq store/.../MappedFileQueue.java, load (5.3.3).
"""

from __future__ import annotations

import itertools

from actors.errors import ConfigError, CorruptLog
from wire.commitlog import segment_name


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

    if sizes and len(set(sizes)) == 1 and sizes[0] != segment_bytes:
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
