"""Where the records of a log do not go on: damage, a torn end, or just the end?

What the next start would do, refuse the log or cut its end, is asked of recovery itself, so that
both say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import attrs

from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.commitlog import recovery
from actors.storage.commitlog.opening import NEVER, NO_LIMIT
from actors.storage.commitlog.recovery import Ending, FileEnd
from actors.storage.derived.adopting import adopted
from actors.storage.derived.small_files import read_checkpoint
from actors.storage.files.side_file import read_side_file
from actors.storage.files.stepping import Step, Work, labelled
from actors.storage.log.commit_log import CommitLog, segment_path
from actors.storage.tools.commitlog.check_queues import usual_file_bytes
from actors.storage.tools.commitlog.walk import used_bytes
from actors.storage.tools.findings import StoreReport, cut_text
from actors.storage.tools.stores import GroupStore

PAGE_BYTES = 4096
PLACE_AT, PLACE_BYTES = 28, 8
"""Where a record says its own physical offset."""

REPAIR = "`repair` mends it while the node runs (README, Running it)"


@attrs.frozen(kw_only=True)
class EndCheck:
    """One store's log.

    Attributes:
        report: what is found goes there.
        stops: the files in which the records do not go on, ascending.
        records_after: good records in files behind the first of them.
        was_clean: the last stop was an ordered one.
    """

    disk: Disk
    store: GroupStore
    report: StoreReport
    stops: Sequence[FileEnd]
    records_after: int
    was_clean: bool
    record_bytes_max: int

    def name_all(self) -> None:
        """Every place that is bad."""
        for stop in self.stops:
            if stop.ending is Ending.BAD:
                self._hurt(stop)

    def judge_running(self) -> None:
        """Below the mark, which is where the reading ended, nothing may stop."""
        for stop in self.stops:
            if stop.ending is not Ending.LIMIT:
                values = read_side_file(self.disk, self.store.layout.synced, 1)
                if values is not None and values[0] < (self.report.mark_bytes or 0):
                    self.report.findings.note("the log was cut while it was checked: check again")
                    return
                self._hurt(stop, f"; {REPAIR}")

    def judge(self, bases: list[int]) -> Work[None]:
        """Judge the end of a stopped store whose files are of the right size."""
        report = self.report
        if not self.stops:
            mark = report.mark_bytes or 0
            if mark > report.end_bytes and not self.store.is_compat:
                last = segment_path(self.store.layout.commit_log, bases[-1])
                report.findings.hurt(f"{last}: is the last file, but all below {mark} was synced")
            return
        first = self.stops[0]
        used, kept_bytes = yield from self._used_behind(first, bases)
        if report.mark_bytes is None and used > first.at_bytes and not report.findings.starts:
            self.name_all()
            return
        found = yield from self._ask_recovery(first, bases)
        if found is None:
            return
        report.end_bytes = found.end_bytes
        if found.end_bytes > first.at_bytes and self._is_passed(first, used):
            return
        if used > report.end_bytes:
            report.torn_bytes = kept_bytes
            more = f" with {self.records_after} whole records" if self.records_after else ""
            text = cut_text(
                first.at_bytes,
                first.reason or "bytes behind the end",
                f"{report.torn_bytes} bytes{more}",
                report.mark_bytes,
                self.store.settings,
            )
            if self._is_torn(first) or self._is_stale(first, used):
                report.findings.note(text)
            else:
                report.findings.mend(text)

    def _hurt(self, stop: FileEnd, more: str = "") -> None:
        path = segment_path(self.store.layout.commit_log, stop.base)
        reason = stop.reason or "nothing is written there"
        self.report.findings.hurt(
            f"{path}: byte {stop.at_bytes - stop.base} (offset {stop.at_bytes}): {reason}{more}"
        )

    def _used_behind(self, first: FileEnd, bases: list[int]) -> Work[tuple[int, int]]:
        """The end of the last byte that is not zero, or of the records if that is all; and how
        many bytes a start keeps that cuts there: of each file those up to its last one.
        """
        folder, size, used, kept = self.store.layout.commit_log, self.store.segment_bytes, 0, 0
        for base in [each for each in bases if each >= first.base]:
            start = max(first.at_bytes - base, 0)
            step = Step(f"{self.store.name}: behind the end", 0, 0)
            looking = used_bytes(self.disk, segment_path(folder, base), start, size)
            end = base + (yield from labelled(looking, step))
            if end > base + start:
                used = max(used, end)
                kept += end - base - start
        return max(used, first.at_bytes), kept

    def _is_torn(self, first: FileEnd) -> bool:
        """Without a mark: an ordered stop tears nothing, and no record follows a torn one."""
        if self.report.mark_bytes is not None:
            return True
        leftover = first.ending is Ending.UNWRITTEN
        return not self.records_after and (leftover or not self.was_clean)

    def _is_stale(self, first: FileEnd, used: int) -> bool:
        """Whether it is the rest of a buffer, which a broker with writeWithoutMmap (since 5.4.0)
        writes behind its last message, up to the page's end: no record has its place there.
        """
        at = first.at_bytes
        if self.report.mark_bytes is not None or self.records_after or used > at + -at % PAGE_BYTES:
            return False
        path = segment_path(self.store.layout.commit_log, first.base)
        with closing(self.disk.open(path, "r")) as file:
            place = file.pread(at - first.base + PLACE_AT, PLACE_BYTES)
        return place != at.to_bytes(PLACE_BYTES, "big")

    def _is_passed(self, first: FileEnd, used: int) -> bool:
        """Whether the next start goes on behind damage, without a mark and so without looking."""
        if self.report.mark_bytes is not None or used <= first.at_bytes:
            return False
        self.report.end_bytes = first.at_bytes
        for stop in self.stops:
            if stop.ending is Ending.BAD or self.records_after:
                self._hurt(
                    stop, ": the next start does not look so far back, and goes on behind it"
                )
        return True

    def _start_base(self, log: CommitLog, first: FileEnd, mark: int | None) -> Work[int]:
        """The file to ask about: that with the mark or the stop; without a mark where a start
        begins.
        """
        if mark is not None:
            below = min(first.at_bytes, mark)
            return max((base for base in log.bases() if base <= below), default=log.min_bytes)
        layout, dispatched = self.store.layout, self.report.dispatched_bytes
        if self.was_clean and dispatched is None:
            size = usual_file_bytes(self.disk, self.store)
            finding = adopted(self.disk, layout, size, NO_LIMIT)
            state = yield from labelled(finding, Step(f"{self.store.name}: the end", 0, 0))
            dispatched = None if state is None else state.dispatched_bytes
        return recovery.first_file(
            self.disk,
            log,
            clean=self.was_clean,
            dispatched_bytes=NEVER if dispatched is None else dispatched,
            mark_bytes=None,
            checkpoint=read_checkpoint(self.disk, layout.checkpoint),
        )

    def _ask_recovery(self, first: FileEnd, bases: list[int]) -> Work[recovery.Found | None]:
        """What the next start finds; None: it refuses the log."""
        report, store = self.report, self.store
        log = CommitLog.look(self.disk, store.layout.commit_log, store.segment_bytes, bases)
        mark = None if store.is_compat else report.mark_bytes
        start = yield from self._start_base(log, first, mark)
        finding = recovery.find_end(
            self.disk,
            log,
            start_bytes=start,
            mark_bytes=mark,
            record_bytes_max=self.record_bytes_max,
        )
        try:
            return (yield from labelled(finding, Step(f"{store.name}: the end", 0, 0)))
        except CorruptLog as error:
            report.findings.hurt(str(error))
            for stop in self.stops[1:]:
                if stop.at_bytes < (mark or 0):
                    self._hurt(stop)
            return None
