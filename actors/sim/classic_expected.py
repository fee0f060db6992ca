"""What a sweep of classic plans has to have seen."""

from __future__ import annotations

from typing import Final

from actors.ha.core.states import Lost
from actors.sim.faults import ACTIONS
from actors.sim.plan import Expected

RARE: Final = (
    "power_loss_all",
    "hand_over_called_off",
    "promote",
    "fail_over",
    "force_promote",
    "rotten_source",
    "rot_repaired",
    "depose_unheard",
    "expire",
    "misdate",
    "bad_sector",
    "false_report",
    "stranger",
)
"""Actions that take effect in fewer than a quarter of all runs: 30 could lack one."""
_ALWAYS: Final = (
    *(f"fault {name}" for name in ACTIONS if name not in RARE),
    "restarts",
    "recoveries after a crash",
    "disk errors",
    "refused starts",
    "roll-overs",
    "catch-ups",
    "connections lost",
    "time-outs",
    "acknowledged records",
    "unknown records",
    "refused records",
    "read records",
    "fresh reads",
)
"""What a sweep has to have seen; more may be counted."""

_THOROUGH: Final = (
    *(f"fault {name}" for name in RARE),
    "refused connections",
    "slaves emptied",
    "mark acknowledged records given up",
    "tails cut",
    "refused reports",
    "logs resynced",
    "mark master changed",
    "mark fenced: HANDING_OVER",
    "mark slave refused: diverged",
    "mark slave's log cut",
    "mark tail cut at a bad record",
    "mark page as it was written back",
    "mark page sealed",
    "mark range repaired",
    "mark catch-up over files",
    "mark catch-up from nothing",
    "mark file deleted: age",
    "mark slave needs what expired",
    "mark catch-up from what had not expired",
    "mark dispatch went on behind the end",
    "mark queues begun anew",
    "mark mended: consumequeue",
    "mark mended: index",
    "mark write failed",
    "mark sync failed",
    "mark slave could not write",
    "mark SLAVE_NOT_AVAILABLE",
    *(f"mark append unknown: {name}" for name in ("ReplicationTimeout", "NodeStopped", "given up")),
    *(f"mark append refused: {name}" for name in ("NotMaster", "NotEnoughReplicas", "Closed")),
    *(
        f"mark connection ended: {lost.name}"
        for lost in (
            Lost.PEER_CLOSED,
            Lost.BROKEN,
            Lost.CONNECT_FAILED,
            Lost.SILENT,
            Lost.FOREIGN_LOG,
            Lost.NOT_VERIFIED,
            Lost.APPEND_FAILED,
        )
    ),
)
"""What a thorough one has to have seen as well."""
EXPECTED: Final = Expected(always=_ALWAYS, thorough=_THOROUGH)
