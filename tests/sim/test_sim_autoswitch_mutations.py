"""What is special about auto-switch groups, broken on purpose: a checker objects to each variant in
a short plan, and the unbroken code passes. Another history may need another schedule to show the
same break, so a few may be tried.

Those are here that are caught soon; `make mutations` hunts all.
"""

from __future__ import annotations

import pytest
from autoswitch_plans import HARD
from broken_autoswitch import AUTOSWITCH_MUTATIONS
from sim_mutations import LETTERS, SCRIPTS, objects, passes

from actors.sim.running import run_plan

MUTATIONS = {mutation.__name__: mutation for mutation in AUTOSWITCH_MUTATIONS}
ENOUGH = 30


@pytest.mark.parametrize("name", HARD)
def test_unbroken_code_passes(name: str) -> None:
    outcome = run_plan(HARD[name]("a"))
    assert outcome.violations == ()
    assert outcome.counts["acknowledged records"] > 100
    assert outcome.counts["sets changed"] > 1


@pytest.mark.parametrize(
    ("name", "plan", "checker"),
    [
        ("confirms_alone", "alone", "AcknowledgedIsOnTheSet"),
        ("epoch_begins_early", "alone", "AcknowledgedIsInEpochs"),
        ("epoch_stays_at_an_election", "alone", "OneMasterPerEpoch"),
        ("lease_is_ignored", "alone", "NewestMasterAcknowledges"),
        ("show_what_is_not_acknowledged", "alone", "ShownIsOnTheSet"),
        ("whoever_lives_is_elected", "alone", "AcknowledgedIsInEpochs"),
        ("anybody_alters_the_set", "switches", "AcknowledgedIsOnTheSet"),
        ("confirmed_is_what_was_written", "switches", "ShownIsOnTheSet"),
        ("cut_at_the_last_epoch", "switches", "CutsSpareAcknowledged"),
        ("no_cut", "switches", "NothingFails"),
        ("set_is_grown_too_early", "switches", "AcknowledgedIsOnTheSet"),
        ("slaves_report_what_they_have_written", "switches", "ReportedIsHeld"),
        ("written_counts", "alone", "AcknowledgedIsOnTheSet"),
        ("lost_answer_is_a_refusal", "answers", "AcknowledgedIsOnTheSet"),
        ("any_number_is_enough", "replaced", "AcknowledgedIsOnTheSet"),
        ("learner_joins", "replaced", "LearnersStayOut"),
        ("learner_asks_for_an_election", "learning", "LearnersStayOut"),
        ("an_operator_gets_whom_he_names", "by_hand", "AcknowledgedIsInEpochs"),
        ("recovery_cuts_below_the_mark", "rotten", "SyncedSurvives"),
        ("a_power_loss_leaves_no_doubt", "unsynced", "AcknowledgedIsInEpochs"),
    ],
)
def test_a_break_is_caught(name: str, plan: str, checker: str) -> None:
    for letter in LETTERS:
        if objects(checker, MUTATIONS[name], HARD[plan](letter)):
            assert passes(plan, letter)
            return
    pytest.fail(f"{checker} says nothing about {name} in {len(LETTERS)} runs")


def test_the_table_that_was_written_down_names_all() -> None:
    text = (SCRIPTS / "README.md").read_text(encoding="utf-8")
    groups = text.partition("## Auto-switch groups")[2].partition("## ")[0]
    rows = [line.strip("| ").split(" | ") for line in groups.splitlines() if line[:2] == "| "][1:]
    assert [row[0] for row in rows] == list(MUTATIONS)
    assert len(rows) >= ENOUGH
    assert all(row[1] != "nobody" for row in rows)


def test_every_break_says_what_it_is() -> None:
    assert all(mutation.__doc__ for mutation in AUTOSWITCH_MUTATIONS)
