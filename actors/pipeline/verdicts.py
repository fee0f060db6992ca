"""The verdicts of the audits, as records and as the file `OUT/audit/verdicts.json`.

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
"""The path of the file below OUT."""
WITNESSES_MAX: Final = 20
"""How many witnesses one verdict has; the tables have all of them."""

Severity: TypeAlias = Literal["error", "warning"]
Word: TypeAlias = Literal["held", "violated", "not_applicable"]
Witness: TypeAlias = Mapping[str, Any]
"""One finding: by column, an integer, number, string, boolean, null, or an array of these."""


@attrs.frozen(kw_only=True)
class CheckedRange:
    """The part of one boot of one node that was checked.

    Attributes:
        first_seq, last_seq: those of the first and the last event that the claim is about.
        events: how many such events there are.
    """

    node: str
    boot: int
    first_seq: int
    last_seq: int
    events: int


@attrs.frozen(kw_only=True)
class CheckedLog:
    """The part of one node's log of a group that was checked.

    Attributes:
        records: the number of records, of `size_bytes` in all.
        first, last: the positions of the first and the last record: offsets, or a DLedger group's
            indexes.
    """

    group: str
    node: str
    records: int
    size_bytes: int
    first: int
    last: int


@attrs.frozen(kw_only=True)
class Checked:
    """What an audit has checked.

    Attributes:
        rows: the number of events, or records of logs, that the claim is about; with 0 nothing was
            judged.
        ranges: ordered by node and boot; empty for an audit that checks no events.
        logs: ordered by group and node; empty for an audit that checks no logs.
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
    """The verdict of one audit.

    Attributes:
        name: the audit's name.
        claim: the claim, in one sentence.
        severity: "error" if a finding is a broken promise, "warning" if people should know of it.
        verdict: "not_applicable" if there was nothing that the claim is about.
        findings: the number of findings.
        witnesses: the first WITNESSES_MAX of them.
        note: what a reader has to know, for people; "" for nothing.
        seconds: how long the audit took.
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
        """Whether a promise is broken."""
        return self.verdict == "violated" and self.severity == "error"


@attrs.frozen(kw_only=True)
class Verdicts:
    """All verdicts of one run of the audits; see the module's text."""

    made_at_us: int
    audits: tuple[Verdict, ...]
    open_boots: tuple[OpenBoot, ...] = ()
    version: Literal[1] = VERSION

    @property
    def failures(self) -> tuple[Verdict, ...]:
        """The verdicts of severity error that are violated."""
        return tuple(each for each in self.audits if each.is_failure)


def word_for(findings: int, rows: int) -> Word:
    """Return the verdict of an audit. A claim without findings held only if rows were checked."""
    if findings:
        return "violated"
    return "held" if rows else "not_applicable"


def write(out: Location, verdicts: Verdicts) -> Location:
    """Replace the file, and return its place. Readers find the old one or the new one."""
    place = out / FILE
    place.write_json(as_dict(verdicts))
    return place


def as_dict(verdicts: Verdicts) -> dict[str, Any]:
    """Return the verdicts as in the file; see the module's text."""
    found: dict[str, Any] = msgspec.to_builtins(verdicts)
    return found


def forget(out: Location) -> None:
    """Remove the file, so that it is not taken for the result of a run that begins and may fail."""
    (out / FILE).remove()


def read(out: Location) -> Verdicts:
    """Read the last run's verdicts. Raises: PipelineError: there are none, or of another form."""
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
    """Describe a verdict in one line: `held     one_leader_per_term: 12 rows of 4 boots`."""
    found = f", {counted(verdict.findings, 'finding')}" if verdict.findings else ""
    what = "warning" if verdict.verdict == "violated" and not verdict.is_failure else ""
    word = what or verdict.verdict.replace("_", " ")
    return f"{word:<14} {verdict.name}: {looked_at(verdict)}{found}"


def looked_at(verdict: Verdict) -> str:
    """Describe how much was checked: `12 rows of 4 boots`."""
    boots, logs = len(verdict.checked.ranges), len(verdict.checked.logs)
    of = f" of {counted(boots, 'boot')}" if boots else f" of {counted(logs, 'log')}" if logs else ""
    return f"{counted(verdict.checked.rows, 'row')}{of}"


def line_of_all(verdicts: Verdicts) -> str:
    """Describe all verdicts in one line: which promises held, and which audits warn.

    Promises are the claims of severity error. Examples: `all 12 promises held; of 8 audits that can
    only warn, none does`; `1 of 12 promises is broken: NAME; 1 could not be judged, as nothing
    here tells of them: NAME; of 8 audits that can only warn, 1 does: NAME`.
    """
    promises = [each for each in verdicts.audits if each.severity == "error"]
    unjudged = [each.name for each in promises if each.verdict == "not_applicable"]
    broken = verdicts.failures
    of = f"of {counted(len(promises), 'promise')}"
    if broken:
        names = ", ".join(each.name for each in broken)
        said = f"{len(broken)} {of} {'is' if len(broken) == 1 else 'are'} broken: {names}"
    elif not unjudged:
        said = f"all {counted(len(promises), 'promise')} held"
    else:
        said = f"{len(promises) - len(unjudged)} {of} held"
    if unjudged:
        said += f"; {len(unjudged)} could not be judged, as nothing here tells of them"
        said += f": {', '.join(unjudged)}"
    warned = [e.name for e in verdicts.audits if e.verdict == "violated" and not e.is_failure]
    if others := len(verdicts.audits) - len(promises):
        who = "none does" if not warned else f"{len(warned)} {'does' if len(warned) == 1 else 'do'}"
        said += f"; of {counted(others, 'audit')} that can only warn, {who}"
        said += f": {', '.join(warned)}" * bool(warned)
    return said


def witness_text(witness: Witness) -> str:
    """Describe a witness for people, as `node=n1, term=3`, in one readable line."""
    return readable(", ".join(f"{key}={_shown(value)}" for key, value in witness.items()))


def _shown(value: object) -> str:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return " ".join(str(each) for each in value)
    return str(value)
