"""The auto-switch groups of a node: their parts and trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import attrs

from actors.broker.registrar import RegistrationView
from actors.config import AutoSwitchGroup
from actors.control.member_link import WatchedGroup
from actors.env import Env
from actors.env.pipes import CONNECTION_BYTES_MAX
from actors.ha.core.role_effects import Role, RoleState, RoleView
from actors.ha.ha_client import PENDING_BYTES
from actors.ha.role_status import RoleStatus
from actors.node.autoswitch import AutoSwitchPart
from actors.node.kind import NodeContext, NodeKind
from actors.node.part import GroupCounts
from actors.remoting.budget import memory_bytes
from actors.runtime import ChildSpec, Registry
from actors.state_machine import Machines
from actors.storage.commitlog.group_commit import GROUP_BYTES
from actors.trees.autoswitch import Replica, ReplicaSetup, autoswitch_trees
from actors.trees.broker import CONNECTIONS_MAX
from actors.trees.group_setup import GroupSetup, ReplicaPaths
from actors.trees.node import GroupTrees

NO_ROLE: Final = RoleView(
    role=Role.SLAVE,
    state=RoleState.CONNECTING,
    fence=None,
    reason="",
    opened=False,
    number=0,
    master="",
    history=(),
    high_water=0,
)
"""What is published before a controller has told a role."""


class AutoSwitchGroups:
    """See the module's text; a `kind.NodeGroups`."""

    def __init__(self, context: NodeContext, groups: tuple[AutoSwitchGroup, ...]) -> None:
        self._context = context
        self._groups = groups
        self._counts = {group.name: GroupCounts() for group in groups}
        self._registrations = {group.name: RegistrationView() for group in groups}
        self._replicas = {group.name: Replica(role_status=RoleStatus(NO_ROLE)) for group in groups}

    def parts(self, registry: Registry) -> Mapping[str, AutoSwitchPart]:
        """Implements `NodeGroups`."""
        return {group.name: self._part(group, registry) for group in self._groups}

    def _part(self, group: AutoSwitchGroup, registry: Registry) -> AutoSwitchPart:
        context, paths = self._context, ReplicaPaths(f"/{self._context.node}/{group.name}")
        replica = self._replicas[group.name]
        return AutoSwitchPart(
            config=context.config,
            identity=context.identity,
            links=context.links(registry),
            file_group=group,
            role_status=replica.role_status,
            registrations=self._registrations[group.name],
            counts=self._counts[group.name],
            store=registry.ref(paths.store),
            derived_scrubber=registry.ref(paths.derived_scrubber),
            pull=registry.ref(paths.pull_service),
            state=registry.ref(paths.connection_state),
            scrubber=registry.ref(paths.scrubber),
            dispatcher=registry.ref(paths.dispatcher),
            owned=replica.owned,
            epochs=replica.epochs,
            manager=registry.ref(paths.replicas_manager),
            replica=replica.view,
            brokers=self._brokers(group),
        )

    def _brokers(self, group: AutoSwitchGroup) -> dict[str, str]:
        config = self._context.config
        return {each: f"{config.advertised_of(each)}:{group.broker_port}" for each in group.members}

    def trees(self, env: Env, registry: Registry, machines: Machines) -> GroupTrees:
        """Implements `NodeGroups`."""
        config, node = self._context.config, self._context.node
        setups = [
            ReplicaSetup(
                setup=attrs.evolve(
                    GroupSetup.of(config, node, group, env, registry),
                    make_paths=ReplicaPaths,
                    registrations=self._registrations[group.name],
                    stored=partial(_stored, self._counts[group.name]),
                ),
                group=group,
                cluster=config.name,
                controllers=config.controllers_of(group),
                brokers=self._brokers(group),
                replica=self._replicas[group.name],
            )
            for group in self._groups
        ]
        return autoswitch_trees(setups)

    def watched(self, member: str) -> tuple[WatchedGroup, ...]:
        """Return nothing: controllers tell who is master."""
        return ()

    def watches(self) -> tuple[ChildSpec, ...]:
        """Return no children."""
        return ()


def _stored(counts: GroupCounts) -> int:
    return counts.acknowledged + counts.outcome_unknown


def _memory(groups: tuple[AutoSwitchGroup, ...], node: str) -> Iterator[tuple[str, int]]:
    for group in groups:
        yield f"{group.name}: a batch being encoded", GROUP_BYTES + group.max_message_bytes
        yield f"{group.name}: received, in hand, waiting and in work", 3 * PENDING_BYTES
        yield f"{group.name}: the system's pipes from socket to file", CONNECTION_BYTES_MAX
        for port in group.broker_ports:
            yield f"{group.name}: connections at port {port}", memory_bytes(CONNECTIONS_MAX)


AUTOSWITCH: Final = NodeKind(groups=AutoSwitchGroups, takes_machines=False, memory=_memory)
