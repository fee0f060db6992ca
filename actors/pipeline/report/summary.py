"""What the page says, for programs: `--json`.

| Key | Meaning |
|---|---|
| version | 1, of this form |
| data, tables, report | where they are |
| failed | an audit of severity error found something |
| verdicts | as in `audit/verdicts.json`, see `actors.pipeline.verdicts` |
| summary | the numbers: see below |

`answer`: the sentences with which the page begins, as {text, kind}; kind is a verdict's, or "".

`summary`: events; events_outside, of the time that is drawn; nodes; boots; killed and gave_up, of
these; first_us, last_us; groups, of those that have pictures: see `_group`; hidden, a sentence for
each list, here or on the page, that was cut; incomplete, of which node which events are missing;
unknown, by group from when to when (microseconds since 1970) nothing is known of it.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from actors.pipeline.report import cells
from actors.pipeline.report.answer import answer, incomplete
from actors.pipeline.report.facts import Facts, OutageCount
from actors.pipeline.verdicts import as_dict

VERSION: Final = 1


def summary(facts: Facts, report: str) -> dict[str, Any]:
    """Return what the page says as a value for JSON.

    Args:
        report: the path of the page.
    """
    axis = facts.axis
    return {
        "version": VERSION,
        "data": facts.data,
        "tables": facts.tables_at,
        "report": report,
        "failed": bool(facts.verdicts.failures),
        "verdicts": as_dict(facts.verdicts),
        "answer": [attrs.asdict(each) for each in answer(facts)],
        "summary": {
            "events": facts.events,
            "events_outside": facts.outside,
            "nodes": list(facts.processes.nodes),
            "boots": facts.processes.boots,
            "killed": facts.processes.killed,
            "gave_up": facts.processes.gave_up,
            "first_us": axis.stretches[0].first_us if axis else None,
            "last_us": axis.stretches[-1].last_us if axis else None,
            "hidden": list(facts.hidden),
            "incomplete": incomplete(facts),
            "unknown": {group: [list(each) for each in t] for group, t in facts.unknown.items()},
            "groups": {group: _group(facts, group) for group in facts.groups},
        },
    }


def _group(facts: Facts, group: str) -> dict[str, Any]:
    """Return what the page tells about a group, by key.

    `acknowledged`, `mean_per_s` and `highest_per_s` count records or entries, as `unit` says;
    `highest_per_s` is the mean of some seconds, as in the curve. `writes` and `records` count
    those whose answers were timed, and are null for a DLedger group; `waits_ms` has how long they
    waited, by percentile and at worst. `lag_worst` is by follower. Times without an answer are
    counted as `outages` (an append waited for a second or longer), `pauses` (it waited for less)
    and `silences` (no append is known to have waited); `outage_worst_s` is the longest of the
    first two kinds.
    """
    rates = [row for row in cells.rates(facts) if row["group"] == group]
    waits = {row["group"]: dict(row) for row in cells.waits(facts.waits)}.get(group, {})
    counted = {name: waits.pop(name, None) for name in ("group", "writes", "records")}
    minded = facts.all_outages.get(group, OutageCount())
    return {
        **{key: value for row in rates for key, value in row.items() if key != "group"},
        "writes": counted["writes"],
        "records": counted["records"],
        "waits_ms": waits,
        "lag_worst": {each.name: each.worst for each in facts.lag if each.group == group},
        "outages": minded.outages,
        "pauses": minded.pauses,
        "outage_worst_s": minded.worst_us / 1e6,
        "silences": minded.silences,
    }
