"""Our own code, broken on purpose: each variant runs, and a checker says what is wrong with it.

The unbroken code passes the very same run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from actors.ha.core.transfer_wait import TransferWait
from actors.ha.settings import ClientSettings, ConnectionSettings
from actors.sim.disk import DiskOptions
from actors.sim.script import parse_fault
from actors.sim.simulation import Plan, draw_plan, run_plan
from actors.sim.workload import WorkloadOptions
from actors.storage.pull_service import PullService
from actors.trees import classic

Patch = Callable[[pytest.MonkeyPatch], None]


SHORT_SCRIPT = (
    "at 1.0 slow_sync n1 for 1.0 extra 0.5",
    "at 2.0 power_loss n1 for 0.5",
    "at 3.0 kill n0 for 0.5",
    "at 4.5 slow_sync n0 for 1.0 extra 0.3",
    "at 5.5 isolate n1 for 1.0",
    "at 7.0 power_loss_all n0 n1 n2 for 0.5",
)


def short_plan(copies: int = 2) -> Plan:
    """Three nodes, slow disks, power losses, all within 8 virtual seconds."""
    return attrs.evolve(
        draw_plan("short"),
        nodes=3,
        settings={
            "copies": copies,
            "segment_bytes": 16 << 10,
            "frame_bytes": 1024,
            "reconnect_interval_s": 0.5,
        },
        skews_ms={},
        disk=DiskOptions(sync_mean_s=0.03),
        policy="random",
        load=WorkloadOptions(pause_mean_s=0.3, body_mean_bytes=1000, batch_max=4),
        tell_yields=0.05,
        script=tuple(map(parse_fault, SHORT_SCRIPT)),
        duration_s=8.0,
    )


def acknowledge_before_the_slave(patch: pytest.MonkeyPatch) -> None:
    def held_bytes(wait: TransferWait[Any]) -> int:
        return wait._extent.synced_bytes

    patch.setattr(TransferWait, "held_bytes", held_bytes)


def acknowledge_before_own_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        classic, "TransferWait", lambda **given: TransferWait(**{**given, "synced": False})
    )


def report_before_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        classic, "ClientSettings", lambda **given: ClientSettings(**{**given, "synced": False})
    )


def send_before_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        classic,
        "ConnectionSettings",
        lambda **given: ConnectionSettings(**{**given, "synced": False}),
    )


def show_what_is_not_acknowledged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        classic, "PullService", lambda **given: PullService(**{**given, "unacknowledged": True})
    )


BROKEN: list[tuple[Patch, int, str]] = [
    (acknowledge_before_the_slave, 2, "AcknowledgedOnEnoughNodes"),
    # With more copies nothing can show it: no byte leaves the master before its sync.
    (acknowledge_before_own_sync, 1, "AcknowledgedOnEnoughNodes"),
    (report_before_sync, 2, "ReportedIsHeld"),
    (send_before_sync, 2, "ReceivedIsOnMaster"),
    (show_what_is_not_acknowledged, 2, "ReadsOnlyAcknowledged"),
]


@pytest.mark.parametrize("copies", [1, 2])
def test_unbroken_code_passes(copies: int) -> None:
    outcome = run_plan(short_plan(copies))
    assert outcome.violations == ()
    assert outcome.counts["acknowledged records"] > 50
    assert outcome.counts["roll-overs"] > 1
    assert outcome.counts["catch-ups"] >= 1
    assert outcome.counts["restarts"] == 5


@pytest.mark.parametrize(
    ("broken", "copies", "checker"), BROKEN, ids=[broken.__name__ for broken, _, _ in BROKEN]
)
def test_a_broken_variant_is_caught(
    broken: Patch, copies: int, checker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    outcome = run_plan(short_plan(copies))
    assert checker in {violation.checker for violation in outcome.violations}
