"""What no single key can show: whether the parts of a cluster file fit together.

Each rule is one function that yields problems; `problems` runs them all. A problem names the keys
that led to it, so that none is reported because of a default that only stands in for a mistyped
key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, pairwise

import attrs

from actors.config.bounds import GROUPS_MAX, NODES_MAX
from actors.config.classic import ClassicGroup
from actors.config.dledger import DLedgerGroup
from actors.config.dledger_rules import ledger_problems
from actors.config.model import ClusterConfig
from actors.config.strict import KeyPath, Problem, describe, suggestion

RESERVED_GROUPS = ("api", "event_log", "events", "roles", "rpc")
"""Names of a node's own children in the supervision tree."""
RESERVED_NODES = ("feed",)
"""The feeder's folder beside the nodes' folders."""


def problems(config: ClusterConfig) -> list[Problem]:
    """Every problem of how the parts fit together, in the order of the rules below."""
    return [problem for rule in _RULES for problem in rule(config)]


def _sizes(config: ClusterConfig) -> Iterator[Problem]:
    for key, count, most in (
        ("nodes", len(config.nodes), NODES_MAX),
        ("groups", len(config.groups), GROUPS_MAX),
    ):
        if not 1 <= count <= most:
            yield Problem((key,), f"from 1 to {most} {key}", str(count))


def _reserved(config: ClusterConfig) -> Iterator[Problem]:
    for node in config.nodes:
        if node in RESERVED_NODES:
            yield Problem(("nodes", node), "another name (this one is reserved)", describe(node))
    for group in config.groups:
        if group in RESERVED_GROUPS:
            yield Problem(("groups", group), "another name (this one is reserved)", describe(group))


def _members(config: ClusterConfig) -> Iterator[Problem]:
    known = ", ".join(config.nodes)
    for group in config.classic_groups.values():
        base = ("groups", group.name)
        places: list[tuple[KeyPath, str]] = [((*base, "master"), group.master)]
        places += [((*base, "slaves", i), slave.node) for i, slave in enumerate(group.slaves)]
        for key, node in places:
            if node not in config.nodes:
                hint = suggestion(node, config.nodes)
                depends: tuple[KeyPath, ...] = (("nodes",), key[:3])
                yield Problem(key, f"one of the nodes {known}{hint}", describe(node), depends)
        seen: set[str] = set()
        for key, node in places:
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


def _copies(config: ClusterConfig) -> Iterator[Problem]:
    for group in config.classic_groups.values():
        if group.master_node.kind == "java":
            continue  # the Java master decides; the key says nothing here
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


def _policies(config: ClusterConfig) -> Iterator[Problem]:
    """A key that the chosen policy does not read is a mistake, not something to pass over (T31)."""
    for group in config.classic_groups.values():
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


def _addresses(config: ClusterConfig) -> Iterator[Problem]:
    for group in config.classic_groups.values():
        base = ("groups", group.name)
        nodes = [node for node in dict.fromkeys(group.members) if node in config.nodes]
        for one, other in combinations(nodes, 2):
            address = config.nodes[other]
            if config.nodes[one] != address:
                continue
            if group.master not in (one, other):
                why = f"another address than {one}'s: slaves are told apart by their addresses"
            elif max(group.sure_copies, group.in_sync_replicas) > 1:
                why = f"another address than {one}'s: group {group.name} counts copies by address"
            else:
                continue
            depends = (("nodes", one), (*base, "slaves"))
            yield Problem(("nodes", other), why, describe(address), depends)


def _ports(config: ClusterConfig) -> Iterator[Problem]:
    groups = list(config.groups.values())
    for first, second in combinations(groups, 2):
        shared = [node for node in first.members if node in second.members]
        told_apart = isinstance(first, DLedgerGroup) and isinstance(second, DLedgerGroup)
        if shared and first.port == second.port and not told_apart:
            yield Problem(
                ("groups", second.name, "port"),
                f"a port of its own on node {shared[0]}",
                f"{second.port}, the port of group {first.name}",
                (("groups", first.name, "port"),),
            )
    for group in groups:
        if config.api_port == group.port:
            yield Problem(
                ("api_port",),
                "a port of its own",
                f"{group.port}, the port of group {group.name}",
                (("groups", group.name, "port"),),
            )


def _api_addresses(config: ClusterConfig) -> Iterator[Problem]:
    if config.api_port is None:
        return
    for one, other in combinations(config.python_nodes, 2):
        if config.nodes[one] == config.nodes[other]:
            yield Problem(
                ("api_port",),
                "nodes on different addresses",
                f"{one} and {other} on {config.nodes[one]}",
                (("nodes", one), ("nodes", other)),
            )


def _group_limits(config: ClusterConfig) -> Iterator[Problem]:
    for group in config.classic_groups.values():
        yield from _limits_of(group)


def _limits_of(group: ClassicGroup) -> Iterator[Problem]:
    base = ("groups", group.name)
    message, segment = group.max_message_bytes, group.segment_bytes
    if message >= segment:
        yield Problem(
            (*base, "max_message_bytes"),
            f"less than segment_bytes, {segment}",
            str(message),
            ((*base, "segment_bytes"),),
        )
    if message > group.append_pending_bytes:
        yield Problem(
            (*base, "append_pending_bytes"),
            f"at least max_message_bytes, {message}",
            str(group.append_pending_bytes),
            ((*base, "max_message_bytes"),),
        )
    heartbeat, silence = group.ha_send_heartbeat_interval_s, group.ha_housekeeping_interval_s
    if heartbeat >= silence:
        yield Problem(
            (*base, "ha_send_heartbeat_interval_s"),
            f"less than ha_housekeeping_interval_s, {silence:g}",
            f"{heartbeat:g}",
            ((*base, "ha_housekeeping_interval_s"),),
        )
    ratios = ("disk_max_used_ratio", "disk_clean_forcibly_ratio", "disk_full_ratio")
    for low, high in pairwise(ratios):
        if getattr(group, low) > getattr(group, high):
            yield Problem(
                (*base, low),
                f"at most {high}, {getattr(group, high):g}",
                f"{getattr(group, low):g}",
                ((*base, high),),
            )


def _ledgers(config: ClusterConfig) -> Iterator[Problem]:
    for group in config.groups.values():
        if isinstance(group, DLedgerGroup):
            yield from ledger_problems(group, config.nodes)


_RULES: tuple[Callable[[ClusterConfig], Iterator[Problem]], ...] = (
    _sizes,
    _reserved,
    _members,
    _copies,
    _policies,
    _addresses,
    _ports,
    _api_addresses,
    _group_limits,
    _ledgers,
)
