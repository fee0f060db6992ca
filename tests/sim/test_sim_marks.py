"""What a run counts as having happened, from what was seen of it."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from test_sim_checkers import answered, appended, noted, received, recovered

from actors.events import ha, roles, store
from actors.ha.core.states import Lost
from actors.sim.classic.marks import ClassicTally
from actors.sim.history import (
    AppendAsked,
    AppendRefused,
    AppendUnknown,
    FaultInjected,
    Observation,
)

FILE = 4096
ASKED = AppendAsked(at_s=1.0, client="c0", operation=1, bodies=(b"a", b"b"))


def observed(node: str, event: Any, place: str) -> Observation:
    return noted(node, event, path=f"/{node}/{place}")


def opened(node: str, number: int) -> Observation:
    event = roles.GroupOpened(number=number, token=1, start_bytes=0, heard=())
    return observed(node, event, "roles/orders")


def transfer(start: int, report: int | None = None) -> Observation:
    said = start if report is None else report
    event = ha.HATransferStarted(slave="n1", connection=1, report_bytes=said, start_bytes=start)
    return observed("n0", event, "orders/connections/n1-1/read_socket")


def cut(node: str, reason: str = "bad CRC") -> Observation:
    seen = recovered(node, 100)
    return attrs.evolve(seen, event=attrs.evolve(seen.event, kept_bytes=50, reason=reason))


def lost(reason: Lost) -> Observation:
    event = ha.MasterLost(session=1, reason=reason.value, detail="", pause_s=1.0)
    return observed("n1", event, "orders/ha_client")


def dispatch(start: int, end: int) -> Observation:
    return noted("n1", store.DispatchStarted(from_bytes=start, end_bytes=end, queue_count=1))


def injected(kind: str) -> Observation:
    return FaultInjected(at_s=1.0, kind=kind, where="n1")


def outcome(kind: type[AppendRefused | AppendUnknown], error: str) -> Observation:
    return kind(at_s=1.0, client="c0", operation=1, error=error)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([], {}),
        ([ASKED, answered(0, 9)], {"acknowledged records": 2}),
        (
            [ASKED, outcome(AppendRefused, "NotMaster('n0 is a slave')")],
            {"refused records": 2, "mark append refused: NotMaster": 1},
        ),
        (
            [ASKED, outcome(AppendUnknown, "given up")],
            {"unknown records": 2, "mark append unknown: given up": 1},
        ),
        ([opened("n0", 0), opened("n0", 1)], {}),
        ([opened("n0", 0), opened("n1", 1)], {"mark master changed": 1}),
        ([appended(0, 9000), transfer(9000)], {}),
        ([appended(0, 9000), transfer(8192)], {"catch-ups": 1}),
        ([appended(0, 9000), transfer(5000)], {"catch-ups": 1, "mark catch-up over files": 1}),
        ([appended(0, 900), transfer(0)], {"catch-ups": 1, "mark catch-up from nothing": 1}),
        (
            [appended(0, 9000), transfer(8192, report=0)],
            {"catch-ups": 1, "mark catch-up from what had not expired": 1},
        ),
        ([recovered("n1", 9)], {"recoveries after a crash": 1}),
        (
            [opened("n0", 0), cut("n1")],
            {
                "recoveries after a crash": 1,
                "tails cut": 1,
                "mark tail cut at a bad record": 1,
                "mark slave's log cut": 1,
            },
        ),
        (
            [opened("n0", 0), cut("n0", "")],
            {"recoveries after a crash": 1, "tails cut": 1, "mark master's log cut": 1},
        ),
        (
            [lost(Lost.SILENT), lost(Lost.SILENT)],
            {"connections lost": 2, "mark connection ended: SILENT": 2},
        ),
        ([dispatch(5, 5)], {}),
        ([dispatch(5, 6)], {"mark dispatch went on behind the end": 1}),
        ([injected("felt"), injected("armed")], {"disk errors": 1}),
        ([injected("resynced"), injected("wiped")], {"logs resynced": 1, "slaves emptied": 1}),
        ([received("n1", 0, 9)], {}),
    ],
)
def test_what_happened_is_counted(seen: list[Observation], expected: dict[str, int]) -> None:
    assert ClassicTally(segment_bytes=FILE).count(seen) == expected


@pytest.mark.parametrize(
    ("event", "names"),
    [
        (roles.MasterFenced(reason="CONFLICT", detail=""), ["mark fenced: CONFLICT"]),
        (
            roles.LogDiverged(
                session=1, master="n0", how="diverged", end_bytes=9, consistent_bytes=5
            ),
            ["mark slave refused: diverged"],
        ),
        (
            ha.SlaveNotAvailable(first_bytes=0, next_bytes=9, appends=1, reason="x"),
            ["mark SLAVE_NOT_AVAILABLE"],
        ),
        (
            ha.AppendsTimedOut(first_bytes=0, next_bytes=9, appends=1, held_bytes=5),
            ["time-outs"],
        ),
        (
            ha.HAReportRefused(
                slave="n1", connection=1, reason="x", report_bytes=9, min_bytes=0, max_bytes=5
            ),
            ["refused reports"],
        ),
        (
            ha.HAReportRefused(
                slave="n1",
                connection=1,
                reason=Lost.REPORT_BELOW_MIN.value,
                report_bytes=1,
                min_bytes=5,
                max_bytes=9,
            ),
            ["refused reports", "mark slave needs what expired"],
        ),
        (
            ha.HAConnectionClosed(slave="n1", connection=1, reason=f"{Lost.EXPIRED.value}: 7"),
            ["mark file expired while it was sent"],
        ),
        (ha.HAConnectionClosed(slave="n1", connection=1, reason=Lost.BROKEN.value), []),
        (ha.HAConnectionRefused(address="1.2.3.4", reason="x", count=1), ["refused connections"]),
        (store.SegmentRolled(base_bytes=0), ["roll-overs"]),
        (store.SegmentExpired(min_bytes=9, reason="age"), ["mark file deleted: age"]),
        (store.DiskUsageChanged(is_full=True, used_ratio=0.95), ["mark disk full"]),
        (store.DiskUsageChanged(is_full=False, used_ratio=0.5), []),
        (
            store.RawAppendRefused(session=1, offset_bytes=0, reason="x"),
            ["mark slave could not write"],
        ),
        (store.QueueRebuilt(topic="t", queue_id=0), ["mark queue rebuilt"]),
        (
            store.QueuesBegunAnew(
                topic="t", queue_id=0, first_bytes=9, queue_count=2, unit_count=7
            ),
            ["mark queues begun anew"],
        ),
        (store.WriteFailed(error="x", offset_bytes=0), ["mark write failed"]),
        (store.SyncFailed(error="x", paths=()), ["mark sync failed"]),
        (store.PageSealed(offset_bytes=4096), ["mark page sealed"]),
    ],
)
def test_an_event_is_a_mark(event: Any, names: list[str]) -> None:
    assert ClassicTally(segment_bytes=FILE).count([noted("n1", event)]) == dict.fromkeys(names, 1)
