"""DLedger broken on purpose: a checker of a short simulated run objects, and not to good code.

All breaks, over drawn seeds: `python tests/sim/sim_mutations.py --mode dledger`.
"""

from __future__ import annotations

import attrs
import pytest
from sim_mutations import OF_MODE, SCRIPTED, SCRIPTS, hunt_in_script, objects
from test_sim_ledger_world import short_plan

from actors.dledger.core.dispatch import Dispatch
from actors.sim.dledger.plan import LedgerPlan
from actors.sim.running import run_plan
from actors.sim.script import parse_fault
from actors.sim.workload import WorkloadOptions

SCRIPT = (
    "at 1.5 isolate n0 for 3.0",
    "at 3.0 power_loss n1 for 0.3",
    "at 5.0 isolate n1 for 3.0",
    "at 6.5 power_loss n2 for 0.3",
    "at 8.5 isolate n2 for 3.0",
    "at 10.0 power_loss n0 for 0.3",
)
MUTATIONS = {mutation.__name__: mutation for mutation in OF_MODE["dledger"]}


def hard_plan() -> LedgerPlan:
    """Every member is cut off once, and loses its power, while clients are busy."""
    load = WorkloadOptions(appenders=4, pause_mean_s=0.3, batch_max=3, read_pause_mean_s=0.3)
    script = tuple(map(parse_fault, SCRIPT))
    return attrs.evolve(short_plan(), load=load, script=script, duration_s=12.0)


def test_good_code_passes() -> None:
    outcome = run_plan(hard_plan())
    assert outcome.violations == ()
    assert outcome.counts["elections"] > 2


@pytest.mark.parametrize(
    ("name", "checker"),
    [
        ("answer_before_a_quorum", "AcknowledgedIsCommitted"),
        ("minority_commits", "CommittedIsOnQuorum"),
        ("readers_know_too_much", "ReadsOnlyCommitted"),
        ("read_beyond_committed", "ReadsOnlyCommitted"),
    ],
)
def test_a_break_is_caught(name: str, checker: str) -> None:
    assert objects(checker, MUTATIONS[name], hard_plan())


@pytest.mark.parametrize("name", sorted(SCRIPTED))
def test_a_break_is_caught_in_its_script(name: str) -> None:
    """What drawn runs cannot be relied on to show."""
    assert hunt_in_script(MUTATIONS[name], "dledger").checker


def test_a_group_that_does_not_come_together_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its leader sends no entries."""
    monkeypatch.setattr(Dispatch, "_append_more", lambda self, now_s: None)
    plan = attrs.evolve(hard_plan(), script=(), duration_s=2.0)
    (violation,) = run_plan(plan).violations
    assert violation.checker == "Converges"


def test_the_table_that_was_written_down_names_all() -> None:
    text = (SCRIPTS / "README.md").read_text(encoding="utf-8")
    groups = text.partition("## DLedger's whole groups")[2].partition("## ")[0]
    rows = [line.strip("| ").split(" | ") for line in groups.splitlines()[4:] if line]
    assert [row[0] for row in rows] == list(MUTATIONS)
    assert len(rows) >= 28
    assert all(row[1] != "nobody" for row in rows)
    assert {row[0] for row in rows if row[2] == "script"} == SCRIPTED
    assert all(int(row[2]) < 500 for row in rows if row[2] != "script")


def test_every_break_says_what_it_is() -> None:
    assert all(mutation.__doc__ for mutation in MUTATIONS.values())
