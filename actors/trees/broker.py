"""The part of a group's tree that makes a node a broker for others: its metadata, and the port
where slaves and operators ask for it.

- metadata owns the tables, on the master and on slaves.
- remoting_client and metadata_sync of a slave copy the master's tables. A Java master is asked for
  all of them again and again, and one of ours sends what changes. A copy asks only while it
  follows.
- metadata_watches sends changes to the slaves of ours.
- midnights counts messages by day.
- port and vip_port are the servers at listenPort and at listenPort - 2, each with `connections` and
  `accept`. With a `second_host` there are also second_port and second_vip_port.
- announcer reports to the registrar, if there are name servers; in an auto-switch group once the
  role is taken.

Their supervisor, `broker`, is the last child of the group's tree. If they crash too often it ends
and is started again after a while, so once they have started no crash of theirs touches
replication.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from actors.broker.changed_settings import PERMISSION
from actors.broker.followed import FollowedBroker, KnownBroker
from actors.broker.introspection import Introspection
from actors.broker.midnights import MidnightCounter
from actors.broker.registrar import Announcer, Followers, Presence, Registrar
from actors.broker.replica_port import ReplicaPort, TakenRole
from actors.config import AutoSwitchGroup, CommitLogGroup
from actors.env import Address
from actors.metadata import keeper as keeper_messages
from actors.metadata.administration import Administration
from actors.metadata.answers import MetadataAnswers
from actors.metadata.keeper import MetadataKeeper
from actors.metadata.master_watch import MasterWatch
from actors.metadata.slave_sync import VIP_BELOW, SlaveSync
from actors.metadata.watches import MetadataWatches
from actors.remoting.budget import RPCBudget
from actors.remoting.client import RemotingClient
from actors.remoting.requests import Processors, Request, plain, posted_to
from actors.remoting.server import SLOTS_KEPT, ServerSettings, listed, rpc_server
from actors.runtime import Backoff, ChildSpec, Strategy, SupervisorSpec
from actors.storage.log.log_reader import LogReader
from actors.trees.group_setup import CopyRules, GroupSetup, Registering
from actors.trees.node import STORAGE_SHUTDOWN_S
from wire.broker.increments import WATCH_METADATA
from wire.broker.registration import MASTER_ID

Setup: TypeAlias = GroupSetup[CommitLogGroup]
CONNECTIONS_MAX: Final = SLOTS_KEPT + 64
"""The most connections at each port: a dozen of slaves, name servers' probes, operators' tools."""
BROKER_BACKOFF: Final = Backoff(first_s=1.0, max_s=30.0)
_APART_BACKOFF: Final = Backoff(first_s=30.0, max_s=30.0)
"""It is as long as a supervisor's period, so these use at most one restart of each period."""
REGISTRARS: Final = "broker.registrars"
"""The name of the registrars' supervisor, which no group can have."""


def broker_children(setup: Setup) -> tuple[ChildSpec, ...]:
    """Return the children that make a node a broker; for a copy with `metadata`, those that copy.

    There are none if the group has no `broker_port`, or the copy takes no metadata.
    """
    group, copy = setup.group, setup.copy
    if copy is not None:
        if copy.metadata is None:
            return ()
        return _apart(_keeper(setup), _client(setup), _copying(setup, copy.metadata))
    master = setup.master_asked_at
    if group.broker_port is None or master is None:
        return ()
    is_master = group.master == setup.node
    setup.registrations.settings = setup.changed.texts() if setup.changed is not None else ()
    return _apart(
        _keeper(setup),
        *(() if is_master else (_client(setup), _copying(setup, master))),
        ChildSpec(name="metadata_watches", start=partial(MetadataWatches, view=setup.metadata)),
        _midnights(setup),
        *_servers(setup, group.broker_port),
        *(() if setup.registering is None else (_announcer(setup),)),
    )


def _apart(*children: ChildSpec) -> tuple[ChildSpec, ...]:
    """Return a child of the group that supervises these; the group does not count their crashes."""
    start = SupervisorSpec(strategy=Strategy.REST_FOR_ONE, children=children)
    return (ChildSpec(name="broker", start=start, backoff=_APART_BACKOFF),)


def _keeper(setup: Setup) -> ChildSpec:
    keeper = partial(
        MetadataKeeper,
        env=setup.env,
        folder=setup.layout.config,
        owner=f"{setup.node}/{setup.group.name}",
        view=setup.metadata,
        is_master=setup.group.master == setup.node,
        dispatcher=setup.registry.ref(setup.paths.dispatcher),
        store_time=setup.store_time,
    )
    return ChildSpec(
        name="metadata",
        start=keeper,
        shutdown_s=STORAGE_SHUTDOWN_S,  # it writes files at its end
        backoff=BROKER_BACKOFF,
    )


def _midnights(setup: Setup) -> ChildSpec:
    counter = partial(
        MidnightCounter, env=setup.env, stored=setup.stored, midnights=setup.midnights
    )
    return ChildSpec(name="midnights", start=counter)


def _client(setup: Setup) -> ChildSpec:
    """Return the client that calls the master's port, or name servers."""
    client = partial(RemotingClient, network=setup.env.network, local_host=setup.own_host)
    return ChildSpec(name="remoting_client", start=client)


def _announcer(setup: Setup) -> ChildSpec:
    """Return the announcer. It starts last, so no client is sent to a port that is not open yet."""
    group, registry, paths = setup.group, setup.registry, setup.paths
    followers = Followers(
        ha_client=registry.ref(paths.ha_client),
        metadata_sync=registry.ref(paths.metadata_sync),
    )
    follows = group.master != setup.node and group.follows_java and setup.taken is None
    presence = Presence(member=setup.member, followers=followers if follows else None)
    announcer = partial(
        Announcer,
        presence=presence,
        published=setup.registrations,
        role_status=None if setup.taken is None else setup.role_status,
    )
    return ChildSpec(name="announcer", start=announcer)


def registrars(setups: Sequence[Setup]) -> tuple[ChildSpec, ...]:
    """Return the registrars of a node's groups, which start after the groups and stop first."""
    children = tuple(
        ChildSpec(
            name=setup.group.name,
            start=SupervisorSpec(
                strategy=Strategy.REST_FOR_ONE,
                children=(_client(setup), _registrar(setup, setup.registering)),
            ),
            backoff=_APART_BACKOFF,
        )
        for setup in setups
        if setup.registering is not None
    )
    if not children:
        return ()
    start = SupervisorSpec(children=children)
    return (ChildSpec(name=REGISTRARS, start=start, backoff=_APART_BACKOFF),)


def _registrar(setup: Setup, registering: Registering) -> ChildSpec:
    node, name = setup.node, setup.group.name
    assert setup.changed is not None  # it has a broker_port
    registrar = partial(
        Registrar,
        owner=f"{node}/{name}",
        servers=registering.servers,
        client=setup.registry.ref(f"/{node}/{REGISTRARS}/{name}/remoting_client"),
        view=setup.metadata,
        published=setup.registrations,
        changed=setup.changed,
    )
    return ChildSpec(name="registrar", start=registrar, backoff=BROKER_BACKOFF)


def _copying(setup: Setup, master: Address) -> ChildSpec:
    """Return the actor that copies the tables of a master that listens at `master`."""
    group, paths = setup.group, setup.paths
    copying: Callable[..., SlaveSync | MasterWatch] = MasterWatch
    if group.follows_java:
        copy, levels = setup.copy, group.message_delay_level
        may_ask = None if copy is None else _followed(setup, copy, master).may_ask
        copying = partial(SlaveSync, may_ask=may_ask, delay_levels=levels)
    sync = partial(
        copying,
        owner=f"{setup.node}/{group.name}",
        master=master,
        client=setup.registry.ref(paths.remoting_client),
        keeper=setup.registry.ref(paths.metadata),
        view=setup.metadata,
    )
    return ChildSpec(name="metadata_sync", start=sync, backoff=BROKER_BACKOFF)


def _followed(setup: Setup, copy: CopyRules, broker: Address) -> FollowedBroker:
    group, paths, disk = setup.group, setup.paths, setup.env.disk
    return FollowedBroker(
        master=Address(setup.address_of(group.master), group.port),
        broker=broker,
        client=setup.registry.ref(paths.remoting_client),
        state=setup.registry.ref(paths.connection_state),
        known=KnownBroker(disk, copy.known_broker),
        make_reader=partial(LogReader, disk, setup.layout.commit_log, group.segment_bytes),
        record_bytes_max=group.record_bytes_max,
    )


def _is_open_master(setup: Setup) -> bool:
    status = setup.role_status
    return setup.group.master == setup.node and (status is None or status.is_open)


def _settings(setup: Setup, port: int) -> dict[str, str]:
    """Return the group's settings on this node by upstream's names, as `getBrokerConfig` does."""
    group, registering = setup.group, setup.registering
    is_master = group.master == setup.node
    role = "ASYNC_MASTER" if group.sure_copies == 1 else "SYNC_MASTER"
    address = setup.address_of(setup.node)
    found = {
        "brokerIP1": address if registering is None else registering.advertised,
        "brokerIP2": address if registering is None else registering.advertised_ha,
        "brokerName": group.name,
        "brokerRole": role if is_master else "SLAVE",
        "flushDiskType": "SYNC_FLUSH" if setup.synced else "ASYNC_FLUSH",
        "haHousekeepingInterval": round(1000 * group.ha_housekeeping_interval_s),
        "haListenPort": group.port,
        "haSendHeartbeatInterval": round(1000 * group.ha_send_heartbeat_interval_s),
        "haTransferBatchSize": group.frame_bytes,
        "inSyncReplicas": group.sure_copies,
        "listenPort": port,
        "mappedFileSizeCommitLog": group.segment_bytes,
        "mappedFileSizeConsumeQueue": group.consume_queue_bytes,
        "maxMessageSize": group.max_message_bytes,
        "messageDelayLevel": group.message_delay_level,
        "slaveTimeout": round(1000 * group.slave_timeout_s),
        "storePathRootDir": setup.root,
    }
    if registering is not None:
        found |= {
            "brokerClusterName": registering.cluster,
            "brokerId": registering.broker_id(setup.node, group.master),
            "namesrvAddr": ";".join(map(str, registering.servers)),
        }
    if setup.taken is not None:
        assert isinstance(group, AutoSwitchGroup)
        found |= _of_replica(setup, group, setup.taken)
    return {key: str(value) for key, value in found.items()}


def _of_replica(setup: Setup, group: AutoSwitchGroup, taken: TakenRole) -> Mapping[str, str | int]:
    """Return the settings that only replicas of auto-switch groups have, or have otherwise."""
    is_master = group.master == setup.node

    def text(value: bool) -> str:
        return str(value).lower()

    return {
        "allAckInSyncStateSet": text(group.all_ack_in_sync_state_set),
        "asyncLearner": text(setup.node in group.learners),
        "brokerId": MASTER_ID if is_master else taken.broker_id,
        "brokerRole": "SYNC_MASTER" if is_master else "SLAVE",
        "controllerAddr": ";".join(taken.controllers),
        "controllerHeartBeatTimeoutMills": round(1000 * group.controller_heart_beat_timeout_s),
        "enableControllerMode": text(True),
        "haMaxTimeSlaveNotCatchup": round(1000 * group.ha_max_time_slave_not_catchup_s),
        "inSyncReplicas": group.in_sync_replicas,
        "minInSyncReplicas": group.least_in_sync,
        "storePathEpochFile": setup.layout.epochs,
        "syncFromLastFile": text(group.sync_from_last_file),
    }


def _replica_port(setup: Setup, port: int) -> ReplicaPort | None:
    """Return what a replica of an auto-switch group answers besides; None for other groups."""
    group, registering, taken = setup.group, setup.registering, setup.taken
    if taken is None:
        return None
    own = setup.address_of(setup.node)
    return ReplicaPort(
        role=taken,
        is_master=group.master == setup.node,
        broker=group.name,
        broker_at=Address(own if registering is None else registering.advertised, port),
        ha_at=Address(own if registering is None else registering.advertised_ha, group.port),
    )


def _say_changed(setup: Setup, wanted: Mapping[str, str]) -> None:
    """Publish what operators have changed: in the status, and what name servers have to know to
    them, by registering.

    Args:
        wanted: the settings that were changed just now.
    """
    registrations, changed = setup.registrations, setup.changed
    assert changed is not None
    registrations.settings = changed.texts()
    if registrations.presence is not None and PERMISSION.name in wanted:
        registrations.announce(registrations.presence)


def _servers(setup: Setup, port: int) -> tuple[ChildSpec, ...]:
    group = setup.group
    hosts = frozenset((*map(setup.address_of, group.members), *group.broker_peers))
    watches = posted_to(setup.registry.ref(setup.paths.metadata_watches))
    keeper = setup.registry.ref(setup.paths.metadata, keeper_messages.Message)
    asked = MetadataAnswers(setup.metadata).processors
    changed = Administration(setup.metadata, keeper, partial(_is_open_master, setup)).processors
    assert setup.changed is not None  # it has a broker_port
    told = Introspection(
        env=setup.env,
        settings=_settings(setup, port),
        changed=setup.changed,
        has_changed=partial(_say_changed, setup),
        folder=setup.root,
        stored=setup.stored,
        midnights=setup.midnights,
        view=setup.metadata,
        state=setup.registry.ref(setup.paths.connection_state),
    ).processors
    replica, allowed = _replica_port(setup, port), listed(hosts)
    of_replica = {} if replica is None else replica.processors
    answers = Processors({**asked, **changed, **told, **of_replica})

    def may_connect(host: str) -> bool:
        return allowed(host) or (replica is not None and replica.may_connect(host))

    def serve(request: Request) -> None:
        if request.header.code == WATCH_METADATA:
            watches(request)
        else:
            answers.serve(request)

    session = plain(serve)

    def server(at: int, host: str) -> SupervisorSpec:
        return rpc_server(
            ServerSettings(
                network=setup.env.network,
                host=host,
                port=at,
                where=f"groups.{group.name}.broker_port",
                may_connect=may_connect,
                session=session,
                next_connection=setup.connections.__next__,
                connections_max=CONNECTIONS_MAX,
                may_be_elsewhere=host == setup.second_host,
            ),
            budgets[at],
        )

    budgets = {port: RPCBudget(), port - VIP_BELOW: RPCBudget()}
    hosts_by_prefix = {"": setup.address_of(setup.node)}
    if setup.second_host is not None:
        hosts_by_prefix["second_"] = setup.second_host
    return tuple(
        ChildSpec(name=f"{prefix}{name}", start=server(at, host), backoff=BROKER_BACKOFF)
        for prefix, host in hosts_by_prefix.items()
        for name, at in (("port", port), ("vip_port", port - VIP_BELOW))
    )
