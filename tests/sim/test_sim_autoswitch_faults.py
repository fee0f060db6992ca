"""Faults that once broke an auto-switch group, as short scripts on simulated clusters."""

from __future__ import annotations

import attrs
import pytest
from autoswitch_plans import by_hand

from actors.sim.actions.script import parse_fault
from actors.sim.autoswitch.plan import AutoSwitchPlan
from actors.sim.disk import DiskOptions
from actors.sim.network import NetworkOptions
from actors.sim.plan import Outcome
from actors.sim.running import run_plan
from actors.sim.workload import WorkloadOptions


def run(
    *lines: str,
    replicas: int = 2,
    nodes: int | None = None,
    until_s: float = 10.0,
    **settings: object,
) -> Outcome:
    """Run a script on so many replicas, one of whose nodes is the controller too."""
    plan = attrs.evolve(
        AutoSwitchPlan.draw("script"),
        nodes=replicas if nodes is None else nodes,
        replicas=replicas,
        controllers=1,
        settings={"min_in_sync_replicas": 1, "segment_bytes": 16 << 10, **settings},
        skews_ms={},
        network=NetworkOptions(),
        disk=DiskOptions(sync_mean_s=0.001),
        policy="random",
        tell_yields=0.0,
        load=WorkloadOptions(pause_mean_s=0.2, body_mean_bytes=500, batch_max=4),
        script=tuple(map(parse_fault, lines)),
        duration_s=until_s,
    )
    return run_plan(plan)


def test_a_master_counts_only_what_is_on_its_disk_when_its_actors_start_again() -> None:
    outcome = run(
        *(f"at 3.0 slow_sync {node} for 4.0 extra 1.0" for node in ("n0", "n1")),
        *(
            f"at {at} crash_actor {node} for 0.1 in pull_service"
            for at in (5.0, 6.5)
            for node in ("n0", "n1")
        ),
    )
    assert outcome.violations == ()
    assert outcome.counts["fault crash_actor"] == 4


@pytest.mark.parametrize("for_s", ["1.0", "5.0"])
def test_an_answer_about_the_set_may_come_late_or_never(for_s: str) -> None:
    outcome = run(
        f"at 0.5 lose_answer n0 for {for_s} in alter",
        f"at 0.6 lose_answer n0 for {for_s} in elect",
        "at 7.0 kill n1 for 0.1",
        nodes=3,
        until_s=12.0,
        min_in_sync_replicas=2,
    )
    assert outcome.violations == ()
    assert outcome.counts["fault lose_answer"] >= 1
    assert outcome.counts["acknowledged records"] > 0


def test_a_replica_with_an_empty_disk_takes_the_place_of_the_one_before() -> None:
    outcome = run(
        *(f"at 3.0 new_disk {node} for 0.1" for node in ("n0", "n1", "n2")),
        "at 30.0 kill n0 for 0.1",
        replicas=3,
        until_s=35.0,
        min_in_sync_replicas=2,
    )
    assert outcome.violations == ()
    assert outcome.counts["fault new_disk"] == 2


def test_a_master_that_lost_its_power_does_not_go_on_in_its_epoch() -> None:
    """Others of the set have what was answered, and it has not, as it had only written it."""
    outcome = run(
        *(f"at 1.0 slow_sync {node} for 8.0 extra 2.0" for node in ("n0", "n1")),
        "at 6.0 power_loss n0 for 0.1",
        "at 8.0 power_loss n1 for 0.1",
        nodes=3,
        until_s=12.0,
        durability="written",
        min_in_sync_replicas=2,
    )
    assert outcome.violations == ()
    assert outcome.counts["fault power_loss"] == 2
    assert outcome.counts["epochs"] > 1


def test_what_was_answered_may_be_lost_with_the_power_of_all() -> None:
    outcome = run(
        *(f"at 1.0 slow_sync {node} for 8.0 extra 2.0" for node in ("n0", "n1")),
        "at 6.0 power_loss n0 n1 for 0.1",
        nodes=3,
        until_s=10.0,
        durability="written",
        min_in_sync_replicas=2,
    )
    assert outcome.violations == ()
    assert outcome.counts["mark acknowledged records given up"] > 0


def test_an_append_of_two_is_not_answered_by_one() -> None:
    """A slave goes while appends wait for it, and the set shrinks to the master."""
    outcome = run(
        "at 2.0 slow_sync n0 for 8.0 extra 0.3",
        "at 2.0 slow_sync n1 for 8.0 extra 0.3",
        "at 3.0 kill n0 for 0.5",
        "at 6.0 kill n0 for 0.5",  # it is a slave now, if it was not before
        nodes=3,
        until_s=12.0,
        min_in_sync_replicas=2,
    )
    assert outcome.violations == ()
    assert outcome.counts["sets changed"] > 3
    assert outcome.counts["unknown records"] > 0


def test_an_operator_may_have_anybody_elected_at_any_moment() -> None:
    outcome = run_plan(by_hand())
    assert outcome.violations == ()
    assert outcome.counts["fault elect"] == 10
    assert outcome.counts["mark elected inside"] > 0
    assert outcome.counts["mark not elected outside changing"] > 0
    assert any("headless" in name for name in outcome.counts)
