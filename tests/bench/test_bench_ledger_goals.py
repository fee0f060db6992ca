"""What is wanted of the ledger's figures, row by row."""

from __future__ import annotations

import bench_ledger
import bench_ledger_goals as goals
import pytest
from bench_ledger_appends import PRODUCER


def wanted(count: int, how: str, **rates: float) -> dict[tuple[str, str], str]:
    legs = goals.Legs(
        inside=("ours", "ours, pipelined", "Java, inside", "Java, inside, batch", "PySyncObj"),
        wire=("ours, client", "ours, wire", "Java", "Java, batch", "Java, memory", "etcd, wire"),
    )
    ratios, floors = goals.of_appends(legs, count, how, rates.get)
    assert len({each[:3] for each in ratios}) == len(ratios), "one pair, one line"
    return {(row, other): goal for row, other, _, goal in ratios if goal} | {
        (row, ""): goal for row, _, goal in floors
    }


@pytest.mark.parametrize("count", [1, 16, 128, 1024])
def test_over_the_wire_twice_java_at_equal_durability(count: int) -> None:
    goal = "at least 2 at each window"
    assert wanted(count, "written") == {
        ("ours, wire", "Java"): goal,
        ("ours, wire", "Java, batch"): goal,
    }


def test_our_pipelined_client_is_held_to_javas_best_at_large_windows() -> None:
    rates = {"Java": 9.0, "Java, batch": 8.0, "Java, memory": 7.0, "Java, inside": 1.0}
    rates |= {"Java, inside, batch": 2.0, "etcd, wire": 99.0, "PySyncObj": 99.0}
    goal = {
        ("ours, pipelined", "Java"): "at least 10: Java's best over the wire",
        ("ours, pipelined", "Java, inside, batch"): "at least 10: Java's best inside its leader",
    }
    assert wanted(16, "synced", **rates) == {}
    assert wanted(128, "synced", **rates) == goal
    floor = {("ours, pipelined", ""): "at least 250"}
    assert wanted(1024, "synced", **rates) == goal | floor


def test_one_append_is_held_to_its_bare_cost_where_something_syncs() -> None:
    assert wanted(1, "synced") == {
        (row, "bare"): "at most 2"
        for row in ("ours", "ours, pipelined", "ours, client", "ours, wire")
    }


def test_only_rows_with_the_same_leg_are_compared_without_a_goal() -> None:
    legs = goals.Legs(("ours", "Java, inside", "bare"), ("ours, wire", "Java", "etcd, wire"))
    ratios, _ = goals.of_appends(legs, 16, "synced", lambda _: None)
    assert [each[:2] for each in ratios] == [
        ("ours", "Java, inside"),
        ("ours, wire", "Java"),
        ("ours, wire", "etcd, wire"),
    ]


def test_kills_have_a_goal_at_default_timers_only() -> None:
    assert {each[3] for each in goals.of_kills(2.0)} == {"below 1"}
    assert {each[3] for each in goals.of_kills(0.5)} == {""}
    assert {each[3] for each in goals.of_catch_up()} == {"at least 5"}
    given = bench_ledger.parser().parse_args(["--heartbeat", "2.0,0.5", "--shapes", "1,producer"])
    assert (given.heartbeat, given.shapes) == ([2.0, 0.5], [1, PRODUCER])
