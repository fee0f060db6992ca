"""The trees of auto-switch groups, built by pure functions and printable before they run.

A replica's role owner and its manager, which speaks with the controllers, are outside the group's
tree, which the owner has built anew by each role. It is rest_for_one:

- A master has storage, epochs, dispatcher, pull_service, scrubber, derived_scrubber,
  group_transfer, connection_state, connections (dynamic) and accept_socket.
- A slave has connection_state and ha_client behind derived_scrubber.
- A replica that no controller has told a role has nothing behind derived_scrubber.

With a role it also has the children of the module `broker`, behind all others.

Upstream: apache/rocketmq store/ha/autoswitch/AutoSwitchHAService.java and
broker/.../controller/ReplicasManager.java (5.3.3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

import attrs
import trio

from actors.broker.core.replica import LogState, ReplicaSettings
from actors.broker.replica_port import TakenRole
from actors.broker.replicas_manager import ReplicasManager, ReplicaView
from actors.config import AutoSwitchGroup
from actors.config.bounds import endpoint_of
from actors.env import Address
from actors.ha.accept_socket import AcceptSocket
from actors.ha.autoswitch.epoch_keeper import EpochKeeper
from actors.ha.autoswitch.epochs_view import EpochsView
from actors.ha.autoswitch.messages import LookNow
from actors.ha.autoswitch.replica_names import ReplicaNames
from actors.ha.autoswitch.role_owner import CutLog, OwnedRole, RoleOwner
from actors.ha.autoswitch.set_keeper import SetKeeper
from actors.ha.connection_state import ConnectionState
from actors.ha.core.acceptance import UNIDENTIFIED_MAX
from actors.ha.core.ack_policy import ALL_IN_SYNC
from actors.ha.core.autoswitch_dialect import AutoSwitchDialect, EpochHandshake
from actors.ha.core.slave_table import SlaveTable
from actors.ha.core.sync_state_set import InSyncStateSet, SyncStateSet
from actors.ha.core.transfer_wait import TransferWait
from actors.ha.group_transfer import GROWTH_WITHIN_S, GroupTransfer, Started
from actors.ha.ha_client import HAClient
from actors.ha.ha_connection import ha_connection
from actors.ha.own_epochs import OwnEpochs
from actors.ha.role_status import RoleStatus
from actors.ha.settings import ClientSettings
from actors.log_types import Promotion
from actors.remoting.client import RemotingClient
from actors.runtime import (
    AutoShutdown,
    Backoff,
    ChildSpec,
    DynamicSpec,
    LazySpec,
    Restart,
    Strategy,
    SupervisorSpec,
)
from actors.storage.commitlog.pull_service import IDLE_NEWS_WITHIN_S, Acknowledged
from actors.storage.files.room import Room
from actors.storage.log.log_reader import LogReader
from actors.trees.broker import broker_children, registrars
from actors.trees.classic import CLIENT_BACKOFF
from actors.trees.commit_log import connection_settings, log_group, record_verifier
from actors.trees.group_setup import GroupSetup, ReplicaPaths
from actors.trees.node import STORAGE_SHUTDOWN_S, GroupTrees, group_child
from wire.broker.controller import LEAST_PRIORITY

Setup: TypeAlias = GroupSetup[AutoSwitchGroup]
REPLICAS_MAX = 64
"""The most replicas of one set that may be connected, those included that no cluster file names."""
ELECTED_FIRST_S = 0.02
"""The first pause of a slave that did not reach its master, in seconds: it hears of an election as
soon as the new master does, which still opens its log then.
"""
MANAGER_BACKOFF = Backoff(first_s=0.2, max_s=5.0)


@attrs.frozen(kw_only=True)
class Replica:
    """What the actors of one replica share: it outlives the group's tree, and the node's.

    Attributes:
        owned: the role by which the group's tree is built.
        epochs: the log's history, its end, and what readers see of it.
        view: what the replicas manager publishes.
        role_status: the role as appends and status see it.
    """

    owned: OwnedRole = attrs.field(factory=OwnedRole)
    epochs: EpochsView = attrs.field(factory=EpochsView)
    view: ReplicaView = attrs.field(factory=ReplicaView)
    role_status: RoleStatus


@attrs.frozen(kw_only=True)
class ReplicaSetup:
    """One auto-switch group on one node, from which every part of its trees is built.

    Attributes:
        setup: the group as of any commit log; the present master is set in each tree's.
        controllers: where the controllers are, "HOST:PORT".
        brokers: by node, where brokers and clients reach it, "HOST:PORT".
    """

    setup: Setup
    group: AutoSwitchGroup
    cluster: str
    controllers: tuple[str, ...]
    brokers: Mapping[str, str]
    replica: Replica

    @property
    def paths(self) -> ReplicaPaths:
        """The paths of its actors."""
        return ReplicaPaths(f"/{self.setup.node}/{self.group.name}")

    def node_at(self, address: str) -> str:
        """Return the node that brokers reach at "HOST:PORT"; "" if the file names none."""
        return next((node for node, at in self.brokers.items() if at == address), "")

    def log_of(self, address: str) -> tuple[str, Address] | None:
        """Return that node, and where it serves its log."""
        node = self.node_at(address)
        if not node:
            return None
        return node, Address(self.setup.address_of(node), self.group.port)

    def names(self) -> ReplicaNames:
        """Return the replicas by id and by name."""
        view = self.replica.view
        manager = self.setup.registry.ref(self.paths.replicas_manager)

        def look() -> None:
            manager.offer(LookNow())

        return ReplicaNames(
            own=lambda: self.replica.owned.broker_id,
            registered=lambda: view.registered,
            living=lambda: view.living,
            node_at=self.node_at,
            unknown=look,
        )


def autoswitch_trees(setups: Sequence[ReplicaSetup]) -> GroupTrees:
    """Return the groups of one node, their role owners ahead, and behind them who speaks with
    controllers.
    """
    if not setups:
        return GroupTrees()
    return GroupTrees(
        ahead=(_role_owners(setups),),
        groups=tuple(
            group_child(each.group.name, LazySpec(partial(_group_now, each))) for each in setups
        ),
        behind=(
            *registrars([each.setup for each in setups]),
            ChildSpec(name="replicas", start=SupervisorSpec(children=tuple(map(_manager, setups)))),
        ),
    )


def _role_owners(setups: Sequence[ReplicaSetup]) -> ChildSpec:
    return ChildSpec(
        name="owners",
        start=SupervisorSpec(
            children=tuple(
                ChildSpec(
                    name=each.group.name,
                    start=partial(_role_owner, each),
                    restart=Restart.TEMPORARY,
                    significant=True,
                    shutdown_s=STORAGE_SHUTDOWN_S,
                )
                for each in setups
            ),
            auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
        ),
        restart=Restart.TEMPORARY,
        significant=True,
    )


def _role_owner(own: ReplicaSetup) -> RoleOwner:
    setup, replica = own.setup, own.replica
    registry, paths = setup.registry, own.paths
    return RoleOwner(
        group=own.group.name,
        node=setup.node,
        owned=replica.owned,
        role_status=replica.role_status,
        node_at=own.log_of,
        client=registry.ref(paths.controllers_client),
        epochs=replica.epochs,
        leased=lambda: trio.current_time() < replica.view.lease_until_s,
        deposed=setup.registrations.deposed,
        root=registry.ref(f"/{setup.node}"),
        store_ref=registry.ref(paths.store),
        transfer_ref=registry.ref(paths.group_transfer),
    )


def _manager(own: ReplicaSetup) -> ChildSpec:
    """Return the replicas manager with its client. It crashes without its group."""
    setup = own.setup
    client = partial(RemotingClient, network=setup.env.network, local_host=setup.own_host)
    return ChildSpec(
        name=own.group.name,
        start=SupervisorSpec(
            strategy=Strategy.REST_FOR_ONE,
            children=(
                ChildSpec(name="remoting_client", start=client),
                ChildSpec(name="replicas_manager", start=partial(_replicas_manager, own)),
            ),
        ),
        backoff=MANAGER_BACKOFF,
    )


def _replicas_manager(own: ReplicaSetup) -> ReplicasManager:
    setup, group, replica = own.setup, own.group, own.replica
    registry, paths, epochs = setup.registry, own.paths, replica.epochs
    return ReplicasManager(
        settings=ReplicaSettings(
            cluster=own.cluster,
            broker=group.name,
            address=own.brokers[setup.node],
            controllers=own.controllers,
            timeout_s=group.controller_heart_beat_timeout_s,
            priority=group.election_priority.get(setup.node, LEAST_PRIORITY),
            is_learner=setup.node in group.learners,
        ),
        disk=setup.env.disk,
        folder=setup.root,
        source=f"groups.{group.name}",
        wall_clock_ms=setup.env.wall_clock_ms,
        log=lambda: LogState(
            epoch=epochs.last_epoch,
            max_offset=epochs.end_bytes,
            confirm_offset=epochs.mark.offset_bytes,
        ),
        doubts=lambda: epochs.doubts,
        view=replica.view,
        client=registry.ref(paths.controllers_client),
        owner=registry.ref(paths.role),
    )


# ---- the group's tree ----


def _group_now(own: ReplicaSetup) -> SupervisorSpec:
    """Return the group's tree by the role that its owner has.

    It is no pure function: it takes the cut that its owner has asked for, and moves on what readers
    were shown. So it is called once for each start, and to print a tree that never runs.
    """
    owned, epochs = own.replica.owned, own.replica.epochs
    promotion = Promotion(owned.build, owned.master)
    cut_bytes = owned.take_cut()
    setup = _as_taken(own, own.setup.led_by(promotion, cut_bytes, own.replica.role_status))
    # What was shown stays shown, but for what a cut takes.
    ends = (epochs.end_bytes, *(() if cut_bytes is None else (cut_bytes,)))
    setup.acknowledged.raise_to(min(epochs.mark.offset_bytes, *ends))
    epochs.mark = setup.acknowledged
    if owned.leads:
        ha = _master_ha(own, setup)
    else:
        client = () if owned.log_at is None else (_client(own, setup, owned.log_at),)
        ha = (_slave_state(own, setup), *client)
    return log_group(
        setup,
        acknowledges=owned.leads,
        waits_within_s=GROWTH_WITHIN_S,
        behind_store=(
            ChildSpec(
                name="epochs",
                start=partial(_epoch_keeper, own, setup),
                restart=Restart.TEMPORARY,
                significant=True,
                shutdown_s=STORAGE_SHUTDOWN_S,
            ),
        ),
        confirmed=lambda: setup.acknowledged.offset_bytes,
        children=(*ha, *(broker_children(setup) if setup.taken is not None else ())),
    )


def _as_taken(own: ReplicaSetup, setup: Setup) -> Setup:
    """Return a setup with what the broker's port shows of the role; as it is without a role, or if
    it is not known where the master serves its log.
    """
    owned, registering = own.replica.owned, setup.registering
    if owned.told is None or owned.broker_id is None or not (owned.leads or owned.log_at):
        return setup
    master_broker: Address | None = None
    if owned.master not in own.group.members:
        master_broker = Address(*endpoint_of(owned.told.address))
    if registering is not None:
        registering = attrs.evolve(registering, slave_ids={setup.node: owned.broker_id})
    view = own.replica.view
    taken = TakenRole(
        cluster=own.cluster,
        broker_id=owned.broker_id,
        epoch=owned.epoch,
        controllers=own.controllers,
        registered=lambda: view.registered,
        epochs=own.replica.epochs,
        manager=setup.registry.ref(own.paths.replicas_manager),
    )
    return attrs.evolve(setup, master_broker=master_broker, registering=registering, taken=taken)


def _epoch_keeper(own: ReplicaSetup, setup: Setup) -> EpochKeeper:
    registry, paths, owned = setup.registry, setup.paths, own.replica.owned
    return EpochKeeper(
        disk=setup.env.disk,
        layout=setup.layout,
        store=registry.ref(paths.store),
        make_reader=_make_reader(setup),
        owner=registry.ref(paths.role),
        view=own.replica.epochs,
        build=owned.build,
        begins=owned.epoch if owned.leads else None,
        synced=setup.synced,
        room=Room(
            disk=setup.env.disk,
            path=setup.layout.root,
            owner=f"{setup.node}: {own.group.name}",
            keeper=registry.ref(paths.role),
        ),
    )


def _make_reader(setup: Setup) -> partial[LogReader]:
    return partial(LogReader, setup.env.disk, setup.layout.commit_log, setup.group.segment_bytes)


def _dialect(own: ReplicaSetup, setup: Setup) -> AutoSwitchDialect:
    owned, epochs, mark = own.replica.owned, own.replica.epochs, setup.acknowledged
    assert owned.broker_id is not None  # it has a role
    return AutoSwitchDialect(
        handshake=EpochHandshake(
            broker_id=owned.broker_id,
            who=own.names().who,
            history=lambda: epochs.history,
            async_learner=setup.node in own.group.learners,
            sync_from_last_file=own.group.sync_from_last_file,
        ),
        confirm=lambda: mark.offset_bytes,
    )


def _master_ha(own: ReplicaSetup, setup: Setup) -> tuple[ChildSpec, ...]:
    group, registry, paths = own.group, setup.registry, setup.paths
    connections = registry.ref(paths.connections)
    settings = connection_settings(setup, _dialect(own, setup))
    accept_socket = partial(
        AcceptSocket,
        network=setup.env.network,
        host=setup.address_of(setup.node),
        port=group.port,
        where=f"groups.{group.name}.port",
        slaves=None,
        make_child=partial(ha_connection, settings),
        next_connection=setup.connections.__next__,
        connections=connections,
        connection_state=registry.ref(paths.connection_state),
    )
    return (
        ChildSpec(name="group_transfer", start=partial(_group_transfer, own, setup)),
        ChildSpec(
            name="connection_state",
            start=lambda: ConnectionState(
                table=_table(own, setup.node),
                store=registry.ref(paths.store),
                connections=connections,
                handshake=True,
            ),
        ),
        ChildSpec(
            name="connections",
            start=DynamicSpec(children_max=REPLICAS_MAX + UNIDENTIFIED_MAX),
        ),
        ChildSpec(name="accept_socket", start=accept_socket),
    )


def _table(own: ReplicaSetup, node: str) -> SlaveTable:
    """Return a row for each other member; others get theirs as they come."""
    group = own.group
    table = SlaveTable(in_sync_gap_bytes=group.ha_max_gap_not_in_sync_bytes)
    for each in group.members:
        if each != node:
            table.add_slave(each, "python", counts=each not in group.learners)
    return table


def _group_transfer(own: ReplicaSetup, setup: Setup) -> GroupTransfer:
    group, registry, paths, replica = own.group, setup.registry, own.paths, own.replica
    told, broker_id, epochs = replica.owned.told, replica.owned.broker_id, replica.epochs
    confirmed_bytes = setup.acknowledged.offset_bytes
    assert told is not None
    assert broker_id is not None
    members = SyncStateSet(
        own=broker_id,
        members=frozenset(told.in_sync),
        set_epoch=told.in_sync_epoch,
        least=group.least_in_sync,
        epoch_start_bytes=epochs.history[-1].start_bytes if epochs.history else 0,
        not_catchup_s=group.ha_max_time_slave_not_catchup_s,
        end_bytes=confirmed_bytes,  # what is written may not be on the disk yet
        confirm_bytes=confirmed_bytes,
        now_s=trio.current_time(),
        lease_until_s=-math.inf,
    )
    keeper = SetKeeper(
        members=members,
        epoch=told.epoch,
        synced=setup.synced,
        id_of=own.names().id_of,
        lease_until_s=lambda: replica.view.lease_until_s,
        manager=registry.ref(paths.replicas_manager),
        adopted=replica.owned.set_is,
    )
    policy = InSyncStateSet(
        members=members,
        in_sync_replicas=(
            ALL_IN_SYNC if group.all_ack_in_sync_state_set else group.in_sync_replicas
        ),
        min_in_sync_replicas=group.least_in_sync,
    )
    return GroupTransfer(
        wait=TransferWait(
            copies=group.sure_copies, synced=setup.synced, counted=None, policy=policy
        ),
        durability=group.durability,
        store=registry.ref(paths.store),
        readers=registry.ref(paths.pull_service),
        acknowledged=setup.acknowledged,
        role_status=replica.role_status,
        set=keeper,
        tell_started=partial(
            registry.ref(paths.role, Started).tell, Started(build=replica.owned.build)
        ),
    )


def _slave_state(own: ReplicaSetup, setup: Setup) -> ChildSpec:
    gap_bytes = own.group.ha_max_gap_not_in_sync_bytes
    return ChildSpec(
        name="connection_state",
        start=lambda: ConnectionState(
            table=SlaveTable(in_sync_gap_bytes=gap_bytes),
            store=setup.registry.ref(setup.paths.store),
        ),
    )


def _client(own: ReplicaSetup, setup: Setup, log_at: Address) -> ChildSpec:
    group, registry, paths, owned = own.group, setup.registry, setup.paths, own.replica.owned
    owner = registry.ref(paths.role, CutLog)
    readers = registry.ref(paths.pull_service, Acknowledged)

    def cut(end_bytes: int) -> None:
        owner.post(CutLog(end_bytes=end_bytes))

    def confirmed(confirm_bytes: int) -> None:
        readers.defer(Acknowledged(offset_bytes=confirm_bytes), within_s=IDLE_NEWS_WITHIN_S)

    def epochs() -> OwnEpochs:
        store = own.replica.epochs.store
        assert store is not None  # the child `epochs` has opened it
        return OwnEpochs(
            store=store,
            master=owned.master,
            told_epoch=owned.epoch,
            make_reader=_make_reader(setup),
            cut=cut,
            confirmed=confirmed,
        )

    def client() -> HAClient:
        is_java = owned.master not in group.members
        settings = ClientSettings(
            own_host=setup.own_host,
            master=log_at,
            dialect=_dialect(own, setup),
            synced=group.strict_sync,
            segment_bytes=group.segment_bytes,
            heartbeat_s=group.ha_send_heartbeat_interval_s,
            housekeeping_s=group.ha_housekeeping_interval_s,
            connect_timeout_s=group.connect_timeout_s,
            reconnect_interval_s=group.reconnect_interval_s,
            reconnect_first_s=ELECTED_FIRST_S,
            verifier=partial(record_verifier, setup) if is_java else None,
            run_beside=setup.env.run_beside,
            epochs=epochs(),
        )
        return HAClient(
            settings=settings,
            network=setup.env.network,
            next_session=setup.sessions.__next__,
            store=registry.ref(paths.store),
            connection_state=registry.ref(paths.connection_state),
            scrubber=registry.ref(paths.scrubber),
        )

    return ChildSpec(name="ha_client", start=client, backoff=CLIENT_BACKOFF)
