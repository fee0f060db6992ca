"""The cluster file as frozen classes: every key with its meaning, unit, default, upstream name.

Upstream: apache/rocketmq 5.3.3, `common/.../BrokerConfig.java`; `classic` and `dledger` say theirs.
Differs: one file for the whole cluster instead of a properties file per broker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import attrs

from actors.config import bounds
from actors.config.autoswitch import AutoSwitchGroup
from actors.config.bounds import INTERVAL, PATH, PORT, Within
from actors.config.classic import ClassicGroup
from actors.config.dledger import CONTROLLERS, DLedgerGroup
from actors.config.group import Group

EventsPolicy: TypeAlias = Literal["drop", "stop"]

FORMAT_VERSION = 1
NAME_SERVER = "name_server"
"""A node's name server in its tree, and its folder."""
DRAIN_STANDS_S = 3.0
"""An ordered stop waits so long for peers that take nothing meanwhile: one that hangs, or whose
machine has gone, stays connected until housekeeping ends that.
"""


def _mapping(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(values))


@attrs.frozen(kw_only=True)
class EventsConfig:
    """`[events]`: each node's own record of its decisions, in `DATA_DIR/NODE/events/`.

    Attributes:
        policy: when the log cannot take an event: "drop" it and say which were dropped, or "stop"
            the node.
        pending_max_count: events that may wait in memory.
        roll_count: events at which a file is closed and published.
        roll_interval_s: age at which it is.
        retention_bytes: published files above this sum are deleted, oldest first.
        retention_days: and older ones than this.
    """

    policy: EventsPolicy = "drop"
    pending_max_count: int = attrs.field(default=65_536, validator=bounds.EVENTS)
    roll_count: int = attrs.field(default=50_000, validator=bounds.EVENTS)
    roll_interval_s: float = attrs.field(default=10.0, validator=INTERVAL)
    retention_bytes: int = attrs.field(default=1 << 30, validator=bounds.EVENT_BYTES)
    retention_days: int = attrs.field(default=7, validator=bounds.DAYS)


@attrs.frozen(kw_only=True)
class FeedConfig:
    """`[demo.feed]`: something to replicate; only `python -m actors.cluster` reads it.

    Attributes:
        file: each line is one record. Relative to the cluster file. It is read again from its start
            when it ends.
        rate_per_s: records per second and group; 0 = as fast as they are accepted.
    """

    file: str = attrs.field(validator=PATH)
    rate_per_s: int = attrs.field(default=2000, validator=bounds.RATE_RECORDS)


@attrs.frozen(kw_only=True)
class DemoConfig:
    """`[demo]`: what makes an example move."""

    feed: FeedConfig | None = None


@attrs.frozen(kw_only=True)
class ClusterConfig:
    """A whole cluster file.

    Attributes:
        version: the version of the file's format, 1.
        name: the cluster's name; kept in each node's identity file. Upstream: brokerClusterName,
            DefaultCluster.
        data_dir: absolute; each node's data is in `DATA_DIR/NODE/`. In the file it is relative to
            the file.
        nodes: name -> IP address, the one it listens on and connects from; of a Java master it may
            be a host name, which each attempt to connect resolves anew. Upstream: brokerIP1,
            brokerIP2.
        groups: name -> group. The one that `[controllers]` makes is among them: its `nodes` are the
            group's members, its further keys those of a DLedger group and of `ControllerSettings`.
        name_servers: node -> port of a RocketMQ name server that the node has beside its groups, at
            its own address. Upstream: listenPort of namesrv.properties, 9876.
        namesrv_addr: further name servers, "HOST:PORT" each; host names are resolved as those of
            `nodes`. The members of groups with a `broker_port` register with these and with those
            of `name_servers`, and a slave follows the Java master that they name. Upstream:
            namesrvAddr.
        advertised: node -> IP address under which others reach it, where that is another one than
            in `nodes`; registrations name it. Upstream: brokerIP1 and brokerIP2, guessed from the
            machine's first network card where they are not set (T13).
        advertised_ha: node -> IP address under which slaves reach its group's `port`, where that is
            another one than `advertised`, which is then for clients alone: the node's
            `broker_port` listens there, too, if its machine has that address. Upstream: brokerIP2
            beside brokerIP1.
        broker_ids: node -> the id under which it registers as a slave, where that is not its place
            among the group's slaves. Upstream: brokerId.
        api_port: where every node serves its API to the members' addresses; None = only on its Unix
            socket. Nodes on different machines need it: a slave asks its master there how far the
            log is acknowledged, and shows no records until it knows. What is not a read passes
            there only with the cluster's secret, `DATA_DIR/cluster.secret`.
        api_clients: clients that may be connected to one node's API at a time, over its Unix socket
            and `api_port` together; a further one is turned away. 1 to 10,000; each takes a
            descriptor, and some 50 KiB while it is idle. The members have slots of their own.
        answer_timeout_s: how long one node waits for another's answer, and `promote`, `resync`,
            `status` and `stop` for a node's, before it counts as silent. A promotion that replaces
            a hanging master waits for that.
        drain_timeout_s: how long an ordered stop sends connected slaves what they lack, as long
            as they take it (DRAIN_STANDS_S), and how long a hand-over may take.
        stop_timeout_s: how long a node's tree may then take to stop; what still runs is killed.
        events: the event log's settings.
        demo: the example's feed.
        path: the file this came from; "" for a configuration made by a program.
        broker_files: the properties files it came from instead, all of them, `path` the first; see
            `brokerconf`.
    """

    version: int = attrs.field(
        default=FORMAT_VERSION, validator=Within(FORMAT_VERSION, FORMAT_VERSION)
    )
    name: str = attrs.field(validator=bounds.NAME)
    data_dir: str = attrs.field(validator=PATH)
    nodes: Mapping[str, str] = attrs.field(converter=_mapping)
    groups: Mapping[str, Group] = attrs.field(converter=_mapping)
    name_servers: Mapping[str, int] = attrs.field(factory=dict, converter=_mapping)
    namesrv_addr: tuple[str, ...] = attrs.field(default=(), validator=bounds.EACH_ENDPOINT)
    advertised: Mapping[str, str] = attrs.field(factory=dict, converter=_mapping)
    advertised_ha: Mapping[str, str] = attrs.field(factory=dict, converter=_mapping)
    broker_ids: Mapping[str, int] = attrs.field(factory=dict, converter=_mapping)
    api_port: int | None = attrs.field(default=None, validator=attrs.validators.optional(PORT))
    api_clients: int = attrs.field(default=bounds.API_CLIENTS, validator=bounds.CLIENTS)
    answer_timeout_s: float = attrs.field(default=10.0, validator=INTERVAL)
    stop_timeout_s: float = attrs.field(default=30.0, validator=INTERVAL)
    drain_timeout_s: float = attrs.field(default=10.0, validator=INTERVAL)
    events: EventsConfig = attrs.field(factory=EventsConfig)
    demo: DemoConfig = attrs.field(factory=DemoConfig)
    path: str = ""
    broker_files: tuple[str, ...] = ()

    @property
    def named_by(self) -> tuple[str, ...]:
        """The words by which a command line names the files that this came from."""
        if not self.broker_files:
            return (self.path,)
        return tuple(word for file in self.broker_files for word in ("--broker-conf", file))

    def node_dir(self, node: str) -> str:
        """The path of the node's own folder."""
        return os.path.join(self.data_dir, node)

    def group_dir(self, node: str, group: str) -> str:
        """The group's store root on this node, laid out as a Java broker's."""
        return os.path.join(self.node_dir(node), "groups", group)

    @property
    def registers_with(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each name server that brokers of this cluster register with."""
        own = [(self.nodes[node], port) for node, port in self.name_servers.items()]
        others = [bounds.endpoint_of(text) for text in self.namesrv_addr]
        return tuple(dict.fromkeys((*own, *others)))

    def controllers_of(self, group: AutoSwitchGroup) -> tuple[str, ...]:
        """Where a group's controllers are, "HOST:PORT" each: by its own key, or `[controllers]`."""
        own = self.groups.get(CONTROLLERS)
        if group.controllers or own is None:
            return group.controllers
        return tuple(f"{self.advertised_of(node)}:{own.port}" for node in own.members)

    def advertised_of(self, node: str) -> str:
        """The address under which clients, and slaves for its metadata, reach a node."""
        return self.advertised.get(node, self.nodes[node])

    def advertised_ha_of(self, node: str) -> str:
        """The address under which slaves reach a node for its log."""
        return self.advertised_ha.get(node, self.advertised_of(node))

    def second_host_of(self, node: str) -> str | None:
        """Where its broker port listens, too, if its machine has that address."""
        told = self.advertised_of(node)
        return told if node in self.advertised_ha and told != self.nodes[node] else None

    def slave_ids_of(self, group: Group) -> dict[str, int]:
        """The id of each member while it is a slave: so it has one, whoever is master. The file's
        master comes after all others.
        """
        if not group.members:
            return {}
        first, *others = group.members
        ids = {node: self.broker_ids.get(node, place) for place, node in enumerate(others, 1)}
        return ids | {first: self.broker_ids.get(first, max(ids.values(), default=0) + 1)}

    def name_server_dir(self, node: str) -> str:
        """The folder of the name server's files on this node."""
        return os.path.join(self.node_dir(node), NAME_SERVER)

    def groups_of(self, node: str, mode: str | None = None) -> tuple[Group, ...]:
        """The groups that this node is a member of, in the file's order; only those of a mode, if
        one is named.
        """
        groups = (group for group in self.groups.values() if node in group.members)
        return tuple(group for group in groups if mode in (None, group.mode))

    def neighbours_of(self, node: str) -> tuple[str, ...]:
        """The other nodes that we run and that have a group with this one, in the file's order."""
        members = {each for group in self.groups_of(node) for each in group.members}
        return tuple(each for each in self.python_nodes if each in members and each != node)

    @property
    def classic_groups(self) -> Mapping[str, ClassicGroup]:
        """Those with a master and slaves."""
        return {
            name: group for name, group in self.groups.items() if isinstance(group, ClassicGroup)
        }

    def ledger_groups_of(self, node: str) -> tuple[DLedgerGroup, ...]:
        """The groups among `groups_of` that elect a leader."""
        return tuple(each for each in self.groups_of(node) if isinstance(each, DLedgerGroup))

    @property
    def on_one_machine(self) -> bool:
        """Whether the file says so: all our nodes have loopback addresses."""
        return all(bounds.is_loopback(self.nodes[node]) for node in self.python_nodes)

    @property
    def python_nodes(self) -> tuple[str, ...]:
        """The nodes that we run: all but those that are a Java broker in some group."""
        java = {node for group in self.groups.values() for node in group.java_nodes}
        return tuple(node for node in self.nodes if node not in java)
