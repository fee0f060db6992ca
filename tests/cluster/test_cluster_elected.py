"""A controller elects: real processes of an auto-switch group, whose master is killed again and
again; then an operator names another one.
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
from cluster_kit import (
    ROOT,
    WAIT_S,
    lines_in,
    pid_of,
    processes_of,
    statuses_of,
    wait_for,
)
from free_ports import free_port

from actors.client.__main__ import main as client

pytestmark = pytest.mark.real_io

KILLS = 3
LINES = 200


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two replicas, and a controller on a third node."""
    first = free_port(5)
    controllers, log, broker = first, first + 1, first + 4  # a broker also listens 2 below
    file = tmp_path / "pair.toml"
    file.write_text(
        'version = 1\nname = "pair"\ndata_dir = "data"\n'
        '[nodes]\nn0 = "127.0.0.1"\nn1 = "127.0.0.2"\nc0 = "127.0.0.3"\n'
        f'[controllers]\nnodes = ["c0"]\nport = {controllers}\n'
        '[groups.orders]\nmode = "autoswitch"\nmembers = ["n0", "n1"]\n'
        f"min_in_sync_replicas = 1\nport = {log}\nbroker_port = {broker}\n"
        "controller_heart_beat_timeout_s = 2.0\nsegment_bytes = 65_536\n"
    )
    return file


@pytest.fixture
def cluster(file: Path) -> Iterator[subprocess.Popen[str]]:
    with processes_of(file) as command:
        yield command


def led(file: Path, epoch: int) -> str | None:
    """The master of at least that epoch, once both replicas are in sync; None: not yet."""
    for node, status in statuses_of(str(file)).items():
        said: Any = status["status"]["groups"].get("orders") if status is not None else None
        if said and said["is_open"] and said["epoch"] >= epoch:
            return node if len(said["details"]["in_sync"]) == 2 else None
    return None


def lines_of(file: Path, node: str) -> list[str]:
    return lines_in(file.parent / "data" / node / "groups" / "orders")


def command(file: Path, *words: str) -> None:
    line = [sys.executable, "-m", "actors.cluster", str(file), *words]
    subprocess.run(line, cwd=ROOT, check=True, capture_output=True, timeout=WAIT_S)


def test_the_other_one_leads_when_the_master_is_killed(
    file: Path, cluster: subprocess.Popen[str]
) -> None:
    given: list[str] = []
    for number in range(KILLS + 1):
        master = wait_for(lambda at=number: led(file, at + 1))
        lines = [f"{number} {each} {'x' * 50}" for each in range(LINES)]
        source = file.with_name(f"lines-{number}")
        source.write_text("".join(f"{line}\n" for line in lines))
        assert client([str(file), "append", "--group", "orders", str(source)]) == 0
        given += lines
        if number < KILLS:
            killed = pid_of(cluster, master)
            assert killed is not None
            os.kill(killed, signal.SIGKILL)
    master = wait_for(lambda: led(file, KILLS + 1))
    command(file, "promote", "orders")  # the other one, whoever carries it out
    assert wait_for(lambda: led(file, KILLS + 2)) != master
    command(file, "stop")
    cluster.wait(timeout=WAIT_S)
    assert lines_of(file, "n0") == lines_of(file, "n1") == given
