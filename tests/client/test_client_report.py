"""What the commands print: tables for people, JSON for machines."""

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
from actors.client.ledger_words import ANSWERS, JOINS
from actors.errors import (
    ConfigError,
    NotMaster,
)
from actors.log_types import Message
from actors.node import ledger_peers


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


STATUS: dict[str, Any] = {
    "cluster": "demo",
    "node": "n0",
    "boot": 3,
    "state": "running",
    "groups": {
        "orders": {
            "role": "master",
            "master": "n0",
            "copies": 2,
            "durability": "synced",
            "min_bytes": 0,
            "written_bytes": 5000,
            "synced_bytes": 4000,
            "acknowledged_bytes": 3000,
            "slaves": [
                {
                    "node": "n1",
                    "state": "TRANSFER",
                    "in_sync": True,
                    "counts": True,
                    "ack_bytes": 4000,
                    "lag_bytes": 1000,
                    "bytes_per_s": 1_500_000,
                },
                {
                    "node": "j2",
                    "state": "SHUTDOWN",
                    "in_sync": False,
                    "counts": False,
                    "ack_bytes": None,
                    "lag_bytes": None,
                    "bytes_per_s": None,
                },
            ],
            "client": None,
        },
        "bills": {
            "role": "slave",
            "master": None,
            "copies": 2,
            "durability": "written",
            "min_bytes": 0,
            "written_bytes": 7,
            "synced_bytes": 7,
            "acknowledged_bytes": 7,
            "slaves": [],
            "client": {"state": "READY", "last_error": "refused"},
        },
    },
}


def test_status_table() -> None:
    assert report.status_lines(STATUS) == [
        "node n0 of demo, running, boot 3",
        "",
        "group   role    master  first  written  synced  acknowledged  copies  durability",
        "orders  master  n0          0     5000    4000          3000       2      synced",
        "bills   slave   -           0        7       7             7       2     written",
        "",
        "group   slave  state     in sync           acknowledged   lag  MB/s",
        "orders  n1     transfer  yes                       4000  1000  1.50",
        "orders  j2     shutdown  no, written only             -     -  0.00",
        "",
        "bills follows -: ready, last error: refused",
    ]
    client = {"state": "TRANSFER", "last_error": "refused"}
    linked = {"bills": {**STATUS["groups"]["bills"], "client": client}}
    assert report.status_lines({**STATUS, "groups": linked})[-1] == "bills follows -: transfer"
    scrubs = {
        "bills": {"scrub": {"unread_bytes": 7, "whole_age_s": None}},
        "loans": {"scrub": {"unread_bytes": 0, "whole_age_s": 61.2}},
        "other": {"scrub": None},
    }
    groups = {name: {**STATUS["groups"]["orders"], **one} for name, one in scrubs.items()}
    assert report.status_lines({**STATUS, "groups": groups})[-2:] == [
        "bills: 7 bytes of its log not read since its start, no pass over all of it complete",
        "loans: its log was read, last whole pass 61 s ago",
    ]
    assert report.status_lines({"node": "n0", "cluster": "c", "state": "running", "boot": 1}) == [
        "node n0 of c, running, boot 1",
        "no groups",
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
    }
    return Summary(**(values | changed))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            summary(),
            ["10 of 10 lines acknowledged in orders by n0, 2.00 s, 5 lines/s, next position 1000"],
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
                "6 lines may be stored, or not, at positions from 1000 on",
                "4 of 10 lines acknowledged in orders by n0, 2.00 s, 2 lines/s, next position 1000",
            ],
        ),
        (
            summary(acknowledged=4, in_doubt=1, error="E", message="m", first=100, last=200),
            [
                "E: m",
                "1 line may be stored, or not, at positions 100 to 200",
                "not stored: 5 lines",
                "4 of 10 lines acknowledged in orders by n0, 2.00 s, 2 lines/s, next position 1000",
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


LEDGER: dict[str, Any] = {
    "mode": "dledger",
    "role": "leader",
    "leader": "n0",
    "term": 3,
    "durability": "synced",
    "begin_index": 0,
    "written_index": 900,
    "synced_index": 890,
    "committed_index": 880,
    "peers": [
        {"node": "n1", "state": "appending", "matched_index": 885, "lag": 15, "reason": ""},
        {"node": "n2", "state": "silent", "matched_index": -1, "lag": None, "reason": "no route"},
    ],
}


def test_status_of_dledger_groups() -> None:
    alone = LEDGER | {"role": "candidate", "leader": "", "peers": []}
    only = STATUS | {"groups": {"ledger": LEDGER, "other": alone}}
    found = report.status_lines(only)
    assert found == [
        "node n0 of demo, running, boot 3",
        "",
        "group   role       leader  term  first  written  synced  committed  durability",
        "ledger  leader     n0         3      0      900     890        880      synced",
        "other   candidate  -          3      0      900     890        880      synced",
        "",
        "group   peer  state      matched  lag",
        "ledger  n1    appending      885   15",
        "ledger  n2    silent           -    -",
        "",
        "ledger: n2: no route",
    ]
    both = STATUS | {"groups": {**STATUS["groups"], "ledger": LEDGER}}
    lines = report.status_lines(both)
    assert lines[: len(report.status_lines(STATUS))] == report.status_lines(STATUS)
    assert lines[-6:] == found[-6:]
    assert report.status_lines(STATUS | {"groups": {"other": alone}})[-1].startswith("other")


def test_a_follower_that_cannot_take_what_comes_says_so() -> None:
    stuck = LEDGER | {"role": "follower", "peers": [], "refusal": "entry 9 does not fit"}
    lines = report.status_lines(STATUS | {"groups": {"ledger": stuck}})
    assert lines[-2:] == ["", "ledger takes no entries: entry 9 does not fit"]


def test_a_candidate_says_how_many_answer_and_who_was_turned_away() -> None:
    peers = [{"node": "n1", "state": "silent", "matched_index": -1, "lag": None, "reason": "gone"}]
    alone = {"role": "candidate", "leader": "", "members": ["n0", "n1", "n2"], "peers": peers}
    told = LEDGER | alone | {"strangers": ["10.9.9.9"]}
    assert report.status_lines(STATUS | {"groups": {"ledger": told}})[-4:] == [
        "",
        "ledger: 0 of 2 others answer, 1 is needed",
        "ledger: n1: gone",
        "ledger: turned away 10.9.9.9: the cluster file names no member at that address",
    ]
    assert (ANSWERS, JOINS) == (ledger_peers.ANSWERS, ledger_peers.JOINS), "what the node says"


def test_an_older_node_says_less_of_its_peers() -> None:
    older = LEDGER | {"peers": [{"node": "n1", "matched_index": 885}]}
    lines = report.status_lines(STATUS | {"groups": {"ledger": older}})
    assert lines[-1] == "ledger  n1    -          885    -"


def test_a_leader_that_is_named_is_not_named_twice() -> None:
    error = NotMaster("n1 does not lead ledger: n0 does", "n0")
    assert report.error_text(error) == "n1 does not lead ledger: n0 does"


def test_an_empty_ledger_says_so() -> None:
    none = dict.fromkeys(("begin_index", "written_index", "synced_index", "committed_index"), -1)
    empty = LEDGER | none | {"role": "candidate", "leader": "", "term": -1, "peers": []}
    assert report.status_lines(STATUS | {"groups": {"ledger": empty}})[2:] == [
        "group   role       leader  term  first  written  synced  committed  durability",
        "ledger  candidate  -          -      -    empty       -          -      synced",
    ]
