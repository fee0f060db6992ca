"""What a broker counts at midnight, by a clock that the test sets."""

from __future__ import annotations

import datetime
import random
from functools import partial

import pytest
import trio

from actors.broker.midnights import LOOK_S, MidnightCounter, Midnights
from actors.env import Env
from actors.runtime import ChildSpec, SupervisorSpec, open_system

EVENING = datetime.datetime(2024, 5, 1, 23, 59, 30)
HOUR_S, DAY_S = 3600.0, 86_400.0


class Machine:
    """Its clock goes with virtual time, and may be set."""

    def __init__(self) -> None:
        self.count, self.moved_s = 0, 0.0
        self.midnights = Midnights()

    def wall_clock_ms(self) -> int:
        return int((EVENING.timestamp() + self.moved_s + trio.current_time()) * 1000)

    def tree(self) -> SupervisorSpec:
        env = Env(
            network=None,  # type: ignore[arg-type]
            disk=None,  # type: ignore[arg-type]
            rng=random.Random(1),
            wall_clock_ms=self.wall_clock_ms,
            events=lambda path, incarnation, event: None,
        )
        counter = partial(
            MidnightCounter, env=env, stored=lambda: self.count, midnights=self.midnights
        )
        return SupervisorSpec(children=(ChildSpec(name="midnights", start=counter),))

    @property
    def counts(self) -> tuple[int, int]:
        return self.midnights.today, self.midnights.yesterday


async def test_counts_fall_back_at_midnight(autojump_clock: object) -> None:
    machine = Machine()
    async with open_system("n0", machine.tree()):
        machine.count = 10
        await trio.sleep(29.0)
        assert machine.counts == (0, 0), "those before the first midnight are today's"
        await trio.sleep(2.0)
        assert machine.counts == (10, 0)
        machine.count = 30
        await trio.sleep(DAY_S - 4.0)
        assert machine.counts == (10, 0)
        await trio.sleep(4.0)
        assert machine.counts == (30, 10)


@pytest.mark.parametrize(
    ("moved_s", "counts"), [(HOUR_S, (10, 0)), (3 * DAY_S, (10, 0)), (-HOUR_S, (0, 0))]
)
async def test_a_clock_that_is_set(
    autojump_clock: object, moved_s: float, counts: tuple[int, int]
) -> None:
    machine = Machine()
    async with open_system("n0", machine.tree()):
        machine.count, machine.moved_s = 10, moved_s
        await trio.sleep(LOOK_S)
        assert machine.counts == counts


async def test_a_clock_that_is_set_back_repeats_no_midnight(autojump_clock: object) -> None:
    machine = Machine()
    async with open_system("n0", machine.tree()):
        machine.count = 10
        await trio.sleep(LOOK_S)
        machine.count, machine.moved_s = 20, -HOUR_S
        await trio.sleep(2 * HOUR_S)
        assert machine.counts == (10, 0)


async def test_a_midnight_while_the_tree_is_built_anew_counts(autojump_clock: object) -> None:
    machine = Machine()
    async with open_system("n0", machine.tree()):
        machine.count = 10
    await trio.sleep(LOOK_S)
    async with open_system("n0", machine.tree()):
        await trio.sleep(1.0)
        assert machine.counts == (10, 0)
