"""A mirror group in a simulated world: its plan, its clients, its checker, and a mutation."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, ClassVar, Final

import attrs
import pytest
import trio
from mirror_actors import LineStore
from mirror_config import MODE, MirrorGroup
from mirror_store import Layout

from actors.config import ClusterConfig
from actors.errors import NotStored, OutcomeUnknown
from actors.sim.actions.action import Ground, draw_script, table
from actors.sim.actions.network import Cut
from actors.sim.actions.process import Kill, PowerLoss, Stop
from actors.sim.actions.runner import LOOK_S, Runner
from actors.sim.cluster import SimCluster
from actors.sim.history import (
    AppendAnswered,
    AppendAsked,
    AppendRefused,
    AppendUnknown,
    History,
    Observation,
)
from actors.sim.judges.liveness import of_any_node
from actors.sim.machines import NotConverged, sim_config
from actors.sim.marks import Tally
from actors.sim.plan import FAULTS_S, Expected, Observe, Plan, Stage, draw_disk, draw_network
from actors.sim.workload import WorkloadOptions
from actors.sim.world import World
from actors.storage.log.commit_log import segment_path

GROUP: Final = "pair"
NAMES: Final = ("n0", "n1")
CONVERGE_S: Final = 30.0
ACTIONS: Final = table(Kill(), Stop(), PowerLoss(), Cut())


def mirror_config(**settings: Any) -> ClusterConfig:
    """Two nodes and their group."""
    return sim_config(2, [MirrorGroup(name=GROUP, members=NAMES, **settings)])


@attrs.define
class MirroredBeforeAnswered:
    """When an append is answered, both disks have its lines."""

    cluster: SimCluster
    _asked: dict[int, tuple[bytes, ...]] = attrs.field(factory=dict)

    def see(self, seen: Observation) -> Iterator[str]:
        match seen:
            case AppendAsked():
                self._asked[seen.operation] = seen.bodies
            case AppendAnswered(receipt=receipt) if receipt is not None:
                lines = b"".join(body + b"\n" for body in self._asked[seen.operation])
                for name in NAMES:
                    held = durable(self.cluster, name)[receipt.first : receipt.next]
                    if held != lines:
                        yield f"{name} has not what was acknowledged up to {receipt.next}"


def durable(cluster: SimCluster, name: str) -> bytes:
    """What a power loss now would leave of a node's lines."""
    layout = Layout(cluster.config.group_dir(name, GROUP))
    return cluster.disk(name).durable(segment_path(layout.commit_log, 0)) or b""


@attrs.define
class MirrorLoad:
    """One client that appends."""

    cluster: SimCluster
    history: History
    rng: random.Random

    async def run(self, until_s: float) -> None:
        number = 0
        while trio.current_time() < until_s:
            await trio.sleep(self.rng.expovariate(2.0))
            number += 1
            bodies = tuple(b"line %d.%d" % (number, each) for each in range(self.rng.randint(1, 3)))
            reported = {"client": "c0", "operation": number}
            self.history.now(AppendAsked, **reported, bodies=bodies)
            try:
                receipt = await self.cluster.log(GROUP, "n0").append(list(bodies))
            except NotStored as error:
                self.history.now(AppendRefused, **reported, error=repr(error))
            except OutcomeUnknown as error:
                self.history.now(AppendUnknown, **reported, error=repr(error))
            else:
                self.history.now(AppendAnswered, **reported, receipt=receipt)


class NoDamage:
    """The atlas of a world in which no byte is changed."""

    def repair(self, node: str) -> list[str]:
        return []


@attrs.define(eq=False, kw_only=True)
class MirrorRunner(Runner):
    atlas: Any = attrs.field(factory=NoDamage, init=False)
    log_part: str = attrs.field(default="/lines/", init=False)


class MirrorStage(Stage):
    """See `Stage`."""

    machines: SimCluster

    def __init__(self, plan: MirrorPlan, world: World, observe: Observe) -> None:
        self.machines, self.tally = SimCluster(world, plan.config), Tally()
        judges = (MirroredBeforeAnswered(self.machines), *of_any_node())
        self.history = History(judges, observe)
        world.on_event.append(self.history.add)
        self.faults = MirrorRunner(cluster=self.machines, history=self.history, actions=ACTIONS)
        self.loads = (MirrorLoad(self.machines, self.history, world.rng("load")),)

    async def converge(self, nursery: trio.Nursery) -> None:
        cluster, equal = self.machines, False
        with trio.move_on_after(CONVERGE_S):
            while not equal:
                await trio.sleep(LOOK_S)
                equal = durable(cluster, "n0") == durable(cluster, "n1")
        if not equal:
            raise NotConverged(GROUP, CONVERGE_S, {}, "the two files differ")

    def judge(self) -> None:
        held = durable(self.machines, "n0")
        for seen in self.history.observations:
            receipt = seen.receipt if isinstance(seen, AppendAnswered) else None
            if receipt is not None and receipt.next > len(held):
                text = f"what was acknowledged up to {receipt.next} is lost"
                self.history.violated("NothingIsLost", text)


@attrs.frozen(kw_only=True)
class MirrorPlan(Plan):
    """One mirror group."""

    mode: ClassVar[str] = MODE
    expected: ClassVar[Expected] = Expected(always=("acknowledged records",), thorough=())
    stage_class: ClassVar = MirrorStage

    @property
    def config(self) -> ClusterConfig:
        return mirror_config(**self.settings)

    def kind(self) -> str:
        return "a mirror group"

    def can_shrink_to(self, nodes: int) -> bool:
        return nodes == len(NAMES)

    @classmethod
    def draw(cls, seed: str) -> MirrorPlan:
        rng = random.Random(f"{seed}:mirror")
        ground = Ground(names=NAMES, duration_s=FAULTS_S)
        return cls(
            seed=seed,
            nodes=len(NAMES),
            settings={},
            skews_ms=dict.fromkeys(NAMES, 0),
            network=draw_network(rng),
            disk=draw_disk(rng),
            policy="random",
            tell_yields=0.05,
            load=WorkloadOptions(),
            script=draw_script(seed, ground, ACTIONS),
        )


def answers_alone(patch: pytest.MonkeyPatch) -> None:
    """The writer answers as soon as it has the lines itself."""

    def is_done(store: LineStore, end: int) -> bool:
        return end <= store.end

    real = LineStore._append

    def append(store: LineStore, message: Any) -> None:
        real(store, message)
        store._acknowledge(store.acknowledged)

    patch.setattr(LineStore, "is_done", is_done)
    patch.setattr(LineStore, "_append", append)
