"""What no single key can show: whether the parts of a cluster file fit together.

Each rule is one function that yields problems; `problems` runs them all. A problem names the keys
that led to it, so that none is reported because of a default that only stands in for a mistyped
key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address
from itertools import combinations

from actors.config.autoswitch import AutoSwitchGroup
from actors.config.bounds import ADDRESS_EXPECTED, GROUPS_MAX, NODES_MAX, is_address, is_loopback
from actors.config.dledger import CONTROLLERS
from actors.config.group import Group
from actors.config.kinds import broker_ports, kind_of
from actors.config.model import NAME_SERVER, ClusterConfig
from actors.config.problems import Problem, describe, one_of

RESERVED_GROUPS = ("api", "event_log", "events", "owners", "replicas", "roles", "rpc")
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


def _ports(config: ClusterConfig) -> Iterator[Problem]:
    groups = list(config.groups.values())
    for first, second in combinations(groups, 2):
        shared = [node for node in first.members if node in second.members]
        alone = CONTROLLERS in (first.name, second.name)
        may_share = first.mode == second.mode and kind_of(first).shares_port and not alone
        if shared and first.port == second.port and not may_share:
            yield Problem(
                ("groups", second.name, "port"),
                f"a port of its own on node {shared[0]}",
                f"{second.port}, the port of group {first.name}",
                (("groups", first.name, "port"),),
            )
        yield from _broker_ports(first, second, shared)
        yield from _broker_ports(second, first, shared)
    for group in groups:
        if config.api_port is not None and config.api_port in broker_ports(group):
            yield Problem(
                ("groups", group.name, "broker_port"),
                f"neither {config.api_port}, the api_port, nor {config.api_port + 2}",
                str(broker_ports(group)[0]),
                (("api_port",),),
            )
        if config.api_port == group.port:
            yield Problem(
                ("api_port",),
                "a port of its own",
                f"{group.port}, the port of group {group.name}",
                (("groups", group.name, "port"),),
            )


def _broker_ports(group: Group, other: Group, shared: list[str]) -> Iterator[Problem]:
    """What one group's broker_port has in common with the ports of another."""
    taken = {other.port, *broker_ports(other)}
    if shared and not taken.isdisjoint(broker_ports(group)):
        ports = ", ".join(map(str, sorted(taken)))
        yield Problem(
            ("groups", group.name, "broker_port"),
            f"it and the port 2 below not among {ports} of group {other.name} on node {shared[0]}",
            str(broker_ports(group)[0]),
            (("groups", other.name, "port"),),
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


def _names(config: ClusterConfig) -> Iterator[Problem]:
    """Whoever connects to nodes of ours is told apart by an address, which no name says."""
    masters = {
        (group.name, group.master)
        for group in config.classic_groups.values()
        if group.master_node.kind == "java"
    }
    for node, host in config.nodes.items():
        places = {(group.name, node) for group in config.groups_of(node)}
        if not is_address(host) and not (places and places <= masters):
            expected = f"{ADDRESS_EXPECTED} (a host name is for a Java master)"
            yield Problem(("nodes", node), expected, describe(host))


def _families(config: ClusterConfig) -> Iterator[Problem]:
    """A node listens on its own address alone, and connects from it."""
    versions = {
        node: ip_address(host).version for node, host in config.nodes.items() if is_address(host)
    }
    first = next(iter(versions), "")
    for node, version in versions.items():
        if version != versions[first]:
            yield Problem(
                ("nodes", node),
                f"an IPv{versions[first]} address, as {first} has",
                describe(config.nodes[node]),
                (("nodes", first),),
            )
            return


def _name_servers(config: ClusterConfig) -> Iterator[Problem]:
    for node, port in config.name_servers.items():
        key = ("name_servers", node)
        if node not in config.python_nodes:
            java = " (a Java broker, not run by us)" if node in config.nodes else ""
            yield Problem(key, one_of(node, config.python_nodes), node + java)
        for group in config.groups_of(node):
            if port in (group.port, *broker_ports(group)):
                found = f"{port}, a port of group {group.name}"
                at = (("groups", group.name, "port"),)
                yield Problem(key, f"a port of its own on node {node}", found, at)
        if port == config.api_port:
            found = f"{port}, the api_port"
            yield Problem(key, "a port of its own", found, (("api_port",),))
    for group_name in config.groups:
        if config.name_servers and group_name == NAME_SERVER:
            expected = "another name (with name_servers this one is reserved)"
            yield Problem(("groups", group_name), expected, describe(group_name))


def _registering(config: ClusterConfig) -> Iterator[Problem]:
    """Whom name servers name has to be reached there by whoever asks them (T13)."""
    brokers = [
        node
        for node in config.python_nodes
        if any(broker_ports(group) for group in config.groups_of(node))
    ]
    if config.namesrv_addr and not brokers:
        found = describe(list(config.namesrv_addr))
        yield Problem(("namesrv_addr",), "nothing without a group's broker_port", found)
    for key, table in _told(config):
        for node in table:
            if node not in brokers:
                expected = one_of(node, brokers) if brokers else "nothing without a broker_port"
                yield Problem((key, node), expected, node)
    if not set(config.name_servers) <= set(config.nodes):
        return
    remote = [host for host, _ in config.registers_with if not is_loopback(host)]
    for node in brokers if remote else ():
        told = {"advertised": config.advertised_of(node)}
        if node in config.advertised_ha:
            told["advertised_ha"] = config.advertised_ha[node]
        for key, address in told.items():
            if is_loopback(address):
                yield Problem(
                    (key, node),
                    f"an address that {remote[0]}, a name server, and its clients reach {node} at",
                    describe(address),
                    (("nodes", node), ("namesrv_addr",), ("name_servers",)),
                )


def _told(config: ClusterConfig) -> tuple[tuple[str, Mapping[str, str]], ...]:
    return ("advertised", config.advertised), ("advertised_ha", config.advertised_ha)


def _advertised(config: ClusterConfig) -> Iterator[Problem]:
    """A name server knows a broker by its address."""
    for key, table in _told(config):
        of = config.advertised_of if key == "advertised" else config.advertised_ha_of
        found = {node: of(node) for node in config.nodes}
        for group in config.groups.values():
            members = [node for node in group.members if node in found]
            for one, other in combinations(members if broker_ports(group) else (), 2):
                named = other if other in table else one
                if found[one] == found[other] and named in table:
                    another = one if named == other else other
                    expected = f"an address of its own, not that of {another}"
                    depends = (("nodes", one), ("nodes", other))
                    yield Problem((key, named), expected, describe(table[named]), depends)


def _controllers(config: ClusterConfig) -> Iterator[Problem]:
    """A replica without controllers would wait for ever."""
    for group in config.groups.values():
        if isinstance(group, AutoSwitchGroup) and not config.controllers_of(group):
            expected = "addresses of controllers here, or [controllers] in this file"
            yield Problem(("groups", group.name, "controllers"), expected, "neither")


def _broker_ids(config: ClusterConfig) -> Iterator[Problem]:
    """Two slaves of one id would push each other out of the routes."""
    registering = [group for group in config.groups.values() if broker_ports(group)]
    members = {node for group in registering for node in group.members}
    for node in config.broker_ids:
        if node not in members or not config.registers_with:
            expected = "a member of a group that registers with name servers"
            yield Problem(("broker_ids", node), expected, describe(node))
    for group in registering:
        for (one, its), (other, others) in combinations(config.slave_ids_of(group).items(), 2):
            if its == others:
                named = other if other in config.broker_ids else one
                expected = f"an id of its own, not that of {one if named == other else other}"
                yield Problem(("broker_ids", named), expected, str(its))


def _groups(config: ClusterConfig) -> Iterator[Problem]:
    for group in config.groups.values():
        yield from kind_of(group).problems(group, config.nodes)


_RULES: tuple[Callable[[ClusterConfig], Iterator[Problem]], ...] = (
    _sizes,
    _reserved,
    _names,
    _families,
    _groups,
    _ports,
    _api_addresses,
    _name_servers,
    _registering,
    _advertised,
    _controllers,
    _broker_ids,
)
