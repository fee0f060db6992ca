"""Copies a DLedger member's log and snapshots, of a running or a stopped member.

A copy is good for reading, and for beginning the whole group anew, on every member, if its logs are
lost. It is not good for restoring one member: that member would forget votes, and entries that it
has acknowledged, so a majority could elect a leader that lacks acknowledged entries, or two leaders
in one term. So the copy has a synced mark and no `currterm`, and a member of ours refuses to start
on it. Term and vote are in the manifest, for reading.

The copy of a running member ends with what is committed and synced, which is never cut. The copy of
a stopped member ends where its log does. Index and checksums are derived from the entries and are
not copied.

Order: the mark; the snapshots; then the log, whose files are deleted only after a newer snapshot
exists; then the copy is read through, and has to be one log up to its end.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Any, ClassVar

import attrs
import msgspec

from actors.env.protocols import Disk
from actors.errors import CorruptLog, StorageError
from actors.group_status import GroupStatus
from actors.readable import counted
from actors.storage.files.stepping import Step, Work, labelled
from actors.storage.files.whole_files import read_bytes, write_synced
from actors.storage.layout import LedgerLayout
from actors.storage.ledger import recovery
from actors.storage.ledger.ledger import IndexNotThere
from actors.storage.ledger.mark import Mark, MarkValues
from actors.storage.ledger.per_index import SUM_BYTES, PerIndexFiles
from actors.storage.ledger.reader import LedgerReader
from actors.storage.ledger.snapshots import Reader, Snapshot, SnapshotDamaged, SnapshotFolder
from actors.storage.ledger.term_files import TermVote, read_checkpoint, read_term
from actors.storage.log.commit_log import CommitLog
from actors.storage.tools.copying import (
    PART,
    BackedUp,
    BackedUpGroup,
    Limit,
    LogCopy,
    refuse_unfinished,
    verify_group,
)
from actors.storage.tools.findings import LedgerReport
from actors.storage.tools.ledger.files import LedgerFiles, find_end, settings_of
from actors.storage.tools.stores import GroupLedger, log_bases, odd_files
from wire.dledger.snapshot import DATA, META, META_BYTES_MAX, folder_name, index_of

USE = "to read, or to begin the whole group anew; never for a member that joins it again"
AGAIN = "if its log began anew, or expired, while it was copied, run it again"


@attrs.frozen(kw_only=True)
class BackedUpLedger:
    """The copy of a DLedger member.

    Attributes:
        log: the copy of its data files, as for any group.
        first_index, end_index: the index of the first and of the last entry; -1 if there is none.
        committed_index: the committed index that this member knew; entries above it may never have
            been acknowledged, and other members may have others there.
        term, voted_for: the member's term and vote. The copy has no `currterm`, so that no member
            of ours starts on it.
        snapshots: the indexes of the snapshots that were copied.
    """

    mode: ClassVar = "dledger"
    log: BackedUpGroup
    first_index: int
    end_index: int
    committed_index: int
    term: int
    voted_for: str
    snapshots: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of the group."""
        return self.log.name

    @property
    def line(self) -> str:
        """A line about what was copied, for people."""
        snapshots = f", {counted(len(self.snapshots), 'snapshot')}" if self.snapshots else ""
        return (
            f"{self.name}: entries {self.first_index} to {self.end_index} ({self.log.limit}),"
            f" {counted(len(self.log.files), 'file')}{snapshots}; {USE}"
        )

    @staticmethod
    def parse(found: Any) -> BackedUpLedger:
        """Parse a manifest's entry. Raises: what is in `identity.UNREADABLE`."""
        return msgspec.convert(found, BackedUpLedger)


@attrs.frozen(kw_only=True)
class LedgerLimit(Limit):
    """The highest end that the copy of a member may have.

    Attributes:
        end_index: the index of its last entry; -1 if it has none, and `end_bytes` is 0.
        committed_index: the committed index, as far as it is known.
    """

    end_index: int
    committed_index: int
    is_sure: bool = True


def _nothing(why: str) -> LedgerLimit:
    return LedgerLimit(end_index=-1, end_bytes=0, committed_index=-1, why=why)


def stopped_ledger_limit(disk: Disk, ledger: GroupLedger) -> Work[LedgerLimit]:
    """Return the end of a stopped member's log, as its next start would find it.

    Raises: CorruptLog: that start would be refused. ConfigError: a truncation was interrupted.
    """
    layout = ledger.layout
    refuse_unfinished(disk, layout.root, layout.truncating)
    odd = odd_files(disk, ledger, bases) if (bases := log_bases(disk, ledger)) else []
    if odd:
        raise CorruptLog(odd[0])
    with closing(LedgerFiles.look(disk, ledger)) as files:
        found = yield from find_end(disk, ledger, files)
    if found.end_index < 0:
        return _nothing("an empty log")
    committed = min(read_checkpoint(disk, layout.checkpoint).committed_index, found.end_index)
    return LedgerLimit(
        end_index=found.end_index,
        end_bytes=found.end_bytes,
        committed_index=committed,
        why="the end of a stopped log",
    )


def limit_at(disk: Disk, ledger: GroupLedger, index: int, why: str) -> LedgerLimit:
    """Make the limit of a copy that ends with entry `index`, which is committed and synced.

    Raises: StorageError: the entry is missing, or damaged.
    """
    if index < 0:
        return _nothing(why)
    reader = LedgerReader.of(disk, ledger.layout, settings_of(ledger))
    try:
        end = reader.record(index).pos + len(reader.read(index, index, 0))
    except IndexNotThere as error:
        raise StorageError(f"{ledger.name}: {error}: {AGAIN}") from error
    finally:
        reader.forget()
    return LedgerLimit(end_index=index, end_bytes=end, committed_index=index, why=why)


def committed_index(disk: Disk, ledger: GroupLedger) -> int:
    """Return the committed index in a running member's checkpoint."""
    return read_checkpoint(disk, ledger.layout.checkpoint).committed_index


def running_ledger_limit(
    disk: Disk, ledger: GroupLedger, status: GroupStatus | None, node: str
) -> LedgerLimit:
    """Return the end of a running member's copy: what is committed and synced.

    Args:
        status: the member's status of the group; None: it did not answer, so its checkpoint counts.

    Raises: as `limit_at`.
    """
    if status is None:
        index = committed_index(disk, ledger)
        return limit_at(disk, ledger, index, "the checkpoint of a member that did not answer")
    index = min(status.synced, status.acknowledged) - 1
    return limit_at(disk, ledger, index, "committed and synced on a running member")


def copy_ledger(
    disk: Disk, ledger: GroupLedger, root: str, limit: LedgerLimit, done: BackedUp
) -> Work[BackedUpLedger]:
    """Copy a member's log and snapshots into a store root of a backup.

    Raises: StorageError: the log is damaged, or was deleted while it was copied. OSError.
    """
    return _LedgerCopy(disk, ledger, LedgerLayout(root), limit, done).run()


@attrs.define
class _LedgerCopy:
    """One copy of a member's log and snapshots."""

    _disk: Disk
    _ledger: GroupLedger
    _layout: LedgerLayout
    _limit: LedgerLimit
    _done: BackedUp

    def run(self) -> Work[BackedUpLedger]:
        disk, ledger, limit = self._disk, self._ledger, self._limit
        vote = read_term(disk, ledger.layout.term, unsynced=ledger.is_compat) or TermVote()
        disk.mkdir(self._layout.commit_log)
        with closing(Mark.open(disk, self._layout.synced)) as mark:
            mark.write(MarkValues(limit.end_bytes, 0))
            mark.sync()
        snapshots = yield from self._snapshots()
        copy = LogCopy(
            disk=disk,
            name=ledger.name,
            source=ledger.layout.commit_log,
            target=self._layout.commit_log,
            file_bytes=ledger.segment_bytes,
            end_bytes=limit.end_bytes,
            limit=limit.why,
            done=self._done,
        )
        log = yield from copy.run(log_bases(disk, ledger))
        first_index = yield from self._read_through([file.base_bytes for file in log.files])
        if snapshots and first_index > max(snapshots) + 1:
            raise StorageError(
                f"{ledger.name}: the log begins at {first_index}, the newest snapshot replaces"
                f" entries up to {max(snapshots)}: {AGAIN}"
            )
        return BackedUpLedger(
            log=log,
            first_index=first_index,
            end_index=limit.end_index,
            committed_index=limit.committed_index,
            term=vote.term,
            voted_for=vote.voted_for,
            snapshots=tuple(snapshots),
        )

    def _read_through(self, bases: list[int]) -> Work[int]:
        """Check that the copy is one log up to its end. Returns: the index of its first entry; -1:
        none.

        Raises: StorageError: it is not.
        """
        limit, name = self._limit, self._ledger.name
        if limit.end_index < 0:
            return -1
        if not bases:
            raise StorageError(f"{name}: all its files were deleted: {AGAIN}")
        layout, size = self._layout, self._ledger.segment_bytes
        log = CommitLog.look(self._disk, layout.commit_log, size, bases)
        none = PerIndexFiles.look(self._disk, layout.sums, SUM_BYTES, SUM_BYTES, [])
        reading = recovery.find_end(
            self._disk, log, start_base=bases[0], mark_bytes=None, sums=none
        )
        found = yield from labelled(reading, Step(f"{name}: read through", 0, limit.end_bytes))
        if (found.end_index, found.end_bytes) != (limit.end_index, limit.end_bytes):
            reason = found.reason or "nothing is written there"
            raise StorageError(
                f"{name}: entry {found.end_index + 1}: {reason}, below entry {limit.end_index},"
                f" {limit.why}: {AGAIN}, or see what check says"
            )
        return found.first_index

    # ---- snapshots ----

    def _snapshots(self) -> Work[list[int]]:
        """Copy the snapshots of entries in the copy. Returns: their indexes, the newest first."""
        disk, limit = self._disk, self._limit
        source = SnapshotFolder(disk, self._ledger.layout.snapshot, ())
        target = SnapshotFolder(disk, self._layout.snapshot, ())
        copied = []
        for index in [each for each in source.indexes() if each <= limit.end_index]:
            try:
                yield from self._snapshot(source.snapshot(index), target)
            except FileNotFoundError:
                continue  # a newer snapshot has replaced it
            except SnapshotDamaged as error:
                if disk.exists(f"{source.root}/{folder_name(index)}"):
                    self._done.notes.append(f"{self._ledger.name}: not copied: {error}")
                continue
            copied.append(index)
        kept = [folder_name(index) for index in copied]
        for name in disk.listdir(target.root):
            if name not in kept and index_of(name.removesuffix(PART)) is not None:
                disk.rmtree(f"{target.root}/{name}")
        if copied:
            disk.sync_dir(target.root)
        return copied

    def _snapshot(self, snapshot: Snapshot, target: SnapshotFolder) -> Work[None]:
        disk, name = self._disk, folder_name(snapshot.index)
        folder, part = f"{target.root}/{name}", f"{target.root}/{name}{PART}"
        meta = _read_meta(disk, snapshot)
        if disk.exists(part):
            disk.rmtree(part)
        if disk.exists(folder):
            step = Step(f"{self._ledger.name}: compare {name}", 0, snapshot.size_bytes)
            if (yield from labelled(_is_copied(target, snapshot.index, meta), step)):
                self._done.reused_bytes += snapshot.size_bytes
                return
            disk.rmtree(folder)
        disk.mkdir(part)
        reader, copy = Reader.open(disk, snapshot), disk.open(f"{part}/{DATA}", "x")
        with closing(reader), closing(copy):
            for data in reader.chunks():
                copy.pwrite(data, reader.at_bytes - len(data))
                yield Step(f"{self._ledger.name}: {name}", reader.at_bytes, snapshot.size_bytes)
            copy.sync()
        write_synced(disk, f"{part}/{META}", meta)
        disk.rename(part, folder)
        disk.sync_dir(target.root)
        self._done.copied_bytes += snapshot.size_bytes


def _is_copied(folder: SnapshotFolder, index: int, meta: bytes) -> Generator[None, None, bool]:
    """Whether an interrupted run has copied this snapshot completely, and it still equals the
    source's.
    """
    try:
        copy = folder.snapshot(index)
        yield from folder.check(copy)
    except SnapshotDamaged:
        return False
    return _read_meta(folder.disk, copy) == meta


def _read_meta(disk: Disk, snapshot: Snapshot) -> bytes:
    return read_bytes(disk, f"{snapshot.path.rpartition('/')[0]}/{META}", META_BYTES_MAX)


def verify_ledger(
    disk: Disk, layout: LedgerLayout, ledger: BackedUpLedger, report: LedgerReport
) -> Work[None]:
    """Compare the check of a backup with its manifest, and report what only the manifest knows."""
    findings = report.findings
    for line in (yield from verify_group(disk, layout.commit_log, ledger.log)):
        findings.hurt(line)
    said = (ledger.first_index, ledger.end_index, ledger.snapshots)
    found = (report.first_index, report.end_index, tuple(report.snapshots))
    for what, wanted, here in zip(("first", "last", "snapshots"), said, found, strict=True):
        if wanted != here:
            findings.hurt(f"{layout.root}: {what}: the manifest says {wanted}, found {here}")
    report.term, report.voted_for = ledger.term, ledger.voted_for
    report.committed_index = ledger.committed_index
    findings.note(f"a copy: {USE}")
