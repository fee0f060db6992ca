"""Counts what happened to DLedger groups in a run, and lists what a sweep has to have seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import attrs

from actors.events import dledger, remoting, store
from actors.sim.dledger.faults import LEDGER_ACTIONS, MACHINE_ACTIONS
from actors.sim.dledger.runner import INSTALLING, RECOVERING, TAKING
from actors.sim.history import FaultInjected
from actors.sim.marks import ALWAYS, Tally
from actors.sim.plan import Expected
from actors.sim.world import SimEvent
from actors.storage.ledger.snapshots import CHUNK_BYTES

RARE: Final = (
    *("power_loss_all", "lose_disk", "new_disk", "eio_read", "old_sector", "bit_rot"),
    "rot_repaired",
    *("depose", "kill_in_cut", "power_loss_in_cut"),
)
ENDED: Final = {
    TAKING: "restarts during snapshots",
    INSTALLING: "restarts during installs",
    RECOVERING: "restarts during recoveries",
}
"""Names of counts, by what a process was doing with a snapshot when it was killed."""

LEDGER_EXPECTED: Final = Expected(
    always=(
        *(f"fault {name}" for name in LEDGER_ACTIONS if name not in RARE),
        *(f"fault {name}" for name in MACHINE_ACTIONS),
        *ALWAYS,
        *("elections", "commits", "truncations", "expiries", "snapshots taken"),
        *("snapshots installed whole", "snapshots loaded", *ENDED.values(), "machine reads"),
    ),
    thorough=(
        *(f"fault {name}" for name in RARE),
        *("fault forget", "refused starts", "tails cut", "transfers"),
        *("snapshots installed in pieces", "mark snapshot failed"),
        "mark leader ended during an install",
        *(
            f"mark append unknown: {name}"
            for name in ("ReplicationTimeout", "LeadershipLost", "NodeStopped", "given up")
        ),
        *(f"mark append refused: {name}" for name in ("NotMaster", "Closed")),
        *(f"mark dispatcher: {state}" for state in ("COMPARE", "TRUNCATE", "APPEND")),
    ),
)
"""What a sweep has to have seen."""


@attrs.define(kw_only=True)
class LedgerTally(Tally):
    """Counts what happened to DLedger groups; see `Tally`."""

    named: ClassVar = {
        dledger.CommittedRose: "commits",
        dledger.LedgerTruncated: "truncations",
        remoting.RPCPeerLost: "connections lost",
        dledger.SnapshotLoaded: "snapshots loaded",
        dledger.SnapshotFailed: "mark snapshot failed",
        store.SegmentExpired: "expiries",
    }

    def event(self, seen: SimEvent) -> Iterator[tuple[str, int]]:
        match seen.event:
            case dledger.RoleChanged(role=role):
                yield "elections", role == "LEADER"
                yield f"mark role: {role}", 1
            case dledger.DispatcherChanged(state=state):
                yield "catch-ups", state == "APPEND"
                yield f"mark dispatcher: {state}", 1
            case dledger.SnapshotSaved(installed=installed, size_bytes=size):
                yield "snapshots taken", not installed
                yield "snapshots installed whole", installed and size <= CHUNK_BYTES
                yield "snapshots installed in pieces", installed and size > CHUNK_BYTES
            case store.RecoveryFinished(was_clean=was_clean, kept_bytes=kept):
                yield "recoveries after a crash", not was_clean
                yield "tails cut", kept > 0

    def fault(self, seen: FaultInjected) -> Iterator[tuple[str, int]]:
        match seen.kind:
            case "ended":
                yield ENDED[seen.where.partition(" while ")[2]], 1
            case "install_kill":
                yield "mark leader ended during an install", seen.where.endswith("-leader")
