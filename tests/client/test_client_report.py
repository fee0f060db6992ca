"""What the commands print: tables for people, JSON for machines."""

# ruff: noqa: E501 - tables are compared as they are
from __future__ import annotations

import base64
import json
from typing import Any

import attrs
import pytest
from api_kit import record_of

from actors.client import bench, report
from actors.client.appending import Summary, summary_lines
from actors.client.bench import Figures
from actors.config.kinds import KINDS
from actors.errors import (
    ConfigError,
    NotMaster,
)
from actors.group_status import DIVERGED, FOLLOWING, GroupStatus, Link, Peer, Scrub
from actors.log_types import Message


def figures(window: int, **changed: Any) -> Figures:
    values: dict[str, Any] = {
        "window": window,
        "connections": 1,
        "size_bytes": 256,
        "batch_count": 1,
        "seconds": 3.0,
        "appends": 3000,
        "appends_per_s": 1000.0,
        "records_per_s": 1000.0,
        "mb_per_s": 0.256,
        "p50_ms": 0.5,
        "p99_ms": 12.25,
        "max_ms": 20.0,
        "not_stored": 0,
        "outcome_unknown": 0,
        "first_error": None,
    }
    return Figures(**(values | changed))


def test_percentiles() -> None:
    thousand = [number / 1000 for number in range(1000, 0, -1)]
    assert [bench._percentile_ms(thousand, share) for share in (0.5, 0.99, 1.0)] == [500, 990, 1000]
    assert bench._percentile_ms([0.002], 0.5) == 2
    assert bench._percentile_ms([], 0.5) is None


def test_bench_table() -> None:
    failed = figures(1024, p50_ms=None, not_stored=2, first_error="LogFull: m", ended_early=True)
    passed = figures(16, outcome_unknown=16, first_error="NodeStopped: m")
    (*_, unanswered) = report.bench_lines([figures(16, appends=0, seconds=2.0)])
    assert unanswered == "window 16: no append was answered within 2 s"
    assert report.bench_lines([figures(1), failed, passed]) == [
        "window  appends/s  records/s  MB/s  p50 ms  p99 ms  max ms",
        "     1       1000       1000  0.26    0.50   12.25   20.00",
        "  1024       1000       1000  0.26       -   12.25   20.00",
        "    16       1000       1000  0.26    0.50   12.25   20.00",
        "window 1024: ended early, 2 appends not stored and 0 with unknown outcome: LogFull: m",
        "window 16: went on, 0 appends not stored and 16 with unknown outcome: NodeStopped: m",
    ]
    (found,) = json.loads(report.as_json([figures(1)]))
    assert found["appends_per_s"] == 1000.0


def test_record_as_json() -> None:
    message = Message("t", "grün\n".encode(), "tag", "k1 k2", {"a": "b"}, queue_id=3)
    found = json.loads(report.record_json(record_of(4, message)))
    assert found == {
        "position": 400,
        "next_position": 500,
        "topic": "t",
        "queue_id": 3,
        "queue_offset": 4,
        "tags": "tag",
        "keys": ["k1", "k2"],
        "properties": {"a": "b"},
        "store_timestamp_ms": 1,
        "born_timestamp_ms": 2,
        "body": "grün\n",
    }
    binary = json.loads(report.record_json(record_of(4, b"\xff\x00")))
    assert base64.b64decode(binary["body_base64"]) == b"\xff\x00"
    assert "body" not in binary


def test_an_entry_of_a_ledger_has_no_fields_of_a_message() -> None:
    entry = attrs.evolve(record_of(4, b"plain"), topic="")
    assert json.loads(report.record_json(entry)) == {
        "position": 400,
        "next_position": 500,
        "body": "plain",
    }
    assert json.loads(report.record_json(attrs.evolve(entry, body=b"\xff"))).keys() == {
        "position",
        "next_position",
        "body_base64",
    }


ORDERS = GroupStatus(
    mode="classic",
    terms=KINDS["classic"].terms,
    role="master",
    leads=True,
    leader="n0",
    epoch=0,
    is_open=True,
    first=0,
    written=5000,
    synced=4000,
    acknowledged=3000,
    copies=2,
    durability="synced",
    peers=(
        Peer(node="n1", state=FOLLOWING, end=4000, lag=1000, bytes_per_s=1_500_000),
        Peer(node="j2", state="not connected, written only", is_well=False, bytes_per_s=0),
    ),
)
BILLS = attrs.evolve(
    ORDERS,
    role="slave",
    leads=False,
    leader="",
    is_open=False,
    written=7,
    synced=7,
    acknowledged=7,
    durability="written",
    peers=(),
    link=Link(state="connecting", error="refused"),
)


def status(**groups: GroupStatus) -> dict[str, Any]:
    plain = {name: own.plain() for name, own in groups.items()}
    return {"cluster": "demo", "node": "n0", "boot": 3, "state": "running", "groups": plain}


def lines(**groups: GroupStatus) -> list[str]:
    return report.status_lines(status(**groups))


def test_status_table() -> None:
    assert lines(orders=ORDERS, bills=BILLS) == [
        "node n0 of demo, running, boot 3",
        "",
        "in bytes  role    master  first  written  synced  acked     copies",
        "orders    master  n0          0     5000    4000   3000   2 synced",
        "bills     slave   -           0        7       7      7  2 written",
        "",
        "in bytes  slave  state                        matched   lag  MB/s",
        "orders    n1     following                       4000  1000  1.50",
        "orders    j2     not connected, written only        -     -  0.00",
        "",
        "bills from -: connecting (refused)",
    ]
    linked = attrs.evolve(BILLS, link=Link(state=FOLLOWING, is_up=True, error="refused"))
    assert lines(bills=linked)[-1] == "bills from -: following"
    scrubs = {"bills": Scrub(7, None), "loans": Scrub(0, 61.2), "other": None}
    found = {name: attrs.evolve(ORDERS, scrub=scrub) for name, scrub in scrubs.items()}
    assert lines(**found)[-2:] == [
        "bills: 7 bytes of its log not read since its start, no pass over all of it complete",
        "loans: its log was read, last whole pass 61 s ago",
    ]
    assert lines() == ["node n0 of demo, running, boot 3", "no groups"]


def test_by_which_promotion_a_master_is_one_and_why_it_takes_no_appends() -> None:
    fenced = attrs.evolve(ORDERS, epoch=2, troubles=("fenced: n1 has more",), peers=())
    found = lines(orders=fenced)
    assert found[2].split()[:5] == ["in", "bytes", "role", "master", "promotion"]
    assert found[3].split()[:4] == ["orders", "master", "n0", "2"]
    assert found[-2:] == ["", "orders: fenced: n1 has more"]


def test_what_is_too_wide_for_a_terminal_is_two_tables() -> None:
    far = attrs.evolve(
        ORDERS,
        epoch=12,
        first=1_234_567_890_123,
        written=2_234_567_890_123,
        synced=2_234_567_890_000,
        acknowledged=2_234_567_880_000,
        peers=(
            Peer(node="n1", state=FOLLOWING, end=2_234_567_880_000, lag=10_123),
            Peer(
                node="n2",
                state="not connected",
                end=1_234_567_890_123,
                lag=1_000_000_000_000,
                reason="its disk has no room",
                is_well=False,
                bytes_per_s=12_000_000,
            ),
        ),
    )
    found = report.status_lines(status(orders=far, bills=BILLS), width=80)
    assert found[2:] == [
        "in bytes  role    master  promotion     copies",
        "orders    master  n0             12   2 synced",
        "bills     slave   -               -  2 written",
        "",
        "in bytes          first        written         synced          acked",
        "orders    1234567890123  2234567890123  2234567890000  2234567880000",
        "bills                 0              7              7              7",
        "",
        "in bytes  slave  state                matched            lag   MB/s",
        "orders    n1     following      2234567880000          10123      -",
        "orders    n2     not connected  1234567890123  1000000000000  12.00",
        "",
        "bills from -: connecting (refused)",
        "",
        "orders: n2: its disk has no room",
    ]
    assert max(map(len, lines(orders=far, bills=BILLS))) > 80, "a pipe has room"
    narrow = report.status_lines(status(orders=far), width=60)
    assert [line.split()[:3] for line in narrow[-9:-3]] == [
        ["in", "bytes", "slave"],
        ["orders", "n1", "following"],
        ["orders", "n2", "not"],
        [],
        ["in", "bytes", "slave"],
        ["orders", "n1", "2234567880000"],
    ]


def summary(**changed: Any) -> Summary:
    values: dict[str, Any] = {
        "group": "orders",
        "node": "n0",
        "lines": 10,
        "acknowledged": 10,
        "in_doubt": 0,
        "bytes": 30,
        "seconds": 2.0,
        "next": 1000,
        "unit": "bytes",
    }
    return Summary(**(values | changed))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            summary(),
            [
                "10 of 10 lines acknowledged in orders by n0, 2.00 s, 5 lines/s; the log goes on at byte 1000"
            ],
        ),
        (
            summary(lines=1, acknowledged=0, next=None, seconds=0.0, error="LogFull", message="m"),
            [
                "LogFull: m",
                "not stored: 1 line",
                "0 of 1 line acknowledged in orders by n0, 0.00 s, 0 lines/s",
            ],
        ),
        (
            summary(
                acknowledged=4, in_doubt=6, in_doubt_from=1000, error="NodeStopped", message="m"
            ),
            [
                "NodeStopped: m",
                "6 lines may be stored, or not, from byte 1000 on",
                "4 of 10 lines acknowledged in orders by n0, 2.00 s, 2 lines/s; the log goes on at byte 1000",
            ],
        ),
        (
            summary(
                acknowledged=4,
                in_doubt=1,
                error="E",
                message="m",
                first=100,
                last=200,
                in_doubt_to=250,
            ),
            [
                "E: m",
                "1 line may be stored, or not, at bytes 100 to 250",
                "not stored: 5 lines",
                "4 of 10 lines acknowledged in orders by n0, 2.00 s, 2 lines/s; the log goes on at byte 1000",
            ],
        ),
        (
            summary(acknowledged=0, in_doubt=10, error="E", message="m", next=None),
            [
                "E: m",
                "10 lines may be stored, or not, at unknown positions",
                "0 of 10 lines acknowledged in orders by n0, 2.00 s, 0 lines/s",
            ],
        ),
    ],
)
def test_append_summary(found: Summary, expected: list[str]) -> None:
    assert summary_lines(found) == expected


def test_an_append_to_a_ledger_is_counted_in_entries() -> None:
    """Of an older node, which does not say what its log counts, positions are just that."""
    doubt = {"in_doubt": 2, "error": "E", "message": "m", "acknowledged": 8}
    two = summary(unit="entries", first=7, last=8, in_doubt_to=9, **doubt)
    assert summary_lines(two)[1:] == [
        "2 lines may be stored, or not, at entries 7 to 8",
        "8 of 10 lines acknowledged in orders by n0, 2.00 s, 4 lines/s; the log goes on at"
        " entry 1000",
    ]
    one = summary(unit="entries", first=7, last=7, in_doubt_to=8, **doubt)
    assert "or not, at entry 7" in summary_lines(one)[1]
    some = summary(unit="entries", in_doubt_from=7, **doubt)
    assert "or not, from entry 7 on" in summary_lines(some)[1]
    old = summary(unit="", in_doubt_from=7, **doubt)
    assert "or not, from position 7 on" in summary_lines(old)[1]
    older = summary(first=7, last=8, **doubt)
    assert "or not, from byte 7 on" in summary_lines(older)[1], "an older node says no end"
    assert summary_lines(old)[-1].endswith("; the log goes on at position 1000")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NotMaster("n1 is a slave", "n0"), "n1 is a slave; n0 leads it"),
        (NotMaster("n1 is a slave"), "n1 is a slave"),
        (ConnectionResetError(104, "Connection reset"), "Connection reset"),
        (FileNotFoundError(2, "No such file", "a.txt"), "a.txt: No such file"),
        (TimeoutError("no\nanswer"), "no answer"),
        (ConfigError(()), "ConfigError"),
    ],
)
def test_error_text(error: Exception, text: str) -> None:
    assert report.error_text(error) == text


LEDGER = GroupStatus(
    mode="dledger",
    terms=KINDS["dledger"].terms,
    role="leader",
    leads=True,
    leader="n0",
    epoch=3,
    is_open=True,
    first=0,
    written=901,
    synced=891,
    acknowledged=881,
    copies=2,
    durability="synced",
    peers=(
        Peer(node="n1", state=FOLLOWING, end=886, lag=15),
        Peer(node="n2", state="silent", is_well=False, reason="no route"),
    ),
)
ALONE = attrs.evolve(LEDGER, role="candidate", leads=False, leader="", is_open=False, peers=())


def test_status_of_dledger_groups() -> None:
    found = lines(ledger=LEDGER, other=ALONE)
    assert found == [
        "node n0 of demo, running, boot 3",
        "",
        "in entries  role       leader  term  first  written  synced  committed    copies",
        "ledger      leader     n0         3      0      900     890        880  2 synced",
        "other       candidate  -          3      0      900     890        880  2 synced",
        "",
        "in entries  peer  state      matched  lag",
        "ledger      n1    following      885   15",
        "ledger      n2    silent           -    -",
        "",
        "ledger: n2: no route",
    ]
    both = lines(orders=ORDERS, ledger=LEDGER)
    assert both[: len(lines(orders=ORDERS))] == lines(orders=ORDERS)
    assert both[-6:] == found[-6:]


def test_where_a_slave_diverges_is_said_once() -> None:
    """Its connection ended for the same reason, and it makes no other one."""
    why = "equal up to 70 only"
    ended = Link(state="connecting", error=f"the local log is no part of the master's: {why}")
    parted = attrs.evolve(
        BILLS, state=DIVERGED, reason=why, troubles=(f"diverged: {why}",), link=ended
    )
    found = "\n".join(lines(bills=parted))
    assert found.count(why) == 1
    assert "connecting" not in found


def test_what_is_not_as_it_should_be_is_said() -> None:
    reported = attrs.evolve(
        ALONE,
        troubles=("takes no entries: entry 9 does not fit", "0 of 2 others answer, 1 is needed"),
        peers=(Peer(node="n1", state="silent", is_well=False, reason="gone"),),
        others=("turned away 10.9.9.9: the cluster file names no member at that address",),
    )
    assert lines(ledger=reported)[-5:] == [
        "",
        "ledger: takes no entries: entry 9 does not fit",
        "ledger: 0 of 2 others answer, 1 is needed",
        "ledger: n1: gone",
        "ledger: turned away 10.9.9.9: the cluster file names no member at that address",
    ]


def test_a_leader_that_is_named_is_not_named_twice() -> None:
    error = NotMaster("n1 does not lead ledger: n0 does", "n0")
    assert report.error_text(error) == "n1 does not lead ledger: n0 does"


def test_an_empty_ledger_says_so() -> None:
    empty = attrs.evolve(ALONE, epoch=-1, first=-1, written=0, synced=0, acknowledged=0)
    assert lines(ledger=empty)[2:] == [
        "in entries  role       leader  first  written  synced  committed    copies",
        "ledger      candidate  -           -    empty       -          -  2 synced",
    ]
