"""Running plans of every mode: each run on a virtual clock of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from actors.sim.classic import ClassicPlan
from actors.sim.dledger.plan import LedgerPlan
from actors.sim.history import Observation
from actors.sim.plan import Outcome, Plan
from actors.sim.scheduler import virtual_clock
from actors.sim.simulation import simulate

PLANS: Final[dict[str, type[Plan]]] = {each.mode: each for each in (ClassicPlan, LedgerPlan)}
"""By mode; see `actors.config.kinds`."""


def run_plan(plan: Plan, tell: Callable[[Observation], None] | None = None) -> Outcome:
    """The whole run, on a virtual clock of its own."""
    outcome: Outcome = trio.run(simulate, plan, tell, clock=virtual_clock())
    return outcome


def run_seed(
    seed: str, tell: Callable[[Observation], None] | None = None, mode: str = ClassicPlan.mode
) -> Outcome:
    """The run that belongs to a seed."""
    return run_plan(PLANS[mode].draw(seed), tell)
