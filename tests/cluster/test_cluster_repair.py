"""`repair` of real processes: a byte of an old file changes on a slave's disk, and a master's."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cluster_kit import ROOT, Cluster, make_cluster, statuses, wait_for

from actors.cluster.__main__ import main
from actors.storage.__main__ import main as storage

pytestmark = pytest.mark.real_io

NODES = ("n0", "n1", "n2")
LINES = 2000
SPOILT = {"n2": 65536 + 300, "n0": 2 * 65536 + 20}
"""A byte of the second file, and one of the third: in a head, which no CRC covers."""


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Its nodes have some files of records each, and were stopped in order."""
    found = make_cluster(tmp_path)
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number:0200}\n" for number in range(LINES)))
    assert main([found.write(), "--feed", str(lines), "--json"]) == 0
    return found


def spoil(cluster: Cluster, node: str, offset: int) -> None:
    base = offset - offset % 65536
    file = cluster.folder / "var" / node / "groups" / "orders" / "commitlog" / f"{base:020d}"
    data = bytearray(file.read_bytes())
    data[offset - base] ^= 1
    file.write_bytes(data)


def damage(cluster: Cluster) -> dict[str, str]:
    """What each node that answers says is damaged."""
    return {
        node: answer["status"]["groups"]["orders"]["findings"].get("damaged", "")
        for node, answer in statuses(cluster).items()
        if answer is not None
    }


def command(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "actors.cluster", cluster.file, *words]
    return subprocess.run(line, cwd=ROOT, text=True, capture_output=True, timeout=60, check=False)


def test_damaged_files_are_mended_from_other_members(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    good = cluster.log_of("n1")
    assert cluster.log_of("n0") == cluster.log_of("n2") == good
    for node, offset in SPOILT.items():
        spoil(cluster, node, offset)
    with cluster.start("--processes", "--json") as run:
        wait_for(lambda: {node for node, text in damage(cluster).items() if text} == set(SPOILT))
        found = command(cluster, "status")
        assert "      damaged: " in found.stdout
        for node, offset in SPOILT.items():
            base = offset - offset % 65536
            found = command(cluster, "repair", node)
            assert (found.returncode, found.stderr) == (0, "")
            source = "n1" if node == "n0" else "n0"
            said = f"mended from {source}: bytes {base} to {base + 65536};"
            assert found.stdout.startswith(f"orders: {node}: {said}")
        assert set(damage(cluster).values()) == {""}
        again: list[dict[str, Any]] = json.loads(command(cluster, "repair", "n2", "--json").stdout)
        assert (again[0]["mended"], again[0]["left"]) == ([], [])
        more = cluster.folder / "more"
        more.write_text("one more\n")
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=60)
        assert run.returncode == 0
    assert main([cluster.file, "--feed", str(more), "--json"]) == 0
    assert cluster.log_of("n0") == cluster.log_of("n1") == cluster.log_of("n2")
    assert cluster.log_of("n0")[: 3 * 65536] == good[: 3 * 65536]
    for node in NODES:
        capfd.readouterr()
        assert storage(["check", str(cluster.folder / "var" / node)]) == 0, capfd.readouterr().out
    kept = cluster.folder / "var" / "n2" / "groups" / "orders" / "aside"
    assert [path.name for path in kept.rglob("*") if path.is_file()] == [f"{65536:020d}"]


def test_a_log_with_which_no_node_starts_is_copied_anew(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    good = cluster.log_of("n0")
    group = cluster.folder / "var/n2/groups/orders"
    file = sorted((group / "commitlog").iterdir())[-1]
    data = bytearray(file.read_bytes())
    data[:8] = bytes(8)
    file.write_bytes(data)
    cure = "Where another member has these records, empty this group's folder and start the node"
    assert main([cluster.file, "--for", "1s", "--json"]) == 1
    assert cure in capfd.readouterr().err
    assert storage(["check", str(cluster.folder / "var/n2")]) == 1
    assert cure in capfd.readouterr().out
    shutil.rmtree(group)
    more = cluster.folder / "more"
    more.write_text("one more\n")
    assert main([cluster.file, "--feed", str(more), "--json"]) == 0
    assert cluster.log_of("n0") == cluster.log_of("n2")
    assert cluster.log_of("n0")[: len(good)].startswith(good[:65536])


def test_a_check_says_what_to_do_in_its_last_line(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    """What is found depends on the byte, and on whether its page has a checksum yet."""
    for offset in range(65536, 65536 + 400, 25):
        spoil(cluster, "n2", offset)
        assert storage(["check", str(cluster.folder / "var/n2")]) == 1
        spoil(cluster, "n2", offset)
        last = " ".join(capfd.readouterr().out.split()).rpartition("orders: ")[2]
        if last.startswith("while the node runs, `"):
            assert "repair n2 orders` mends what another member has. If it does not start: " in last
        assert "empty this group's folder" in last
