"""The fixtures for users' own suites, in another directory, and the example that shows them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "test_with_virtual_clock.py"


def run_suite(folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """Run pytest as a user does: no configuration of ours is in reach."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"--rootdir={folder}", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.real_io
def test_the_example_passes(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    code, reported = run_suite(tmp_path)
    assert code == 0, reported
    assert "2 passed" in reported


SUITE = """
import os

import pytest
import trio

from actors.sim.cluster import classic_config

pytest_plugins = ["actors.sim.plugin"]


@pytest.fixture
def cluster_config():
    return classic_config(nodes=2, group="ledger", copies=1)


async def test_own_configuration(cluster):
    assert cluster.names == ("n0", "n1")
    await cluster.log("ledger").append([b"x"])
    print("history", cluster.world.fingerprint.hexdigest())


async def test_a_node_that_dies_fails_the_test(world):
    async def main(env, task_status):
        task_status.started()
        await trio.sleep(3600)
        raise ValueError("out of luck")

    world.add_node("mine", "10.1.0.1")
    await world.start_node("mine", main)
    await trio.sleep(7200)


async def test_that_fails(world):
    assert world.nodes
"""


@pytest.mark.real_io
def test_a_suite_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(SUITE)
    code, reported = run_suite(tmp_path, "-s", PYTHONHASHSEED="1")
    assert code == 1, reported
    assert "2 failed, 1 passed" in reported
    assert "NodeFailed" in reported
    assert "out of luck" in reported
    assert "SIM_SEED=0 pytest 'test_mine.py::test_that_fails'" in reported
    again = run_suite(tmp_path, "-s", "-k", "own", PYTHONHASHSEED="2")[1]
    other = run_suite(tmp_path, "-s", "-k", "own", SIM_SEED="1")[1]
    assert history(reported) == history(again)
    assert history(reported) != history(other)


def history(reported: str) -> str:
    return next(text for text in reported.splitlines() if "history" in text)
