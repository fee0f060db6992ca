"""What a script can do to a cluster: the base of every action.

To add one: a subclass with a name, and its position in the `faults` of its mode. It draws its lines
from a random stream of its own, so that it changes nothing in what the others do.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar

import attrs

from actors.sim.actions.script import Fault, Script

R_contra = TypeVar("R_contra", contravariant=True)
"""What carries it out: any `Runner`, or that of a mode."""

FIRST_S = 0.5
"""No fault before: the cluster has just started."""
SHORT_S = 1.0
LONG_S = 12.0


@attrs.frozen(kw_only=True)
class Ground:
    """What scripts are drawn for.

    Attributes:
        names: the nodes, at least two, the master first.
        duration_s: when the last fault may begin.
        spare_power: nodes that keep their power: the master of a `written` group promises nothing
            after a power loss.
        expires: log files are deleted when they are old.
        path_parts: parts of paths, of which disk errors hit one.
    """

    names: tuple[str, ...]
    duration_s: float
    spare_power: tuple[str, ...] = ()
    expires: bool = False
    path_parts: tuple[str, ...] = ("",)

    @property
    def unsteady(self) -> tuple[str, ...]:
        """Nodes that may lose their power."""
        return tuple(name for name in self.names if name not in self.spare_power)


class Action(ABC, Generic[R_contra]):
    """One kind of line of a fault script.

    Attributes:
        name: in scripts and counts.
        chance: share of runs that have it at all.
        most: so often at most in one run.
        restarts: whether a node is down and up again afterwards, for sure.
        alone: it begins when all before it have ended, and those after it wait for it.
        nodes_min: it is not drawn for fewer.
        cuts_power: it hits only nodes that may lose their power.
        all_lose_power: it is drawn only where all may.
    """

    name: ClassVar[str]
    chance: ClassVar[float] = 0.5
    most: ClassVar[int] = 3
    restarts: ClassVar[bool] = False
    alone: ClassVar[bool] = False
    nodes_min: ClassVar[int] = 1
    cuts_power: ClassVar[bool] = False
    all_lose_power: ClassVar[bool] = False

    def nodes(self, ground: Ground) -> tuple[str, ...]:
        """The nodes that it may hit first; () if it is not drawn."""
        if (self.all_lose_power and ground.spare_power) or len(ground.names) < self.nodes_min:
            return ()
        return ground.unsteady if self.cuts_power else ground.names

    def others(self, rng: random.Random, ground: Ground, node: str) -> tuple[str, ...]:
        """The other nodes that it hits."""
        return ()

    def extra(self, rng: random.Random) -> float:
        """Draw the action's own number."""
        return 0.0

    def where(self, rng: random.Random, ground: Ground) -> str:
        """Which files."""
        return ""

    def draw(self, rng: random.Random, ground: Ground) -> Fault:
        """Draw one line of a script."""
        node = rng.choice(self.nodes(ground))
        return Fault(
            at_s=round(rng.uniform(FIRST_S, ground.duration_s), 3),
            kind=self.name,
            node=node,
            others=self.others(rng, ground, node),
            for_s=round(rng.choice([rng.uniform(0.01, SHORT_S), rng.uniform(SHORT_S, LONG_S)]), 3),
            extra=round(self.extra(rng), 4),
            where=self.where(rng, ground),
        )

    @abstractmethod
    async def act(self, runner: R_contra, fault: Fault) -> None:
        """Do it, wait, mend it. Calls `runner.began` if it takes effect."""


class PairAction(Action[R_contra]):
    """Between two nodes."""

    nodes_min = 2

    def others(self, rng: random.Random, ground: Ground, node: str) -> tuple[str, ...]:
        return (rng.choice([name for name in ground.names if name != node]),)


def table(*actions: Action[Any]) -> dict[str, Action[Any]]:
    """The actions by their names."""
    return {action.name: action for action in actions}


FAULTS_MIN: Final = 5
"""A run with fewer faults is not worth its time."""

STEADY: Final = ("kill", "stop", "cut", "isolate", "pause", "reset")
"""What fills a script up that would be too short: what takes effect nearly always."""


def draw_script(seed: str, ground: Ground, actions: Mapping[str, Action[Any]]) -> Script:
    """Draw a script of at least FAULTS_MIN faults, one of them a restart if processes may end.

    Args:
        actions: what may be in it, STEADY ones among them.

    Every action has a stream of its own, so a new one adds lines and changes none.
    """
    steady = [name for name in STEADY if name in actions and actions[name].nodes(ground)]
    ends = [name for name in ("kill", "stop") if name in actions] or steady
    rng = random.Random(f"{seed}:faults")
    script = [actions[rng.choice(ends)].draw(rng, ground)]
    for action in actions.values():
        own = random.Random(f"{seed}:faults:{action.name}")
        if own.random() < action.chance and action.nodes(ground):
            script += [action.draw(own, ground) for _ in range(own.randint(1, action.most))]
    while len(script) < FAULTS_MIN:
        script.append(actions[rng.choice(steady)].draw(rng, ground))
    return tuple(sorted(script, key=lambda fault: fault.at_s))
