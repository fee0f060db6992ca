"""The first lines of `status`: who takes a group's appends, or why they fail and what to do."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from cluster_samples import cluster, master, node, slave, slave_group
from cluster_world import CONFIG
from ledger_samples import follower, leader, member

from actors.cluster.headlines import headlines
from actors.cluster.view import NodeView
from actors.config import loads
from actors.group_status import WITHOUT_ROOM

AWAY = NodeView(node="n0", state="away", groups={}, tree=None)
LEDGER = loads(
    """\
version = 1
name = "demo"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
n2 = "127.0.0.3"
[groups.ledger]
mode = "dledger"
members = ["n0", "n1", "n2"]
port = 20911
""",
    "c.toml",
)


def line(
    config: Any,
    *nodes: NodeView,
    starting: tuple[str, ...] = (),
    ended: tuple[str, ...] = (),
) -> str:
    [found] = headlines(config, cluster(nodes=nodes, feeds=()), starting, ended)
    takes = "and takes appends" in found.text or "as others say" in found.text
    assert found.is_well == takes
    return found.text


def test_a_master_that_takes_appends() -> None:
    whole = (node("n0", master(promotion=2)), node("n1", slave_group()), node("n2", slave_group()))
    assert line(CONFIG, *whole) == (
        "orders: n0 is master by promotion 2 and takes appends, 3 of 3 nodes can hold copies"
    )
    gone = slave("n2", ack_bytes=None, lag_bytes=None, state="SHUTDOWN")
    assert line(CONFIG, node("n0", master(copies=2, slaves=[slave("n1"), gone]))) == (
        "orders: n0 is master and takes appends, 2 of 3 nodes can hold copies, not n2"
    )
    both = [gone, {**gone, "node": "n1"}]
    assert line(CONFIG, node("n0", master(copies=2, slaves=both))) == (
        "orders: n0 is master, appends wait: 1 of 2 copies that they need"
    )


def test_a_master_that_takes_none_says_why() -> None:
    closed = master(part="asking", reason="has not heard n1, n2: waits for them to start")
    assert line(CONFIG, node("n0", closed)) == (
        "orders: n0 is master and takes no appends: asking: has not heard n1, n2: waits for them to"
        " start"
    )


def but(view: NodeView, **changes: Any) -> NodeView:
    [(group, said)] = view.groups.items()
    return attrs.evolve(view, groups={group: attrs.evolve(said, **changes)})


def test_full_disks_hold_nothing() -> None:
    """An open master whose disk is full refuses appends; a slave's full disk holds no copy."""
    why = "no room: the disk is more than 90% full (100%)"
    assert line(CONFIG, node("n0", master(copies=2, no_room=why))) == (
        "orders: n0 is master and takes no appends: its disk has no room; make some, and it goes on"
        " by itself: the disk is more than 90% full (100%)"
    )
    n0 = node("n0", master(copies=2))
    n1 = but(node("n1", slave_group()), findings={WITHOUT_ROOM: why})
    assert line(CONFIG, n0, n1, node("n2", slave_group())).endswith(
        "takes appends, 2 of 3 nodes can hold copies, not n1"
    )


def test_a_leader_that_leads_no_more_and_answers_says_why_itself() -> None:
    n0 = but(member("n0", follower(role="candidate", leader="n0")), troubles=("no room: full",))
    assert line(LEDGER, n0, member("n1", follower(leader="n0"))) == (
        "ledger: no leader, appends fail: n0: no room: full; an election follows"
    )


def test_no_election_is_awaited_where_disks_are_full() -> None:
    """Whoever is elected steps down again, until there is room."""
    full = follower(role="candidate", leader="n0", refusal="no room: the disk is 100% full")
    assert line(LEDGER, member("n0", full), member("n1", follower(leader="n0"))) == (
        "ledger: no leader, appends fail: n0: takes no entries: its disk has no room; make some,"
        " and it goes on by itself: the disk is 100% full"
    )


def test_a_master_that_does_not_answer() -> None:
    slaves = (node("n1", slave_group()), node("n2", slave_group()))
    assert line(CONFIG, AWAY, *slaves) == (
        "orders: no master, appends fail: n0 does not answer; `promote orders`"
    )
    assert line(CONFIG, AWAY, *slaves, starting=("n0",)) == (
        "orders: no master yet: n0 is starting"
    )
    assert line(CONFIG, *slaves) == "orders: n0 is master, as others say"


def test_a_promotion_that_would_be_refused_is_not_advised() -> None:
    """As many are silent as an append has copies: they may have what nobody else has."""
    n1 = attrs.evolve(AWAY, node="n1")
    copied = attrs.evolve(CONFIG.groups["orders"], copies=2)
    config = attrs.evolve(CONFIG, groups={**CONFIG.groups, "orders": copied})
    slaves = (node("n1", slave_group()), node("n2", slave_group()))
    assert line(config, AWAY, *slaves).endswith(": n0 does not answer; `promote orders`")
    assert line(config, AWAY, n1, slaves[1]) == (
        "orders: no master, appends fail: n0, n1 do not answer; start one of them, or `promote"
        " orders --force`, which may lose what they alone have"
    )
    alone = attrs.evolve(copied, copies=1)
    config = attrs.evolve(CONFIG, groups={**CONFIG.groups, "orders": alone})
    assert line(config, AWAY, *slaves) == (
        "orders: no master, appends fail: n0 does not answer; start it, or `promote orders"
        " --force`, which may lose what it alone has"
    )


def test_nobody_answers() -> None:
    nodes = [attrs.evolve(AWAY, node=name) for name in ("n0", "n1", "n2")]
    assert line(CONFIG, *nodes) == ("orders: no master, appends fail: none of its 3 nodes answers")
    assert line(CONFIG, *nodes, ended=("n0", "n1", "n2")) == (
        "orders: no master, appends fail: n0, n1, n2 do not run: start them"
    )
    assert line(CONFIG, nodes[1]) == "orders: who is master is not known: n1 does not answer"
    assert line(CONFIG, *nodes, starting=("n0", "n1")) == (
        "orders: no master yet: n0, n1 are starting"
    )


@pytest.mark.parametrize("named", ["n0", ""])
def test_a_leader_that_does_not_answer(named: str) -> None:
    found = line(LEDGER, AWAY, member("n1", follower(leader=named)))
    assert found == (
        "ledger: no leader, appends fail: n0 does not answer; an election follows"
        if named
        else "ledger: no leader, appends fail: 1 of its 3 nodes answers"
    )


def gone(name: str) -> NodeView:
    return attrs.evolve(AWAY, node=name)


@pytest.mark.parametrize("named", ["n0", ""])
def test_a_lost_majority_says_which_nodes_to_start(named: str) -> None:
    candidate = follower(role="candidate", leader=named)
    alone, two = member("n2", candidate), ("n0", "n1")
    begin = "ledger: no leader, appends fail: "
    lacks = line(LEDGER, *map(gone, two), alone, ended=two)
    assert lacks == begin + "n0, n1 do not run: starting 1 of them is enough"
    three = ("n0", "n1", "n2")
    assert line(LEDGER, *map(gone, three), ended=three) == (
        begin + "n0, n1, n2 do not run: starting 2 of them is enough"
    )
    hangs = line(LEDGER, *map(gone, two), alone, ended=("n0",))
    assert "do not run" not in hangs, "n1 may answer yet"
    assert "not run" not in line(LEDGER, *map(gone, two), ended=two), "n2 was not asked"
    assert "not run" not in line(LEDGER, gone("n0"), member("n1", candidate), alone, ended=("n0",))
    joins = but(alone, details={"joining": "it lacks its log"})
    assert line(LEDGER, *map(gone, two), joins, ended=two) == (
        begin
        + "n0, n1 do not run: start them, as n2 is new or lacks its log, so that all have to vote"
    )


def test_beside_an_empty_member_all_have_to_run() -> None:
    """Two of three are a majority, but not with one that may have forgotten an entry."""
    candidate = follower(role="candidate", leader="")
    joins = but(member("n1", candidate), details={"joining": "is new"})
    found = line(LEDGER, member("n0", candidate), joins, gone("n2"), ended=("n2",))
    assert found == (
        "ledger: no leader, appends fail: n2 does not run: start it, as n1 is new or lacks its log,"
        " so that all have to vote"
    )
    several = but(member("n0", candidate), details={"joining": "is new"})
    found = line(LEDGER, several, joins, gone("n2"), ended=("n2",))
    assert found.endswith(
        "start it, as n0, n1 are new or lack their logs, so that all have to vote"
    )
    assert "not run" not in line(LEDGER, member("n0", candidate), joins, gone("n2")), "it may hang"


def test_nodes_of_a_classic_group_are_not_said_to_elect_a_master() -> None:
    nodes = [gone(name) for name in ("n0", "n1", "n2")]
    assert line(CONFIG, *nodes, ended=("n0", "n1", "n2")).endswith(" do not run: start them")


def test_a_group_without_a_majority_says_what_it_lacks() -> None:
    lacks = "waits for the first start of n0, n2, if its group is new"
    alone = member("n1", follower(role="candidate", leader=""))
    said = attrs.evolve(alone.groups["ledger"], troubles=(lacks,))
    alone = attrs.evolve(alone, groups={"ledger": said})
    found = line(LEDGER, AWAY, alone)
    assert found == f"ledger: no leader, appends fail: n1: {lacks}"
    led = line(LEDGER, member("n0", leader()), alone)
    assert led.startswith("ledger: n0 is leader in term 3 and takes appends, ")


def test_the_group_of_controllers_answers_brokers() -> None:
    text = """\
version = 1
name = "demo"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
[controllers]
nodes = ["n0"]
port = 9878
[groups.orders]
master = "n0"
port = 10912
"""
    config = loads(text, "c.toml")
    own = member("n0", leader()).groups["ledger"]
    led = attrs.evolve(AWAY, state="running", groups={"controllers": own})
    lines = headlines(config, cluster(nodes=(led,), feeds=()), ())
    said = {line.text.partition(":")[0]: line for line in lines}["controllers"]
    assert "and answers brokers" in said.text
    assert "append" not in said.text
    assert said.is_well
    lines = headlines(config, cluster(nodes=(AWAY,), feeds=()), (), ("n0",))
    said = {line.text.partition(":")[0]: line for line in lines}["controllers"]
    assert said.text == "controllers: no leader, brokers get no answer: n0 does not run: start it"
    assert not said.is_well
