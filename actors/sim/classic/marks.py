"""Counts by name what happened in a run of a classic group, only from observations, and lists what
a sweep of such runs has to have seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import attrs

from actors.events import ha, roles, store
from actors.ha.core.states import Lost
from actors.sim.classic.faults import ACTIONS
from actors.sim.marks import ALWAYS, Tally
from actors.sim.plan import Expected
from actors.sim.world import SimEvent

RARE: Final = (
    *("power_loss_all", "hand_over_called_off", "promote", "fail_over", "force_promote"),
    *("rotten_source", "rot_repaired", "depose_unheard", "expire", "misdate", "bad_sector"),
    *("false_report", "stranger"),
)
"""Actions that take effect in fewer than a quarter of all runs, so that 30 runs may lack one."""
ENDS: Final = (
    *(Lost.PEER_CLOSED, Lost.BROKEN, Lost.CONNECT_FAILED, Lost.SILENT, Lost.FOREIGN_LOG),
    *(Lost.NOT_VERIFIED, Lost.APPEND_FAILED),
)
"""The ways in which connections end in some run of a long sweep."""
EXPECTED: Final = Expected(
    always=(
        *(f"fault {name}" for name in ACTIONS if name not in RARE),
        *ALWAYS,
        *("refused starts", "roll-overs", "time-outs"),
    ),
    thorough=(
        *(f"fault {name}" for name in RARE),
        *("refused connections", "slaves emptied", "mark acknowledged records given up"),
        *("tails cut", "refused reports", "logs resynced", "mark master changed"),
        *("mark fenced: HANDING_OVER", "mark slave refused: diverged", "mark slave's log cut"),
        *("mark tail cut at a bad record", "mark page as it was written back"),
        *("mark page sealed", "mark range repaired", "mark catch-up over files"),
        *("mark catch-up from nothing", "mark file deleted: age"),
        *("mark slave needs what expired", "mark catch-up from what had not expired"),
        *("mark dispatch went on behind the end", "mark queues begun anew"),
        *("mark mended: consumequeue", "mark mended: index", "mark write failed"),
        *("mark sync failed", "mark slave could not write", "mark SLAVE_NOT_AVAILABLE"),
        *(
            f"mark append unknown: {name}"
            for name in ("ReplicationTimeout", "NodeStopped", "given up")
        ),
        *(f"mark append refused: {name}" for name in ("NotMaster", "NotEnoughReplicas", "Closed")),
        *(f"mark connection ended: {lost.name}" for lost in ENDS),
    ),
)
"""The marks that a sweep has to have seen."""


@attrs.define(kw_only=True)
class ClassicTally(Tally):
    """The tally of a classic group; see `Tally`.

    Attributes:
        segment_bytes: the size of the group's log files.
    """

    named: ClassVar = {
        ha.AppendsTimedOut: "time-outs",
        ha.SlaveNotAvailable: "mark SLAVE_NOT_AVAILABLE",
        ha.HAReportRefused: "refused reports",
        ha.HAConnectionRefused: "refused connections",
        ha.MasterLost: "connections lost",
        store.SegmentRolled: "roll-overs",
        store.RawAppendRefused: "mark slave could not write",
        store.QueueRebuilt: "mark queue rebuilt",
        store.DerivedAnew: "mark all derived anew",
        store.QueuesBegunAnew: "mark queues begun anew",
        store.WriteFailed: "mark write failed",
        store.SyncFailed: "mark sync failed",
        store.RangeRepaired: "mark range repaired",
        store.PageSealed: "mark page sealed",
    }
    segment_bytes: int
    _ends: dict[str, int] = attrs.field(factory=dict, init=False)  # the ends of the masters' logs
    # by group, the node that opened it last
    _masters: dict[str, str] = attrs.field(factory=dict, init=False)

    def event(self, seen: SimEvent) -> Iterator[tuple[str, int]]:
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
            case ha.HAReportRefused(reason=reason):
                yield "mark slave needs what expired", reason == Lost.REPORT_BELOW_MIN.value
            case ha.MasterLost(reason=reason):
                yield f"mark connection ended: {Lost(reason).name}", 1
            case store.RecordsAppended(next_bytes=end):
                self._ends[node] = end
            case store.RecoveryFinished(was_clean=was_clean, kept_bytes=kept, reason=reason):
                yield "recoveries after a crash", not was_clean
                yield "tails cut", kept > 0
                yield "mark tail cut at a bad record", kept > 0 and bool(reason)
                who = "master" if node in self._masters.values() else "slave"
                yield f"mark {who}'s log cut", kept > 0
            case store.SegmentExpired(reason=reason):
                yield f"mark file deleted: {reason}", 1
            case store.DiskUsageChanged(is_full=True):
                yield "mark disk full", 1
            case store.DispatchStarted(from_bytes=start, end_bytes=end):
                yield "mark dispatch went on behind the end", start < end
            case store.DerivedMended(file=file):
                yield f"mark mended: {file.partition('/')[0]}", 1

    def _transfer(self, start: int, end: int) -> Iterator[tuple[str, int]]:
        size = self.segment_bytes
        yield "catch-ups", start < end
        yield "mark catch-up over files", start // size < end // size
        yield "mark catch-up from nothing", start == 0 < end
