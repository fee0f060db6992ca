"""Each judge that a classic row of the guarantees' table names objects when the row is broken.

`test_sim_mutations` sees to it that each break is noticed, by whichever checker is the first. Here
a judge has to notice by itself, in a group of the row: one that says nothing is no judge of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest
from broken_code import (
    Mutation,
    acknowledge_before_own_sync,
    acknowledge_before_the_slaves,
    acknowledge_before_write,
)
from broken_store import recovery_cuts_below_the_mark
from sim_mutations import SCRIPTS, objects
from test_sim_mutations import short_plan, unbroken

from actors.config import kinds
from actors.sim.actions.script import parse_fault
from actors.sim.commands.script_file import dump_plan, load_plan
from actors.sim.plan import Plan

SEEDS_MAX = 16
"""A kill that hits what is acknowledged and not yet written shows in every third or fourth run."""
BOTH = ("synced", "written")
ALONE = ("at 1.0 isolate n1 for 3.0", "at 1.0 isolate n2 for 3.0", "at 2.5 kill n0 for 0.5")
"""The master goes on without its slaves, and dies."""
REPLACED = ("at 1.0 fail_over n1 for 1.0 extra 1.0",)
POWER_LOST = tuple(f"at {at_s} power_loss_all n0 n1 n2 for 0.3" for at_s in (1.5, 3.0, 4.5, 6.0))
"""Of all: a member that lives on has heard what was acknowledged, so a master that lost some of it
stays fenced, and no log comes to be judged.
"""
KILLED = tuple(f"at {at_s} kill n0 for 0.3" for at_s in (1.5, 3.0, 4.5, 6.0))

Case = tuple[int, str, str]
"""Copies (2 stands for n), durability, judge."""

BREAKS: dict[Case, tuple[Mutation, tuple[str, ...] | None]] = {
    (1, "synced", "AcknowledgedIsOnDisks"): (acknowledge_before_own_sync, ()),
    (1, "synced", "AcknowledgedSurvives"): (acknowledge_before_own_sync, POWER_LOST),
    (1, "written", "AcknowledgedIsOnDisks"): (acknowledge_before_write, ()),
    (1, "written", "AcknowledgedSurvives"): (acknowledge_before_write, KILLED),
    **{
        (2, durability, judge): (acknowledge_before_the_slaves, script)
        for durability in BOTH
        for judge, script in (
            ("AcknowledgedIsOnDisks", ALONE),
            ("FurthestHolds", ALONE),
            ("AcknowledgedSurvives", REPLACED),
        )
    },
    **{
        (copies, "synced", "SyncedSurvives"): (recovery_cuts_below_the_mark, None)
        for copies in (1, 2)
    },
}
"""What breaks the promise of such a group, and the faults that show it; None: its own script."""


def promised() -> Iterator[Case]:
    """What the table says of the rows for `copies`; the other classic rows are as these."""
    for row in kinds.table():
        for copies in (1, 2):
            for durability in BOTH:
                words = f'`copies = {"n" if copies > 1 else copies}`, `durability = "{durability}"`'
                if row.mode == f"classic, {words}":
                    yield from ((copies, durability, judge) for judge in row.judges)


def plan_of(case: Case) -> Plan:
    copies, durability, _ = case
    mutation, script = BREAKS[case]
    if script is None:
        path = SCRIPTS / f"{mutation.__name__}.toml"
        plan, _ = load_plan(path.read_text(encoding="utf-8"))
    else:
        plan = attrs.evolve(short_plan(), script=tuple(map(parse_fault, script)))
    settings = {**plan.settings, "copies": copies, "durability": durability}
    return attrs.evolve(plan, settings=settings)


def test_every_promise_has_a_break() -> None:
    assert set(promised()) == set(BREAKS)
    judges = {judge for row in kinds.table() for judge in row.judges if "classic" in row.mode}
    assert judges - {"tests/traps.py"} == {judge for _, _, judge in BREAKS}


@pytest.mark.parametrize("case", BREAKS, ids=lambda case: " ".join(map(str, case)))
def test_a_judge_objects_to_the_break_of_its_row(case: Case) -> None:
    mutation, judge = BREAKS[case][0], case[2]
    plan = plan_of(case)
    for number in range(SEEDS_MAX):
        each = attrs.evolve(plan, seed=plan.seed + "+" * number)
        if objects(judge, mutation, each):
            assert unbroken(dump_plan(each, expect="", comment="")) == ()
            return
    pytest.fail(f"{judge} says nothing about {mutation.__name__} in {SEEDS_MAX} runs")
