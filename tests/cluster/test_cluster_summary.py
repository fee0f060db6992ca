"""The summary, for people and for machines."""

from __future__ import annotations

import json

import attrs
from cluster_samples import FEED, cluster, master, node, slave_group

from actors.cluster.summary import GroupSummary, Summary, as_json, as_text, group_summary
from actors.cluster.view import ClusterView


def behind() -> ClusterView:
    late = node("n1", slave_group(written_bytes=69_999_999, synced_bytes=60_000_000))
    return cluster(
        nodes=(node("n0", master(), restarts=3), attrs.evolve(late, process_restarts=5)),
        feeds=(attrs.evolve(FEED, unknown_count=7), attrs.evolve(FEED, group="other")),
    )


def group() -> GroupSummary:
    return group_summary(behind(), "orders", ("n0", "n1", "n2"), "n0", 2.0)


def summary(**changes: object) -> Summary:
    found = Summary(cluster="demo", reason="interrupted", seconds=12.34, groups=(group(),))
    return attrs.evolve(found, **changes)


def test_for_machines() -> None:
    assert json.loads(as_json(summary(failures=("triolog: x",)))) == {
        "cluster": "demo",
        "reason": "interrupted",
        "seconds": 12.34,
        "groups": {
            "orders": {
                "master": "n0",
                "appended": 5100,
                "acknowledged": 5000,
                "outcome_unknown": 7,
                "bytes": 250000,
                "seconds": 2.0,
                "restarts": 8,
                "offsets": {
                    "n0": {
                        "role": "master",
                        "min_bytes": 0,
                        "written_bytes": 70000000,
                        "synced_bytes": 70000000,
                        "acknowledged_bytes": 69999000,
                        "behind_bytes": 0,
                        "restarts": 3,
                    },
                    "n1": {
                        "role": "slave",
                        "min_bytes": 0,
                        "written_bytes": 69999999,
                        "synced_bytes": 60000000,
                        "acknowledged_bytes": 69999000,
                        "behind_bytes": 1,
                        "restarts": 5,
                    },
                },
                "unanswered": ["n2"],
            }
        },
        "failures": ["triolog: x"],
    }
    assert "\n" not in as_json(summary())


def test_for_people() -> None:
    assert as_text(summary()).split("\n") == [
        "demo: interrupted after 12.3 s",
        "  orders: 5000 of 5100 records acknowledged, 244.1 KiB, 2500 records/s"
        ", 7 with unknown outcome, 8 restarts",
        "    n0 master: 0 to 70000000, synced to 70000000",
        "    n1 slave: 0 to 69999999, synced to 60000000, behind by 1 bytes",
        "    n2: did not answer",
    ]
    assert [one.node for one in group().behind] == ["n1"]


def test_nothing_was_fed_and_nobody_is_master() -> None:
    view = cluster(nodes=(node("n1", slave_group()),), feeds=())
    found = group_summary(view, "orders", ("n1",), "n0", 0.0)
    assert (found.master, found.appended, found.behind) == ("n0", 0, ())
    assert ", 0 records/s" in as_text(summary(groups=(found,)))


def test_restarts_of_another_group_do_not_count() -> None:
    other = node("n0", master(), restarts=3)
    assert other.restarts_of("orders") == 3
    assert other.restarts_of("order") == 0
    assert attrs.evolve(other, tree=None, process_restarts=2).restarts_of("orders") == 2
