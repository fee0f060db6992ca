"""Everything that a script can do to DLedger groups: of several nodes or one, in memory, and with a
state machine.
"""

from __future__ import annotations

from typing import Any, Final

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
from actors.sim.actions.network import Clog, Cut, CutOneWay, Isolate, LedgerHalfOpen, Reset
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
from actors.sim.dledger.actions.disks import ExpireHead, Forget, LoseDisk, NewDisk
from actors.sim.dledger.actions.leaders import (
    Depose,
    KillAfterSync,
    KillInCut,
    PowerLossInCut,
    TransferLeader,
)
from actors.sim.dledger.actions.rot import RotRepaired
from actors.sim.dledger.actions.snapshots import (
    KillInInstall,
    KillInRecovery,
    KillInSnapshot,
    PassInstall,
    SnapshotRot,
)
from actors.sim.dledger.runner import LedgerRunner


def _table(*actions: Action[Any]) -> dict[str, Action[LedgerRunner]]:
    return {action.name: action for action in actions}


_ANY_NODE: Final[tuple[Action[Any], ...]] = (
    *(Kill(), KillStarting(), Stop(), PowerLoss(), PowerLossInSync(), Pause(), ClockJump()),
    *(SlowSync(), EioWrite(), EioSync(), EioRead(), ShortWrite(), DiskFull(), NoInodes()),
    KillAfterSync(),
    ExpireHead(),
)
_NETWORK: Final[tuple[Action[Any], ...]] = (
    *(Cut(), CutOneWay(), Isolate(), Reset(), LedgerHalfOpen(), Clog(), TransferLeader()),
    Depose(),
)
_SEVERAL: Final[tuple[Action[Any], ...]] = (KillInCut(), PowerLossInCut())

LEDGER_ACTIONS: Final = _table(
    *(*_NETWORK, *_ANY_NODE, *_SEVERAL),
    *(PowerLossAll(), BitRot(), OldSector(), LoseDisk(), NewDisk(), RotRepaired()),
)
"""Everything a script can do to DLedger groups, by name."""
ONE_NODE_ACTIONS: Final = _table(*_ANY_NODE)
MEMORY_ACTIONS: Final = _table(*_NETWORK, Pause(), ClockJump(), Forget())
"""To groups in memory: no disk holds what they do, and no two of their members may forget at once.
"""


ONE_NODE_MACHINE_ACTIONS: Final[dict[str, Action[LedgerRunner]]] = {
    action.name: action for action in (KillInSnapshot(), KillInRecovery(), SnapshotRot())
}
MACHINE_ACTIONS: Final[dict[str, Action[LedgerRunner]]] = {
    **ONE_NODE_MACHINE_ACTIONS,
    KillInInstall.name: KillInInstall(),
}
"""What a script can do besides to groups with a state machine, by name."""


SCRIPTED_ACTIONS: Final[dict[str, Action[LedgerRunner]]] = {PassInstall.name: PassInstall()}
"""By name."""


ALL_ACTIONS: Final = {**LEDGER_ACTIONS, **MEMORY_ACTIONS, **MACHINE_ACTIONS, **SCRIPTED_ACTIONS}
"""Whatever a script may say."""
