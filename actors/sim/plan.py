"""What a simulated history of any mode is made of before it begins, and what has become of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import attrs

from actors.config import ClusterConfig
from actors.sim.disk import DiskOptions
from actors.sim.history import Violation
from actors.sim.network import NetworkOptions
from actors.sim.script import Script, dump_fault
from actors.sim.workload import WorkloadOptions

FAULTS_S = 60.0
"""Virtual time in which faults begin."""


@attrs.frozen(kw_only=True)
class Plan(ABC):
    """Everything about a run that is drawn before it begins.

    Attributes:
        mode: what kind of groups.
        settings: of the groups.
    """

    mode: ClassVar[str]
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
    @abstractmethod
    def config(self) -> ClusterConfig:
        """The cluster that runs."""

    @abstractmethod
    def kind(self) -> str:
        """Nodes, groups and guarantees in one line."""

    @abstractmethod
    def can_shrink_to(self, nodes: int) -> bool:
        """Whether fewer nodes make such a cluster, as far as the settings are concerned."""

    def describe(self) -> list[str]:
        """For a person who looks at a run."""
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


@attrs.frozen(kw_only=True)
class Expected:
    """What a sweep of a mode has to have seen; more may be counted.

    Attributes:
        always: every sweep of a sensible size.
        thorough: a long one as well.
    """

    always: tuple[str, ...]
    thorough: tuple[str, ...]
