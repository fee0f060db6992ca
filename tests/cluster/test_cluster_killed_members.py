"""Real processes of DLedger groups are killed at the worst moments: what was acknowledged is where
each row of the guarantees table says. Each row's group runs in the same three processes.

What a process cannot show, the loss of unsynced pages, is shown in simulation only
(`tests/scripts/guarantees/`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_kit import ROOT, Cluster, children_of, statuses, wait_for
from free_ports import free_port

from actors.client.__main__ import main as client
from wire.dledger.entry import decode_entry

pytestmark = pytest.mark.real_io

LINES = 300
NODES = ("n0", "n1", "n2")
ON_DISK = {"synced": 'durability = "synced"', "written": 'durability = "written"'}
"""What a restart of all must bring back."""
GROUPS = {**ON_DISK, "memory": 'store = "memory"'}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Three nodes, a group for each row; n0 leads as long as it can."""
    text = 'version = 1\nname = "rows"\ndata_dir = "var"\n[nodes]\n'
    text += "".join(f'{node} = "127.0.0.{i + 1}"\n' for i, node in enumerate(NODES))
    port = free_port(len(GROUPS))
    for number, (name, keys) in enumerate(GROUPS.items()):
        text += f'[groups.{name}]\nmode = "dledger"\nmembers = ["n0", "n1", "n2"]\n'
        text += f"port = {port + number}\ndata_file_bytes = 65_536\nindex_file_bytes = 65_536\n"
        text += f'heartbeat_interval_s = 1.0\npreferred_leaders = ["n0"]\n{keys}\n'
    found = Cluster(tmp_path, port, text)
    found.write()
    return found


@pytest.fixture
def run(cluster: Cluster) -> Iterator[subprocess.Popen[str]]:
    """The three processes under their parent; killed with it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "actors.cluster", cluster.file, "--processes", "--plain"],
        cwd=ROOT,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield process
    if process.poll() is None:
        kill_all(process)


def kill_all(run: subprocess.Popen[str]) -> None:
    """The parent first: it would start the others again."""
    for pid in (run.pid, *children_of(run)):
        os.kill(pid, signal.SIGKILL)
    run.wait(timeout=10)


def pid_of(run: subprocess.Popen[str], node: str) -> int:
    """0: it does not run."""
    for child in children_of(run):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--node" in words and words[words.index(b"--node") + 1] == node.encode():
            return child
    return 0


def all_well(cluster: Cluster) -> bool:
    """Whether n0 leads every group, and all members hold and show the same."""
    if not (cluster.folder / "var" / "n0" / "api.sock").exists():
        return False
    found: dict[str, Any] = statuses(cluster)
    if None in found.values():
        return False
    parts = {name: [found[node]["status"]["groups"][name] for node in NODES] for name in GROUPS}
    return all(
        each["leader"] == "n0"
        and each["acknowledged"] == each["written"] == group[0]["acknowledged"] > 0
        for group in parts.values()
        for each in group
    )


def append_all(cluster: Cluster, part: str) -> dict[str, list[str]]:
    """Lines for each group; returns when all are acknowledged."""
    given: dict[str, list[str]] = {}
    for group in GROUPS:
        given[group] = [f"{group} {part} {number} {'x' * 50}" for number in range(LINES)]
        lines = cluster.folder / f"{group}-{part}"
        lines.write_text("".join(f"{line}\n" for line in given[group]))
        assert client([cluster.file, "append", "--group", group, str(lines)]) == 0, group
    return given


def stored(cluster: Cluster, node: str, group: str) -> list[str]:
    """The bodies of a member's data files; what opens a term has none."""
    found = []
    for file in sorted((cluster.folder / "var" / node / "groups" / group / "data").iterdir()):
        data, at = file.read_bytes(), 0
        while data[at : at + 4] == b"\0\0\0\1":  # of an entry; blank filler and zeros end a file
            entry = decode_entry(data, at)
            found += [entry.body.decode()] if entry.body else []
            at += int.from_bytes(data[at + 4 : at + 8], "big")
    return found


def shown(cluster: Cluster, node: str, group: str, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What a reader is shown there."""
    capfd.readouterr()
    words = [f"{cluster.file}:{node}", "read", "--group", group]
    assert client(words) == 0
    return capfd.readouterr().out.splitlines()


@pytest.mark.checklist(38, of="dledger")
def test_a_sigkill_leaves_what_each_row_says(
    cluster: Cluster, run: subprocess.Popen[str], capfd: pytest.CaptureFixture[str]
) -> None:
    wait_for(lambda: all_well(cluster))
    first = append_all(cluster, "first")
    wait_for(lambda: all_well(cluster))
    killed = pid_of(run, "n0")
    assert killed
    os.kill(killed, signal.SIGKILL)  # the leader; a majority is left
    wait_for(lambda: pid_of(run, "n0") not in (0, killed))
    wait_for(lambda: all_well(cluster))
    for group in GROUPS:
        assert shown(cluster, "n1", group, capfd) == first[group], group

    stopped = pid_of(run, "n2")
    assert stopped
    os.kill(stopped, signal.SIGSTOP)
    second = append_all(cluster, "second")
    kill_all(run)
    for group in ON_DISK:
        for node in ("n0", "n1"):
            assert stored(cluster, node, group) == [*first[group], *second[group]], (node, group)
