"""What a start finds in a DLedger store, and whether it is refused, before it changes anything.

Whatever refuses a start is found here: what was judged good is taken, and only then are files cut,
made again, filled up or removed (`opening`).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack

import attrs

from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.files.path_kinds import check_kinds
from actors.storage.ledger import recovery
from actors.storage.ledger.layout import LedgerLayout
from actors.storage.ledger.mark import MarkValues, need_mark
from actors.storage.ledger.per_index import PerIndexFiles, has_file_of
from actors.storage.ledger.recovery import Found
from actors.storage.ledger.settings import LedgerSettings
from actors.storage.ledger.sums import SUM_BYTES, sums_file_bytes
from actors.storage.ledger.term_files import (
    NO_VOTE,
    NO_VOTE_DO,
    NOTHING_LEFT,
    NOTHING_LEFT_DO,
    REMOVE_THEN,
    LostVote,
    TermVote,
    older_text,
    read_term,
)
from actors.storage.log.commit_log import CommitLog, log_files, segment_bases, segment_path
from actors.storage.log.cut_view import as_if_cut
from wire.dledger.entry import INDEX_BYTES
from wire.dledger.scan import EntryHead

DATA_KEY = "data_file_bytes"
INDEX_KEY = "index_file_bytes"
SUMS_KEY = "a quarter of index_file_bytes"


@attrs.frozen(kw_only=True)
class Judged:
    """A store that a start takes.

    Attributes:
        was: what the mark says; None: there is none, or it is not believed.
        found: what the scan says.
        vote: as saved last; None: there is none, and none is missed.
        begin_index: of the first entry; -1 without any.
        index_base: the index is to be made again from this file's entries on; None: it is whole.
        index_begins: it is whole up to there; if not, none of it stays.
    """

    was: MarkValues | None
    found: Found
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
) -> Generator[None, None, Judged]:
    """Look at the store. Reads only; yields at least every 4 MiB.

    Args, Raises: as `opening.open_files`.
    """
    folders = (layout.commit_log, layout.index, layout.sums)
    paths = [segment_path(each, base) for each in folders for base in segment_bases(disk, each)]
    check_kinds(disk, folders=(), files=paths)  # Of what is to be cut, too.
    disk = as_if_cut(disk, layout, do=REMOVE_THEN)
    size = settings.data_file_bytes
    bases = log_files(disk, layout.commit_log, size, key=DATA_KEY)
    log = CommitLog.look(disk, layout.commit_log, size, bases)
    with ExitStack() as files:
        size = settings.index_file_bytes
        is_sure = sums_show_size(disk, layout, settings)
        index = PerIndexFiles.usable(
            disk, layout.index, size, INDEX_BYTES, key=INDEX_KEY, is_sure=is_sure
        )
        files.callback(index.close, remove_spare=False)
        size = sums_file_bytes(size)
        sums = PerIndexFiles.usable(disk, layout.sums, size, SUM_BYTES, key=SUMS_KEY, is_sure=True)
        files.callback(sums.close, remove_spare=False)
        was = need_mark(disk, layout.synced)
        if settings.cut_stays:
            was = None
        judging = _Judging(disk, layout, log, index, sums, was, settings, had_vote, needs_vote)
        return (yield from judging.run())


def sums_show_size(disk: Disk, layout: LedgerLayout, settings: LedgerSettings) -> bool:
    """Whether the files of checksums show that the index files have the configured size.

    They are cut one after the other: a crash leaves a last file of one of them short.
    """
    return has_file_of(disk, layout.sums, sums_file_bytes(settings.index_file_bytes))


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

    def run(self) -> Generator[None, None, Judged]:
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
        return Judged(
            was=self._was,
            found=found,
            vote=vote,
            begin_index=begin,
            index_base=base,
            index_begins=begins,
        )

    def _vote(self, found: Found) -> TermVote | None:
        path, unsynced = self._layout.term, self._settings.vote_unsynced
        vote = read_term(self._disk, path, unsynced=unsynced)
        if vote is None and found.end_index < 0 and self._had_vote and not unsynced:
            raise LostVote(path, NOTHING_LEFT, NOTHING_LEFT_DO)
        # Without a mark entries are those that a whole group begins anew with.
        if vote is None and found.end_index >= 0 and self._was is not None:
            raise LostVote(path, NO_VOTE, NO_VOTE_DO)
        if self._needs_vote and vote is not None and vote.term < found.end_term:
            raise LostVote(path, older_text(vote.term, found.end_term))
        return vote

    def _begin_index(self, found: Found) -> int:
        bases = self._log.bases()
        if found.end_index < 0 or found.first_base == bases[0]:
            return found.first_index
        return recovery.need_first_of_log(self._disk, self._log).index

    def _index_base(
        self, found: Found, begin: int, agrees: bool
    ) -> Generator[None, None, tuple[int | None, bool]]:
        """Where the index is missing or disagrees; see `Judged`."""
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

    def _need_whole(self, base: int, found: Found) -> Generator[None, None, None]:
        """The files before those that were scanned lead to them.

        Looked at before the index goes: the index may be what is right.

        Raises: CorruptLog: damage in them.
        """
        seen = yield from recovery.find_end(
            self._disk, self._log, start_base=base, mark_bytes=None, sums=self._sums
        )
        # Behind the end lies what is yet to be cut.
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
    """Compares index records with entries as a scan sees them."""

    _index: PerIndexFiles
    agrees: bool = True

    def take(self, data: bytes, heads: list[EntryHead]) -> None:
        if self.agrees:
            wanted = recovery.index_records(heads)
            first, covered = heads[0].index, self._index.covers
            if not covered(first) or self._index.read(first, len(heads)) != wanted:
                self.agrees = False
