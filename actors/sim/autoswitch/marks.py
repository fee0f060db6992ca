"""Counts by name what happened in a run of an auto-switch group, only from observations, and lists
what a sweep of such runs has to have seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import attrs

from actors.events import broker, controller, ha, store
from actors.sim.autoswitch.faults import ACTIONS
from actors.sim.history import FaultInjected
from actors.sim.marks import Tally
from actors.sim.plan import Expected
from actors.sim.world import SimEvent

RARE: Final = (
    *("power_loss_all", "power_loss_in_sync", "kill_starting", "bit_rot", "old_sector"),
    *("rot_repaired", "no_inodes", "derived_rot", "kill_asked", "new_disk"),
)
"""Actions that take effect in few runs, so that 30 runs may lack one."""
ELECTED_BY_HAND: Final = (
    *("elected inside", "elected inside changing"),
    *("not elected inside headless", "not elected outside", "not elected outside changing"),
)
"""What became of an operator's wishes: who was meant, and when; see `elections`."""
EXPECTED: Final = Expected(
    always=(
        *(f"fault {name}" for name in ACTIONS if name not in RARE),
        *("restarts", "recoveries after a crash", "connections lost", "acknowledged records"),
        *("unknown records", "refused records", "read records"),
        *("elections", "epochs", "sets changed"),
    ),
    thorough=(
        *(f"fault {name}" for name in RARE),
        *("logs cut", "nobody to elect", "refused starts"),
        *("mark range repaired", "mark write failed", "mark sync failed"),
        *(
            f"mark append unknown: {name}"
            for name in ("ReplicationTimeout", "LeadershipLost", "NodeStopped", "given up")
        ),
        *(f"mark {name}" for name in ELECTED_BY_HAND),
        *(f"mark append refused: {name}" for name in ("NotMaster", "NotEnoughReplicas", "Closed")),
    ),
)
"""What a sweep has to have seen."""


@attrs.define(kw_only=True)
class AutoSwitchTally(Tally):
    """Counts what happened to an auto-switch group; see `Tally`."""

    named: ClassVar = {
        controller.MasterElected: "elections",
        controller.NoMaster: "nobody to elect",
        controller.SyncStateSetChanged: "sets changed",
        ha.EpochBegun: "epochs",
        ha.LogCutAsked: "logs cut",
        ha.MasterLost: "connections lost",
        broker.RoleNotTaken: "mark role not taken",
        store.WriteFailed: "mark write failed",
        store.SyncFailed: "mark sync failed",
        store.RangeRepaired: "mark range repaired",
        store.DerivedMended: "mark derived file mended",
    }

    def event(self, seen: SimEvent) -> Iterator[tuple[str, int]]:
        match seen.event:
            case store.RecoveryFinished(was_clean=was_clean):
                yield "recoveries after a crash", not was_clean
            case ha.LeaseChanged(holds=False):
                yield "leases ended", 1

    def fault(self, seen: FaultInjected) -> Iterator[tuple[str, int]]:
        if seen.kind in ("elected", "not elected"):
            _, _, *how = seen.where.split()
            yield f"mark {' '.join((seen.kind, *how))}", 1
