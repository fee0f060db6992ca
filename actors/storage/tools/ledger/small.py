"""Checks of what lies beside a DLedger member's log: term and vote, checkpoint, snapshots."""

from __future__ import annotations

from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.files.stepping import Step, Work, labelled
from actors.storage.files.whole_files import read_bytes
from actors.storage.ledger.layout import LedgerLayout
from actors.storage.ledger.mark import MarkValues
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
    STRANGER,
    read_term,
)
from actors.storage.tools.findings import Findings, LedgerReport
from actors.storage.tools.stores import GroupLedger
from wire.dledger.files import decode_ledger_checkpoint
from wire.errors import RemoteProtocolError


def read_committed(disk: Disk, layout: LedgerLayout, findings: Findings) -> int:
    """The committed index as the checkpoint says it; -1 if it says none."""
    if not disk.exists(layout.checkpoint):
        return -1
    try:
        data = read_bytes(disk, layout.checkpoint, FILE_BYTES_MAX)
        return decode_ledger_checkpoint(data).committed_index
    except RemoteProtocolError as error:
        findings.mend(
            f"{layout.checkpoint}: {error}; a start takes nothing for committed until its leader"
            " says what is: remove it at will"
        )
        return -1


def check_term(
    disk: Disk, ledger: GroupLedger, report: LedgerReport, mark: MarkValues | None
) -> None:
    """Term and vote, beside the log's last term."""
    path, findings = ledger.layout.term, report.findings
    try:
        vote = read_term(disk, path, unsynced=ledger.is_compat)
    except CorruptLog as error:
        findings.hurt(str(error))
        return
    if vote is None:
        if mark is not None and report.entries:
            findings.hurt(f"{path}: {NO_VOTE}; {NO_VOTE_DO}")
        elif ledger.had_vote and not report.entries and not ledger.is_compat:
            findings.hurt(f"{path}: {NOTHING_LEFT}; {NOTHING_LEFT_DO}")
        else:
            findings.note(f"{path}: there is none: a start begins without a vote")
        return
    report.term, report.voted_for = vote.term, vote.voted_for
    if not disk.exists(path):
        findings.note(f"{path}: there is none, but what a broken off write has left of it")
    if vote.voted_for and ledger.members and vote.voted_for not in ledger.members:
        findings.note(f"{path}: term {vote.term}, vote for {vote.voted_for}: {STRANGER}")
    if vote.term < report.end_term:
        text = f"{path}: term {vote.term}, but the last entry is of term {report.end_term}"
        if not ledger.is_compat:
            findings.hurt(f"{text}: it has forgotten votes; {NEW_VOTE}")
        else:
            findings.note(text)


def check_snapshots(
    disk: Disk,
    ledger: GroupLedger,
    report: LedgerReport,
    terms: dict[int, int],
    limit: int | None,
    do: str,
) -> Work[None]:
    """Each of them, and whether the log goes on where they end.

    Args:
        terms: index -> term of entries of the log.
        limit: of a running member: so far its log was looked at.
        do: what is to be done where none serves.
    """
    folder = SnapshotFolder(disk, ledger.layout.snapshot, ())
    findings, damaged = report.findings, []
    indexes = folder.indexes()
    for index in indexes:
        try:
            snapshot = folder.snapshot(index)
            step = Step(f"{ledger.name}: snapshot {index}", 0, snapshot.size_bytes)
            yield from labelled(folder.check(snapshot), step)
        except FileNotFoundError:
            continue  # a running member has pruned it
        except SnapshotDamaged as error:
            damaged.append(str(error))
        else:
            report.snapshots.append(index)
            _compare(snapshot, report, terms, limit, do)
    newest = max(report.snapshots, default=-1)
    is_covered = report.first_index <= newest + 1
    for text in damaged:
        do = "an older one serves: remove its folder at will" if is_covered else do
        findings.hurt(f"{text}; {do}")
    if indexes and not damaged and not is_covered:
        findings.hurt(
            f"{folder.root}: the newest stands for entries up to {newest}, but the"
            f" log begins at {report.first_index}; {do}"
        )
    for name in (TAKEN, INSTALLED):
        if limit is None and disk.exists(f"{folder.root}/{name}"):
            findings.note(f"{folder.root}/{name}: was never finished: the next start removes it")


def _compare(
    snapshot: Snapshot, report: LedgerReport, terms: dict[int, int], limit: int | None, do: str
) -> None:
    """Beside the entry that it ends with."""
    term = terms.get(snapshot.index)
    if term is not None and term != snapshot.term:
        report.findings.hurt(
            f"{snapshot.path}: ends with entry {snapshot.index} of term {snapshot.term}, which is"
            f" of term {term} in the log; {do}"
        )
    if limit is None and report.entries and snapshot.index > report.end_index:
        report.findings.note(
            f"{snapshot.path}: stands for entries up to {snapshot.index}, the log ends at"
            f" {report.end_index}"
        )
