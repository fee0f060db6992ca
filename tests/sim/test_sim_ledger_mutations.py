"""DLedger broken on purpose: a checker of a short simulated run objects, and not to good code.

All breaks, over drawn seeds: `python tests/sim/sim_mutations.py --mode dledger`.
"""

from __future__ import annotations

import attrs
import pytest
from sim_mutations import OF_MODE, SCRIPTED, SCRIPTS, hunt_in_script, objects
from test_sim_ledger_world import short_plan

from actors.dledger.core.dispatch import Dispatch
from actors.sim.actions.script import parse_fault
from actors.sim.dledger.plan import LedgerPlan
from actors.sim.running import run_plan
from actors.sim.workload import WorkloadOptions

SCRIPT = (
    "at 1.5 isolate n0 for 3.0",
    "at 3.0 power_loss n1 for 0.3",
    "at 5.0 isolate n1 for 3.0",
    "at 6.5 power_loss n2 for 0.3",
    "at 8.5 isolate n2 for 3.0",
    "at 10.0 power_loss n0 for 0.3",
)
MACHINE_SCRIPT = (
    "at 2.0 power_loss n0 for 0.3",
    "at 3.0 install_kill n1 for 0.3 in loaded-leader",
    "at 5.0 power_loss n1 for 0.3",
    "at 6.0 isolate n0 for 2.0",
)
BUSY = WorkloadOptions(
    appenders=5, pause_mean_s=0.3, batch_max=3, body_mean_bytes=200, read_pause_mean_s=0.3
)
MUTATIONS = {mutation.__name__: mutation for mutation in OF_MODE["dledger"]}


def hard_plan() -> LedgerPlan:
    """Every member is cut off once, and loses its power, while clients are busy."""
    load = WorkloadOptions(appenders=4, pause_mean_s=0.3, batch_max=3, read_pause_mean_s=0.3)
    script = tuple(map(parse_fault, SCRIPT))
    return attrs.evolve(short_plan(), load=load, script=script, duration_s=12.0)


def machine_plan(*script: str, **settings: object) -> LedgerPlan:
    """A state machine, with snapshots every few entries, and members that need one."""
    machine = {"machine": 0, "snapshot_entries": 10, "data_file_bytes": 4096}
    plan = attrs.evolve(short_plan(**{**machine, **settings}), load=BUSY, duration_s=12.0)
    return attrs.evolve(plan, script=tuple(map(parse_fault, script or MACHINE_SCRIPT)))


def test_good_code_passes() -> None:
    outcome = run_plan(hard_plan())
    assert outcome.violations == ()
    assert outcome.counts["elections"] > 2


def test_good_code_with_a_machine_passes() -> None:
    outcome = run_plan(machine_plan())
    assert outcome.violations == ()
    assert outcome.counts["snapshots taken"] > 10
    assert outcome.counts["snapshots installed whole"] > 0
    assert outcome.counts["snapshots loaded"] > 2


@pytest.mark.parametrize(
    ("name", "checker"),
    [
        ("snapshot_is_not_synced", "SnapshotIsReplay"),
        ("last_entry_again_after_a_load", "AppliedOnceInOrder"),
        ("installed_is_not_loaded", "MachineIsReplay"),
        ("install_keeps_the_old_tail", "NodesStart"),
        ("machine_takes_what_is_written", "MachineIsReplay"),
        ("results_of_the_entry_before", "ResultsAreReplay"),
        ("answered_before_it_is_applied", "ResultsAreReplay"),
    ],
)
def test_a_break_of_the_machine_is_caught(name: str, checker: str) -> None:
    assert objects(checker, MUTATIONS[name], machine_plan())


def test_a_snapshot_that_says_too_much_is_caught() -> None:
    """Nobody needs it: who sends an entry that it has not got sends it again and again."""
    plan = attrs.evolve(machine_plan("at 2.0 kill n0 for 0.3"), duration_s=4.0)
    assert run_plan(plan).violations == ()
    assert objects("SnapshotIsReplay", MUTATIONS["snapshot_says_one_more"], plan)


def test_a_torn_snapshot_is_caught() -> None:
    script = ("at 5.0 snapshot_rot n0 for 0.3", "at 8.0 snapshot_rot n1 for 0.3")
    plan = machine_plan(*script, machine=9000)
    outcome = run_plan(plan)
    assert outcome.violations == ()
    assert outcome.counts["mark snapshot failed"] > 0
    assert objects("NothingFails", MUTATIONS["torn_snapshot_is_loaded"], plan)


def test_a_log_that_goes_too_far_is_caught() -> None:
    plan = machine_plan("at 3.0 isolate n0 for 0.3", snapshot_entries=60, snapshot_keep=1)
    assert run_plan(plan).violations == ()
    assert objects("GoneIsInSnapshot", MUTATIONS["log_goes_before_its_snapshot"], plan)


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


LOST_DISK = (
    "at 0.6 new_disk n1 for 3.0 in disk",
    "at 1.6 cut n0 n2 for 16.0",
    "at 4.0 cut n0 n1 for 14.0",
)
"""n0 leads; n2 lacks what n1 had, which comes back with nothing, and hears n2 alone."""


@pytest.mark.parametrize("lost", ["disk", "logs"])
def test_a_vote_of_who_lost_its_disk_is_caught(lost: str) -> None:
    script = (LOST_DISK[0].replace("in disk", f"in {lost}"), *LOST_DISK[1:])
    faults = tuple(map(parse_fault, script))
    plan = attrs.evolve(short_plan(), load=BUSY, duration_s=20.0, script=faults)
    outcome = run_plan(plan)
    assert outcome.violations == ()
    assert outcome.counts["fault new_disk"] == 1
    assert objects("LeaderCompleteness", MUTATIONS["lost_logs_vote_like_others"], plan)


def test_a_group_that_does_not_come_together_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
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
