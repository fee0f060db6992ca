"""One seed gives one history, in every process; another seed gives another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import echo_program
import pytest

ROOT = Path(__file__).parents[2]


def run_apart(seed: str, hash_seed: str) -> str:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
    program = str(Path(__file__).with_name("echo_program.py"))
    done = subprocess.run(
        [sys.executable, program, seed], env=environment, capture_output=True, check=True, text=True
    )
    return done.stdout.strip()


def test_equal_fingerprints_in_two_processes_with_different_hash_seeds() -> None:
    first = run_apart("7", "1")
    assert first == run_apart("7", "4711")
    here = echo_program.main("7")  # under another module name, so its tasks have other names
    assert first.split()[1:] == here.split()[1:]
    assert first.split()[0] != run_apart("8", "1").split()[0]


@pytest.mark.parametrize("seed", range(20))
def test_what_was_answered_is_on_the_disk(seed: int) -> None:
    line = echo_program.main(str(seed))
    assert "kill" in line or "power_loss" in line or "cut" in line or "pause" in line
