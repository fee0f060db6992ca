"""An auto-switch group of ours in real processes does what its tables measure."""

from __future__ import annotations

import os
from pathlib import Path

from bench_autoswitch import Replicas
from bench_kit import workplace


def test_a_master_answers_and_a_killed_one_is_replaced(tmp_path: Path) -> None:
    pid = os.getpid()
    host = f"127.{40 + pid % 200}.{pid // 200 % 250}"  # no other run of these tests has it
    with workplace(tmp_path) as (folder, processes):
        group = Replicas.make(processes, folder / "own", host, "autoswitch", 3, "synced")
        master = group.wait_whole()
        load = {"count": 4, "batch": 1, "seconds": 0.1, "size": 64}
        assert group.nodes[master].ask("tasks", **load)["k_per_s"] > 0
        assert group.outage_s() > 0
        assert group.wait_whole() != master
    assert not any(process.running for process in processes.started)
