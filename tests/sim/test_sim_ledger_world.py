"""Drawn and short runs of DLedger groups: what they are made of, and that they repeat."""

from __future__ import annotations

import attrs
import pytest

from actors.events.dledger import RoleChanged
from actors.sim.disk import DiskOptions
from actors.sim.dledger.actions import LEDGER_ACTIONS
from actors.sim.dledger.plan import LedgerPlan, draw_ledger_plan
from actors.sim.faults import FAULTS_MIN
from actors.sim.history import FaultInjected, Observation
from actors.sim.network import NetworkOptions
from actors.sim.running import run_plan
from actors.sim.script import parse_fault
from actors.sim.script_file import dump_plan, load_plan
from actors.sim.workload import WorkloadOptions
from actors.sim.world import SimEvent

SCRIPT = (
    "at 2.0 cut n0 n1 for 3.0",
    "at 3.0 power_loss n2 for 0.5",
    "at 6.0 transfer n1 n2 for 1.0",
    "at 8.0 expire n1 n2 for 2.0",
    "at 12.0 kill n0 for 1.0",
    "at 13.0 lose_disk n1 for 1.0",
)


def short_plan(nodes: int = 3, **settings: object) -> LedgerPlan:
    """Fifteen virtual seconds with one fault after the other."""
    return LedgerPlan(
        seed="short",
        nodes=nodes,
        settings={"heartbeat_interval_s": 0.5, "data_file_bytes": 8192, **settings},
        skews_ms={},
        network=NetworkOptions(),
        disk=DiskOptions(),
        policy="random",
        tell_yields=0.05,
        load=WorkloadOptions(appenders=3, body_mean_bytes=600, read_pause_mean_s=1.0),
        script=tuple(map(parse_fault, SCRIPT)),
        duration_s=15.0,
    )


def test_a_short_run() -> None:
    outcome = run_plan(short_plan(groups=2))
    assert outcome.violations == ()
    for what in ("elections", "commits", "fresh reads", "restarts", "expiries", "transfers"):
        assert outcome.counts[what] > 0, what
    assert outcome.counts["fault lose_disk"] == 1
    assert outcome.counts["acknowledged records"] > 50


def test_it_repeats() -> None:
    plan = attrs.evolve(short_plan(), script=short_plan().script[:2], duration_s=5.0)
    one, two = run_plan(plan), run_plan(plan)
    assert (one.digest, one.fingerprint) == (two.digest, two.fingerprint)


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_other_sizes(nodes: int) -> None:
    script = (parse_fault("at 2.0 kill n0 for 1.0"), parse_fault("at 5.0 stop n0 for 1.0"))
    plan = attrs.evolve(short_plan(nodes), script=script, duration_s=7.0)
    outcome = run_plan(plan)
    assert outcome.violations == ()
    assert outcome.counts["acknowledged records"] > 0


def test_a_memory_group() -> None:
    script = (parse_fault("at 2.0 isolate n0 for 6.0"), parse_fault("at 9.0 pause n1 for 2.0"))
    plan = attrs.evolve(short_plan(store="memory"), script=script, duration_s=12.0)
    assert run_plan(plan).violations == ()


def test_what_is_drawn() -> None:
    plans = [draw_ledger_plan(str(seed)) for seed in range(200)]
    assert {plan.nodes for plan in plans} == {1, 2, 3, 4, 5}
    assert {len(plan.ledgers) for plan in plans} == {1, 2, 3}
    assert {plan.ledgers[0].store for plan in plans} == {"file", "memory"}
    assert all(plan.duration_s >= 60 and len(plan.script) >= FAULTS_MIN for plan in plans)
    assert all(plan.load.appenders + plan.load.readers >= 5 for plan in plans)
    for plan in plans:
        group = plan.ledgers[0]
        kinds = {fault.kind for fault in plan.script}
        ends = [kind for kind in kinds if LEDGER_ACTIONS[kind].restarts]
        assert bool(ends) == (group.store == "file")
        assert group.durability == "synced" or not {k for k in kinds if "power" in k}
    drawn = {fault.kind for plan in plans for fault in plan.script}
    assert drawn == set(LEDGER_ACTIONS)


def test_a_run_as_a_file() -> None:
    plan = draw_ledger_plan("11")
    again, expect = load_plan(dump_plan(plan, expect="LogMatching"))
    assert expect == "LogMatching"
    assert again.config == plan.config
    assert again.script == plan.script
    assert type(again) is LedgerPlan


def test_a_member_that_lost_its_disk_begins_in_a_term_without_votes() -> None:
    """Its real vote is forgotten: said to be for itself in a term that has one, it would be given
    twice."""
    script = tuple(parse_fault(f"at {4 * number}.0 lose_disk n0 for 0.2") for number in (1, 2))
    plan = attrs.evolve(short_plan(), script=script, duration_s=9.0)
    seen: list[Observation] = []
    assert run_plan(plan, seen.append).violations == ()
    highest, wiped, begun = -1, False, 0
    for each in seen:
        wiped = wiped or (isinstance(each, FaultInjected) and each.kind == "wiped")
        if isinstance(each, SimEvent) and isinstance(each.event, RoleChanged):
            if wiped:
                assert each.node == "n0"
                assert each.event.term > highest
                wiped, begun = False, begun + 1
            highest = max(highest, each.event.term)
    assert begun == 2
