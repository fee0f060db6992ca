"""The trees of classic groups, built by pure functions and printable before they run.

A group is rest_for_one. Its listener comes last, so that it stops taking connections first:

- A master has storage, dispatcher, pull_service, scrubber, derived_scrubber, group_transfer,
  connection_state, connections (dynamic) and accept_socket.
- A slave has storage, dispatcher, pull_service, scrubber, derived_scrubber, connection_state and
  ha_client.
- A copy of a broker that no cluster file names is a slave with log_judge before ha_client.

A group with a `broker_port` also has the children of the module `broker`, behind all others.

What a crash of storage or dispatcher does is said in the module `commit_log`. After any other
crash, the children behind the crashed one are restarted: acknowledgements are counted anew, and
connections are made anew.

Upstream: apache/rocketmq store/ha/DefaultHAService.java and DefaultMessageStore.start, shutdown
(5.3.3), which order the same parts by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

from actors.config import ClassicGroup
from actors.env import Address
from actors.ha.accept_socket import AcceptSocket
from actors.ha.connection_state import ConnectionState
from actors.ha.core.acceptance import UNIDENTIFIED_MAX
from actors.ha.core.ack_policy import Copies, ack_policy
from actors.ha.core.dialect import classic_dialect
from actors.ha.core.slave_table import SlaveTable
from actors.ha.core.transfer_wait import TransferWait
from actors.ha.group_transfer import GROWTH_WITHIN_S, GroupTransfer
from actors.ha.ha_client import HAClient
from actors.ha.ha_connection import ha_connection
from actors.ha.log_judge import LogJudge
from actors.ha.role_keeper import RoleKeeper
from actors.ha.role_parts import RoleParts, fresh_reads, role_rules
from actors.ha.settings import ClientSettings, ConnectionSettings
from actors.runtime import (
    AutoShutdown,
    Backoff,
    ChildSpec,
    DynamicSpec,
    LazySpec,
    Restart,
    SupervisorSpec,
)
from actors.storage.log.log_reader import LogReader
from actors.trees.broker import broker_children, registrars
from actors.trees.commit_log import connection_settings, log_group, record_verifier
from actors.trees.group_setup import GroupSetup
from actors.trees.node import STORAGE_SHUTDOWN_S, GroupTrees, group_child

Setup: TypeAlias = GroupSetup[ClassicGroup]
CLIENT_BACKOFF = Backoff(first_s=1.0, max_s=30.0)
"""The pause between crashes of ha_client itself, which handles lost connections without a crash."""
UPSTREAM_POLL_S = 0.1
"""The seconds after which an idle writer of upstream's ASYNC_MASTER looks for new bytes (T19)."""


def group_tree(setup: Setup) -> SupervisorSpec:
    """Return the tree of one group on one node, a master or a slave."""
    is_master = setup.group.master == setup.node
    return log_group(
        setup,
        acknowledges=is_master,
        waits_within_s=GROWTH_WITHIN_S if isinstance(ack_policy(setup.group), Copies) else 0.0,
        children=(
            *(master_ha(setup) if is_master else slave_ha(setup)),
            *broker_children(setup),
        ),
    )


def master_ha(setup: Setup) -> tuple[ChildSpec, ...]:
    """Return the children of the master's replication, which follow its storage."""
    group, registry, paths = setup.group, setup.registry, setup.paths
    connections = registry.ref(paths.connections)
    accept_socket = partial(
        AcceptSocket,
        network=setup.env.network,
        host=setup.address_of(setup.node),
        port=group.port,
        where=f"groups.{group.name}.port",
        slaves={setup.address_of(slave.node): slave.node for slave in group.slaves},
        make_child=partial(ha_connection, _connections(setup)),
        next_connection=setup.connections.__next__,
        connections=connections,
        connection_state=registry.ref(paths.connection_state),
    )
    return (
        ChildSpec(name="group_transfer", start=partial(_group_transfer, setup)),
        ChildSpec(
            name="connection_state",
            start=lambda: ConnectionState(
                table=_slave_table(group),
                store=registry.ref(paths.store),
                connections=connections,
                keeper=setup.keeper,
            ),
        ),
        ChildSpec(
            name="connections",
            start=DynamicSpec(children_max=len(group.slaves) + UNIDENTIFIED_MAX),
        ),
        ChildSpec(name="accept_socket", start=accept_socket),
    )


def slave_ha(setup: Setup) -> tuple[ChildSpec, ...]:
    """Return the children of a slave's replication, which follow its storage."""
    group, registry, paths, copy = setup.group, setup.registry, setup.paths, setup.copy
    settings = ClientSettings(
        own_host=setup.own_host,
        master=_master_address(setup),
        dialect=classic_dialect(group.compat),
        synced=group.strict_sync,
        segment_bytes=group.segment_bytes,
        heartbeat_s=group.ha_send_heartbeat_interval_s,
        housekeeping_s=group.ha_housekeeping_interval_s,
        connect_timeout_s=group.connect_timeout_s,
        reconnect_interval_s=group.reconnect_interval_s,
        keeper=setup.keeper,
        judge=setup.keeper if copy is None else registry.ref(paths.log_judge),
        passive=copy is not None and copy.passive,
        receive_bytes_per_s=None if copy is None else copy.bytes_per_s,
        verifier=partial(record_verifier, setup) if _master_compares_nothing(group) else None,
        run_beside=setup.env.run_beside,
    )
    client = partial(
        HAClient,
        settings=settings,
        network=setup.env.network,
        next_session=setup.sessions.__next__,
        store=registry.ref(paths.store),
        connection_state=registry.ref(paths.connection_state),
        scrubber=registry.ref(paths.scrubber),
    )
    return (
        ChildSpec(
            name="connection_state",
            start=lambda: ConnectionState(
                table=SlaveTable(in_sync_gap_bytes=group.ha_max_gap_not_in_sync_bytes),
                store=registry.ref(paths.store),
            ),
        ),
        *(() if copy is None else (ChildSpec(name="log_judge", start=partial(_judge, setup)),)),
        ChildSpec(name="ha_client", start=client, backoff=CLIENT_BACKOFF),
    )


def _master_address(setup: Setup) -> Address:
    return Address(setup.address_of(setup.group.master), setup.group.port)


def _judge(setup: Setup) -> LogJudge:
    disk, group = setup.env.disk, setup.group
    return LogJudge(
        network=setup.env.network,
        master=_master_address(setup),
        dialect=classic_dialect(group.compat),
        make_reader=partial(LogReader, disk, setup.layout.commit_log, group.segment_bytes),
        connect_timeout_s=group.connect_timeout_s,
        run_beside=setup.env.run_beside,
    )


def _master_compares_nothing(group: ClassicGroup) -> bool:
    """Return whether the slave has to check the CRCs of records, because its master is Java.

    With `compat` it checks none, as upstream's slave.
    """
    return group.master_node.kind == "java" and group.compat is None


def _group_transfer(setup: Setup) -> GroupTransfer:
    group, registry = setup.group, setup.registry
    return GroupTransfer(
        wait=TransferWait(
            copies=group.sure_copies,
            synced=setup.synced,
            counted=tuple(node for node in group.counting_nodes if node != group.master),
            whole_range=group.compat is None,
            upstream=group.compat is not None,
            policy=ack_policy(group),
        ),
        durability=group.durability,
        store=registry.ref(setup.paths.store),
        readers=registry.ref(setup.paths.pull_service),
        acknowledged=setup.acknowledged,
        keeper=setup.keeper if group.compat is None else None,  # upstream keeps no mark (T30)
        role_status=setup.role_status,
    )


def _slave_table(group: ClassicGroup) -> SlaveTable:
    table = SlaveTable(
        in_sync_gap_bytes=group.ha_max_gap_not_in_sync_bytes, upstream=group.compat is not None
    )
    for slave in group.slaves:
        table.add_slave(slave.node, slave.kind, counts=slave.node in group.counting_nodes)
    return table


def _connections(setup: Setup) -> ConnectionSettings:
    group = setup.group
    polls = group.compat is not None and group.sure_copies == 1
    poll_s = UPSTREAM_POLL_S if polls else None
    return connection_settings(setup, classic_dialect(group.compat), poll_s=poll_s)


# ---- all groups of a node ----


def classic_trees(
    setups: Sequence[Setup], roles: Mapping[str, RoleParts] | None = None
) -> GroupTrees:
    """Return the groups of one node, with their role keepers ahead and their registrars behind.

    A group's tree is built for the role that the node has in it when the tree starts.

    Args:
        roles: the parts of the role keepers by group; None if the cluster file alone decides which
            node is master.
    """
    return GroupTrees(
        ahead=() if roles is None or not setups else (_role_keepers(setups, roles),),
        groups=tuple(
            group_child(setup.group.name, LazySpec(partial(_group_now, setup, roles)))
            for setup in setups
        ),
        behind=registrars(setups),
    )


def _group_now(setup: Setup, roles: Mapping[str, RoleParts] | None) -> SupervisorSpec:
    if roles is None:
        return group_tree(setup)
    parts = roles[setup.group.name]
    return group_tree(setup.led_by(parts.promotion, parts.record().cut_bytes, parts.role_status))


def _role_keepers(setups: Sequence[Setup], roles: Mapping[str, RoleParts]) -> ChildSpec:
    """Return the role keepers. If one crashes the node ends, because its record is in doubt."""
    return ChildSpec(
        name="roles",
        start=SupervisorSpec(
            children=tuple(
                ChildSpec(
                    name=setup.group.name,
                    start=partial(_role_keeper, setup, roles[setup.group.name]),
                    restart=Restart.TEMPORARY,
                    significant=True,
                    shutdown_s=STORAGE_SHUTDOWN_S,  # it may sync what it is to remember
                )
                for setup in setups
            ),
            auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
        ),
        restart=Restart.TEMPORARY,
        significant=True,
    )


def _role_keeper(setup: Setup, parts: RoleParts) -> RoleKeeper:
    registry, paths, group = setup.registry, setup.paths, setup.group
    return RoleKeeper(
        group=group.name,
        rules=role_rules(group, setup.node, parts.record(), setup.env.rng),
        role_status=parts.role_status,
        remember=parts.remember,
        note=parts.note,
        root=registry.ref(f"/{setup.node}"),
        store_ref=registry.ref(paths.store),
        transfer_ref=registry.ref(paths.group_transfer),
        authority=parts.authority(registry),
        fresh=fresh_reads(group, setup.node),
    )
