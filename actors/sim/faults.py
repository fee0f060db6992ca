"""All actions that scripts may name, in one table, and how a script is drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from actors.sim.action import Action, Ground
from actors.sim.actions_disk import (
    BitRot,
    DiskFull,
    EioRead,
    EioSync,
    EioWrite,
    OldSector,
    ShortWrite,
    SlowSync,
)
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
    Stop,
)
from actors.sim.actions_tools import CheckRunning
from actors.sim.script import Script

FAULTS_MIN: Final = 5
"""A run with fewer faults is not worth its time."""

ACTIONS: Final[Mapping[str, Action]] = {
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
        Pause(),
        ClockJump(),
        SlowSync(),
        EioWrite(),
        EioSync(),
        EioRead(),
        ShortWrite(),
        DiskFull(),
        BitRot(),
        OldSector(),
        HandOverCalledOff(),
        Promote(),
        CheckRunning(),
        ForcePromote(),
        FailOver(),
    )
}
"""Everything a script can do, by name."""

STEADY: Final = ("kill", "stop", "cut", "isolate", "pause", "reset")
"""What fills a script up that would be too short: what takes effect nearly always."""


def draw_script(seed: str, ground: Ground) -> Script:
    """Draw a script of at least FAULTS_MIN faults, one of them a restart.

    Every action has a stream of its own, so a new one adds lines and changes none.
    """
    assert len(ground.names) > 1
    rng = random.Random(f"{seed}:faults")
    script = [ACTIONS[rng.choice(("kill", "stop"))].draw(rng, ground)]
    for action in ACTIONS.values():
        own = random.Random(f"{seed}:faults:{action.name}")
        if own.random() < action.chance and action.nodes(ground):
            script += [action.draw(own, ground) for _ in range(own.randint(1, action.most))]
    while len(script) < FAULTS_MIN:
        script.append(ACTIONS[rng.choice(STEADY)].draw(rng, ground))
    return tuple(sorted(script, key=lambda fault: fault.at_s))
