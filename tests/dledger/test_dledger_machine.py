"""Groups of three and of five under faults that hypothesis chooses: a few, as a test."""

from __future__ import annotations

import core_machine
import pytest
from core_machine import GroupMachine, OfFive, OfThree
from core_world import World
from hypothesis import Phase, settings

BOUNDED = settings(core_machine.ROUND, max_examples=50, stateful_step_count=25, derandomize=True)
"""`.ci/run` plays 100,000 steps besides."""
SHORT = settings(core_machine.ROUND, max_examples=8)

TestGroupOfThree = OfThree.TestCase
TestGroupOfThree.settings = BOUNDED
TestGroupOfFive = OfFive.TestCase
TestGroupOfFive.settings = BOUNDED


def test_the_command_plays_so_many_steps_and_says_how_fast(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert core_machine.main(["--steps", "300", "--seed", "7"]) == 0
    done = int(capsys.readouterr().out.split(" steps in ")[0])
    assert 300 <= done == GroupMachine.steps_done


def test_a_seed_draws_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[int, object]] = []
    real = World.start_all

    def start_all(world: World) -> None:
        begun.append((world.seed, world.push))
        real(world)

    monkeypatch.setattr(World, "start_all", start_all)
    monkeypatch.setattr(core_machine, "ROUND", SHORT)
    core_machine.play(50, 1)  # hypothesis also draws from constants of modules, once all are loaded
    begun.clear()
    core_machine.play(50, 1)
    first, begun[:] = list(begun), []
    core_machine.play(50, 1)
    assert begun == first
    core_machine.play(50, 2)
    assert begun[len(first) :] != first


def test_what_breaks_in_a_step_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(world: World) -> None:
        raise AssertionError("LogMatching: on purpose")

    monkeypatch.setattr(World, "heal", step)
    first = settings(SHORT, phases=[Phase.generate])  # not the smallest: that takes a while
    monkeypatch.setattr(core_machine, "ROUND", first)
    with pytest.raises(AssertionError, match="LogMatching"):
        core_machine.main(["--steps", "50"])
