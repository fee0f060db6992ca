"""What the audits said, as records and as the file `OUT/audit/verdicts.json`.

| Key | Type | Meaning |
|---|---|---|
| version | 1 | of this form |
| made_at_us | integer | when, by the clock of the machine that judged |
| audits | array of `Verdict` | in the order in which they were judged |
| open_boots | array of {node, boot} | boots without an end: killed, or not over; no fault |

Reading it needs no Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs
import msgspec

from actors.pipeline.errors import PipelineError
from actors.pipeline.locations import Location
from actors.readable import counted, readable

VERSION: Final = 1
FILE: Final = "audit/verdicts.json"
"""Below OUT."""
WITNESSES_MAX: Final = 20
"""Witnesses of one verdict: for people, who look into the tables for more."""

Severity: TypeAlias = Literal["error", "warning"]
Word: TypeAlias = Literal["held", "violated", "not_applicable"]
Witness: TypeAlias = Mapping[str, Any]
"""One finding: column -> integer, number, string, boolean, null, or an array of these."""


@attrs.frozen(kw_only=True)
class CheckedRange:
    """What was looked at of one boot of one node.

    Attributes:
        first_seq: of the first event that the claim is about.
        last_seq: of the last one.
        events: how many there are.
    """

    node: str
    boot: int
    first_seq: int
    last_seq: int
    events: int


@attrs.frozen(kw_only=True)
class CheckedLog:
    """What was looked at of one node's log of a group.

    Attributes:
        records: how many, of `size_bytes` in all.
        first, last: positions of the first record and of the last one: offsets, or a DLedger
            group's indexes.
    """

    group: str
    node: str
    records: int
    size_bytes: int
    first: int
    last: int


@attrs.frozen(kw_only=True)
class Checked:
    """What an audit looked at.

    Attributes:
        rows: events, or records of logs, that the claim is about: 0 means that it says nothing.
        ranges: by node and boot, rising; empty for an audit that looks at no events.
        logs: by group and node; empty for an audit that looks at no logs.
    """

    rows: int
    ranges: tuple[CheckedRange, ...] = ()
    logs: tuple[CheckedLog, ...] = ()


@attrs.frozen(kw_only=True)
class OpenBoot:
    """A boot without NodeStopped: its node was killed, or still runs."""

    node: str
    boot: int


@attrs.frozen(kw_only=True)
class Verdict:
    """What one audit says.

    Attributes:
        name: the audit's.
        claim: what it claims, in one sentence.
        severity: "error": a promise is broken; "warning": people should know.
        verdict: "not_applicable": there was nothing that the claim is about.
        findings: how many.
        witnesses: the first WITNESSES_MAX of them.
        note: what a reader has to know, for people; "" if nothing.
        seconds: that it took.
    """

    name: str
    claim: str
    severity: Severity
    verdict: Word
    findings: int
    witnesses: tuple[Witness, ...]
    checked: Checked
    note: str = ""
    seconds: float = 0.0

    @property
    def is_failure(self) -> bool:
        """A promise is broken."""
        return self.verdict == "violated" and self.severity == "error"


@attrs.frozen(kw_only=True)
class Verdicts:
    """All that one run of the audits said; see the module."""

    made_at_us: int
    audits: tuple[Verdict, ...]
    open_boots: tuple[OpenBoot, ...] = ()
    version: Literal[1] = VERSION

    @property
    def failures(self) -> tuple[Verdict, ...]:
        """Those of severity error that are violated."""
        return tuple(each for each in self.audits if each.is_failure)


def word_for(findings: int, rows: int) -> Word:
    """The verdict of an audit. A finding counts whatever was looked at, none only if something."""
    if findings:
        return "violated"
    return "held" if rows else "not_applicable"


def write(out: Location, verdicts: Verdicts) -> Location:
    """Replace the file; returns its place. Readers find the old one or the new one."""
    place = out / FILE
    place.write_json(as_dict(verdicts))
    return place


def as_dict(verdicts: Verdicts) -> dict[str, Any]:
    """As the file has them; see the module."""
    found: dict[str, Any] = msgspec.to_builtins(verdicts)
    return found


def forget(out: Location) -> None:
    """Remove the file: should the judging that begins fail, nobody may take the last one for it."""
    (out / FILE).remove()


def read(out: Location) -> Verdicts:
    """The last run's. Raises: PipelineError if there is none, or of another form."""
    place = out / FILE
    note = place.read_json()
    if note is None:
        raise PipelineError(f"{out}: no verdicts here; run the step `audit` first")
    if note.get("version") != VERSION:
        version = note.get("version")
        raise PipelineError(f"{place}: of version {version}; this program reads {VERSION}")
    try:
        return msgspec.convert(note, Verdicts)
    except msgspec.ValidationError as error:
        raise PipelineError(f"{place}: not verdicts: {error}") from error


def line_of(verdict: Verdict) -> str:
    """One line for people: `held     one_leader_per_term: 12 rows of 4 boots`."""
    found = f", {counted(verdict.findings, 'finding')}" if verdict.findings else ""
    what = "warning" if verdict.verdict == "violated" and not verdict.is_failure else ""
    word = what or verdict.verdict.replace("_", " ")
    return f"{word:<14} {verdict.name}: {looked_at(verdict)}{found}"


def looked_at(verdict: Verdict) -> str:
    """`12 rows of 4 boots`."""
    boots, logs = len(verdict.checked.ranges), len(verdict.checked.logs)
    of = f" of {counted(boots, 'boot')}" if boots else f" of {counted(logs, 'log')}" if logs else ""
    return f"{counted(verdict.checked.rows, 'row')}{of}"


def line_of_all(verdicts: Verdicts) -> str:
    """One line for people: which promises, those of severity error, held, and which none can say;
    and what else was found.

    `all 12 promises held; of 8 audits that can only warn, none does`; `1 of 12 promises is broken:
    NAME; 2 could not be judged: ...; of 8 audits that can only warn, 1 does: NAME`.
    """
    promises = [each for each in verdicts.audits if each.severity == "error"]
    unjudged = sum(each.verdict == "not_applicable" for each in promises)
    broken = verdicts.failures
    of = f"of {counted(len(promises), 'promise')}"
    if broken:
        names = ", ".join(each.name for each in broken)
        said = f"{len(broken)} {of} {'is' if len(broken) == 1 else 'are'} broken: {names}"
    elif not unjudged:
        said = f"all {counted(len(promises), 'promise')} held"
    else:
        said = f"{len(promises) - unjudged} {of} held"
    if unjudged:
        said += f"; {unjudged} could not be judged: nothing here tells of them"
    warned = [e.name for e in verdicts.audits if e.verdict == "violated" and not e.is_failure]
    if others := len(verdicts.audits) - len(promises):
        who = "none does" if not warned else f"{len(warned)} {'does' if len(warned) == 1 else 'do'}"
        said += f"; of {counted(others, 'audit')} that can only warn, {who}"
        said += f": {', '.join(warned)}" * bool(warned)
    return said


def witness_text(witness: Witness) -> str:
    """`node=n1, term=3`, for people; one line, whatever a log has for a name."""
    return readable(", ".join(f"{key}={_shown(value)}" for key, value in witness.items()))


def _shown(value: object) -> str:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return " ".join(str(each) for each in value)
    return str(value)
