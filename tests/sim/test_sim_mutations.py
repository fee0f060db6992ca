"""Our own code, broken on purpose: each variant fails a checker, and the unbroken code passes.

The scripts were cut down from whole runs by `python tests/sim/sim_mutations.py --shrink`, two were
written by hand. Another history may need another schedule to show the same break, so a few seeds
may be tried.
"""

from __future__ import annotations

import functools

import attrs
import pytest
import trio
from broken_code import MUTATIONS, Mutation
from sim_mutations import BY_SCRIPT, RUNS_MAX, SCRIPTS, Found, hunt, main, objects

from actors.config.kinds import guarantee_of
from actors.sim.actions.script import parse_fault
from actors.sim.classic.plan import GROUP, ClassicPlan
from actors.sim.classic.runner import FaultRunner
from actors.sim.commands.script_file import dump_plan, load_plan
from actors.sim.disk import DiskOptions
from actors.sim.history import Violation
from actors.sim.plan import Plan
from actors.sim.running import run_plan
from actors.sim.workload import WorkloadOptions

NAMES = [mutation.__name__ for mutation in MUTATIONS]

SHORT_SCRIPT = (
    "at 1.0 slow_sync n1 for 1.0 extra 0.5",
    "at 2.0 power_loss n1 for 0.5",
    "at 3.0 kill n0 for 0.5",
    "at 4.5 slow_sync n0 for 1.0 extra 0.3",
    "at 5.5 isolate n1 for 1.0",
    "at 7.0 power_loss_all n0 n1 n2 for 0.5",
)


def short_plan(copies: int = 2) -> Plan:
    """Three nodes, slow disks, power losses, all within 8 virtual seconds."""
    return attrs.evolve(
        ClassicPlan.draw("short"),
        nodes=3,
        settings={
            "copies": copies,
            "segment_bytes": 16 << 10,
            "frame_bytes": 1024,
            "reconnect_interval_s": 0.5,
        },
        skews_ms={},
        disk=DiskOptions(sync_mean_s=0.03),
        policy="random",
        load=WorkloadOptions(pause_mean_s=0.3, body_mean_bytes=1000, batch_max=4),
        tell_yields=0.05,
        script=tuple(map(parse_fault, SHORT_SCRIPT)),
        duration_s=8.0,
    )


@pytest.mark.parametrize("copies", [1, 2])
def test_unbroken_code_passes(copies: int) -> None:
    outcome = run_plan(short_plan(copies))
    assert outcome.violations == ()
    assert outcome.counts["acknowledged records"] > 50
    assert outcome.counts["roll-overs"] > 1
    assert outcome.counts["catch-ups"] >= 1
    assert outcome.counts["restarts"] == 5


def test_a_script_that_never_ends_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(runner: FaultRunner, script: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(FaultRunner, "run", never)
    plan = attrs.evolve(short_plan(), duration_s=1.0)
    (violation,) = run_plan(plan).violations
    assert violation.checker == "ScriptEnds"


@functools.cache
def unbroken(text: str) -> tuple[Violation, ...]:
    """What is wrong with a run of the good code; some mutations have the same one."""
    return run_plan(load_plan(text)[0]).violations


@pytest.mark.parametrize("mutation", MUTATIONS, ids=NAMES)
def test_a_broken_variant_is_caught(mutation: Mutation) -> None:
    path = SCRIPTS / f"{mutation.__name__}.toml"
    plan, checker = load_plan(path.read_text(encoding="utf-8"))
    for number in range(RUNS_MAX):
        each = attrs.evolve(plan, seed=plan.seed + "+" * number)
        if objects(checker, mutation, each):
            assert unbroken(dump_plan(each, expect="", comment="")) == ()
            return
    pytest.fail(f"{checker} says nothing about {mutation.__name__} in {RUNS_MAX} runs")


def test_every_script_belongs_to_a_mutation() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.toml")} == set(NAMES)
    assert len(NAMES) >= 15
    assert all(mutation.__doc__ for mutation in MUTATIONS)


def test_the_table_that_was_written_down_names_all() -> None:
    text = (SCRIPTS / "README.md").read_text(encoding="utf-8")
    classic = text.partition("## Classic HA")[2].partition("## ")[0]
    rows = [line.strip("| ").split(" | ") for line in classic.splitlines()[4:] if line]
    assert [row[0] for row in rows] == NAMES
    assert {row[0] for row in rows if row[2] == "script"} == BY_SCRIPT["classic"]
    assert all(row[1] != "nobody" for row in rows)
    assert all(int(row[2]) < 200 for row in rows if row[2] != "script")


def test_the_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    def found(mutation: Mutation, given: range, mode: str) -> Found:
        seeds.extend(given)
        return Found(mutation, "" if mutation is MUTATIONS[1] else "LogsEqual", 7)

    monkeypatch.setattr("sim_mutations.hunt", found)
    seven = ClassicPlan.draw("7").config.groups[GROUP]
    assert main(["--seeds", "3", "--first", "5", NAMES[0]]) == 0
    assert seeds == [5, 6, 7]
    row = f"| {NAMES[0]} | LogsEqual | 7 | {guarantee_of(seven).mode} |"
    assert row in capsys.readouterr().out
    assert main([NAMES[0], NAMES[1]]) == 1
    assert f"| {NAMES[1]} | nobody | 7 |" in capsys.readouterr().out


def test_a_seed_at_which_good_code_fails_too_catches_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bad = run_plan(attrs.evolve(short_plan(), script=(), duration_s=0.1))
    violation = Violation(checker="LogsEqual", at_s=0.0, text="")
    bad = attrs.evolve(bad, violations=(violation,))
    monkeypatch.setattr("sim_mutations.run_plan", lambda plan: bad)
    assert hunt(MUTATIONS[0], [1, 2]).checker == ""


def test_nothing_is_found_in_good_code() -> None:
    def good(patch: pytest.MonkeyPatch) -> None:
        """Nothing is broken."""

    assert hunt(good, [112]).checker == ""
