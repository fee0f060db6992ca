"""The classic groups of a node: their parts and trees, and what links watch for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import attrs

from actors.broker.registrar import RegistrationView
from actors.config import ClassicGroup, ClusterConfig
from actors.control.member_link import WatchedGroup
from actors.control.members import MemberAuthority
from actors.env import Env
from actors.env.pipes import CONNECTION_BYTES_MAX
from actors.errors import ConfigError
from actors.ha.ha_client import PENDING_BYTES
from actors.ha.role_parts import RoleParts, first_view
from actors.ha.role_status import RoleStatus
from actors.log_types import GroupRecord
from actors.node.classic import ClassicPart
from actors.node.kind import NodeContext, NodeKind
from actors.node.part import GroupCounts
from actors.remoting.budget import memory_bytes
from actors.runtime import ChildSpec, Registry
from actors.state_machine import Machines
from actors.storage.commitlog.group_commit import GROUP_BYTES
from actors.storage.node.identity import NEW_RECORD, NodeDirectory, identity_path
from actors.trees.broker import CONNECTIONS_MAX
from actors.trees.classic import classic_trees
from actors.trees.group_setup import GroupPaths, GroupSetup
from actors.trees.node import GroupTrees


class ClassicGroups:
    """See the module's text; a `kind.NodeGroups`.

    Attributes:
        roles: by group, what its role keeper is made from.
    """

    def __init__(self, context: NodeContext, groups: tuple[ClassicGroup, ...]) -> None:
        self._context = context
        self._groups = groups
        self._counts = {group.name: GroupCounts() for group in groups}
        self._registrations = {group.name: RegistrationView() for group in groups}
        self.roles = {group.name: _role_parts(context, group) for group in groups}

    def parts(self, registry: Registry) -> Mapping[str, ClassicPart]:
        """Implements `NodeGroups`."""
        return {group.name: self._part(group, registry) for group in self._groups}

    def _part(self, group: ClassicGroup, registry: Registry) -> ClassicPart:
        context, paths = self._context, GroupPaths(f"/{self._context.node}/{group.name}")
        return ClassicPart(
            config=context.config,
            identity=context.identity,
            links=context.links(registry),
            rng=context.rng,
            file_group=group,
            role_status=self.roles[group.name].role_status,
            registrations=self._registrations[group.name],
            counts=self._counts[group.name],
            store=registry.ref(paths.store),
            derived_scrubber=registry.ref(paths.derived_scrubber),
            pull=registry.ref(paths.pull_service),
            state=registry.ref(paths.connection_state),
            keeper=registry.ref(paths.role),
            scrubber=registry.ref(paths.scrubber),
            dispatcher=registry.ref(paths.dispatcher),
        )

    def trees(self, env: Env, registry: Registry, machines: Machines) -> GroupTrees:
        """Implements `NodeGroups`."""
        context = self._context
        setups = [
            attrs.evolve(
                GroupSetup.of(context.config, context.node, group, env, registry),
                registrations=self._registrations[group.name],
                stored=partial(_stored, self._counts[group.name]),
            )
            for group in self._groups
        ]
        return classic_trees(setups, self.roles)

    def watched(self, member: str) -> tuple[WatchedGroup, ...]:
        """Return the classic groups of which `member`, a Python node, is a member too."""
        return tuple(
            WatchedGroup(
                name=group.name,
                retry_s=group.reconnect_interval_s,
                role_status=self.roles[group.name].role_status,
            )
            for group in self._groups
            if member in group.members
        )

    def watches(self) -> tuple[ChildSpec, ...]:
        """Return no children, because the links watch what is needed."""
        return ()


def _stored(counts: GroupCounts) -> int:
    return counts.acknowledged + counts.outcome_unknown


def _role_parts(context: NodeContext, group: ClassicGroup) -> RoleParts:
    directory = context.directory

    def record() -> GroupRecord:
        return directory.record(group.name) if directory is not None else NEW_RECORD

    def remember(new: GroupRecord) -> None:
        if directory is not None:
            directory.update(group.name, new)

    async def note(new: GroupRecord) -> None:
        if directory is not None:
            await directory.update_beside(group.name, new)

    view = first_view(group, context.node, record())
    return RoleParts(
        file_master=group.master,
        authority=lambda registry: MemberAuthority(context.links(registry), group.name),
        record=record,
        remember=remember,
        note=note,
        role_status=RoleStatus(view),
    )


def _check_master(config: ClusterConfig, group: ClassicGroup, directory: NodeDirectory) -> None:
    """Check that the promoted master is still a member, as the cluster file may have changed."""
    record = directory.record(group.name)
    master = record.promotion_master
    if master and master not in group.members:
        raise ConfigError(
            f"{config.path or 'the configuration'}: key groups.{group.name}: expected {master}"
            f" among its members, whom promotion {record.promotion_number} made master"
            f" ({identity_path(directory.path)}), found {', '.join(group.members)}:"
            " put it back, and promote another one before it leaves"
        )


def _memory(groups: tuple[ClassicGroup, ...], node: str) -> Iterator[tuple[str, int]]:
    for group in groups:
        if group.role_of(node).appends:
            yield f"{group.name}: a batch being encoded", GROUP_BYTES + group.max_message_bytes
        else:
            yield f"{group.name}: received, in hand, waiting and in work", 3 * PENDING_BYTES
            yield f"{group.name}: the system's pipes from socket to file", CONNECTION_BYTES_MAX
        for port in group.broker_ports:
            yield f"{group.name}: connections at port {port}", memory_bytes(CONNECTIONS_MAX)


CLASSIC: Final = NodeKind(
    groups=ClassicGroups, takes_machines=False, check=_check_master, memory=_memory
)
