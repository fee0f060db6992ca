"""Upstream's acknowledgement policies under faults: the checkers that judge ours judge them."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from actors.ha.core.ack_policy import FurthestSlave, InSyncReplicas
from actors.sim.actions.script import parse_fault
from actors.sim.classic.plan import ClassicPlan
from actors.sim.disk import DiskOptions
from actors.sim.plan import Plan
from actors.sim.running import run_plan
from actors.sim.workload import WorkloadOptions

SCRIPT = (
    "at 1.0 power_loss n1 for 1.0",
    "at 2.5 kill n1 for 2.0",
    "at 3.0 kill n2 for 1.0",
    "at 6.0 power_loss_all n0 n1 n2 for 0.5",
)
"""Both slaves go, for a while together; the machines lose their power."""


def plan(**policy: Any) -> Plan:
    return attrs.evolve(
        ClassicPlan.draw("policies"),
        nodes=3,
        settings={
            "segment_bytes": 16 << 10,
            "frame_bytes": 1024,
            "reconnect_interval_s": 0.5,
            **policy,
        },
        skews_ms={},
        disk=DiskOptions(sync_mean_s=0.01),
        policy="random",
        load=WorkloadOptions(pause_mean_s=0.3, body_mean_bytes=500, batch_max=4),
        tell_yields=0.05,
        script=tuple(map(parse_fault, SCRIPT)),
        duration_s=8.0,
    )


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [
        ({"ack_policy": "4.x"}, "unknown records"),
        ({"ack_policy": "5.x", "in_sync_replicas": 2}, "unknown records"),
        (
            {"ack_policy": "5.x", "in_sync_replicas": 2, "enable_slave_acting_master": True},
            "refused records",
        ),
        (
            {
                "ack_policy": "5.x",
                "all_ack_in_sync_state_set": True,
                "min_in_sync_replicas": 2,
            },
            "refused records",
        ),
    ],
    ids=["4.x", "5.x", "5.x acting master", "5.x all in sync"],
)
def test_a_policy_keeps_its_promise(policy: dict[str, Any], outcome: str) -> None:
    done = run_plan(plan(**policy))
    assert done.violations == ()
    assert done.counts["acknowledged records"] > 20
    assert done.counts[outcome] > 0


@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        ({"ack_policy": "4.x"}, FurthestSlave),
        ({"ack_policy": "5.x", "in_sync_replicas": 2}, InSyncReplicas),
    ],
    ids=["4.x", "5.x"],
)
def test_a_policy_that_needs_a_node_less_is_caught(
    policy: dict[str, Any], kind: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "need", lambda *given: 1)
    found = {violation.checker for violation in run_plan(plan(**policy)).violations}
    assert "AcknowledgedIsOnDisks" in found
