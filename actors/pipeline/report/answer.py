"""What a reader wants to know first, in sentences: was anything lost, who was behind, who waited.

Nothing acknowledged was lost. n2 was up to 9.4 MB of orders behind, 12:32 to 12:35.
Writes stood still 7 times, the longest 19.6 s. Incomplete: n2 before 12:32.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from actors.pipeline.report.facts import OUTAGE_US, Facts, Line, OutageCount
from actors.pipeline.report.time_axis import US, shown
from actors.pipeline.verdicts import Verdicts
from actors.readable import counted, readable

LOSSES: Final = frozenset(
    {
        "acknowledged_readable",
        "nothing_acknowledged_cut",
        "nothing_acknowledged_lost",
        "nothing_committed_removed",
    }
)
"""The audits whose findings are a loss of acknowledged data."""
_ABSENT: Final = "every_node_has_a_log"
"""The audit whose findings are nodes without any events."""
_BEHIND_MIN: Final = {"bytes": 1_000_000, "entries": 1_000}
"""By unit: a follower that lacks less is not mentioned, as this is usual while writes go on."""
_BEHIND_SHARE: Final = 0.05
"""A follower has caught up once it lacks no more than this share of its worst lag."""
_GROUPS_MAX: Final = 3
_SECONDS_US: Final = 180 * US
"""Shorter times are written with their seconds."""


@attrs.frozen
class Sentence:
    """One sentence of the answer.

    Attributes:
        kind: the kind of the verdict that it tells: "held", "violated", "warning" or
            "not_applicable"; "" if it tells none of these.
    """

    text: str
    kind: str = ""


def answer(facts: Facts) -> tuple[Sentence, ...]:
    """Return the sentences of the answer, the most important one first."""
    found = [*_lost(facts), *_incomplete(facts), *_behind(facts), *_waited(facts)]
    return tuple(attrs.evolve(each, text=readable(each.text)) for each in found)


def _lost(facts: Facts) -> Iterable[Sentence]:
    verdicts = facts.verdicts
    if not facts.is_judged:
        yield Sentence("Whether anything acknowledged was lost is being judged.", "not_applicable")
        return
    if not verdicts.audits:
        yield Sentence("No audit was made.", "not_applicable")
        return
    lost = [each.name for each in verdicts.failures if each.name in LOSSES]
    words = {each.verdict for each in verdicts.audits if each.name in LOSSES}
    if lost:
        yield Sentence(f"What was acknowledged is missing: {', '.join(lost)}.", "violated")
    elif "held" in words:
        yield Sentence("Nothing acknowledged was lost.", "held")
    else:
        yield Sentence("Nothing here tells whether anything was lost.", "not_applicable")
    broken = [each.name for each in verdicts.failures if each.name not in LOSSES]
    if broken:
        are = counted(len(broken), "promise is", "promises are")
        yield Sentence(f"{are} broken: {', '.join(broken)}.", "violated")
    warned = [e.name for e in verdicts.audits if e.verdict == "violated" and not e.is_failure]
    if warned:
        yield Sentence(f"{counted(len(warned), 'warning')}: {', '.join(warned)}.", "warning")


def incomplete(facts: Facts) -> list[str]:
    """Return which node's events are missing and for when: "n2 before 12:32", or only "n3"."""
    found = []
    for each in facts.missing:
        if each.before_us is not None:
            found.append(f"{each.node} before {_moment(each.before_us)}")
        if each.after_us is not None:
            found.append(f"{each.node} after {_moment(each.after_us)}")
    return [*found, *absent(facts.verdicts)]


def absent(verdicts: Verdicts) -> list[str]:
    """Return the nodes without any events, as far as the audit's witnesses name them."""
    return [
        str(witness.get("node"))
        for each in verdicts.audits
        if each.name == _ABSENT
        for witness in each.witnesses
    ]


def _incomplete(facts: Facts) -> Iterable[Sentence]:
    found = incomplete(facts)
    if found:
        yield Sentence(f"Incomplete, as events are missing: {', '.join(found)}.", "warning")
    for group, times in facts.unknown.items():
        when = ", ".join(_span(begin, end) for begin, end in times[:_GROUPS_MAX])
        more = ", ..." if len(times) > _GROUPS_MAX else ""
        yield Sentence(f"What {group} did is not known {when}{more}.", "warning")


def _behind(facts: Facts) -> Iterable[Sentence]:
    worst = {}
    for line in sorted(facts.lag, key=lambda each: each.worst):
        worst[line.group] = line
    lines = [each for each in worst.values() if each.worst >= _BEHIND_MIN.get(each.unit, 1)]
    for line in sorted(lines, key=lambda each: each.group)[:_GROUPS_MAX]:
        amount = f"{line.worst:,.0f} {line.unit}"
        if line.unit == "bytes":
            amount = f"{line.worst / 1e6:,.1f} MB"
        yield Sentence(
            f"{line.name} was up to {amount} of {line.group} behind, {_span(*_around(line))}."
        )
    if facts.lag and not lines:
        yield Sentence("No follower was far behind.")


def _around(line: Line) -> tuple[int, int]:
    """Return when a follower began and ceased to lack much, around the moment of its worst lag."""
    points = line.points
    at = max(range(len(points)), key=lambda number: points[number][1] or 0.0)
    first = last = at
    while first > 0 and _is_much(points[first - 1][1], line):
        first -= 1
    while last + 1 < len(points) and _is_much(points[last][1], line):
        last += 1
    return points[first][0], points[last][0]


def _is_much(value: float | None, line: Line) -> bool:
    return value is not None and value > _BEHIND_SHARE * line.worst


def _waited(facts: Facts) -> Iterable[Sentence]:
    counts = facts.all_outages.get("", OutageCount())
    if not facts.throughput and not counts.total:
        return
    stood = f"{counted(counts.outages, 'time')} for {OUTAGE_US // US} s or longer"
    pauses = f", {counted(counts.pauses, 'time')} for less" * bool(counts.pauses)
    longest = f", the longest {counts.worst_us / 1e6:,.1f} s" * bool(counts.worst_us)
    yield Sentence(f"Writes stood still {stood}{pauses}{longest}.")


def _span(begin_us: int, end_us: int) -> str:
    form = "%H:%M:%S" if end_us - begin_us < _SECONDS_US else "%H:%M"
    day = "%Y-%m-%d "
    is_one_day = shown(begin_us, day) == shown(end_us, day)
    return f"{shown(begin_us, form)} to {shown(end_us, form if is_one_day else day + form)}"


def _moment(us: int) -> str:
    return shown(us, "%H:%M")
