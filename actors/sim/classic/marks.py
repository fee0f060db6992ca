"""What happened in a run of a classic group, counted by name from what was seen of it alone, and
what a sweep of such runs has to have seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, assert_never

import attrs

from actors.events import ha, roles, store
from actors.ha.core.states import Lost
from actors.sim.classic.faults import ACTIONS
from actors.sim.history import (
    AppendAnswered,
    AppendAsked,
    AppendRefused,
    AppendUnknown,
    FaultInjected,
    MachineDid,
    MachineRead,
    NodeLooked,
    Observation,
    OffsetsSeen,
    RecordsRead,
)
from actors.sim.plan import Expected
from actors.sim.world import SimEvent

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

INJECTED = {
    "felt": "disk errors",
    "refused to start": "refused starts",
    "wiped": "slaves emptied",
    "resynced": "logs resynced",
    "lost": "mark acknowledged records given up",
    "damage found": "mark damage found by a check",
}
"""What counts of what was done to a run, besides its faults."""


def counted(observations: Iterable[Observation], segment_bytes: int) -> dict[str, int]:
    """What the cluster and its clients did in a run, by name; names that did not come are left out.

    Args:
        segment_bytes: of the group.
    """
    counts: dict[str, int] = {}
    tally = _Tally(segment_bytes=segment_bytes)
    for seen in observations:
        for name, number in tally.see(seen):
            counts[name] = counts.get(name, 0) + number
    return {name: number for name, number in counts.items() if number}


@attrs.define(kw_only=True)
class _Tally:
    """Goes through one run.

    Attributes:
        segment_bytes: of the group.
    """

    segment_bytes: int
    _asked: dict[int, int] = attrs.field(factory=dict, init=False)  # operation -> records
    _ends: dict[str, int] = attrs.field(factory=dict, init=False)  # of what a master has written
    _masters: dict[str, str] = attrs.field(factory=dict, init=False)  # group -> who opened it last

    def see(self, seen: Observation) -> Iterator[tuple[str, int]]:
        match seen:
            case SimEvent():
                yield from self._event(seen)
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
            case FaultInjected(kind=kind):
                if kind in INJECTED:
                    yield INJECTED[kind], 1
            case OffsetsSeen() | NodeLooked() | MachineDid() | MachineRead():
                pass
            case _:
                assert_never(seen)

    def _event(self, seen: SimEvent) -> Iterator[tuple[str, int]]:
        node, group = seen.node, seen.path.split("/")[-1]
        match seen.event:
            case roles.GroupOpened(number=number):
                if number and self._masters.get(group) not in (None, node):
                    yield "mark master changed", 1
                self._masters[group] = node
            case roles.MasterFenced(reason=reason):
                yield f"mark fenced: {reason}", 1
            case roles.LogDiverged(how=how):
                yield f"mark slave refused: {how}", 1
            case ha.HATransferStarted(report_bytes=report, start_bytes=start):
                yield from self._transfer(start, self._ends.get(node, 0))
                yield "mark catch-up from what had not expired", report == 0 < start
            case ha.HAConnectionClosed(reason=reason):
                yield "mark file expired while it was sent", reason.startswith(Lost.EXPIRED.value)
            case ha.AppendsTimedOut():
                yield "time-outs", 1
            case ha.SlaveNotAvailable():
                yield "mark SLAVE_NOT_AVAILABLE", 1
            case ha.HAReportRefused(reason=reason):
                yield "refused reports", 1
                yield "mark slave needs what expired", reason == Lost.REPORT_BELOW_MIN.value
            case ha.HAConnectionRefused():
                yield "refused connections", 1
            case ha.MasterLost(reason=reason):
                yield "connections lost", 1
                yield f"mark connection ended: {Lost(reason).name}", 1
            case _:
                yield from self._store_event(node, seen.event)

    def _transfer(self, start: int, end: int) -> Iterator[tuple[str, int]]:
        if start < end:
            yield "catch-ups", 1
            yield (
                "mark catch-up over files",
                start // self.segment_bytes < end // self.segment_bytes,
            )
        if start == 0 and end > 0:
            yield "mark catch-up from nothing", 1

    def _store_event(self, node: str, event: object) -> Iterator[tuple[str, int]]:
        match event:
            case store.SegmentRolled():
                yield "roll-overs", 1
            case store.RecordsAppended(next_bytes=end):
                self._ends[node] = end
            case store.RecoveryFinished(was_clean=was_clean, kept_bytes=kept, reason=reason):
                yield "recoveries after a crash", not was_clean
                yield "tails cut", kept > 0
                yield "mark tail cut at a bad record", kept > 0 and bool(reason)
                slave = node not in self._masters.values()
                yield "mark slave's log cut", kept > 0 and slave
                yield "mark master's log cut", kept > 0 and not slave
            case store.SegmentExpired(reason=reason):
                yield f"mark file deleted: {reason}", 1
            case store.DiskUsageChanged(is_full=True):
                yield "mark disk full", 1
            case store.RawAppendRefused():
                yield "mark slave could not write", 1
            case store.DispatchStarted(from_bytes=start, end_bytes=end):
                yield "mark dispatch went on behind the end", start < end
            case store.QueueRebuilt():
                yield "mark queue rebuilt", 1
            case store.DerivedMended(file=file):
                yield f"mark mended: {file.partition('/')[0]}", 1
            case store.DerivedAnew():
                yield "mark all derived anew", 1
            case store.QueuesBegunAnew():
                yield "mark queues begun anew", 1
            case store.WriteFailed():
                yield "mark write failed", 1
            case store.SyncFailed():
                yield "mark sync failed", 1
            case store.RangeRepaired():
                yield "mark range repaired", 1
            case store.PageSealed():
                yield "mark page sealed", 1


def class_of(error: str) -> str:
    """The class of an error, from its repr."""
    return error.partition("(")[0]
