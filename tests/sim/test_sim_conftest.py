"""The suite's own conftest: SIM_SEED and the node id decide the schedule of every test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SAMPLE = """
import pytest
import trio

@pytest.fixture
async def other():
    await trio.sleep(0)
    yield 1

@pytest.fixture
async def another():
    await trio.sleep(0)
    yield 2

@pytest.mark.parametrize("case", [1, 2])
async def test_race(case, other, another, autojump_clock):
    order = []

    async def runner(name):
        for _ in range(8):
            order.append(name)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for name in "abcdefgh":
            nursery.start_soon(runner, name)
    print("ORDER", case, "".join(order))
"""


def orders(folder: Path, seed: str, hash_seed: str) -> list[str]:
    for name in ("conftest.py", "work_units.py"):
        (folder / name).write_text((ROOT / "tests" / name).read_text())
    (folder / "test_sample.py").write_text(SAMPLE)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    chosen = {"SIM_SEED": seed, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-s", "-q", "-o", "trio_mode=true", "test_sample.py"],
        cwd=folder,
        env={**os.environ, **chosen},
        capture_output=True,
        check=True,
        text=True,
    )
    return [line for line in done.stdout.splitlines() if "ORDER" in line]


def test_seed_and_node_id_decide_the_order_of_a_test(tmp_path: Path) -> None:
    first = orders(tmp_path, "1", "1")
    assert first == orders(tmp_path, "1", "2")
    assert first != orders(tmp_path, "2", "1")
    one, two = (line.split()[-1] for line in first)
    assert one != two
