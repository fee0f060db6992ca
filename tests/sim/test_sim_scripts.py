"""Scripts: text that reads back exactly, and drawing from a seed without one disturbing another."""

from __future__ import annotations

import random

import pytest

from actors.sim.actions.action import FAULTS_MIN, STEADY, Ground, draw_script
from actors.sim.actions.script import Fault, dump_fault, parse_fault
from actors.sim.classic.faults import ACTIONS
from actors.sim.classic.judges.survival import POWER_LOSSES

GROUND = Ground(names=("n0", "n1", "n2"), duration_s=60.0, expires=True)
WRITTEN = Ground(names=("n0", "n1", "n2"), duration_s=60.0, spare_power=("n0",))


@pytest.mark.parametrize("seed", range(20))
def test_every_line_reads_back(seed: int) -> None:
    for fault in draw_script(str(seed), GROUND, ACTIONS):
        assert parse_fault(dump_fault(fault)) == fault


@pytest.mark.parametrize(
    "line",
    [
        "",
        "at",
        "at x kill n0",
        "12 kill n0",
        "at 1.0 kill",
        "at 1.0 kill n0 for",
        "at 1 kill n0 for x",
    ],
)
def test_a_line_that_is_none_is_refused_and_shown(line: str) -> None:
    with pytest.raises(ValueError, match="no line of a script") as refused:
        parse_fault(line)
    assert repr(line) in str(refused.value)


def test_a_line_for_a_person() -> None:
    fault = parse_fault("at 3 eio_write n0 n1 for 2.125 in commitlog extra 3")
    assert fault.nodes == ("n0", "n1")
    assert str(fault) == "eio_write n0 n1 for 2.12 s in commitlog extra 3.000"


def test_scripts_are_long_enough_and_restart_somebody() -> None:
    seen: set[str] = set()
    for seed in range(100):
        script = draw_script(str(seed), GROUND, ACTIONS)
        assert len(script) >= FAULTS_MIN
        assert any(ACTIONS[fault.kind].restarts for fault in script)
        assert [fault.at_s for fault in script] == sorted(fault.at_s for fault in script)
        for fault in script:
            assert len(set(fault.nodes)) == len(fault.nodes)
        seen.update(fault.kind for fault in (*script, *draw_script(str(seed), WRITTEN, ACTIONS)))
    assert seen == set(ACTIONS)


def test_power_stays_where_nothing_is_promised_without_it() -> None:
    for seed in range(100):
        for fault in draw_script(str(seed), WRITTEN, ACTIONS):
            if fault.kind in POWER_LOSSES:
                assert "n0" not in fault.nodes


def test_another_action_changes_no_line_of_the_others() -> None:
    before = draw_script("7", GROUND, ACTIONS)

    class More(type(ACTIONS["kill"])):  # type: ignore[misc]
        name = "more"
        chance = 1.0

    after = draw_script("7", GROUND, {"more": More(), **ACTIONS})
    assert [fault for fault in after if fault.kind != "more"] == list(before)
    assert len(after) > len(before)


def test_a_script_that_is_too_short_is_filled_up(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = {name: ACTIONS[name] for name in STEADY}
    for action in steady.values():
        monkeypatch.setattr(type(action), "chance", 0.0)
    assert len(draw_script("1", GROUND, steady)) == FAULTS_MIN


def test_names_are_kept() -> None:
    """Scripts that were checked in name them."""
    for name, action in ACTIONS.items():
        assert action.name == name
        fault = action.draw(random.Random(1), GROUND if action.nodes(GROUND) else WRITTEN)
        assert isinstance(fault, Fault)
        assert fault.kind == name
