"""The DLedger store on disk: entries, index, mark, term and vote, checkpoint.

Upstream: openmessaging/dledger, store/file/DLedgerMmapFileStore.java (0.3.1.2).

Differs: see `ledger`; besides,
- What is cut is kept in `cut/`, and the bytes behind the end are zeros, on the disk, before
  anything else is written: no restart finds entries that were cut (B6).
- A follower that is re-based into the middle of a file fills what lies before with a BLANK of
  exactly that length, so that a restart finds its first entry (B6).
- An append is refused before anything is written, or written wholly.

After an error of the disk, a failed read fails only its caller; after a failed change the store
accepts no further one (`DiskGuard`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Protocol, TypeVar

import attrs

from actors.env import Env
from actors.env.protocols import Disk
from actors.errors import NO_ROOM_CODES, CorruptLog, LogFull, StorageError
from actors.events.store import RangeRepaired
from actors.storage.files.replacing import Replaced
from actors.storage.files.room import NoRoom
from actors.storage.files.whole_files import sync_file
from actors.storage.layout import LedgerLayout
from actors.storage.ledger.ledger import (
    NONE,
    Batch,
    FileGone,
    LedgerStore,
    SyncWork,
    WrongPlace,
    check_there,
    check_uncommitted,
    check_vote,
)
from actors.storage.ledger.mark import MarkValues
from actors.storage.ledger.mending import EntryMender
from actors.storage.ledger.opening import OpenedLedger, open_files
from actors.storage.ledger.reader import LedgerReader
from actors.storage.ledger.recovery import need_first_of_log
from actors.storage.ledger.settings import LedgerSettings
from actors.storage.ledger.term_files import CheckpointFile, TermVote, write_term
from actors.storage.log import truncation
from actors.storage.log.expiry import Cleaner
from actors.storage.log.syncer import lost_text
from wire.dledger.entry import ENTRY_HEAD_BYTES
from wire.dledger.files import LedgerCheckpoint

T = TypeVar("T")


class Closable(Protocol):
    """A set of files of a store. They may have a spare file, which holds nothing yet."""

    def close(self, *, remove_spare: bool) -> None: ...


@attrs.define
class DiskGuard:
    """Turns a store's disk errors into its own, and refuses changes after one has failed.

    Attributes:
        root: the store's folder, for messages to people.
        disk: the disk that holds the folder.
        failed: what failed, for people; "" if no change has.
    """

    root: str
    disk: Disk
    failed: str = ""

    def reading(self, read: Callable[[], T]) -> T:
        """Call `read`, which reads the store's files, and return its result.

        Raises: StorageError: the disk gave an error. CorruptLog: a file of the store is missing.
        """
        try:
            return read()
        except FileGone as gone:
            raise CorruptLog(str(gone)) from None
        except OSError as error:
            raise StorageError(f"{self.root}: a read failed: {error}") from error

    def changing(self, what: str) -> _Change:
        """Return a context for a change of the store's files.

        An error of the disk inside it is final: what the disk holds is unknown afterwards.

        Args:
            what: the change, for people.

        Raises: StorageError: this change failed, or an earlier one did.
        """
        return _Change(self, what)

    def close(self, files: Iterable[Closable], *, remove_spare: bool) -> None:
        """Close all these files, in this order. After a failed change spare files are not removed.

        Raises: StorageError: a spare file could not be removed.
        """
        removes = remove_spare and not self.failed
        with ExitStack() as stack:
            if removes:
                stack.enter_context(self.changing("the stop"))
            for each in reversed(tuple(files)):
                stack.callback(each.close, remove_spare=removes)


@attrs.define
class _Change:
    """The context of `DiskGuard.changing`.

    It is a class because every append makes some, and a generator costs four times as much.
    """

    _guard: DiskGuard
    _what: str

    def __enter__(self) -> None:
        guard = self._guard
        if guard.failed:
            raise StorageError(
                f"{guard.root}: the store is not used any more after a failure: {guard.failed}"
            )

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        guard = self._guard
        match error:
            case FileNotFoundError():
                guard.failed = lost_text(guard.disk, str(error.filename))
                raise StorageError(guard.failed) from None
            case StorageError():
                guard.failed = str(error)
            case OSError():
                guard.failed = f"{self._what} failed: {error}"
                raise StorageError(f"{guard.root}: {guard.failed}") from error


def open_ledger(
    env: Env,
    layout: LedgerLayout,
    settings: LedgerSettings,
    *,
    had_vote: bool = False,
    needs_vote: bool = False,
    lacks: Callable[[], None] | None = None,
    owner: str = "",
    emit: Callable[[object], None] | None = None,
) -> Generator[None, None, FileLedger]:
    """Open a store on disk, or create one; see `opening.open_files`. Yields every 4 MiB of work.

    Args:
        had_vote, needs_vote, lacks: see `opening.open_files`.
        owner, emit: see `Cleaner`, which watches the room on the disk.
    """
    opened = yield from open_files(
        env.disk, layout, settings, had_vote=had_vote, needs_vote=needs_vote, lacks=lacks
    )
    log, rules, root = opened.log, settings.expiry(), layout.root
    cleaner = Cleaner(
        env=env, log=log, rules=rules, root=root, owner=owner, emit=emit, needs_next=True
    )
    return FileLedger(env, layout, settings, opened, cleaner)


class FileLedger(LedgerStore):
    """A `LedgerStore` on disk.

    Attributes:
        opened: what the start found.
    """

    def __init__(
        self,
        env: Env,
        layout: LedgerLayout,
        settings: LedgerSettings,
        opened: OpenedLedger,
        cleaner: Cleaner,
    ) -> None:
        super().__init__(file_bytes=opened.log.segment_bytes, vote=opened.vote)
        self.opened = opened
        self._disk = env.disk
        self._layout = layout
        self._settings = settings
        self._log, self._mark = opened.log, opened.mark
        self._index, self._sums = opened.index, opened.sums
        self._logs = (opened.log, opened.index.log, opened.sums.log)
        self._reader = LedgerReader.of(env.disk, layout, settings)
        self._cleaner = cleaner
        self._cleaner.look()
        self.begin_index, self.end_term = opened.begin_index, opened.found.end_term
        self.end_index = self.synced_index = opened.found.end_index
        self.next_index = self.end_index + 1
        self.committed_index, self._synced_bytes = opened.committed_index, opened.log.written_bytes
        self._sync: SyncWork | None = None
        # where the first entry of a log that began anew has to lie; 0: at the log's end
        self._goes_on_bytes = 0
        self._risky = self._mark_dirty = self._is_synced = False
        self._guard = DiskGuard(layout.root, env.disk)
        self._changing, self._reading = self._guard.changing, self._guard.reading
        file = Replaced(env.disk, layout.checkpoint)
        self._checkpoint = CheckpointFile(env.disk, file, self._checkpoint_now, self._changing)

    @property
    def begin_bytes(self) -> int:
        return self._log.min_bytes

    @property
    def end_bytes(self) -> int:
        return max(self._log.written_bytes, self._goes_on_bytes)

    def opening_events(self) -> tuple[object, ...]:
        return self.opened.events()

    # ---- appending ----

    def _append(self, batch: Batch) -> None:
        """Write a batch at the log's end.

        Effects order: room for the whole batch is allocated; then the entries, then the index
            records and checksums are written. `begin_sync` syncs them.
        """
        if self._cleaner.is_full:
            raise LogFull(self._cleaner.full_text())
        self._is_synced = False
        with self._changing("the append"):
            try:
                if self.end_index < 0:
                    self._begin_at(batch.runs[0][0])
                self._log.reserve(batch.end_bytes)
                self._index.reserve(batch.records)
                self._sums.reserve(batch.sums)
            except NoRoom as error:
                raise LogFull(self._cleaner.no_room(error, batch.end_bytes)) from error
            for start, data in batch.runs:
                if start != self._log.written_bytes:
                    self._log.roll()
                assert start == self._log.written_bytes  # EntriesLieWhereTheySay
                self._log.append(data)
            self._index.append(batch.records)
            self._sums.append(batch.sums)
        self._cleaner.wrote()
        self._goes_on_bytes = 0
        if self.end_index < 0:
            self.begin_index = batch.first_index
        self.end_index, self.end_term, self.next_index = (
            batch.last_index,
            batch.term,
            batch.last_index + 1,
        )
        self._risky = self._risky or batch.risky

    # ---- cutting ----

    def truncate(self, index: int) -> Generator[None, None, None]:
        check_there(index, self.begin_index, self.end_index)
        self._check_uncommitted(index)
        record = self._reading(lambda: self._reader.record(max(index - 1, self.begin_index)))
        cuts_all = index == self.begin_index
        end = record.pos if cuts_all else record.pos + record.size
        if not self._settings.cut_stays:
            yield from self._keep_aside(end)
        if cuts_all:
            self._drop_all(index, record.pos)
            return
        self._is_synced = False
        with self._changing(f"the truncation at {index}"):
            self._mark.lower(end)
            self._reader.forget()
            if self._settings.cut_stays:
                truncation.set_end_only(self._disk, self._log, end)
            else:
                truncation.truncate(self._disk, self._layout, self._log, end)
            self._index.cut(index)
            self._sums.cut(index)
        self.end_index, self.end_term, self.next_index = index - 1, record.term, index
        self.synced_index = min(self.synced_index, self.end_index)
        self._synced_bytes = min(self._synced_bytes, end)

    def restart_at(self, index: int, pos_bytes: int) -> Generator[None, None, None]:
        self._check_uncommitted(index)
        yield
        self._drop_all(index, pos_bytes)

    def _drop_all(self, index: int, pos_bytes: int) -> None:
        """Remove all entries; the next one is `index` at `pos_bytes`.

        Effects order: the mark; the files, from the last to the first, so that a crash in between
            leaves a beginning of the log; then the BLANK that fills the new first file up to the
            next entry. If the disk is full, the append of that entry writes the BLANK as well.
        """
        assert self._sync is None, "no sync may be under way"
        head_bytes = pos_bytes % self._log.segment_bytes
        if 0 < head_bytes < ENTRY_HEAD_BYTES:
            raise WrongPlace(
                f"entry {index} cannot begin at {pos_bytes}: no entry fits before it in its file"
            )
        self._is_synced = False
        with self._changing(f"going on at {index}"):
            self._mark.lower(0)
            self._reader.forget()
            self._log.restart_at(pos_bytes - head_bytes)
            self._index.restart_at(index)
            self._sums.restart_at(index)
            self._goes_on_bytes = pos_bytes
            with suppress(NoRoom):
                self._begin_at(pos_bytes)
        self.begin_index = self.end_index = self.end_term = self.synced_index = NONE
        self.next_index, self._synced_bytes = index, 0

    def _begin_at(self, pos_bytes: int) -> None:
        """Make an empty log end at `pos_bytes`: fill what comes before it in its file with a BLANK.

        Raises: NoRoom: nothing was written; OSError: another error of the disk.
        """
        if self._log.written_bytes == pos_bytes:
            return
        head_bytes = pos_bytes % self._log.segment_bytes
        self._log.restart_at(pos_bytes - head_bytes)
        if head_bytes:
            self._log.reserve(pos_bytes)
            self._log.fill(head_bytes)

    def _keep_aside(self, end_bytes: int) -> Generator[None, None, None]:
        assert self._sync is None, "no sync may be under way"
        try:
            yield from truncation.keep_aside(self._disk, self._layout, self._log, end_bytes)
        except OSError as error:
            if error.errno in NO_ROOM_CODES:
                raise LogFull(f"no room to keep aside what is cut: {error}") from error
            with self._changing("keeping aside what is cut"):
                raise

    @property
    def no_room(self) -> str:
        return self._cleaner.lacks

    def lacks_next(self) -> str:
        return self._cleaner.lacks_next()

    def look_for_room(self) -> None:
        self._cleaner.look()

    def delete_expired(self, floor_index: int, *, snapshot: bool = False) -> str | None:
        self._cleaner.look()
        keep = min(floor_index, self.committed_index, self.end_index)
        read = partial(self._reader.pos_of, keep)
        if keep < max(self.begin_index, 0) or (pos := self._cleaner.readable(read)) is None:
            return None
        with self._changing("deleting the oldest file"):
            why = "snapshot" if snapshot else None
            reason = self._cleaner.due(min(pos, self._synced_bytes), reason=why)
            if reason is not None:
                self._is_synced = False
                self._mark.begin_at(self._log.bases()[1])
                self._log.delete_first()
                head = need_first_of_log(self._disk, self._log)
                self.begin_index = head.index
                self._drop_records()
                self._reader.drop_below(head.pos, head.index)
        return reason

    def _drop_records(self) -> None:
        """Delete the files that hold only records of entries that have gone. If a sync under way
        covers such files, they stay until it ends: it may not have opened them yet.
        """
        if self._sync is None or not self._sync.whole:
            self._index.drop_below(self.begin_index)
            self._sums.drop_below(self.begin_index)

    # ---- small files ----

    def save_vote(self, vote: TermVote) -> None:
        check_vote(self.vote, vote)
        with self._changing(f"saving the vote in term {vote.term}"):
            write_term(self._disk, self._layout.term, vote, unsynced=self._settings.vote_unsynced)
        self.vote = vote

    def save_checkpoint(self) -> None:
        self._checkpoint.write()

    async def save_checkpoint_beside(self) -> None:
        await self._checkpoint.write_beside()

    def _checkpoint_now(self) -> LedgerCheckpoint:
        """The checkpoint of what is synced, so a start that finds less knows that bytes were
        lost.
        """
        committed = min(self.committed_index, self.synced_index)
        return LedgerCheckpoint(committed_index=committed, end_index=self.end_index)

    # ---- durability ----

    @property
    def is_synced(self) -> bool:
        return self._is_synced

    def begin_sync(self, *, whole: bool = False) -> SyncWork:
        assert self._sync is None, "one sync at a time"
        paths = self._log.take_dirty()
        if whole:
            paths += self._index.log.take_dirty() + self._sums.log.take_dirty()
            if self._mark_dirty:
                paths += (self._mark.path,)
                self._mark_dirty = False
        work = SyncWork(
            paths=paths,
            gone=tuple(path for log in self._logs for path in log.take_gone()),
            index=self.end_index,
            end_bytes=self._held_bytes,
            whole=whole,
            risky=self._risky,
        )
        self._risky, self._sync, self._is_synced = False, work, True
        return work

    def end_sync(self, work: SyncWork) -> bool:
        """Effects order: the entries are already on the disk; the mark is written, and synced
        before this returns if the entries were risky.
        """
        assert work is self._sync
        self._sync = None
        was = self._mark.values or MarkValues()
        whole = work.end_bytes if work.whole else was.whole_bytes
        now = MarkValues(work.end_bytes, whole, begin_bytes=self._log.min_bytes)
        with self._changing("writing the mark"):
            if now != was:
                self._mark.write(now)
                self._mark_dirty = True
            if work.risky:
                self._mark.sync()
                self._mark_dirty = False
        if work.whole:
            with self._changing("deleting the oldest file"):
                self._drop_records()
        self.synced_index, self._synced_bytes = work.index, work.end_bytes
        return self._mark_dirty or self._index.log.is_dirty

    def close(self, *, ordered: bool) -> None:
        """Effects order: entries and index are synced, the checkpoint is written, then the mark of
        an ordered stop; spare files are removed last.
        """
        ordered = ordered and not self._guard.failed
        late = () if self._sync is None else self._sync.paths
        paths = (*late, *(path for log in self._logs for path in log.take_dirty()))
        try:
            if ordered:
                with self._changing("the stop"):
                    for path in dict.fromkeys(paths):
                        sync_file(self._disk, path)
                self.synced_index = self.end_index
                with suppress(LogFull):
                    self.save_checkpoint()
                with self._changing("the stop"):
                    end = self._held_bytes
                    self._mark.write(MarkValues(end, end, True, self._log.min_bytes))
                    self._mark.sync()
        finally:
            self._reader.forget()
            self._mark.close()
            self._checkpoint.close()
            self._guard.close((self._sums, self._index, self._log), remove_spare=ordered)

    # ---- reading ----

    def read(self, index: int, bytes_max: int) -> bytes:
        check_there(index, self.begin_index, self.end_index)
        return self._reading(lambda: self._reader.read(index, self.end_index, bytes_max))

    def verify(self, index: int, end_index: int, bytes_max: int) -> None:
        if max(self.begin_index, 0) <= index <= self.end_index:
            self._reader.forget()  # a file that is still open may have been removed
            self._reading(
                lambda: self._reader.read(index, min(end_index, self.end_index), bytes_max)
            )

    def mend(self, index: int, data: bytes, source: str) -> RangeRepaired | str:
        if not max(self.begin_index, 0) <= index <= min(self.committed_index, self.synced_index):
            return "it is not committed and synced here, or was removed"
        with self._changing(f"mending {index}"):
            return EntryMender(self._disk, self._layout, self._settings).mend(index, data, source)

    # ---- checks ----

    def _check_uncommitted(self, index: int) -> None:
        if not self._settings.cuts_committed:
            check_uncommitted(index, self.begin_index, self.end_index, self.committed_index)

    @property
    def _held_bytes(self) -> int:
        """The end that the mark may record: 0 for an empty log, wherever its next entry has
        to lie.
        """
        return self._log.written_bytes if self.end_index >= 0 else 0
