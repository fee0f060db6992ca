"""A run of one classic group and its stage; each part is drawn from a stream of its seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import attrs
import trio

from actors.config import ClusterConfig
from actors.sim import workload
from actors.sim.actions.action import Ground, draw_script
from actors.sim.actions.runner import LOOK_S
from actors.sim.classic.actions.network import STRANGER, STRANGER_ADDRESS
from actors.sim.classic.actions.operator import is_whole, keep_tending, view_of
from actors.sim.classic.actions.rot import derived_is_mended
from actors.sim.classic.actions.tools import watched_encoders
from actors.sim.classic.faults import ACTIONS
from actors.sim.classic.judges.checkers import invariants
from actors.sim.classic.judges.expiry import OnlyOldExpires, RetentionGoesOn
from actors.sim.classic.judges.operations import client_operations
from actors.sim.classic.judges.validations import validate
from actors.sim.classic.log_bytes import DiskLogBytes
from actors.sim.classic.marks import EXPECTED, ClassicTally
from actors.sim.classic.runner import FaultRunner
from actors.sim.cluster import SimCluster, classic_config
from actors.sim.history import History
from actors.sim.judges.linear.judge import judge_log
from actors.sim.plan import FAULTS_S, Expected, Observe, Plan, Stage, draw_disk, draw_network
from actors.sim.workload import Workload
from actors.sim.world import World

GROUP: Final = "orders"
CONVERGE_S: Final = 60.0
"""The virtual time after which a healed cluster holds and shows the same everywhere. In the slowest
case a connection that died silently is given up by the housekeeping (after 20 s by default), then
there is a reconnect, then the data comes."""
NODES_MAX: Final = 5
EXPIRY_SHARE: Final = 0.15
EXPIRY: Final[dict[str, Any]] = {
    "file_reserved_time_h": 1,
    "delete_when_hours": tuple(range(24)),
    "clean_resource_interval_s": 1.0,
    "segment_bytes": 16 << 10,
    "consume_queue_bytes": 20 * 50,
    "index_units_count": 200,
}
"""The settings of groups that delete files of an hour's age; their files are small. So many runs
(`EXPIRY_SHARE`) have such a group."""
WRITEBACK_SHARES: Final = (0.0, 0.1, 0.5)
"""How busy the machines' kernels are with writing back, as shares."""
PATH_PARTS: Final = (
    *("commitlog", "commitlog", "consumequeue", "index", "/events/", "synced", "checkpoint", ""),
)
"""The parts of paths that disk faults hit; the log counts twice."""


class ClassicStage(Stage):
    """The stage of a classic group; implements `Stage`."""

    machines: SimCluster
    faults: FaultRunner

    def __init__(self, plan: ClassicPlan, world: World, observe: Observe) -> None:
        config = plan.config
        self._group = group = config.classic_groups[GROUP]
        self.tally = ClassicTally(segment_bytes=group.segment_bytes)
        self.machines = cluster = SimCluster(world, config, skews_ms=plan.skews_ms)
        world.network.add_host(STRANGER, STRANGER_ADDRESS)
        self._logs = DiskLogBytes(cluster, group)
        old = OnlyOldExpires(group=group, cluster=cluster)
        goes_on = RetentionGoesOn(group=group, cluster=cluster)
        self.history = History((*invariants(group, self._logs), old, goes_on), observe)
        world.on_event.append(self.history.add)
        load = Workload(cluster, GROUP, self.history, plan.load, world.rng("load"))
        self.loads = (load,)
        self.faults = FaultRunner(
            cluster=cluster,
            group=group,
            history=self.history,
            actions=ACTIONS,
            flowing=load.flowing,
        )

    async def converge(self, nursery: trio.Nursery) -> None:
        """Implements `Stage`; at first, appends flow."""
        faults = self.faults
        nursery.start_soon(keep_tending, faults, name="sim-operator")
        if not await _under_load(faults, CONVERGE_S):
            text = (
                f"appends flow, and not all follow after {CONVERGE_S:g} s: {_fault_lines(faults)}"
            )
            self.history.violated("SlavesFollow", text)
        end = await faults.converged(CONVERGE_S)
        self.machines.world.fingerprint.note(repr(end))
        await derived_is_mended(faults)

    def judge(self) -> None:
        cluster, history = self.machines, self.history
        found = judge_log(list(client_operations(self._group, history.observations)))
        history.judged("Linearizable", map(str, found))
        if not any(cluster.runs(name) for name in cluster.names):
            validate(cluster, self._group, history, self._logs)


@attrs.frozen(kw_only=True)
class ClassicPlan(Plan):
    """A plan for one group of a master and its slaves."""

    mode: ClassVar[str] = "classic"
    expected: ClassVar[Expected] = EXPECTED
    stage_class: ClassVar = ClassicStage

    @property
    def config(self) -> ClusterConfig:
        return classic_config(nodes=self.nodes, group=GROUP, **self.settings)

    def kind(self) -> str:
        group = self.config.classic_groups[GROUP]
        return (
            f"{self.nodes} nodes, {group.ack_policy}: {group.sure_copies} copies,"
            f" {group.durability},"
            f" segments of {group.segment_bytes} bytes, frames of {group.frame_bytes}"
        )

    def can_shrink_to(self, nodes: int) -> bool:
        return nodes >= 2 and self.settings.get("copies", 2) <= nodes

    @classmethod
    def draw(cls, seed: str) -> ClassicPlan:
        """See `Plan`."""
        rng = random.Random(f"{seed}:plan")
        nodes = rng.randint(2, NODES_MAX)
        durability = rng.choices(["synced", "written"], [3, 1])[0]
        settings: dict[str, Any] = {
            "copies": rng.choice([1, 2, 2, 2, rng.randint(1, nodes)]),
            "durability": durability,
            "segment_bytes": rng.choice([16, 32, 64]) << 10,
            "frame_bytes": rng.choice([1024, 8192, 256 << 10]),
            "ha_send_heartbeat_interval_s": rng.choice([1.0, 5.0]),
            "ha_housekeeping_interval_s": rng.choice([6.0, 20.0]),
            "reconnect_interval_s": rng.choice([0.5, 1.0, 5.0]),
            "connect_timeout_s": rng.choice([2.0, 5.0]),
        }
        expires = random.Random(f"{seed}:plan:expiry").random() < EXPIRY_SHARE
        if expires:
            settings |= EXPIRY
        policy = _draw_ack_policy(random.Random(f"{seed}:plan:ack"), nodes)
        if policy:
            del settings["copies"]
            settings |= policy
        names = tuple(classic_config(nodes=nodes, group=GROUP, **settings).nodes)
        return cls(
            seed=seed,
            nodes=nodes,
            settings=settings,
            skews_ms={name: rng.choice([0, 0, rng.randint(-60_000, 60_000)]) for name in names},
            network=draw_network(random.Random(f"{seed}:plan:network")),
            disk=attrs.evolve(
                draw_disk(random.Random(f"{seed}:plan:disk")),
                writeback_share=random.Random(f"{seed}:plan:writeback").choice(WRITEBACK_SHARES),
            ),
            policy=_draw_policy(random.Random(f"{seed}:plan:policy")),
            tell_yields=random.Random(f"{seed}:plan:tell").choice([0.0, 0.05, 0.3]),
            load=workload.draw_options(random.Random(f"{seed}:plan:load"), busy=expires),
            script=draw_script(
                seed,
                Ground(
                    names=names,
                    duration_s=FAULTS_S,
                    spare_power=names[:1] if durability == "written" else (),
                    expires=expires,
                    path_parts=PATH_PARTS,
                ),
                ACTIONS,
            ),
        )

    @contextmanager
    def stage(self, world: World, observe: Observe) -> Iterator[Stage]:
        with watched_encoders(), Plan.stage(self, world, observe) as stage:
            yield stage


def _draw_ack_policy(rng: random.Random, nodes: int) -> dict[str, Any]:
    """Draw settings of the acknowledgement policy: every fifth run answers as upstream does; {}: by
    `copies`.
    """
    kind = rng.choice([*["copies"] * 16, "4.x", "5.x", "acting master", "all in sync"])
    gap = rng.choice([4096, 256 << 20])
    many, least = rng.randint(2, nodes), rng.randint(1, 2)
    five = {"ack_policy": "5.x", "ha_max_gap_not_in_sync_bytes": gap}
    match kind:
        case "copies":
            return {}
        case "4.x":
            return {"ack_policy": "4.x", "ha_slave_fallbehind_max_bytes": gap}
        case "5.x":
            return {**five, "in_sync_replicas": many}
        case "acting master":
            judged = {"enable_slave_acting_master": True, "enable_auto_in_sync_replicas": True}
            return {**five, **judged, "in_sync_replicas": many, "min_in_sync_replicas": least}
        case _:
            return {**five, "all_ack_in_sync_state_set": True, "min_in_sync_replicas": least}


def _draw_policy(rng: random.Random) -> str:
    starved = rng.choice(["store", "syncer", "group_transfer", "ha_client", "read_socket"])
    return rng.choice(["random", "random", "priorities", f"starve {starved}"])


async def _under_load(faults: FaultRunner, within_s: float) -> bool:
    """Wait until all is well while appends go on, because recovery must not need a pause of
    appends.
    """
    was_well = False
    with trio.move_on_after(within_s):
        async with faults.flowing():
            while not is_whole(faults):  # noqa: ASYNC110 - virtual time costs nothing
                await trio.sleep(LOOK_S)
            was_well = True  # a connection that a fault has left half-open may break only now
    return was_well


def _fault_lines(faults: FaultRunner) -> str:
    """Describe the state of each node."""
    views = {name: view_of(faults, name) for name in faults.cluster.names}
    return "; ".join(
        f"{name}: {view.state.value} {view.reason}" if view is not None else f"{name}: off"
        for name, view in views.items()
    )
