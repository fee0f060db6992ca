"""What a node needs from a mode; `kinds` has one value for each."""

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
    """What all groups of one node share.

    Attributes:
        directory: the node's data directory; None if the tree is only printed and never runs.
    """

    config: ClusterConfig
    identity: NodeIdentity
    rng: random.Random
    directory: NodeDirectory | None

    @property
    def node(self) -> str:
        return self.identity.node

    def links(self, registry: Registry) -> MemberLinks:
        """Return the links to the other nodes; called when the tree is about to start."""
        return MemberLinks(self.node, registry.ref, self.config.answer_timeout_s)


class NodeGroups(Protocol):
    """All groups of one mode on one node."""

    def parts(self, registry: Registry) -> Mapping[str, Part]:
        """Return the parts by group; called once, when the tree is about to start."""

    def trees(self, env: Env, registry: Registry, machines: Machines) -> GroupTrees:
        """Return the supervision trees of the groups."""

    def watched(self, member: str) -> tuple[WatchedGroup, ...]:
        """Return the groups that the link to another node has to watch."""

    def watches(self) -> tuple[ChildSpec, ...]:
        """Return further children, which are started beside the links and ask over them."""


@attrs.frozen(kw_only=True)
class NodeKind(Generic[G]):
    """What a running node needs from a mode.

    Attributes:
        groups: makes the groups of one node; touches nothing outside.
        takes_machines: whether its groups may have a state machine.
        check: checks a group against the node's data directory before a start, and raises
            ConfigError.
        memory: yields the bounds on memory that no key of the cluster file sets: for each a text
            and the number of bytes.
    """

    groups: Callable[[NodeContext, tuple[G, ...]], NodeGroups]
    takes_machines: bool
    check: Callable[[ClusterConfig, G, NodeDirectory], None] = lambda config, group, directory: None
    memory: Callable[[tuple[G, ...], str], Iterable[tuple[str, int]]] = lambda groups, node: ()
