"""The tree of a node: its event log, its groups, its API.

It is one_for_one: a group that crashes too often is started again from its files, which affects no
other group. A group whose storage failed ends the node.

In every mode, a group's storage is syncer and store, which run together. If either crashes the
group ends, and with it the node, because what was written last is in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from actors.runtime import (
    Actor,
    AutoShutdown,
    ChildSpec,
    LazySpec,
    Restart,
    Strategy,
    SupervisorSpec,
)


@attrs.frozen(kw_only=True)
class GroupTrees:
    """The children of a node for its groups of one mode.

    Attributes:
        ahead: children that start before all groups and stop after them.
        groups: one child for each group, as `group_child` makes it.
        behind: children that start after all groups and stop first.
    """

    ahead: tuple[ChildSpec, ...] = ()
    groups: tuple[ChildSpec, ...] = ()
    behind: tuple[ChildSpec, ...] = ()


def node_tree(
    trees: Sequence[GroupTrees],
    *,
    before: tuple[ChildSpec, ...] = (),
    after: tuple[ChildSpec, ...] = (),
) -> SupervisorSpec:
    """Return the tree of one node: `before` (the event log), its groups, and `after` (the API).

    A group that crashes too often is started again from its files. A group whose storage failed
    ends the node.

    Args:
        trees: the children of the groups, one value for each mode.
    """
    ahead = [child for each in trees for child in each.ahead]
    groups = [child for each in trees for child in each.groups]
    behind = [child for each in trees for child in each.behind]
    return SupervisorSpec(
        strategy=Strategy.ONE_FOR_ONE,
        children=(*before, *ahead, *groups, *behind, *after),
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
        takes_requests=True,
    )


def group_child(name: str, start: SupervisorSpec | LazySpec) -> ChildSpec:
    """Return a group as a child of its node."""
    return ChildSpec(name=name, start=start, restart=Restart.TRANSIENT, significant=True)


STORAGE_SHUTDOWN_S: Final = 10.0
"""The seconds that a last sync may take; a store that is killed recovers at the next start."""


def storage_child(syncer: Callable[[], Actor[Any]], store: Callable[[], Actor[Any]]) -> ChildSpec:
    """Return a significant supervisor of syncer and store, one_for_all; the store stops first.

    Args:
        syncer, store: make a new actor for each start.
    """
    return ChildSpec(
        name="storage",
        start=SupervisorSpec(
            strategy=Strategy.ONE_FOR_ALL,
            children=tuple(
                ChildSpec(
                    name=name,
                    start=start,
                    restart=Restart.TEMPORARY,
                    significant=True,
                    shutdown_s=STORAGE_SHUTDOWN_S,
                )
                for name, start in (("syncer", syncer), ("store", store))
            ),
            auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
        ),
        restart=Restart.TEMPORARY,
        significant=True,
    )
