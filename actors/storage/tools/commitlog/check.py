"""Check a store: is every record whole and in its place, and does what derives from the log agree?

Reads only. Of a running node's store it looks at what lies below the synced mark, which never
changes while it runs (but for what expires), and at what the node has noted as derived.
"""

from __future__ import annotations

import attrs

from actors.env.protocols import Disk
from actors.errors import ConfigError, CorruptLog
from actors.storage.commitlog.given_up import GivenUp
from actors.storage.commitlog.recovery import FileEnd
from actors.storage.derived.begun_anew import read_begun_anew
from actors.storage.derived.dispatch_state import DispatchState
from actors.storage.derived.index_files import is_index_name
from actors.storage.derived.small_files import read_checkpoint
from actors.storage.derived.store_version import WITH_TAG_KEYS, number_of
from actors.storage.files.side_file import SideFileDamaged, read_side_file
from actors.storage.files.stepping import Running, Step, Work, labelled
from actors.storage.log.commit_log import segment_path
from actors.storage.log.cut_view import as_if_cut
from actors.storage.log.file_sizes import short_alone
from actors.storage.log.truncation import REMOVE
from actors.storage.node.identity import high_water, read_raw_identity
from actors.storage.tools.commitlog.check_digests import DigestCheck
from actors.storage.tools.commitlog.check_end import EndCheck
from actors.storage.tools.commitlog.check_index import IndexCheck, slots_of
from actors.storage.tools.commitlog.check_queues import QueueCheck, usual_file_bytes
from actors.storage.tools.commitlog.walk import Piece, read_file
from actors.storage.tools.copying import Copied, verify_group
from actors.storage.tools.findings import Findings, StoreReport
from actors.storage.tools.stores import GroupStore, log_bases, odd_files, size_of
from wire.files.commit_log import scan_heads
from wire.files.index_file import index_file_bytes

NOTHING = -1
EVERYTHING = 1 << 62


@attrs.frozen(kw_only=True)
class CheckOptions:
    """How to check.

    Attributes:
        is_running: a node runs on the store.
        is_backup: only the log is there.
        index_slots: hash slots of the index files; None: as the node's settings say, or the usual.
        record_bytes_max: largest record that is taken for one; None: as the settings say.
        copied: what the backup's manifest says of it.
        node_dir: the directory of the stopped node that it is of.
    """

    is_running: bool = False
    is_backup: bool = False
    index_slots: int | None = None
    record_bytes_max: int | None = None
    copied: Copied | None = None
    node_dir: str | None = None


def check_classic(disk: Disk, store: GroupStore, options: CheckOptions) -> Work[StoreReport]:
    """Check one store, and compare it with what else is said of it. Raises: as `check_store`."""
    report = yield from check_store(disk, store, options)
    if options.copied is not None:
        lines = yield from verify_group(disk, store.layout.commit_log, options.copied.log)
        for line in lines:
            report.findings.hurt(line)
    if options.node_dir is not None:
        _compare_with_identity(disk, options.node_dir, report)
    return report


def _compare_with_identity(disk: Disk, node_dir: str, found: StoreReport) -> None:
    """What the node has promised for a group, and whether it knows the group at all."""
    raw = read_raw_identity(disk, node_dir)
    for promised in high_water(raw, found.group).values():
        if promised > found.end_bytes:
            found.findings.hurt(
                f"{node_dir}/identity.json: all below {promised} was acknowledged or reported, but"
                f" the log ends at {found.end_bytes}"
            )
    if found.group not in raw["groups"]:
        found.findings.note(f"{node_dir}/identity.json: does not name this group")


def check_store(disk: Disk, store: GroupStore, options: CheckOptions) -> Work[StoreReport]:
    """Check one store. Raises: OSError, where a file cannot be read."""
    return _Check(disk, store, options).run()


@attrs.define
class _Check:
    _disk: Disk
    _store: GroupStore
    _options: CheckOptions
    _report: StoreReport = attrs.field(init=False)
    _stops: list[FileEnd] = attrs.field(factory=list, init=False)  # where records do not go on
    _last_ts: int = attrs.field(default=0, init=False)
    _records_after: int = attrs.field(default=0, init=False)  # behind the first of `_stops`
    _was_clean: bool = attrs.field(default=True, init=False)
    _expired_count: int = attrs.field(default=0, init=False)
    _is_odd: bool = attrs.field(default=False, init=False)  # files of wrong sizes or names
    _derived_findings: Findings = attrs.field(factory=Findings, init=False)

    def run(self) -> Work[StoreReport]:
        store, options = self._store, self._options
        self._report = StoreReport(group=store.name)
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
            self._report.findings.note(f"{self._expired_count} files expired while it was checked")
        if not options.is_backup:
            self._check_checkpoint()
        return self._report

    def _finish_derived(
        self, queues: QueueCheck | None, index: IndexCheck | None, log_is_good: bool
    ) -> Work[None]:
        """The other way: what is there that no record asks for?"""
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
        """What a start has still to derive, after a kill or a truncation."""
        report = self._report
        dispatched = report.dispatched_bytes
        if self._options.is_running or dispatched is None or dispatched >= report.end_bytes:
            return
        report.findings.note(f"queues and index reach {dispatched}: the next start does the rest")

    def _merge(self, log_is_good: bool) -> None:
        """What is wrong with derived files counts if the log is right; else it follows."""
        derived, findings = self._derived_findings, self._report.findings
        if log_is_good:
            findings.add(derived)
        elif derived.damage_count:
            findings.note(
                f"{derived.damage_count} differences of queues and index, which the log's damage "
                "may explain"
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
        """The log's files; holes between them are damage."""
        store, report = self._store, self._report
        bases = list(log_bases(self._disk, store))
        report.first_bytes = report.end_bytes = bases[0] if bases else 0
        if report.state not in ("running", "backup"):
            told, key = store.setting("segment_bytes"), "segment_bytes"
            for line in short_alone(self._disk, store.layout.commit_log, bases, told, key):
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
        """What checks the derived files; None for what is not there or not to be looked at."""
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
                "index not checked: nobody says how many hash slots its files have (--index-slots)"
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
        """Whether index files can have so many slots."""
        folder = self._store.layout.index
        names = filter(is_index_name, self._disk.listdir(folder))
        sizes = [size_of(self._disk, f"{folder}/{name}") for name in names]
        return all(
            size >= (least := index_file_bytes(slots, 1)) and (size - least) % 20 == 0
            for size in sizes
            if size
        )

    def _trusted(self) -> int:
        """Derived from records that end at or below it, everything has to be there."""
        dispatched, mark = self._report.dispatched_bytes, self._report.mark_bytes
        if dispatched is not None:
            if dispatched <= read_begun_anew(self._disk, self._store.layout.begun_anew):
                return NOTHING  # the next start derives all anew
            # Behind its mark a running node's records are not looked at.
            return min(dispatched, mark or 0) if self._options.is_running else dispatched
        return EVERYTHING if self._was_clean and not self._options.is_running else NOTHING

    # ---- the log ----

    def _step(self, what: str, done: int) -> Step:
        return Step(f"{self._store.name}: {what}", done, max(done, self._total))

    @property
    def _total(self) -> int:
        return self._report.files * self._store.segment_bytes

    def _walk(
        self, bases: list[int], queues: QueueCheck | None, index: IndexCheck | None
    ) -> Work[None]:
        report = self._report
        report.files = len(bases)
        limit = report.mark_bytes if self._options.is_running else None
        for base in bases:
            if limit is not None and base >= limit:
                report.files -= 1
                continue
            try:
                ended = yield from self._file(base, limit, queues, index)
            except FileNotFoundError:
                self._expired(base)
                continue
            except OSError as error:  # a bad sector: the other files are looked at all the same
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
            piece.data, 0, at + size, physical_offset=piece.offset, size_max=self._record_bytes_max
        )
        assert stopped.end == at + size, stopped  # ScansAgree
        self._last_ts = max(self._last_ts, heads[-1].store_ts)
        if queues is not None:
            queues.take(heads)
        if index is not None:
            index.take(heads)

    def _expired(self, base: int) -> None:
        """The running node deleted its oldest file: the log begins later now."""
        self._report.first_bytes = base + self._store.segment_bytes
        self._report.files -= 1
        self._expired_count += 1

    def _is_gone(self, offset: int) -> bool:
        """Whether the record at `offset` has expired; what derives from it goes after it."""
        base = offset - offset % self._store.segment_bytes
        path = segment_path(self._store.layout.commit_log, base)
        return self._options.is_running and not self._disk.exists(path)

    def _judge(self, bases: list[int]) -> Work[None]:
        """What it means where the records do not go on."""
        ends = EndCheck(
            disk=self._disk,
            store=self._store,
            report=self._report,
            stops=self._stops,
            records_after=self._records_after,
            was_clean=self._was_clean,
            record_bytes_max=self._record_bytes_max,
        )
        if self._options.is_running:
            ends.judge_running()
        elif self._is_odd:  # recovery looks at files as they have to be
            ends.name_all()
        elif bases:
            yield from ends.judge(bases)

    def _compare(self, bases: list[int]) -> Work[None]:
        """What no record's CRC covers, and what a record says of itself, against the digests."""
        mark, end = self._report.mark_bytes, self._report.end_bytes
        check = DigestCheck(
            disk=self._disk,
            log_folder=self._store.layout.commit_log,
            digests_folder=self._store.layout.digests,
            segment_bytes=self._store.segment_bytes,
            limit_bytes=end if mark is None else min(mark, end),
            findings=self._report.findings,
        )
        done = 0
        for size in check.run(bases):
            done += size
            yield self._step("digests", done)

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
            findings.note(
                "checkpoint: empty or unreadable: an unclean start looks at the whole log"
            )
        elif newest > self._last_ts and not self._options.is_running:
            findings.note(f"checkpoint: {newest} ms is later than the last record, {self._last_ts}")
