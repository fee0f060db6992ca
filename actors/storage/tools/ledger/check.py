"""Check the store of a DLedger member: entries, index, term and vote, checkpoint, snapshots.

Reads only. Of a running member it looks at what its checkpoint calls committed: that is never cut,
and at most a few seconds old. What is damaged there is looked at twice, for the member may have let
go of it in between: files expire, and a log may begin anew behind a snapshot.

What the next start would do, refuse the log or cut its end, is asked of recovery itself.
"""

from __future__ import annotations

from collections.abc import Generator

import attrs

from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.files.stepping import Running, Step, Work, labelled
from actors.storage.ledger.judging import DATA_KEY
from actors.storage.ledger.recovery import BAD_SUM, Found, index_records
from actors.storage.ledger.snapshots import SnapshotFolder
from actors.storage.ledger.sums import SUM_BYTES, contradicted, sums_of
from actors.storage.ledger.term_files import REMOVE_THEN
from actors.storage.ledger.walk import FileEnd, Piece, read_file
from actors.storage.log import truncation
from actors.storage.log.commit_log import segment_path
from actors.storage.log.cut_view import as_if_cut
from actors.storage.log.file_sizes import short_alone
from actors.storage.tools.commitlog.check import CheckOptions
from actors.storage.tools.commitlog.check_end import REPAIR
from actors.storage.tools.findings import LedgerReport
from actors.storage.tools.ledger.backup import BackedUpLedger, verify_ledger
from actors.storage.tools.ledger.end import LedgerEnd
from actors.storage.tools.ledger.files import COPY_AGAIN, LedgerFiles, known_records, known_sums
from actors.storage.tools.ledger.small import check_snapshots, check_term, read_committed
from actors.storage.tools.ledger.sums import SumsCheck
from actors.storage.tools.stores import GroupLedger, odd_in
from wire.dledger.entry import INDEX_BYTES
from wire.dledger.scan import EntryHead

EVERYTHING = 1 << 62


def check_ledger(disk: Disk, ledger: GroupLedger, options: CheckOptions) -> Work[LedgerReport]:
    """Check one store. Raises: OSError, where a file cannot be read."""
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
    _limit: int | None = attrs.field(default=None, init=False)  # no entry above it is looked at
    _last: EntryHead | None = attrs.field(default=None, init=False)
    _stop: FileEnd | None = attrs.field(default=None, init=False)  # where entries do not go on
    _unindexed: EntryHead | None = attrs.field(default=None, init=False)  # the first of these
    _expired_count: int = attrs.field(default=0, init=False)
    _anew: bool = attrs.field(default=False, init=False)  # the log begins behind the limit
    _snapshots: list[int] = attrs.field(factory=list, init=False)  # indexes of all that are there
    _terms: dict[int, int] = attrs.field(factory=dict, init=False)  # of the entries there
    _do: str = attrs.field(default=REMOVE_THEN, init=False)  # about damage of the log

    def run(self) -> Work[LedgerReport]:
        ledger, options = self._ledger, self._options
        self._report = report = LedgerReport(group=ledger.name)
        findings = report.findings
        report.state = "running" if options.is_running else report.state
        if options.is_backup:
            report.state, self._do, findings.starts = "backup", COPY_AGAIN, False
        elif options.is_running:
            self._do = f"{REPAIR}; what no member has: {REMOVE_THEN}"
        report.committed_index = read_committed(self._disk, ledger.layout, findings)
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
        try:
            yield from self._log()
            yield from check_snapshots(
                self._disk, ledger, report, self._terms, self._limit, self._do
            )
        finally:
            self._files.close()
        if not options.is_backup:
            check_term(self._disk, ledger, report, self._files.mark)
        if ledger.is_in_memory and not report.entries:
            report.state = "in memory"
        if self._expired_count:
            findings.note(f"{self._expired_count} files expired while it was checked")
        return report

    def _log(self) -> Work[None]:
        report, mark = self._report, self._files.mark
        report.mark_bytes = None if mark is None else mark.end_bytes
        bases = list(self._files.log.bases())
        report.first_bytes = report.end_bytes = bases[0] if bases else 0
        log = self._files.log
        odd = odd_in(self._disk, log.folder, log.segment_bytes, bases)
        if self._limit is None and not self._options.is_backup:
            told = self._ledger.setting(DATA_KEY)
            for line in short_alone(self._disk, log.folder, bases, told, DATA_KEY):
                report.findings.note(line)
        others = report.findings.damage_count
        for line in odd:
            report.findings.hurt(f"{line}; {self._do}")
        yield from self._walk(bases)
        found: Found | None = None
        if self._limit is not None:
            self._judge_running()
        elif not odd:
            found = yield from self._ends().judge(bases)
        if not self._options.is_backup:
            self._sums.judge(report, found)
            yield from self._judge_index(found, log_is_good=report.findings.damage_count == others)

    def _read_truncating(self) -> None:
        """What an interrupted truncation cuts off is not looked at, as it is not by a start."""
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
        """From the oldest file on, to the first place where the entries do not go on."""
        log, report = self._files.log, self._report
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
            except CorruptLog:  # it is shorter, which was said
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
        """How the file ended; None: what is looked at did."""
        running = Running(reading)
        for piece in running:
            heads = self._within(piece.heads)
            if heads:
                self._take(heads)
            elif piece.heads:
                self._anew = not self._report.entries
                return None
            size = self._files.log.written_bytes - self._report.first_bytes
            yield Step(f"{self._ledger.name}: log", self._report.bytes_read, size)
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
        """The first entry that its checksum contradicts. Without a mark nobody knows whose it is,
        as at a start."""
        heads = self._within(heads)
        if not heads or self._files.mark is None:
            return None
        known = known_sums(self._files.sums, heads[0].index, len(heads))
        bad = contradicted(known, sums_of(data, heads))[:1]
        good = known[: bad[0] * SUM_BYTES] if bad else known
        self._report.summed += self._sums.take(heads[: len(good) // SUM_BYTES], good)
        return (bad[0], BAD_SUM) if bad else None

    def _expired(self, base: int) -> None:
        """A running member deleted its oldest files, this one among them."""
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
            report.findings.note("nothing was noted as committed yet: no entry was looked at")
        elif self._anew or (not report.entries and (stop is None or not stop.reason)):
            report.findings.note(f"the log begins behind entry {limit}, the last one committed")
        elif report.end_index < limit:
            ended = stop or FileEnd(report.end_bytes, "")
            self._ends().hurt(ended, f", but entries up to {limit} are committed")

    def _ends(self) -> LedgerEnd:
        return LedgerEnd(
            disk=self._disk,
            ledger=self._ledger,
            files=self._files,
            report=self._report,
            stop=self._stop,
            do=self._do,
        )

    def _judge_index(self, found: Found | None, *, log_is_good: bool) -> Work[None]:
        """Below what was synced of it, or without a mark, every entry is to be found by it.

        Args:
            found: by the next start, which compares the index with the entries that it scans.
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

    def _is_made_again(self, head: EntryHead, found: Found) -> Work[bool]:
        """Whether the next start finds the index missing, of odd sizes, or wrong where it looks: at
        the log's first entry and at those that it scans; and for records of zeros between them.

        Args:
            head: the first entry that the index does not lead to.
        """
        if self._files.odd or not self._files.index.log.bases():
            return True
        if head.index >= found.first_index or head.index == self._report.first_index:
            return True
        looking = self._files.index.has_gap(head.index, found.first_index)
        return (yield from labelled(looking, Step(f"{self._ledger.name}: index", 0, 0)))
