"""Shrinking a failing run, and runs as files."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import attrs
import pytest
import trio
from test_sim_mutations import short_plan

from actors.sim.classic.plan import ClassicPlan
from actors.sim.commands import command_line
from actors.sim.commands.script_file import dump_plan, load_plan
from actors.sim.commands.shrink import PASSES_MIN, TAIL_S, shrink
from actors.sim.history import Violation
from actors.sim.plan import Outcome, Plan
from actors.sim.running import run_plan
from actors.sim.scheduler import InOrder, Within, make_policy


def kinds(plan: Plan) -> list[str]:
    return [fault.kind for fault in plan.script]


def fails_with(*wanted: str) -> object:
    """A plan fails if it has these kinds, in this order."""

    def fails(plan: Plan) -> bool:
        left = iter(kinds(plan))
        return all(kind in left for kind in wanted)

    return fails


@pytest.mark.parametrize("seed", range(10))
def test_only_the_lines_that_matter_are_left(seed: int) -> None:
    plan = ClassicPlan.draw(str(seed))
    for wanted in itertools.combinations(dict.fromkeys(kinds(plan)), 2):
        small = shrink(plan, fails_with(*wanted))  # type: ignore[arg-type]
        assert kinds(small) == list(wanted)
        break
    assert small.policy == "in order"
    assert small.tell_yields == 0.0
    assert small.skews_ms == {}
    assert small.settings == {}
    assert small.nodes <= plan.nodes
    assert small.duration_s <= max(fault.at_s for fault in small.script) + TAIL_S + 0.1
    assert min(fault.at_s for fault in small.script) <= 1.0


def test_without_any_line_that_matters_none_is_left() -> None:
    assert shrink(ClassicPlan.draw("1"), lambda plan: True).script == ()


def test_what_comes_after_the_failure_goes_at_once() -> None:
    plan = ClassicPlan.draw("2")
    tried: list[Plan] = []

    def fails(each: Plan) -> bool:
        tried.append(each)
        return True

    shrink(plan, fails, until_s=20.0, tries_max=1)
    (first,) = tried
    assert first.script == tuple(fault for fault in plan.script if fault.at_s <= 20.0)
    assert first.duration_s == 22.0


def test_what_matters_stays() -> None:
    plan = attrs.evolve(ClassicPlan.draw("3"), policy="random", tell_yields=0.3)
    small = shrink(plan, lambda each: "random" in each.policy and each.tell_yields > 0)
    assert small.tell_yields == 0.3
    name, _, stretch = small.policy.partition("@")
    first, last = map(int, stretch.split("-"))
    assert name == "random"
    assert last - first < 2 * PASSES_MIN


def test_the_number_of_tries_is_bounded() -> None:
    tried: list[Plan] = []
    reported: list[str] = []

    def fails(plan: Plan) -> bool:
        tried.append(plan)
        return len(plan.script) > 3

    small = shrink(ClassicPlan.draw("2"), fails, tries_max=7, note=reported.append)
    assert len(tried) == 7
    assert len(small.script) < len(ClassicPlan.draw("2").script)
    assert reported


@pytest.mark.parametrize("seed", range(30))
def test_a_run_as_a_file_reads_back(seed: int) -> None:
    plan = ClassicPlan.draw(str(seed))
    assert load_plan(dump_plan(plan, expect="LogsEqual", comment="why\n\nso")) == (
        plan,
        "LogsEqual",
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        'seed = "1"',
        'seed = "1"\nnodes = 2\nscript = ["no"]',
        'seed = "1"\nnodes = 2\nscript = []\nmore = 1',
    ],
)
def test_another_file_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each says something else
        load_plan(text)
    path = tmp_path / "x.toml"
    path.write_text(text)
    assert command_line.run_command_line(["run", "--script", str(path)]) == 2
    assert str(path) in capsys.readouterr().err


def test_the_command_prints_a_script_that_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = run_plan(attrs.evolve(short_plan(), duration_s=1.0, script=()))
    violation = Violation(checker="LogsEqual", at_s=1.5, text="they differ")

    def run(plan: Plan, tell: object = None) -> Outcome:
        wrong = (violation,) if "kill" in kinds(plan) else ()
        return attrs.evolve(good, plan=plan, violations=wrong)

    monkeypatch.setattr(command_line, "run_plan", run)
    path = tmp_path / "run.toml"
    path.write_text(dump_plan(short_plan()))
    assert command_line.run_command_line(["shrink", "--script", str(path), "--tries", "60"]) == 0
    printed = capsys.readouterr().out
    small, expect = load_plan(printed)
    assert expect == "LogsEqual"
    assert kinds(small) == ["kill"]
    assert "they differ" in printed
    path.write_text(dump_plan(attrs.evolve(short_plan(), script=())))
    assert command_line.run_command_line(["shrink", "--script", str(path)]) == 1
    assert "nothing to shrink" in capsys.readouterr().out


def test_orders_without_chance() -> None:
    assert isinstance(make_policy("in order"), InOrder)
    within = make_policy("random@2-3")
    assert isinstance(within, Within)
    batch: list[trio.lowlevel.Task] = list(range(20))  # type: ignore[arg-type]
    rng = random.Random(1)
    found = [within.arrange(list(batch), rng) == batch for _ in range(5)]
    assert found == [True, False, False, True, True]
