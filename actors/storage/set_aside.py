"""Before a store opens: what its log has beyond an offset is set aside, for a slave's `resync`.

Whoever asks for it remembers that until the store has opened, so a start that was interrupted does
it again: every step may be repeated, and what was moved stays moved. Nothing is deleted: it lies in
`aside/OFFSET.N/`, under a number of its own for each attempt.

Order: lower the synced mark; copy the end of the file that holds the offset, and sync the copy;
move the later files, the last one first; cut the file (`truncation`). If the whole log has to go,
all that belongs to it is moved, the log last. The queues and the index are cut by the dispatcher
when it starts, as after any other cut.
"""

from __future__ import annotations

from collections.abc import Generator

from actors.env.protocols import Disk
from actors.storage import truncation
from actors.storage.commit_log import CommitLog, segment_bases, segment_path
from actors.storage.layout import StoreLayout
from actors.storage.side_file import SideFile
from actors.storage.small_files import lower_logics_offset
from wire.commitlog import segment_name

CHUNK_BYTES = 4 << 20


def set_aside(
    disk: Disk, layout: StoreLayout, segment_bytes: int, offset: int | None
) -> Generator[None, None, None]:
    """Make `offset` the log's end; None: leave it. At or below its first byte: empty the store.

    Yields every 4 MiB. Raises: ConfigError: files of another size. OSError.
    """
    if offset is None:
        return
    truncation.finish_interrupted(disk, layout)
    bases = segment_bases(disk, layout.commit_log)
    if not bases:
        return
    if offset <= bases[0]:
        _move_all(disk, layout, offset)
        return
    log = CommitLog.load(disk, layout.commit_log, segment_bytes)
    try:
        if not (yield from truncation.has_bytes_behind(disk, log, offset)):
            return
        _lower_mark(disk, layout, offset)
        lower_logics_offset(disk, layout.checkpoint, offset)
        folder = _new_folder(disk, layout, offset)
        yield from _copy_end(disk, log, offset, folder)
        for base in reversed([base for base in log.bases() if base >= offset]):
            _move(disk, segment_path(log.folder, base), f"{folder}/{segment_name(base)}")
    finally:
        log.close(remove_spare=False)
    rest = CommitLog.load(disk, layout.commit_log, segment_bytes)
    try:
        truncation.truncate(disk, layout, rest, offset)
    finally:
        rest.close(remove_spare=False)


def _copy_end(disk: Disk, log: CommitLog, offset: int, folder: str) -> Generator[None, None, None]:
    """The part of the file around `offset` that lies behind it."""
    base = offset - offset % log.segment_bytes
    if base == offset or base not in log.bases():
        return
    source = disk.open(segment_path(log.folder, base), "r")
    target = disk.open(f"{folder}/{segment_name(offset)}", "x")
    try:
        for at in range(offset - base, log.segment_bytes, CHUNK_BYTES):
            data = source.pread(at, min(CHUNK_BYTES, log.segment_bytes - at))
            target.pwrite(data, at - (offset - base))
            yield
        target.sync()
    finally:
        source.close()
        target.close()
    disk.sync_dir(folder)


def _move_all(disk: Disk, layout: StoreLayout, offset: int) -> None:
    folder = _new_folder(disk, layout, offset)
    files = (layout.checkpoint, layout.synced, layout.dispatched, layout.truncating)
    for path in (layout.index, layout.consume_queue, *files, layout.commit_log):
        if disk.exists(path):
            _move(disk, path, f"{folder}/{path.rpartition('/')[2]}")


def _move(disk: Disk, source: str, target: str) -> None:
    disk.rename(source, target)
    disk.sync_dir(target.rpartition("/")[0])
    disk.sync_dir(source.rpartition("/")[0])


def _lower_mark(disk: Disk, layout: StoreLayout, offset: int) -> None:
    if not disk.exists(layout.synced):
        return
    mark, values = SideFile.open(disk, layout.synced, 1)
    try:
        if values is not None and values[0] > offset:
            mark.write((offset,))
            mark.sync()
    finally:
        mark.close()


def _new_folder(disk: Disk, layout: StoreLayout, offset: int) -> str:
    number = 1
    while disk.exists(folder := f"{layout.aside}/{segment_name(offset)}.{number}"):
        number += 1
    disk.mkdir(folder)
    disk.sync_dir(layout.aside)
    disk.sync_dir(layout.root)
    return folder
