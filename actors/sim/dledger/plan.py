"""The parts of a run of DLedger groups: each is drawn from the seed by a stream of its own.

A member of a memory group loses its log when its process ends, and keeps its term and vote. So only
one member at a time ends (`actions.Forget`): a log that all have lost is gone. Groups whose
durability is `written` keep their power. Most groups with files run a state machine (`machine`).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import attrs
import trio

from actors.config import ClusterConfig, DLedgerGroup
from actors.sim.actions.action import Action, Ground, draw_script
from actors.sim.dledger import workload
from actors.sim.dledger.faults import (
    ALL_ACTIONS,
    LEDGER_ACTIONS,
    MACHINE_ACTIONS,
    MEMORY_ACTIONS,
)
from actors.sim.dledger.judges.checkers import Chosen, ledger_invariants
from actors.sim.dledger.judges.machine import Replay, machine_invariants, validate_machines
from actors.sim.dledger.judges.validations import validate_ledger
from actors.sim.dledger.ledger_bytes import LedgerDamage, SimLedgers
from actors.sim.dledger.machine import MachineOptions
from actors.sim.dledger.marks import LEDGER_EXPECTED, LedgerTally
from actors.sim.dledger.members import SimGroups, ledger_config
from actors.sim.dledger.runner import LedgerRunner
from actors.sim.dledger.workload import LedgerWorkload
from actors.sim.history import History
from actors.sim.judges.liveness import of_any_node
from actors.sim.plan import FAULTS_S, Expected, Observe, Plan, Stage, draw_disk, draw_network
from actors.sim.world import World

CONVERGE_S: Final = 60.0
"""How long, in virtual time, a healed group may take until it has a leader, takes appends, and is
the same everywhere. The slowest way there: six seconds of silence, some elections, and connections
that died silently."""
GROUPS: Final = ("g0", "g1", "g2")
NODES: Final = (3, 3, 3, 3, 5, 5, 5, 4, 2, 1)
"""The numbers of members to choose from; three and five are the most frequent."""
PATH_PARTS: Final = (
    *("/data/0", "/data/0", "/index/", "/sums/", "/synced", "/checkpoint", "/currterm", ""),
)
"""Parts of paths at which disk faults strike; the log counts twice."""
MACHINE_PATH_PARTS: Final = (*PATH_PARTS, "/snapshot/", "/snapshot/")
STARVED: Final = (
    *("store", "syncer", "entry_handler", "quorum_ack_checker", "state_maintainer"),
    *("rpc_peers", "dispatchers", "rpc_server"),
)
OURS: Final = ("groups", "machine", "lazy")
"""The settings of a run that are not settings of its groups."""
MACHINE_SHARE: Final = 0.6
"""The share of runs with files whose groups have a state machine."""
LARGE_BYTES: Final = 1_300_000
"""The size of a snapshot that is sent in pieces."""


class LedgerStage(Stage):
    """The stage of DLedger groups; implements `Stage`."""

    machines: SimGroups
    faults: LedgerRunner

    def __init__(self, plan: LedgerPlan, world: World, observe: Observe) -> None:
        groups = SimGroups(world, plan.config, skews_ms=plan.skews_ms, machine=plan.machine)
        damaged: dict[str, list[LedgerDamage]] = {}
        logs = {group.name: SimLedgers(groups, group, damaged) for group in plan.ledgers}
        chosen = {name: Chosen(group=log.group, logs=log) for name, log in logs.items()}
        self._own = [each for one in chosen.values() for each in ledger_invariants(one)]
        if plan.machine is not None:
            for name, one in chosen.items():
                self._own += machine_invariants(Replay(one), logs[name], plan.machine)
        self.machines, self.tally = groups, LedgerTally()
        self.history = History((*self._own, *of_any_node()), observe)
        world.on_event.append(self.history.add)
        groups.on_machine.append(self.history.add)
        numbers = itertools.count(1)
        loads = {
            name: LedgerWorkload(
                groups, log.group, self.history, plan.load, world.rng(name), numbers
            )
            for name, log in logs.items()
        }
        self.loads = tuple(loads.values())
        self.faults = LedgerRunner(
            cluster=groups,
            ledgers=plan.ledgers,
            logs=tuple(logs.values()),
            chosen=chosen,
            loads=loads,
            history=self.history,
            actions=ALL_ACTIONS,
        )

    async def converge(self, nursery: trio.Nursery) -> None:
        await self.faults.converged(CONVERGE_S)

    def judge(self) -> None:
        """Validate each group."""
        groups = self.machines
        stopped = not any(groups.runs(name) for name in groups.names)
        for log in self.faults.logs:
            name, one = log.group.name, self.faults.chosen[log.group.name]
            validate_ledger(log, one, self.history, stopped=stopped)
            if groups.with_machines:
                states = {node: groups.machines[node, name].state for node in groups.names}
                validate_machines(states, one, self._own, self.history, stopped=stopped)


@attrs.frozen(kw_only=True)
class LedgerPlan(Plan):
    """A plan with some groups of which every node is a member.

    Attributes:
        settings: the settings of all groups, and three of the run: `groups` is the number of
            groups; `machine`: they have a state machine whose snapshots have so many additional
            bytes; `lazy`: these are written while the machine stands still.
    """

    mode: ClassVar[str] = "dledger"
    expected: ClassVar[Expected] = LEDGER_EXPECTED
    stage_class: ClassVar = LedgerStage

    @property
    def config(self) -> ClusterConfig:
        settings = {key: value for key, value in self.settings.items() if key not in OURS}
        count = self.settings.get("groups", 1)
        return ledger_config(self.nodes, dict.fromkeys(GROUPS[:count], settings))

    @property
    def machine(self) -> MachineOptions | None:
        """The options of the state machine that the groups' members run."""
        if "machine" not in self.settings:
            return None
        lazy = bool(self.settings.get("lazy", False))
        return MachineOptions(filler_bytes=int(self.settings["machine"]), lazy=lazy)

    @property
    def ledgers(self) -> tuple[DLedgerGroup, ...]:
        """The groups of the plan."""
        config = self.config
        return config.ledger_groups_of("n0")

    def kind(self) -> str:
        group, machine = self.ledgers[0], self.machine
        machine_text = f"; {machine}, every {group.snapshot_entries} entries" if machine else ""
        return (
            f"{self.nodes} nodes, {len(self.ledgers)} groups, {group.durability}, {group.store},"
            f" data files of {group.data_file_bytes} bytes{machine_text}"
        )

    def can_shrink_to(self, nodes: int) -> bool:
        preferred = self.settings.get("preferred_leaders", ())
        return nodes >= 1 and f"n{nodes}" not in preferred

    @classmethod
    def draw(cls, seed: str) -> LedgerPlan:
        """Draw the plan of a seed."""
        rng = random.Random(f"{seed}:ledger")
        nodes = rng.choice(NODES)
        names = tuple(f"n{number}" for number in range(nodes))
        settings = _draw_settings(rng, names)
        settings |= _draw_machine(random.Random(f"{seed}:ledger:machine"), settings)
        machine = "machine" in settings
        durable = settings["store"] == "file" and settings["durability"] == "synced"
        ground = Ground(
            names=names,
            duration_s=FAULTS_S,
            spare_power=() if durable else names,
            path_parts=MACHINE_PATH_PARTS if machine else PATH_PARTS,
        )
        network = draw_network(random.Random(f"{seed}:ledger:network"))
        if settings.get("machine"):  # a piece is to be there within its time
            network = attrs.evolve(network, bandwidth_bytes_per_s=None, window_bytes=256 << 10)
        kind = rng.choice(["random", "random", "priorities", f"starve {rng.choice(STARVED)}"])
        return cls(
            seed=seed,
            nodes=nodes,
            settings=settings,
            skews_ms={name: rng.choice([0, 0, rng.randint(-60_000, 60_000)]) for name in names},
            network=network,
            disk=draw_disk(random.Random(f"{seed}:ledger:disk")),
            policy=kind,
            tell_yields=random.Random(f"{seed}:ledger:tell").choice([0.0, 0.05, 0.3]),
            load=workload.draw_options(random.Random(f"{seed}:ledger:load")),
            script=draw_script(seed, ground, _actions(settings)),
        )


def _actions(settings: Mapping[str, Any]) -> Mapping[str, Action[Any]]:
    """Return the actions for groups of that kind."""
    if settings["store"] == "memory":
        return MEMORY_ACTIONS
    return {**LEDGER_ACTIONS, **MACHINE_ACTIONS} if "machine" in settings else LEDGER_ACTIONS


def _draw_machine(rng: random.Random, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the settings of a state machine: snapshots so frequent that a short run has many, and
    small files, which are deleted with them.
    """
    if settings["store"] == "memory" or rng.random() >= MACHINE_SHARE:
        return {}
    large = rng.random() < 0.35
    return {
        "machine": LARGE_BYTES * rng.choice([1, 2]) if large else rng.choice([0, 0, 9000]),
        "lazy": rng.random() < 0.4,
        "groups": 1 if large else min(settings["groups"], 2),
        "data_file_bytes": rng.choice([4, 4, 8]) << 10,
        "snapshot_entries": rng.choice([40, 80]) if large else rng.choice([10, 20, 50]),
        "snapshot_bytes": rng.choice([1 << 20, 1 << 20, 20_000]),
        "snapshot_keep": rng.choice([1, 2, 2, 3]),
    }


def _draw_settings(rng: random.Random, names: tuple[str, ...]) -> dict[str, Any]:
    memory = len(names) > 2 and rng.random() < 0.1
    settings: dict[str, Any] = {
        "groups": rng.choice([1, 1, 1, 2, 3]),
        "durability": "synced" if memory else rng.choices(["synced", "written"], [4, 1])[0],
        "store": "memory" if memory else "file",
        "data_file_bytes": rng.choice([8, 16, 64]) << 10,
        "index_file_bytes": rng.choice([1, 4]) << 10,
        "push_timeout_s": rng.choice([0.5, 1.0]),
        "pending_max": rng.choice([4, 1000]),
        "push_throttle_bytes": rng.choice([0, 300 << 20]),
        "push_quota_bytes_per_s": rng.choice([20 << 20, 20 << 20, 20_000]),
        "heartbeat_interval_s": rng.choice([0.5, 2.0]),
        "checkpoint_interval_s": rng.choice([0.5, 3.0]),
    }
    if rng.random() < 0.3:
        settings["preferred_leaders"] = (rng.choice(names),)
    return settings
