"""Times of which nothing can be known, as the events of a node are missing.

| What is missing | How it is seen | What is unknown then |
|---|---|---|
| events of a leader or master | others follow it | its group's throughput and lag |
| events of a node up to some moment, or from then on | others name it then | what that node did |

A log may be missing as its disk was lost or emptied, or as it was not copied; a Java member never
has one. Clocks of several nodes are compared, so what is shorter than GRACE_US is no such time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import attrs

from actors.pipeline.report.facts import Boot, Line, MissingLog, RoleSpan

GRACE_US: Final = 30_000_000
"""The least microseconds of an unknown time. Followers keep following a killed leader for some
seconds, and clocks differ."""
Interval: TypeAlias = tuple[int, int]
"""The first and the last moment of a time, in microseconds since 1970."""


def unknown_times(
    spans: Iterable[RoleSpan], boots: Iterable[Boot]
) -> dict[str, tuple[Interval, ...]]:
    """Return by group, in rising order, when a node followed a leader whose events are missing.

    Args:
        spans: the roles of all members.
        boots: all boots that have events.
    """
    logged = _logged(boots)
    unsaid: dict[str, list[Interval]] = {}
    led: dict[str, list[Interval]] = {}
    for span in spans:
        time = span.from_us, span.until_us
        if span.role in ("leader", "master"):
            led.setdefault(span.group, []).append(time)
        elif span.leader:
            unsaid.setdefault(span.group, []).extend(_without(time, logged.get(span.leader, ())))
    found = {}
    for group, parts in unsaid.items():
        left = [each for part in _merged(parts) for each in _without(part, led.get(group, ()))]
        long = tuple(each for each in left if each[1] - each[0] >= GRACE_US)
        if long:
            found[group] = long
    return found


def missing_logs(boots: Iterable[Boot], named: Mapping[str, Interval]) -> tuple[MissingLog, ...]:
    """Return the nodes whose logs lack events at the beginning or at the end, by name.

    Args:
        boots: all boots that have events.
        named: by node, when others named it first and last.
    """
    found = []
    logged = _logged(boots)
    for node, (first_us, last_us) in sorted(named.items()):
        if node not in logged:
            continue
        begin_us, end_us = logged[node][0][0], logged[node][-1][1] - GRACE_US
        before = begin_us if first_us < begin_us - GRACE_US else None
        after = end_us if last_us > end_us + GRACE_US else None
        if before is not None or after is not None:
            found.append(MissingLog(node=node, before_us=before, after_us=after))
    return tuple(found)


def masked(line: Line, unknown: Sequence[Interval]) -> Line:
    """Return a curve without its points in these times: it is interrupted there."""
    points = [each for each in line.points if not any(a <= each[0] < b for a, b in unknown)]
    if not points or not unknown:
        return attrs.evolve(line, points=tuple(points))
    breaks: list[tuple[int, float | None]] = [(a, None) for a, _ in unknown if a > points[0][0]]
    return attrs.evolve(line, points=tuple(sorted([*points, *breaks], key=lambda each: each[0])))


def _logged(boots: Iterable[Boot]) -> dict[str, list[Interval]]:
    """Return by node, in rising order, the times that its events cover, each with GRACE_US more.

    The time between a boot and the next one is covered as well: the node did not run.
    """
    by_node: dict[str, list[Boot]] = {}
    for boot in boots:
        by_node.setdefault(boot.node, []).append(boot)
    found = {}
    for node, own in by_node.items():
        own.sort(key=lambda each: each.first_us)
        ends = [
            max(one.last_us + GRACE_US, two.first_us if two.boot == one.boot + 1 else 0)
            for one, two in pairwise(own)
        ]
        ends.append(own[-1].last_us + GRACE_US)
        found[node] = _merged(zip((each.first_us for each in own), ends, strict=True))
    return found


def _merged(parts: Iterable[Interval]) -> list[Interval]:
    """Return the same times in rising order, with those joined that touch each other."""
    found: list[Interval] = []
    for begin, end in sorted(parts):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def _without(part: Interval, others: Iterable[Interval]) -> list[Interval]:
    """Return the parts of a time that are in none of the others."""
    begin, end = part
    found: list[Interval] = []
    for first, last in _merged(others):
        if last <= begin or first >= end:
            continue
        if first > begin:
            found.append((begin, first))
        begin = max(begin, last)
    return [*found, (begin, end)] if begin < end else found
