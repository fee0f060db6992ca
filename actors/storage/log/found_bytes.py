"""Making durable what a start finds in a log: a crash may have left it in the page cache only.

Upstream has nothing like it: what it finds it believes.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from actors.env.protocols import Disk
from actors.storage.files.whole_files import sync_file
from actors.storage.log.commit_log import CommitLog, segment_path

CHUNK_BYTES = 4 << 20
"""A generator here yields after so many bytes."""


def write_again(disk: Disk, log: CommitLog, start_bytes: int) -> Generator[None, None, None]:
    """Write what lies above the mark once more, as it is, so that the next sync covers it.

    If a sync had failed before the crash, the kernel may take its pages for clean while they are
    not on the disk: a sync alone would then pass without writing them.
    """
    size = log.segment_bytes
    for base in log.bases():
        low, high = max(start_bytes, base), min(log.written_bytes, base + size)
        if low >= high:
            continue
        with closing(disk.open(segment_path(log.folder, base), "w")) as file:
            for at in range(low - base, high - base, CHUNK_BYTES):
                file.pwrite(file.pread(at, min(CHUNK_BYTES, high - base - at)), at)
                yield


def sync_found(disk: Disk, log: CommitLog, start_bytes: int) -> Generator[None, None, None]:
    """Sync the files from `start_bytes` on, a file's first byte, before anybody is told of them."""
    for base in log.bases():
        if start_bytes <= base < log.written_bytes:
            sync_file(disk, segment_path(log.folder, base))
            yield
    disk.sync_dir(log.folder)
