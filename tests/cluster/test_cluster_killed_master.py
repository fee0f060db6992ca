"""Real processes are killed at the worst moments: what was acknowledged is where each row of the
guarantees table says. Each row's group runs in the same three processes.

What a process cannot show, the loss of unsynced pages, is shown in simulation only
(`tests/scripts/guarantees/`); so is the row of 5.x that follows how many are in sync.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_kit import children_of, lines_in, pid_of, processes_of, wait_for
from free_ports import free_port

from actors.client.__main__ import main as client

pytestmark = pytest.mark.real_io

LINES = 300
NODES = ("n0", "n1", "n2")
ALONE = {
    "one_synced": 'copies = 1\ndurability = "synced"',
    "one_written": 'copies = 1\ndurability = "written"',
}
"""What the master's own restart must bring back."""
COPIED = {
    "two_synced": 'copies = 2\ndurability = "synced"',
    "two_written": 'copies = 2\ndurability = "written"',
    "policy_4x": 'ack_policy = "4.x"',
    "policy_5x": 'ack_policy = "5.x"\nin_sync_replicas = 2',
}
"""What the furthest slave must have besides."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three nodes, a group for each row."""
    groups = {**ALONE, **COPIED}
    text = 'version = 1\nname = "rows"\ndata_dir = "data"\n[nodes]\n'
    text += "".join(f'{node} = "127.0.0.{i + 1}"\n' for i, node in enumerate(NODES))
    for port, (name, keys) in enumerate(groups.items(), free_port(len(groups))):
        text += f'[groups.{name}]\nmode = "classic"\nmaster = "n0"\nslaves = ["n1", "n2"]\n'
        text += f"port = {port}\nsegment_bytes = 65_536\nslave_timeout_s = 30.0\n{keys}\n"
    file = tmp_path / "rows.toml"
    file.write_text(text)
    return file


@pytest.fixture
def cluster(file: Path) -> Iterator[subprocess.Popen[str]]:
    with processes_of(file) as command:
        yield command


def append_all(file: Path, part: str) -> dict[str, list[str]]:
    """Lines for each group; returns when all are acknowledged."""
    given: dict[str, list[str]] = {}
    for group in (*ALONE, *COPIED):
        given[group] = [f"{group} {part} {number} {'x' * 50}" for number in range(LINES)]
        lines = file.with_name(f"{group}-{part}")
        lines.write_text("".join(f"{line}\n" for line in given[group]))
        assert client([str(file), "append", "--group", group, str(lines)]) == 0, group
    return given


def runs(file: Path, capfd: pytest.CaptureFixture[str]) -> bool:
    """Whether every group's master takes appends and has all slaves in sync."""
    capfd.readouterr()
    code = client([f"{file}:n0", "status", "--json"])
    slaves = 2 * (len(ALONE) + len(COPIED))
    return code == 0 and capfd.readouterr().out.count('"in_sync": true') == slaves


def lines_of(file: Path, node: str, group: str) -> set[str]:
    return set(lines_in(file.parent / "data" / node / "groups" / group))


def test_a_sigkill_leaves_what_each_row_says(
    file: Path, cluster: subprocess.Popen[str], capfd: pytest.CaptureFixture[str]
) -> None:
    wait_for(lambda: runs(file, capfd))
    first = append_all(file, "first")
    killed = pid_of(cluster, "n0")
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: pid_of(cluster, "n0") not in (None, killed))
    wait_for(lambda: runs(file, capfd))

    stopped = pid_of(cluster, "n2")
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    second = append_all(file, "second")
    pids = [cluster.pid, *children_of(cluster)]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    cluster.wait(timeout=10)

    for group in (*ALONE, *COPIED):
        wanted = {*first[group], *second[group]}
        assert wanted <= lines_of(file, "n0", group), group
        if group in COPIED:
            assert wanted <= lines_of(file, "n1", group), group
