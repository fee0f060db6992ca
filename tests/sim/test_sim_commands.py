"""`python -m actors.sim`: run, replay, sweep; equal fingerprints in other processes; exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import attrs
import pytest

from actors.own_process import as_triolog
from actors.sim.actions.script import dump_fault
from actors.sim.classic.judges.survival import POWER_LOSSES
from actors.sim.classic.marks import EXPECTED
from actors.sim.classic.plan import ClassicPlan
from actors.sim.commands import command_line as command
from actors.sim.commands.sweep import (
    SENSIBLE_SEEDS,
    THOROUGH_SEEDS,
    counts_text,
    failure_text,
    sweep,
)
from actors.sim.history import Violation
from actors.sim.plan import Outcome
from actors.sim.running import run_seed
from actors.sim.scheduler import make_policy

ROOT = Path(__file__).parents[2]
QUIET_SEED = "112"
"""One of the shorter runs."""


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return run_seed(QUIET_SEED)


def apart(seed: str, hash_seed: str) -> str:
    """The fingerprint that another process prints."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "actors.sim", "run", "--seed", seed],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
        capture_output=True,
        check=True,
        text=True,
    )
    (fingerprint,) = [
        text.split()[1] for text in done.stdout.splitlines() if text.startswith("fingerprint ")
    ]
    return fingerprint


def test_one_seed_is_one_history_in_every_process(outcome: Outcome) -> None:
    assert apart(QUIET_SEED, "1") == outcome.fingerprint
    assert apart(QUIET_SEED, "4711") == outcome.fingerprint
    assert apart("115", "1") != outcome.fingerprint


def test_a_run_is_long_enough_and_clean(outcome: Outcome) -> None:
    assert outcome.violations == ()
    assert outcome.virtual_s >= 60
    assert outcome.counts["restarts"] >= 1
    assert sum(count for name, count in outcome.counts.items() if name.startswith("fault ")) >= 5


def test_plans_differ_and_repeat() -> None:
    plans = [ClassicPlan.draw(str(seed)) for seed in range(50)]
    assert plans == [ClassicPlan.draw(str(seed)) for seed in range(50)]
    groups = [plan.config.groups["orders"] for plan in plans]
    assert {group.durability for group in groups} == {"synced", "written"}
    assert {len(plan.config.nodes) for plan in plans} == {2, 3, 4, 5}
    assert {plan.policy.split()[0] for plan in plans} == {"random", "priorities", "starve"}
    for plan in plans:
        assert len(plan.script) >= 5
        assert make_policy(plan.policy)
        if plan.config.groups["orders"].durability == "written":
            masters = [fault for fault in plan.script if "n0" in fault.nodes]
            assert not any(fault.kind in POWER_LOSSES for fault in masters)


def test_replay_prints_every_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command.run_command_line(["replay", "--seed", QUIET_SEED]) == 0
    reported = capsys.readouterr().out
    for part in ("RecordsAppended", "AppendsAcknowledged", "-- heal all", "acknowledged: Receipt"):
        assert part in reported
    assert "fingerprint" in reported.splitlines()[-1]


def violated(outcome: Outcome) -> Outcome:
    violation = Violation(checker="LogsEqual", at_s=1.5, text="they differ")
    return attrs.evolve(outcome, violations=(violation,))


@pytest.mark.parametrize("typed", ["python -m actors.sim", "triolog sim"])
def test_outside_of_a_checkout_no_make_is_spoken_of(
    typed: str, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = attrs.evolve(outcome.plan, seed="any text")
    with as_triolog() if typed.startswith("triolog") else nullcontext():
        text = failure_text(violated(attrs.evolve(outcome, plan=plan)))
    assert text.splitlines()[-1] == f"  {typed} replay --mode classic --seed 'any text'"
    assert "make" not in text


def test_a_failure_says_how_to_see_it_again(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    text = failure_text(violated(outcome))
    for part in (
        "LogsEqual at 1.500000 s: they differ",
        f"make replay SEED={QUIET_SEED}",
        outcome.fingerprint,
        outcome.digest,
        "trio 0.",
        "Python 3.",
        dump_fault(outcome.plan.script[0]),
    ):
        assert part in text


@pytest.mark.parametrize(
    ("names", "lacking", "count"),
    [
        (EXPECTED.always, "catch-ups", SENSIBLE_SEEDS),
        (EXPECTED.thorough, "mark master changed", THOROUGH_SEEDS),
    ],
    ids=["sensible", "thorough"],
)
def test_a_sweep_of_a_certain_size_fails_on_zeros(
    names: tuple[str, ...], lacking: str, count: int, outcome: Outcome
) -> None:
    full = attrs.evolve(outcome, counts=dict.fromkeys((*EXPECTED.always, *EXPECTED.thorough), 2))
    seeds = [str(seed) for seed in range(count)]
    result = sweep(seeds, run=lambda seed: full)
    assert result.good
    assert set(result.counts.values()) == {2 * count}
    assert lacking in names
    rest = {name: number for name, number in full.counts.items() if name != lacking}
    never = attrs.evolve(full, counts=rest)
    result = sweep(seeds, run=lambda seed: never)
    assert result.zeros == (lacking,)
    assert not result.good
    assert sweep(seeds[1:], run=lambda seed: never).good


def test_a_sweep_goes_on_behind_a_failure(outcome: Outcome) -> None:
    reported: list[Outcome] = []
    result = sweep(["1", "2"], reported.append, run=lambda seed: violated(outcome))
    assert len(reported) == len(result.failed) == 2
    assert not result.good


def test_a_sweep_that_breaks_off_names_its_seed() -> None:
    def run(seed: str) -> Outcome:
        raise OSError("a bug of the simulation")

    with pytest.raises(OSError, match="a bug") as raised:
        sweep(["17"], run=run)
    assert raised.value.__notes__ == ["seed 17 broke off"]


@pytest.mark.parametrize("broken", [False, True])
def test_exit_codes_of_the_commands(
    broken: bool,
    outcome: Outcome,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    given = violated(outcome) if broken else outcome
    monkeypatch.setattr(command, "run_plan", lambda plan: given)
    monkeypatch.setattr(
        command, "sweep", lambda seeds, on_run, *_: sweep(seeds, on_run, run=lambda seed: given)
    )
    assert command.run_command_line(["run", "--seed", "1"]) == int(broken)
    assert command.run_command_line(
        ["sweep", "--mode", "classic", "--seeds", "2", "--first", "7"]
    ) == int(broken)
    reported = capsys.readouterr().out
    assert f"2 seeds from 7 on, {2 * broken} failed" in reported
    assert "seeds/s" in reported
    assert ("make replay" in reported) == broken


@pytest.mark.parametrize("terminal", [False, True])
def test_a_sweep_shows_how_far_it_is(
    terminal: bool,
    outcome: Outcome,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(seed: str) -> Outcome:
        return violated(outcome) if seed == "20" else outcome

    monkeypatch.setattr(command, "sweep", lambda seeds, on_run, *_: sweep(seeds, on_run, run=run))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    command.run_command_line(["sweep", "--seeds", "60"])
    reported = capsys.readouterr().err
    if terminal:
        assert reported.count("\r") == 60
        assert reported.endswith("\n")
        assert "\r60 of 60 seeds, 1 failed, " in reported
    else:
        starts = [line.rsplit(",", 1)[0] for line in reported.splitlines()]
        assert starts == ["25 of 60 seeds, 1 failed", "50 of 60 seeds, 1 failed"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["run"],
        ["sweep", "--seeds", "0"],
        ["sweep", "--mode", "other"],
        ["sweep", "--first", "x"],
        ["sweep", "--seeds", "9" * 5000],
    ],
)
def test_bad_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run_command_line(arguments) == 2
    reported = capsys.readouterr()
    assert reported.out == ""
    assert reported.err.startswith("triolog: ")
    assert reported.err.endswith(" (see --help)\n")
    assert reported.err.count("\n") == 1


def test_another_trio_is_refused_by_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = command.check_trio
    monkeypatch.setattr(command, "check_trio", lambda: check("0.99.0"))
    assert command.run_command_line(["run", "--seed", "1"]) == 2
    assert "0.99.0" in capsys.readouterr().err


def test_ctrl_c_is_one_line_wherever_it_comes() -> None:
    """An exception would be one of whichever simulated actor is at work."""
    heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    run = "from actors.sim.__main__ import main; main(['replay', '--seed', '3'])"
    words = [sys.executable, "-c", f"{heeds} {run}"]
    with subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as replay:
        assert replay.stdout is not None
        for _ in range(400):  # it is in the middle of its run
            assert replay.stdout.readline()
        replay.send_signal(signal.SIGINT)
        _, err = replay.communicate()
    assert (replay.returncode, err) == (130, "triolog: interrupted\n")


def test_marks_are_named_where_they_are_asked_for() -> None:
    counts = {"restarts": 2, "mark catch-up over files": 0, "mark fenced": 3, "fault kill": 2}
    assert [line.split() for line in counts_text(counts).splitlines()] == [
        ["restarts", "2"],
        ["fault", "kill", "2"],
        ["1", "of", "2", "marks", "passed", "(--verbose", "names", "them)"],
    ]
    shown = counts_text(counts, marks=True)
    assert "mark catch-up over files" in shown
    assert "--verbose" not in shown
