"""Checks the store of a DLedger member: entries, index, term and vote, checkpoint, snapshots.

It only reads. Of a running member it reads what the checkpoint, at most a few seconds old, calls
committed, which is never cut. If it finds damage there it checks once more, because the member may
have deleted files meanwhile: they expire, and a log may begin anew behind a snapshot.

Where the entries of a stopped member end there may be damage, or an end that a start cuts. Whether
the next start would refuse the log, cut it or go on behind it is asked of recovery itself, so that
both agree.

Checksums that were written and are damaged are reported. A missing checksum (zeros) is no damage:
another program's entries have none, and some the next start has yet to make.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing

import attrs

from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.readable import counted
from actors.storage.files.stepping import Running, Step, Work, labelled
from actors.storage.files.whole_files import read_bytes
from actors.storage.ledger.opening import DATA_KEY
from actors.storage.ledger.per_index import SUM_BYTES, all_known, contradicted, sums_of
from actors.storage.ledger.recovery import (
    BAD_SUM,
    FileEnd,
    Piece,
    ScanResult,
    index_records,
    is_surely_whole,
    read_file,
)
from actors.storage.ledger.snapshots import (
    INSTALLED,
    TAKEN,
    Snapshot,
    SnapshotDamaged,
    SnapshotFolder,
)
from actors.storage.ledger.term_files import (
    FILE_BYTES_MAX,
    NEW_VOTE,
    NO_VOTE,
    NO_VOTE_DO,
    NOTHING_LEFT,
    NOTHING_LEFT_DO,
    REMOVE_THEN,
    STRANGER,
    read_term,
)
from actors.storage.log import truncation
from actors.storage.log.commit_log import segment_path, short_alone
from actors.storage.log.truncation import as_if_cut
from actors.storage.tools.commitlog.check import REPAIR, CheckOptions
from actors.storage.tools.commitlog.walk import used_behind
from actors.storage.tools.findings import LedgerReport, cut_text
from actors.storage.tools.ledger.backup import BackedUpLedger, verify_ledger
from actors.storage.tools.ledger.files import (
    COPY_AGAIN,
    LedgerFiles,
    find_end,
    known_records,
    known_sums,
)
from actors.storage.tools.stores import GroupLedger, bytes_to_read, odd_in
from wire.dledger.entry import INDEX_BYTES
from wire.dledger.files import decode_ledger_checkpoint
from wire.dledger.scan import EntryHead
from wire.errors import RemoteProtocolError

EVERYTHING = 1 << 62


def check_ledger(disk: Disk, ledger: GroupLedger, options: CheckOptions) -> Work[LedgerReport]:
    """Check one store. Raises: OSError: a file cannot be read."""
    report = yield from _LedgerCheck(disk, ledger, options).run()
    if options.is_running and not report.is_good:
        report = yield from _LedgerCheck(disk, ledger, options).run()
    if isinstance(options.copied, BackedUpLedger):
        yield from verify_ledger(disk, ledger.layout, options.copied, report)
    return report


@attrs.define
class _LedgerCheck:
    _disk: Disk
    _ledger: GroupLedger
    _options: CheckOptions
    _report: LedgerReport = attrs.field(init=False)
    _files: LedgerFiles = attrs.field(init=False)
    _sums: SumsCheck = attrs.field(init=False)
    # no entry above this index is checked
    _limit: int | None = attrs.field(default=None, init=False)
    _last: EntryHead | None = attrs.field(default=None, init=False)
    _stop: FileEnd | None = attrs.field(default=None, init=False)  # where the entries end
    # the first entry to which the index does not lead
    _unindexed: EntryHead | None = attrs.field(default=None, init=False)
    _expired_count: int = attrs.field(default=0, init=False)
    _anew: bool = attrs.field(default=False, init=False)  # whether the log begins behind the limit
    _snapshots: list[int] = attrs.field(factory=list, init=False)  # the indexes of all snapshots
    # the terms of their last entries in the log
    _terms: dict[int, int] = attrs.field(factory=dict, init=False)
    _to_read: int = attrs.field(default=0, init=False)  # how many bytes of the log are to be read
    _do: str = attrs.field(default=REMOVE_THEN, init=False)  # advice for damage of the log

    def run(self) -> Work[LedgerReport]:
        ledger, options = self._ledger, self._options
        self._report = report = LedgerReport(group=ledger.name)
        findings = report.findings
        report.state = "running" if options.is_running else report.state
        if options.is_backup:
            report.state, self._do, findings.starts = "backup", COPY_AGAIN, False
        elif options.is_running:
            self._do = f"{REPAIR}; what no member has: {REMOVE_THEN}"
        report.committed_index = self._read_committed()
        self._limit = report.committed_index if options.is_running else None
        self._read_truncating()
        try:
            self._files = LedgerFiles.look(self._disk, ledger)
        except CorruptLog as error:
            findings.hurt(f"{error}; {self._do}")
            return report
        self._sums = SumsCheck(self._files, ledger.layout.sums)
        mark = self._files.mark
        if report.state == "stopped" and mark is not None and not mark.is_clean:
            report.state = "not stopped in order"
        self._snapshots = SnapshotFolder(self._disk, ledger.layout.snapshot, ()).indexes()
        with closing(self._files):
            yield from self._log()
            yield from self._check_snapshots()
        if not options.is_backup:
            self._check_term()
        if ledger.is_in_memory and not report.entries:
            report.state = "in memory"
        if self._expired_count:
            findings.note(f"{counted(self._expired_count, 'file')} expired while it was checked")
        return report

    def _log(self) -> Work[None]:
        report, mark = self._report, self._files.mark
        report.mark_bytes = None if mark is None else mark.end_bytes
        bases = list(self._files.log.bases())
        report.first_bytes = report.end_bytes = bases[0] if bases else 0
        log = self._files.log
        odd = odd_in(self._disk, log.folder, log.segment_bytes, bases)
        if self._limit is None and not self._options.is_backup:
            last = self._ledger.setting(DATA_KEY)
            for line in short_alone(self._disk, log.folder, bases, last, DATA_KEY):
                report.findings.note(line)
        others = report.findings.damage_count
        for line in odd:
            report.findings.hurt(f"{line}; {self._do}")
        yield from self._walk(bases)
        found: ScanResult | None = None
        if self._limit is not None:
            self._judge_running()
        elif not odd:
            found = yield from self._judge_stopped(bases)
        if not self._options.is_backup:
            self._sums.judge(report, found)
            yield from self._judge_index(found, log_is_good=report.findings.damage_count == others)

    def _read_truncating(self) -> None:
        """Read the intent of an interrupted truncation; what it cuts is not checked, as a start
        ignores it.
        """
        layout = self._ledger.layout
        try:
            cut = truncation.interrupted_at(self._disk, layout)
        except CorruptLog:
            self._report.findings.hurt(f"{layout.truncating}: cannot be read; {self._do}")
            return
        if cut is not None and self._limit is None:
            self._report.findings.note(
                f"a truncation to {cut[0]} was interrupted: the next start ends it"
            )
            self._disk = as_if_cut(self._disk, layout, do=self._do)

    # ---- entries ----

    def _walk(self, bases: list[int]) -> Work[None]:
        """Read from the oldest file on, up to the first position where the entries end."""
        log, report = self._files.log, self._report
        end = self._files.clean_end_bytes
        self._to_read = bytes_to_read(self._disk, self._ledger, bases, end)
        for base in bases:
            if self._limit is not None and report.end_index >= self._limit:
                return
            reading = read_file(
                self._disk,
                log.folder,
                base,
                log.segment_bytes,
                is_first=base == bases[0],
                after=self._last,
                judge=self._judge_sums,
            )
            try:
                ended = yield from self._file(reading)
            except FileNotFoundError:
                self._expired(base)
                continue
            except CorruptLog:  # it is too short, which was reported already
                return
            except OSError as error:
                path = segment_path(log.folder, base)
                report.findings.hurt(f"{path}: {error.strerror or error}; {self._do}")
                return
            finally:
                reading.close()
            report.files += 1
            if ended is not None and ended.reason is not None:
                self._stop = ended
                return

    def _file(self, reading: Generator[Piece, None, FileEnd]) -> Work[FileEnd | None]:
        """Read one file. Returns: how it ended; None if the limit was reached."""
        running = Running(reading)
        for piece in running:
            heads = self._within(piece.heads)
            if heads:
                self._take(heads)
            elif piece.heads:
                self._anew = not self._report.entries
                return None
            done = self._report.bytes_read
            yield Step(f"{self._ledger.name}: log", done, max(done, self._to_read))
        return running.result

    def _within(self, heads: list[EntryHead]) -> list[EntryHead]:
        limit = self._limit
        return heads if limit is None else [head for head in heads if head.index <= limit]

    def _take(self, heads: list[EntryHead]) -> None:
        report, first, last = self._report, heads[0], heads[-1]
        if report.first_index < 0:
            report.first_index = first.index
        report.end_index, report.end_term = last.index, last.term
        report.end_bytes = last.pos + last.size
        report.entries += len(heads)
        report.bytes_read += last.at + last.size - first.at
        self._last = last
        for index in self._snapshots:
            if first.index <= index <= last.index:
                self._terms[index] = heads[index - first.index].term
        if not self._options.is_backup:
            self._compare_index(heads)

    def _compare_index(self, heads: list[EntryHead]) -> None:
        known = known_records(self._files.index, heads[0].index, len(heads))
        wanted = index_records(heads)
        if known == wanted:
            self._report.indexed += len(heads)
            return
        for number, head in enumerate(heads):
            at = number * INDEX_BYTES
            if known[at : at + INDEX_BYTES] == wanted[at : at + INDEX_BYTES]:
                self._report.indexed += 1
            elif self._unindexed is None:
                self._unindexed = head

    def _judge_sums(
        self, data: bytes, offset: int, heads: list[EntryHead]
    ) -> tuple[int, str] | None:
        """Implements `Judge` by the checksums. Without a mark they count for nothing, as at a
        start.
        """
        heads = self._within(heads)
        if not heads or self._files.mark is None:
            return None
        known = known_sums(self._files.sums, heads[0].index, len(heads))
        bad = contradicted(known, sums_of(data, heads))[:1]
        good = known[: bad[0] * SUM_BYTES] if bad else known
        self._report.summed += self._sums.take(heads[: len(good) // SUM_BYTES], good)
        return (bad[0], BAD_SUM) if bad else None

    def _expired(self, base: int) -> None:
        """Note that a running member has deleted its oldest files, this one among them."""
        report = self._report
        report.first_bytes = base + self._files.log.segment_bytes
        report.first_index = -1
        self._last = None
        self._expired_count += 1

    # ---- what it means ----

    def _judge_running(self) -> None:
        report, limit, stop = self._report, self._limit, self._stop
        assert limit is not None
        if limit < 0:
            report.findings.note("nothing was recorded as committed yet: no entry was checked")
        elif self._anew or (not report.entries and (stop is None or not stop.reason)):
            report.findings.note(f"the log begins behind entry {limit}, the last committed one")
        elif report.end_index < limit:
            ended = stop or FileEnd(report.end_bytes, "")
            self._hurt(ended, f", but entries up to {limit} are committed")

    def _hurt(self, stop: FileEnd, more: str = "") -> None:
        """Report damage at the position where the entries end."""
        log, at = self._files.log, stop.at_bytes
        base = at - at % log.segment_bytes
        entry = self._report.end_index + 1
        reason = stop.reason or "nothing is written there"
        self._report.findings.hurt(
            f"{segment_path(log.folder, base)}: byte {at - base} (entry {entry}, offset {at}):"
            f" {reason}{more}; {self._do}"
        )

    def _judge_stopped(self, bases: list[int]) -> Work[ScanResult | None]:
        """Judge the position where the entries end. Returns: what the next start finds; None if it
        is refused.
        """
        report, mark, stop = self._report, self._files.mark, self._stop
        if stop is not None and mark is not None and stop.at_bytes < mark.end_bytes:
            self._hurt(stop, f", but all below {mark.end_bytes} was synced once")
            return None
        try:
            found = yield from find_end(self._disk, self._ledger, self._files)
        except CorruptLog as error:
            report.findings.hurt(f"{error}; {self._do}")
            return None
        if stop is not None and found.end_bytes > stop.at_bytes:
            self._hurt(stop, f", and entries follow up to {found.end_index}")
            return None
        yield from self._judge_cut(found, bases)
        self._judge_committed(found)
        return found

    def _judge_cut(self, found: ScanResult, bases: list[int]) -> Work[None]:
        """Report what a start that accepts the log cuts off it."""
        report, stop, gone = self._report, self._stop, 0
        if found.end_index < report.end_index and (found.end_index >= 0 or stop is None):
            gone = report.end_index - found.end_index
            report.entries -= gone
            report.end_index, report.end_term = found.end_index, found.end_term
            report.end_bytes = found.end_bytes
        used, kept_bytes = yield from used_behind(self._disk, self._ledger, bases, report.end_bytes)
        if used <= report.end_bytes or (stop is None and not gone):
            return
        if stop is not None and not report.findings.starts:
            self._hurt(stop, ", and something follows")
            return
        report.torn_bytes = kept_bytes
        gone += yield from self._entries_behind(bases)
        end, mark = report.end_bytes, self._files.mark
        file_end = end + -end % self._files.log.segment_bytes
        text = cut_text(
            end,
            found.reason or "bytes behind the end",
            counted(report.torn_bytes, "byte")
            + (f" with {counted(gone, 'whole entry', 'whole entries')}" if gone else ""),
            None if mark is None else mark.end_bytes,
            self._ledger.settings,
        )
        # A kill tears only the last file; a loss of power may tear more, and so may damage.
        if mark is None and stop is not None and used > max(file_end, stop.at_bytes):
            report.findings.mend(text)
        else:
            report.findings.note(text)

    def _entries_behind(self, bases: list[int]) -> Work[int]:
        """Return the number of whole entries in the files after the one in which the log ends."""
        log, end, count = self._files.log, self._report.end_bytes, 0
        for base in bases:
            if base < end or base == bases[0]:
                continue
            size = log.segment_bytes
            reading = read_file(self._disk, log.folder, base, size, is_first=False, after=None)
            for piece in reading:
                count += len(piece.heads)
                yield Step(f"{self._ledger.name}: behind the end", 0, 0)
        return count

    def _judge_committed(self, found: ScanResult) -> None:
        """Report a checkpoint with a higher committed index than a log that the start accepts."""
        report, mark = self._report, self._files.mark
        end, said = report.end_index, report.committed_index
        if said <= end:
            return
        text = (
            f"{self._ledger.layout.checkpoint}: entries up to {said} were committed, but the log"
            f" ends at {end}"
        )
        if mark is not None and not mark.end_bytes:
            report.findings.note(f"{text}: it was begun anew")
        elif not report.findings.starts:
            report.findings.hurt(f"{text}; {self._do}")
        elif not is_surely_whole(found, mark):
            report.findings.hurt(
                f"{text}: the next start goes on without {end + 1} to {said}, and counts as one"
                f" that has lost its log (not with `compat`); {self._do}"
            )
        else:
            report.findings.mend(
                f"{text} and is whole: the next start corrects that; other members send what"
                " they have behind it"
            )

    def _judge_index(self, found: ScanResult | None, *, log_is_good: bool) -> Work[None]:
        """Report entries to which the index does not lead.

        Args:
            found: the result of the next start's scan, which compares the index with what it scans;
                None: the start is refused, or the member is running.
        """
        report, mark, head = self._report, self._files.mark, self._unindexed
        layout = self._ledger.layout
        if head is None or not report.entries or head.index > report.end_index:
            return
        if not log_is_good:
            report.findings.note(
                f"the index does not lead to entry {head.index}, which the log's damage may explain"
            )
            return
        trusted = EVERYTHING if mark is None or self._limit is not None else mark.whole_bytes
        if head.pos + head.size > trusted:
            report.findings.note(
                f"the index lacks entries from {head.index} on: the next start makes it again"
            )
            return
        at = head.index * INDEX_BYTES
        size = self._files.index.log.segment_bytes
        path = segment_path(layout.index, at - at % size)
        what = f"{path}: byte {at % size}: it does not lead to entry {head.index} at {head.pos}"
        if found is not None and (yield from self._is_made_again(head, found)):
            for line in self._files.odd or (what,):
                report.findings.mend(f"{line}: the next start makes the index again")
            return
        for line in self._files.odd or (what,):
            report.findings.hurt(
                f"{line}; stop the member, remove {layout.index} and start: it is made again"
            )

    def _is_made_again(self, head: EntryHead, found: ScanResult) -> Work[bool]:
        """Whether the next start makes the index again.

        It does if the index is missing, its files have wrong sizes, or it is wrong where a start
        reads it: at the log's first entry, at the entries that it scans, and where records between
        them are zeros.

        Args:
            head: the first entry to which the index does not lead.
        """
        if self._files.odd or not self._files.index.log.bases():
            return True
        if head.index >= found.first_index or head.index == self._report.first_index:
            return True
        looking = self._files.index.has_gap(head.index, found.first_index)
        return (yield from labelled(looking, Step(f"{self._ledger.name}: index", 0, 0)))

    # ---- what lies beside the log ----

    def _read_committed(self) -> int:
        """Return the committed index in the checkpoint; -1 if it has none or cannot be read."""
        path = self._ledger.layout.checkpoint
        if not self._disk.exists(path):
            return -1
        try:
            data = read_bytes(self._disk, path, FILE_BYTES_MAX)
            return decode_ledger_checkpoint(data).committed_index
        except RemoteProtocolError as error:
            self._report.findings.mend(
                f"{path}: {error}; a start takes nothing for committed until its leader"
                " says what is: it may be removed"
            )
            return -1

    def _check_term(self) -> None:
        """Check term and vote against the log's last term."""
        ledger, report, findings = self._ledger, self._report, self._report.findings
        path = ledger.layout.term
        try:
            vote = read_term(self._disk, path, unsynced=ledger.is_compat)
        except CorruptLog as error:
            findings.hurt(str(error))
            return
        if vote is None:
            if self._files.mark is not None and report.entries:
                findings.hurt(f"{path}: {NO_VOTE}; {NO_VOTE_DO}")
            elif ledger.had_vote and not report.entries and not ledger.is_compat:
                findings.hurt(f"{path}: {NOTHING_LEFT}; {NOTHING_LEFT_DO}")
            else:
                findings.note(f"{path}: there is none: a start begins without a vote")
            return
        report.term, report.voted_for = vote.term, vote.voted_for
        if not self._disk.exists(path):
            findings.note(f"{path}: there is none, but an interrupted write has left a copy of it")
        if vote.voted_for and ledger.members and vote.voted_for not in ledger.members:
            findings.note(f"{path}: term {vote.term}, vote for {vote.voted_for}: {STRANGER}")
        if vote.term < report.end_term:
            text = f"{path}: term {vote.term}, but the last entry is of term {report.end_term}"
            if not ledger.is_compat:
                findings.hurt(f"{text}: it has forgotten votes; {NEW_VOTE}")
            else:
                findings.note(text)

    def _check_snapshots(self) -> Work[None]:
        """Check each snapshot, and that the log goes on where the newest good one ends."""
        ledger, report, do = self._ledger, self._report, self._do
        folder = SnapshotFolder(self._disk, ledger.layout.snapshot, ())
        findings, damaged = report.findings, []
        indexes = folder.indexes()
        for index in indexes:
            try:
                snapshot = folder.snapshot(index)
                step = Step(f"{ledger.name}: snapshot {index}", 0, snapshot.size_bytes)
                yield from labelled(folder.check(snapshot), step)
            except FileNotFoundError:
                continue  # the running member has replaced it
            except SnapshotDamaged as error:
                damaged.append(str(error))
            else:
                report.snapshots.append(index)
                self._compare_snapshot(snapshot)
        newest = max(report.snapshots, default=-1)
        is_covered = report.first_index <= newest + 1
        for text in damaged:
            do = "an older one is used instead: its folder may be removed" if is_covered else do
            findings.hurt(f"{text}; {do}")
        if indexes and not damaged and not is_covered:
            findings.hurt(
                f"{folder.root}: the newest replaces entries up to {newest}, but the"
                f" log begins at {report.first_index}; {do}"
            )
        for name in (TAKEN, INSTALLED):
            if self._limit is None and self._disk.exists(f"{folder.root}/{name}"):
                findings.note(
                    f"{folder.root}/{name}: was never finished: the next start removes it"
                )

    def _compare_snapshot(self, snapshot: Snapshot) -> None:
        """Compare a snapshot's term with that of its last entry in the log."""
        report = self._report
        term = self._terms.get(snapshot.index)
        if term is not None and term != snapshot.term:
            report.findings.hurt(
                f"{snapshot.path}: ends with entry {snapshot.index} of term {snapshot.term}, which"
                f" is of term {term} in the log; {self._do}"
            )
        if self._limit is None and report.entries and snapshot.index > report.end_index:
            report.findings.note(
                f"{snapshot.path}: replaces entries up to {snapshot.index}, the log ends at"
                f" {report.end_index}"
            )


NAMED_MAX = 5
"""How many damaged checksums are reported each; the others are counted."""


@attrs.define
class SumsCheck:
    """Checks the checksums of one member whose log has a mark. `_folder` is their folder."""

    _files: LedgerFiles
    _folder: str
    # indexes of the first few damaged ones
    _spoilt: list[int] = attrs.field(factory=list, init=False)
    _spoilt_count: int = attrs.field(default=0, init=False)
    _last: int = attrs.field(default=-1, init=False)

    def take(self, heads: Sequence[EntryHead], known: bytes) -> int:
        """Check the checksum records of good entries. Returns: how many of the records are whole.

        Args:
            known: the records; zeros, or fewer, for entries that have none.
        """
        mark, said = self._files.mark, 0
        whole_bytes = 0 if mark is None else mark.whole_bytes
        for number, head in enumerate(heads):
            record = known[number * SUM_BYTES : (number + 1) * SUM_BYTES]
            if record and all_known(record):
                said += 1
            elif any(record) and head.pos + head.size <= whole_bytes:
                self._spoilt_count += 1
                self._last = head.index
                if len(self._spoilt) < NAMED_MAX:
                    self._spoilt.append(head.index)
        return said

    def judge(self, report: LedgerReport, found: ScanResult | None) -> None:
        """Report damaged checksums. No entry is lost because of them.

        Args:
            found: the result of the next start's scan; None: the start is refused, or the member is
                running.
        """
        mark, findings = self._files.mark, report.findings
        follows = "only its head can be checked: damage of its body would not be noticed"
        for line in self._files.odd_sums:
            first = "" if found is None else f" of entries from {found.first_index} on"
            findings.note(
                f"{line}: none of the checksums is read; the next start makes those{first} again,"
                " of other entries only the heads can be checked"
            )
        for index in self._spoilt:
            at, size = index * SUM_BYTES, self._files.sums.log.segment_bytes
            path = segment_path(self._folder, at - at % size)
            again = ""
            if found is not None and index >= found.first_index and mark and not mark.is_clean:
                again = "; the next start makes it again"
            findings.note(
                f"{path}: byte {at % size}: the checksum of entry {index} is damaged;"
                f" {follows}{again}"
            )
        if self._spoilt_count > len(self._spoilt):
            findings.note(
                f"{self._folder}: {counted(self._spoilt_count, 'damaged checksum')} in all,"
                f" the last of entry {self._last}"
            )
