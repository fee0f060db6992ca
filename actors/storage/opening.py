"""Opening a store: from the files as a stop or a crash left them to a log that can be written.

And closing it again.

Order: end an interrupted truncation; load the files; find the end (`recovery`); keep aside and cut
what lies behind it, the synced mark first; sync what was found and raise the mark to it; say in
`abort` that the store runs; on a master learn the next queue offsets.

Upstream: DefaultMessageStore.load and recover (5.3.3).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack

import attrs

from actors.config import ClassicGroup
from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.events import store as events
from actors.storage import recovery, truncation
from actors.storage.commit_log import CommitLog
from actors.storage.derived_files import adopt
from actors.storage.dispatch_state import DispatchState
from actors.storage.found_bytes import sync_file, sync_found, write_again
from actors.storage.given_up import GivenUp
from actors.storage.layout import StoreLayout
from actors.storage.queue_files import Queue, list_queues, scan_queue
from actors.storage.queue_heads import NextOffsets, add_offsets
from actors.storage.side_file import SideFile, SideFileDamaged
from actors.storage.small_files import create_abort, read_checkpoint, remove_abort
from wire.commitlog import Checkpoint

NEVER = -1
NO_LIMIT = 1 << 62


@attrs.frozen(kw_only=True)
class OpenedStore:
    """A store that is ready.

    Attributes:
        log: its end is set, and synced.
        mark: the synced mark's file; it says `log.written_bytes`.
        was_clean: the last stop was an ordered one.
        found: what the scan said.
        kept_bytes: bytes that were cut and are in `cut/` now.
        last_store_ts: no later record may have an earlier store timestamp.
        next_offsets: next queue offset by topic and queue id; empty on a slave.
        first_offset: where other queues begin.
    """

    log: CommitLog
    mark: SideFile
    was_clean: bool
    found: recovery.Found
    kept_bytes: int
    last_store_ts: int
    next_offsets: NextOffsets
    first_offset: int

    def events(self) -> tuple[object, ...]:
        """What to emit about it."""
        end, kept = self.log.written_bytes, self.kept_bytes
        finished = events.RecoveryFinished(
            was_clean=self.was_clean,
            scanned_from_bytes=self.found.scanned_from_bytes,
            end_bytes=end,
            record_count=self.found.record_count,
            kept_bytes=kept,
            reason=self.found.reason,
        )
        cut = events.LogTruncated(end_bytes=end, kept_bytes=kept)
        return (cut, finished) if kept else (finished,)


def open_store(
    disk: Disk, layout: StoreLayout, group: ClassicGroup, *, is_master: bool, owner: str
) -> Generator[None, None, OpenedStore]:
    """Open or create the store. Yields at least every 4 MiB of work.

    Args:
        owner: content of the abort file, for a person who finds it.

    Raises: ConfigError: the files have another size than configured. CorruptLog: damage below the
        synced mark, a missing file. OSError.
    """
    disk.mkdir(layout.root)
    truncation.finish_interrupted(disk, layout)
    log = CommitLog.load(disk, layout.commit_log, group.segment_bytes)
    with ExitStack() as files:
        files.callback(log.close, remove_spare=False)
        mark, mark_bytes = _open_mark(disk, layout)
        files.callback(mark.close)
        opened = yield from _open(disk, layout, group, log, mark, mark_bytes, is_master, owner)
        files.pop_all()
    return opened


def _open(
    disk: Disk,
    layout: StoreLayout,
    group: ClassicGroup,
    log: CommitLog,
    mark: SideFile,
    mark_bytes: int | None,
    is_master: bool,
    owner: str,
) -> Generator[None, None, OpenedStore]:
    was_clean = not disk.exists(layout.abort)
    checkpoint = read_checkpoint(disk, layout.checkpoint)
    if was_clean and not disk.exists(layout.dispatched):
        yield from adopt(disk, layout, group, NO_LIMIT)
    state = DispatchState.read(disk, layout.dispatched)
    found = yield from _find_end(disk, layout, log, group, was_clean, mark_bytes, checkpoint, state)
    end = found.end_bytes
    kept = yield from _cut(disk, layout, log, mark, end)
    log.set_end(end)
    if not was_clean:
        yield from write_again(disk, log, max(mark_bytes or 0, found.scanned_from_bytes))
    yield from sync_found(disk, log, found.scanned_from_bytes)
    mark.write((end,))
    mark.sync()
    create_abort(disk, layout.abort, owner)
    offsets: NextOffsets = {}
    if is_master:
        offsets = yield from next_offsets(disk, layout, group, log, state)
    return OpenedStore(
        log=log,
        mark=mark,
        was_clean=was_clean,
        found=found,
        kept_bytes=kept,
        last_store_ts=found.last_store_ts or checkpoint.log_ts,
        next_offsets=offsets,
        first_offset=0 if group.compat else GivenUp.read(disk, layout.given_up).next_offset,
    )


def close_store(
    disk: Disk,
    layout: StoreLayout,
    log: CommitLog,
    mark: SideFile,
    paths: tuple[str, ...],
    *,
    synced_bytes: int | None,
) -> None:
    """Release a store.

    Args:
        synced_bytes: None if the stop is not an ordered one: then only release. Else sync `paths`,
            all log files that hold bytes at or behind it (a sync that is under way may not have
            ended) and the mark; remove the spare file, then `abort`, which stays if something was
            not dispatched, so that the next start looks for it.
    """
    ordered = synced_bytes is not None
    try:
        if synced_bytes is not None:
            size = log.segment_bytes
            late = [base for base in log.bases() if synced_bytes - size < base < log.written_bytes]
            for path in dict.fromkeys((*paths, *(log.path_of(base) for base in late))):
                sync_file(disk, path)
            mark.write((log.written_bytes,))
            mark.sync()
    finally:
        log.close(remove_spare=ordered)
        mark.close()
    state = DispatchState.read(disk, layout.dispatched) if ordered else None
    if state is not None and state.seen_bytes >= log.written_bytes:
        remove_abort(disk, layout.abort)


def _open_mark(disk: Disk, layout: StoreLayout) -> tuple[SideFile, int | None]:
    try:
        mark, values = SideFile.open(disk, layout.synced, 1)
    except SideFileDamaged:
        raise CorruptLog(
            f"{layout.synced}: the synced mark cannot be read; without it nobody knows what may be "
            "cut. Remove the file to have the log cut at its first bad record"
        ) from None
    return mark, None if values is None else values[0]


def _find_end(
    disk: Disk,
    layout: StoreLayout,
    log: CommitLog,
    group: ClassicGroup,
    was_clean: bool,
    mark_bytes: int | None,
    checkpoint: Checkpoint,
    state: DispatchState | None,
) -> Generator[None, None, recovery.Found]:
    compat = group.compat == "upstream"
    if not log.bases():
        if mark_bytes and not compat:
            raise CorruptLog(
                f"{layout.commit_log}: no files, but all below {mark_bytes} was synced once"
            )
        return recovery.Found(
            end_bytes=0, scanned_from_bytes=0, record_count=0, last_store_ts=0, reason=""
        )
    dispatched = state.dispatched_bytes if state is not None else NEVER
    start = recovery.first_file(
        disk,
        log,
        clean=was_clean,
        dispatched_bytes=dispatched,
        mark_bytes=mark_bytes,
        checkpoint=checkpoint,
    )
    return (
        yield from recovery.find_end(
            disk,
            log,
            start_bytes=start,
            mark_bytes=mark_bytes,
            compat=compat,
            check_crc=group.check_crc_on_recover,
            record_bytes_max=group.record_bytes_max,
        )
    )


def _cut(
    disk: Disk, layout: StoreLayout, log: CommitLog, mark: SideFile, end_bytes: int
) -> Generator[None, None, int]:
    """Cut what lies behind the end, if anything does. Gives the bytes kept aside."""
    used = yield from truncation.has_bytes_behind(disk, log, end_bytes)
    if not used:
        return 0
    kept = yield from truncation.keep_aside(disk, layout, log, end_bytes)
    mark.write((end_bytes,))
    mark.sync()
    truncation.truncate(disk, layout, log, end_bytes)
    return kept


def next_offsets(
    disk: Disk,
    layout: StoreLayout,
    group: ClassicGroup,
    log: CommitLog,
    state: DispatchState | None,
) -> Generator[None, None, NextOffsets]:
    """The next queue offset of every queue: from its units, then from the records behind them.

    Upstream takes the units alone, after it has dispatched the whole log (4.9), or as they are
    (5.3.3, and `compat`: T22). If queues or units are missing, the whole log says it.
    """
    offsets: NextOffsets = {}
    unsure: NextOffsets = {}  # of queues whose newest records may have been given up
    queues = list_queues(disk, layout.consume_queue)
    if group.compat is not None:
        for topic, queue_id in queues:
            folder = f"{layout.consume_queue}/{topic}/{queue_id}"
            queue = scan_queue(disk, folder, group.consume_queue_bytes, log.written_bytes)
            yield
            offsets[topic, queue_id] = 0 if queue is None else queue.next_offset
        return offsets
    behind: NextOffsets = {}
    if state is None or len(queues) < state.queue_count:
        yield from add_offsets(disk, log, log.min_bytes, log.written_bytes, behind)
        return behind
    given_up = GivenUp.read(disk, layout.given_up)
    start = trusted = min(max(state.dispatched_bytes, log.min_bytes), log.written_bytes)
    found: list[Queue] = []
    for topic, queue_id in queues:
        folder = f"{layout.consume_queue}/{topic}/{queue_id}"
        queue = scan_queue(disk, folder, group.consume_queue_bytes, trusted)
        yield
        if queue is None:
            start = log.min_bytes
            continue
        found.append(queue)
        offsets[topic, queue_id] = queue.next_offset
        if queue.end_bytes <= given_up.end_bytes:
            unsure[topic, queue_id] = max(queue.next_offset, given_up.next_offset)
    if state.lacks_units(found, trusted):
        start = log.min_bytes
    yield from add_offsets(disk, log, start, log.written_bytes, behind)
    known = {key: max(offset, offsets.get(key, 0)) for key, offset in behind.items()}
    return {**offsets, **unsure, **known}
