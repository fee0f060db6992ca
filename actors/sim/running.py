"""Running plans of every mode: each run on a virtual clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import trio

from actors.sim.dledger.plan import LedgerPlan, draw_ledger_plan
from actors.sim.dledger.simulation import simulate_ledgers
from actors.sim.history import Observation
from actors.sim.plan import Outcome, Plan
from actors.sim.scheduler import virtual_clock
from actors.sim.simulation import ClassicPlan, draw_plan, simulate

PLANS: Final[Mapping[str, type[Plan]]] = {each.mode: each for each in (ClassicPlan, LedgerPlan)}
"""By mode."""


def draw(mode: str, seed: str) -> Plan:
    """The run of that mode that belongs to a seed."""
    return draw_plan(seed) if mode == ClassicPlan.mode else draw_ledger_plan(seed)


def run_plan(plan: Plan, tell: Callable[[Observation], None] | None = None) -> Outcome:
    """The whole run, on a virtual clock of its own."""
    clock = virtual_clock()
    outcome: Outcome
    if isinstance(plan, LedgerPlan):
        outcome = trio.run(simulate_ledgers, plan, tell, clock=clock)
    else:
        assert isinstance(plan, ClassicPlan)
        outcome = trio.run(simulate, plan, tell, clock=clock)
    return outcome


def run_seed(
    seed: str, tell: Callable[[Observation], None] | None = None, mode: str = ClassicPlan.mode
) -> Outcome:
    """The run that belongs to a seed."""
    return run_plan(draw(mode, seed), tell)
