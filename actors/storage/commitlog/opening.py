"""Opening a store: from the files as a stop or a crash left them to a log that can be written.

And closing it again.

Order: find the end (`recovery`), on a master the next queue offsets, and whether the start is
refused, changing nothing; end an interrupted truncation; load the files; keep aside and cut what
lies behind the end, the synced mark first; sync what was found and raise the mark to it; say in
`abort` that the store runs.

Upstream: DefaultMessageStore.load and recover (5.3.3).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack

import attrs

from actors.config import CommitLogGroup
from actors.env.path_kinds import check_kinds
from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.events import store as events
from actors.storage.commitlog import recovery
from actors.storage.commitlog.given_up import GivenUp
from actors.storage.commitlog.set_aside import set_aside
from actors.storage.commitlog.store_messages import Guard
from actors.storage.derived.adopting import adopt, adopted
from actors.storage.derived.dispatch_state import DispatchState, read_begun_anew
from actors.storage.derived.queue_ends import read_queue_ends
from actors.storage.derived.queue_files import (
    NAMES_PER_STEP,
    QUEUE_OFFSET_LAST,
    QUEUES_PER_STEP,
    queue_folder,
    scan_cut_queue,
    scan_queue,
    walk_queues,
)
from actors.storage.derived.queue_heads import NextOffsets, add_offsets
from actors.storage.derived.small_files import (
    create_abort,
    lower_offsets,
    read_checkpoint,
    read_deleted,
    remove_abort,
)
from actors.storage.files.side_file import SideFile, SideFileDamaged, read_side_file
from actors.storage.files.whole_files import sync_file
from actors.storage.layout import StoreLayout
from actors.storage.log import truncation
from actors.storage.log.commit_log import (
    CommitLog,
    log_files,
    segment_bases,
    segment_path,
    sync_found,
    write_again,
)
from actors.storage.log.digests import forget_digests
from actors.storage.log.truncation import as_if_cut
from wire.files.commit_log import Checkpoint

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
        last_store_ts: no later record may have an earlier store timestamp, in ms since 1970. It
            is later than the deletion of any topic.
        parsed: log bytes [start, end) of records whose CRCs the scan has looked at, from a file's
            first byte to the log's end; empty where the group wants no CRC looked at.
        next_offsets: next queue offset by topic and queue id; empty on a slave.
        first_offset: where other queues begin.
        confirmed_bytes: the checkpoint's confirm offset, within the log: consumers have seen
            nothing behind it. The log's first byte where none was kept.
    """

    log: CommitLog
    mark: SideFile
    was_clean: bool
    found: recovery.ScanResult
    kept_bytes: int
    last_store_ts: int
    parsed: tuple[int, int]
    next_offsets: NextOffsets
    first_offset: int
    confirmed_bytes: int

    def events(self) -> tuple[object, ...]:
        """The events about the opening."""
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
    disk: Disk,
    layout: StoreLayout,
    group: CommitLogGroup,
    *,
    is_master: bool,
    owner: str,
    guard: Guard | None = None,
) -> Generator[None, None, OpenedStore]:
    """Open or create the store. Yields at least every 4 MiB of work.

    Args:
        owner: content of the abort file, for a person who finds it.
        guard: what the log has beyond its `cut_bytes` is set aside first.

    Raises: ConfigError: the files have another size than configured. CorruptLog: damage below the
        synced mark, a missing file. Nothing was changed then. OSError.
    """
    if guard is not None:
        yield from set_aside(disk, layout, group.segment_bytes, guard.cut_bytes)
    judged = yield from _judge(disk, layout, group, is_master)
    disk.mkdir(layout.root)
    truncation.finish_interrupted(disk, layout)
    try:
        log = CommitLog.load(disk, layout.commit_log, group.segment_bytes)
    except CorruptLog as error:
        raise CorruptLog(f"{error}. {recovery.CURE}") from None  # chaining would report it twice
    with ExitStack() as files:
        files.callback(log.close, remove_spare=False)
        mark, _ = SideFile.open(disk, layout.synced, 1)
        files.callback(mark.close)
        if not mark.is_sealed:
            forget_digests(disk, layout.digests)
            mark.is_sealed = True
        opened = yield from _open(disk, layout, group, log, mark, owner, judged)
        files.pop_all()
    return opened


@attrs.frozen(kw_only=True)
class _Judged:
    """A store that a start takes; nothing was changed yet.

    Attributes:
        mark_bytes: the synced mark; None: there is none.
        is_adopted: another program stopped it in order, and its word on what it derived is taken.
        next_offsets, first_offset: as of `OpenedStore`.
    """

    was_clean: bool
    mark_bytes: int | None
    checkpoint: Checkpoint
    is_adopted: bool
    found: recovery.ScanResult
    next_offsets: NextOffsets
    first_offset: int


def _judge(
    disk: Disk, layout: StoreLayout, group: CommitLogGroup, is_master: bool
) -> Generator[None, None, _Judged]:
    """Find all that refuses the start. Reads only. Raises: as `open_store`."""
    folder = layout.commit_log
    paths = [segment_path(folder, base) for base in segment_bases(disk, folder)]
    check_kinds(disk, folders=(), files=paths)  # Of what is to be cut, too.
    disk = as_if_cut(disk, layout, do=truncation.REMOVE)
    bases = log_files(disk, folder, group.segment_bytes, key="segment_bytes")
    log = CommitLog.look(disk, folder, group.segment_bytes, bases)
    mark_bytes = _read_mark(disk, layout)
    was_clean = not disk.exists(layout.abort)
    checkpoint = read_checkpoint(disk, layout.checkpoint)
    is_adopted = was_clean and not disk.exists(layout.dispatched)
    if is_adopted:
        state = yield from adopted(disk, layout, group.consume_queue_bytes, NO_LIMIT)
    else:
        state = DispatchState.read(disk, layout.dispatched)
    found = yield from _find_end(disk, layout, log, group, was_clean, mark_bytes, checkpoint, state)
    log.set_end(found.end_bytes)
    offsets: NextOffsets = {}
    if is_master:
        found_offsets = yield from next_offsets(disk, layout, group, log, state)
        offsets = {
            key: offset if offset <= QUEUE_OFFSET_LAST else 0
            for key, offset in found_offsets.items()
        }
    return _Judged(
        was_clean=was_clean,
        mark_bytes=mark_bytes,
        checkpoint=checkpoint,
        is_adopted=is_adopted,
        found=found,
        next_offsets=offsets,
        first_offset=0 if group.compat else GivenUp.read(disk, layout.given_up).next_offset,
    )


def _open(
    disk: Disk,
    layout: StoreLayout,
    group: CommitLogGroup,
    log: CommitLog,
    mark: SideFile,
    owner: str,
    judged: _Judged,
) -> Generator[None, None, OpenedStore]:
    found, was_clean = judged.found, judged.was_clean
    if judged.is_adopted:
        yield from adopt(disk, layout, group, NO_LIMIT)
    end = found.end_bytes

    def lower() -> None:
        mark.write((end,))
        mark.sync()
        lower_offsets(disk, layout.checkpoint, end)

    kept = yield from truncation.cut_behind(disk, layout, log, end, lower)
    log.set_end(end)
    if not was_clean:
        yield from write_again(disk, log, max(judged.mark_bytes or 0, found.scanned_from_bytes))
    yield from sync_found(disk, log, found.scanned_from_bytes)
    mark.write((end,))
    mark.sync()
    if judged.checkpoint.confirm_offset > end:
        lower_offsets(disk, layout.checkpoint, end)
    create_abort(disk, layout.abort, owner)
    parsed_from = found.scanned_from_bytes if group.check_crc_on_recover else end
    return OpenedStore(
        log=log,
        mark=mark,
        was_clean=was_clean,
        found=found,
        kept_bytes=kept,
        last_store_ts=max(
            found.last_store_ts or judged.checkpoint.log_ts,
            1 + max(read_deleted(disk, layout.topics).values(), default=-1),
        ),
        parsed=(parsed_from, end),
        next_offsets=judged.next_offsets,
        first_offset=judged.first_offset,
        confirmed_bytes=max(log.min_bytes, min(judged.checkpoint.confirm_offset, end)),
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
            ended) and the mark; remove the spare log file; take `abort` away, which stays if
            something was not dispatched, so that the next start looks for it.
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


def _read_mark(disk: Disk, layout: StoreLayout) -> int | None:
    try:
        values = read_side_file(disk, layout.synced, 1)
    except SideFileDamaged:
        raise CorruptLog(
            f"{layout.synced}: the synced mark cannot be read, so it is unknown what may be cut."
            " Remove the file to have the log cut at its first bad record"
        ) from None
    return None if values is None else values[0]


def _find_end(
    disk: Disk,
    layout: StoreLayout,
    log: CommitLog,
    group: CommitLogGroup,
    was_clean: bool,
    mark_bytes: int | None,
    checkpoint: Checkpoint,
    state: DispatchState | None,
) -> Generator[None, None, recovery.ScanResult]:
    compat = group.compat == "upstream"
    if not log.bases():
        if mark_bytes and not compat:
            raise CorruptLog(
                f"{layout.commit_log}: no files, but all below {mark_bytes} was synced once."
                f" {recovery.CURE}"
            )
        return recovery.ScanResult()
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


def next_offsets(
    disk: Disk,
    layout: StoreLayout,
    group: CommitLogGroup,
    log: CommitLog,
    state: DispatchState | None,
) -> Generator[None, None, NextOffsets]:
    """The next queue offset of every queue: from its units, then from the records behind them.

    Upstream takes the units alone, after it has dispatched the whole log (4.9), or as they are
    (5.3.3, and `compat`: T22). If queues or units are missing, the whole log says it.
    """
    offsets: NextOffsets = {}
    unsure: NextOffsets = {}  # of queues whose newest records may have been given up
    behind: NextOffsets = {}
    folder, file_bytes = layout.consume_queue, group.consume_queue_bytes
    given_up = GivenUp() if group.compat else GivenUp.read(disk, layout.given_up)
    begun_bytes = read_begun_anew(disk, layout.begun_anew)
    ends = yield from read_queue_ends(
        disk, layout, state, file_bytes, log.written_bytes, ends_only=True
    )
    if ends and log.written_bytes > begun_bytes:
        for number, (key, known) in enumerate(ends.items(), 1):
            least = given_up.next_offset if known.end_bytes <= given_up.end_bytes else 0
            offsets[key] = max(known.next_offset, least)
            if number % NAMES_PER_STEP == 0:
                yield
        return offsets
    queues = yield from walk_queues(disk, folder)
    if group.compat is not None:
        for number, key in enumerate(queues, 1):
            queue = scan_queue(disk, queue_folder(folder, *key), file_bytes, log.written_bytes)
            offsets[key] = 0 if queue is None else queue.next_offset
            if number % QUEUES_PER_STEP == 0:
                yield
        return offsets
    if state is None or len(queues) < state.queue_count:
        yield from add_offsets(disk, layout, log, log.min_bytes, log.written_bytes, behind)
        return behind
    start = trusted = min(max(state.dispatched_bytes, log.min_bytes), log.written_bytes)
    count = 0
    for number, key in enumerate(queues, 1):
        path, flushed = queue_folder(folder, *key), state.dispatched_bytes
        queue, had = scan_cut_queue(disk, path, file_bytes, trusted, flushed)
        count += had
        if number % QUEUES_PER_STEP == 0:
            yield
        if queue is None:
            start = log.min_bytes
            continue
        offsets[key] = queue.next_offset
        if queue.end_bytes <= given_up.end_bytes:
            unsure[key] = max(queue.next_offset, given_up.next_offset)
    if state.lacks_units(count, max(trusted, state.dispatched_bytes)) or trusted <= begun_bytes:
        start = log.min_bytes
    units = offsets if start == trusted else {}
    end = log.written_bytes
    begun = yield from add_offsets(disk, layout, log, start, end, behind, units)
    for number, (key, offset) in enumerate(behind.items(), 1):
        offsets[key] = offset if key in begun else max(offset, offsets.get(key, 0))
        unsure.pop(key, None)
        if number % NAMES_PER_STEP == 0:
            yield
    offsets.update(unsure)
    return offsets
