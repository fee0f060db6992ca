"""What has become of a simulated history, whatever its mode: put together once it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from actors.sim.history import History
from actors.sim.machines import SimMachines
from actors.sim.plan import Outcome, Plan
from actors.sim.runner import Runner
from actors.sim.world import World


def outcome_of(
    plan: Plan,
    world: World,
    history: History,
    faults: Runner,
    machines: SimMachines[Any],
    counts: Mapping[str, int],
) -> Outcome:
    """Args: counts: of what was observed, by the names of the mode's marks."""
    return Outcome(
        plan=plan,
        fingerprint=world.fingerprint.hexdigest(),
        digest=history.digest(),
        violations=tuple(history.violations),
        counts={**counts, **_fault_counts(faults), **_restarts(machines), **_kept(machines)},
        virtual_s=trio.current_time(),
        steps=world.fingerprint.steps,
    )


def _fault_counts(faults: Runner) -> dict[str, int]:
    """How often each action took effect, under the names of a sweep."""
    return {f"fault {kind}": count for kind, count in faults.counts.items()}


def _restarts(machines: SimMachines[Any]) -> dict[str, int]:
    """How often nodes were started again, likewise."""
    return {"restarts": sum(max(0, node.boots - 1) for node in machines.world.nodes)}


def _kept(machines: SimMachines[Any]) -> dict[str, int]:
    """Pages that a power loss left as the kernel had written them back between two writes."""
    pages = sum(node.disk.writeback.kept for node in machines.world.nodes)
    return {"mark page as it was written back": pages} if pages else {}
