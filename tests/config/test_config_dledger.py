"""A DLedger group's keys: limits, defaults, and how they fit together."""

from __future__ import annotations

from typing import Any

import pytest

from actors.config import DLedgerGroup, check, kinds, loads, settings
from actors.config.bounds import Mismatch
from actors.config.dledger_rules import ledger_problems
from actors.config.members import MemberNode
from actors.errors import ConfigError

FILE = """version = 1
name = "demo"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
n2 = "127.0.0.3"
[groups.ledger]
mode = "dledger"
members = ["n0", "n1", { node = "n2", kind = "java" }]
term_entry = "none"
preferred_leaders = ["n1"]
[groups.other]
mode = "dledger"
members = ["n0", "n1"]
"""
NODES = {"n0": "127.0.0.1", "n1": "127.0.0.2", "n2": "127.0.0.3"}


def group(**keys: Any) -> DLedgerGroup:
    return DLedgerGroup(**{"name": "ledger", "members": ("n2", "n0", "n1")} | keys)


def lines(found: DLedgerGroup, nodes: dict[str, str] = NODES) -> list[str]:
    return [problem.line("F") for problem in ledger_problems(found, nodes)]


def test_the_defaults_are_upstreams_and_fit_together() -> None:
    found = group()
    assert lines(found) == []
    assert found.members == ("n0", "n1", "n2")
    assert found.quorum == 2
    assert found.opens_term_with == "empty"
    assert found.max_entry_bytes == (4 << 20) - 48
    assert (found.heartbeat_interval_s, found.heartbeat_leaks) == (2.0, 3)


def test_a_small_data_file_bounds_the_entries() -> None:
    assert group(data_file_bytes=4096).max_entry_bytes == 4096 - 8 - 48
    assert lines(group(data_file_bytes=4096, max_entry_bytes=4041)) == [
        "F: key groups.ledger.max_entry_bytes: expected at most 4040, what fits one of"
        " data_file_bytes, found 4041"
    ]


@pytest.mark.parametrize(("count", "quorum"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_quorum_is_more_than_half(count: int, quorum: int) -> None:
    assert group(members=tuple(f"n{i}" for i in range(count))).quorum == quorum


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"members": ("n0", "n3")}, "members[1]: expected one of the nodes n0, n1, n2"),
        ({"members": ("n0", "n0")}, 'members[1]: expected each member once, found "n0" again'),
        ({"members": ()}, "members: expected from 1 to 64 members, found 0"),
        ({"members": (MemberNode("n0", "java"),), "term_entry": "none"}, "members: expected a"),
        (
            {"members": ("n0", MemberNode("n1", candidate=False)), "preferred_leaders": ("n1",)},
            'preferred_leaders[0]: expected a member that stands for election, found "n1"',
        ),
        (
            {"members": (MemberNode("n0", candidate=False), MemberNode("n1", candidate=False))},
            "members: expected a member that stands for election, found candidate = false",
        ),
        (
            {"members": ("n0", MemberNode("n1", "java", candidate=False)), "term_entry": "none"},
            "members[1].candidate: expected true: what a Java node does is set where it runs",
        ),
        ({"preferred_leaders": ("n9",)}, "preferred_leaders[0]: expected one of the members n0"),
        ({"vote_interval_min_s": 2.0}, "vote_interval_min_s: expected at most vote_interval_max"),
        ({"disk_check_ratio": 0.9}, "disk_check_ratio: expected at most disk_clean_ratio, 0.85"),
        (
            {"members_before": ("n0",)},
            "members_before: expected the members n0, n1, n2 with one more or one less, found n0",
        ),
        (
            {"members_before": ("n0", "n1", "n9")},
            "members_before: expected the members n0, n1, n2 with one more or one less, found n0, ",
        ),
        (
            {"members": ("n0", MemberNode("n1", "java"))},
            'term_entry: expected "empty" or "none", stated',
        ),
    ],
)
def test_what_does_not_fit_is_named(keys: dict[str, Any], line: str) -> None:
    (found,) = lines(group(**keys))
    assert found.startswith("F: key groups.ledger." + line)


@pytest.mark.parametrize("word", ["message", "mesage", "emtpy"])
def test_a_term_is_opened_by_one_of_two_words(word: str) -> None:
    """What is proposed instead is nothing that is refused as well."""
    with pytest.raises(ConfigError) as caught:
        loads(FILE.replace('term_entry = "none"', f'term_entry = "{word}"'), "/x/f.toml")
    line = str(caught.value)
    assert "key groups.ledger.term_entry: expected" in line
    assert f'found "{word}"' in line
    assert "message" not in line.replace(f'found "{word}"', "")


@pytest.mark.parametrize("before", [("n0", "n1"), ("n3", "n2", "n1", "n0"), ("n1", "n2", "n0")])
def test_members_differ_from_those_before_by_one_at_most(before: tuple[str, ...]) -> None:
    assert lines(group(members_before=before)) == []


def test_members_on_one_address_are_refused() -> None:
    found = lines(group(), NODES | {"n2": "127.0.0.1"})
    assert found == [
        "F: key nodes.n2: expected another address than n0's: both listen on port 20911,"
        ' found "127.0.0.1"'
    ]


def test_a_stated_term_entry_is_taken_beside_java_members() -> None:
    mixed = ("n0", MemberNode("n1", "java"))
    assert lines(group(members=mixed, term_entry="none")) == []
    assert lines(group(members=mixed, compat="upstream")) == []
    assert group(compat="upstream").opens_term_with == "none"
    brokers = (MemberNode("n0", candidate=False), *(MemberNode(f"n{i}", "java") for i in (1, 2)))
    assert lines(group(members=brokers)) == []  # none of ours opens a term


@pytest.mark.parametrize(
    "keys",
    [
        {"port": 0},
        {"heartbeat_leaks": 0},
        {"data_file_bytes": 4097},
        {"index_file_bytes": 33},
        {"max_entry_bytes": 4 << 20},
        {"waiting_max": 0},
        {"name": "a b"},
    ],
)
def test_a_value_outside_its_limits_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(Mismatch, match="expected"):
        group(**keys)


def test_a_file_with_ledgers_is_read_kept_and_explained() -> None:
    found = loads(FILE, "/x/f.toml")
    ledger = found.groups["ledger"]
    assert isinstance(ledger, DLedgerGroup)
    assert (ledger.members, ledger.java_nodes) == (("n0", "n1", "n2"), ("n2",))
    assert found.python_nodes == ("n0", "n1")
    assert settings(found)["groups.ledger.members"] == "[n0, n1, n2 (java)]"
    page = check.render(found, {})
    assert "member of ledger, member of other" in page
    assert "127.0.0.1:20911  members and clients of ledger, other" in page
    assert "n2 is a Java member: it acknowledges and votes before it has synced" in page
    assert "killed as it writes an entry it keeps the beginning, as an entry like others" in page
    assert "2 of 3 members have it, each on its disk" in page


def test_a_member_among_brokers_that_does_not_stand_is_explained() -> None:
    old = 'members = ["n0", "n1", { node = "n2", kind = "java" }]\nterm_entry = "none"\n'
    new = (
        'members = [{ node = "n0", candidate = false }, { node = "n1", kind = "java" },'
        ' { node = "n2", kind = "java" }]\n'
    )
    text = FILE.partition("[groups.other]")[0]
    found = loads(text.replace(old, new), "/x/f.toml")
    ledger = found.groups["ledger"]
    assert isinstance(ledger, DLedgerGroup)
    assert (ledger.standing, ledger.java_nodes) == (("n1", "n2"), ("n1", "n2"))
    kept = settings(found)["groups.ledger.members"]
    assert kept == "[n0 (never leads), n1 (java), n2 (java)]"
    page = check.render(found, {})
    assert "its leader, a Java node, says so" in page
    assert "as DLedger's" in page
    assert "n0 does not stand for election: while it alone has an entry" in page
    assert "opens each term" not in page
    assert loads(text.replace(old, new.replace("false", "true") + 'term_entry = "none"\n'), "/f")


def test_groups_of_both_kinds_do_not_share_a_port() -> None:
    classic = '[groups.orders]\nmode = "classic"\nmaster = "n0"\nport = 20911\n'
    with pytest.raises(ConfigError) as caught:
        loads(FILE + classic, "/x/f.toml")
    assert [line.split(": expected ")[0] for line in caught.value.problems] == [
        "/x/f.toml: key groups.orders.port"
    ] * 2


def test_what_is_only_written_survives_no_loss_of_power_and_says_so() -> None:
    synced = kinds.guarantee_of(group()).holds_after
    assert synced == "loss of any one node; restarts of all; power loss of all nodes"
    written = kinds.guarantee_of(group(durability="written")).holds_after
    assert written.startswith("loss of any one node for good; kills and restarts of all processes;")
    assert "not power loss, even of one node" in written
    assert "elects before that node has caught up" in written
    alone = kinds.guarantee_of(group(members=("n0",), durability="written")).holds_after
    assert alone == "loss of no node for good; kills and restarts of all processes; not power loss"


def test_the_promise_of_a_group_in_memory_says_what_a_restart_costs() -> None:
    promise = kinds.guarantee_of(group(store="memory"))
    assert promise.holds_after == "loss or restart of any one node at a time; all are lost with all"
    [note] = promise.notes
    assert "all members must be there to elect one" in note
    assert kinds.guarantee_of(group()).notes == ()
