"""What happened to DLedger groups in a run, counted by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from actors.events import store
from actors.events.dledger import (
    CommittedRose,
    DispatcherChanged,
    LedgerTruncated,
    RoleChanged,
    RPCPeerLost,
    SnapshotFailed,
    SnapshotLoaded,
    SnapshotSaved,
)
from actors.sim.classic.marks import INJECTED, class_of
from actors.sim.dledger.faults import LEDGER_ACTIONS, MACHINE_ACTIONS
from actors.sim.dledger.runner import INSTALLING, RECOVERING, TAKING
from actors.sim.history import (
    AppendAnswered,
    AppendAsked,
    AppendRefused,
    AppendUnknown,
    FaultInjected,
    MachineRead,
    Observation,
    RecordsRead,
)
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
"""By what a process was doing with a snapshot when it was killed."""

LEDGER_EXPECTED: Final = Expected(
    always=(
        *(f"fault {name}" for name in LEDGER_ACTIONS if name not in RARE),
        *(f"fault {name}" for name in MACHINE_ACTIONS),
        "restarts",
        "elections",
        "commits",
        "acknowledged records",
        "unknown records",
        "refused records",
        "read records",
        "fresh reads",
        "recoveries after a crash",
        "disk errors",
        "connections lost",
        "truncations",
        "catch-ups",
        "expiries",
        "snapshots taken",
        "snapshots installed whole",
        "snapshots loaded",
        "restarts during snapshots",
        "restarts during installs",
        "restarts during recoveries",
        "machine reads",
    ),
    thorough=(
        *(f"fault {name}" for name in RARE),
        "fault forget",
        "refused starts",
        "tails cut",
        "transfers",
        "snapshots installed in pieces",
        "mark snapshot failed",
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


def ledger_counts(observations: Iterable[Observation]) -> dict[str, int]:
    """What the groups and their clients did in a run, by name."""
    counts: dict[str, int] = {}
    tally = _Tally()
    for seen in observations:
        for name, number in tally.see(seen):
            counts[name] = counts.get(name, 0) + number
    return {name: number for name, number in counts.items() if number}


@attrs.define
class _Tally:
    """Goes through one run."""

    _asked: dict[int, int] = attrs.field(factory=dict, init=False)  # operation -> records

    def see(self, seen: Observation) -> Iterator[tuple[str, int]]:
        match seen:
            case SimEvent():
                yield from self._event(seen.event)
            case AppendAsked(operation=number, bodies=bodies):
                self._asked[number] = len(bodies)
            case AppendAnswered(operation=number):
                yield "acknowledged records", self._asked[number]
            case AppendUnknown(operation=number, error=error):
                yield "unknown records", self._asked[number]
                yield f"mark append unknown: {class_of(error)}", 1
            case AppendRefused(operation=number, error=error):
                yield "refused records", self._asked[number]
                yield f"mark append refused: {class_of(error)}", 1
            case RecordsRead(batch=batch, fresh=fresh):
                yield "read records", len(batch.records)
                yield "fresh reads", fresh
            case MachineRead():
                yield "machine reads", 1
            case FaultInjected(kind="ended", where=where):
                yield ENDED[where.partition(" while ")[2]], 1
            case FaultInjected(kind="install_kill", where=where):
                yield "mark leader ended during an install", where.endswith("-leader")
            case FaultInjected(kind="transferred"):
                yield "transfers", 1
            case FaultInjected(kind=kind) if kind in INJECTED:
                yield INJECTED[kind], 1

    def _event(self, event: object) -> Iterator[tuple[str, int]]:
        match event:
            case RoleChanged(role=role):
                yield "elections", role == "LEADER"
                yield f"mark role: {role}", 1
            case CommittedRose():
                yield "commits", 1
            case LedgerTruncated():
                yield "truncations", 1
            case DispatcherChanged(state=state):
                yield "catch-ups", state == "APPEND"
                yield f"mark dispatcher: {state}", 1
            case RPCPeerLost():
                yield "connections lost", 1
            case SnapshotSaved(installed=installed, size_bytes=size):
                yield "snapshots taken", not installed
                yield "snapshots installed whole", installed and size <= CHUNK_BYTES
                yield "snapshots installed in pieces", installed and size > CHUNK_BYTES
            case SnapshotLoaded():
                yield "snapshots loaded", 1
            case SnapshotFailed():
                yield "mark snapshot failed", 1
            case store.SegmentExpired():
                yield "expiries", 1
            case store.RecoveryFinished(was_clean=was_clean, kept_bytes=kept):
                yield "recoveries after a crash", not was_clean
                yield "tails cut", kept > 0
