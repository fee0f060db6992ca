"""What a node needs to know of a mode: one value for each, in `kinds`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

import attrs

from actors.api.handle import NodeIdentity
from actors.config import ClusterConfig, Group
from actors.control.member_link import WatchedGroup
from actors.control.members import MemberLinks
from actors.env import Env
from actors.node.part import Part
from actors.runtime import ChildSpec, Registry
from actors.state_machine import Machines
from actors.storage.node.identity import NodeDirectory
from actors.trees.node import GroupTrees

G = TypeVar("G", bound=Group)


@attrs.frozen(kw_only=True)
class NodeContext:
    """What the groups of a node have in common.

    Attributes:
        directory: what the node remembers; None: it is only looked at, and remembers nothing.
    """

    config: ClusterConfig
    identity: NodeIdentity
    rng: random.Random
    directory: NodeDirectory | None

    @property
    def node(self) -> str:
        return self.identity.node

    def links(self, registry: Registry) -> MemberLinks:
        """How the other nodes are asked, once the tree is about to start."""
        return MemberLinks(self.node, registry.ref, self.config.answer_timeout_s)


class NodeGroups(Protocol):
    """All groups of one mode on one node."""

    def parts(self, registry: Registry) -> Mapping[str, Part]:
        """By group; asked for once, when the tree is about to start."""

    def trees(self, env: Env, registry: Registry, machines: Machines) -> GroupTrees:
        """What runs for them."""

    def watched(self, member: str) -> tuple[WatchedGroup, ...]:
        """What the link to another node watches for them."""

    def watches(self) -> tuple[ChildSpec, ...]:
        """What runs beside the links for them, and asks over these."""


@attrs.frozen(kw_only=True)
class NodeKind(Generic[G]):
    """A mode, as far as a running node goes.

    Attributes:
        groups: makes the groups of one node; touches nothing outside.
        takes_machines: whether its groups may have a state machine.
        check: looks at a group before a start, in the light of what the node remembers. Raises:
            ConfigError.
        memory: what a node's groups hold beside what keys of the cluster file bound: the words for
            it, and how many bytes at most.
    """

    groups: Callable[[NodeContext, tuple[G, ...]], NodeGroups]
    takes_machines: bool
    check: Callable[[ClusterConfig, G, NodeDirectory], None] = lambda config, group, directory: None
    memory: Callable[[tuple[G, ...], str], Iterable[tuple[str, int]]] = lambda groups, node: ()
