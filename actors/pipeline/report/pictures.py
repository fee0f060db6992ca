"""The pictures, one function each: facts -> a picture, or None where there is nothing to draw."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator

from actors.pipeline.report import drawing
from actors.pipeline.report.drawing import Picture, Sheet, picture, short, waited
from actors.pipeline.report.facts import OUTAGE_US, Facts, Line, Outage, Waits
from actors.pipeline.report.time_axis import TimeAxis
from actors.pipeline.report.timeline import timeline
from actors.readable import readable

PANEL_PX = 130
_RANKS_SHOWN = (0.0, 0.5, 0.9, 0.99, 0.999)


def pictures(facts: Facts) -> tuple[Picture, ...]:
    """Draw all pictures for which there are facts, in the order of the page."""
    found = (timeline(facts), throughput(facts), lag(facts), latency(facts), latency_by_time(facts))
    return tuple(each for each in found if each)


def throughput(facts: Facts) -> Picture | None:
    """Draw what each group acknowledged per second, and the times without an answer."""
    axis = facts.axis
    if axis is None or not facts.throughput:
        return None

    shown = (*_OUTAGE_KEYS, *[_UNKNOWN_KEY] * bool(facts.unknown))

    def draw(sheet: Sheet) -> None:
        panels = sheet.rows([PANEL_PX] * len(facts.throughput), [shown])
        for panel, line in zip(panels, facts.throughput, strict=True):
            _curve(panel, axis, line, 0)
            keys = sheet.legend(panel, shown) if panel is panels[0] else 0
            sheet.numbers(panel, f"{drawing.name(line.group)}: {line.unit}/s", keys)
            for outage in facts.outages:
                if outage.group == line.group:
                    _shade(sheet, panel, axis, outage)
            _hatch(sheet, panel, axis, facts.unknown.get(line.group, ()))
            sheet.over_time(panel, axis, labelled=panel is panels[-1])

    says = "; ".join(
        f"{line.group}: up to {short(line.worst)} {line.unit}/s" for line in facts.throughput
    )
    return picture("throughput", "Acknowledged in each second", says, draw)


_OUTAGE_KEYS = (
    Patch(facecolor=drawing.BAD, alpha=0.3, label="outage"),
    Patch(facecolor=drawing.BAD, alpha=0.12, label=f"pause below {OUTAGE_US / 1e6:g} s"),
    Patch(
        fill=False, edgecolor=drawing.FAINT, hatch="////", label="nobody is known to have waited"
    ),
)


def _shade(sheet: Sheet, panel: Axes, axis: TimeAxis, outage: Outage) -> None:
    looks: dict[str, Any] = (
        {
            "facecolor": drawing.BAD,
            "alpha": 0.3 if outage.kind == "outage" else 0.12,
            "linewidth": 0,
        }
        if outage.witnessed
        else {"fill": False, "edgecolor": drawing.FAINT, "hatch": "////", "linewidth": 0}
    )
    who = f"{outage.from_node} → {outage.until_node}"
    for begin, end in axis.spans(outage.from_us, outage.until_us):
        least = axis.width_s / sheet.width_px
        gid = sheet.tip(readable(f"{outage.group}: {outage.took_s:.3g} s without an answer, {who}"))
        panel.axvspan(begin, max(end, begin + least), gid=gid, **looks)


_UNKNOWN: dict[str, Any] = {
    "fill": False,
    "edgecolor": drawing.FAINT,
    "hatch": "\\\\..",
    "linewidth": 0,
}
_UNKNOWN_KEY = Patch(**{**_UNKNOWN, "linewidth": 1}, label="unknown: events are missing")


def _hatch(sheet: Sheet, panel: Axes, axis: TimeAxis, unknown: Iterable[tuple[int, int]]) -> None:
    """Mark times of which nothing is known, so that no gap of a curve is taken for a 0."""
    for first_us, last_us in unknown:
        gid = sheet.tip("unknown: the events of whoever led then are missing")
        for begin, end in axis.spans(first_us, last_us):
            panel.axvspan(begin, end, gid=gid, **_UNKNOWN)


def lag(facts: Facts) -> Picture | None:
    """Draw how far behind each follower was, with a panel for each group."""
    axis = facts.axis
    if axis is None or not facts.lag:
        return None
    groups = [(group, list(lines)) for group, lines in groupby(facts.lag, lambda each: each.group)]
    keys_of = {
        group: [
            *_keys(drawing.name(line.name) for line in lines),
            *[_UNKNOWN_KEY] * bool(facts.unknown.get(group)),
        ]
        for group, lines in groups
    }

    def draw(sheet: Sheet) -> None:
        panels = sheet.rows([PANEL_PX] * len(groups), list(keys_of.values()))
        for panel, (group, lines) in zip(panels, groups, strict=True):
            for number, line in enumerate(lines):
                _curve(panel, axis, line, number)
            _hatch(sheet, panel, axis, facts.unknown.get(group, ()))
            keys = sheet.legend(panel, keys_of[group])
            sheet.numbers(panel, f"{drawing.name(group)}: {lines[0].unit} behind", keys)
            sheet.over_time(panel, axis, labelled=panel is panels[-1])

    worst = max(facts.lag, key=lambda each: each.worst)
    says = f"at worst {worst.name} of {worst.group}, by {short(worst.worst)} {worst.unit}"
    return picture("lag", "How far behind each follower was", says, draw)


def latency(facts: Facts) -> Picture | None:
    """Draw which share of all writes waited how long, on scales that show the worst in detail."""
    if not facts.waits:
        return None

    def draw(sheet: Sheet) -> None:
        (panel,) = sheet.rows([PANEL_PX * 1.6])
        for number, waits in enumerate(facts.waits):
            _ranks(panel, waits, number)
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: waited(value)))
        panel.yaxis.set_minor_locator(NullLocator())
        keys = sheet.legend(panel, _keys(drawing.name(waits.group) for waits in facts.waits))
        sheet.title(panel, "waited", keys)
        ranks = _RANKS_SHOWN[1:] if sheet.is_narrow else _RANKS_SHOWN
        panel.set_xticks([_nines(rank) for rank in ranks], [f"{100 * rank:g} %" for rank in ranks])
        panel.set_xlabel("so many writes waited no longer")

    says = "; ".join(
        f"{waits.group}: half of the writes within {waited(_at(waits, 0.5))}, "
        f"99 % within {waited(_at(waits, 0.99))}"
        for waits in facts.waits
    )
    return picture("latency", "How long writes waited for their answer", says, draw)


def latency_by_time(facts: Facts) -> Picture | None:
    """Draw the median and the 99th percentile of waits over time, if there are enough minutes."""
    axis, lines = facts.axis, facts.waits_by_time
    known = (sum(value is not None for _, value in line.points) for line in lines)
    if axis is None or max(known, default=0) < MINUTES_MIN:
        return None
    groups = [(group, list(found)) for group, found in groupby(lines, lambda each: each.group)]

    def draw(sheet: Sheet) -> None:
        panels = sheet.rows([PANEL_PX] * len(groups))
        for panel, (group, found) in zip(panels, groups, strict=True):
            for number, line in enumerate(found):
                _curve(panel, axis, line, number)
            keys = sheet.legend(panel, _keys(line.name for line in found))
            sheet.numbers(panel, f"{drawing.name(group)}: milliseconds", keys)
            sheet.over_time(panel, axis, labelled=panel is panels[-1])

    worst = max(lines, key=lambda each: each.worst)
    says = f"at worst {waited(worst.worst)} ({worst.name}) of {worst.group}"
    return picture("latency-by-time", "The same by time", says, draw)


MINUTES_MIN = 3
"""The least points of a curve of waits by minute; with fewer it is not drawn."""


def _ranks(panel: Axes, waits: Waits, number: int) -> None:
    least_ms = 0.001  # what a logarithm can show
    panel.plot(
        [_nines(rank) for rank, _ in waits.by_rank],
        [max(ms, least_ms) for _, ms in waits.by_rank],
        **_looks(number),
    )


def _nines(rank: float) -> float:
    """Return a rank's place on a scale that is wide for the worst: 1 for 0.9, 2 for 0.99."""
    return -math.log10(1 - rank)


def _at(waits: Waits, rank: float) -> float:
    return dict(waits.by_rank)[rank]


def _curve(panel: Axes, axis: TimeAxis, line: Line, number: int) -> None:
    """Draw a line's values as steps: each value holds until the next one, and None is a gap. No
    step crosses a gap of the axis.
    """
    for start, each in zip(axis.starts, axis.stretches, strict=True):
        inside = [(us, value) for us, value in line.points if each.first_us <= us < each.last_us]
        if not inside:
            continue
        end = start + (each.last_us - each.first_us) / 1e6
        places = [start + (us - each.first_us) / 1e6 for us, _ in inside]
        values = [math.nan if value is None else value for _, value in inside]
        panel.plot([*places, end], [*values, values[-1]], drawstyle="steps-post", **_looks(number))


def _looks(number: int) -> dict[str, Any]:
    dashes = drawing.DASHES[number % len(drawing.DASHES)]
    return {"color": drawing.SERIES[number % len(drawing.SERIES)], "linestyle": dashes}


def _keys(names: Iterable[str]) -> list[Line2D]:
    return [Line2D([], [], label=name, **_looks(number)) for number, name in enumerate(names)]
