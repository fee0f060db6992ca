"""What no single key of an auto-switch group can show: whether its keys and the nodes fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from itertools import combinations

from actors.config.autoswitch import AutoSwitchGroup
from actors.config.bounds import endpoint_of, is_loopback
from actors.config.commit_log_rules import commit_log_problems
from actors.config.problems import Problem, describe, one_of, suggestion

WITH_TWO = (
    "stated with two replicas: 1 goes on alone and may lose with the master what it answered alone,"
    " 2 stops when one is gone"
)


def autoswitch_problems(group: AutoSwitchGroup, nodes: Mapping[str, str]) -> Iterator[Problem]:
    """Yield every problem of one group's table in the cluster file.

    Args:
        nodes: the addresses of all nodes of the file, by name.
    """
    yield from _members(group, nodes)
    yield from _learners(group)
    yield from _least(group)
    yield from _addresses(group, nodes)
    yield from commit_log_problems(group)


def _members(group: AutoSwitchGroup, nodes: Mapping[str, str]) -> Iterator[Problem]:
    base = ("groups", group.name, "members")
    if not group.members:
        yield Problem(base, "at least one node", "none")
    for i, node in enumerate(group.members):
        if node not in nodes:
            expected = f"one of the nodes {', '.join(nodes)}{suggestion(node, nodes)}"
            yield Problem((*base, i), expected, describe(node), (("nodes",), base))
        if node in group.members[:i]:
            yield Problem((*base, i), "each member once", f"{describe(node)} again", (base,))


def _learners(group: AutoSwitchGroup) -> Iterator[Problem]:
    base = ("groups", group.name, "learners")
    depends = (("groups", group.name, "members"),)
    for node in group.election_priority:
        if node not in group.voters:
            expected = one_of(node, group.voters)
            key = ("groups", group.name, "election_priority", node)
            yield Problem(key, expected, describe(node), (*depends, base))
    for i, node in enumerate(group.learners):
        if node in group.learners[:i]:
            yield Problem((*base, i), "each learner once", f"{describe(node)} again", (base,))
        if node not in group.members:
            expected = f"one of the members {', '.join(group.members)}"
            hint = suggestion(node, group.members)
            yield Problem((*base, i), expected + hint, describe(node), depends)
    if group.members and not group.voters:
        yield Problem(base, "a member that is no learner: learners are never elected", "all")


def _least(group: AutoSwitchGroup) -> Iterator[Problem]:
    base = ("groups", group.name)
    depends = ((*base, "members"), (*base, "learners"))
    least, count = group.min_in_sync_replicas, len(group.voters)
    if least is None:
        yield Problem((*base, "min_in_sync_replicas"), WITH_TWO, "nothing", depends)
    for key in ("min_in_sync_replicas", "in_sync_replicas"):
        found = getattr(group, key)
        if found is not None and count and found > count:
            expected = f"at most {count}, the number of replicas that are no learners"
            yield Problem((*base, key), expected, str(found), depends)
    if group.all_ack_in_sync_state_set and group.in_sync_replicas != 1:
        expected = "nothing unless all_ack_in_sync_state_set = false"
        by = ((*base, "all_ack_in_sync_state_set"),)
        yield Problem((*base, "in_sync_replicas"), expected, str(group.in_sync_replicas), by)


def _addresses(group: AutoSwitchGroup, nodes: Mapping[str, str]) -> Iterator[Problem]:
    """A replica is known by address and `broker_port`, and has to reach its controllers."""
    known = [node for node in dict.fromkeys(group.members) if node in nodes]
    for one, other in combinations(known, 2):
        if nodes[one] == nodes[other]:
            expected = f"another address than {one}'s: both listen on port {group.port}"
            depends = (("nodes", one), ("groups", group.name, "members"))
            yield Problem(("nodes", other), expected, describe(nodes[other]), depends)
    for i, controller in enumerate(group.controllers):
        key = ("groups", group.name, "controllers", i)
        host, _ = endpoint_of(controller)
        for node in known:
            if (why := _cannot_reach(nodes[node], host)) and not _is_name(host):
                expected = f"an address that {node} reaches from {nodes[node]}: {why}"
                yield Problem(key, expected, describe(controller), (("nodes", node),))
                break


def _cannot_reach(own: str, other: str) -> str:
    if _is_name(own) or _is_name(other):
        return ""
    if ip_address(own).version != ip_address(other).version:
        return "one is IPv4, the other IPv6"
    if is_loopback(own) != is_loopback(other):
        return "one of them is a loopback address"
    return ""


def _is_name(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return True
    return False
