"""What no single key of a DLedger group can show: whether its keys fit together and the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from actors.config.bounds import NODES_MAX
from actors.config.dledger import CONTROLLERS, DLedgerGroup
from actors.config.problems import Problem, describe, suggestion

LOW_HIGH = (
    ("vote_interval_min_s", "vote_interval_max_s"),
    ("take_over_interval_min_s", "take_over_interval_max_s"),
    ("disk_check_ratio", "disk_clean_ratio"),
    ("max_entry_bytes", "append_pending_bytes"),
    ("max_entry_bytes", "receive_pending_bytes"),
)
"""The first of each pair may not be above the second."""


def ledger_problems(group: DLedgerGroup, nodes: Mapping[str, str]) -> Iterator[Problem]:
    """Yield every problem of one group's table in the cluster file.

    Args:
        nodes: the addresses of all nodes of the file, by name.
    """
    yield from _members(group, nodes)
    yield from _members_before(group)
    yield from _addresses(group, nodes)
    yield from _candidates(group)
    yield from _preferred(group)
    yield from _numbers(group)
    yield from _term_entry(group)
    yield from _controllers(group)


def _members(group: DLedgerGroup, nodes: Mapping[str, str]) -> Iterator[Problem]:
    base = ("groups", group.name, "members")
    count = len(group.member_nodes)
    if not 1 <= count <= NODES_MAX:
        yield Problem(base, f"from 1 to {NODES_MAX} members", str(count))
    seen: set[str] = set()
    for i, member in enumerate(group.member_nodes):
        if member.node not in nodes:
            hint = suggestion(member.node, nodes)
            expected = f"one of the nodes {', '.join(nodes)}{hint}"
            yield Problem((*base, i), expected, describe(member.node), (("nodes",), base))
        if member.node in seen:
            yield Problem((*base, i), "each member once", f"{describe(member.node)} again", (base,))
        seen.add(member.node)
    if count and len(group.java_nodes) == count:
        yield Problem(base, "a member that is not a Java node", "only Java nodes", (base,))


def _members_before(group: DLedgerGroup) -> Iterator[Problem]:
    """Majorities of two lists that differ by one member have a member in common."""
    before = group.members_before
    if before and len(set(before) ^ set(group.members)) > 1:
        expected = f"the members {', '.join(group.members)} with one more or one less"
        depends = (("groups", group.name, "members"),)
        found = ", ".join(before)
        yield Problem(("groups", group.name, "members_before"), expected, found, depends)


def _addresses(group: DLedgerGroup, nodes: Mapping[str, str]) -> Iterator[Problem]:
    """All listen on the group's port, and a vote of one must not be taken for another's."""
    known = [name for name in group.members if name in nodes]
    for one, other in combinations(dict.fromkeys(known), 2):
        if nodes[one] == nodes[other]:
            expected = f"another address than {one}'s: both listen on port {group.port}"
            depends = (("nodes", one), ("groups", group.name, "members"))
            yield Problem(("nodes", other), expected, describe(nodes[other]), depends)


def _candidates(group: DLedgerGroup) -> Iterator[Problem]:
    base = ("groups", group.name, "members")
    for i, member in enumerate(group.member_nodes):
        if member.kind == "java" and not member.candidate:
            expected = "true: what a Java node does is set where it runs"
            yield Problem((*base, i, "candidate"), expected, "false", (base,))
    if group.member_nodes and not group.standing:
        expected = "a member that stands for election"
        yield Problem(base, expected, "candidate = false of every one", (base,))


def _preferred(group: DLedgerGroup) -> Iterator[Problem]:
    key = ("groups", group.name, "preferred_leaders")
    for i, name in enumerate(group.preferred_leaders):
        if name not in group.members:
            expected = f"one of the members {', '.join(group.members)}"
            hint = suggestion(name, group.members)
            depends = (("groups", group.name, "members"),)
            yield Problem((*key, i), expected + hint, describe(name), depends)
        elif name not in group.standing:
            expected = "a member that stands for election"
            depends = (("groups", group.name, "members"),)
            yield Problem((*key, i), expected, describe(name), depends)


def _numbers(group: DLedgerGroup) -> Iterator[Problem]:
    base = ("groups", group.name)
    for low, high in LOW_HIGH:
        one, other = getattr(group, low), getattr(group, high)
        if one > other:
            yield Problem((*base, low), f"at most {high}, {other:g}", f"{one:g}", ((*base, high),))
    most = group.entry_body_bytes_max
    if group.max_entry_bytes > most:
        expected = f"at most {most}, what fits one of data_file_bytes"
        depends = ((*base, "data_file_bytes"),)
        yield Problem((*base, "max_entry_bytes"), expected, str(group.max_entry_bytes), depends)


def _term_entry(group: DLedgerGroup) -> Iterator[Problem]:
    key = ("groups", group.name, "term_entry")
    stated = group.term_entry is not None or group.compat is not None
    if group.controller is not None:
        return  # Java's controllers pass over it, too
    if group.java_nodes and not group.led_by_java and not stated:
        java = ", ".join(group.java_nodes)
        expected = (
            f'"empty" or "none", stated: {java} is a Java member, which shows its'
            " readers the entry that opens a term"
        )
        yield Problem(key, expected, "nothing", (("groups", group.name, "members"),))


def _controllers(group: DLedgerGroup) -> Iterator[Problem]:
    """Controllers decide for others: nothing of theirs may be looser than the safe rules."""
    base = ("groups", group.name)
    if group.controller is None:
        if group.name == CONTROLLERS:
            expected = "another name ([controllers] is the table of this one)"
            yield Problem(base, expected, describe(group.name))
        return
    if group.name != CONTROLLERS:
        yield Problem((*base, "controller"), "[controllers], a table of its own", "a group's key")
    if len(group.members) % 2 == 0:
        expected = "an odd number of nodes, such as 1 or 3: a majority of them decides"
        yield Problem((*base, "members"), expected, str(len(group.members)))
    for key, only in (("store", "file"), ("durability", "synced"), ("compat", None)):
        if (found := getattr(group, key)) != only:
            expected = f"{'nothing' if only is None else describe(only)}: controllers decide by it"
            yield Problem((*base, key), expected, describe(found))
