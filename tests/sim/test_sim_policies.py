"""Upstream's acknowledgement policies under faults: the checkers that judge ours judge them."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from actors.sim.cluster import classic_config
from actors.sim.disk import DiskOptions
from actors.sim.faults import Fault, FaultKind
from actors.sim.simulation import Plan, draw_plan, run_plan
from actors.sim.workload import WorkloadOptions


def plan(**policy: Any) -> Plan:
    """Both slaves go, together at last; the machines lose their power."""
    return attrs.evolve(
        draw_plan("policies"),
        config=classic_config(
            segment_bytes=16 << 10, frame_bytes=1024, reconnect_interval_s=0.5, **policy
        ),
        skews_ms={},
        disk=DiskOptions(sync_mean_s=0.01),
        policy="random",
        load=WorkloadOptions(pause_mean_s=0.3, body_mean_bytes=500, batch_max=4),
        script=(
            Fault(at_s=1.0, kind=FaultKind.POWER_LOSS, node="n1", for_s=1.0),
            Fault(at_s=2.5, kind=FaultKind.KILL, node="n1", for_s=2.0),
            Fault(at_s=3.0, kind=FaultKind.KILL, node="n2", for_s=1.0),
            Fault(at_s=6.0, kind=FaultKind.POWER_LOSS_ALL, node="n0", for_s=0.5),
        ),
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
