"""Where the entries of a stopped DLedger member do not go on: damage, or an end that a start cuts?

What the next start would do, refuse the log, cut it or go on behind the place, is asked of recovery
itself, so that both say the same.
"""

from __future__ import annotations

import attrs

from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.files.stepping import Step, Work, labelled
from actors.storage.ledger.recovery import Found, is_surely_whole
from actors.storage.ledger.walk import FileEnd, read_file
from actors.storage.log.commit_log import segment_path
from actors.storage.tools.commitlog.walk import used_bytes
from actors.storage.tools.findings import LedgerReport, cut_text
from actors.storage.tools.ledger.files import LedgerFiles, find_end
from actors.storage.tools.stores import GroupLedger


@attrs.frozen(kw_only=True)
class LedgerEnd:
    """One member's log, whose files are of the right sizes.

    Attributes:
        report: what is found goes there.
        stop: where its entries do not go on; None: they end where nothing is written.
        do: what is to be done about damage.
    """

    disk: Disk
    ledger: GroupLedger
    files: LedgerFiles
    report: LedgerReport
    stop: FileEnd | None
    do: str

    def hurt(self, stop: FileEnd, more: str = "") -> None:
        """Name a place where the entries do not go on."""
        log, at = self.files.log, stop.at_bytes
        base = at - at % log.segment_bytes
        entry = self.report.end_index + 1
        reason = stop.reason or "nothing is written there"
        self.report.findings.hurt(
            f"{segment_path(log.folder, base)}: byte {at - base} (entry {entry}, offset {at}):"
            f" {reason}{more}; {self.do}"
        )

    def judge(self, bases: list[int]) -> Work[Found | None]:
        """What it means. Gives what the next start finds; None: it is refused, or passes over."""
        report, mark, stop = self.report, self.files.mark, self.stop
        if stop is not None and mark is not None and stop.at_bytes < mark.end_bytes:
            self.hurt(stop, f", but all below {mark.end_bytes} was synced once")
            return None
        try:
            found = yield from find_end(self.disk, self.ledger, self.files)
        except CorruptLog as error:
            report.findings.hurt(f"{error}; {self.do}")
            return None
        if stop is not None and found.end_bytes > stop.at_bytes:
            self.hurt(stop, f", and entries follow up to {found.end_index}")
            return None
        yield from self._judge_cut(found, bases)
        self._judge_committed(found)
        return found

    def _judge_cut(self, found: Found, bases: list[int]) -> Work[None]:
        """What a start that takes the log cuts off it."""
        report, stop, gone = self.report, self.stop, 0
        if found.end_index < report.end_index and (found.end_index >= 0 or stop is None):
            gone = report.end_index - found.end_index
            report.entries -= gone
            report.end_index, report.end_term = found.end_index, found.end_term
            report.end_bytes = found.end_bytes
        used, kept_bytes = yield from self._used_behind(bases)
        if used <= report.end_bytes or (stop is None and not gone):
            return
        if stop is not None and not report.findings.starts:
            self.hurt(stop, ", and something follows")
            return
        report.torn_bytes = kept_bytes
        gone += yield from self._entries_behind(bases)
        end, mark = report.end_bytes, self.files.mark
        file_end = end + -end % self.files.log.segment_bytes
        text = cut_text(
            end,
            found.reason or "bytes behind the end",
            f"{report.torn_bytes} bytes" + (f" with {gone} whole entries" if gone else ""),
            None if mark is None else mark.end_bytes,
            self.ledger.settings,
        )
        # A kill tears the last file alone; a loss of power more, and so does damage.
        if mark is None and stop is not None and used > max(file_end, stop.at_bytes):
            report.findings.mend(text)
        else:
            report.findings.note(text)

    def _used_behind(self, bases: list[int]) -> Work[tuple[int, int]]:
        """The end of the last byte behind the end that is not zero, 0 without one; and how many
        bytes a start keeps: of each file those up to its last one.
        """
        log, end, used, kept = self.files.log, self.report.end_bytes, 0, 0
        step = Step(f"{self.ledger.name}: behind the end", 0, 0)
        for base in bases:
            start = max(end - base, 0)
            if start < log.segment_bytes:
                path = segment_path(log.folder, base)
                looking = used_bytes(self.disk, path, start, log.segment_bytes)
                at = yield from labelled(looking, step)
                used = base + at if at > start else used
                kept += at - start
        return used, kept

    def _entries_behind(self, bases: list[int]) -> Work[int]:
        """How many whole entries are in the files behind the one that the log ends in."""
        log, end, count = self.files.log, self.report.end_bytes, 0
        for base in bases:
            if base < end or base == bases[0]:
                continue
            size = log.segment_bytes
            reading = read_file(self.disk, log.folder, base, size, is_first=False, after=None)
            for piece in reading:
                count += len(piece.heads)
                yield Step(f"{self.ledger.name}: behind the end", 0, 0)
        return count

    def _judge_committed(self, found: Found) -> None:
        """The start takes the log: a checkpoint that says more is corrected, not believed."""
        report, mark = self.report, self.files.mark
        end, said = report.end_index, report.committed_index
        if said <= end:
            return
        text = (
            f"{self.ledger.layout.checkpoint}: entries up to {said} were committed, but the log"
            f" ends at {end}"
        )
        if mark is not None and not mark.end_bytes:
            report.findings.note(f"{text}: it was begun anew")
        elif not report.findings.starts:
            report.findings.hurt(f"{text}; {self.do}")
        elif not is_surely_whole(found, mark):
            report.findings.hurt(
                f"{text}: the next start goes on without {end + 1} to {said}, and counts as one"
                f" that has lost its log (not with `compat`); {self.do}"
            )
        else:
            report.findings.mend(
                f"{text} and is whole: the next start corrects that; what other members have behind"
                " it they send"
            )
