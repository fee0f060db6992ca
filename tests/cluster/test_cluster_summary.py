"""The summary, for people and for machines."""

from __future__ import annotations

import json

import attrs
import pytest
from cluster_samples import FEED, cluster, master, node, slave, slave_group

from actors.cluster.summary import GroupSummary, Summary, as_json, as_text, findings
from actors.cluster.summary import group_summary as summary_of
from actors.cluster.view import ClusterView
from actors.config.kinds import KINDS
from actors.group_status import FENCED, REFUSED
from actors.storage.files.room import room_text


def behind() -> ClusterView:
    late = node("n1", slave_group(written_bytes=69_999_999, synced_bytes=60_000_000))
    return cluster(
        nodes=(node("n0", master(), restarts=3), attrs.evolve(late, process_restarts=5)),
        feeds=(attrs.evolve(FEED, unknown_count=7), attrs.evolve(FEED, group="other")),
    )


def group_summary(
    view: ClusterView, group: str, members: tuple[str, ...], *rest: float
) -> GroupSummary:
    return summary_of(view, group, KINDS["classic"].terms, members, *rest)


def group() -> GroupSummary:
    return group_summary(behind(), "orders", ("n0", "n1", "n2"), 2.0)


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
                "promotion": 0,
                "appended": 5100,
                "acknowledged": 5000,
                "outcome_unknown": 7,
                "bytes": 250000,
                "seconds": 2.0,
                "restarts": 8,
                "offsets": {
                    "n0": {
                        "role": "master",
                        "promotion": 0,
                        "min_bytes": 0,
                        "written_bytes": 70000000,
                        "synced_bytes": 70000000,
                        "acknowledged_bytes": 69999000,
                        "behind_bytes": 0,
                        "restarts": 3,
                        "gone": False,
                        "age_s": None,
                    },
                    "n1": {
                        "role": "slave",
                        "promotion": 0,
                        "min_bytes": 0,
                        "written_bytes": 69999999,
                        "synced_bytes": 60000000,
                        "acknowledged_bytes": 69999000,
                        "behind_bytes": 1,
                        "restarts": 5,
                        "gone": False,
                        "age_s": None,
                    },
                },
                "unanswered": ["n2"],
                "refused": {},
                "fenced": {},
                "without_room": {},
                "damaged": {},
                "stands_still": {},
                "mended": {},
            }
        },
        "starting": [],
        "failures": ["triolog: x"],
    }
    assert "\n" not in as_json(summary())


def test_for_people() -> None:
    assert as_text(summary()).split("\n") == [
        "demo: interrupted after 12.3 s",
        "  orders: 5,000 of 5,100 records acknowledged (100 unanswered at the end, and perhaps"
        " stored), 244.1 KiB, 2500 records/s, 7 with unknown outcome sent again, 8 restarts",
        "    n0 leads",
        "    n0 master: bytes 0 to 70000000, synced to 70000000, acknowledged to 69999000",
        "    n1 slave: bytes 0 to 69999999, synced to 60000000, acknowledged to 69999000"
        ", behind by 1 byte",
        "    n2: did not answer",
    ]
    assert [one.node for one in group().behind] == ["n1"]


def test_nothing_was_fed_and_nobody_is_master() -> None:
    view = cluster(nodes=(node("n1", slave_group()),), feeds=())
    found = group_summary(view, "orders", ("n1",), 0.0)
    assert (found.leader, found.appended, found.behind) == ("n0", 0, ())
    assert as_text(summary(groups=(found,))).split("\n")[1] == "  orders: 0 restarts"
    view = attrs.evolve(view, feeds=(attrs.evolve(FEED, sent_count=0, acknowledged_count=0),))
    found = group_summary(view, "orders", ("n1",), 0.0)
    line = as_text(summary(groups=(found,))).split("\n")[1]
    assert line.startswith("  orders: 0 of 0 records acknowledged, ")
    assert ", 0 records/s" in line


def test_restarts_of_another_group_do_not_count() -> None:
    other = node("n0", master(), restarts=3)
    assert other.restarts_of("orders") == 3
    assert other.restarts_of("order") == 0
    assert attrs.evolve(other, tree=None, process_restarts=2).restarts_of("orders") == 2


AHEAD = "the slave reported an offset above the master's end: 900 is above 800"
OTHER = "the master sent another offset than the end of the local log: 9 is not 8"


def test_another_master_than_the_file_has() -> None:
    new = node("n1", master(promotion=2, part="open", written_bytes=70_000_001))
    view = cluster(nodes=(node("n0", slave_group(master="n1", promotion=2)), new))
    found = group_summary(view, "orders", ("n0", "n1"), 2.0)
    assert (found.leader, found.epoch) == ("n1", 2)
    assert [one.node for one in found.behind] == ["n0"]
    assert as_text(summary(groups=(found,))).split("\n")[2] == "    n1 leads by promotion 2"


def test_a_master_that_another_machine_runs() -> None:
    """As a run of one node knows it, by its own slave."""
    view = cluster(nodes=(node("n0", slave_group(master="n2", promotion=4)),))
    found = group_summary(view, "orders", ("n0",), 2.0)
    assert (found.leader, found.epoch) == ("n2", 4)
    assert (
        as_text(summary(groups=(found,))).split("\n")[2] == "    n2 is said to lead by promotion 4"
    )
    timed = attrs.evolve(view, nodes=(attrs.evolve(view.nodes[0], heard_s=99.0),))
    found = group_summary(timed, "orders", ("n0",), 2.0, 100.0)
    line = as_text(summary(groups=(found,))).split("\n")[2]
    assert line == "    n2 is said to lead by promotion 4, as of 1.0 s before the end"


def test_a_master_that_does_not_answer_is_none() -> None:
    """It was killed, and its slave still names it."""
    killed = attrs.evolve(node("n0", master(promotion=3)), state="away")
    view = cluster(nodes=(killed, node("n1", slave_group(promotion=3))))
    found = group_summary(view, "orders", ("n0", "n1"), 2.0)
    assert (found.leader, found.gone, found.epoch) == ("", "n0", 3)
    text = as_text(summary(groups=(found,))).split("\n")
    assert text[2] == "    no master: n0 led by promotion 3 and does not answer"
    assert json.loads(as_json(summary(groups=(found,))))["groups"]["orders"]["master"] is None


def test_who_was_master_is_not_once_a_slave_knows_of_another() -> None:
    old = attrs.evolve(node("n1", master(master="n1", promotion=1)), state="away")
    knows = node("n0", slave_group(master="n2", promotion=2))
    found = group_summary(cluster(nodes=(knows, old)), "orders", ("n0", "n1"), 2.0)
    assert (found.leader, found.epoch) == ("n2", 2)


def test_a_slave_may_know_of_a_later_promotion_than_the_master() -> None:
    late = node("n0", master(master="n0", promotion=1))
    knows = node("n1", slave_group(master="n2", promotion=2))
    found = group_summary(cluster(nodes=(late, knows)), "orders", ("n0", "n1"), 2.0)
    assert (found.leader, found.epoch) == ("n2", 2)


def test_a_slave_that_has_parted_is_refused() -> None:
    parted = slave_group(part="diverged", reason="equal up to 70 only")
    view = cluster(nodes=(node("n0", master()), node("n1", parted)))
    assert findings(view, "orders", REFUSED) == {"n1": "equal up to 70 only"}


@pytest.mark.parametrize(
    ("row", "client", "found"),
    [
        ({"ack_bytes": None, "lag_bytes": None, "last_error": AHEAD}, {}, {"n1": AHEAD}),
        ({"last_error": AHEAD}, {}, {}),  # let in since
        ({"ack_bytes": None, "last_error": "the connection broke"}, {}, {}),
        ({"ack_bytes": None}, {"state": "READY", "last_error": OTHER}, {"n1": OTHER}),
        ({}, {"state": "TRANSFER", "last_error": OTHER}, {}),
        ({"ack_bytes": None}, {"state": "READY", "last_error": "the connection broke"}, {}),
    ],
)
def test_who_is_refused(
    row: dict[str, object], client: dict[str, object], found: dict[str, str]
) -> None:
    first = node("n0", master(slaves=[slave("n1", **row)]))
    second = node("n1", slave_group(client=client))
    assert findings(cluster(nodes=(first, second)), "orders", REFUSED) == found
    away = cluster(nodes=(attrs.evolve(first, state="away"), attrs.evolve(second, state="away")))
    assert findings(away, "orders", REFUSED) == {}


@pytest.mark.parametrize(
    ("fence", "state", "reported"),
    [
        ("ABANDONED", "running", True),
        ("SLAVE_AHEAD", "running", True),
        ("ABANDONED", "away", False),
        ("HANDING_OVER", "running", False),
        ("SUPERSEDED", "running", False),
        ("", "running", False),
    ],
)
def test_a_master_that_waits_for_an_operator_is_named(
    fence: str, state: str, reported: bool
) -> None:
    reason = "n2 fell silent: `promote orders` ends it"
    found = node("n0", master(part="fenced", fence=fence, reason=reason), state)
    group = group_summary(cluster(nodes=(found,)), "orders", ("n0",), 2.0)
    text = as_text(summary(groups=(group,))).split("\n")
    assert (f"    n0: takes no appends: {reason}" in text) is reported
    assert group.findings[FENCED] == ({"n0": reason} if reported else {})


def test_the_refused_are_named() -> None:
    row = slave("n1", ack_bytes=None, lag_bytes=None, last_error=AHEAD)
    view = cluster(nodes=(node("n0", master(slaves=[row])), node("n1", slave_group())))
    found = summary(groups=(group_summary(view, "orders", ("n0", "n1"), 0.0),))
    assert as_text(found).split("\n")[-1] == f"    n1: refused: {AHEAD}"
    assert json.loads(as_json(found))["groups"]["orders"]["refused"] == {"n1": AHEAD}


@pytest.mark.parametrize(("state", "reported"), [("READY", True), ("TRANSFER", False)])
def test_a_slave_whose_disk_is_full_is_named(state: str, reported: bool) -> None:
    reason = "no room: the disk of /data is more than 90% full"
    client = {"state": state, "last_error": f"the local log refused the bytes: {reason}"}
    view = cluster(nodes=(node("n0", master()), node("n1", slave_group(client=client))))
    found = summary(groups=(group_summary(view, "orders", ("n0", "n1"), 0.0),))
    words = f"    n1: copies nothing: {room_text(reason)}"
    assert (words in as_text(found).split("\n")) is reported
    without_room = json.loads(as_json(found))["groups"]["orders"]["without_room"]
    assert without_room == ({"n1": reason} if reported else {})


def test_a_slave_whose_log_waits_for_room_to_open_is_named() -> None:
    why = "no room: the disk is 100% full: it opens once there is room"
    waits = slave_group(client={"state": "", "last_error": ""}, part="connecting", reason=why)
    view = cluster(nodes=(node("n0", master()), node("n1", waits)))
    found = summary(groups=(group_summary(view, "orders", ("n0", "n1"), 0.0),))
    assert f"    n1: copies nothing: {room_text(why)}" in as_text(found).split("\n")


def test_a_node_whose_files_do_not_expire_is_named() -> None:
    why = "no log file expires: /data/0 is dated in the future"
    kept = slave_group(stands_still=why)
    view = cluster(nodes=(node("n0", master()), node("n1", kept)))
    found = summary(groups=(group_summary(view, "orders", ("n0", "n1"), 0.0),))
    assert f"    n1: {why}" in as_text(found).split("\n")
    assert json.loads(as_json(found))["groups"]["orders"]["stands_still"] == {"n1": why}


def test_as_of_when_it_is_known() -> None:
    """As of a DLedger group: once for all, and of who said it long before."""
    view = behind()
    first, late = view.nodes
    late = attrs.evolve(late, state="away", heard_s=88.0)
    view = attrs.evolve(view, nodes=(attrs.evolve(first, heard_s=99.8), late))
    found = group_summary(view, "orders", ("n0", "n1"), 2.0, 100.0)
    assert [(end.gone, end.age_s) for end in found.members] == [
        (False, pytest.approx(0.2)),
        (True, pytest.approx(12.0)),
    ]
    lines = as_text(summary(groups=(found,))).splitlines()
    assert "    n0 leads, as of 0.2 s before the end" in lines
    assert [line.rpartition(" byte")[2] for line in lines if line.startswith("    n1 ")] == [
        " when last heard, as of 12.0 s before the end"
    ]
    ends = json.loads(as_json(summary(groups=(found,))))["groups"]["orders"]["offsets"]
    assert {name: end["age_s"] for name, end in ends.items()} == {"n0": 0.2, "n1": 12.0}
    alone = attrs.evolve(view, nodes=(late,))
    found = group_summary(alone, "orders", ("n0", "n1"), 2.0, 100.0)
    assert "    n0 is said to lead, as of 12.0 s before the end" in as_text(
        summary(groups=(found,))
    )
