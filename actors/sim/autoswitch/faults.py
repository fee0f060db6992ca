"""Lists everything that a script can do to an auto-switch group and its controllers."""

from __future__ import annotations

from typing import Final

from actors.sim.actions import disk, process
from actors.sim.actions.action import table
from actors.sim.actions.network import Clog, Cut, CutOneWay, HalfOpen, Isolate, Reset
from actors.sim.autoswitch.disks import NewDisk
from actors.sim.autoswitch.requests import KillAsked, LoseAnswer
from actors.sim.classic.actions import rot, tools

ACTIONS: Final = table(
    *(Cut(), CutOneWay(), Isolate(), Reset(), HalfOpen(), Clog()),
    *(process.Kill(), process.KillStarting(), process.Stop(), process.PowerLoss()),
    *(process.PowerLossAll(), process.PowerLossInSync(), process.Pause(), process.ClockJump()),
    *(disk.SlowSync(), disk.EioWrite(), disk.EioSync(), disk.EioRead(), disk.ShortWrite()),
    *(disk.DiskFull(), disk.NoInodes(), disk.BitRot(), disk.OldSector(), rot.DerivedRot()),
    *(rot.RotRepaired(), tools.CheckRunning(), LoseAnswer(), KillAsked(), NewDisk()),
    process.CrashActor(
        *("pull_service", "group_transfer", "connection_state", "scrubber", "derived_scrubber"),
        *("accept_socket", "read_socket", "write_socket", "ha_client", "replicas_manager"),
        *("controller", "quorum_ack_checker", "entry_handler", "state_maintainer"),
    ),
)
"""The actions by their names."""
PATH_PARTS: Final = (
    *("commitlog", "commitlog", "consumequeue", "index", "/events/", "synced", "checkpoint"),
    *("epochFileCheckpoint", "newest_epoch", "brokerIdentity", "/controllers/", ""),
)
"""The parts of paths that disk faults hit; the log counts twice."""
