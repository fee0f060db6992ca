"""Pictures of the live view and the plain lines, compared whole."""

from __future__ import annotations

import attrs
from cluster_samples import FEED, cluster, master, node, slave, slave_group, tree

from actors.cluster.summary import findings
from actors.cluster.terminal import frame, node_lines, plain_lines
from actors.cluster.view import ClusterView, NodeView, RateMeter, Rates, tree_view
from actors.group_status import DAMAGED, MENDED
from actors.own_process import as_triolog, as_typed, naming

RATES = {"orders": Rates(bytes_per_s=410_000.0, records_per_s=2000.4)}


def picture(view: ClusterView, width: int = 120, height: int = 50) -> str:
    text = frame(view, RATES, ("orders: safe",), width=width, height=height, colour=False)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def trouble() -> ClusterView:
    """n1 catches up, n2 was killed, and the master's store has work."""
    behind = slave("n1", ack_bytes=30_000_000, lag_bytes=40_000_000, bytes_per_s=4_000_000)
    away = slave(
        "n2",
        ack_bytes=None,
        lag_bytes=None,
        in_sync=False,
        state="SHUTDOWN",
        bytes_per_s=0,
        last_error="the peer closed the connection",
    )
    waiting = {"depth": 12, "size_bytes": 40_960}
    first = node("n0", master(slaves=[behind, away]), mailbox=waiting, restarts=2)
    last = attrs.evolve(node("n2", slave_group(), "away"), process_restarts=1, detail="gone")
    return cluster(
        nodes=(first, node("n1", slave_group(written_bytes=30_000_000), state="STARTING"), last),
        notes=("n2: was killed by SIGKILL, starting it again",),
        phase="stopping",
    )


# ruff: noqa: E501
STEADY = """\
triolog demo  running 0:00:12   n0 running  n1 running  n2 running   Ctrl-C stops in order
orders: safe
in bytes  node  role    first   written    synced     acked  lag  rec/s  MB/s  state
orders    n0    master      0  70000000  70000000  69999000        2000  0.41  running
          n1    slave       0  70000000  70000000  69999000    0         0.41  follows n0
          n2    slave       0  70000000  70000000  69999000    0         0.41  follows n0
feed orders: 5000 acknowledged, 100 in flight, 0 unknown, feeding, from README.md
/n0                                     /n1                                     /n2
├─ event_log                            ├─ event_log                            ├─ event_log
├─ orders                               ├─ orders                               ├─ orders
│  └─ storage                           │  └─ storage                           │  └─ storage
│     ├─ store                          │     ├─ store                          │     ├─ store
│     └─ syncer                         │     └─ syncer                         │     └─ syncer
└─ api                                  └─ api                                  └─ api"""

TROUBLE = """\
triolog demo  stopping 0:00:12   n0 running  n1 running  n2 away x1   Ctrl-C again hurries
orders: safe
in bytes  node  role    first   written    synced     acked       lag  rec/s  MB/s  state
orders    n0    master      0  70000000  70000000  69999000             2000  0.41  running
          n1    slave       0  30000000  70000000  69999000  40000000         4.00  ━━━━       42 % 10 s
          n2    slave       0  70000000  70000000  69999000         -         0.00  away
n2: was killed by SIGKILL, starting it again
feed orders: 5000 acknowledged, 100 in flight, 0 unknown, feeding, from README.md
/n0                                     /n1                                     /n2
├─ event_log                            ├─ event_log                            ├─ event_log
├─ orders                               ├─ orders                               ├─ orders
│  └─ storage                           │  └─ storage                           │  └─ storage
│     ├─ store [12, 40 KiB] restarted…  │     ├─ store starting                 │     ├─ store
│     └─ syncer                         │     └─ syncer                         │     └─ syncer
└─ api                                  └─ api                                  └─ api"""

NARROW = """\
triolog demo  stopping 0:00:12   n0 running  n1 running  n2 away x1
orders: safe
in bytes node role   written acked   lag rec/s MB/s state
orders   n0   master   66.8M 66.8M        2000 0.41 running
         n1   slave    28.6M 66.8M 38.1M       4.00 ━━━━       42 % 10 s
         n2   slave    66.8M 66.8M     -       0.00 away
n2: was killed by SIGKILL, starting it again
feed orders: 5000 acknowledged, 100 in flight, 0 unknown, feeding, from…
/n0                       /n1                       /n2
├─ event_log              ├─ event_log              ├─ event_log
├─ orders                 ├─ orders                 ├─ orders
│  └─ storage             │  └─ storage             │  └─ storage
│     ├─ store [12, 40…   │     ├─ store starting   │     ├─ store
│     └─ syncer           │     └─ syncer           │     └─ syncer
└─ api                    └─ api                    └─ api"""


def test_steady() -> None:
    assert picture(cluster()) == STEADY


def test_trouble() -> None:
    assert picture(trouble()) == TROUBLE


def test_a_master_that_does_not_answer_has_no_rate() -> None:
    hung = picture(cluster(nodes=(node("n0", master(), "away"), node("n1", slave_group()))))
    assert "2000" not in hung.split("\n")[3]
    assert "2000" in STEADY.split("\n")[3]


def test_narrow_and_low() -> None:
    assert picture(trouble(), width=80, height=15) == NARROW
    assert max(map(len, picture(trouble(), width=80).split("\n"))) <= 80


def test_height_is_kept() -> None:
    assert picture(trouble(), height=14).endswith("... 2 more lines")
    for height in (1, 2, 5, 14, 15, 20):
        assert len(picture(trouble(), height=height).split("\n")) == min(height, 15)


def test_where_a_slave_diverges_is_no_note_besides() -> None:
    why = "its log and that of n0 are equal up to 70 only: `resync n1` sets the rest aside"
    away = slave("n1", ack_bytes=None, lag_bytes=None, state="SHUTDOWN", last_error=why)
    nodes = (
        node("n0", master(slaves=[away])),
        node("n1", slave_group(part="diverged", reason=why)),
    )
    with naming("my.toml"), as_triolog():
        notes = (f"0:00:01 orders: slave n1 is refused: {as_typed(why)}", "0:00:02 another note")
        text = picture(cluster(nodes=nodes, notes=notes), width=160)
    assert "is refused" not in text
    assert "0:00:02 another note" in text


def many_groups(*wrong: str) -> ClusterView:
    """Nine groups on three nodes, of which those named `wrong` are not as they should be."""
    names = [f"group{number}" for number in range(9)]
    fenced = node("n0", master(part="fenced", reason="n1 goes on")).groups["orders"]
    nodes = cluster().nodes
    return cluster(
        nodes=tuple(
            attrs.evolve(
                each,
                groups={
                    name: fenced if name in wrong and each is nodes[0] else each.groups["orders"]
                    for name in names
                },
            )
            for each in nodes
        ),
        feeds=(),
        notes=("something was noted",),
    )


def test_groups_without_room_are_counted_and_those_in_trouble_come_first() -> None:
    lines = picture(many_groups("group7", "group8"), width=80, height=23).split("\n")
    assert len(lines) == 23
    assert [each.split()[0] for each in lines if each.startswith("group")] == [
        *("group7", "group8", "group0", "group1", "group2", "group3"),
    ]
    assert lines[20:22] == [
        "3 more groups, all well: group4, group5, group6; `status` has them",
        "something was noted",
    ]
    assert not any("safe" in each for each in lines), "promises have no room then"
    wrong = [f"group{number}" for number in range(9)]
    text = picture(many_groups(*wrong), width=80, height=12)
    assert "7 more groups, 7 of them in trouble: group2, group3," in text
    whole = picture(many_groups("group7"), width=80, height=60)
    assert "more group" not in whole
    assert whole.index("group6") < whole.index("group7") < whole.index("group8")


def test_nothing_is_known_yet() -> None:
    nodes = tuple(NodeView(node=name, state="starting", groups={}, tree=None) for name in "ab")
    found = picture(cluster(nodes=nodes, feeds=(), phase="starting", at_s=0.0))
    assert found.split("\n")[0].startswith(
        "triolog demo  starting 0:00:00   a starting  b starting"
    )


def test_slave_without_its_master() -> None:
    waiting = slave_group(client={"state": "READY", "last_error": "the master is away"})
    found = picture(cluster(nodes=(node("n1", waiting),), feeds=(FEED,)))
    assert "the master is away" in found
    stopping = picture(cluster(nodes=(node("n1", slave_group(), "stopping"),), feeds=()))
    assert "n1    slave" in stopping
    assert stopping.count("stopping") == 2


def test_clients_are_counted() -> None:
    clients = [tree(f"/n0/api/connections/c{number}") for number in range(3)]
    found = tree_view(tree("/n0/api", tree("/n0/api/connections", *clients), tree("/n0/api/unix")))
    lines = picture(cluster(nodes=(attrs.evolve(node("n0", master()), tree=found),))).split("\n")
    assert lines[-3:] == ["/n0/api", "├─ connections 3", "└─ unix"]


def test_long_words_leave_room_for_numbers() -> None:
    refused = [slave("n1", ack_bytes=None, lag_bytes=None, last_error="long " * 50)]
    view = cluster(nodes=(node("n0", master(slaves=refused)), node("n1", slave_group())))
    assert "70000000  70000000" in picture(view)
    assert "66.8M" in picture(view, width=80)


def test_words_of_slaves() -> None:
    slaves = [
        slave("n1", in_sync=False, lag_bytes=1000),
        slave("n2", counts=False),
    ]
    nodes = (
        node("n0", master(slaves=slaves)),
        node("n1", slave_group()),
        node("n2", slave_group()),
    )
    found = picture(cluster(nodes=nodes))
    assert "0.41  follows n0: behind" in found
    assert "0.41  follows n0, written only" in found
    refused = [slave("n1", ack_bytes=None, lag_bytes=None, last_error="ahead of the master")]
    found = picture(cluster(nodes=(node("n0", master(slaves=refused)), node("n1", slave_group()))))
    assert "ahead of the master" in found


def test_colours_are_only_for_terminals() -> None:
    assert "\x1b[" in frame(cluster(), RATES, (), width=120, height=50)
    assert "\x1b[" not in picture(cluster())


def test_a_promise_is_whole_unless_there_are_many() -> None:
    promise = "orders: " + " ".join(f"word{number}" for number in range(20))

    def shown(promises: tuple[str, ...]) -> str:
        text = frame(cluster(), RATES, promises, width=80, height=50, colour=False)
        return " ".join(text.split())

    assert promise in shown((promise,))
    assert promise not in shown((promise,) * 3)
    assert "…" in shown((promise,) * 3)


def test_plain_lines() -> None:
    assert plain_lines(trouble(), RATES) == [
        "0:00:12 orders: n0 master at 70000000 acknowledged 69999000; n1 at 30000000 behind "
        "40000000; n2 not connected: the peer closed the connection; 2000 records/s 0.41 MB/s"
    ]
    never = slave("n1", ack_bytes=None, lag_bytes=None, state="SHUTDOWN")
    [line] = plain_lines(cluster(nodes=(node("n0", master(slaves=[never])),)), RATES)
    assert "n1 not connected;" in line
    alone = cluster(nodes=(node("n1", slave_group()),))
    line = "0:00:12 orders: n0 is said to lead; n1 at 70000000 acknowledged 69999000"
    assert plain_lines(alone, {}) == [line]
    # It knows what it has got, and not in how many records.
    now, meter = node("n1", slave_group()), RateMeter()
    before = attrs.evolve(now.groups["orders"], written=69_000_000)
    meter.rates(cluster(at_s=1.0, nodes=(attrs.evolve(now, groups={"orders": before}),)))
    rates = meter.rates(cluster(at_s=3.0, nodes=(node("n1", slave_group()),)))
    assert plain_lines(alone, rates) == [f"{line}; 0.50 MB/s"]


def test_of_a_tree_only_what_is_odd_is_reported() -> None:
    """A tree is fifty lines for each node; what restarted or does not run is a few."""
    whole, shown = (node_lines(trouble().nodes[0], trees=trees) for trees in (True, False))
    odd = [
        line for line in whole[4:] if "restarted" in line or line.endswith(("failed", "stopped"))
    ]
    assert odd
    assert shown[:4] == whole[:4]
    assert len(shown) == 4 + len(odd)
    assert "  /n0/orders/storage/store [12, 40 KiB] restarted 2" in shown[4:]
    usual = node_lines(cluster(nodes=(node("n1", slave_group()),)).nodes[0])
    assert not [line for line in usual if "/n1" in line]


def test_node_lines() -> None:
    found = node_lines(trouble().nodes[0], trees=True)
    assert found[:5] == [
        "n0: running",
        "  orders: master, bytes 0 to 70000000, synced to 70000000, acknowledged to 69999000"
        ", fresh reads need 2 of 2 others",
        "    n1 at 30000000 behind 40000000",
        "    n2 not connected: the peer closed the connection",
        "  /n0",
    ]
    assert "  │     ├─ store [12, 40 KiB] restarted 2" in found
    failing = slave_group(client={"state": "READY", "last_error": "refused"})
    [_, line] = node_lines(attrs.evolve(node("n1", failing), tree=None))
    assert line.endswith("acknowledged to 69999000, connecting (refused)")
    four = node_lines(attrs.evolve(node("n0", master(ack_policy="4.x")), tree=None))[1]
    assert "acknowledged to 69999000, acknowledged by the policy of 4.x" in four
    two = node("n0", master(copies=2))
    assert node_lines(attrs.evolve(two, tree=None))[1].endswith("need 1 of 2 others")
    unknown = node_lines(attrs.evolve(node("n0", master(refused_count=3)), tree=None))
    assert unknown[4:] == ["    refused by address, as the cluster file names no slave there: 3"]
    why = "the handshake is of no replica of the group: broker 77"
    stranger = master(refused_count=2, refused_host="127.0.0.9:7", refused_reason=why)
    shaken = node_lines(attrs.evolve(node("n0", stranger), tree=None))
    assert shaken[4:] == [f"    turned away: 2, the last 127.0.0.9:7 ({why})"]


def test_what_became_of_a_promotion() -> None:
    fenced = master(promotion=2, part="fenced", reason="n1 goes on up to 9")
    [_, line, why, *_] = node_lines(attrs.evolve(node("n0", fenced), tree=None))
    assert line.startswith("  orders: master by promotion 2, bytes 0 to ")
    assert why == "    fenced: n1 goes on up to 9"
    view = cluster(nodes=(node("n0", fenced),))
    plain = plain_lines(view, RATES)[0]
    assert " n0 master by promotion 2 at 70000000 acknowledged 69999000; n1 at 70000000 " in plain
    assert "; n0: fenced: n1 goes on up to 9; 2000 records/s" in plain
    assert "fenced: n1 goes on up to 9" in picture(view)
    follows = slave_group(master="n0", promotion=2, part="following")
    [_, line] = node_lines(attrs.evolve(node("n1", follows), tree=None))
    assert line.startswith("  orders: slave of n0 by promotion 2, bytes 0 to ")
    parted = slave_group(part="diverged", reason="equal up to 70 only")
    refused = f"the log does not fit: {parted['reason']}"
    both = parted | {"client": {"state": "READY", "last_error": refused}}
    for facts in (parted, both):
        [_, line, why] = node_lines(attrs.evolve(node("n1", facts), tree=None))
        assert line.startswith("  orders: slave, bytes 0 to ")
        assert line.endswith("acknowledged to 69999000"), "it does not connect"
        assert why == "    diverged: equal up to 70 only"
    alone = cluster(nodes=(node("n1", parted),))
    assert "diverged: equal up to 70 only" in picture(alone)
    empty = slave_group(part="connecting", reason="it began empty, and has not heard n2")
    assert "connecting: it began empty, and has not" in picture(cluster(nodes=(node("n1", empty),)))
    [_, _, why, *_] = node_lines(node("n1", empty))
    assert why == "    connecting: it began empty, and has not heard n2"
    assert "following" not in "".join(node_lines(node("n1", empty))), "its connection alone is up"
    away = slave("n1", ack_bytes=None, lag_bytes=None)
    both = cluster(nodes=(node("n0", master(slaves=[away])), node("n1", parted)))
    assert "diverged: equal up to 70 only" in picture(both)


def test_where_a_slave_diverges_is_said_once() -> None:
    """By itself, as soon as it answers; its master has the same words of it."""
    parted, why = slave_group(part="diverged", reason="equal up to 70 only"), "equal up to 70 only"
    away = slave("n1", ack_bytes=None, lag_bytes=None, state="SHUTDOWN", last_error=f"no: {why}")
    n0, n1 = node("n0", master(slaves=[away])), node("n1", parted)
    alone = "\n".join(node_lines(n0))
    assert f"    n1 not connected: no: {why}" in alone
    said = {("orders", "n1")}
    both = "\n".join(
        (*node_lines(n0, diverged=said), *node_lines(n1, diverged=said, refused={"orders": why}))
    )
    assert both.count(why) == 1
    assert f"    diverged: {why}" in both
    assert "    n1 diverged\n" in both


def test_where_a_copy_is_damaged() -> None:
    where = "bytes 5 to 9"
    found = node("n0", master(part="open", damage=where))
    assert node_lines(found)[2] == f"    damaged: {where}"
    assert f"damaged: {where}" in picture(cluster(nodes=(found,)))
    slave_of = slave_group(part="damaged", reason=where, damage=where)
    [_, _, why, *_] = node_lines(node("n1", slave_of))
    assert why == f"    damaged: {where}"
    assert f"damaged: {where}" in picture(cluster(nodes=(node("n1", slave_of),)))
    both = cluster(nodes=(found, node("n1", slave_of)))
    assert findings(both, "orders", DAMAGED) == {"n0": where, "n1": where}
    for name, said in (("n0", found), ("n1", node("n1", slave_of))):
        words = f"    `repair {name}` mends its copy from another member's"
        assert words in node_lines(said)
    assert findings(cluster(nodes=(node("n0", master()),)), "orders", DAMAGED) == {}


def test_a_full_disk_is_said_with_what_follows() -> None:
    full = "no room: the disk is 100% full"
    words = "its disk has no room; make some, and it goes on by itself: the disk is 100% full"
    connects = {"part": "connecting", "reason": full, "client": {"state": "READY"}}
    for name, group, does in (
        ("n0", master(no_room=full), "takes no appends"),
        ("n0", master(no_room="", reason=full), "promotions and fences wait"),
        ("n1", slave_group(no_room=full, client={"state": "READY"}), "copies nothing"),
        ("n1", slave_group(**connects), "copies nothing"),
        ("n1", slave_group(no_room="", **connects), "promotions and fences wait"),
    ):
        found = "\n".join(node_lines(node(name, group)))
        assert f"{does}: {words}" in found
        assert "open:" not in found
        assert found.count("no room") == 1
    copies = "\n".join(node_lines(node("n1", slave_group(no_room=full))))
    assert "    copies while it can, but its disk has no room: the disk is 100% full" in copies


def test_status_says_what_was_found_and_needs_nobody() -> None:
    found = node("n0", master(stands_still="the oldest file is from 2036"))
    assert "    the oldest file is from 2036" in node_lines(found)
    mended = {MENDED: "3 damaged units were mended"}
    said = attrs.evolve(found.groups["orders"], findings=mended)
    found = attrs.evolve(found, groups={"orders": said})
    assert "    3 damaged units were mended" in node_lines(found)


def test_what_is_too_long_is_said_below_and_breaks_no_word() -> None:
    reason = "n1 goes on up to 9 where this log ends: `promote orders` makes the furthest master"
    fenced = node("n0", master(part="fenced", reason=reason))
    long = "0:00:04 n2: was killed by SIGKILL, and then the whole machine went down as it seems"
    with naming("my.toml"), as_triolog():
        lines = picture(cluster(nodes=(fenced,), notes=(long,)), width=80, height=24).split("\n")
    assert lines[3].endswith(" fenced: n1 goes on up to 9…")
    assert lines[6:8] == [
        "  orders n0: fenced: n1 goes on up to 9 where this log ends:",
        "      `triolog promote my.toml orders` makes the furthest master",
    ]
    assert (
        lines[8] == "0:00:04 n2: was killed by SIGKILL, and then the whole machine went down as it…"
    )
    assert max(map(len, lines)) <= 80


def test_what_a_feed_counts_is_not_cut_by_the_name_of_its_source() -> None:
    feed = attrs.evolve(FEED, source="a/folder/" * 20 + "lines.txt", unknown_count=7)
    shown = picture(cluster(feeds=(feed,)), width=80)
    assert "feed orders: 5000 acknowledged, 100 in flight, 7 unknown, feeding, from" in shown


def test_slaves_of_a_master_that_is_away_are_not_in_sync() -> None:
    """What it said of them was true while it answered."""
    found = picture(cluster(nodes=(node("n0", master(), "away"), node("n1", slave_group()))))
    assert "follows" not in found
    assert found.split("\n")[4].endswith(
        "69999000                    its master n0 does not answer"
    )


def test_a_slave_that_needs_what_is_deleted_is_not_said_to_follow() -> None:
    """It hears of it as a connection that ends, and makes the next one."""
    why = "the slave needs bytes that the master has deleted: 0, the oldest is 65536"
    gone = slave("n1", ack_bytes=None, lag_bytes=None, state="SHUTDOWN", last_error=why)
    closes = node("n1", slave_group(client={"last_error": "the peer closed the connection"}))
    found = picture(cluster(nodes=(node("n0", master(slaves=[gone])), closes)))
    assert f"orders n1: not connected: {why}" in found
    [_, line, *_] = node_lines(closes, refused={"orders": why})
    assert line.endswith(f", refused by n0: {why}")
    assert "following" not in line


def test_why_nobody_leads_is_said_once_per_change() -> None:
    def lines(*nodes: NodeView) -> str:
        [line] = plain_lines(cluster(nodes=nodes), RATES, shown)
        return line

    shown: dict[str, str] = {}
    away, follows = node("n0", master(), "away"), node("n1", slave_group())
    usual = "0:00:12 orders: no master answers; n1 at 70000000 acknowledged 69999000; "
    first = usual.replace("answers;", "answers: n0 does not answer;")
    assert lines(away, follows).startswith(first)
    assert lines(away, follows).startswith(usual)
    other = node("n1", slave_group(part="connecting", reason="it began empty"))
    both = "answers: n0 does not answer, n1: connecting: it began empty;"
    assert lines(away, other).startswith(usual.replace("answers;", both))
    assert lines(away, other).startswith(usual)
    starts = NodeView(node="n0", state="starting", groups={}, tree=None)
    first_start = usual.replace("answers;", "answers: n0 is starting;")
    assert lines(starts, follows).startswith(first_start)
    assert lines(node("n0", master()), follows).startswith("0:00:12 orders: n0 master at ")
    assert lines(away, follows).startswith(first)


def test_rates() -> None:
    meter = RateMeter()
    first = cluster(at_s=1.0)
    assert meter.rates(first) == {"orders": Rates()}
    more = master(written_bytes=71_000_000, counts={"acknowledged": 5100})
    second = cluster(at_s=3.0, nodes=(node("n0", more),))
    assert meter.rates(second) == {"orders": Rates(bytes_per_s=500_000.0, records_per_s=50.0)}
    assert meter.rates(second) == {"orders": Rates(bytes_per_s=500_000.0, records_per_s=50.0)}
    # A restarted master counts anew, and one that is away has no end: neither is a negative rate.
    assert meter.rates(cluster(at_s=4.0, nodes=())) == {"orders": Rates()}
    # Nor is what a master holds when it is first seen.
    assert meter.rates(attrs.evolve(second, at_s=5.0)) == {"orders": Rates()}


def test_a_look_before_the_next_answer_shows_the_rate_of_the_last_one() -> None:
    """A view is made twice a second, and a node is asked as often, but at other moments."""
    meter, orders = RateMeter(), "orders"

    def look(at_s: float, heard_s: float, count: int) -> Rates:
        own = master(written_bytes=1000 * count, counts={"acknowledged": count})
        seen = attrs.evolve(node("n0", own), heard_s=heard_s)
        return meter.rates(cluster(at_s=at_s, nodes=(seen,)))[orders]

    assert look(1.0, 100.0, 50) == Rates()
    rate = Rates(bytes_per_s=100_000.0, records_per_s=100.0)
    assert look(1.5, 100.5, 100) == rate
    assert look(2.0, 100.5, 100) == rate, "the same answer"
    assert look(2.5, 101.5, 200) == rate, "over the time between the answers"
    assert look(4.4, 101.5, 200) == rate
    assert look(4.5, 101.5, 200) == Rates(), "it has not answered for a while"
    assert look(5.0, 104.0, 200) == Rates(bytes_per_s=0.0, records_per_s=0.0)


def test_another_master_counts_its_own_records() -> None:
    meter, orders = RateMeter(), "orders"
    own = master(written_bytes=10_000, counts={"acknowledged": 5000})
    meter.rates(cluster(at_s=1.0, nodes=(node("n0", own),)))
    new = master(written_bytes=12_000, counts={"acknowledged": 9000}, promotion=2, master="n1")
    rates = meter.rates(cluster(at_s=2.0, nodes=(node("n0", own, "away"), node("n1", new))))
    assert rates[orders] == Rates(bytes_per_s=2000.0)
