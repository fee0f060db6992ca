"""Opens the files of a DLedger store only to be read.

Nothing here makes, mends or removes a file, as a member's start would (`storage.ledger.opening`).
"""

from __future__ import annotations

import attrs

from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.files.side_file import SideFileDamaged
from actors.storage.files.stepping import Step, Work, labelled
from actors.storage.ledger import mark as marks
from actors.storage.ledger import recovery
from actors.storage.ledger.mark import MarkValues
from actors.storage.ledger.per_index import SUM_BYTES, PerIndexFiles, stored_sums, sums_file_bytes
from actors.storage.ledger.recovery import ScanResult
from actors.storage.ledger.settings import LedgerSettings
from actors.storage.log.commit_log import CommitLog, segment_bases
from actors.storage.log.log_reader import OffsetGone
from actors.storage.tools.stores import GroupLedger, log_bases, odd_in
from wire.dledger.entry import DATA_FILE_BYTES, INDEX_BYTES, INDEX_FILE_BYTES

COPY_AGAIN = "make another backup"
"""Advice for damage in a copy."""


@attrs.frozen(kw_only=True)
class LedgerFiles:
    """The open files of one store.

    Attributes:
        log: all data files, also those of wrong sizes.
        index, sums: the index and the checksums; no files if their sizes or names are wrong.
        odd, odd_sums: what is wrong with the files of index and checksums, one line each.
        mark: the synced mark; None: there is none, or it is ignored (`compat`).
    """

    log: CommitLog
    index: PerIndexFiles
    sums: PerIndexFiles
    odd: tuple[str, ...]
    odd_sums: tuple[str, ...]
    mark: MarkValues | None

    @classmethod
    def look(cls, disk: Disk, ledger: GroupLedger) -> LedgerFiles:
        """Open the files. Raises: CorruptLog: the mark cannot be read. OSError."""
        layout = ledger.layout
        index_bytes = ledger.index_file_bytes or INDEX_FILE_BYTES
        index_bases, odd = _usable(disk, layout.index, index_bytes)
        sums_bytes = sums_file_bytes(index_bytes) or SUM_BYTES
        sums_bases, odd_sums = _usable(disk, layout.sums, sums_bytes)
        mark = read_mark(disk, layout.synced)  # a start reads it, even if it ignores it
        size = ledger.segment_bytes or DATA_FILE_BYTES
        return cls(
            log=CommitLog.look(disk, layout.commit_log, size, list(log_bases(disk, ledger))),
            index=PerIndexFiles.look(disk, layout.index, index_bytes, INDEX_BYTES, index_bases),
            sums=PerIndexFiles.look(disk, layout.sums, sums_bytes, SUM_BYTES, sums_bases),
            odd=tuple(odd),
            odd_sums=tuple(odd_sums),
            mark=None if ledger.is_compat else mark,
        )

    @property
    def clean_end_bytes(self) -> int | None:
        """Where the log of a member that was stopped in order ends; None of another one."""
        return self.mark.end_bytes if self.mark is not None and self.mark.is_clean else None

    def close(self) -> None:
        """Close all files."""
        self.index.close(remove_spare=False)
        self.sums.close(remove_spare=False)


def _usable(disk: Disk, folder: str, file_bytes: int) -> tuple[list[int], list[str]]:
    """Return the files that a start would use, and what is wrong with them if it would use none."""
    bases = segment_bases(disk, folder)
    odd = odd_in(disk, folder, file_bytes, bases)
    return ([], odd) if odd else (bases, [])


def read_mark(disk: Disk, path: str) -> MarkValues | None:
    """Read the mark; None: there is none. Raises: CorruptLog: it cannot be read."""
    try:
        return marks.read_mark(disk, path)
    except SideFileDamaged:
        raise CorruptLog(f"{path}: the synced mark cannot be read: a start is refused") from None


def known_records(files: PerIndexFiles, index: int, count: int) -> bytes:
    """Return the index records of `count` entries; fewer if some are missing or have expired."""
    try:
        return files.read(index, count)
    except OffsetGone:
        return b""


def known_sums(files: PerIndexFiles, index: int, count: int) -> bytes:
    """Return the checksum records of `count` entries; zeros if there are none."""
    try:
        return stored_sums(files, index, count)
    except OffsetGone:
        return bytes(count * SUM_BYTES)


def find_end(disk: Disk, ledger: GroupLedger, files: LedgerFiles) -> Work[ScanResult]:
    """Find what the next start would find. Raises: CorruptLog: it would be refused."""
    finding = recovery.find_at_start(
        disk,
        files.log,
        was=files.mark,
        sums=files.sums,
        checkpoint=ledger.layout.checkpoint,
        cuts_committed=ledger.is_compat,
    )
    return (yield from labelled(finding, Step(f"{ledger.name}: the log's end", 0, 0)))


def settings_of(ledger: GroupLedger) -> LedgerSettings:
    """Make the settings that a reader of these files needs."""
    return LedgerSettings(
        data_file_bytes=ledger.segment_bytes or DATA_FILE_BYTES,
        index_file_bytes=ledger.index_file_bytes or INDEX_FILE_BYTES,
    )
