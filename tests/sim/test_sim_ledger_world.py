"""Drawn and short runs of DLedger groups: what they are made of, and that they repeat."""

from __future__ import annotations

import random
from typing import cast

import attrs
import pytest
import trio

from actors.events.dledger import RoleChanged
from actors.sim.actions.action import FAULTS_MIN
from actors.sim.actions.script import parse_fault
from actors.sim.commands.script_file import dump_plan, load_plan
from actors.sim.disk import DiskOptions
from actors.sim.dledger.faults import LEDGER_ACTIONS, MACHINE_ACTIONS, MEMORY_ACTIONS
from actors.sim.dledger.members import SimGroups
from actors.sim.dledger.plan import LedgerPlan
from actors.sim.dledger.workload import LedgerWorkload
from actors.sim.history import AppendAsked, AppendUnknown, FaultInjected, History, Observation
from actors.sim.network import NetworkOptions
from actors.sim.running import run_plan
from actors.sim.workload import WorkloadOptions
from actors.sim.world import SimEvent
from actors.storage.ledger.snapshots import CHUNK_BYTES

ALL = {**LEDGER_ACTIONS, **MEMORY_ACTIONS, **MACHINE_ACTIONS}
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


@pytest.mark.parametrize("after_ms", [1, 2, 5])
def test_the_machine_that_asks_for_a_transfer_goes_off(after_ms: int) -> None:
    script = (
        parse_fault("at 2.0 transfer n1 n2 for 1.0"),
        parse_fault(f"at 2.00{after_ms} power_loss n2 for 1.0"),
    )
    outcome = run_plan(attrs.evolve(short_plan(), script=script, duration_s=5.0))
    assert outcome.violations == ()
    assert outcome.counts["fault transfer"] == outcome.counts["fault power_loss"] == 1


async def test_an_append_whose_client_is_stopped_stays_open(autojump_clock: object) -> None:
    """What it asked for may turn up."""

    class Silent:
        with_machines = False

        async def heard(self, *_: object) -> None:
            await trio.sleep_forever()

    history, plan = History(), short_plan()
    silent = cast(SimGroups, Silent())
    load = LedgerWorkload(silent, plan.ledgers[0], history, plan.load, random.Random(1))
    with trio.move_on_after(1.0):
        await load.append_now((b"x",))
    asked, answered = history.observations
    assert isinstance(asked, AppendAsked)
    assert isinstance(answered, AppendUnknown)
    assert answered.operation == asked.operation


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_other_sizes(nodes: int) -> None:
    script = (parse_fault("at 2.0 kill n0 for 1.0"), parse_fault("at 5.0 stop n0 for 1.0"))
    plan = attrs.evolve(short_plan(nodes), script=script, duration_s=7.0)
    outcome = run_plan(plan)
    assert outcome.violations == ()
    assert outcome.counts["acknowledged records"] > 0


def test_a_node_that_is_being_stopped_is_not_paused() -> None:
    """It would wake up when the time that its parts have for stopping is over."""
    lines = ("at 1.5 slow_sync n0 for 3.0 extra 1.5", "at 2.5 stop n0 for 0.5")
    script = (*map(parse_fault, lines), parse_fault("at 2.8 pause n0 for 7.0"))
    load = WorkloadOptions(appenders=5, pause_mean_s=0.1)
    plan = attrs.evolve(short_plan(), script=script, load=load, duration_s=4.0)
    outcome = run_plan(plan)
    assert outcome.violations == ()
    assert outcome.counts["fault stop"] == 1
    assert "fault pause" not in outcome.counts


def test_a_memory_group() -> None:
    script = (parse_fault("at 2.0 isolate n0 for 6.0"), parse_fault("at 9.0 pause n1 for 2.0"))
    plan = attrs.evolve(short_plan(store="memory"), script=script, duration_s=12.0)
    assert run_plan(plan).violations == ()


def test_members_in_memory_forget_one_after_the_other() -> None:
    script = (
        parse_fault("at 2.0 forget n0 for 0.2"),
        parse_fault("at 2.1 forget n1 for 0.2"),
        parse_fault("at 2.2 isolate n2 for 4.0"),
        parse_fault("at 5.0 forget n2 for 2.0"),
    )
    plan = attrs.evolve(short_plan(store="memory"), script=script, duration_s=12.0)
    outcome = run_plan(plan)
    assert outcome.violations == ()
    assert outcome.counts["fault forget"] == outcome.counts["restarts"] == 3
    assert outcome.counts["acknowledged records"] > 10


def machine_plan(*script: str, **settings: object) -> LedgerPlan:
    """A state machine, snapshots every few entries, small files, and busy clients."""
    machine = {"machine": 0, "snapshot_entries": 10, "data_file_bytes": 4096, **settings}
    load = WorkloadOptions(appenders=5, pause_mean_s=0.3, body_mean_bytes=200)
    plan = attrs.evolve(short_plan(**machine), load=load, duration_s=10.0)
    return attrs.evolve(plan, script=tuple(map(parse_fault, script)))


@pytest.mark.parametrize(
    ("moment", "how"),
    [
        *(("piece", "power"), ("sync", "power"), ("saved", "kill"), ("loading", "kill")),
        *(("loaded", "power"), ("piece", "wipe"), ("loading", "wipe")),
        *(("sync", "leader"), ("loaded", "leader")),
    ],
)
def test_a_member_ends_while_a_snapshot_comes(moment: str, how: str) -> None:
    plan = machine_plan(f"at 2.0 install_kill n1 for 0.3 in {moment}-{how}")
    outcome = run_plan(attrs.evolve(plan, duration_s=5.0))
    assert outcome.violations == ()
    assert outcome.counts["fault install_kill"] == 1
    assert outcome.counts["snapshots installed whole"] > 0
    ended = "restarts during installs" if how != "leader" else "mark leader ended during an install"
    assert outcome.counts[ended] == 1


def test_a_snapshot_goes_in_pieces() -> None:
    plan = machine_plan(
        "at 2.0 install_kill n1 for 0.3 in piece-power", machine=2_500_000, snapshot_entries=40
    )
    outcome = run_plan(attrs.evolve(plan, duration_s=5.0))
    assert outcome.violations == ()
    assert outcome.counts["snapshots installed in pieces"] > 0
    assert outcome.counts["restarts during installs"] == 1


@pytest.mark.parametrize("lazy", [False, True])
def test_members_end_while_they_write_and_load_snapshots(lazy: bool) -> None:
    plan = machine_plan(
        "at 2.0 snapshot_kill n0 for 0.2 in power extra 0.0",
        "at 4.0 recovery_kill n1 for 0.2 in power",
        "at 6.0 snapshot_rot n2 for 0.2",
        "at 7.0 snapshot_kill n2 for 0.2 in kill extra 1.1",
        "at 8.0 recovery_kill n0 for 0.2 in kill",
        lazy=lazy,
        machine=9000,
    )
    outcome = run_plan(plan)
    assert outcome.violations == ()
    assert outcome.counts["restarts during snapshots"] > 0
    assert outcome.counts["restarts during recoveries"] == 2
    assert outcome.counts["fault snapshot_rot"] == 1
    assert outcome.counts["mark snapshot failed"] == 1
    assert outcome.counts["machine reads"] > 0


def test_what_is_drawn() -> None:
    plans = [LedgerPlan.draw(str(seed)) for seed in range(200)]
    assert {plan.nodes for plan in plans} == {1, 2, 3, 4, 5}
    assert {len(plan.ledgers) for plan in plans} == {1, 2, 3}
    assert {plan.ledgers[0].store for plan in plans} == {"file", "memory"}
    assert all(plan.duration_s >= 60 and len(plan.script) >= FAULTS_MIN for plan in plans)
    assert all(plan.load.appenders + plan.load.readers >= 5 for plan in plans)
    for plan in plans:
        group = plan.ledgers[0]
        kinds = {fault.kind for fault in plan.script}
        ends = [kind for kind in kinds if ALL[kind].restarts]
        assert ends or group.store == "memory"
        assert group.store == "file" or set(ends) <= {"forget"}
        assert group.durability == "synced" or not {k for k in kinds if "power" in k}
    drawn = {fault.kind for plan in plans for fault in plan.script}
    assert drawn == set(ALL)
    machines = [plan for plan in plans if plan.machine]
    assert 80 < len(machines) < 140
    assert all(plan.ledgers[0].snapshot_entries <= 80 for plan in machines)
    assert any(plan.settings["machine"] > CHUNK_BYTES for plan in machines)
    assert {plan.settings["snapshot_keep"] for plan in machines} == {1, 2, 3}
    assert {plan.settings["lazy"] for plan in machines} == {False, True}


def test_a_run_as_a_file() -> None:
    plan = LedgerPlan.draw("11")
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


def test_who_replaces_a_log_makes_room_first() -> None:
    """A full disk is the nodes' trouble, not the operator's."""
    lines = ("at 4.0 new_disk n0 for 3.0 in logs", "at 6.0 disk_full n0 for 3.0")
    plan = attrs.evolve(short_plan(), script=tuple(map(parse_fault, lines)), duration_s=9.0)
    outcome = run_plan(plan)
    assert outcome.violations == ()
    assert outcome.counts["fault new_disk"] == outcome.counts["fault disk_full"] == 1


def test_a_new_disk_that_is_full_already_is_waited_for() -> None:
    """A start that has no room for the node's folders fails as that, and is tried again."""
    lines = ("at 4.0 new_disk n0 for 3.0 in disk", "at 4.5 disk_full n0 for 9.0")
    plan = attrs.evolve(short_plan(), script=tuple(map(parse_fault, lines)), duration_s=15.0)
    seen: list[Observation] = []
    outcome = run_plan(plan, seen.append)
    assert outcome.violations == ()
    kinds = [each.kind for each in seen if isinstance(each, FaultInjected)]
    assert "start failed" in kinds
