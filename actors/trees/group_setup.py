"""Where a group's actors live on a node, and what its tree is built from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import attrs

from actors.config import ClassicGroup, ClusterConfig
from actors.env import Env
from actors.ha import role_messages
from actors.ha.role_status import RoleStatus
from actors.log_types import Promotion
from actors.runtime import ActorRef, Registry
from actors.storage.commitlog import store_messages
from actors.storage.layout import StoreLayout


@attrs.frozen
class GroupPaths:
    """Where a group's actors live, for whoever wants their refs.

    Attributes:
        base: "/n0/orders".
    """

    base: str

    @property
    def store(self) -> str:
        return f"{self.base}/storage/store"

    @property
    def syncer(self) -> str:
        return f"{self.base}/storage/syncer"

    @property
    def dispatcher(self) -> str:
        return f"{self.base}/dispatcher"

    @property
    def pull_service(self) -> str:
        return f"{self.base}/pull_service"

    @property
    def scrubber(self) -> str:
        return f"{self.base}/scrubber"

    @property
    def derived_scrubber(self) -> str:
        return f"{self.base}/derived_scrubber"

    @property
    def group_transfer(self) -> str:
        """Only on the master."""
        return f"{self.base}/group_transfer"

    @property
    def connection_state(self) -> str:
        return f"{self.base}/connection_state"

    @property
    def connections(self) -> str:
        """Only on the master."""
        return f"{self.base}/connections"

    @property
    def ha_client(self) -> str:
        """Only on a slave."""
        return f"{self.base}/ha_client"

    @property
    def role(self) -> str:
        """The role keeper, which stands outside the group's tree."""
        node, _, group = self.base.rpartition("/")
        return f"{node}/roles/{group}"


@attrs.frozen(kw_only=True)
class GroupSetup:
    """One group on one node: what every part of its tree is built from.

    Attributes:
        group: as led by its present master.
        guard: decides whether appends are taken and whom a slave may follow; None: the cluster file
            alone.
        role_status: what the guard publishes.
        connections, sessions: numbers that outlive restarts of the tree.
    """

    config: ClusterConfig
    node: str
    group: ClassicGroup
    env: Env
    registry: Registry
    guard: store_messages.Guard | None = None
    role_status: RoleStatus | None = None
    connections: Iterator[int] = attrs.field(factory=partial(itertools.count, 1))
    sessions: Iterator[int] = attrs.field(factory=partial(itertools.count, 1))

    @property
    def paths(self) -> GroupPaths:
        return GroupPaths(f"/{self.node}/{self.group.name}")

    @property
    def layout(self) -> StoreLayout:
        return StoreLayout(self.config.group_dir(self.node, self.group.name))

    @property
    def synced(self) -> bool:
        return self.group.durability == "synced"

    @property
    def keeper(self) -> ActorRef[role_messages.Message] | None:
        return self.registry.ref(self.paths.role) if self.guard is not None else None

    def address_of(self, node: str) -> str:
        return self.config.nodes[node]

    def led_by(
        self, promotion: Promotion, cut_bytes: int | None, role_status: RoleStatus | None = None
    ) -> GroupSetup:
        """The same with the master of that promotion, guarded by its role keeper."""
        guard = store_messages.Guard(self.registry.ref(self.paths.role), promotion, cut_bytes)
        return attrs.evolve(
            self, group=self.group.led_by(promotion.master), guard=guard, role_status=role_status
        )
