"""What a simulated history of any mode consists of before it begins, and its outcome."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol, Self, TypeAlias

import attrs
import trio

from actors.config import ClusterConfig
from actors.sim.actions.runner import Runner
from actors.sim.actions.script import Script, dump_fault
from actors.sim.disk import DiskOptions
from actors.sim.history import History, Observation, Violation
from actors.sim.machines import SimMachines
from actors.sim.marks import Tally
from actors.sim.network import NetworkOptions
from actors.sim.workload import WorkloadOptions
from actors.sim.world import World

Observe: TypeAlias = Callable[[Observation], None] | None


class Load(Protocol):
    """Clients that append and read."""

    async def run(self, until_s: float) -> None: ...


class Stage(ABC):
    """All that a run needs in its world: the nodes, the clients, the faults and the judges.

    Attributes:
        machines: the nodes, not started.
        history: the observations, each judged as it comes.
        faults: executes scripts.
        tally: counts the observations.
        loads: the clients.
    """

    machines: SimMachines[Any]
    history: History
    faults: Runner
    tally: Tally
    loads: Sequence[Load]

    @abstractmethod
    def __init__(self, plan: Any, world: World, observe: Observe) -> None:
        """Make everything that a run needs in its world, before it starts.

        Args:
            plan: the run's plan.
            observe: called with each observation.
        """

    @abstractmethod
    async def converge(self, nursery: trio.Nursery) -> None:
        """Return once all nodes are whole and hold the same.

        Args:
            nursery: runs whatever has to go on meanwhile; it is cancelled afterwards.

        Raises: NotConverged: this takes too long.
        """

    @abstractmethod
    def judge(self) -> None:
        """Judge the end of the run, when all nodes have stopped."""


FAULTS_S = 60.0
"""The virtual time in which faults begin."""


@attrs.frozen(kw_only=True)
class Expected:
    """What a sweep of a mode has to have seen; further names may be counted.

    Attributes:
        always: what every sweep of a sensible size has to have seen.
        thorough: what a long sweep has to have seen besides.
    """

    always: tuple[str, ...]
    thorough: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Plan(ABC):
    """Everything about a run that is drawn before it begins.

    Attributes:
        mode: the kind of groups.
        expected: what a sweep of such plans has to have seen.
        stage_class: the class of the run's stage.
        settings: the groups' settings.
    """

    mode: ClassVar[str]
    expected: ClassVar[Expected]
    stage_class: ClassVar[type[Stage]]
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

    @classmethod
    @abstractmethod
    def draw(cls, seed: str) -> Self:
        """Draw the plan that belongs to a seed."""

    @contextmanager
    def stage(self, world: World, observe: Observe) -> Iterator[Stage]:
        """Yield the run's stage, for as long as the run takes."""
        yield self.stage_class(self, world, observe)

    @property
    @abstractmethod
    def config(self) -> ClusterConfig:
        """The configuration of the cluster that runs."""

    @abstractmethod
    def kind(self) -> str:
        """Return nodes, groups and guarantees in one line, for people."""

    @abstractmethod
    def can_shrink_to(self, nodes: int) -> bool:
        """Whether the settings allow a cluster of fewer nodes."""

    def describe(self) -> list[str]:
        """Return the plan in some lines, for people."""
        return [
            self.kind(),
            f"{self.network}",
            f"{self.disk}",
            f"scheduling: {self.policy}, {self.tell_yields:.0%} of tells yield,"
            f" skews in ms: {self.skews_ms}",
            f"{self.load}",
            *map(dump_fault, self.script),
        ]


@attrs.frozen(kw_only=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        plan: the run's plan.
        fingerprint: the hash of all scheduling decisions.
        digest: the hash of all observations.
        violations: the first violations; empty for a good run.
        counts: what happened in it, by name.
        virtual_s: how long it was, in virtual time.
        steps: how many task steps it had.
    """

    plan: Plan
    fingerprint: str
    digest: str
    violations: tuple[Violation, ...]
    counts: dict[str, int]
    virtual_s: float
    steps: int


def draw_network(rng: random.Random) -> NetworkOptions:
    """Draw the options of a network; most networks are quick and reliable."""
    return NetworkOptions(
        latency_mean_s=rng.choice([0.0005, 0.0005, 0.02]),
        fragment_share=rng.choice([0.0, 0.1, 0.5]),
        clog_share=rng.choice([0.0, 0.0, 0.05]),
        bandwidth_bytes_per_s=rng.choice([None, None, 200_000.0]),
        window_bytes=rng.choice([4096, 256 << 10]),
    )


def draw_disk(rng: random.Random) -> DiskOptions:
    """Draw the options of a disk, from a fast one to a slow one."""
    return DiskOptions(sync_mean_s=rng.choice([0.0003, 0.001, 0.03]))
