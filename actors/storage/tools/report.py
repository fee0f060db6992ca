"""What the commands print, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from actors.config.command_line import columns
from actors.storage.files.stepping import Step
from actors.storage.kinds import by_key
from actors.storage.tools.commitlog.truncate import Plan
from actors.storage.tools.copying import BackedUp
from actors.storage.tools.findings import Report

MIB = 1 << 20
HEAD = ("group", "result", "state")


def check_lines(reports: Sequence[Report]) -> list[str]:
    """A table for each mode, one row per group, and below them what was found."""
    if not reports:
        return ["no groups"]
    lines: list[str] = []
    for of_mode in filter(None, by_key(reports).values()):
        rows = [(one.group, one.result, one.state, *one.row) for one in of_mode]
        lines += columns([(*HEAD, *of_mode[0].columns), *rows], left=len(HEAD))
    for report in reports:
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
    lines += [copied.line for copied in done.copies]
    reused = f", {_mib(done.reused_bytes)} were there already" if done.reused_bytes else ""
    lines.append(f"{folder}: whole, {_mib(done.copied_bytes)} copied{reused}")
    return lines


def backup_object(done: BackedUp, folder: str) -> dict[str, Any]:
    """What was copied, for machines; the manifest lists the files."""
    return {
        **{
            key: [_copy_object(each) for each in found]
            for key, found in by_key(done.copies).items()
        },
        "notes": done.notes,
        "copied_bytes": done.copied_bytes,
        "reused_bytes": done.reused_bytes,
        "path": folder,
    }


def _copy_object(copied: Any) -> dict[str, Any]:
    own = attrs.asdict(copied, recurse=False)
    own.pop("log", None)
    log = attrs.asdict(copied.log, recurse=False)
    return {**own, **log, "files": len(copied.log.files)}


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
