"""What a script can do to a cluster: the base of every action.

To add an action, write a subclass with a name, and add it to the `faults` of its mode. It draws its
lines from a random stream of its own, so the lines of other actions do not change.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar

import attrs

from actors.sim.actions.script import Fault, Script

R_contra = TypeVar("R_contra", contravariant=True)
"""The runner that carries an action out: any `Runner`, or that of a mode."""

FIRST_S = 0.5
"""No fault begins before, because the cluster has just started."""
SHORT_S = 1.0
LONG_S = 12.0


@attrs.frozen(kw_only=True)
class Ground:
    """What a script is drawn for.

    Attributes:
        names: the names of the nodes, at least two, the master first.
        duration_s: the latest time at which a fault may begin, in seconds.
        spare_power: the nodes that keep their power, because the master of a `written` group
            guarantees nothing after a power loss.
        expires: whether log files are deleted when they are old.
        path_parts: parts of paths; a disk error hits files with one of them.
    """

    names: tuple[str, ...]
    duration_s: float
    spare_power: tuple[str, ...] = ()
    expires: bool = False
    path_parts: tuple[str, ...] = ("",)

    @property
    def unsteady(self) -> tuple[str, ...]:
        """The nodes that may lose their power."""
        return tuple(name for name in self.names if name not in self.spare_power)


class Action(ABC, Generic[R_contra]):
    """One kind of line of a fault script.

    Attributes:
        name: its name in scripts and counts.
        chance: the share of runs that have it, 0 to 1.
        most: how often it occurs at most in one run.
        restarts: whether it surely takes a node down and up again.
        alone: whether it begins only when all actions before it have ended, and those after it wait
            for its end.
        nodes_min: the smallest number of nodes for which it is drawn.
        cuts_power: whether it hits only nodes that may lose their power.
        all_lose_power: whether it is drawn only if all nodes may lose their power.
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
        """Return the nodes that it may hit first; () if it is not drawn."""
        if (self.all_lose_power and ground.spare_power) or len(ground.names) < self.nodes_min:
            return ()
        return ground.unsteady if self.cuts_power else ground.names

    def others(self, rng: random.Random, ground: Ground, node: str) -> tuple[str, ...]:
        """Draw the other nodes that it hits."""
        return ()

    def extra(self, rng: random.Random) -> float:
        """Draw the action's own number; each action says what it means."""
        return 0.0

    def where(self, rng: random.Random, ground: Ground) -> str:
        """Draw the part of a path whose files it hits, or another word that the action defines."""
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
        """Take effect, wait, and undo it. Calls `runner.began` if it takes effect."""


class PairAction(Action[R_contra]):
    """An action between two nodes."""

    nodes_min = 2

    def others(self, rng: random.Random, ground: Ground, node: str) -> tuple[str, ...]:
        return (rng.choice([name for name in ground.names if name != node]),)


def table(*actions: Action[Any]) -> dict[str, Action[Any]]:
    """Return the actions by their names."""
    return {action.name: action for action in actions}


FAULTS_MIN: Final = 5
"""A run with fewer faults is not worth its time."""

STEADY: Final = ("kill", "stop", "cut", "isolate", "pause", "reset")
"""The actions that fill up a script that would be too short: they nearly always take effect."""


def draw_script(seed: str, ground: Ground, actions: Mapping[str, Action[Any]]) -> Script:
    """Draw a script of at least FAULTS_MIN faults, one of them a restart if processes may end.

    Args:
        actions: the actions that may be in it, some of STEADY among them.

    Every action has a random stream of its own, so a new action adds lines and changes none.
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
