"""A run of DLedger groups on its stage: see `actors.sim.stage`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from actors.config import DLedgerGroup
from actors.sim.dledger.actions import LEDGER_ACTIONS, MEMORY_ACTIONS
from actors.sim.dledger.actions_machine import MACHINE_ACTIONS
from actors.sim.dledger.actions_scripted import SCRIPTED_ACTIONS
from actors.sim.dledger.checkers import Chosen, ledger_invariants
from actors.sim.dledger.ledger_bytes import LedgerDamage, SimLedgers
from actors.sim.dledger.machine import MachineOptions
from actors.sim.dledger.machine_checkers import Replay, machine_invariants
from actors.sim.dledger.machine_validations import validate_machines
from actors.sim.dledger.marks import ledger_counts
from actors.sim.dledger.members import SimGroups
from actors.sim.dledger.runner import LedgerRunner
from actors.sim.dledger.validations import validate_ledger
from actors.sim.dledger.workload import LedgerWorkload
from actors.sim.failures import NothingFails
from actors.sim.history import History, Invariant, Observation
from actors.sim.liveness import QueuesBounded, RoomIsFoundAgain
from actors.sim.stage import Stage
from actors.sim.workload import WorkloadOptions

CONVERGE_S: Final = 60.0
"""Virtual time after which a healed group has a leader, takes appends, and is the same everywhere.
The slowest way there: six seconds of silence, some elections, connections that died silently."""


ALL_ACTIONS: Final = {**LEDGER_ACTIONS, **MEMORY_ACTIONS, **MACHINE_ACTIONS, **SCRIPTED_ACTIONS}
"""Whatever a script may say."""


class LedgerStage(Stage):
    """See `Stage`."""

    machines: SimGroups
    faults: LedgerRunner

    def __init__(
        self,
        groups: SimGroups,
        ledgers: tuple[DLedgerGroup, ...],
        machine: MachineOptions | None,
        load: WorkloadOptions,
        tell: Callable[[Observation], None] | None,
    ) -> None:
        self.machines = groups
        self._load = load
        damaged: dict[str, list[LedgerDamage]] = {}
        self._logs = {group.name: SimLedgers(groups, group, damaged) for group in ledgers}
        self._chosen = {
            group.name: Chosen(group=group, logs=self._logs[group.name]) for group in ledgers
        }
        self._own = _invariants(machine, self._logs, self._chosen)
        invariants = (*self._own, NothingFails(), QueuesBounded(), RoomIsFoundAgain())
        self.history = History(invariants, tell)
        groups.world.on_event.append(self.history.add)
        groups.on_machine.append(self.history.add)
        self.faults = LedgerRunner(
            cluster=groups,
            ledgers=ledgers,
            logs=tuple(self._logs.values()),
            chosen=self._chosen,
            history=self.history,
            actions=ALL_ACTIONS,
        )

    def loads(self) -> Sequence[LedgerWorkload]:
        """See `Stage`."""
        numbers, groups = itertools.count(1), self.machines
        loads = tuple(
            LedgerWorkload(
                groups, group, self.history, self._load, groups.world.rng(group.name), numbers
            )
            for group in self.faults.ledgers
        )
        self.faults.loads = {load.group.name: load for load in loads}
        return loads

    async def converge(self, nursery: trio.Nursery) -> None:
        """See `Stage`."""
        await self.faults.converged(tuple(self.faults.loads.values()), CONVERGE_S)

    def judge(self) -> None:
        """See `Stage`: group by group."""
        groups = self.machines
        stopped = not any(groups.runs(name) for name in groups.names)
        for name, one in self._chosen.items():
            validate_ledger(self._logs[name], one, self.history, stopped=stopped)
            if groups.with_machines:
                states = {node: groups.machines[node, name].state for node in groups.names}
                validate_machines(states, one, self._own, self.history, stopped=stopped)

    def counts(self) -> Mapping[str, int]:
        """See `Stage`."""
        return ledger_counts(self.history.observations)


def _invariants(
    machine: MachineOptions | None, logs: Mapping[str, SimLedgers], chosen: Mapping[str, Chosen]
) -> list[Invariant]:
    """The invariants of all groups."""
    found = [each for one in chosen.values() for each in ledger_invariants(one)]
    if machine is not None:
        for name, one in chosen.items():
            found += machine_invariants(Replay(one), logs[name], machine)
    return found
