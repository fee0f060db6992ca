"""Facts by hand, as a minute of two groups leaves them, one node killed in each half."""

from __future__ import annotations

import math
from typing import Any

import attrs

from actors.pipeline.report.curves import RANKS
from actors.pipeline.report.facts import (
    Boot,
    Facts,
    Line,
    Outage,
    OutageCount,
    RoleSpan,
    Table,
    Waits,
    process_counts,
)
from actors.pipeline.report.time_axis import US, Stretch, TimeAxis
from actors.pipeline.verdicts import Checked, CheckedRange, Verdict, Verdicts, Word

START_US = 1_800_000_000 * US


def at(second: float) -> int:
    return START_US + int(second * US)


def verdict(name: str, word: Word = "held", **more: Any) -> Verdict:
    looked = CheckedRange(node="n0", boot=1, first_seq=1, last_seq=900, events=1_234)
    rows = 0 if word == "not_applicable" else 1_234
    given = {
        "claim": f"What {name} claims, in one sentence.",
        "severity": "error",
        "verdict": word,
        "findings": len(more.get("witnesses", ())),
        "witnesses": (),
        "checked": Checked(rows=rows, ranges=(looked,) if rows else ()),
        "seconds": 0.25,
        **more,
    }
    return Verdict(name=name, **given)


def line(group: str, name: str, unit: str, *values: float) -> Line:
    points = tuple((at(second), value) for second, value in enumerate(values))
    return Line(group=group, name=name, unit=unit, points=points)


def facts(**changed: Any) -> Facts:
    """A page's worth; `changed` replaces fields."""
    names = ("n0", "n1", "n2")
    boots = [boot(name, 1, 0, 60, stop_reason="ordered") for name in names[:1]]
    boots += [boot("n1", 1, 0, 20), boot("n1", 2, 23, 60, stop_reason="ordered")]
    boots += [boot("n2", 1, 0, 40), boot("n2", 2, 44, 60, is_last=True)]
    wave = [4000 + 500 * math.sin(second / 3) for second in range(60)]
    given = Facts(
        data="/srv/demo",
        tables_at="/srv/report.tables",
        verdicts=Verdicts(
            made_at_us=at(100),
            audits=(
                verdict("one_leader_per_term"),
                verdict("acknowledged_survives", "violated", witnesses=({"node": "n1", "seq": 7},)),
                verdict("nothing_dropped", "violated", severity="warning"),
                verdict("snapshots_rise", "not_applicable", note="No snapshot was saved."),
            ),
        ),
        axis=TimeAxis((Stretch(at(0), at(60)),)),
        events=123_456,
        outside=0,
        boots=tuple(boots),
        processes=process_counts(boots),
        roles=tuple(roles()),
        roles_count=len(roles()),
        led={"ledger": 1, "orders": 0},
        lag=(
            line("ledger", "n0", "entries", *[0] * 60),
            line("ledger", "n1", "entries", *[3] * 20, *range(0, 90_000, 30_000), *[5] * 37),
            line("orders", "n1", "bytes", *[900] * 20, *range(0, 9 << 20, 3 << 20), *[800] * 37),
            line("orders", "n2", "bytes", *[700] * 40, *range(0, 12 << 20, 3 << 20), *[900] * 16),
        ),
        throughput=(
            line("ledger", "", "entries", *wave),
            line("orders", "", "records", *wave[:40], *[0] * 4, *wave[44:]),
        ),
        outages=(
            outage("orders", 40, 44),
            attrs.evolve(outage("ledger", 10, 10.2), witnessed=False),
        ),
        all_outages={
            "": OutageCount(outages=1, silences=1, worst_us=4 * US),
            "ledger": OutageCount(silences=1),
            "orders": OutageCount(outages=1, worst_us=4 * US),
        },
        waits=(waits("orders", 1.0), waits("books", 3.0)),
        waits_by_time=(),
        tables=(
            Table(
                name="restarts",
                columns=("node", "path", "crashes", "last_error", "last_us"),
                rows=(
                    {
                        "node": "n1",
                        "path": "/n1/orders/dispatcher",
                        "crashes": 2,
                        "last_error": "OSError: no room",
                        "last_us": at(12),
                    },
                ),
                count=1,
            ),
        ),
    )
    if "boots" in changed:
        changed.setdefault("processes", process_counts(changed["boots"]))
    return attrs.evolve(given, **changed)


def boot(node: str, number: int, first: float, last: float, **more: Any) -> Boot:
    given = {"stop_reason": None, "is_last": False, **more}
    return Boot(node=node, boot=number, first_us=at(first), last_us=at(last), events=9, **given)


def roles() -> list[RoleSpan]:
    return [
        span("ledger", "n0", "follower", 0, 20, 1),
        span("ledger", "n1", "leader", 0, 20, 1),
        span("ledger", "n2", "follower", 0, 20, 1),
        span("ledger", "n0", "candidate", 20, 22, 2),
        span("ledger", "n0", "leader", 22, 60, 2),
        span("ledger", "n1", "follower", 24, 60, 2),
        span("ledger", "n2", "follower", 22, 40, 2),
        span("ledger", "n2", "follower", 45, 60, 2),
        span("orders", "n0", "master", 0, 40, 0),
        span("orders", "n0", "fenced", 40, 44, None),
        span("orders", "n0", "master", 44, 60, 0),
        span("orders", "n1", "slave", 0, 20, 0),
        span("orders", "n1", "alone", 23, 25, None),
        span("orders", "n1", "slave", 25, 60, 0),
        span("orders", "n2", "slave", 0, 40, 0),
    ]


def span(
    group: str, node: str, role: str, begin: float, end: float, number: int | None
) -> RoleSpan:
    leads = role in ("leader", "master")
    return RoleSpan(
        group=group,
        node=node,
        boot=1,
        role=role,
        number=number,
        leader=node if leads else "n0",
        from_us=at(begin),
        until_us=at(end),
    )


def outage(group: str, begin: float, end: float) -> Outage:
    return Outage(
        group=group,
        from_us=at(begin),
        until_us=at(end),
        from_node="n0",
        until_node="n0",
        timed_out=3,
        witnessed=True,
    )


def waits(group: str, scale: float) -> Waits:
    by_rank = tuple((rank, scale / (1.01 - rank)) for rank in RANKS)
    return Waits(group=group, writes=50_000, records=80_000, worst_ms=150.0, by_rank=by_rank)
