"""Runs one simulated history from one plan: a cluster, its clients, its faults, and its judges.

Safety is judged under faults first. Then everything is healed, and the cluster has to converge
within a stated virtual time, stop in order, and pass the validations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import trio

from actors.sim.actions.runner import Runner
from actors.sim.autoswitch.plan import AutoSwitchPlan
from actors.sim.classic.plan import ClassicPlan
from actors.sim.dledger.plan import LedgerPlan
from actors.sim.history import History, Observation
from actors.sim.judges.liveness import look_around
from actors.sim.machines import NotConverged, SimMachines
from actors.sim.plan import Outcome, Plan
from actors.sim.scheduler import make_policy, virtual_clock
from actors.sim.world import World, open_world


def outcome_of(
    plan: Plan,
    world: World,
    history: History,
    faults: Runner,
    machines: SimMachines[Any],
    counts: Mapping[str, int],
) -> Outcome:
    """Make the outcome of a run.

    Args:
        counts: the counts of observations, by the names of the mode's marks.
    """
    # pages that power losses kept as written back
    kept = sum(node.disk.writeback.kept for node in world.nodes)
    return Outcome(
        plan=plan,
        fingerprint=world.fingerprint.hexdigest(),
        digest=history.digest(),
        violations=tuple(history.violations),
        counts={
            **counts,
            **{f"fault {kind}": count for kind, count in faults.counts.items()},
            "restarts": sum(max(0, node.boots - 1) for node in world.nodes),
            **({"mark page as it was written back": kept} if kept else {}),
        },
        virtual_s=trio.current_time(),
        steps=world.fingerprint.steps,
    )


SCRIPT_EXTRA_S: Final = 600.0
"""How long after the run's end an action may still end; one that takes longer never ends."""


async def simulate(plan: Plan, observe: Callable[[Observation], None] | None = None) -> Outcome:
    """Run a plan. It needs a Trio run with an autojump clock; `run_plan` has its own."""
    world_opened = open_world(
        plan.seed,
        network=plan.network,
        disk=plan.disk,
        policy=make_policy(plan.policy),
        tell_yields=plan.tell_yields,
    )
    async with world_opened as world:
        with plan.stage(world, observe) as stage:
            machines, history, faults = stage.machines, stage.history, stage.faults
            await machines.start()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(look_around, machines, history.add, name="sim-look")
                with trio.move_on_after(plan.duration_s + SCRIPT_EXTRA_S) as bound:
                    async with trio.open_nursery() as clients:
                        until_s = trio.current_time() + plan.duration_s + 1.0
                        for load in stage.loads:
                            clients.start_soon(load.run, until_s)
                        await faults.run(plan.script)
                        await faults.mend()
                if bound.cancelled_caught:
                    history.violated("ScriptEnds", "an action waits for ever")
                try:
                    await stage.converge(nursery)
                    await machines.stop()
                except NotConverged as error:
                    history.violated("Converges", str(error))
                nursery.cancel_scope.cancel()
            for name in machines.names:
                faults.notice_failure(name)
            stage.judge()
            counts = stage.tally.count(history.observations)
            return outcome_of(plan, world, history, faults, machines, counts)


PLANS: Final[dict[str, type[Plan]]] = {
    each.mode: each for each in (ClassicPlan, LedgerPlan, AutoSwitchPlan)
}
"""The plans by mode; see `actors.config.kinds`."""


def run_plan(plan: Plan, observe: Callable[[Observation], None] | None = None) -> Outcome:
    """Run a whole plan on a virtual clock of its own."""
    outcome: Outcome = trio.run(simulate, plan, observe, clock=virtual_clock())
    return outcome


def run_seed(
    seed: str, observe: Callable[[Observation], None] | None = None, mode: str = ClassicPlan.mode
) -> Outcome:
    """Run the plan that belongs to a seed."""
    return run_plan(PLANS[mode].draw(seed), observe)
