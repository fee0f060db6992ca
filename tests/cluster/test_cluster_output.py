"""Commands whose standard output takes nothing: one line, exit code 1. And --version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_kit import ROOT, WAIT_S, make_cluster, wait_for

from actors.version import VERSION

pytestmark = pytest.mark.real_io

FULL = "triolog: standard output: No space left on device\n"
ROOMS = ("actors.cluster", "actors.client", "actors.sim")


def run(output: str, *words: str, **keys: str) -> tuple[int, str]:
    """Run a command with a file as its standard output: exit code and standard error."""
    with open(output, "w") as out:
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            timeout=WAIT_S,
            check=False,
            input=keys.get("input", ""),
            env={**os.environ, "PYTHONUNBUFFERED": keys.get("unbuffered", "")},
        )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("room", "option", "unbuffered"),
    [
        ("actors.cluster", "--help", ""),
        ("actors.cluster", "--help", "1"),
        ("actors.cluster", "--version", ""),
        ("actors.client", "--version", "1"),
        ("actors.sim", "--help", ""),
    ],
)
def test_a_full_disk_takes_no_help(room: str, option: str, unbuffered: str) -> None:
    """Every room, option and kind of buffer; all rooms have it from `with_output`."""
    assert run("/dev/full", room, option, unbuffered=unbuffered) == (1, FULL)


@pytest.mark.parametrize(
    "words",
    [
        ("check",),
        ("check", "--json"),
        ("status",),
        ("status", "--json"),
        ("--for", "0.1s"),
        ("--for", "0.1s", "--plain"),
        ("--for", "0.1s", "--json"),
        ("--feed", "-", "--json"),
    ],
)
def test_a_full_disk_takes_nothing_of_a_cluster(tmp_path: Path, words: tuple[str, ...]) -> None:
    file = make_cluster(tmp_path).write()
    assert run("/dev/full", "actors.cluster", file, *words, input="a\n") == (1, FULL)


def test_a_full_disk_takes_nothing_of_a_client(tmp_path: Path) -> None:
    cluster = make_cluster(tmp_path)
    with cluster.start("--feed", "-", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write("one\n")
        process.stdin.flush()
        wait_for((tmp_path / "var" / "n0" / "api.sock").exists)
        for words in (
            ("append",),
            ("read",),
            ("tail", "--start", "0"),
            ("status",),
            ("status", "--json"),
            ("bench", "--seconds", "0.1", "--window", "1"),
        ):
            assert run("/dev/full", "actors.client", cluster.file, *words) == (1, FULL), words
        process.communicate(timeout=WAIT_S)
    assert process.returncode == 0


@pytest.mark.parametrize("words", [("run", "--seed", "112"), ("replay", "--seed", "112")])
def test_a_full_disk_takes_nothing_of_a_simulation(words: tuple[str, ...]) -> None:
    assert run("/dev/full", "actors.sim", *words) == (1, FULL)


@pytest.mark.parametrize("room", ROOMS)
def test_an_error_that_nobody_can_read_is_an_exit_code(room: str) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", room, "nothing.toml", "--nonsense"]
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=full, timeout=WAIT_S, check=False
        )
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize("room", ROOMS)
def test_version(room: str, tmp_path: Path) -> None:
    file = tmp_path / "out"
    assert run(str(file), room, "--version") == (0, "")
    assert file.read_text() == f"triolog {VERSION}\n"
