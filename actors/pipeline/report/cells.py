"""Facts and verdicts as text and table cells, for the page."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from actors.pipeline.gold.latency import RANK_ERROR
from actors.pipeline.gold.outages import LIMIT_US
from actors.pipeline.report.facts import (
    OUTAGE_US,
    Boot,
    Facts,
    Line,
    Outage,
    OutageCount,
    RoleSpan,
    Wait,
    Waits,
)
from actors.pipeline.report.time_axis import shown
from actors.pipeline.verdicts import Verdict, Verdicts
from actors.readable import counted, readable

CELL_MAX = 300
"""The most characters in a cell."""
RANKS = (0.5, 0.9, 0.99, 0.999)

Shown: TypeAlias = Callable[[str, Any], str]
Row: TypeAlias = Mapping[str, Any]

_SIGNS = {
    "violated": ("✗", "violated"),
    "warning": ("!", "warning"),
    "held": ("✓", "held"),
    "not_applicable": ("–", "not applicable"),
}
_MOMENTS = ("from_us", "until_us", "first_us", "last_us")
_MINUTES = ("minute",)
_UNITS = {"us": "s", "s": "s", "bytes": "bytes", "ms": "ms"}


def kind_of(verdict: Verdict) -> str:
    """Return a verdict's word; "warning" for a violated claim whose severity is a warning."""
    if verdict.verdict == "violated" and not verdict.is_failure:
        return "warning"
    return verdict.verdict


def said(verdict: Verdict) -> tuple[str, str, str]:
    """Return a verdict's sign, its word for people, and its kind."""
    kind = kind_of(verdict)
    return (*_SIGNS[kind], kind)


def how_bad(verdict: Verdict) -> int:
    """Return a number to sort verdicts by: the worst kind has the lowest."""
    return list(_SIGNS).index(kind_of(verdict))


def outcome(verdicts: Verdicts) -> str:
    """Describe all verdicts in one line: how many there are of each kind."""
    if not verdicts.audits:
        return "No audit was made"
    counts = Counter(kind_of(each) for each in verdicts.audits)
    parts = [
        f"{sign} {counts[kind]} {word}" for kind, (sign, word) in _SIGNS.items() if counts[kind]
    ]
    return ", ".join(parts)


def course(facts: Facts) -> str:
    """Describe in one line how many processes were killed and how many gave up."""
    counts = facts.processes
    if not counts.boots:
        return ""
    gave_up = f", {counts.gave_up:,} gave up" if counts.gave_up else ""
    killed = f"{counts.killed:,}" if counts.killed else "none"
    return f"{killed} of {counted(counts.boots, 'process', 'processes')} killed{gave_up}"


def worst(verdicts: Verdicts) -> str:
    """Return the worst kind among the verdicts, or "" if there are none."""
    return min((kind_of(each) for each in verdicts.audits), key=list(_SIGNS).index, default="")


def name_of(data: str) -> str:
    return posixpath.basename(data.rstrip("/")) or data


def heading(column: str) -> str:
    """Return the heading of a column: "took, s" of `took_us`, "mean per s" of `mean_per_s`.

    Columns of moments have no unit in their heading.
    """
    if column in _MOMENTS:
        return column.removesuffix("_us")
    if column.endswith("_per_s"):
        return column.replace("_", " ")
    name, _, unit = column.rpartition("_")
    if name and unit in _UNITS:
        return f"{name.replace('_', ' ')}, {_UNITS[unit]}"
    return column.replace("_", " ")


def plain_heading(column: str) -> str:
    """Return the heading of a column of `plain` values: "most, µs" of `most_us`."""
    name, _, unit = column.rpartition("_")
    return f"{name.replace('_', ' ')}, µs" if name and unit == "us" else heading(column)


def cell(column: str, value: Any) -> str:
    """Return the text for a value of a table that the pipeline made."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column in _MOMENTS:
        return shown(value)
    if column in _MINUTES:
        return shown(value * 60_000_000, "%Y-%m-%d %H:%M")
    if column.endswith("_us"):
        return f"{value / 1e6:,.3f}"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}" if column not in ("boot", "term", "number") else str(value)
    return readable(str(value), CELL_MAX)


def plain(column: str, value: Any) -> str:
    """Return the text for a value of a witness, as it is in the log, so that it is found there."""
    del column
    if isinstance(value, list | tuple):
        return readable(" ".join(str(each) for each in value), CELL_MAX)
    return "–" if value is None else readable(str(value), CELL_MAX)


def roles(spans: Iterable[RoleSpan]) -> list[Row]:
    return [attrs.asdict(each) for each in spans]


def followers(lines: Iterable[Line]) -> list[Row]:
    return [
        {
            "group": each.group,
            "follower": each.name,
            "worst": each.worst,
            "last": each.last,
            "unit": each.unit,
        }
        for each in lines
    ]


def rates(facts: Facts) -> list[Row]:
    """Return a row about each group's throughput within the time that the pictures show."""
    found: list[Row] = []
    for each in facts.throughput:
        active_s = _known_s(facts, each.group)
        total = sum(value or 0.0 for _, value in each.points) * facts.bucket_s
        found.append(
            {
                "group": each.group,
                "acknowledged": round(total),
                "mean_per_s": total / active_s if active_s else 0.0,
                "highest_per_s": each.worst,
                "unit": each.unit,
            }
        )
    return found


def _known_s(facts: Facts, group: str) -> float:
    """Return for how many seconds of the time that is drawn the group's state is known."""
    if facts.axis is None:
        return 0.0
    unknown = (facts.axis.spans(*each) for each in facts.unknown.get(group, ()))
    return facts.axis.active_s - sum(b - a for spans in unknown for a, b in spans)


def waits(groups: Iterable[Waits]) -> list[Row]:
    found: list[Row] = []
    for each in groups:
        by_rank = dict(each.by_rank)
        found.append(
            {
                "group": each.group,
                "writes": each.writes,
                "records": each.records,
                **{f"{100 * rank:g} %": by_rank[rank] for rank in RANKS},
                "worst": each.worst_ms,
            }
        )
    return found


def outages(found: Iterable[Outage]) -> list[Row]:
    return [
        {
            "group": each.group,
            "from_us": each.from_us,
            "took_s": each.took_s,
            "last answer by": each.from_node,
            "next answer by": each.until_node,
            "timed_out": each.timed_out,
        }
        for each in found
    ]


def outages_shown(kind: Wait, listed: int, counts: OutageCount) -> str:
    """Describe which times without an answer a table has, and how many more there are.

    Only what is longer than `gold.outages.LIMIT_US` is known at all.
    """
    longest = f"{OUTAGE_US / 1e6:g} s"
    least = f"{LIMIT_US / 1e6:g} s"
    what, count = {
        "outage": (f"Outages: somebody waited for {longest} or longer", counts.outages),
        "pause": (f"Short pauses: somebody waited for {least} to {longest}", counts.pauses),
        "silence": (
            f"Silences: for more than {least} no answer, and nobody is known to have waited",
            counts.silences,
        ),
    }[kind]
    more = f"; {count - listed:,} more, none of them longer" if count > listed else ""
    return f"{what}; {listed:,} of {count:,}, the longest first{more}" if count else what


def processes(boots: Iterable[Boot]) -> list[Row]:
    return [
        {
            "node": each.node,
            "boot": each.boot,
            "its end": end_of(each),
            "first_us": each.first_us,
            "last_us": each.last_us,
            "events": each.events,
        }
        for each in boots
    ]


def end_of(boot: Boot) -> str:
    reason = readable(boot.stop_reason or "no reason given", CELL_MAX)
    return {
        "stopped": "it stopped in order",
        "gave up": f"it gave up: {reason}",
        "open": "none yet: it runs, or was killed",
        "killed": "it was killed",
    }[boot.end]


def notes(facts: Facts) -> Sequence[str]:
    """Return the sentences that a reader needs in order to read the page correctly."""
    found = [
        f"A point of a curve stands for {facts.bucket_s:,} s: of lag the worst, of throughput the "
        "mean. Latency is by minute at the finest.",
        "The audits compare no clocks of two nodes. Pictures and outages set events of several "
        "nodes side by side, and are as exact as their clocks agree.",
        f"Percentiles come from sketches, exact to {100 * RANK_ERROR:g} % of all writes: what "
        "stands for 99.9 % lies between 99.7 % and the worst.",
        f"Everything is in tables, as Parquet: {facts.tables_at}",
    ]
    if facts.axis is None:
        found = ["The data directory has no events.", found[-1]]
    if facts.outside:
        found.append(
            f"{counted(facts.outside, 'event lies', 'events lie')} outside of the time that is "
            "drawn: a clock that was "
            "set, or more stretches of time than are shown."
        )
    return [*found, *facts.hidden]
