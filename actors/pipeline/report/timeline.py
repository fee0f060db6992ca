"""The timeline: a row for each node, first its processes, then its role in each group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from actors.pipeline.report import cells, drawing
from actors.pipeline.report.drawing import Picture, Sheet, picture
from actors.pipeline.report.facts import NODES_MAX, Boot, Facts, RoleSpan, Turn
from actors.pipeline.report.time_axis import TimeAxis, shown
from actors.readable import counted

ROW_PX = 26
_LETTER_PX = 8
_LEAST_PX = 1.5
"""The least width of an interval, so that the shortest one is visible."""


@attrs.frozen
class Look:
    """How a role is drawn: its colour, the part of its row that it fills, and lines across."""

    color: str
    height: float
    hatch: str = ""
    filled: bool = True


_LEADS, _FOLLOWS = drawing.SERIES[0], drawing.SERIES[1]
LOOKS: Final = {
    "leader": Look(_LEADS, 0.84),
    "master": Look(_LEADS, 0.84),
    "follower": Look(_FOLLOWS, 0.34),
    "slave": Look(_FOLLOWS, 0.34),
    "candidate": Look(drawing.SERIES[2], 0.6, "////", filled=False),
    "fenced": Look(drawing.BAD, 0.84, "xxxx", filled=False),
    "alone": Look(drawing.BAD, 0.14),
}
"""The look of each of `gold.roles.ROLES`. Looks that differ in colour also differ in height or in
their lines."""
_ENDS: Final = {
    "killed": ("X", "killed"),
    "gave up": ("s", "gave up"),
    "open": (">", "no end: runs, or was killed"),
}
"""The marks of processes and their words, by `facts.End`."""
_KEYS: Final = {
    "leads (term)": LOOKS["leader"],
    "follows": LOOKS["follower"],
    "candidate": LOOKS["candidate"],
    "fenced": LOOKS["fenced"],
    "on its own": LOOKS["alone"],
}


TURNS: Final = {
    "set grows": ("^", drawing.FAINT),
    "set shrinks": ("v", drawing.BAD),
    "log cut": ("|", drawing.BAD),
    "lease ends": ("x", drawing.BAD),
    "role not taken": ("X", drawing.BAD),
}
"""The mark of each of `gold.turns.TURNS`, and its colour."""


def timeline(facts: Facts) -> Picture | None:
    """Draw the timeline, or return None if there are no events."""
    axis = facts.axis
    if axis is None:
        return None
    nodes = facts.processes.nodes[:NODES_MAX]
    groups = tuple(dict.fromkeys(each.group for each in facts.roles))

    def draw(sheet: Sheet) -> None:
        panels = sheet.rows([ROW_PX * len(nodes)] * (1 + len(groups)))
        for panel in panels:
            panel.grid(visible=False)
            sheet.over_time(panel, axis, labelled=panel is panels[-1])
        _processes(sheet, panels[0], axis, nodes, facts.boots)
        for number, (panel, group) in enumerate(zip(panels[1:], groups, strict=True)):
            spans = [each for each in facts.roles if each.group == group]
            _roles(sheet, panel, axis, nodes, spans)
            turns = [each for each in facts.turns if each.group == group and each.node in nodes]
            marks = _turns(sheet, panel, axis, nodes, turns)
            looks = [] if number else [_key(*each) for each in _KEYS.items()]
            keys = sheet.legend(panel, [*looks, *marks]) if looks or marks else 0
            sheet.title(panel, drawing.name(group), keys)

    processes = facts.processes
    says = (
        f"{counted(processes.boots, 'process', 'processes')} of "
        f"{counted(len(processes.nodes), 'node')}, "
        f"{processes.killed:,} of them killed, "
        f"{processes.gave_up:,} gave up; "
        + (
            "; ".join(
                f"{group}: {counted(facts.led.get(group, 0), 'time')} a new one led"
                for group in groups
            )
        )
    )
    return picture("timeline", "Processes, roles and terms", says, draw)


def _processes(
    sheet: Sheet, panel: Axes, axis: TimeAxis, nodes: Sequence[str], boots: Sequence[Boot]
) -> None:
    _rows(panel, nodes)
    for boot in boots:
        if boot.node not in nodes:
            continue
        row = nodes.index(boot.node)
        when = _when(boot.first_us, boot.last_us)
        tip = f"{boot.node}, boot {boot.boot}, {when}: {cells.end_of(boot)}"
        spans = axis.spans(boot.first_us, boot.last_us)
        for begin, until in spans:
            _bar(sheet, panel, (begin, until), row, Look(drawing.FAINT, 0.4), tip)
        if spans and boot.end != "stopped":
            mark = _ENDS[boot.end][0]
            panel.plot([spans[-1][1]], [row], mark, color=drawing.BAD, markersize=8, clip_on=False)
    keys = [
        Line2D([], [], linestyle="", marker=mark, color=drawing.BAD, markersize=8, label=text)
        for mark, text in _ENDS.values()
    ]
    sheet.title(panel, "processes", sheet.legend(panel, keys))


def _roles(
    sheet: Sheet, panel: Axes, axis: TimeAxis, nodes: Sequence[str], spans: Sequence[RoleSpan]
) -> None:
    _rows(panel, nodes)
    px_per_s = sheet.width_px / axis.width_s
    for each in spans:
        look = LOOKS.get(each.role)
        if look is None or each.node not in nodes:
            continue
        row = nodes.index(each.node)
        number = "" if each.number is None else str(each.number)
        what = f"{each.role} {number}".strip()
        tip = f"{each.group}, {each.node}: {what}, {_when(each.from_us, each.until_us)}"
        for begin, until in axis.spans(each.from_us, each.until_us):
            _bar(sheet, panel, (begin, until), row, look, tip)
            room = (until - begin) * px_per_s
            if look.color == _LEADS and number and room > _LETTER_PX * (len(number) + 1):
                panel.text(
                    *((begin + until) / 2, row, number),
                    ha="center",
                    va="center_baseline",
                    color=drawing.PAPER,
                    fontsize=11,
                )


def _turns(
    sheet: Sheet, panel: Axes, axis: TimeAxis, nodes: Sequence[str], turns: Sequence[Turn]
) -> list[Line2D]:
    """Draw the marks below their nodes' rows' middles. Returns: what they mean, for a legend."""
    for each in turns:
        if each.what not in TURNS:
            continue
        mark, color = TURNS[each.what]
        for at, _ in axis.spans(each.at_us, each.at_us):
            row = nodes.index(each.node) + 0.3
            (drawn,) = panel.plot([at], [row], mark, color=color, markersize=6, clip_on=False)
            if not sheet.is_narrow:
                tip = f"{each.group}, {each.node}: {each.what}, {each.detail}"
                drawn.set_gid(sheet.tip(f"{tip}, {shown(each.at_us, '%H:%M:%S')}"))
    found = {each.what for each in turns}
    return [
        Line2D([], [], linestyle="", marker=mark, color=color, markersize=6, label=what)
        for what, (mark, color) in TURNS.items()
        if what in found
    ]


def _rows(panel: Axes, nodes: Sequence[str]) -> None:
    panel.set_ylim(len(nodes) - 0.5, -0.5)
    panel.set_yticks(range(len(nodes)), [drawing.name(node) for node in nodes])
    panel.tick_params(axis="y", length=0)


def _bar(
    sheet: Sheet, panel: Axes, span: tuple[float, float], row: int, look: Look, tip: str
) -> None:
    begin, until = span
    least = _LEAST_PX * panel.get_xlim()[1] / sheet.width_px
    bar = Rectangle(
        (begin, row - look.height / 2),
        max(until - begin, least),
        look.height,
        facecolor=look.color if look.filled else "none",
        edgecolor=drawing.PAPER if look.filled else look.color,
        hatch=look.hatch or None,
        linewidth=0.7,
    )
    if not sheet.is_narrow:  # nobody points at things on a telephone
        bar.set_gid(sheet.tip(tip))
    panel.add_patch(bar)


def _key(text: str, look: Look) -> Patch:
    return Patch(
        facecolor=look.color if look.filled else "none",
        edgecolor=look.color,
        hatch=look.hatch or None,
        label=text,
    )


def _when(first_us: int, last_us: int) -> str:
    return f"{shown(first_us, '%H:%M:%S')} to {shown(last_us, '%H:%M:%S')}"
