"""What is handed to the workers together, and what first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import work_units
from work_units import position_of, unit_of

TESTS = Path(__file__).parent
SAMPLE = """
import pytest

@pytest.mark.parametrize("number", range(8))
def test_something(number):
    pass
"""


def test_units() -> None:
    assert unit_of("tests/interop/test_a.py::test_b") == unit_of("tests/interop/test_c.py::test_d")
    assert unit_of("tests/interop/test_interop_dledger_a.py::b") == unit_of(
        "tests/interop/test_interop_dledger.py::c"
    )
    assert unit_of("tests/interop/test_interop_dledger.py::b") != unit_of(
        "tests/interop/test_a.py::b"
    )
    assert unit_of("tests/interop/long_a.py::test_b") != unit_of("tests/interop/long_a.py::test_c")
    assert unit_of("tests/pipeline/test_a.py::test_b") == unit_of("tests/pipeline/test_c.py::d")
    assert unit_of("tests/pipeline/test_a.py::test_b") != unit_of("tests/interop/test_a.py::test_b")
    assert unit_of("tests/ha/test_a.py::test_b") == unit_of("tests/ha/test_a.py::test_c[x::y]")
    assert unit_of("tests/ha/test_a.py::test_b") != unit_of("tests/ha/test_b.py::test_b")
    assert unit_of("tests/cluster/test_a.py::test_b") != unit_of("tests/cluster/test_a.py::test_c")


def test_the_rooms_are_there() -> None:
    for room in work_units.FIRST:
        assert list(TESTS.parent.glob(f"{room}*.py")), room


def test_long_rooms_are_begun_first() -> None:
    found = ["tests/ha/test_a.py::b", "tests/sim/a.py::b", "tests/interop/a.py::b", "tests/a.py::b"]
    assert sorted(found, key=position_of) == [found[2], found[1], found[0], found[3]]


@pytest.mark.real_io
def test_workers_take_whole_units(tmp_path: Path) -> None:
    """Java's go to one of two workers, whatever their files; a file of others is not divided."""
    files = [tmp_path / "tests" / name for name in ("interop/test_a.py", "interop/test_b.py")]
    files.append(tmp_path / "tests" / "wire" / "test_c.py")
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SAMPLE)
    for name in ("conftest.py", "work_units.py"):
        (tmp_path / "tests" / name).write_text((TESTS / name).read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    path = os.pathsep.join([str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-n", "2", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=True,
        text=True,
    )
    ran = [line.split() for line in done.stdout.splitlines() if " PASSED " in line]
    assert len(ran) == 24
    java = {worker for worker, *_, test in ran if test.startswith(work_units.JAVA)}
    others = {worker for worker, *_, test in ran if not test.startswith(work_units.JAVA)}
    assert len(java) == len(others) == 1
    assert java != others


@pytest.mark.real_io
@pytest.mark.parametrize(
    "rooms",
    [("service", "switching", "scripts"), ("sim", "modes", "service"), ("bench", "interop")],
)
def test_any_selection_of_rooms_is_collected(rooms: tuple[str, ...]) -> None:
    """What one room imports is not in another one's way."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--collect-only"]
    command += [f"tests/{room}" for room in rooms]
    run = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:]
