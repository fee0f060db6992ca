"""The client's commands on a cluster's file go on when the leader's process is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from cluster_kit import ROOT, WAIT_S, Cluster, Command, bodies_of, children_of, statuses, wait_for
from test_cluster_killed_leader import NODES, cluster, leader_of, pid_of

from actors.client.__main__ import main as client

__all__ = ["cluster"]

pytestmark = pytest.mark.real_io

LINES = 4000
TRIES_MAX = 5


@pytest.fixture
def run(cluster: Cluster) -> Iterator[subprocess.Popen[str]]:
    """The three processes under their parent, which starts a killed one again."""
    process = cluster.start("--processes", "--json")
    yield process
    for pid in (process.pid, *children_of(process)):
        os.kill(pid, signal.SIGKILL)
    process.wait(timeout=10)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stderr.close()


def lead(cluster: Cluster) -> str:
    wait_for(lambda: os.path.exists(cluster.folder / "var" / "n0" / "api.sock"))
    found: str = wait_for(lambda: leader_of(cluster))
    return found


def talk(cluster: Cluster, *words: str) -> Command:
    return Command(
        [sys.executable, "-m", "actors.client", cluster.file, *words],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def collect(stream: IO[str] | None) -> tuple[list[str], threading.Thread]:
    """The lines of a stream as they come, and who reads them."""
    assert stream is not None
    lines: list[str] = []
    reader = threading.Thread(target=lines.extend, args=(stream,), daemon=True)
    reader.start()
    return lines, reader


def give(append: Command, numbers: range) -> None:
    assert append.stdin is not None
    append.stdin.write("".join(f"{number}\n" for number in numbers))
    append.stdin.flush()


def committed(cluster: Cluster) -> list[int]:
    """Of each member that answers, where that ends."""
    found = [one for one in statuses(cluster).values() if one is not None]
    return [one["status"]["groups"]["ledger"]["acknowledged"] - 1 for one in found]


def test_append_goes_on_and_counts_what_is_in_doubt(
    cluster: Cluster, run: subprocess.Popen[str]
) -> None:
    lead(cluster)
    with talk(cluster, "append", "--json") as append:
        reported, reader = collect(append.stderr)
        give(append, range(LINES // 2))
        wait_for(lambda: max(committed(cluster)) > 0)
        given = LINES // 2
        while not any("looks for the next leader, for 11.5 s" in line for line in reported):
            os.kill(pid_of(run, lead(cluster)), signal.SIGKILL)
            give(append, range(given, given + 1))  # at the latest it finds that out
            given += 1
            wait_for(lambda: reported)
        give(append, range(given, LINES))  # none of these was on its way to the killed one
        assert append.stdin is not None
        assert append.stdout is not None
        append.stdin.close()
        found = json.loads(append.stdout.read())
        append.wait(timeout=WAIT_S)
        reader.join(timeout=WAIT_S)
    assert found["error"] is None, reported
    assert any("ledger: goes on with " in line for line in reported)
    assert (found["lines"], found["acknowledged"] + found["in_doubt"]) == (LINES, LINES)
    assert append.returncode == (1 if found["in_doubt"] else 0)
    wait_for(lambda: len(now := committed(cluster)) == len(NODES) and len(set(now)) == 1)
    logs = [list(map(int, bodies_of(cluster, node))) for node in NODES]
    assert logs[0] == logs[1] == logs[2]
    assert len(set(logs[0])) == len(logs[0])  # nothing was sent again that may be stored
    assert len(logs[0]) >= found["acknowledged"]


def write_part(folder: Path, number: int) -> tuple[Path, list[str]]:
    lines = [f"{number} {line}\n" for line in range(LINES)]
    path = folder / f"part{number}"
    path.write_text("".join(lines))
    return path, lines


def append_all(cluster: Cluster, path: Path, capfd: pytest.CaptureFixture[str]) -> int:
    """Give it again until it is acknowledged: a leader that just took over may be lost again.

    Returns: how many lines may be stored once more.
    """
    words = ["append", str(path), "--again", "--wait", str(WAIT_S), "--json"]
    doubtful = 0
    for _ in range(TRIES_MAX):
        code = client([cluster.file, *words])
        out, err = capfd.readouterr()
        found = json.loads(out) if out else {"lines": 0, "sent_again": 0}  # nobody was found
        doubtful += found["sent_again"]
        if code == 0:
            assert found["acknowledged"] == LINES
            return doubtful
        doubtful += found["lines"]
        lead(cluster)
    raise AssertionError(f"{path.name} was not taken {TRIES_MAX} times: {err}")


def same_logs(cluster: Cluster) -> list[str]:
    """All lines, as every member has them once all is committed."""
    wait_for(lambda: len(now := committed(cluster)) == len(NODES) and len(set(now)) == 1)
    logs = [bodies_of(cluster, node) for node in NODES]
    assert logs[0] == logs[1] == logs[2]
    return [f"{body.decode()}\n" for body in logs[0]]


@pytest.mark.timeout(300, func_only=True)
def test_tail_goes_on_at_its_position(
    cluster: Cluster,
    run: subprocess.Popen[str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It prints what the members hold, each line as often as they do, whoever it reads from."""
    first = lead(cluster)
    path, lines = write_part(tmp_path, 0)
    killed = {first, "n0"}  # n0 is the one that is read from, unless it answers late
    with talk(cluster, "tail", "--start", "0", "--wait", str(WAIT_S)) as tail:
        printed, reader = collect(tail.stdout)
        reported, notes = collect(tail.stderr)
        doubtful = append_all(cluster, path, capfd)
        wait_for(lambda: len(printed) >= LINES)
        for number, nodes in enumerate((killed, {*NODES} - killed), 1):
            for node in nodes:
                os.kill(pid_of(run, node), signal.SIGKILL)
            path, part = write_part(tmp_path, number)
            doubtful += append_all(cluster, path, capfd)
            lines += part
            wait_for(lambda: part[-1] in printed)  # noqa: B023
            if any("ledger: goes on with " in line for line in reported):
                break
        stored = same_logs(cluster)
        wait_for(lambda: len(printed) >= len(stored))
        tail.send_signal(signal.SIGINT)
        assert tail.wait(timeout=WAIT_S) == 0
        reader.join(timeout=WAIT_S)
        notes.join(timeout=WAIT_S)
    assert printed == stored
    assert list(dict.fromkeys(printed)) == lines
    assert len(printed) - len(lines) <= doubtful
    assert any("ledger: goes on with " in line for line in reported), reported
