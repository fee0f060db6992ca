"""Lists everything that a script can do to a classic group."""

from __future__ import annotations

from typing import Final

from actors.sim.actions import disk, process
from actors.sim.actions.action import table
from actors.sim.actions.network import Clog, Cut, CutOneWay, Isolate, Reset
from actors.sim.classic.actions import expiry, network, promotions, replace, rot, tools

ACTIONS: Final = table(
    *(Cut(), CutOneWay(), Isolate(), Reset(), network.SlaveHalfOpen(), Clog()),
    *(network.FalseReport(), network.Stranger(), process.Kill(), process.KillStarting()),
    *(process.Stop(), process.PowerLoss(), process.PowerLossAll(), process.PowerLossInSync()),
    *(process.Pause(), process.ClockJump(), disk.SlowSync(), disk.EioWrite(), disk.EioSync()),
    *(disk.EioRead(), disk.ShortWrite(), disk.DiskFull(), disk.NoInodes(), disk.BitRot()),
    *(disk.OldSector(), promotions.HandOverCalledOff(), promotions.Promote()),
    *(tools.CheckRunning(), promotions.ForcePromote(), replace.NewDisk(), replace.RottenSource()),
    *(replace.NewMachine(), promotions.DeposeUnheard(), expiry.Expire(), expiry.Misdate()),
    *(expiry.BadSector(), promotions.FailOver(), tools.RemakeTopic(), rot.RotRepaired()),
    rot.DerivedRot(),
    process.CrashActor(
        *("pull_service", "group_transfer", "connection_state", "scrubber", "derived_scrubber"),
        *("accept_socket", "read_socket", "write_socket", "ha_client"),
    ),
)
"""The actions by their names."""
