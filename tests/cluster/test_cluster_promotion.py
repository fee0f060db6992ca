"""Changing the master of real processes under a feed: hand-over, loss, return and resync."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_kit import ROOT, WAIT_S, Cluster, make_cluster, statuses, wait_for
from mount_space import OWN_SPACE, mount_tmpfs, need_mounts

pytestmark = pytest.mark.real_io
NODES = ("n0", "n1", "n2")


MOUNTED_LOGS = "TRIOLOG_TEST_MOUNTED_LOGS"
"""Set in a mount namespace of a test's own: each node's log files lie on another file system."""


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    found = make_cluster(tmp_path)
    if MOUNTED_LOGS in os.environ:
        for node in NODES:
            mount_tmpfs(str(tmp_path / "var" / node / "groups" / "orders" / "commitlog"))
    return found


@pytest.fixture
def runs() -> Iterator[list[subprocess.Popen[str]]]:
    """Runs that a test has started; what still runs is killed, and its children with it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for run in started:
        if run.poll() is None:
            for pid in pids(run).values():
                os.kill(pid, signal.SIGCONT)
            run.kill()
        run.communicate()


def pids(run: subprocess.Popen[str]) -> dict[str, int]:
    """The nodes' processes, by their command lines."""
    found = {}
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    for child in children:
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--node" in words:
            found[words[words.index(b"--node") + 1].decode()] = int(child)
    return found


def command(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "actors.cluster", cluster.file, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * WAIT_S,
    )


def groups(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """What each node that answers says of the group."""
    found = statuses(cluster).items()
    return {node: one["status"]["groups"]["orders"] for node, one in found if one}


def is_part(cluster: Cluster, node: str, part: str) -> bool:
    return groups(cluster).get(node, {}).get("state") == part


def vouches(cluster: Cluster, node: str) -> bool:
    """Whether a slave has caught up since it began empty: promotions count on it."""
    own = groups(cluster).get(node, {})
    return (own.get("state"), own.get("reason")) == ("following", "")


def acknowledged(cluster: Cluster, node: str) -> int:
    return int(groups(cluster).get(node, {}).get("counts", {}).get("acknowledged", 0))


def feed(run: subprocess.Popen[str], lines: list[str]) -> None:
    assert run.stdin is not None
    run.stdin.write("".join(f"{line}\n" for line in lines))
    run.stdin.flush()


def lines_of(cluster: Cluster, node: str) -> list[str]:
    """All lines in a node's log, by a reader that shares no code with the project."""
    folder = cluster.folder / "var" / node / "groups" / "orders" / "commitlog"
    words = [sys.executable, str(ROOT / "tests" / "plain_reader.py"), str(folder)]
    return subprocess.run(
        words, capture_output=True, text=True, check=True, timeout=WAIT_S
    ).stdout.splitlines()


def numbered(first: int, count: int) -> list[str]:
    return [f"line {number:06d} {'x' * 100}" for number in range(first, first + count)]


@pytest.mark.parametrize("words", [(), ("--processes",)], ids=["one process", "processes"])
def test_a_hand_over_under_a_feed(
    cluster: Cluster, runs: list[subprocess.Popen[str]], words: tuple[str, ...]
) -> None:
    lines = numbered(0, 6000)
    runs.append(run := cluster.start(*words, "--feed", "-", "--json", stdin=subprocess.PIPE))
    feed(run, lines[:2000])
    wait_for(lambda: acknowledged(cluster, "n0") > 0)
    for number, node in enumerate(("n1", "n0"), 1):
        feed(run, lines[2000 * number : 2000 * (number + 1)])
        found = command(cluster, "promote", "orders", node)
        assert (found.returncode, found.stderr) == (0, "")
        assert f"orders: {node} is master by promotion {number}" in found.stdout
        assert "nothing is lost or in doubt" in found.stdout
    again = command(cluster, "promote", "orders", "n0")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == "triolog: n0 is the master of orders\n"
    fits = command(cluster, "resync", "n1")
    assert (fits.returncode, fits.stderr) == (0, "")
    assert fits.stdout.startswith("orders: n1 fits the log of n0: nothing to cut; following")
    out, err = run.communicate(timeout=WAIT_S)
    assert run.returncode == 0, err
    orders = json.loads(out)["groups"]["orders"]
    assert (orders["master"], orders["promotion"]) == ("n0", 2)
    assert (orders["acknowledged"], orders["outcome_unknown"]) == (6000, 0)
    for node in NODES:
        there = lines_of(cluster, node)
        assert len(there) == 6000
        assert set(there) == set(lines)
    assert cluster.log_of("n0") == cluster.log_of("n1") == cluster.log_of("n2")


def test_a_lost_master_is_replaced_comes_back_and_is_resynced(
    cluster: Cluster, runs: list[subprocess.Popen[str]]
) -> None:
    """It gets a tail of its own while both slaves are dead, then falls silent, as if its machine
    had lost its network for good; later its supervisor starts it again.
    """
    cluster.text = cluster.text.replace("[nodes]", "answer_timeout_s = 1\n[nodes]", 1)
    lines = numbered(0, 6000)
    runs.append(run := cluster.start("--processes", "--feed", "-", "--json", stdin=subprocess.PIPE))
    feed(run, lines[:2000])
    wait_for(lambda: acknowledged(cluster, "n0") == 2000)
    wait_for(lambda: vouches(cluster, "n1") and vouches(cluster, "n2"))
    first = pids(run)
    for node in ("n1", "n2"):
        os.kill(first[node], signal.SIGKILL)
    before = len(lines_of(cluster, "n0"))
    feed(run, lines[2000:4000])
    wait_for(lambda: len(lines_of(cluster, "n0")) > before)
    os.kill(first["n0"], signal.SIGSTOP)
    wait_for(lambda: {"n1", "n2"} <= groups(cluster).keys())

    def promoted() -> subprocess.CompletedProcess[str] | None:
        found = command(cluster, "promote", "orders")
        return found if found.returncode == 0 else None

    answer = wait_for(promoted)
    assert "is master by promotion 1, from byte" in answer.stdout
    assert "n0: does not answer, and hears of it later" in answer.stdout
    new = answer.stdout.split()[1]
    feed(run, lines[4000:])
    wait_for(lambda: acknowledged(cluster, new) >= 2000)  # the feed goes on by itself

    os.kill(first["n0"], signal.SIGKILL)
    wait_for(lambda: is_part(cluster, "n0", "diverged"))
    status = command(cluster, "status", "--node", "n0").stdout
    assert f"slave of {new} by promotion 1, bytes 0 to " in status
    assert "\n      diverged: this log (" in status
    whole = command(cluster, "status").stdout
    assert whole.count("diverged: this log") == whole.count(" are equal up to ") == 1
    assert "      n0 diverged\n" in whole
    found = command(cluster, "resync", "n0")
    assert found.returncode == 0, found.stderr
    assert "are kept in aside/; following" in found.stdout
    out, err = run.communicate(timeout=WAIT_S)
    assert run.returncode == 0, err
    orders = json.loads(out)["groups"]["orders"]
    assert (orders["master"], orders["promotion"]) == (new, 1)
    assert (orders["acknowledged"], orders["refused"]) == (6000, {})
    for node in NODES:
        assert set(lines_of(cluster, node)) == set(lines)
    assert cluster.log_of("n0") == cluster.log_of("n1") == cluster.log_of("n2")
    aside = cluster.folder / "var" / "n0" / "groups" / "orders" / "aside"
    assert any(path.is_file() for path in aside.rglob("*"))


def test_so_is_one_whose_log_lies_on_another_file_system(tmp_path: Path) -> None:
    """What is set aside is copied there: nothing can be renamed across."""
    need_mounts()
    test = f"{__file__}::test_a_lost_master_is_replaced_comes_back_and_is_resynced"
    done = subprocess.run(
        [*OWN_SPACE, sys.executable, "-m", "pytest", "-q", f"--basetemp={tmp_path}/in", test],
        cwd=ROOT,
        env={**os.environ, MOUNTED_LOGS: "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
