"""One simulated history of DLedger groups from one seed; as in `simulation`, safety under faults
comes first, then everything is healed and must converge, stop in order, and pass the validations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from actors.sim.cluster import NotConverged
from actors.sim.dledger.actions import LEDGER_ACTIONS, MEMORY_ACTIONS
from actors.sim.dledger.actions_machine import MACHINE_ACTIONS
from actors.sim.dledger.actions_scripted import SCRIPTED_ACTIONS
from actors.sim.dledger.checkers import Chosen, ledger_invariants
from actors.sim.dledger.ledger_bytes import LedgerDamage, SimLedgers
from actors.sim.dledger.machine_checkers import Replay, machine_invariants
from actors.sim.dledger.machine_validations import validate_machines
from actors.sim.dledger.marks import ledger_counts
from actors.sim.dledger.members import SimGroups
from actors.sim.dledger.plan import LedgerPlan
from actors.sim.dledger.runner import LedgerRunner
from actors.sim.dledger.validations import validate_ledger
from actors.sim.dledger.workload import LedgerWorkload
from actors.sim.failures import NothingFails
from actors.sim.history import History, Invariant, Observation
from actors.sim.liveness import QueuesBounded, RoomIsFoundAgain, look_around
from actors.sim.outcome import outcome_of
from actors.sim.plan import Outcome
from actors.sim.simulation import SCRIPT_EXTRA_S, make_policy
from actors.sim.world import open_world

CONVERGE_S: Final = 60.0
"""Virtual time after which a healed group has a leader, takes appends, and is the same everywhere.
The slowest way there: six seconds of silence, some elections, connections that died silently."""


ALL_ACTIONS: Final = {**LEDGER_ACTIONS, **MEMORY_ACTIONS, **MACHINE_ACTIONS, **SCRIPTED_ACTIONS}
"""Whatever a script may say."""


async def simulate_ledgers(
    plan: LedgerPlan, tell: Callable[[Observation], None] | None = None
) -> Outcome:
    """Run a plan. Needs a Trio run with an autojump clock."""
    world_opened = open_world(
        plan.seed,
        network=plan.network,
        disk=plan.disk,
        policy=make_policy(plan.policy),
        tell_yields=plan.tell_yields,
    )
    async with world_opened as world:
        groups = SimGroups(world, plan.config, skews_ms=plan.skews_ms, machine=plan.machine)
        ledgers = plan.ledgers
        damaged: dict[str, list[LedgerDamage]] = {}
        logs = {group.name: SimLedgers(groups, group, damaged) for group in ledgers}
        chosen = {group.name: Chosen(group=group, logs=logs[group.name]) for group in ledgers}
        own = _invariants(plan, logs, chosen)
        history = History((*own, NothingFails(), QueuesBounded(), RoomIsFoundAgain()), tell)
        world.on_event.append(history.add)
        groups.on_machine.append(history.add)
        faults = LedgerRunner(
            cluster=groups,
            ledgers=ledgers,
            logs=tuple(logs.values()),
            chosen=chosen,
            history=history,
            actions=ALL_ACTIONS,
        )
        await groups.start()
        numbers = itertools.count(1)
        loads = tuple(
            LedgerWorkload(groups, group, history, plan.load, world.rng(group.name), numbers)
            for group in ledgers
        )
        faults.loads = {load.group.name: load for load in loads}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(look_around, groups, history.add, name="sim-look")
            with trio.move_on_after(plan.duration_s + SCRIPT_EXTRA_S) as bound:
                async with trio.open_nursery() as clients:
                    for load in loads:
                        clients.start_soon(load.run, trio.current_time() + plan.duration_s + 1.0)
                    await faults.run(plan.script)
                    await faults.mend()
            if bound.cancelled_caught:
                history.violated("ScriptEnds", trio.current_time(), "an action waits for ever")
            try:
                await faults.converged(loads, CONVERGE_S)
                await groups.stop()
            except NotConverged as error:
                history.violated("Converges", trio.current_time(), str(error))
            nursery.cancel_scope.cancel()
        for name in groups.names:
            faults.notice_failure(name)
        _validate(groups, logs, chosen, own, history)
        counts = ledger_counts(history.observations)
        return outcome_of(plan, world, history, faults, groups, counts)


def _invariants(
    plan: LedgerPlan, logs: Mapping[str, SimLedgers], chosen: Mapping[str, Chosen]
) -> list[Invariant]:
    """Of all groups."""
    found = [each for one in chosen.values() for each in ledger_invariants(one)]
    if plan.machine is not None:
        for name, one in chosen.items():
            found += machine_invariants(Replay(one), logs[name], plan.machine)
    return found


def _validate(
    groups: SimGroups,
    logs: Mapping[str, SimLedgers],
    chosen: Mapping[str, Chosen],
    invariants: Sequence[Invariant],
    history: History,
) -> None:
    """Judge the end of a run, group by group."""
    stopped = not any(groups.runs(name) for name in groups.names)
    for name, one in chosen.items():
        validate_ledger(logs[name], one, history, stopped=stopped)
        if groups.with_machines:
            states = {node: groups.machines[node, name].state for node in groups.names}
            validate_machines(states, one, invariants, history, stopped=stopped)
