"""The store and what derives from it, broken on purpose: see `broken_code`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import attrs
import pytest

from actors.log_types import GoodRange
from actors.storage.commitlog import opening, raw_session, recovery, store
from actors.storage.commitlog.group_commit import GroupCommit
from actors.storage.commitlog.pull_service import AcknowledgedMark, PullService
from actors.storage.commitlog.recovery import first_store_ts
from actors.storage.commitlog.store import Store
from actors.storage.derived import derived_mends
from actors.storage.derived.consume_queue import ConsumeQueues
from actors.storage.derived.derived_files import DerivedFiles
from actors.storage.derived.dispatch_state import UNKNOWN_COUNT
from actors.storage.derived.queue_files import list_queues, scan_queue
from actors.storage.dispatch.dispatcher import Dispatcher
from actors.storage.files.replacing import Replaced
from actors.storage.log.commit_log import CommitLog
from actors.storage.log.digests import digest_of
from actors.storage.log.expiry import Cleaner, Expiry
from actors.storage.log.syncer import Syncer
from actors.storage.node import identity
from actors.storage.scrub.log_check import LogCheck, Steps
from actors.storage.scrub.mending import Mender
from actors.trees import commit_log

Patch = pytest.MonkeyPatch

NO_LIMIT = 1 << 60


# ---- the store ----


def syncs_one_file_only(patch: Patch) -> None:
    """Of several files that were written the last one is synced."""
    real = Syncer._sync

    async def sync(actor: Any) -> None:
        last = list(actor._paths)[-1:]
        actor._paths.clear()
        actor._paths.update(dict.fromkeys(last))
        await real(actor)

    patch.setattr(Syncer, "_sync", sync)


def damaged_bytes_leave(patch: Patch) -> None:
    """A master sends what lies there, whatever was written."""

    def check(check: LogCheck, start: int, end: int) -> Steps[int]:
        yield list
        return end

    patch.setattr(LogCheck, "check", check)


def repair_takes_what_comes(patch: Patch) -> None:
    """A member gives for a repair what lies there, and it is taken for what was written."""

    def good_range(mender: Any, place: int) -> Steps[GoodRange]:
        yield list
        start, end = mender.check.digests.range_at(place)
        data = mender.check.reader.read(start, end - start, end)
        return GoodRange(start=start, data=data, digest=digest_of(data))

    def judge(mender: Any, start: int, data: bytes, **_: Any) -> Generator[None, None, int]:
        yield
        for at, piece in mender._pieces(start, data):
            mender.check.digests.put(at, digest_of(piece))
        return 0

    patch.setattr(Mender, "_good_range", good_range)
    patch.setattr(Mender, "_judge", judge)


def derived_rot_is_believed(patch: Patch) -> None:
    """What the scrub finds damaged of queues and index stays as it is."""
    patch.setattr(derived_mends, "apply_mends", lambda queues, index, mends, done: None)


def files_need_room(patch: Patch) -> None:
    """A small file is replaced by one that is made anew, and whoever finds no room for it ends."""

    def replace(disk: Any, path: str, data: bytes) -> None:
        temporary = f"{path}.tmp"
        if disk.exists(temporary):
            disk.unlink(temporary)
        file = disk.open(temporary, "x")
        try:
            file.pwrite(data, 0)
            file.sync()
        finally:
            file.close()
        disk.rename(temporary, path)
        disk.sync_dir(path.rpartition("/")[0])

    async def replace_beside(file: Replaced, content: Callable[[], bytes]) -> None:
        replace(file._disk, file.path, content())

    patch.setattr(identity, "replace_file", replace)
    patch.setattr(Replaced, "replace", lambda file, data: replace(file._disk, file.path, data))
    patch.setattr(Replaced, "replace_beside", replace_beside)


def mark_before_sync(patch: Patch) -> None:
    """The synced mark says what is written."""
    real = Store._sync_done

    def sync_done(actor: Any, offset_bytes: int) -> None:
        real(actor, offset_bytes)
        actor._mark.write((actor._log.written_bytes,))

    patch.setattr(Store, "_sync_done", sync_done)


def recovery_cuts_below_the_mark(patch: Patch) -> None:
    """Damage is cut off, also where everything had been synced."""
    patch.setattr(recovery, "_refuse_damage", lambda *args: None)


def torn_record_kept(patch: Patch) -> None:
    """A record that was written in part is kept, for the checksum covers its body alone."""
    patch.setattr(recovery, "_is_torn", lambda *args: False)


def no_page_seal(patch: Patch) -> None:
    """Received bytes are written on over a page's end wherever the last ones ended in it."""
    patch.setattr(raw_session, "bytes_to_seal", lambda *args: 0)


def no_sync_at_the_start(patch: Patch) -> None:
    """What a crash left in the page cache is reported without a sync."""

    def nothing(*args: Any) -> Generator[None, None, None]:
        yield

    patch.setattr(opening, "write_again", nothing)
    patch.setattr(opening, "sync_found", nothing)


def failed_sync_at_a_stop(patch: Patch) -> None:
    """The stop that follows a failed sync counts as an ordered one."""

    async def clean(*args: Any) -> bool:
        return True

    patch.setattr(store, "may_close_clean", clean)
    patch.setattr(opening, "write_again", lambda *args: iter(()))


def names_are_not_synced(patch: Patch) -> None:
    """A new log file's name may vanish, and its content with it."""
    real = CommitLog._create

    def create(log: CommitLog, base: int) -> None:
        disk = log._disk

        class NoDirSync:
            def __getattr__(self, name: str) -> Any:
                return (lambda path: None) if name == "sync_dir" else getattr(disk, name)

        log._disk = NoDirSync()  # type: ignore[assignment]
        try:
            real(log, base)
        finally:
            log._disk = disk

    patch.setattr(CommitLog, "_create", create)


def received_twice(patch: Patch) -> None:
    """A batch of appends that rolls a file over is written again."""
    real = GroupCommit._write

    def write(commit: Any, batch: Any, placed: Any, taken: int) -> Any:
        group = real(commit, batch, placed, taken)
        if len(batch.parts) > 1 and group.failed is None:
            commit.log.append(batch.parts[-1])
        return group

    patch.setattr(GroupCommit, "_write", write)


def young_files_expire(patch: Patch) -> None:
    """A full file is deleted whatever its age."""
    patch.setattr(Expiry, "reason_to_delete", lambda *args, **given: "age")


def one_files_time_is_believed(patch: Patch) -> None:
    """The oldest file is as old as its own time says, whatever the others say."""

    def oldest_ms(cleaner: Any, now_ms: int) -> int:
        log = cleaner.log
        found: int = cleaner.env.disk.stat(log.path_of(log.min_bytes)).modified_ms
        return found

    patch.setattr(Cleaner, "_oldest_ms", oldest_ms)


def bad_sectors_end_cleaning(patch: Patch) -> None:
    """Who looks how old a file is needs to read where it begins."""
    patch.setattr(
        Cleaner, "_begun_ms", lambda self, base: first_store_ts(self.env.disk, self.log, base)
    )


# ---- derived files, readers, the runtime ----


def checkpoint_ahead(patch: Patch) -> None:
    """The dispatch state says more than what was synced: everything up to the log's end.

    Behind it stands the count of the units, which a start compares; so that is not known as well.
    """
    real = DerivedFiles._state_at

    def state_at(files: Any, at_bytes: int, seen_bytes: int) -> Any:
        state = real(files, at_bytes, seen_bytes)
        return attrs.evolve(state, dispatched_bytes=seen_bytes, units_count=UNKNOWN_COUNT)

    def take_dirty(queues: Any) -> tuple[str, ...]:
        queues._dirty.clear()
        return ()

    patch.setattr(DerivedFiles, "_state_at", state_at)
    patch.setattr(ConsumeQueues, "take_dirty", take_dirty)


def dispatcher_ahead_of_log(patch: Patch) -> None:
    """What is not synced is dispatched already.

    Behind it stands the next start, which cuts what was derived to what a flush has covered and the
    log still holds; so that start believes what it finds as well.
    """
    real = DerivedFiles._load

    def load(
        files: Any, state: Any, log_min_bytes: int, limit_bytes: int
    ) -> Generator[None, None, int]:
        disk, folder = files.env.disk, files.layout.consume_queue
        found = [
            scan_queue(
                disk, f"{folder}/{topic}/{number}", files.group.consume_queue_bytes, NO_LIMIT
            )
            for topic, number in list_queues(disk, folder)
        ]
        if state is not None:
            ends = [queue.end_bytes for queue in found if queue is not None]
            state = attrs.evolve(state, dispatched_bytes=max([state.dispatched_bytes, *ends]))
        at_bytes = yield from real(files, state, log_min_bytes, NO_LIMIT)
        return min(at_bytes, limit_bytes)

    patch.setattr(DerivedFiles, "_load", load)
    patch.setattr(Dispatcher, "_allowed", lambda actor, written, synced: written)


def room_again_is_not_reported(patch: Patch) -> None:
    """Who has found no room goes on without a word once there is some."""
    real = Cleaner._report

    def tell(cleaner: Any, reason: str) -> None:
        if reason:
            real(cleaner, reason)

    patch.setattr(Cleaner, "_report", tell)


def made_again_is_dropped(patch: Patch) -> None:
    """Records of a topic that was made again get no units, for older ones have their numbers."""
    real = ConsumeQueues.put

    def put(queues: Any, topic: str, queue_id: int, heads: Any) -> Any:
        queue, kept = queues._queues.get((topic, queue_id)), []
        least = 0 if queue is None else queue.next_offset
        for head in heads:
            if head.queue_offset >= least:
                least = head.queue_offset + 1
                kept.append(head)
        if kept:
            real(queues, topic, queue_id, kept)
        return len(heads), []

    patch.setattr(ConsumeQueues, "put", put)


def show_what_is_not_acknowledged(patch: Patch) -> None:
    """Readers see all that is written."""
    patch.setattr(
        commit_log, "PullService", lambda **given: PullService(**{**given, "unacknowledged": True})
    )


def readers_forget_at_a_crash(patch: Patch) -> None:
    """A pull service that is started again knows nothing of what was acknowledged before."""
    patch.setattr(
        commit_log,
        "PullService",
        lambda **given: PullService(**{**given, "mark": AcknowledgedMark()}),
    )
