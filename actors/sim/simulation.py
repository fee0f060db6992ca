"""One simulated history from one seed: a cluster, its clients, its faults, and its judges.

First safety under faults, then everything is healed and must converge within a stated virtual
time, stop in order, and pass the validations. What kind of run it is (size, guarantees, disk,
network, scheduling, faults, load) is drawn from the seed as well, each from a stream of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import attrs
import trio
import trio.testing

from actors.config import ClusterConfig
from actors.sim import workload
from actors.sim.action import Ground
from actors.sim.actions_network import STRANGER, STRANGER_ADDRESS
from actors.sim.actions_operator import keep_tending
from actors.sim.checkers import invariants
from actors.sim.cluster import NotConverged, SimCluster, classic_config
from actors.sim.disk import DiskOptions
from actors.sim.fault_runner import FaultRunner
from actors.sim.faults import ACTIONS, draw_script
from actors.sim.history import History, Observation, Violation
from actors.sim.liveness import look_around
from actors.sim.log_bytes import DiskLogBytes
from actors.sim.marks import counted
from actors.sim.network import NetworkOptions
from actors.sim.scheduler import InOrder, Policy, Priorities, RandomOrder, Starve, Within
from actors.sim.script import Script, dump_fault
from actors.sim.validations import validate
from actors.sim.workload import Workload, WorkloadOptions
from actors.sim.world import open_world

GROUP: Final = "orders"
FAULTS_S: Final = 60.0
"""Virtual time in which faults begin."""
SCRIPT_EXTRA_S: Final = 600.0
"""An action that has not ended so long after the run's end never does."""
CONVERGE_S: Final = 60.0
"""Virtual time after which a healed cluster holds, and shows, the same everywhere. The slowest way
there: a connection that died silently is given up after housekeeping (20 s by default), then a
reconnect, then the data."""
NODES_MAX: Final = 5


@attrs.frozen(kw_only=True)
class Plan:
    """Everything about a run that is drawn before it begins."""

    seed: str
    nodes: int
    settings: dict[str, Any]
    skews_ms: dict[str, int]
    network: NetworkOptions
    disk: DiskOptions
    policy: str
    tell_yields: float
    load: WorkloadOptions
    script: Script
    duration_s: float = FAULTS_S

    @property
    def config(self) -> ClusterConfig:
        """The cluster that runs."""
        return classic_config(nodes=self.nodes, group=GROUP, **self.settings)

    def describe(self) -> list[str]:
        """For a person who looks at a run."""
        group = self.config.groups[GROUP]
        return [
            f"{self.nodes} nodes, {group.ack_policy}: {group.sure_copies} copies,"
            f" {group.durability},"
            f" segments of {group.segment_bytes} bytes, frames of {group.frame_bytes}",
            f"{self.network}",
            f"{self.disk}",
            f"scheduling: {self.policy}, {self.tell_yields:.0%} of tells yield,"
            f" skews in ms: {self.skews_ms}",
            f"{self.load}",
            *map(dump_fault, self.script),
        ]


@attrs.frozen(kw_only=True)
class Outcome:
    """What became of a run.

    Attributes:
        plan: what it was.
        fingerprint: of all scheduling decisions.
        digest: of all observations.
        violations: the first of them; empty for a good run.
        counts: what happened in it.
        virtual_s, steps: how long it was.
    """

    plan: Plan
    fingerprint: str
    digest: str
    violations: tuple[Violation, ...]
    counts: dict[str, int]
    virtual_s: float
    steps: int


def draw_plan(seed: str) -> Plan:
    """The run that belongs to a seed."""
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
    policy = _draw_ack_policy(random.Random(f"{seed}:plan:ack"), nodes)
    if policy:
        del settings["copies"]
        settings |= policy
    names = tuple(classic_config(nodes=nodes, group=GROUP, **settings).nodes)
    return Plan(
        seed=seed,
        nodes=nodes,
        settings=settings,
        skews_ms={name: rng.choice([0, 0, rng.randint(-60_000, 60_000)]) for name in names},
        network=_draw_network(random.Random(f"{seed}:plan:network")),
        disk=_draw_disk(random.Random(f"{seed}:plan:disk")),
        policy=_draw_policy(random.Random(f"{seed}:plan:policy")),
        tell_yields=random.Random(f"{seed}:plan:tell").choice([0.0, 0.05, 0.3]),
        load=workload.draw_options(random.Random(f"{seed}:plan:load")),
        script=draw_script(
            seed,
            Ground(
                names=names,
                duration_s=FAULTS_S,
                spare_power=names[:1] if durability == "written" else (),
            ),
        ),
    )


def _draw_ack_policy(rng: random.Random, nodes: int) -> dict[str, Any]:
    """Every fifth run answers as upstream does; {}: by `copies`."""
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


def _draw_network(rng: random.Random) -> NetworkOptions:
    return NetworkOptions(
        latency_mean_s=rng.choice([0.0005, 0.0005, 0.02]),
        fragment_share=rng.choice([0.0, 0.1, 0.5]),
        clog_share=rng.choice([0.0, 0.0, 0.05]),
        bandwidth_bytes_per_s=rng.choice([None, None, 200_000.0]),
        window_bytes=rng.choice([4096, 256 << 10]),
    )


def _draw_disk(rng: random.Random) -> DiskOptions:
    return DiskOptions(sync_mean_s=rng.choice([0.0003, 0.001, 0.03]))


def _draw_policy(rng: random.Random) -> str:
    starved = rng.choice(["store", "syncer", "group_transfer", "ha_client", "read_socket"])
    return rng.choice(["random", "random", "priorities", f"starve {starved}"])


def make_policy(name: str) -> Policy:
    """A fresh policy: "random", "priorities", "in order", or "starve" and a part of a task's name;
    with "@FIRST-LAST" behind it only in those passes of the scheduler.
    """
    name, _, stretch = name.partition("@")
    if stretch:
        first, _, last = stretch.partition("-")
        return Within(make_policy(name), int(first), int(last))
    if name == "in order":
        return InOrder()
    if name == "random":
        return RandomOrder()
    if name == "priorities":
        return Priorities()
    kind, _, starved = name.partition(" ")
    assert kind == "starve", name
    assert starved, name
    return Starve(starved)


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
        config = plan.config
        group = config.groups[GROUP]
        cluster = SimCluster(world, config, skews_ms=plan.skews_ms)
        world.network.add_host(STRANGER, STRANGER_ADDRESS)
        logs = DiskLogBytes(cluster, group)
        history = History(invariants(group, logs), tell)
        world.on_event.append(history.add)
        faults = FaultRunner(cluster, group, history, ACTIONS)
        await cluster.start()
        load = Workload(cluster, GROUP, history, plan.load, world.rng("load"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(look_around, cluster, history.add, name="sim-look")
            with trio.move_on_after(plan.duration_s + SCRIPT_EXTRA_S) as bound:
                async with trio.open_nursery() as clients:
                    clients.start_soon(load.run, trio.current_time() + plan.duration_s + 1.0)
                    await faults.run(plan.script)
                    await faults.mend()
            if bound.cancelled_caught:
                history.violated("ScriptEnds", trio.current_time(), "an action waits for ever")
            nursery.start_soon(keep_tending, faults, name="sim-operator")
            try:
                end = await faults.converged(CONVERGE_S)
                world.fingerprint.note(repr(end))
                await cluster.stop()
            except NotConverged as error:
                history.violated("Converges", trio.current_time(), str(error))
            nursery.cancel_scope.cancel()
        for name in cluster.names:
            faults.notice_failure(name)
        if not any(cluster.runs(name) for name in cluster.names):
            validate(cluster, group, history, logs)
        return Outcome(
            plan=plan,
            fingerprint=world.fingerprint.hexdigest(),
            digest=history.digest(),
            violations=tuple(history.violations),
            counts={
                **counted(history.observations, group.segment_bytes),
                **_fault_counts(faults),
                **_restarts(cluster),
            },
            virtual_s=trio.current_time(),
            steps=world.fingerprint.steps,
        )


def run_plan(plan: Plan, tell: Callable[[Observation], None] | None = None) -> Outcome:
    """The whole run, on a virtual clock of its own."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    outcome: Outcome = trio.run(simulate, plan, tell, clock=clock)
    return outcome


def run_seed(seed: str, tell: Callable[[Observation], None] | None = None) -> Outcome:
    """The run that belongs to a seed."""
    return run_plan(draw_plan(seed), tell)


def _fault_counts(faults: FaultRunner) -> dict[str, int]:
    return {f"fault {kind}": count for kind, count in faults.counts.items()}


def _restarts(cluster: SimCluster) -> dict[str, int]:
    return {"restarts": sum(max(0, node.boots - 1) for node in cluster.world.nodes)}
