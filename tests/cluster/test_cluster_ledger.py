"""DLedger groups beside classic ones: who leads, pictures, lines, rates, and the summary."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from cluster_samples import cluster, node
from cluster_samples import master as master_group
from ledger_samples import LEDGER_FEED, follower, leader, member, members
from status_samples import said

from actors.client.status_text import peer_text
from actors.cluster.master_finder import MasterFinder
from actors.cluster.run import lacking
from actors.cluster.summary import Summary, as_json, as_text, group_summary
from actors.cluster.terminal import frame, node_lines, plain_lines
from actors.cluster.view import NodeView, RateMeter, Rates, leads, newest_leader
from actors.config.kinds import KINDS
from actors.errors import NotMaster, OutcomeUnknown
from actors.group_status import FINDINGS

NAMES = ("n0", "n1", "n2")
RATES = {"ledger": Rates(records_per_s=2000.4)}


# ---- who leads ----


def test_who_leads_has_copied_what_a_majority_holds() -> None:
    lead = leads({"groups": {"ledger": said(leader()).plain()}}, "ledger")
    assert (lead.epoch, lead.is_open, lead.written, lead.acknowledged) == (3, True, 901, 881)
    assert (lead.copies_count, lead.copies) == (2, 2)
    assert not lead.has_copied(901)
    assert lead.has_copied(881)
    assert not said(leader(peers=[{"node": "n1", "matched_index": 879}])).has_copied(881)


def test_others_name_the_leader() -> None:
    for facts, hint in ((follower(), "n0"), (follower(role="candidate", leader=""), None)):
        with pytest.raises(NotMaster) as caught:
            leads({"groups": {"ledger": said(facts).plain()}}, "ledger")
        assert caught.value.hint == hint
    with pytest.raises(NotMaster):
        leads({"groups": {}}, "ledger")


def named(*nodes: NodeView) -> str | None:
    found = newest_leader(nodes, "ledger")
    return found[0] if found else None


def test_the_newest_term_counts() -> None:
    old, new = member("n0", leader()), member("n1", leader(term=4, open=False))
    assert named(old, new) == named(new, old) == "n1"
    assert named(member("n0", follower())) is None
    assert named(node("n0", master_group())) is None


def heeded(*nodes: NodeView, failure: Exception) -> str:
    found = MasterFinder(
        group="ledger", members=NAMES, current="n0", connect=pytest.fail, views=lambda: nodes
    )
    found.heed([failure])
    return found.current


def test_a_feed_goes_to_whoever_leads() -> None:
    lost = OutcomeUnknown("the connection ended")
    old, new = member("n0", leader()), member("n2", leader(leader="n2", term=4))
    assert heeded(old, new, failure=lost) == "n2"
    assert heeded(old, attrs.evolve(new, state="away"), failure=lost) == "n0"
    gone = attrs.evolve(old, state="away")
    assert heeded(gone, failure=ConnectionRefusedError("nobody listens")) == "n1"
    assert heeded(old, failure=NotMaster("a follower", hint="n1")) == "n1"


def test_followers_are_waited_for_until_they_have_all() -> None:
    def done(*nodes: NodeView) -> bool:
        return not lacking(nodes, {"ledger": NAMES[:2]}, lambda name: True)

    first = member("n0", leader())
    assert not done(first, member("n1", follower(written_index=899)))
    assert not done(first, member("n1", follower(written_index=900), "away"))
    assert done(first, member("n1", follower(written_index=900)))
    assert done(first, member("n1", follower(written_index=901)))  # it will be cut
    assert done(member("n1", follower()))  # nobody leads: there is nothing to wait for


# ---- pictures ----


PICTURE = """\
triolog demo  running 0:00:12   n0 running  n1 running  n2 running   Ctrl-C stops in order
in entries  node  role       term  first  written  synced  committed  lag  rec/s  state
ledger      n0    leader        3      0      900     890        880        2000  running
            n1    follower      3      0      885     890        880   15         follows n0
            n2    candidate     3      0      100      95         90    -         knows no leader
feed ledger: 5000 acknowledged, 100 in flight, 0 unknown, feeding, from README.md"""


def picture(*nodes: NodeView, width: int = 120) -> list[str]:
    view = members(*(attrs.evolve(each, tree=None) for each in (nodes or members().nodes)))
    text = frame(view, RATES, (), width=width, height=50, colour=False)
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def test_the_live_view() -> None:
    assert picture() == PICTURE.split("\n")


def test_a_narrow_view_has_fewer_columns() -> None:
    lines = picture(width=80)
    assert lines[1] == "in entries node role      term written committed lag rec/s state"
    assert max(map(len, lines)) <= 80


def test_states_of_members() -> None:
    lines = picture(
        member("n0", leader(open=False)),
        member("n1", follower(), "away"),
    )
    assert lines[2].endswith("takes no appends yet")
    assert lines[3].endswith("880   15         away")
    lines = picture(member("n0", leader(), "away"), member("n1", leader(term=4)))[2:4]
    hung, replaced = sorted(lines, key=lambda line: " n1 " in line)
    assert "2000" not in hung, "the group's rate is not that of one that does not answer"
    assert "2000" in replaced


SILENT = {"node": "n1", "state": "silent", "matched_index": 900, "lag": 0, "reason": "no route"}
REFUSED = {"node": "n2", "state": "refused", "matched_index": -1, "lag": None, "reason": "401"}


def test_what_a_leader_knows_of_its_peers_is_shown() -> None:
    first = member("n0", leader(peers=[SILENT, REFUSED]))
    behind = member("n1", follower(refusal="entry 9 does not fit"))
    assert node_lines(attrs.evolve(first, tree=None))[2:] == [
        "    n1 silent at 900 behind 0: no route",
        "    n2 refused: 401",
    ]
    assert node_lines(attrs.evolve(behind, tree=None))[1:] == [
        "  ledger: follower of n0 in term 3, entries 0 to 885, synced to 890, committed to 880",
        "    takes no entries: entry 9 does not fit",
    ]
    full = member("n1", follower(unsaved_vote="cannot save its vote"))
    assert "cannot save" in node_lines(full)[2]
    assert "cannot save" in picture(first, full)[3]
    lines = picture(first, member("n1", follower()), member("n2", follower()))
    assert [line.split("   ")[-1].strip() for line in lines[3:5]] == [
        "silent: no route",
        "refused: 401",
    ]
    assert "  takes no entries: entry 9" in picture(first, behind)[3]
    (plain,) = plain_lines(members(first), {})
    assert " n1 silent at 900 behind 0: no route; n2 refused: 401" in plain


def peers_of(facts: dict[str, Any]) -> list[str]:
    own = said(facts)
    return [peer_text(own, peer) for peer in own.peers]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("following", "n1 at 890 behind 12"),
        ("comparing", "n1 comparing at 890 behind 12"),
        ("installing a snapshot", "n1 installing a snapshot at 890 behind 12"),
    ],
)
def test_states_of_peers(state: str, words: str) -> None:
    peer = {"node": "n1", "state": state, "matched_index": 890, "lag": 12, "reason": ""}
    assert peers_of(leader(peers=[peer])) == [words]
    nothing = peer | {"matched_index": -1, "lag": 901}
    assert peers_of(leader(peers=[nothing])) == [
        words.replace("at 890 behind 12", "empty behind 901")
    ]


def test_a_member_that_is_no_node_of_ours_has_a_row() -> None:
    lines = picture(member("n0", leader(peers=[SILENT, REFUSED])))
    assert [line.split()[0] for line in lines[2:5]] == ["ledger", "n1", "n2"]
    assert lines[3].split() == ["n1", "0", "silent:", "no", "route"]


def test_both_kinds_have_tables_of_their_own() -> None:
    both = node("n0", master_group(slaves=[]))
    both = attrs.evolve(both, groups={**both.groups, **member("n0", leader()).groups})
    view = cluster(nodes=(both,), feeds=(LEDGER_FEED,))
    assert view.groups == ("orders", "ledger")
    text = frame(view, RATES, (), width=120, height=50, colour=False)
    assert [line.split()[:4] for line in text.split("\n")[1:5]] == [
        ["in", "bytes", "node", "role"],
        ["orders", "n0", "master", "0"],
        ["in", "entries", "node", "role"],
        ["ledger", "n0", "leader", "3"],
    ]


def test_long_names_leave_room_for_numbers() -> None:
    """They are what a screen is looked at for; a name is known by its beginning."""
    end = 10**10
    ends = {"written_index": end, "synced_index": end, "committed_index": end - 5, "term": 41}
    peers = [{"node": "n1", "matched_index": end - 100_000}]
    long = "payments-eu-west-transactions"
    nodes = [
        attrs.evolve(each, groups={long: each.groups["ledger"]})
        for each in (member("n0", leader(peers=peers, **ends)), member("n1", follower(**ends)))
    ]
    rates = {long: Rates(records_per_s=123_456.0)}
    view = members(*nodes, feeds=())
    lines = frame(view, rates, (), width=80, height=24, colour=False).split("\n")
    numbers = ["41", str(end), str(end - 5)]
    assert lines[2].split() == ["payments-e…", "n0", "leader", *numbers, "123456", "running"]
    assert lines[3].split()[:-2] == ["n1", "follower", *numbers, "97.7K"]
    assert lines[1].startswith("in entries ")
    assert max(map(len, lines)) <= 80


def test_plain_lines() -> None:
    assert plain_lines(members(), RATES) == [
        "0:00:12 ledger: n0 leader in term 3 at 900 committed 880; n1 at 885 behind 15;"
        " n2 not reached yet; 2000 records/s"
    ]
    elsewhere = members(member("n1", follower()))
    assert plain_lines(elsewhere, {}) == [
        "0:00:12 ledger: n0 is said to lead in term 3; n1 at 885 committed 880"
    ]
    nobody = members(member("n1", follower(role="candidate", leader="")))
    assert plain_lines(nobody, {}) == ["0:00:12 ledger: no leader answers; n1 at 885 committed 880"]


def test_who_came_from_another_address_is_in_the_status() -> None:
    lines = node_lines(member("n0", leader(non_members=["10.9.9.9"])))
    assert "    turned away 10.9.9.9: the cluster file names no member at that address" in lines


def test_node_lines() -> None:
    found = [node_lines(attrs.evolve(each, tree=None)) for each in members().nodes]
    assert found == [
        [
            "n0: running",
            "  ledger: leader in term 3, entries 0 to 900, synced to 890, committed to 880",
            "    n1 at 885 behind 15",
            "    n2 not reached yet",
        ],
        [
            "n1: running",
            "  ledger: follower of n0 in term 3, entries 0 to 885, synced to 890, committed to 880",
        ],
        [
            "n2: running",
            "  ledger: candidate in term 3, entries 0 to 100, synced to 95, committed to 90",
        ],
    ]


EMPTY = {"begin_index": -1, "written_index": -1, "synced_index": -1, "committed_index": -1}


def test_an_empty_log_says_so() -> None:
    new = follower(role="candidate", leader="", term=-1, **EMPTY)
    assert node_lines(attrs.evolve(member("n2", new), tree=None))[1] == "  ledger: candidate, empty"
    behind = [{"node": "n1", "matched_index": -1}]
    first = leader(begin_index=0, written_index=0, synced_index=-1, committed_index=-1)
    assert node_lines(attrs.evolve(member("n0", first | {"peers": behind}), tree=None))[1:] == [
        "  ledger: leader in term 3, entry 0, nothing synced, nothing committed",
        "    n1 not reached yet",
    ]
    elsewhere = members(member("n1", follower(**EMPTY)))
    assert plain_lines(elsewhere, {}) == ["0:00:12 ledger: n0 is said to lead in term 3; n1 empty"]
    row = picture(member("n2", new))[2].split()
    assert row[2:] == ["candidate", "-", "empty", "-", "-", "knows", "no", "leader"]
    found = group_summary(elsewhere, "ledger", KINDS["dledger"].terms, ("n1",), 2.0).lines()
    assert "    n1 follower: empty" in found


def test_what_is_committed_is_the_rate_whoever_leads() -> None:
    meter = RateMeter()
    first = members(at_s=1.0)
    assert meter.rates(first) == {"ledger": Rates()}
    next_leader = member("n1", leader(leader="n1", term=4, committed_index=1080))
    later = members(next_leader, member("n0", follower(), "away"), at_s=3.0)
    assert meter.rates(later) == {"ledger": Rates(records_per_s=100.0)}
    assert meter.rates(members(member("n0", follower()), at_s=4.0)) == {"ledger": Rates()}


# ---- summary ----


def test_the_summary_for_machines() -> None:
    found = group_summary(members(), "ledger", KINDS["dledger"].terms, ("n0", "n1", "n3"), 2.0)
    summary = Summary(cluster="demo", reason="interrupted", seconds=1.0, groups=(found,))
    assert json.loads(as_json(summary))["groups"] == {
        "ledger": {
            "leader": "n0",
            "term": 3,
            "appended": 5100,
            "acknowledged": 5000,
            "outcome_unknown": 0,
            "bytes": 250000,
            "seconds": 2.0,
            "restarts": 0,
            "indexes": {
                "n0": {
                    "role": "leader",
                    "term": 3,
                    "begin_index": 0,
                    "written_index": 900,
                    "synced_index": 890,
                    "committed_index": 880,
                    "behind": 0,
                    "restarts": 0,
                    "gone": False,
                    "age_s": None,
                },
                "n1": {
                    "role": "follower",
                    "term": 3,
                    "begin_index": 0,
                    "written_index": 885,
                    "synced_index": 890,
                    "committed_index": 880,
                    "behind": 15,
                    "restarts": 0,
                    "gone": False,
                    "age_s": None,
                },
            },
            "unanswered": ["n3"],
            **{kind: {} for kind in FINDINGS},
        }
    }
    assert [each.node for each in found.behind] == ["n1"]


def test_the_summary_for_people() -> None:
    found = group_summary(members(), "ledger", KINDS["dledger"].terms, ("n0", "n1", "n3"), 2.0)
    summary = Summary(cluster="demo", reason="interrupted", seconds=1.0, groups=(found,))
    assert as_text(summary).split("\n")[1:] == [
        "  ledger: 5,000 of 5,100 records acknowledged (100 unanswered at the end, and perhaps"
        " stored), 244.1 KiB, 2500 records/s"
        ", 0 with unknown outcome, 0 restarts",
        "    n0 leads in term 3",
        "    n0 leader: entries 0 to 900, synced to 890, committed to 880",
        "    n1 follower: entries 0 to 885, synced to 890, committed to 880, behind by 15 entries",
        "    n3: did not answer",
    ]
    elsewhere = group_summary(
        members(member("n1", follower())), "ledger", KINDS["dledger"].terms, ("n1",), 0.0
    )
    assert (elsewhere.leader, elsewhere.epoch, elsewhere.behind) == ("n0", 3, ())
    candidate = members(member("n1", follower(role="candidate", leader="")))
    nobody = group_summary(candidate, "ledger", KINDS["dledger"].terms, ("n1",), 0.0)
    assert (nobody.leader, nobody.epoch, nobody.behind) == ("", -1, ())
    assert "    nobody leads" in nobody.lines()
    plain = nobody.plain()
    assert (plain["leader"], plain["term"]) == (None, None)
