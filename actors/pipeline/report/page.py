"""The page: one file, no script, and a policy that forbids it to load anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from typing import Any, get_args

import attrs

from actors.pipeline.report import cells
from actors.pipeline.report.answer import answer
from actors.pipeline.report.drawing import Picture
from actors.pipeline.report.facts import ROWS_MAX, Facts, OutageCount, Table, Wait
from actors.pipeline.report.html import Html, element, joined
from actors.pipeline.report.pictures import pictures
from actors.pipeline.report.time_axis import shown
from actors.pipeline.verdicts import Verdict, looked_at
from actors.readable import counted

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""A browser that keeps to it loads nothing and runs nothing, whatever an event log contains."""
SPANS_SHOWN_MAX = 200
_ABOUT = {
    "found": "What audits found",
    "timeline": "Roles and terms",
    "throughput": "Throughput and outages",
    "lag": "Lag",
    "latency": "Latency",
    "restarts": "Restarts",
    "more": "Pressure and bytes sent again",
    "audits": "Audits",
    "notes": "How to read this",
}


def page(facts: Facts, drawn: Sequence[Picture] | None = None) -> str:
    """Return the whole page as HTML.

    Args:
        drawn: the pictures, or None to draw them here.
    """
    shown_as = {each.name: each for each in (pictures(facts) if drawn is None else drawn)}
    style = files("actors.pipeline.report").joinpath("style.css").read_text()
    title = f"Replication of {cells.name_of(facts.data)}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", Html(style)),
    )
    sections = {**_found(facts), **_sections(facts, shown_as)}
    links = [(name, _ABOUT[name]) for name in sections]
    body = element(
        "body",
        element("a", "To the verdicts", class_="skip", href="#audits"),
        _header(facts, title, links),
        element("main", *sections.values()),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _header(facts: Facts, title: str, links: Sequence[tuple[str, str]]) -> Html:
    made = f"{'judged' if facts.is_judged else 'seen'} {shown(facts.verdicts.made_at_us)}"
    processes = facts.processes
    count = (
        f"{counted(facts.events, 'event')} of {counted(processes.boots, 'boot')} "
        f"of {counted(len(processes.nodes), 'node')}"
    )
    when = ""
    if facts.axis is not None:
        first, last = facts.axis.stretches[0].first_us, facts.axis.stretches[-1].last_us
        when = f", {shown(first)} to {shown(last)} UTC"
    items = [element("li", element("a", text, href=f"#{name}")) for name, text in links]
    return element(
        "header",
        element("h1", title),
        element("p", element("code", facts.data), class_="faint"),
        element("p", f"{count}{when}; {made} UTC", class_="faint"),
        _answer(facts),
        element("p", cells.course(facts)),
        element(
            "p",
            cells.outcome(facts.verdicts) if facts.is_judged else "The verdicts follow.",
            class_=f"sum {cells.worst(facts.verdicts)}".strip(),
        ),
        element("nav", element("ul", *items), aria_label="Sections"),
    )


def _answer(facts: Facts) -> Html:
    said = [element("p", each.text, class_=each.kind or False) for each in answer(facts)]
    return element("div", *said, class_="answer")


def _section(name: str, *inside: Html | str) -> Html:
    title = element("h2", _ABOUT[name], id=f"{name}-head")
    return element("section", title, *inside, id=name, aria_labelledby=f"{name}-head")


def _found(facts: Facts) -> dict[str, Html]:
    """Return the section of violated audits, which comes before all pictures, if there are any."""
    found = [each for each in facts.verdicts.audits if each.verdict == "violated"]
    found.sort(key=cells.how_bad)
    return {"found": _section("found", *map(_audit, found))} if found else {}


def _audits(facts: Facts) -> Html:
    """Return the section of all audits by kind; those that held or did not apply are folded."""
    audits = sorted(facts.verdicts.audits, key=cells.how_bad)
    if not audits:
        return element("p", "No audit was made." if facts.is_judged else "The verdicts follow.")
    parts: list[Html] = []
    for kind, each in groupby(audits, cells.kind_of):
        found = list(each)
        sign, word, _ = cells.said(found[0])
        if kind in ("held", "not_applicable"):
            rows = sum(verdict.checked.rows for verdict in found)
            looked = f", {counted(rows, 'row')} looked at" if rows else ""
            parts.append(_folded(f"{sign} {len(found)} {word}{looked}", joined(map(_audit, found))))
        else:
            names = ", ".join(verdict.name for verdict in found)
            parts.append(
                element("p", f"{sign} {len(found)} {word}: ", element("a", names, href="#found"))
            )
    return joined(parts)


def _audit(verdict: Verdict) -> Html:
    sign, word, kind = cells.said(verdict)
    looked = f"Looked at: {looked_at(verdict)}. It took {verdict.seconds:.1f} s."
    parts = [
        element("h3", element("span", f"{sign} {word}", class_="word"), f" {verdict.name}"),
        element("p", verdict.claim),
        element("p", looked, class_="faint"),
    ]
    if verdict.note:
        parts.append(element("p", verdict.note, class_="faint"))
    if verdict.witnesses:
        title = f"{len(verdict.witnesses):,} of {counted(verdict.findings, 'finding')}"
        parts.append(_open(title, _rows(title, verdict.witnesses, cells.plain, is_titled=True)))
    if verdict.checked.ranges:
        ranges = verdict.checked.ranges[:ROWS_MAX]
        shown_ranges = [attrs.asdict(each) for each in ranges]
        title = (
            f"what was looked at, {len(ranges)} of {counted(len(verdict.checked.ranges), 'boot')}"
        )
        parts.append(_folded(title, _rows(title, shown_ranges, cells.plain, is_titled=True)))
    return element("article", *parts, class_=f"audit {kind}")


def _sections(facts: Facts, drawn: Mapping[str, Picture]) -> dict[str, Html]:
    tables = {each.name: each for each in facts.tables}
    spans = facts.roles[:SPANS_SHOWN_MAX]
    roles = f"{len(spans):,} of {counted(facts.roles_count, 'interval')}"
    rates = f"each group's rates; highest is the mean of its best {facts.bucket_s:,} s"
    curves = {
        name: _folded(title, _rows(title, rows, cells.cell, is_titled=True))
        for name, title, rows in (
            ("timeline", roles, cells.roles(spans)),
            ("lag", "each follower's worst lag and last one", cells.followers(facts.lag)),
            ("throughput", rates, cells.rates(facts)),
        )
    }
    inside: dict[str, list[Html]] = {
        "timeline": [
            *_drawn(drawn, "timeline"),
            curves["timeline"],
            _table(tables, "elections", "Elections that were won"),
            _table(tables, "failovers", "Without a leader or master, as each node saw it"),
            _table(tables, "turns", "Sync state sets, cuts and leases of auto-switch groups"),
        ],
        "throughput": [*_drawn(drawn, "throughput"), curves["throughput"], _outages(facts)],
        "lag": [*_drawn(drawn, "lag"), curves["lag"]],
        "latency": [*_drawn(drawn, "latency", "latency-by-time"), _latency(facts)],
        "restarts": [
            _processes(facts),
            _table(tables, "restarts", "Actors that crashed, were restarted or killed"),
        ],
        "more": [
            _table(tables, "pressure", "Where more came than was worked off"),
            _table(tables, "resent", "Bytes that each slave received, and again"),
        ],
        "audits": [_audits(facts)],
        "notes": [element("ul", *(element("li", each) for each in cells.notes(facts)))],
    }
    if facts.axis is None:
        inside = {name: inside[name] for name in ("audits", "notes")}
    return {name: _section(name, *parts) for name, parts in inside.items()}


def _drawn(drawn: Mapping[str, Picture], *names: str) -> Iterable[Html]:
    found = [drawn[name] for name in names if name in drawn]
    for each in found:
        yield element(
            "figure",
            element("figcaption", each.title),
            element("div", each.wide, class_="wide"),
            element("div", each.narrow, class_="narrow"),
        )
    if not found:
        yield element("p", "There is nothing to draw.", class_="faint")


def _latency(facts: Facts) -> Html:
    note = "DLedger groups are missing: their events do not tell when an entry was written."
    title = "writes, the records in them, and so many milliseconds until their answer"
    return joined([_rows(title, cells.waits(facts.waits), cells.cell), element("p", note)])


def _outages(facts: Facts) -> Html:
    """Return a table of times without an answer for each kind, the longest first.

    The kinds have separate tables, so that many short pauses do not hide an outage.
    """
    counts = facts.all_outages.get("", OutageCount())
    parts = [element("h3", "Times without an answer")]
    for kind in get_args(Wait):
        found = [each for each in facts.outages if each.kind == kind]
        rows = cells.outages(sorted(found, key=lambda each: -each.took_s)[:ROWS_MAX])
        title = cells.outages_shown(kind, len(rows), counts)
        if kind == "outage":
            parts.append(element("p", title, class_="title"))
            parts.append(_rows(title, rows, cells.cell, is_titled=True))
        elif rows:
            parts.append(_folded(title, _rows(title, rows, cells.cell, is_titled=True)))
    return joined(parts)


def _processes(facts: Facts) -> Html:
    ended = [each for each in facts.boots if each.end != "stopped"]
    head = element("h3", "Processes without an end in order")
    if not ended and facts.processes.unended:
        return joined(
            [head, element("p", f"None of those listed, {facts.processes.unended:,} older.")]
        )
    rows = cells.processes(ended[-ROWS_MAX:])
    title = f"the {len(rows)} newest of {facts.processes.unended:,}"
    return joined([head, _rows(title, rows, cells.cell)])


def _table(tables: Mapping[str, Table], name: str, title: str) -> Html:
    table = tables.get(name)
    rows = table.rows if table else ()
    count = f"{len(rows):,} of {counted(table.count, 'row')}" if table and rows else ""
    return joined([element("h3", title), _rows(count, rows, cells.cell)])


def _rows(
    title: str, rows: Sequence[Mapping[str, Any]], shown_as: cells.Shown, is_titled: bool = False
) -> Html:
    """Return a table that scrolls on its own where it is too wide, with the keyboard as well.

    Args:
        is_titled: whether the title is on the page already. Otherwise it is put above the table,
            where it does not scroll.
    """
    if not rows:
        return element("p", "None.", class_="faint")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    numbers = {
        name
        for name in columns
        if all(isinstance(row.get(name), int | float | None) for row in rows)
    }
    heading = cells.plain_heading if shown_as is cells.plain else cells.heading
    head = [
        element("th", heading(name), scope="col", class_="number" if name in numbers else "")
        for name in columns
    ]
    body = [
        element(
            "tr",
            *(
                element(
                    "td",
                    shown_as(name, row.get(name)),
                    class_="number" if name in numbers else False,
                )
                for name in columns
            ),
        )
        for row in rows
    ]
    table = element(
        "table",
        element("thead", element("tr", *head)),
        element("tbody", *body),
    )
    scroll = element("div", table, class_="scroll", tabindex="0", role="region", aria_label=title)
    return scroll if is_titled else joined([element("p", title, class_="title"), scroll])


def _folded(title: str, inside: Html) -> Html:
    return element("details", element("summary", title), inside)


def _open(title: str, inside: Html) -> Html:
    return element("details", element("summary", title), inside, open=True)
