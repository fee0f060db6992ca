"""A slave of a running cluster is killed five times: nothing acknowledged is missing anywhere."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from free_ports import free_port

from actors.env.local_disk import LocalDisk
from actors.storage.node.event_reader import read_events, summarize

pytestmark = pytest.mark.real_io

ROOT = Path(__file__).parents[2]
NODES = ("n0", "n1", "n2")
KILLS = 5
LINES = 30_000
WAIT_S = 60.0


def cluster_file(folder: Path, port: int) -> Path:
    """Three nodes with segments of 1 MiB."""
    file = folder / "cluster.toml"
    file.write_text(f"""
version = 1
name = "killed"
data_dir = "data"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
n2 = "127.0.0.3"
[groups.orders]
mode = "classic"
master = "n0"
slaves = ["n1", "n2"]
port = {port}
segment_bytes = 1_048_576
""")
    return file


@pytest.fixture
def commands() -> Iterator[list[subprocess.Popen[str]]]:
    """Commands that a test has started; whatever still runs is killed, and its children with it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for command in started:
        if command.poll() is None:
            command.kill()
        for stream in (command.stdin, command.stdout, command.stderr):
            if stream is not None and not stream.closed:
                stream.close()
        command.wait(timeout=10)


def start(commands: list[subprocess.Popen[str]], *words: str) -> subprocess.Popen[str]:
    command = subprocess.Popen(
        [sys.executable, "-m", "actors.cluster", *words],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    commands.append(command)
    return command


def lines_of(folder: Path, node: str) -> list[str]:
    """All lines in a node's commit log, by a reader that shares no code with us."""
    log = folder / "data" / node / "groups/orders/commitlog"
    read = subprocess.run(
        [sys.executable, str(ROOT / "tests/plain_reader.py"), str(log)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return read.stdout.splitlines()


def assert_equal_logs(folder: Path) -> None:
    logs = [folder / "data" / node / "groups/orders/commitlog" for node in NODES]
    names = sorted(path.name for path in logs[0].iterdir())
    assert len(names) > 1
    for log in logs[1:]:
        assert sorted(path.name for path in log.iterdir()) == names
        for name in names:
            assert (log / name).read_bytes() == (logs[0] / name).read_bytes()


def node_pid(command: subprocess.Popen[str], node: str) -> int | None:
    """The process of a node, by its parent and its command line; None while there is none."""
    children = Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text().split()
    for child in children:
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--node" in words and words[words.index(b"--node") + 1] == node.encode():
            return int(child)
    return None


def wait_pid(command: subprocess.Popen[str], node: str, other_than: int | None) -> int:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        pid = node_pid(command, node)
        if pid is not None and pid != other_than:
            return pid
        time.sleep(0.05)
    raise AssertionError(f"{node} did not come (back)")


def boot_of(folder: Path, node: str) -> int:
    try:
        return int(json.loads((folder / "data" / node / "identity.json").read_text())["boot"])
    except FileNotFoundError:
        return 0


def wait_boot(folder: Path, node: str, boot: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while boot_of(folder, node) < boot:
        assert time.monotonic() < deadline, f"{node} does not start"
        time.sleep(0.02)


@pytest.mark.timeout(300)  # seven starts of processes, on a machine that may be busy
def test_nothing_acknowledged_is_missing_after_five_kills_of_a_slave(
    tmp_path: Path, commands: list[subprocess.Popen[str]]
) -> None:
    chance = random.Random(5)
    file = cluster_file(tmp_path, free_port())
    command = start(commands, str(file), "--processes", "--feed", "-", "--json")
    assert command.stdin is not None
    victims: dict[str, int] = {}
    boots = dict.fromkeys(NODES, 0)
    lines = [f"line {number} {'x' * 200}" for number in range(LINES)]
    for part in range(KILLS):
        step = LINES // KILLS
        command.stdin.write("".join(f"{line}\n" for line in lines[part * step : (part + 1) * step]))
        command.stdin.flush()
        node = chance.choice(("n1", "n2"))
        pid = wait_pid(command, node, victims.get(node))
        boots[node] += 1
        wait_boot(tmp_path, node, boots[node])
        time.sleep(chance.uniform(0.3, 0.9))
        os.kill(pid, signal.SIGKILL)
        victims[node] = pid
    command.stdin.close()
    command.stdin = None
    out, err = command.communicate(timeout=WAIT_S)
    assert command.returncode == 0, err
    found = json.loads(out)["groups"]["orders"]
    assert found["acknowledged"] == LINES
    assert found["restarts"] >= KILLS
    # Appends whose outcome was unknown are sent again, so a line may be there twice, never missing.
    for node in NODES:
        there = lines_of(tmp_path, node)
        assert set(there) == set(lines)
        assert list(dict.fromkeys(there)) == lines or found["outcome_unknown"]
    assert_equal_logs(tmp_path)
    for node in NODES:
        seen = summarize(read_events(LocalDisk(), f"{tmp_path}/data/{node}/events"))
        assert [boot.problems for boot in seen] == [()] * len(seen)
        # A boot that was killed before its first events were written has left only its number.
        assert boot_of(tmp_path, node) == boots[node] + 1
        assert seen[-1].boot == boot_of(tmp_path, node)
        assert seen[-1].ended
