"""All actions that scripts may name, in one table, and how a script is drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

from actors.sim.action import Action, Ground
from actors.sim.actions_deposed import DeposeUnheard
from actors.sim.actions_derived import DerivedRot
from actors.sim.actions_disk import (
    BitRot,
    DiskFull,
    EioRead,
    EioSync,
    EioWrite,
    NoInodes,
    OldSector,
    ShortWrite,
    SlowSync,
)
from actors.sim.actions_expiry import BadSector, Expire, Misdate
from actors.sim.actions_force import ForcePromote
from actors.sim.actions_network import (
    Clog,
    Cut,
    CutOneWay,
    FalseReport,
    HalfOpen,
    Isolate,
    Reset,
    Stranger,
)
from actors.sim.actions_operator import FailOver, HandOverCalledOff, Promote
from actors.sim.actions_process import (
    ClockJump,
    Kill,
    KillStarting,
    Pause,
    PowerLoss,
    PowerLossAll,
    PowerLossInSync,
    Stop,
)
from actors.sim.actions_replace import NewDisk, NewMachine, RottenSource
from actors.sim.actions_rot import RotRepaired
from actors.sim.actions_tools import CheckRunning
from actors.sim.actions_topics import RemakeTopic
from actors.sim.fault_runner import FaultRunner
from actors.sim.script import Script

FAULTS_MIN: Final = 5
"""A run with fewer faults is not worth its time."""

ACTIONS: Final[Mapping[str, Action[FaultRunner]]] = {
    action.name: action
    for action in (
        Cut(),
        CutOneWay(),
        Isolate(),
        Reset(),
        HalfOpen(),
        Clog(),
        FalseReport(),
        Stranger(),
        Kill(),
        KillStarting(),
        Stop(),
        PowerLoss(),
        PowerLossAll(),
        PowerLossInSync(),
        Pause(),
        ClockJump(),
        SlowSync(),
        EioWrite(),
        EioSync(),
        EioRead(),
        ShortWrite(),
        DiskFull(),
        NoInodes(),
        BitRot(),
        OldSector(),
        HandOverCalledOff(),
        Promote(),
        CheckRunning(),
        ForcePromote(),
        NewDisk(),
        RottenSource(),
        NewMachine(),
        DeposeUnheard(),
        Expire(),
        Misdate(),
        BadSector(),
        FailOver(),
        RemakeTopic(),
        RotRepaired(),
        DerivedRot(),
    )
}
"""Everything a script can do, by name."""

STEADY: Final = ("kill", "stop", "cut", "isolate", "pause", "reset")
"""What fills a script up that would be too short: what takes effect nearly always."""


def draw_script(
    seed: str, ground: Ground, actions: Mapping[str, Action[Any]] | None = None
) -> Script:
    """Draw a script of at least FAULTS_MIN faults, one of them a restart if processes may end.

    Args:
        actions: what may be in it, STEADY ones among them; None: ACTIONS.

    Every action has a stream of its own, so a new one adds lines and changes none.
    """
    actions = ACTIONS if actions is None else actions
    steady = [name for name in STEADY if name in actions]
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
