"""A leader's process is killed under a feed: the feed goes on by itself, and every line is on every
member, in order.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_kit import (
    WAIT_S,
    Cluster,
    bodies_of,
    children_of,
    make_cluster,
    statuses,
    wait_for,
)

pytestmark = pytest.mark.real_io

LINES = 20_000
NODES = ("n0", "n1", "n2")


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Three members that elect soon."""
    found = make_cluster(tmp_path)
    head, _, _ = found.text.partition("[groups.orders]")
    found.text = f"""{head}[groups.ledger]
mode = "dledger"
members = ["n0", "n1", "n2"]
port = {found.port}
data_file_bytes = 262144
index_file_bytes = 65536
heartbeat_interval_s = 0.5
"""
    return found


@pytest.fixture
def run(cluster: Cluster) -> Iterator[subprocess.Popen[str]]:
    words = ("--feed", "-", "--json", "--processes")
    process = cluster.start(*words, stdin=subprocess.PIPE)
    yield process
    if process.poll() is None:
        for pid in (process.pid, *children_of(process)):
            os.kill(pid, signal.SIGKILL)
    process.wait(timeout=10)


def part(cluster: Cluster, node: str) -> dict[str, Any]:
    found = statuses(cluster)[node]
    return found["status"]["groups"]["ledger"] if found is not None else {}


def leader_of(cluster: Cluster) -> str | None:
    return next((node for node in NODES if part(cluster, node).get("is_open")), None)


def pid_of(run: subprocess.Popen[str], node: str) -> int:
    for child in children_of(run):
        words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        if b"--node" in words and words[words.index(b"--node") + 1] == node.encode():
            return child
    raise AssertionError(f"{node} does not run")


def give(run: subprocess.Popen[str], first: int, count: int) -> None:
    assert run.stdin is not None
    run.stdin.write("".join(f"{number}\n" for number in range(first, first + count)))
    run.stdin.flush()


def test_a_killed_leader_under_load(cluster: Cluster, run: subprocess.Popen[str]) -> None:
    wait_for(lambda: os.path.exists(cluster.folder / "var" / "n0" / "api.sock"))
    first = wait_for(lambda: leader_of(cluster))
    give(run, 0, LINES // 2)
    wait_for(lambda: part(cluster, first).get("acknowledged", 0) > 1)
    os.kill(pid_of(run, first), signal.SIGKILL)
    give(run, LINES // 2, LINES // 2)
    out, errors = run.communicate(timeout=WAIT_S)
    assert run.returncode == 0, errors
    assert f"{first}: was killed by SIGKILL, starting it again" in errors
    found = json.loads(out)["groups"]["ledger"]
    assert (found["appended"], found["acknowledged"]) == (LINES, LINES)
    assert found["term"] >= 1
    assert found["restarts"] == 1
    assert [one["behind"] for one in found["indexes"].values()] == [0, 0, 0]
    logs = [list(map(int, bodies_of(cluster, node))) for node in NODES]
    assert logs[0] == logs[1] == logs[2]
    assert list(dict.fromkeys(logs[0])) == list(range(LINES))
    assert len(logs[0]) - LINES <= found["outcome_unknown"]
