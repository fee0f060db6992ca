"""No step uses what only one kind of Spark has. `clusters.py` runs them on three kinds."""

from __future__ import annotations

import ast
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import clusters
import pytest

PIPELINE = Path(clusters.ROOT, "actors/pipeline")
CLASSIC = frozenset(
    {"sparkContext", "rdd", "toDF", "_jvm", "_jsc", "_jdf", "_jsparkSession", "_sc"}
)
"""What a Spark Connect client does not have."""
ONE_PLACE = frozenset({"master", "_jvm"})
"""What only `session` may say, which starts and ends Java: elsewhere it is the user's word."""


def used(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            yield node.attr


@pytest.mark.parametrize(
    "path", sorted(PIPELINE.rglob("*.py")), ids=lambda path: str(path.relative_to(PIPELINE))
)
def test_no_step_knows_where_it_runs(path: Path) -> None:
    banned = CLASSIC - ONE_PLACE if path.name == "session.py" else CLASSIC | ONE_PLACE
    assert banned.isdisjoint(used(path))


@pytest.mark.parametrize(
    ("step", "code", "err", "expected"),
    [
        ("watch", 0, "", True),
        ("audit", 0, "WARN something of Spark's", True),
        ("audit", 1, "WARN something of Spark's", True),
        ("watch", 1, "", False),
        ("audit", 1, "pipeline: Spark failed: no room", False),
        ("audit", 1, "Traceback (most recent call last):\n  File", False),
        ("audit", 2, "pipeline: /d: no nodes", False),
        ("audit", -9, "", False),
    ],
)
def test_a_broken_promise_is_the_only_exit_that_is_no_failure(
    step: str, code: int, err: str, expected: bool
) -> None:
    assert clusters.is_done(step, code, err) is expected


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> clusters.Machine:
    """One that needs no Java."""
    monkeypatch.setattr(clusters, "java_home", lambda *_: tmp_path)
    return clusters.Machine(tmp_path)


def test_a_server_that_ends_is_waited_for_no_longer(machine: clusters.Machine) -> None:
    """And what it said is told: its folder goes with the run."""
    words = [sys.executable, "-Sc", "print('no room here'); raise SystemExit(3)"]
    with (
        pytest.raises(RuntimeError, match=r"one ended by itself: (?s:.*)no room here"),
        machine.running("one", words) as server,
    ):
        clusters.wait_for(server, lambda: False)


def test_a_server_that_never_comes_says_what_it_said(machine: clusters.Machine) -> None:
    words = [sys.executable, "-Suc", "print('I wait'); import time; time.sleep(600)"]

    def has_spoken() -> bool:
        return bool(server.log.read_text())

    with pytest.raises(RuntimeError, match="not there within 0 s: I wait"):
        with machine.running("one", words) as server:
            clusters.wait_for(server, has_spoken)
            clusters.wait_for(server, lambda: False, 0)
    assert server.process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_when_it_is_told_to_end(
    machine: clusters.Machine, number: signal.Signals
) -> None:
    """Also by a second signal while it cleans up."""
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    words = [sys.executable, "-Sc", "import time; time.sleep(600)"]
    try:
        clusters.leave_when_told()
        with pytest.raises(SystemExit) as ended, machine.running("one", words) as server:
            signal.raise_signal(number)
        signal.raise_signal(signal.SIGTERM)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert ended.value.code == 128 + number
    assert server.process.returncode == -signal.SIGKILL


def test_a_row_too_many_another_value_and_a_table_less_are_differences() -> None:
    one = {"lag": ["a", "b"], "alarms": ["x"], "verdicts": ["held"]}
    assert clusters.differences(one, dict(one)) == []
    other = {"lag": ["a", "b", "b"], "alarms": ["y"]}
    assert clusters.differences(one, other) == [
        "alarms: 1 and 1 rows, as x",
        "lag: 0 and 0 rows, as another order or number",
        "verdicts: 1 and 0 rows, as held",
    ]
