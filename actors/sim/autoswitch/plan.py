"""A run of one auto-switch group with its controllers, and its stage."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import attrs
import trio

from actors.config import AutoSwitchGroup, ClusterConfig, DLedgerGroup
from actors.config.controllers import DEFAULTS
from actors.config.dledger import CONTROLLERS, ControllerSettings
from actors.config.kinds import guarantee_of
from actors.node.autoswitch import AutoSwitchPart
from actors.sim import workload
from actors.sim.actions.action import Ground, draw_script
from actors.sim.actions.runner import LOOK_S
from actors.sim.autoswitch.faults import ACTIONS, PATH_PARTS
from actors.sim.autoswitch.judges import Known, judges
from actors.sim.autoswitch.marks import EXPECTED, AutoSwitchTally
from actors.sim.autoswitch.requests import watched_requests
from actors.sim.autoswitch.runner import AutoSwitchRunner
from actors.sim.classic.actions.operator import keep_tending
from actors.sim.classic.actions.rot import derived_is_mended
from actors.sim.classic.judges.operations import client_operations
from actors.sim.classic.judges.validations import validate
from actors.sim.classic.log_bytes import DiskLogBytes
from actors.sim.cluster import API_PORT, SMALL, SimCluster
from actors.sim.history import History, Observation
from actors.sim.judges.linear.judge import judge_log
from actors.sim.machines import NotConverged, sim_config
from actors.sim.plan import FAULTS_S, Expected, Observe, Plan, Stage, draw_disk, draw_network
from actors.sim.workload import Workload
from actors.sim.world import NodeState, World

GROUP: Final = "orders"
CONTROLLER_PORT: Final = 9878
SMALL_LEDGER: Final = {"data_file_bytes": 1 << 20, "index_file_bytes": 128 << 10}
FIXED_SHARE: Final = 0.15
"""In so many runs an append needs a fixed number of copies, whatever the sync state set is."""
WRITTEN_SHARE: Final = 0.2
"""In so many runs a copy is what is written, and a power loss may take it."""
LEARNERS_SHARE: Final = 0.4
"""So many runs with replicas enough have one that only copies the log."""
CONVERGE_S: Final = 120.0
"""The virtual time after which a healed cluster holds and shows the same everywhere: controllers
elect after a silence of the announced time, and a connection that died silently is given up after
20 s."""


class AutoSwitchStage(Stage):
    """The stage of an auto-switch group and its controllers; implements `Stage`."""

    machines: SimCluster
    faults: AutoSwitchRunner

    def __init__(self, plan: AutoSwitchPlan, world: World, observe: Observe) -> None:
        config = plan.config
        group = config.groups[GROUP]
        assert isinstance(group, AutoSwitchGroup)
        self._group = group
        self.machines = cluster = SimCluster(world, config, skews_ms=plan.skews_ms)
        self.tally = AutoSwitchTally()
        self._logs = DiskLogBytes(cluster, group)
        known = Known(group=group, logs=self._logs, is_away=self._is_away)
        self.history = History(judges(known, self._has_lease), self._observed)
        self._observe = observe
        world.on_event.append(self.history.add)
        load = Workload(cluster, GROUP, self.history, plan.load, world.rng("load"))
        self.loads = (load,)
        self.faults = AutoSwitchRunner(
            cluster=cluster,
            group=group,
            history=self.history,
            actions=ACTIONS,
            flowing=load.flowing,
            known=known,
        )

    async def converge(self, nursery: trio.Nursery) -> None:
        """Implements `Stage`: a master is open, and all replicas hold and show what it has."""
        cluster, faults = self.machines, self.faults
        nursery.start_soon(keep_tending, faults, name="sim-operator")
        with trio.move_on_after(CONVERGE_S):
            while not all(map(cluster.runs, cluster.names)):  # noqa: ASYNC110 - virtual time
                await trio.sleep(LOOK_S)
            while not any(node.is_open(GROUP) for node in self._nodes()):  # noqa: ASYNC110
                await trio.sleep(LOOK_S)
            with trio.fail_after(CONVERGE_S):
                end = await faults.converged(CONVERGE_S)
            cluster.world.fingerprint.note(repr(end))
            await derived_is_mended(faults)
            while not self._set_is_whole():  # noqa: ASYNC110
                await trio.sleep(LOOK_S)
            return
        raise NotConverged(GROUP, CONVERGE_S, {}, "no master is open with all in its set")

    def _observed(self, seen: Observation) -> None:
        if self._observe is not None:
            self._observe(seen)
        self.faults.hears(seen)

    def _nodes(self) -> list[Any]:
        found = (self.machines.running(name) for name in self._group.members)
        return [node for node in found if node is not None]

    def _part(self, name: str) -> AutoSwitchPart | None:
        """Return a replica's part of its running node; None: it does not run."""
        node = self.machines.running(name)
        part = None if node is None else node.part(GROUP)
        assert part is None or isinstance(part, AutoSwitchPart)
        return part

    def _has_lease(self, name: str) -> bool | None:
        part = self._part(name)
        return None if part is None else part.has_lease

    def _is_away(self, name: str) -> bool:
        part = self._part(name)
        is_on = self.machines.world.node(name).state is NodeState.RUNNING
        return part is None or not is_on or part.replica.reason != ""

    def _set_is_whole(self) -> bool:
        """Whether some open master has all voters in its sync state set."""
        parts = {name: self._part(name) for name in self._group.voters}
        ids = {None if part is None else part.replica.broker_id for part in parts.values()}
        return any(
            part is not None
            and part.is_open
            and part.owned.told is not None
            and ids == set(part.owned.told.in_sync)
            for part in parts.values()
        )

    def judge(self) -> None:
        """Implements `Stage`."""
        cluster, history = self.machines, self.history
        is_all = self._group.all_ack_in_sync_state_set
        if is_all:
            found = judge_log(list(client_operations(self._group, history.observations)))
            history.judged("Linearizable", map(str, found))
        if not any(cluster.runs(name) for name in cluster.names):
            validate(cluster, self._group, history, self._logs, shown_stays=is_all)


@attrs.frozen(kw_only=True)
class AutoSwitchPlan(Plan):
    """A plan for replicas and the controllers that elect their master.

    Attributes:
        replicas: how many replicas there are: the first nodes.
        controllers: how many controllers: the last nodes, 1 or 3.
    """

    mode: ClassVar[str] = "autoswitch"
    expected: ClassVar[Expected] = EXPECTED
    stage_class: ClassVar = AutoSwitchStage
    replicas: int
    controllers: int

    @property
    def config(self) -> ClusterConfig:
        names = tuple(f"n{number}" for number in range(self.nodes))
        learners = tuple(self.settings.get("learners", ()))
        group = AutoSwitchGroup(
            name=GROUP,
            members=names[: self.replicas],
            **{**SMALL, **self.settings, "learners": learners},
        )
        small: dict[str, Any] = {
            **DEFAULTS,
            "data_file_bytes": 1 << 20,
            "index_file_bytes": 131_072,
        }
        deciding = DLedgerGroup(
            name=CONTROLLERS,
            members=names[-self.controllers :],
            port=CONTROLLER_PORT,
            controller=ControllerSettings(),
            **small,
        )
        return sim_config(self.nodes, [group, deciding], API_PORT)

    def kind(self) -> str:
        group = self.config.groups[GROUP]
        return (
            f"{self.replicas} replicas, {self.controllers} controllers,"
            f" {guarantee_of(group).mode.removeprefix('autoswitch, ')},"
            f" learners {list(self.settings.get('learners', ()))}"
        )

    def can_shrink_to(self, nodes: int) -> bool:
        return nodes == self.nodes

    @contextmanager
    def stage(self, world: World, observe: Observe) -> Iterator[Stage]:
        with watched_requests(), Plan.stage(self, world, observe) as stage:
            yield stage

    @classmethod
    def draw(cls, seed: str) -> AutoSwitchPlan:
        """See `Plan`."""
        rng = random.Random(f"{seed}:autoswitch")
        replicas = rng.randint(2, 4)
        controllers = rng.choice([1, 3])
        nodes = max(replicas, controllers) + rng.choice([0, 1])
        names = tuple(f"n{number}" for number in range(nodes))
        settings: dict[str, Any] = {
            "min_in_sync_replicas": rng.choice([1, 1, 2]),
            "segment_bytes": rng.choice([16, 32, 64]) << 10,
            "frame_bytes": rng.choice([1024, 8192, 256 << 10]),
            "ha_send_heartbeat_interval_s": rng.choice([1.0, 5.0]),
            "reconnect_interval_s": rng.choice([0.5, 1.0, 5.0]),
            "ha_max_time_slave_not_catchup_s": rng.choice([3.0, 15.0]),
            "controller_heart_beat_timeout_s": rng.choice([3.0, 10.0]),
        }
        fixed = random.Random(f"{seed}:autoswitch:fixed")
        if fixed.random() < FIXED_SHARE:
            copies = fixed.randint(1, replicas)
            settings |= {"all_ack_in_sync_state_set": False, "in_sync_replicas": copies}
        if random.Random(f"{seed}:autoswitch:written").random() < WRITTEN_SHARE:
            settings["durability"] = "written"
        more = random.Random(f"{seed}:autoswitch:learners")
        needed = max(settings["min_in_sync_replicas"], settings.get("in_sync_replicas", 1))
        if replicas > max(needed, 2) and more.random() < LEARNERS_SHARE:
            settings["learners"] = [more.choice(names[:replicas])]
        return cls(
            seed=seed,
            nodes=nodes,
            replicas=replicas,
            controllers=controllers,
            settings=settings,
            skews_ms={name: rng.choice([0, 0, rng.randint(-60_000, 60_000)]) for name in names},
            network=draw_network(random.Random(f"{seed}:autoswitch:network")),
            disk=draw_disk(random.Random(f"{seed}:autoswitch:disk")),
            policy=rng.choice(["random", "random", "priorities", "starve group_transfer"]),
            tell_yields=rng.choice([0.0, 0.05, 0.3]),
            load=workload.draw_options(random.Random(f"{seed}:autoswitch:load")),
            script=draw_script(
                seed, Ground(names=names, duration_s=FAULTS_S, path_parts=PATH_PARTS), ACTIONS
            ),
        )
