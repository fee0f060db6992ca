"""One simulated history from one plan: a cluster, its clients, its faults, and its judges.

First safety under faults, then everything is healed and must converge within a stated virtual
time, stop in order, and pass the validations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from actors.sim.history import Observation
from actors.sim.liveness import look_around
from actors.sim.machines import NotConverged
from actors.sim.outcome import outcome_of
from actors.sim.plan import Outcome, Plan
from actors.sim.scheduler import make_policy
from actors.sim.world import open_world

SCRIPT_EXTRA_S: Final = 600.0
"""An action that has not ended so long after the run's end never does."""


async def simulate(plan: Plan, tell: Callable[[Observation], None] | None = None) -> Outcome:
    """Run a plan. Needs a Trio run with an autojump clock; `run_plan` brings one along."""
    world_opened = open_world(
        plan.seed,
        network=plan.network,
        disk=plan.disk,
        policy=make_policy(plan.policy),
        tell_yields=plan.tell_yields,
    )
    async with world_opened as world:
        with plan.stage(world, tell) as stage:
            machines, history, faults = stage.machines, stage.history, stage.faults
            await machines.start()
            loads = stage.loads()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(look_around, machines, history.add, name="sim-look")
                with trio.move_on_after(plan.duration_s + SCRIPT_EXTRA_S) as bound:
                    async with trio.open_nursery() as clients:
                        until_s = trio.current_time() + plan.duration_s + 1.0
                        for load in loads:
                            clients.start_soon(load.run, until_s)
                        await faults.run(plan.script)
                        await faults.mend()
                if bound.cancelled_caught:
                    history.violated("ScriptEnds", trio.current_time(), "an action waits for ever")
                try:
                    await stage.converge(nursery)
                    await machines.stop()
                except NotConverged as error:
                    history.violated("Converges", trio.current_time(), str(error))
                nursery.cancel_scope.cancel()
            for name in machines.names:
                faults.notice_failure(name)
            stage.judge()
            return outcome_of(plan, world, history, faults, machines, stage.counts())
