"""The tree of a node: its event log, its groups, its API.

One_for_one: a group that crashes too often is started again from its files, and no other hears of
it; one whose storage failed ends the node.

A group's storage is syncer and store, together or not at all, whatever its mode. If either crashes
the group ends, and with it the node: what was written last is in doubt.
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
        ahead: those that start before all groups and stop after them.
        groups: one child for each group, as `group_child` makes it.
        behind: those that start after all groups and stop first.
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
    """All of one node: `before` (the event log), its groups, `after` (the API).

    A group that crashes too often is started again from its files; one whose storage failed ends
    the node.

    Args:
        trees: one for each mode.
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
    """A group as a child of its node."""
    return ChildSpec(name=name, start=start, restart=Restart.TRANSIENT, significant=True)


STORAGE_SHUTDOWN_S: Final = 10.0
"""A last sync may take its time; what is killed here is recovered at the next start."""


def storage_child(syncer: Callable[[], Actor[Any]], store: Callable[[], Actor[Any]]) -> ChildSpec:
    """One_for_all and significant. The store stops first.

    Args:
        syncer, store: make one, each time anew.
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
