"""All actions that a script can use on DLedger groups: in files, in memory, with a state
machine.
"""

from __future__ import annotations

from typing import Final

from actors.sim.actions import disk, network, process
from actors.sim.actions.action import table
from actors.sim.dledger.actions import disks, leaders, rot, snapshots

_CRASH: Final = process.CrashActor(
    *("quorum_ack_checker", "entry_handler", "entry_reader", "state_maintainer", "scrubber"),
)
_NETWORK: Final = (
    *(network.Cut(), network.CutOneWay(), network.Isolate(), network.Reset(), network.HalfOpen()),
    *(network.Clog(), leaders.TransferLeader(), leaders.Depose()),
)
LEDGER_ACTIONS: Final = table(
    *_NETWORK,
    *(process.Kill(), process.KillStarting(), process.Stop(), process.PowerLoss()),
    *(process.PowerLossInSync(), process.Pause(), process.ClockJump(), disk.SlowSync()),
    *(disk.EioWrite(), disk.EioSync(), disk.EioRead(), disk.ShortWrite(), disk.DiskFull()),
    *(disk.NoInodes(), leaders.KillAfterSync(), disks.ExpireHead(), leaders.KillInCut()),
    *(leaders.PowerLossInCut(), process.PowerLossAll(), disk.BitRot(), disk.OldSector()),
    *(disks.LoseDisk(), disks.NewDisk(), rot.RotRepaired(), _CRASH),
)
"""The actions for groups in files, by name."""
MEMORY_ACTIONS: Final = table(*_NETWORK, process.Pause(), process.ClockJump(), disks.Forget())
"""The actions for groups in memory, by name: no disk holds their log, and no two members may forget
it at once."""
MACHINE_ACTIONS: Final = table(
    *(snapshots.KillInSnapshot(), snapshots.KillInRecovery(), snapshots.SnapshotRot()),
    snapshots.KillInInstall(),
)
"""The further actions for groups with a state machine."""
ALL_ACTIONS: Final = {
    **LEDGER_ACTIONS,
    **MEMORY_ACTIONS,
    **MACHINE_ACTIONS,
    **table(snapshots.PassInstall()),
}
"""All actions that a script may name. No seed draws the last one, which is about a moment that a
drawn run hardly reaches."""
