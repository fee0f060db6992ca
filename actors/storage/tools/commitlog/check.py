"""Checks the store of a classic group: whether its records are whole, and the derived files agree
with them.

It only reads. Of a running node's store it reads what lies below the synced mark, which does not
change while it runs, unless it expires; and of the derived files what the node has recorded as
derived.

Where the records end there may be damage, a torn record, or just the end. Whether the next start
would refuse the log or cut its end is asked of recovery itself, so that both agree.
"""

from __future__ import annotations

from contextlib import closing

import attrs

from actors.env.protocols import Disk
from actors.errors import ConfigError, CorruptLog
from actors.readable import counted
from actors.storage.commitlog import recovery
from actors.storage.commitlog.given_up import GivenUp
from actors.storage.commitlog.opening import NEVER, NO_LIMIT
from actors.storage.commitlog.recovery import Ending, FileEnd
from actors.storage.derived.adopting import adopted
from actors.storage.derived.dispatch_state import DispatchState, read_begun_anew
from actors.storage.derived.index_files import is_index_name
from actors.storage.derived.small_files import read_checkpoint, read_deleted
from actors.storage.derived.store_version import WITH_TAG_KEYS, number_of
from actors.storage.files.side_file import SideFileDamaged, read_side_file
from actors.storage.files.stepping import Running, Step, Work, labelled
from actors.storage.log.commit_log import CommitLog, segment_path, short_alone
from actors.storage.log.truncation import REMOVE, as_if_cut
from actors.storage.node.identity import high_water, read_raw_identity
from actors.storage.tools.commitlog.check_digests import DigestCheck
from actors.storage.tools.commitlog.check_index import IndexCheck, slots_of
from actors.storage.tools.commitlog.check_queues import QueueCheck, usual_file_bytes
from actors.storage.tools.commitlog.config_files import verify_config
from actors.storage.tools.commitlog.walk import Piece, read_file, used_behind
from actors.storage.tools.copying import Copied, verify_group
from actors.storage.tools.findings import Findings, StoreReport, cut_text
from actors.storage.tools.stores import (
    GroupStore,
    bytes_to_read,
    log_bases,
    odd_files,
    size_of,
)
from wire.files.commit_log import scan_heads
from wire.files.index_file import index_file_bytes

PAGE_BYTES = 4096
PLACE_AT, PLACE_BYTES = 28, 8
"""The position in a record of its own physical offset, and the field's size."""

REPAIR = "`repair` mends it once the node answers; if it ends its start, see OPERATING.md"
"""Advice for a running node, which may still be starting."""
NOTHING = -1
EVERYTHING = 1 << 62


@attrs.frozen(kw_only=True)
class CheckOptions:
    """How a store is checked.

    Attributes:
        is_running: whether a node runs on the store.
        is_backup: whether the store is a backup's, which has only a log.
        index_slots: the number of hash slots of an index file; None: the node's settings have it,
            or it is the usual one.
        record_bytes_max: the size of the largest possible record; None: as in the node's settings.
        copied: the entry of the backup's manifest; None for other stores.
        node_dir: the directory of the stopped node to which the store belongs; None for other
            stores.
    """

    is_running: bool = False
    is_backup: bool = False
    index_slots: int | None = None
    record_bytes_max: int | None = None
    copied: Copied | None = None
    node_dir: str | None = None


def check_classic(
    disk: Disk, store: GroupStore, options: CheckOptions, report: StoreReport | None = None
) -> Work[StoreReport]:
    """Check one store, and compare it with the manifest or the node's identity. Args, Raises: as
    `check_store`.
    """
    report = yield from check_store(disk, store, options, report)
    if options.copied is not None:
        copied = options.copied.log
        lines = yield from verify_group(disk, store.layout.commit_log, copied)
        for line in (*lines, *verify_config(disk, store.layout, copied)):
            report.findings.hurt(line)
    if options.node_dir is not None:
        _compare_with_identity(disk, options.node_dir, report)
    return report


def _compare_with_identity(disk: Disk, node_dir: str, found: StoreReport) -> None:
    """Check that the node's identity names the group, and that the log reaches what was promised
    for it.
    """
    raw = read_raw_identity(disk, node_dir)
    for promised in high_water(raw, found.group).values():
        if promised > found.end_bytes:
            found.findings.hurt(
                f"{node_dir}/identity.json: all below {promised} was acknowledged or reported, but"
                f" the log ends at {found.end_bytes}"
            )
    if found.group not in raw["groups"]:
        found.findings.note(f"{node_dir}/identity.json: does not name this group")


def check_store(
    disk: Disk, store: GroupStore, options: CheckOptions, report: StoreReport | None = None
) -> Work[StoreReport]:
    """Check one store.

    Args:
        report: takes the result; None: a new one.

    Raises: OSError: a file cannot be read.
    """
    return _Check(disk, store, options, report or StoreReport(group=store.name)).run()


@attrs.define
class _Check:
    _disk: Disk
    _store: GroupStore
    _options: CheckOptions
    _report: StoreReport
    _stops: list[FileEnd] = attrs.field(factory=list, init=False)  # where records do not go on
    _last_ts: int = attrs.field(default=0, init=False)
    _records_after: int = attrs.field(default=0, init=False)  # after the first of `_stops`
    _was_clean: bool = attrs.field(default=True, init=False)
    _to_read: int = attrs.field(default=0, init=False)  # bytes of the log
    _expired_count: int = attrs.field(default=0, init=False)
    # whether files have wrong sizes or names
    _is_odd: bool = attrs.field(default=False, init=False)
    _derived_findings: Findings = attrs.field(factory=Findings, init=False)

    def run(self) -> Work[StoreReport]:
        options = self._options
        self._read_marks()
        bases = self._bases()
        queues, index = self._derived(bases[0] if bases else 0)
        try:
            yield from self._walk(bases, queues, index)
            yield from self._judge(bases)
            yield from self._compare(bases)
            log_is_good = self._report.is_good
            yield from self._finish_derived(queues, index, log_is_good)
        finally:
            if queues is not None:
                queues.close()
        self._merge(log_is_good)
        self._note_rest()
        if self._expired_count:
            self._report.findings.note(
                f"{counted(self._expired_count, 'file')} expired while it was checked"
            )
        if not options.is_backup:
            self._check_checkpoint()
        return self._report

    def _finish_derived(
        self, queues: QueueCheck | None, index: IndexCheck | None, log_is_good: bool
    ) -> Work[None]:
        """Check the derived files for units and entries that no record asks for."""
        report = self._report
        if queues is not None:
            first, end = report.first_bytes, report.end_bytes
            is_whole = log_is_good and not self._expired_count
            finishing = queues.finish(first, end, log_is_whole=is_whole)
            step = self._step("consume queues", report.bytes_read)
            report.queues = yield from labelled(finishing, step)
            report.units = queues.units
        if index is not None:
            yield from labelled(
                index.finish(report.end_bytes), self._step("index", report.bytes_read)
            )
            report.index_files, report.entries = index.files, index.entries

    def _note_rest(self) -> None:
        """Add a note about what a start has still to derive, after a kill or a truncation."""
        report = self._report
        dispatched = report.dispatched_bytes
        if self._options.is_running or dispatched is None or dispatched >= report.end_bytes:
            return
        report.findings.note(f"queues and index reach {dispatched}: the next start does the rest")

    def _merge(self, log_is_good: bool) -> None:
        """Add the findings about derived files, which count only if the log is good."""
        derived, findings = self._derived_findings, self._report.findings
        if log_is_good:
            findings.add(derived)
        elif derived.damage_count:
            findings.note(
                f"{counted(derived.damage_count, 'difference')} of queues and index, which"
                " the log's damage may explain"
            )

    # ---- what the store says of itself ----

    def _read_marks(self) -> None:
        layout, report, findings = self._store.layout, self._report, self._report.findings
        self._was_clean = not self._disk.exists(layout.abort)
        if self._options.is_running:
            report.state = "running"
        elif self._options.is_backup:
            report.state, findings.starts = "backup", False
        elif not self._was_clean:
            report.state = "not stopped in order"
        try:
            values = read_side_file(self._disk, layout.synced, 1)
            report.mark_bytes = None if values is None else values[0]
        except SideFileDamaged:
            findings.hurt(f"{layout.synced}: the synced mark cannot be read: a start is refused")
        if not self._store.is_compat:
            try:
                GivenUp.read(self._disk, layout.given_up)
            except CorruptLog as error:
                findings.hurt(str(error))
        state = DispatchState.read(self._disk, layout.dispatched)
        report.dispatched_bytes = None if state is None else state.dispatched_bytes
        try:
            cutting = read_side_file(self._disk, layout.truncating, 2)
        except SideFileDamaged:
            findings.hurt(f"{layout.truncating}: cannot be read")
            cutting = None
        if cutting is not None and cutting[0] != NOTHING and not self._options.is_running:
            findings.note(f"a truncation to {cutting[0]} was interrupted: the next start ends it")
            self._disk = as_if_cut(self._disk, layout, do=REMOVE)

    def _bases(self) -> list[int]:
        """Return the offsets of the log's files; a missing file between them is damage."""
        store, report = self._store, self._report
        bases = list(log_bases(self._disk, store))
        report.first_bytes = report.end_bytes = bases[0] if bases else 0
        if report.state not in ("running", "backup"):
            last, key = store.setting("segment_bytes"), "segment_bytes"
            for line in short_alone(self._disk, store.layout.commit_log, bases, last, key):
                report.findings.note(line)
        for line in odd_files(self._disk, store, bases):
            self._is_odd = True
            report.findings.hurt(line)
        if not bases and report.mark_bytes and not self._store.is_compat:
            report.findings.hurt(
                f"{store.layout.commit_log}: no files, but all below {report.mark_bytes} was "
                "synced once"
            )
        return bases

    def _derived(self, log_min: int) -> tuple[QueueCheck | None, IndexCheck | None]:
        """Make the checks of the derived files; None for files that do not exist or are not
        checked.
        """
        layout, report, options = self._store.layout, self._report, self._options
        if options.is_backup:
            return None, None
        file_bytes = usual_file_bytes(self._disk, self._store)
        slots, trusted = slots_of(self._disk, layout.index), self._trusted()
        if report.dispatched_bytes is None and not file_bytes and slots == 0:
            report.findings.note("nothing is derived from the log yet: the next start does it")
            return None, None
        found = self._derived_findings
        queues = QueueCheck(
            self._disk, layout.consume_queue, file_bytes, trusted, self._is_gone, found,
            is_scrubbed=self._store.setting("scrub_bytes_per_s") != 0,
            deleted=read_deleted(self._disk, layout.topics),
        )  # fmt: skip
        given = options.index_slots or self._store.setting("index_slots_count")
        if given and slots != 0:
            slots = given
        if slots is None or (slots and not self._fits(slots)):
            if options.index_slots:
                raise ConfigError(
                    f"--index-slots: expected the number of hash slots of the files in "
                    f"{layout.index}, found {options.index_slots}"
                )
            report.findings.note(
                "index not checked: it is unknown how many slots its files have (--index-slots)"
            )
            return queues, None
        index = IndexCheck(
            self._disk, layout.index, slots or 1, trusted, log_min, options.is_running,
            self._is_gone, found,
            with_tag_keys=self._writes_tag_keys, is_scrubbed=queues.is_scrubbed,
        )  # fmt: skip
        return queues, index

    @property
    def _writes_tag_keys(self) -> bool:
        said = self._store.settings.get("store_version", "").strip('"')
        return not said or number_of(said) >= WITH_TAG_KEYS

    def _fits(self, slots: int) -> bool:
        """Whether the sizes of the index files are possible with this number of slots."""
        folder = self._store.layout.index
        names = filter(is_index_name, self._disk.listdir(folder))
        sizes = [size_of(self._disk, f"{folder}/{name}") for name in names]
        return all(
            size >= (least := index_file_bytes(slots, 1)) and (size - least) % 20 == 0
            for size in sizes
            if size
        )

    def _trusted(self) -> int:
        """Return the offset up to which records surely have their units and entries."""
        dispatched, mark = self._report.dispatched_bytes, self._report.mark_bytes
        if dispatched is not None:
            if dispatched <= read_begun_anew(self._disk, self._store.layout.begun_anew):
                return NOTHING  # the next start derives everything anew
            # Of a running node's log only what lies below its mark is read.
            return min(dispatched, mark or 0) if self._options.is_running else dispatched
        return EVERYTHING if self._was_clean and not self._options.is_running else NOTHING

    # ---- the log ----

    def _step(self, what: str, done: int) -> Step:
        return Step(f"{self._store.name}: {what}", done, max(done, self._to_read))

    def _walk(
        self, bases: list[int], queues: QueueCheck | None, index: IndexCheck | None
    ) -> Work[None]:
        report = self._report
        report.files = len(bases)
        limit = report.mark_bytes if self._options.is_running else None
        end = report.mark_bytes if self._was_clean else limit
        self._to_read = bytes_to_read(self._disk, self._store, bases, end)
        for base in bases:
            if limit is not None and base >= limit:
                report.files -= 1
                continue
            try:
                ended = yield from self._file(base, limit, queues, index)
            except FileNotFoundError:
                self._expired(base)
                continue
            except OSError as error:  # a bad sector; the other files are checked all the same
                path = segment_path(self._store.layout.commit_log, base)
                report.findings.hurt(f"{path}: {error.strerror or error}")
                self._is_odd = True
                continue
            if not self._stops:
                report.end_bytes = ended.at_bytes
                if ended.goes_on:
                    report.end_bytes = base + self._store.segment_bytes
            if not ended.goes_on:
                self._stops.append(ended)

    def _file(
        self,
        base: int,
        limit: int | None,
        queues: QueueCheck | None,
        index: IndexCheck | None,
    ) -> Work[FileEnd]:
        most = self._record_bytes_max
        reading = Running(
            read_file(self._disk, self._store, base, limit=limit, record_bytes_max=most)
        )
        for piece in reading:
            self._take(piece, queues, index)
            yield self._step("log", self._report.bytes_read)
        return reading.result

    @property
    def _record_bytes_max(self) -> int:
        return self._options.record_bytes_max or self._store.record_bytes_max

    def _take(self, piece: Piece, queues: QueueCheck | None, index: IndexCheck | None) -> None:
        at, size = piece.found[-1]
        report = self._report
        report.bytes_read += at + size
        report.records += len(piece.found)
        if self._stops:
            self._records_after += len(piece.found)
        heads, stopped = scan_heads(
            piece.data,
            0,
            at + size,
            physical_offset=piece.offset,
            size_max=self._record_bytes_max,
            delay_levels_ms=self._store.delay_levels_ms,
        )
        assert stopped.end == at + size, stopped  # ScansAgree
        self._last_ts = max(self._last_ts, heads[-1].store_ts)
        if queues is not None:
            queues.take(heads)
        if index is not None:
            index.take(heads)

    def _expired(self, base: int) -> None:
        """Note that the running node has deleted its oldest file: the log begins later now."""
        self._report.first_bytes = base + self._store.segment_bytes
        self._report.files -= 1
        self._expired_count += 1

    def _is_gone(self, offset: int) -> bool:
        """Whether the record at `offset` has expired, so what is derived from it may be missing."""
        base = offset - offset % self._store.segment_bytes
        path = segment_path(self._store.layout.commit_log, base)
        return self._options.is_running and not self._disk.exists(path)

    def _judge(self, bases: list[int]) -> Work[None]:
        """Judge the position at which the records end."""
        if self._options.is_running:
            self._judge_running()
        elif self._is_odd:  # recovery expects files of the right sizes
            self._name_all()
        elif bases:
            yield from self._judge_stopped(bases)

    def _compare(self, bases: list[int]) -> Work[None]:
        """Compare the log with its digests, which find what no record's CRC covers."""
        mark, end = self._report.mark_bytes, self._report.end_bytes
        check = DigestCheck(
            disk=self._disk,
            name=self._store.name,
            total_bytes=self._to_read,
            log_folder=self._store.layout.commit_log,
            digests_folder=self._store.layout.digests,
            segment_bytes=self._store.segment_bytes,
            limit_bytes=end if mark is None else min(mark, end),
            findings=self._report.findings,
        )
        yield from check.run(bases)

    def _check_checkpoint(self) -> None:
        layout, findings = self._store.layout, self._report.findings
        if not self._disk.exists(layout.checkpoint) or not self._report.records:
            return
        checkpoint = read_checkpoint(self._disk, layout.checkpoint)
        end = self._report.end_bytes
        if checkpoint.logics_offset > end and not self._options.is_running:
            findings.note(
                f"checkpoint: logicsPhysicalOffset {checkpoint.logics_offset} lies behind the log's"
                f" end, {end}: start a node on it before a broker with enableAcceleratedRecovery"
            )
        newest = max(checkpoint.log_ts, checkpoint.queue_ts, checkpoint.index_ts)
        if not newest:
            findings.note("checkpoint: empty or unreadable: an unclean start reads the whole log")
        elif newest > self._last_ts and not self._options.is_running:
            findings.note(f"checkpoint: {newest} ms is later than the last record, {self._last_ts}")

    # ---- where the records do not go on ----

    def _name_all(self) -> None:
        """Report every position that is damaged."""
        for stop in self._stops:
            if stop.ending is Ending.BAD:
                self._hurt(stop)

    def _judge_running(self) -> None:
        """Judge a running node's log: below the mark, up to which it was read, no record may be
        damaged.
        """
        for stop in self._stops:
            if stop.ending is not Ending.LIMIT:
                values = read_side_file(self._disk, self._store.layout.synced, 1)
                if values is not None and values[0] < (self._report.mark_bytes or 0):
                    self._report.findings.note("the log was cut while it was checked: check again")
                    return
                self._hurt(stop, f"; {REPAIR}")

    def _judge_stopped(self, bases: list[int]) -> Work[None]:
        """Judge the end of a stopped store whose files have the right sizes."""
        report = self._report
        if not self._stops:
            mark = report.mark_bytes or 0
            if mark > report.end_bytes and not self._store.is_compat:
                last = segment_path(self._store.layout.commit_log, bases[-1])
                report.findings.hurt(f"{last}: is the last file, but all below {mark} was synced")
            return
        first = self._stops[0]
        used, kept_bytes = yield from used_behind(self._disk, self._store, bases, first.at_bytes)
        if report.mark_bytes is None and used > first.at_bytes and not report.findings.starts:
            self._name_all()
            return
        found = yield from self._ask_recovery(first, bases)
        if found is None:
            return
        report.end_bytes = found.end_bytes
        if found.end_bytes > first.at_bytes and self._is_passed(first, used):
            return
        if used > report.end_bytes:
            report.torn_bytes = kept_bytes
            more = (
                f" with {counted(self._records_after, 'whole record')}"
                if self._records_after
                else ""
            )
            text = cut_text(
                first.at_bytes,
                first.reason or "bytes behind the end",
                f"{counted(report.torn_bytes, 'byte')}{more}",
                report.mark_bytes,
                self._store.settings,
            )
            if self._is_torn(first) or self._is_stale(first, used):
                report.findings.note(text)
            else:
                report.findings.mend(text)

    def _hurt(self, stop: FileEnd, more: str = "") -> None:
        path = segment_path(self._store.layout.commit_log, stop.base)
        reason = stop.reason or "nothing is written there"
        self._report.findings.hurt(
            f"{path}: byte {stop.at_bytes - stop.base} (offset {stop.at_bytes}): {reason}{more}"
        )

    def _is_torn(self, first: FileEnd) -> bool:
        """Whether what follows the end may be a torn record: with a mark always, else after an
        unordered stop.
        """
        if self._report.mark_bytes is not None:
            return True
        leftover = first.ending is Ending.UNWRITTEN
        return not self._records_after and (leftover or not self._was_clean)

    def _is_stale(self, first: FileEnd, used: int) -> bool:
        """Whether what follows the end is the rest of a buffer.

        A broker with writeWithoutMmap (since 5.4.0) writes it behind its last message, up to the
        page's end. It is told by the position in it, which is not that of a record.
        """
        at = first.at_bytes
        if (
            self._report.mark_bytes is not None
            or self._records_after
            or used > at + -at % PAGE_BYTES
        ):
            return False
        path = segment_path(self._store.layout.commit_log, first.base)
        with closing(self._disk.open(path, "r")) as file:
            position = file.pread(at - first.base + PLACE_AT, PLACE_BYTES)
        return position != at.to_bytes(PLACE_BYTES, "big")

    def _is_passed(self, first: FileEnd, used: int) -> bool:
        """Whether the next start, without a mark, would not notice this damage and go on
        behind it.
        """
        if self._report.mark_bytes is not None or used <= first.at_bytes:
            return False
        self._report.end_bytes = first.at_bytes
        for stop in self._stops:
            if stop.ending is Ending.BAD or self._records_after:
                self._hurt(
                    stop, ": the next start does not read so far back, and goes on behind it"
                )
        return True

    def _start_base(self, log: CommitLog, first: FileEnd, mark: int | None) -> Work[int]:
        """Return the file in which recovery begins: the one with the mark or the end, whichever is
        lower.

        Without a mark it is the file in which a start would begin.
        """
        if mark is not None:
            below = min(first.at_bytes, mark)
            return max((base for base in log.bases() if base <= below), default=log.min_bytes)
        layout, dispatched = self._store.layout, self._report.dispatched_bytes
        if self._was_clean and dispatched is None:
            size = usual_file_bytes(self._disk, self._store)
            finding = adopted(self._disk, layout, size, NO_LIMIT)
            state = yield from labelled(finding, Step(f"{self._store.name}: the end", 0, 0))
            dispatched = None if state is None else state.dispatched_bytes
        return recovery.first_file(
            self._disk,
            log,
            clean=self._was_clean,
            dispatched_bytes=NEVER if dispatched is None else dispatched,
            mark_bytes=None,
            checkpoint=read_checkpoint(self._disk, layout.checkpoint),
        )

    def _ask_recovery(self, first: FileEnd, bases: list[int]) -> Work[recovery.ScanResult | None]:
        """Return what the next start finds; None if it refuses the log."""
        report, store = self._report, self._store
        log = CommitLog.look(self._disk, store.layout.commit_log, store.segment_bytes, bases)
        mark = None if store.is_compat else report.mark_bytes
        start = yield from self._start_base(log, first, mark)
        finding = recovery.find_end(
            self._disk,
            log,
            start_bytes=start,
            mark_bytes=mark,
            record_bytes_max=self._record_bytes_max,
        )
        try:
            return (yield from labelled(finding, Step(f"{store.name}: the end", 0, 0)))
        except CorruptLog as error:
            report.findings.hurt(str(error))
            for stop in self._stops[1:]:
                if stop.at_bytes < (mark or 0):
                    self._hurt(stop)
            return None
