"""What no single key of a classic group can show: whether its keys fit together and the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

import attrs

from actors.config.classic import ClassicGroup
from actors.config.commit_log_rules import commit_log_problems
from actors.config.problems import KeyPath, Problem, describe, suggestion


def classic_problems(group: ClassicGroup, nodes: Mapping[str, str]) -> Iterator[Problem]:
    """Yield every problem of one group's table in the cluster file.

    Args:
        nodes: the addresses of all nodes of the file, by name.
    """
    yield from _members(group, nodes)
    yield from _copies(group)
    yield from _policies(group)
    yield from _addresses(group, nodes)
    yield from commit_log_problems(group)
    yield from _master_port(group)


def _members(group: ClassicGroup, nodes: Mapping[str, str]) -> Iterator[Problem]:
    known = ", ".join(nodes)
    base = ("groups", group.name)
    named: list[tuple[KeyPath, str]] = [((*base, "master"), group.master)]
    named += [((*base, "slaves", i), slave.node) for i, slave in enumerate(group.slaves)]
    for key, node in named:
        if node not in nodes:
            hint = suggestion(node, nodes)
            depends: tuple[KeyPath, ...] = (("nodes",), key[:3])
            yield Problem(key, f"one of the nodes {known}{hint}", describe(node), depends)
    seen: set[str] = set()
    for key, node in named:
        if node in seen and node == group.master:
            yield Problem(
                key,
                "slaves other than the master",
                describe(node),
                ((*base, "master"), (*base, "slaves")),
            )
        elif node in seen:
            yield Problem(key, "each slave once", f"{describe(node)} again", (key[:3],))
        seen.add(node)


def _copies(group: ClassicGroup) -> Iterator[Problem]:
    if group.master_node.kind == "java":
        return  # the Java master decides; the key says nothing here
    base = ("groups", group.name)
    most, members = len(set(group.counting_nodes)), len(set(group.members))
    depends = ((*base, "slaves"), (*base, "ack_policy"))
    if group.ack_policy == "4.x" and most < 2:
        yield Problem((*base, "ack_policy"), "a slave that counts", '"4.x"', depends[:1])
    for key in ("copies",) if group.ack_policy == "copies" else _NUMBERS_5:
        wanted = getattr(group, key)
        expected = f"at most {members}, the number of the group's nodes"
        if most < wanted <= members:
            expected = f'at most {most} (Java slaves do not count where durability = "synced")'
        if wanted > most:
            yield Problem((*base, key), expected, str(wanted), depends)


_NUMBERS_5 = ("in_sync_replicas", "min_in_sync_replicas")
_POLICY_KEYS = {
    "copies": ("copies",),
    "4.x": ("ha_slave_fallbehind_max_bytes",),
    "5.x": (
        *_NUMBERS_5,
        "enable_slave_acting_master",
        "enable_auto_in_sync_replicas",
        "all_ack_in_sync_state_set",
    ),
}


def _policies(group: ClassicGroup) -> Iterator[Problem]:
    """A key that the chosen policy does not read is a mistake, not something to pass over (T31)."""
    base = ("groups", group.name)
    for policy, keys in _POLICY_KEYS.items():
        for key in keys:
            value = getattr(group, key)
            if policy != group.ack_policy and value != _default(group, key):
                expected = f'nothing unless ack_policy = "{policy}"'
                depends = ((*base, "ack_policy"),)
                yield Problem((*base, key), expected, describe(value), depends)
    if group.ack_policy == "5.x":
        yield from _in_sync_keys(group)


def _default(group: ClassicGroup, key: str) -> object:
    default = getattr(attrs.fields(ClassicGroup), key).default
    return default.factory(group) if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]


def _in_sync_keys(group: ClassicGroup) -> Iterator[Problem]:
    base = ("groups", group.name)
    auto, acting = group.enable_auto_in_sync_replicas, group.enable_slave_acting_master
    all_ack, least = group.all_ack_in_sync_state_set, group.min_in_sync_replicas
    if auto and not acting:
        expected = "false unless enable_slave_acting_master"
        yield Problem((*base, "enable_auto_in_sync_replicas"), expected, "true")
    if least > 1 and not auto and not all_ack:
        expected = "1 unless enable_auto_in_sync_replicas or all_ack_in_sync_state_set"
        yield Problem((*base, "min_in_sync_replicas"), expected, str(least))
    if all_ack and (acting or group.in_sync_replicas > 1):
        expected = "false with in_sync_replicas or enable_slave_acting_master"
        yield Problem((*base, "all_ack_in_sync_state_set"), expected, "true")
    elif auto and least > group.in_sync_replicas:
        expected = f"at most in_sync_replicas, {group.in_sync_replicas}"
        yield Problem((*base, "min_in_sync_replicas"), expected, str(least))


def _addresses(group: ClassicGroup, nodes: Mapping[str, str]) -> Iterator[Problem]:
    base = ("groups", group.name)
    known = [node for node in dict.fromkeys(group.members) if node in nodes]
    for one, other in combinations(known, 2):
        address = nodes[other]
        if nodes[one] != address:
            continue
        if group.master not in (one, other):
            why = f"another address than {one}'s: slaves are told apart by their addresses"
        elif max(group.sure_copies, group.in_sync_replicas) > 1:
            why = f"another address than {one}'s: group {group.name} counts copies by address"
        else:
            continue
        depends = (("nodes", one), (*base, "slaves"))
        yield Problem(("nodes", other), why, describe(address), depends)


def _master_port(group: ClassicGroup) -> Iterator[Problem]:
    base = ("groups", group.name)
    if group.master_broker_port is not None:
        is_java = group.master_node.kind == "java"
        if group.broker_port is None or not is_java:
            yield Problem(
                (*base, "master_broker_port"),
                "nothing without broker_port" if is_java else "nothing without a Java master",
                str(group.master_broker_port),
                ((*base, "broker_port"), (*base, "master")),
            )
