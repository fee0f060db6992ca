"""The storage of a group of either kind: syncer and store, together or not at all.

If either crashes the group ends, and with it the node: what was written last is in doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from actors.runtime import Actor, AutoShutdown, ChildSpec, Restart, Strategy, SupervisorSpec

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
