"""What a controller's status says of the broker sets that it knows."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import attrs

from actors.controller.core.broker_sets import BrokerSet
from actors.controller.machine import ControllerView
from actors.group_status import GroupStatus
from actors.readable import counted, readable_values

LINES_MAX: Final = 20
"""The most broker sets that have a line of their own, those without a master first."""


def with_broker_sets(status: GroupStatus, view: ControllerView) -> GroupStatus:
    """Return a controller's status with the broker sets, as far as it has applied them.

    A line stands for each set while this controller leads, as only then it decides who lives.
    """
    rows = [(found, _alive(found, view)) for found in view.machine.sets]
    details = {
        "broker_sets": [_details(found, alive) for found, alive in rows],
    }
    lines: list[str] = []
    if view.machine.term is not None:
        rows.sort(key=lambda row: (not _lacks(*row), row[0].name))
        lines = [_line(found, alive) for found, alive in rows[:LINES_MAX]]
        if len(rows) > LINES_MAX:
            lines.append(f"and {counted(len(rows) - LINES_MAX, 'broker set')} more")
    return attrs.evolve(
        status,
        others=(*lines, *status.others),
        details={**status.details, **readable_values(details)},
    )


def _alive(found: BrokerSet, view: ControllerView) -> Collection[int]:
    return view.living.of(found.cluster, found.name).keys()


def _lacks(found: BrokerSet, alive: Collection[int]) -> bool:
    """Whether the set has no master that lives."""
    return found.master_id not in alive


def _line(found: BrokerSet, alive: Collection[int]) -> str:
    if not found.master_epoch:
        master = "no master yet"
    elif found.master_id is None:
        waits = ", ".join(map(str, found.in_sync)) or "none: all were cleaned"
        master = f"NO MASTER in epoch {found.master_epoch}, waits for replica {waits}"
    else:
        silent = "" if found.master_id in alive else ", silent"
        master = f"master {found.master_id}{silent}, epoch {found.master_epoch}"
    behind = sorted(found.replicas.keys() - set(found.in_sync))
    dead = sorted(key for key in found.replicas if key not in alive)
    texts = [f"in sync {', '.join(map(str, found.in_sync)) or 'none'}"]
    texts += [f"not in sync {', '.join(map(str, behind))}"] if behind else []
    texts += [f"silent {', '.join(map(str, dead))}"] if dead else []
    name = readable_values(found.name)
    return f"broker set {name}: {master}; {'; '.join(texts)}"


def _details(found: BrokerSet, alive: Collection[int]) -> dict[str, Any]:
    return {
        "cluster": found.cluster,
        "name": found.name,
        "master": found.master_id,
        "epoch": found.master_epoch,
        "in_sync": list(found.in_sync),
        "in_sync_epoch": found.in_sync_epoch,
        "replicas": [
            {"broker_id": key, "address": each.address, "alive": key in alive}
            for key, each in sorted(found.replicas.items())
        ],
    }
