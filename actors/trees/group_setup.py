"""The paths of a group's actors on a node, and the setup from which the group's tree is built."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

import attrs

from actors.broker.changed_settings import ChangedSettings
from actors.broker.midnights import Midnights
from actors.broker.registrar import Member, RegistrationView
from actors.broker.replica_port import TakenRole
from actors.config import ClusterConfig, CommitLogGroup
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

G = TypeVar("G", bound=CommitLogGroup, covariant=True)


class GroupPaths:
    """The paths of the actors of a group, from which references to them are made.

    Attributes:
        group_transfer, connections: exist only on the master.
        ha_client: exists only on a slave.
        metadata, metadata_watches, remoting_client: exist only with a `broker_port`.
        metadata_sync: exists only on a slave, with a `broker_port`.
        log_judge: exists only for a copy.
        role: the path of the role keeper, which is outside the group's tree.
    """

    def __init__(self, base: str) -> None:
        """Make the paths.

        Args:
            base: the path of the group, such as "/n0/orders".
        """
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


class ReplicaPaths(GroupPaths):
    """The paths of the actors of an auto-switch group.

    Attributes:
        role: the path of the role owner.
        managing: the supervisor of the replicas manager and of the client that calls controllers,
            `replicas_manager` and `controllers_client`. Like `role` it is outside the group's tree.
    """

    def __init__(self, base: str) -> None:
        """Make the paths, as `GroupPaths`."""
        super().__init__(base)
        self.epochs = f"{base}/epochs"
        node, _, group = base.rpartition("/")
        self.role = f"{node}/owners/{group}"
        self.managing = f"{node}/replicas/{group}"
        self.replicas_manager = f"{self.managing}/replicas_manager"
        self.controllers_client = f"{self.managing}/remoting_client"


@attrs.frozen(kw_only=True)
class CopyRules:
    """The rules of a slave that copies a broker which no cluster file names; see `actors.follow`.

    On each new connection, such a slave compares the end of its log with what the master sends
    before it reports. It connects from an address that the system chooses, and deletes no file.

    Attributes:
        passive: whether it repeats the first report of each connection, so that nothing that comes
            after it counts at the master.
        bytes_per_s: the most bytes that it receives in a second; None: there is no limit.
        metadata: the address of the broker whose metadata is copied; None: no metadata is copied.
        known_broker: the path of the file that has the name of that broker.
    """

    passive: bool = False
    bytes_per_s: int | None = None
    metadata: Address | None = None
    known_broker: str = ""


@attrs.frozen(kw_only=True)
class Registering:
    """The settings by which the members of a group register with name servers.

    Attributes:
        cluster: upstream's brokerClusterName.
        servers: the addresses of the name servers.
        advertised, advertised_ha: the addresses under which clients and slaves reach this node.
        slave_ids: each member's id while it is a slave.
    """

    cluster: str
    servers: tuple[Address, ...]
    advertised: str
    advertised_ha: str
    slave_ids: Mapping[str, int]

    def broker_id(self, node: str, master: str) -> int:
        """Return the brokerId of a node while `master` is master: 0 is the master's."""
        return 0 if node == master else self.slave_ids[node]


@attrs.frozen(kw_only=True)
class GroupSetup(Generic[G]):
    """One group on one node, from which every part of the group's tree is built.

    Attributes:
        root: the absolute path of the store root.
        addresses: the address of each node that the group names.
        group: the group with its present master.
        copy: the rules of a copy; None for a member of a group that a cluster file names.
        guard: decides whether appends are taken and which node a slave may follow; None if the
            cluster file alone decides.
        role_status: the status that the guard publishes.
        acknowledged: the position up to which readers see the log. Each tree has its own, because
            before the next tree is built the log may be cut, and another master may have
            acknowledged less.
        store_time: the times of records that the store publishes.
        metadata: the tables that the keeper of the group's metadata publishes.
        changed: the settings that operators change while the node runs; None without a
            `broker_port`.
        master_broker: where the master's `broker_port` is, if no node of the file is master.
        second_host: an address at which `broker_port` listens as well, if this machine has it.
        registering: the settings of registration; None without name servers.
        registrations: the state that the registrar publishes.
        stored: returns how many messages were appended here since the node's start.
        midnights: how many of those there were at the last two midnights.
        taken: the role by which the tree of an auto-switch group is built; None for others.
        make_paths: makes the paths of the group's actors.
        connections, sessions: numbers that outlive restarts of the tree.
    """

    root: str
    addresses: Mapping[str, str]
    node: str
    group: G
    env: Env
    registry: Registry
    copy: CopyRules | None = None
    guard: store_messages.Guard | None = None
    role_status: RoleStatus | None = None
    acknowledged: AcknowledgedMark = attrs.field(factory=AcknowledgedMark)
    store_time: StoreTime = attrs.field(factory=StoreTime)
    metadata: MetadataView = attrs.field(factory=MetadataView)
    changed: ChangedSettings | None = None
    master_broker: Address | None = None
    taken: TakenRole | None = None
    second_host: str | None = None
    registering: Registering | None = None
    registrations: RegistrationView = attrs.field(factory=RegistrationView)
    stored: Callable[[], int] = lambda: 0
    midnights: Midnights = attrs.field(factory=Midnights)
    make_paths: Callable[[str], GroupPaths] = GroupPaths
    connections: Iterator[int] = attrs.field(factory=partial(itertools.count, 1))
    sessions: Iterator[int] = attrs.field(factory=partial(itertools.count, 1))

    @classmethod
    def of(
        cls, config: ClusterConfig, node: str, group: Any, env: Env, registry: Registry
    ) -> GroupSetup[Any]:
        """Make the setup of a member of a group that a cluster file names."""
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
            now_ms=partial(_change_ms, env, made.metadata),
        )
        changed.load()
        return attrs.evolve(made, changed=changed)

    @property
    def member(self) -> Member:
        """The broker that registers, of a group with a `broker_port` and `registering`."""
        group, registering = self.group, self.registering
        assert registering is not None  # OnlyWhoRegisters
        assert group.broker_port is not None
        number = self.guard.promotion.number if self.guard is not None else 0
        return Member(
            cluster=registering.cluster,
            group=group.name,
            broker_id=registering.broker_id(self.node, group.master),
            number=number if self.taken is None else self.taken.epoch,
            broker=Address(registering.advertised, group.broker_port),
            ha=Address(registering.advertised_ha, group.port),
        )

    @property
    def paths(self) -> GroupPaths:
        return self.make_paths(f"/{self.node}/{self.group.name}")

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
    def master_asked_at(self) -> Address | None:
        """Where the master is asked for metadata; None: nowhere."""
        if self.master_broker is not None:
            return self.master_broker
        port = self.group.asked_port
        return None if port is None else Address(self.address_of(self.group.master), port)

    @property
    def own_host(self) -> str | None:
        """The address from which this node connects; None if the system chooses it."""
        return self.addresses[self.node] if self.copy is None else None

    def led_by(
        self, promotion: Promotion, cut_bytes: int | None, role_status: RoleStatus | None = None
    ) -> GroupSetup[G]:
        """Return this setup with the master of a promotion, guarded by the group's role keeper."""
        guard = store_messages.Guard(self.registry.ref(self.paths.role), promotion, cut_bytes)
        return attrs.evolve(
            self,
            group=self.group.led_by(promotion.master),
            guard=guard,
            role_status=role_status,
            acknowledged=AcknowledgedMark(),
        )


def _change_ms(env: Env, view: MetadataView) -> int:
    """Return the time of a change of settings: not before the version of the topics, although the
    clock may be, as a name server takes a permission only with a version that it does not know.
    """
    return max(env.wall_clock_ms(), view.tables.topics.data_version.timestamp + 1)


def _registering(config: ClusterConfig, node: str, group: CommitLogGroup) -> Registering | None:
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
