"""What the commands print, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from actors.config.command_line import columns
from actors.storage.tools.backup import BackedUp
from actors.storage.tools.findings import LedgerReport, Report, StoreReport
from actors.storage.tools.ledger_backup import USE
from actors.storage.tools.steps import Step
from actors.storage.tools.truncate import Plan

MIB = 1 << 20
COLUMNS = ("group", "result", "state", "files", "first", "end", "records", "synced", "dispatched",
           "units", "index entries")  # fmt: skip


LEDGER_COLUMNS = ("group", "result", "state", "files", "first", "end", "entries", "end term",
                  "committed", "term", "vote", "checksums", "snapshots")  # fmt: skip


def check_lines(reports: Sequence[StoreReport], ledgers: Sequence[LedgerReport] = ()) -> list[str]:
    """A table for each kind, one row per group, and below them what was found."""
    if not reports and not ledgers:
        return ["no groups"]
    lines = columns([COLUMNS, *map(_row, reports)], left=3) if reports else []
    if ledgers:
        lines += columns([LEDGER_COLUMNS, *map(_ledger_row, ledgers)], left=3)
    every: tuple[Report, ...] = (*reports, *ledgers)
    for report in every:
        findings = report.findings
        lines += [f"{report.group}: damage: {line}" for line in findings.damage]
        if findings.damage_count > len(findings.damage):
            lines.append(f"{report.group}: damage: {findings.damage_count} in all")
        lines += [f"{report.group}: mends: {line}" for line in findings.mends]
        if findings.mend_count > len(findings.mends):
            lines.append(f"{report.group}: mends: {findings.mend_count} in all")
        lines += [f"{report.group}: note: {line}" for line in findings.notes]
        if findings.note_count > len(findings.notes):
            lines.append(f"{report.group}: note: {findings.note_count} in all")
    return lines


def _ledger_row(report: LedgerReport) -> tuple[str, ...]:
    numbers = (
        report.files,
        report.first_index,
        report.end_index,
        report.entries,
        report.end_term,
        report.committed_index,
        report.term,
    )
    shown = ("-" if number < 0 else str(number) for number in numbers)
    vote, last = report.voted_for or "-", (str(report.summed), str(len(report.snapshots)))
    return (report.group, report.result, report.state, *shown, vote, *last)


def _row(report: StoreReport) -> tuple[str, ...]:
    numbers = (
        report.files,
        report.first_bytes,
        report.end_bytes,
        report.records,
        report.mark_bytes,
        report.dispatched_bytes,
        report.units,
        report.entries,
    )
    shown = ("-" if number is None else str(number) for number in numbers)
    return (report.group, report.result, report.state, *shown)


def plan_lines(plan: Plan, root: str) -> list[str]:
    """What a truncation would change."""
    lines = []
    if plan.unfinished is not None:
        lines.append(f"{plan.group}: ends the truncation to {plan.unfinished} that was interrupted")
    if plan.cut_bytes:
        lines.append(
            f"{plan.group}: the log will end at {plan.offset}: {plan.cut_bytes} bytes with "
            f"{plan.records} records are cut and kept in {root}/truncated/"
        )
        if plan.files:
            lines.append(f"{plan.group}: {plan.files} log files are deleted")
    else:
        lines.append(f"{plan.group}: nothing is behind {plan.offset}")
    if plan.lost is not None:
        lines.append(f"{plan.group}: {plan.lost}")
    elif plan.known_bytes is None and plan.cut_bytes:
        lines.append(f"{plan.group}: nobody says what of it was acknowledged")
    return lines


def backup_lines(done: BackedUp, folder: str) -> list[str]:
    """What was copied."""
    lines = list(done.notes)
    for group in done.groups:
        lines.append(
            f"{group.name}: {group.first_bytes} to {group.end_bytes} ({group.limit}),"
            f" {len(group.files)} files"
        )
    for ledger in done.ledgers:
        snapshots = f", {len(ledger.snapshots)} snapshots" if ledger.snapshots else ""
        lines.append(
            f"{ledger.name}: entries {ledger.first_index} to {ledger.end_index}"
            f" ({ledger.log.limit}), {len(ledger.log.files)} files{snapshots}; {USE}"
        )
    reused = f", {_mib(done.reused_bytes)} were there already" if done.reused_bytes else ""
    lines.append(f"{folder}: whole, {_mib(done.copied_bytes)} copied{reused}")
    return lines


def backup_object(done: BackedUp, folder: str) -> dict[str, Any]:
    """What was copied, for machines; the manifest lists the files."""
    groups, ledgers = [
        [{**attrs.asdict(one, recurse=False), "files": len(log.files)} for one, log in each]
        for each in (
            [(group, group) for group in done.groups],
            [(ledger, ledger.log) for ledger in done.ledgers],
        )
    ]
    for found in ledgers:
        log = attrs.asdict(found.pop("log"), recurse=False)
        found |= {**log, "files": found["files"]}
    return {
        **attrs.asdict(done, recurse=False),
        "path": folder,
        "groups": groups,
        "ledgers": ledgers,
    }


def step_line(step: Step, seconds: float, bytes_done: int) -> str:
    """One line of progress.

    Args:
        seconds: since the beginning.
        bytes_done: in that time.
    """
    speed = bytes_done / 1e6 / max(seconds, 0.001)
    of = f" of {_mib(step.total_bytes)}" if step.total_bytes else ""
    return f"{step.what}: {_mib(step.done_bytes)}{of}, {speed:.0f} MB/s"


def _mib(size: int) -> str:
    return f"{size / MIB:.1f} MiB"


def words(lines: Iterable[str]) -> str:
    """Lines as text."""
    return "".join(f"{line}\n" for line in lines)
