"""A group of ours in real processes does what its tables measure."""

from __future__ import annotations

import os
from pathlib import Path

from bench_kit import workplace
from bench_ledger_groups import OurGroup

ENTRIES = 300
HEARTBEAT_S = 0.15


def hosts() -> list[str]:
    """Addresses that no other run of these tests has at the same time."""
    pid = os.getpid()
    return [f"127.{40 + pid % 200}.{pid // 200 % 250}.{200 + member}" for member in range(3)]


def test_a_follower_catches_up_from_nothing_and_a_killed_leader_is_replaced(tmp_path: Path) -> None:
    with workplace(tmp_path) as (folder, processes):
        group = OurGroup.make(processes, folder / "ours", hosts(), heartbeat_interval_s=HEARTBEAT_S)
        group.start_all()
        while group.wait_even() < ENTRIES:
            group.load(16, 0.1, 64)
        assert group.catch_up()["missing"] == 0
        group.fail_over()
        group.wait_even()
    assert not any(process.running for process in processes.started)
