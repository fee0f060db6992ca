"""Where the records of a log do not go on: damage, a torn end, or just the end?

What the next start would do, refuse the log or cut its end, is asked of recovery itself, so that
both say the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage import recovery
from actors.storage.commit_log import CommitLog, segment_path
from actors.storage.side_file import read_side_file
from actors.storage.tools.findings import StoreReport
from actors.storage.tools.steps import Step, Work, labelled
from actors.storage.tools.target import GroupStore
from actors.storage.tools.walk import Ending, FileEnd, used_bytes


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
                self._hurt(stop)

    def judge(self, bases: list[int]) -> Work[None]:
        """Of a stopped store, whose files are of the right size."""
        report = self.report
        if not self.stops:
            mark = report.mark_bytes or 0
            if mark > report.end_bytes and not self.store.is_compat:
                last = segment_path(self.store.layout.commit_log, bases[-1])
                report.findings.hurt(f"{last}: is the last file, but all below {mark} was synced")
            return
        first = self.stops[0]
        used = yield from self._used_behind(first, bases)
        if self._are_damage(first, used):
            return
        is_good = yield from self._ask_recovery(first, bases)
        if is_good and used > report.end_bytes:
            report.torn_bytes = used - report.end_bytes
            what = first.reason or "bytes behind the end"
            more = f" and {self.records_after} records" if self.records_after else ""
            report.findings.note(
                f"offset {first.at_bytes}: {what}: {report.torn_bytes} bytes{more} behind the end; "
                "the next start sets them aside"
            )

    def _hurt(self, stop: FileEnd) -> None:
        path = segment_path(self.store.layout.commit_log, stop.base)
        reason = stop.reason or "nothing is written there"
        self.report.findings.hurt(
            f"{path}: byte {stop.at_bytes - stop.base} (offset {stop.at_bytes}): {reason}"
        )

    def _used_behind(self, first: FileEnd, bases: list[int]) -> Work[int]:
        """The end of the last byte that is not zero; the end of the records if that is all."""
        folder, size, used = self.store.layout.commit_log, self.store.segment_bytes, 0
        for base in [each for each in bases if each >= first.base]:
            start = max(first.at_bytes - base, 0)
            step = Step(f"{self.store.name}: behind the end", 0, 0)
            looking = used_bytes(self.disk, segment_path(folder, base), start, size)
            end = base + (yield from labelled(looking, step))
            if end > base + start:
                used = max(used, end)
        return max(used, first.at_bytes)

    def _are_damage(self, first: FileEnd, used: int) -> bool:
        """Without a mark: an ordered stop tears nothing, and no record follows a torn one."""
        if self.report.mark_bytes is not None or used <= first.at_bytes:
            return False
        is_torn = not self.records_after and not self.was_clean
        leftover = first.ending is Ending.UNWRITTEN and not self.records_after
        if is_torn or leftover:
            return False
        for stop in self.stops:
            if stop.ending is Ending.BAD or self.records_after:
                self._hurt(stop)
        return True

    def _ask_recovery(self, first: FileEnd, bases: list[int]) -> Work[bool]:
        """Whether the next start takes the log. It looks at the file with the mark, or the stop."""
        report, store = self.report, self.store
        log = CommitLog.look(self.disk, store.layout.commit_log, store.segment_bytes, bases)
        mark = None if store.is_compat else report.mark_bytes
        below = first.at_bytes if mark is None else min(first.at_bytes, mark)
        start = max((base for base in bases if base <= below), default=bases[0])
        finding = recovery.find_end(
            self.disk,
            log,
            start_bytes=start,
            mark_bytes=mark,
            record_bytes_max=self.record_bytes_max,
        )
        try:
            found = yield from labelled(finding, Step(f"{store.name}: the end", 0, 0))
        except CorruptLog as error:
            report.findings.hurt(str(error))
            for stop in self.stops[1:]:
                if stop.at_bytes < (mark or 0):
                    self._hurt(stop)
            return False
        report.end_bytes = found.end_bytes
        return True
