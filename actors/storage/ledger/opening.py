"""Opens a DLedger store: makes a log that can be written of the files that a stop or a crash left.

Order: find the log's end, term and vote, and whether the start is refused, without a change
(`judge`); finish an interrupted truncation; load the files; copy what lies behind the end to
`cut/`, lower the mark, and cut it; make index and checksums again where they are missing or
disagree; sync what was found and raise the mark to it; read the committed index.

Upstream: openmessaging/dledger, DLedgerMmapFileStore.java, load and recover; MemberState.java,
loadTerm (0.3.1.2).

`judge` finds whatever refuses a start. Files are cut, made again, filled up or removed only after
it has accepted the store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import ExitStack
from functools import partial

import attrs

from actors.env.path_kinds import check_kinds
from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.events import store as events
from actors.storage.layout import LedgerLayout
from actors.storage.ledger import recovery
from actors.storage.ledger.mark import Mark, MarkValues, need_mark
from actors.storage.ledger.per_index import (
    SUM_BYTES,
    PerIndexFiles,
    all_known,
    has_file_of,
    stored_sums,
    sums_file_bytes,
    sums_of,
)
from actors.storage.ledger.recovery import OnHeads, ScanResult
from actors.storage.ledger.settings import LedgerSettings
from actors.storage.ledger.term_files import (
    GUIDE,
    NO_VOTE,
    NO_VOTE_DO,
    NOTHING_LEFT,
    NOTHING_LEFT_DO,
    REMOVE_THEN,
    LostVote,
    TermVote,
    older_text,
    read_checkpoint,
    read_term,
    settle_term,
    write_checkpoint,
    write_term,
)
from actors.storage.log import truncation
from actors.storage.log.commit_log import (
    CommitLog,
    log_files,
    segment_bases,
    segment_path,
    sync_found,
    write_again,
)
from actors.storage.log.truncation import as_if_cut
from wire.dledger.entry import INDEX_BYTES, encode_blank
from wire.dledger.files import LedgerCheckpoint
from wire.dledger.scan import EntryHead

DATA_KEY = "data_file_bytes"
INDEX_KEY = "index_file_bytes"
SUMS_KEY = "a quarter of index_file_bytes"


@attrs.frozen(kw_only=True)
class AcceptedStore:
    """A store that a start accepts.

    Attributes:
        was: the mark's values; None: there is none, or it is ignored (`cut_stays`).
        found: the result of the scan.
        vote: the vote that was saved last; None: there is none, and none was lost.
        begin_index: the index of the first entry; -1 if the log is empty.
        index_base: the offset of the data file from whose entries on the index has to be made
            again; None: the index is whole.
        index_begins: whether the index is whole up to that file; if not, all of it is removed.
    """

    was: MarkValues | None
    found: ScanResult
    vote: TermVote | None
    begin_index: int
    index_base: int | None
    index_begins: bool


def judge(
    disk: Disk,
    layout: LedgerLayout,
    settings: LedgerSettings,
    *,
    had_vote: bool,
    needs_vote: bool,
) -> Generator[None, None, AcceptedStore]:
    """Look at the store without changing it, and accept it or refuse the start.

    Yields at least every 4 MiB. Args, Raises: as of `open_files`.
    """
    folders = (layout.commit_log, layout.index, layout.sums)
    paths = [segment_path(each, base) for each in folders for base in segment_bases(disk, each)]
    check_kinds(disk, folders=(), files=paths)  # The files to be cut must be regular files, too.
    disk = as_if_cut(disk, layout, do=REMOVE_THEN)
    size = settings.data_file_bytes
    bases = log_files(disk, layout.commit_log, size, key=DATA_KEY)
    log = CommitLog.look(disk, layout.commit_log, size, bases)
    with ExitStack() as files:
        index, sums = _per_entry(PerIndexFiles.usable, disk, layout, settings, files)
        was = need_mark(disk, layout.synced)
        if settings.cut_stays:
            was = None
        judging = _Judging(disk, layout, log, index, sums, was, settings, had_vote, needs_vote)
        return (yield from judging.run())


def _per_entry(
    look: Callable[..., PerIndexFiles],
    disk: Disk,
    layout: LedgerLayout,
    settings: LedgerSettings,
    files: ExitStack,
) -> tuple[PerIndexFiles, PerIndexFiles]:
    """Return index and checksums as `look` finds them; `files` closes them.

    The files of checksums may show that the index files have the configured size: they are cut one
    after the other, and a crash leaves a last file of one of them short.
    """
    size = settings.index_file_bytes
    sums_bytes = sums_file_bytes(size)
    is_sure = has_file_of(disk, layout.sums, sums_bytes)
    index = look(disk, layout.index, size, INDEX_BYTES, key=INDEX_KEY, is_sure=is_sure)
    files.callback(index.close, remove_spare=False)
    sums = look(disk, layout.sums, sums_bytes, SUM_BYTES, key=SUMS_KEY, is_sure=True)
    files.callback(sums.close, remove_spare=False)
    return index, sums


@attrs.define
class _Judging:
    _disk: Disk
    _layout: LedgerLayout
    _log: CommitLog
    _index: PerIndexFiles
    _sums: PerIndexFiles
    _was: MarkValues | None
    _settings: LedgerSettings
    _had_vote: bool
    _needs_vote: bool

    def run(self) -> Generator[None, None, AcceptedStore]:
        compared = _IndexCompare(self._index)
        found = yield from recovery.find_at_start(
            self._disk,
            self._log,
            was=self._was,
            sums=self._sums,
            checkpoint=self._layout.checkpoint,
            cuts_committed=self._settings.cuts_committed,
            on_heads=compared.take,
        )
        vote = self._vote(found)
        begin = self._begin_index(found)
        base, begins = yield from self._index_base(found, begin, compared.agrees)
        return AcceptedStore(
            was=self._was,
            found=found,
            vote=vote,
            begin_index=begin,
            index_base=base,
            index_begins=begins,
        )

    def _vote(self, found: ScanResult) -> TermVote | None:
        path, unsynced = self._layout.term, self._settings.vote_unsynced
        vote = read_term(self._disk, path, unsynced=unsynced)
        if vote is None and found.end_index < 0 and self._had_vote and not unsynced:
            raise LostVote(path, NOTHING_LEFT, NOTHING_LEFT_DO)
        # Without a mark, the entries may be a backup's on which a whole group begins anew.
        if vote is None and found.end_index >= 0 and self._was is not None:
            raise LostVote(path, NO_VOTE, NO_VOTE_DO)
        if self._needs_vote and vote is not None and vote.term < found.end_term:
            raise LostVote(path, older_text(vote.term, found.end_term))
        return vote

    def _begin_index(self, found: ScanResult) -> int:
        bases = self._log.bases()
        if found.end_index < 0 or found.first_base == bases[0]:
            return found.first_index
        return recovery.need_first_of_log(self._disk, self._log).index

    def _index_base(
        self, found: ScanResult, begin: int, agrees: bool
    ) -> Generator[None, None, tuple[int | None, bool]]:
        """Return `index_base` and `index_begins` of `AcceptedStore`."""
        index = self._index
        if found.end_index < 0:
            return None, True
        begins = index.covers(begin) and self._agrees_at_begin(begin)
        begins = begins and not (yield from index.has_gap(begin, found.first_index))
        if begins and agrees and index.covers(found.end_index):
            return None, True
        if begins and index.covers(found.first_index):
            return found.first_base, True
        base = self._log.bases()[0]
        if base != found.first_base:
            yield from self._need_whole(base, found)
        return base, False

    def _need_whole(self, base: int, found: ScanResult) -> Generator[None, None, None]:
        """Check that the files before the scanned ones are whole and lead to them.

        This comes before the index is removed, because the index may be right and the files wrong.

        Raises: CorruptLog: one of these files is damaged.
        """
        seen = yield from recovery.find_end(
            self._disk, self._log, start_base=base, mark_bytes=None, sums=self._sums
        )
        # What lies behind the found end is going to be cut.
        if seen.end_bytes < found.end_bytes:
            end = seen.end_bytes
            raise CorruptLog(
                f"{self._log.path_of(end)}: byte {end % self._log.segment_bytes} (offset {end}): "
                f"{seen.reason or 'nothing is written there'}, but the log goes on to "
                f"{found.end_bytes}; nothing was changed"
            )

    def _agrees_at_begin(self, begin: int) -> bool:
        head = recovery.first_of_log(self._disk, self._log)
        assert head is not None
        return self._index.read(begin, 1) == recovery.index_records([head])


@attrs.define
class _IndexCompare:
    """Compares index records with the entries that a scan reads."""

    _index: PerIndexFiles
    agrees: bool = True

    def take(self, data: bytes, heads: list[EntryHead]) -> None:
        if self.agrees:
            wanted = recovery.index_records(heads)
            first, covered = heads[0].index, self._index.covers
            if not covered(first) or self._index.read(first, len(heads)) != wanted:
                self.agrees = False


_LOGGER = logging.getLogger("triolog.storage")


@attrs.frozen(kw_only=True)
class OpenedLedger:
    """A store that was opened and can be written.

    Attributes:
        log, index, sums: the store's files, synced and with their ends set.
        mark: the mark, which has the log's end and says that the store is in use.
        vote: the vote that was saved last.
        begin_index: the index of the first entry; -1 if the log is empty.
        found: the result of the scan.
        committed_index: the checkpoint's committed index, not above the end; -1 if it is unknown.
        kept_bytes: how many bytes were cut and are now in `cut/`.
        was_clean: whether the last stop was an ordered one.
        index_made: the offset of the data file from whose entries on the index was made again;
            None: it was whole.
    """

    log: CommitLog
    index: PerIndexFiles
    sums: PerIndexFiles
    mark: Mark
    vote: TermVote
    begin_index: int
    found: ScanResult
    committed_index: int
    kept_bytes: int
    was_clean: bool
    index_made: int | None

    def events(self) -> tuple[object, ...]:
        """Return the events about the opening."""
        end = self.log.written_bytes
        finished = events.RecoveryFinished(
            was_clean=self.was_clean,
            scanned_from_bytes=self.found.first_base,
            end_bytes=end,
            record_count=self.found.entry_count,
            kept_bytes=self.kept_bytes,
            reason=self.found.reason,
        )
        cut = events.LogTruncated(end_bytes=end, kept_bytes=self.kept_bytes)
        return (cut, finished) if self.kept_bytes else (finished,)


def open_files(
    disk: Disk,
    layout: LedgerLayout,
    settings: LedgerSettings,
    *,
    had_vote: bool = False,
    needs_vote: bool = False,
    lacks: Callable[[], None] | None = None,
) -> Generator[None, None, OpenedLedger]:
    """Open a store, or create it. Yields at least every 4 MiB of work.

    Args:
        had_vote: whether term and vote were once on the disk: a store without them is not new then.
        needs_vote: whether a vote from before the last entry's term is refused.
        lacks: called if the log ends below what was committed, or its mark is missing, before any
            change that could make the log look whole; may raise OSError.

    Raises: ConfigError: the files have another size than configured. CorruptLog: there is damage
        below the synced mark, or a file is missing. LostVote: the file of term and vote cannot be
        read, is lost, or is older than the log. Nothing was changed in these cases. OSError.
    """
    try:
        judged = yield from judge(disk, layout, settings, had_vote=had_vote, needs_vote=needs_vote)
        found = judged.found
        said = read_checkpoint(disk, layout.checkpoint).committed_index
        is_short = said > found.end_index and not recovery.is_surely_whole(found, judged.was)
        # The checkpoint may be seconds old: without a mark, newer committed entries may be lost
        # too.
        is_doubtful = had_vote and judged.was is None and not settings.cut_stays
        if (is_short or is_doubtful) and lacks is not None:
            lacks()
        return (yield from _open(disk, layout, settings, judged))
    except LostVote:
        raise  # its message already says what to do
    except CorruptLog as error:
        raise CorruptLog(f"{error} {GUIDE}") from None  # chaining it would report it twice


def _open(
    disk: Disk, layout: LedgerLayout, settings: LedgerSettings, judged: AcceptedStore
) -> Generator[None, None, OpenedLedger]:
    disk.mkdir(layout.root)
    truncation.finish_interrupted(disk, layout, do=REMOVE_THEN)
    with ExitStack() as files:
        size, key = settings.data_file_bytes, DATA_KEY
        log = CommitLog.load(disk, layout.commit_log, size, blank=encode_blank, key=key)
        files.callback(log.close, remove_spare=False)
        index, sums = _per_entry(PerIndexFiles.load, disk, layout, settings, files)
        mark = Mark.open(disk, layout.synced)
        files.callback(mark.close)
        mark.values = judged.was
        opening = _Opening(disk, layout, log, index, sums, mark, settings, judged)
        opened = yield from opening.run()
        files.pop_all()
    return opened


@attrs.define
class _Opening:
    """One opening of an accepted store; the module's text gives the order."""

    _disk: Disk
    _layout: LedgerLayout
    _log: CommitLog
    _index: PerIndexFiles
    _sums: PerIndexFiles
    _mark: Mark
    _settings: LedgerSettings
    _judged: AcceptedStore

    def run(self) -> Generator[None, None, OpenedLedger]:
        disk, log, was = self._disk, self._log, self._judged.was
        found, vote, begin = self._judged.found, self._judged.vote, self._judged.begin_index
        if vote is not None:
            settle_term(disk, self._layout.term, vote)  # a vote that counts is on the disk first
        elif not self._settings.vote_unsynced:
            # A member that voted for nobody in its first term, but followed, has a log and no vote.
            write_term(disk, self._layout.term, TermVote(max(found.end_term, 0)))
        if was is None:  # From now on any mark, even a cut's, says that the checksums are ours.
            self._sums.restart_at(max(found.first_index, 0))
        is_clean = was is not None and was.is_clean and was.end_bytes == found.end_bytes
        lower = partial(self._mark.lower, found.end_bytes)
        kept = yield from truncation.cut_behind(disk, self._layout, log, found.end_bytes, lower)
        # Bytes behind the mark of an ordered stop are another program's.
        is_clean = is_clean and not kept
        if found.end_index < 0:
            self._empty()
        else:
            log.set_end(found.end_bytes)
        yield from self._mend_index(is_clean)
        yield from self._mend_sums(found, is_clean)
        if not is_clean:
            sure = 0 if was is None else was.end_bytes
            yield from write_again(disk, log, max(sure, found.first_base))
            for files in (self._index, self._sums):
                first_bytes = max(found.first_index, 0) * files.record_bytes
                yield from write_again(disk, files.log, first_bytes)
        yield from sync_found(disk, log, found.first_base)
        for files in (self._index, self._sums):
            yield from sync_found(disk, files.log, files.log.min_bytes)
        is_whole = recovery.is_surely_whole(found, was)
        committed = self._committed(begin, found, is_whole)  # before a mark that covers the entries
        end = log.written_bytes
        self._mark.write(MarkValues(end, end, begin_bytes=log.min_bytes))
        self._mark.sync()
        return OpenedLedger(
            log=log,
            index=self._index,
            sums=self._sums,
            mark=self._mark,
            vote=vote or TermVote(max(found.end_term, 0)),
            begin_index=begin,
            found=found,
            committed_index=committed,
            kept_bytes=kept,
            was_clean=is_clean,
            index_made=self._judged.index_base,
        )

    def _empty(self) -> None:
        """Empty the files of a log without entries, which may begin anywhere."""
        self._mark.lower(0)
        self._log.restart_at(0)
        self._index.restart_at(0)
        self._sums.restart_at(0)

    def _mend_index(self, is_clean: bool) -> Generator[None, None, None]:
        """Make index records again where they are missing or disagree, and cut those behind the
        log's end.
        """
        index, judged, found = self._index, self._judged, self._judged.found
        end, base = found.end_index + 1, judged.index_base
        if end == 0:
            return
        if base is None:
            if is_clean or not (yield from index.used_behind(end)):
                index.set_next(end)
            else:
                index.cut(end)
            return
        if judged.index_begins:
            index.cut(found.first_index)
        else:
            # Otherwise the next start would trust what a crash leaves of the new files.
            self._mark.derive_again()
            index.restart_at(judged.begin_index)

        def write(data: bytes, heads: list[EntryHead]) -> None:
            assert heads[0].index == index.next_index
            index.append(recovery.index_records(heads))

        yield from self._scan_again(base, write)
        assert index.next_index == end

    def _mend_sums(self, found: ScanResult, is_clean: bool) -> Generator[None, None, None]:
        """Make missing checksums of the scanned entries; entries whose checksums disagree were cut
        before.
        """
        sums, end = self._sums, found.end_index + 1
        if end == 0:
            return
        first, count = found.first_index, found.entry_count
        whole = sums.covers(first) and sums.covers(end - 1)
        if whole and is_clean:
            sums.set_next(end)
            return
        is_used = whole and (yield from sums.used_behind(end))
        if whole and not is_used and all_known(stored_sums(sums, first, count)):
            sums.set_next(end)
            return
        if whole:
            sums.cut(first)
        else:
            sums.restart_at(first)
        yield from self._scan_again(
            found.first_base, lambda data, heads: sums.append(sums_of(data, heads))
        )
        assert sums.next_index == end

    def _scan_again(self, base: int, on_heads: OnHeads) -> Generator[None, None, ScanResult]:
        """Scan the good entries again from the file at `base` on; zeros follow them by now."""
        return (
            yield from recovery.find_end(
                self._disk,
                self._log,
                start_base=base,
                mark_bytes=None,
                sums=self._sums,
                on_heads=on_heads,
            )
        )

    def _committed(self, begin: int, found: ScanResult, is_whole: bool) -> int:
        """Return the committed index of the checkpoint, and write it again if it is corrected.

        As upstream: an index above the log's end counts as the end, one below the first entry is
        ignored. The file is written because what is ignored now must not count later, when the log
        has grown again.
        """
        path, end = self._layout.checkpoint, found.end_index
        said = read_checkpoint(self._disk, path)
        committed = min(said.committed_index, end)
        if said.committed_index > end and is_whole:
            _LOGGER.warning(
                "%s: says that entries up to %d are committed, but the log is whole and ends with"
                " entry %d: corrected to that",
                path,
                said.committed_index,
                end,
            )
        elif said.committed_index > end:
            _LOGGER.warning(
                "%s: says that entries up to %d are committed, but the log ends with entry %d (%s):"
                " this member goes on without %d to %d %s",
                path,
                said.committed_index,
                end,
                found.reason or "nothing is written there",
                end + 1,
                said.committed_index,
                GUIDE,
            )
        if committed < max(begin, 0):
            committed = -1
        if said.committed_index > committed:
            now = LedgerCheckpoint(committed_index=committed, end_index=end)
            write_checkpoint(self._disk, path, now)
        return committed
