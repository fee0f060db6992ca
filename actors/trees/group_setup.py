"""The paths of a group's actors on a node, and what its tree is built from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import attrs

from actors.broker.changed_settings import ChangedSettings
from actors.broker.midnights import Midnights
from actors.broker.registrar import Member, RegistrationView
from actors.config import ClassicGroup, ClusterConfig
from actors.env import Address, Env
from actors.ha import role_messages
from actors.ha.role_status import RoleStatus
from actors.log_types import Promotion
from actors.metadata.view import MetadataView
from actors.runtime import ActorRef, Registry
from actors.storage.commitlog import store_messages
from actors.storage.commitlog.group_commit import StoreTime
from actors.storage.commitlog.pull_service import AcknowledgedMark
from actors.storage.layout import StoreLayout


class GroupPaths:
    """The paths of a group's actors, for whoever needs references to them.

    Attributes:
        group_transfer, connections: only on the master.
        ha_client: only on a slave.
        metadata, metadata_watches: only with a `broker_port`, as remoting_client and
            metadata_sync, the latter of slaves.
        log_judge: only for a copy.
        role: the role keeper, which stands outside the group's tree.
    """

    def __init__(self, base: str) -> None:
        """Args: base: "/n0/orders"."""
        self.base = base
        self.store = f"{base}/storage/store"
        self.syncer = f"{base}/storage/syncer"
        self.dispatcher = f"{base}/dispatcher"
        self.pull_service = f"{base}/pull_service"
        self.scrubber = f"{base}/scrubber"
        self.derived_scrubber = f"{base}/derived_scrubber"
        self.group_transfer = f"{base}/group_transfer"
        self.connection_state = f"{base}/connection_state"
        self.connections = f"{base}/connections"
        self.ha_client = f"{base}/ha_client"
        self.metadata = f"{base}/broker/metadata"
        self.metadata_watches = f"{base}/broker/metadata_watches"
        self.remoting_client = f"{base}/broker/remoting_client"
        self.metadata_sync = f"{base}/broker/metadata_sync"
        self.log_judge = f"{base}/log_judge"
        node, _, group = base.rpartition("/")
        self.role = f"{node}/roles/{group}"


@attrs.frozen(kw_only=True)
class CopyRules:
    """How a slave copies a broker that no cluster file names, see `actors.follow`.

    Such a slave compares the end of its log with what the master sends, on each new connection,
    before it reports; connects from whichever address the system chooses; and deletes no file.

    Attributes:
        passive: whether it repeats the first report of each connection, so that nothing that comes
            after it counts at the master.
        bytes_per_s: how much it receives in a second at most; None = no limit.
        metadata: where the broker listens, to copy its metadata too; None: that is not copied.
        known_broker: the file that remembers which broker that is.
    """

    passive: bool = False
    bytes_per_s: int | None = None
    metadata: Address | None = None
    known_broker: str = ""


@attrs.frozen(kw_only=True)
class Registering:
    """How the members of a group register with name servers.

    Attributes:
        cluster: brokerClusterName.
        servers: where they listen.
        advertised, advertised_ha: the addresses under which clients and slaves reach this node.
        slave_ids: each member's id while it is a slave.
    """

    cluster: str
    servers: tuple[Address, ...]
    advertised: str
    advertised_ha: str
    slave_ids: Mapping[str, int]

    def broker_id(self, node: str, master: str) -> int:
        """0 for the present master."""
        return 0 if node == master else self.slave_ids[node]


@attrs.frozen(kw_only=True)
class GroupSetup:
    """One group on one node: what every part of its tree is built from.

    Attributes:
        root: absolute path of the store root.
        addresses: node -> address, of all that the group names.
        group: as led by its present master.
        copy: the rules of a copy; None: a member of a group that a cluster file names.
        guard: decides whether appends are taken and whom a slave may follow; None: the cluster file
            alone.
        role_status: what the guard publishes.
        acknowledged: up to where readers see the log; of one tree, for the log may be cut, and
            another master have acknowledged less, when the next one is built.
        store_time: what the store publishes of the times of its records.
        metadata: what the keeper of the group's metadata publishes.
        changed: what operators change while it runs; None: with no `broker_port`.
        second_host: where `broker_port` listens, too, if this machine has that address.
        registering: None: with no name server.
        registrations: what the registrar publishes.
        stored: how many messages were appended here since the node's start.
        midnights: how many those were at the last two midnights.
        connections, sessions: numbers that outlive restarts of the tree.
    """

    root: str
    addresses: Mapping[str, str]
    node: str
    group: ClassicGroup
    env: Env
    registry: Registry
    copy: CopyRules | None = None
    guard: store_messages.Guard | None = None
    role_status: RoleStatus | None = None
    acknowledged: AcknowledgedMark = attrs.field(factory=AcknowledgedMark)
    store_time: StoreTime = attrs.field(factory=StoreTime)
    metadata: MetadataView = attrs.field(factory=MetadataView)
    changed: ChangedSettings | None = None
    second_host: str | None = None
    registering: Registering | None = None
    registrations: RegistrationView = attrs.field(factory=RegistrationView)
    stored: Callable[[], int] = lambda: 0
    midnights: Midnights = attrs.field(factory=Midnights)
    connections: Iterator[int] = attrs.field(factory=partial(itertools.count, 1))
    sessions: Iterator[int] = attrs.field(factory=partial(itertools.count, 1))

    @classmethod
    def of(
        cls, config: ClusterConfig, node: str, group: ClassicGroup, env: Env, registry: Registry
    ) -> GroupSetup:
        """A member of a group of a cluster file."""
        made = cls(
            root=config.group_dir(node, group.name),
            addresses=config.nodes,
            node=node,
            group=group,
            env=env,
            registry=registry,
            second_host=config.second_host_of(node),
            registering=_registering(config, node, group),
        )
        if group.broker_port is None:
            return made
        changed = ChangedSettings(
            disk=env.disk,
            path=made.layout.settings,
            file_group=group,
            source=f"groups.{group.name} in {config.path or 'the configuration'}",
            now_ms=env.wall_clock_ms,
        )
        changed.load()
        return attrs.evolve(made, changed=changed)

    @property
    def member(self) -> Member:
        """Who registers; only with a `broker_port` and `registering`."""
        group, registering = self.group, self.registering
        assert registering is not None  # OnlyWhoRegisters
        assert group.broker_port is not None
        return Member(
            cluster=registering.cluster,
            group=group.name,
            broker_id=registering.broker_id(self.node, group.master),
            number=self.guard.promotion.number if self.guard is not None else 0,
            broker=Address(registering.advertised, group.broker_port),
            ha=Address(registering.advertised_ha, group.port),
        )

    @property
    def paths(self) -> GroupPaths:
        return GroupPaths(f"/{self.node}/{self.group.name}")

    @property
    def layout(self) -> StoreLayout:
        return StoreLayout(self.root)

    @property
    def synced(self) -> bool:
        return self.group.durability == "synced"

    @property
    def keeper(self) -> ActorRef[role_messages.Message] | None:
        return self.registry.ref(self.paths.role) if self.guard is not None else None

    def address_of(self, node: str) -> str:
        return self.addresses[node]

    @property
    def own_host(self) -> str | None:
        """The address from which this node connects; None: the system chooses it."""
        return self.addresses[self.node] if self.copy is None else None

    def led_by(
        self, promotion: Promotion, cut_bytes: int | None, role_status: RoleStatus | None = None
    ) -> GroupSetup:
        """The same with the master of that promotion, guarded by its role keeper."""
        guard = store_messages.Guard(self.registry.ref(self.paths.role), promotion, cut_bytes)
        return attrs.evolve(
            self,
            group=self.group.led_by(promotion.master),
            guard=guard,
            role_status=role_status,
            acknowledged=AcknowledgedMark(),
        )


def _registering(config: ClusterConfig, node: str, group: ClassicGroup) -> Registering | None:
    servers = tuple(Address(*each) for each in config.registers_with)
    if not servers or group.broker_port is None:
        return None
    return Registering(
        cluster=config.name,
        servers=servers,
        advertised=config.advertised_of(node),
        advertised_ha=config.advertised_ha_of(node),
        slave_ids=config.slave_ids_of(group),
    )
