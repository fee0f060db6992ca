"""A DLedger member that meets damage in its store ends, and its supervisor leaves it alone: another
life would not see what this one has read, and might lead again.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_kit import ROOT, Cluster, children_of, make_cluster, statuses, wait_for

from actors.client.__main__ import main as client
from actors.cluster.__main__ import main

pytestmark = pytest.mark.real_io

NODES = ("n0", "n1", "n2")
LINES = 600
DAMAGED_ENTRY, DAMAGED_BYTE = 48, 150
"""In the first data file: behind the entry that opens a term, which is a head; in a body."""


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Its members have some files of entries each, and were stopped in order."""
    found = make_cluster(tmp_path, "dledger")
    found.text += "heartbeat_interval_s = 1.0\n"
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number:0200}\n" for number in range(LINES)))
    assert main([found.write(), "--feed", str(lines), "--json"]) == 0
    return found


@pytest.fixture
def run(cluster: Cluster, errors: Path) -> Iterator[subprocess.Popen[str]]:
    """The three processes under their parent."""
    words = [sys.executable, "-m", "actors.cluster", cluster.file, "--processes", "--json"]
    with errors.open("w") as err:
        process = subprocess.Popen(words, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=err)
        yield process
        if process.poll() is None:
            process.kill()  # its children end with it
            process.communicate()


@pytest.fixture
def errors(tmp_path: Path) -> Path:
    return tmp_path / "errors"


def leader_of(cluster: Cluster) -> str:
    """Whom all that answer name, if it takes appends; "" if nobody does."""
    said: dict[str, Any] = {
        node: answer["status"]["groups"]["orders"]
        for node, answer in statuses(cluster).items()
        if answer is not None
    }
    named = {each["leader"] for each in said.values()}
    leader = named.pop() if len(named) == 1 else ""
    return leader if leader in said and said[leader]["is_open"] else ""


def test_it_is_not_started_again(
    cluster: Cluster,
    run: subprocess.Popen[str],
    errors: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    wait_for(lambda: all(statuses(cluster).values()))
    damaged = wait_for(lambda: leader_of(cluster))
    file = cluster.folder / "var" / damaged / "groups" / "orders" / "data" / f"{0:020d}"
    data = bytearray(file.read_bytes())
    data[DAMAGED_BYTE] ^= 0xFF
    file.write_bytes(data)
    client([f"{cluster.file}:{damaged}", "read", "--group", "orders"])
    wait_for(lambda: "not started again" in errors.read_text())
    assert wait_for(lambda: leader_of(cluster)) != damaged
    assert len(children_of(run)) == 2
    capfd.readouterr()
    assert main([cluster.file, "status"]) == 1
    place = f"{file}: byte {DAMAGED_ENTRY} "
    assert f"\n  {damaged}: not running, ended by damage: {place}" in capfd.readouterr().out
    one_more = cluster.folder / "one_more"
    one_more.write_text("one more\n")
    assert client([cluster.file, "append", "--group", "orders", str(one_more)]) == 0
    run.send_signal(signal.SIGTERM)
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 1
    reported = [line for line in errors.read_text().splitlines() if place in line]
    assert [line.split(place)[0] for line in reported] == [f"{damaged}: ", f"triolog: {damaged}: "]
    found = json.loads(out)
    assert found["groups"]["orders"]["restarts"] == 0
    assert len(found["failures"]) == 1
    ends = found["groups"]["orders"]["indexes"]
    gone = ends.pop(damaged)
    assert gone["gone"]
    assert gone["age_s"] > max(each["age_s"] for each in ends.values()) > 0
