"""Everything that a script can do to a classic group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from actors.sim.actions.action import Action
from actors.sim.actions.disk import (
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
from actors.sim.actions.network import Clog, Cut, CutOneWay, Isolate, Reset
from actors.sim.actions.process import (
    ClockJump,
    Kill,
    KillStarting,
    Pause,
    PowerLoss,
    PowerLossAll,
    PowerLossInSync,
    Stop,
)
from actors.sim.classic.actions.expiry import BadSector, Expire, Misdate
from actors.sim.classic.actions.network import FalseReport, HalfOpen, Stranger
from actors.sim.classic.actions.promotions import (
    DeposeUnheard,
    FailOver,
    ForcePromote,
    HandOverCalledOff,
    Promote,
)
from actors.sim.classic.actions.replace import NewDisk, NewMachine, RottenSource
from actors.sim.classic.actions.rot import DerivedRot, RotRepaired
from actors.sim.classic.actions.tools import CheckRunning, RemakeTopic
from actors.sim.classic.runner import FaultRunner

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
