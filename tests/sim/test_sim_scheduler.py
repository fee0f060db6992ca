"""The seeded schedule: equal seeds, equal orders; policies; holding a node; version check."""

from __future__ import annotations

import math

import pytest
import trio

from actors.sim import scheduler
from actors.sim.scheduler import Priorities, Schedule, Starve, UnsupportedTrio, VirtualAlarm


async def race(order: list[str]) -> list[str]:
    """Eight tasks note themselves four times each."""

    async def runner(name: str) -> None:
        for _ in range(4):
            order.append(name)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for name in "abcdefgh":
            nursery.start_soon(runner, name, name=f"runner {name}")
    return order


def test_the_seed_decides_the_order_and_the_fingerprint() -> None:
    first, again, other = (scheduler.run(seed, race, []) for seed in ("1", "1", "2"))
    assert first == again
    assert first.fingerprint != other.fingerprint
    assert first.result != other.result
    assert sorted(first.result) == sorted(other.result)
    assert first.steps > 32


def test_what_is_noted_is_in_the_fingerprint() -> None:
    async def program(text: str) -> None:
        with Schedule("inner") as schedule:
            schedule.fingerprint.note(text)
        prints.append(schedule.fingerprint.hexdigest())

    prints: list[str] = []
    for text in ("a", "a", "b"):
        trio.run(program, text)
    assert prints[0] == prints[1] != prints[2]


def test_equal_steps_at_other_times_have_another_fingerprint() -> None:
    first, again, other = (scheduler.run("1", trio.sleep, seconds) for seconds in (1.0, 1.0, 2.0))
    assert first == again
    assert first.steps == other.steps
    assert first.fingerprint != other.fingerprint


def test_virtual_time_passes_only_while_nothing_can_run() -> None:
    async def program() -> list[float]:
        begun_s, passed_s = trio.current_time(), []

        async def work() -> None:
            for _ in range(50):
                await trio.lowlevel.checkpoint()
                passed_s.append(trio.current_time() - begun_s)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            await trio.sleep(3600)
            passed_s.append(trio.current_time() - begun_s)
        return passed_s

    assert trio.run(program, clock=scheduler.virtual_clock()) == [0.0] * 50 + [3600.0]


async def test_one_schedule_at_a_time(autojump_clock: trio.abc.Clock) -> None:
    with Schedule("a"):
        with pytest.raises(RuntimeError, match="one simulated world at a time"):
            Schedule("b").__enter__()
    with Schedule("c"):
        await trio.sleep(1)


def test_a_run_that_breaks_off_hinders_none_behind_it() -> None:
    async def main() -> Schedule:
        return Schedule("1").__enter__()

    left = trio.run(main)
    with pytest.raises(RuntimeError):  # there is no run any more to take its instrument out of
        left.__exit__()

    async def next_one() -> None:
        with Schedule("2"):
            pass

    trio.run(next_one)


def test_another_trio_is_refused_by_name() -> None:
    scheduler.check_trio("0.35.7")
    with pytest.raises(UnsupportedTrio, match=r"knows trio 0\.35\.x; this is trio 0\.99\.0"):
        scheduler.check_trio("0.99.0")


def test_seed_schedule_seeds_plain_runs() -> None:
    orders = []
    for seed in ("1", "1", "2"):
        scheduler.seed_schedule(seed)
        orders.append(trio.run(race, []))
    assert orders[0] == orders[1] != orders[2]


def test_a_starved_task_waits_and_is_served_in_the_end() -> None:
    order = scheduler.run("1", race, [], policy=Starve("runner c", passes_max=10_000)).result
    assert order[-4:] == ["c"] * 4
    bounded = scheduler.run("1", race, [], policy=Starve("runner c", passes_max=1)).result
    assert bounded.index("c") < len(bounded) - 4


def test_priorities_run_one_task_as_long_as_it_can() -> None:
    order = scheduler.run("1", race, [], policy=Priorities(demote_share=0.0)).result
    assert order == [name for name in dict.fromkeys(order) for _ in range(4)]
    demoting = scheduler.run("1", race, [], policy=Priorities(demote_share=0.5)).result
    assert demoting != [name for name in dict.fromkeys(demoting) for _ in range(4)]
    assert sorted(demoting) == sorted(order)


async def test_a_held_node_makes_no_step_while_time_goes_on(
    autojump_clock: trio.abc.Clock,
) -> None:
    ticks: list[float] = []

    async def ticker() -> None:
        scheduler.node_label.set("n0")
        while True:
            await trio.sleep(1)
            ticks.append(trio.current_time())

    with Schedule("1") as schedule:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ticker)
            await trio.sleep(2.5)
            assert len(ticks) == 2
            schedule.hold("n0")
            assert schedule.is_held("n0")
            await trio.sleep(100)
            assert len(ticks) == 2
            schedule.release("n0")
            schedule.release("n0")
            await trio.sleep(0.1)
            assert len(ticks) == 3
            assert ticks[2] == pytest.approx(102.5)
            nursery.cancel_scope.cancel()


async def test_holding_reaches_tasks_of_the_pass_that_is_under_way(
    autojump_clock: trio.abc.Clock,
) -> None:
    steps: list[int] = []

    async def spinner(number: int) -> None:
        scheduler.node_label.set("n0")
        while True:
            steps.append(number)
            await trio.lowlevel.checkpoint()

    with Schedule("1") as schedule:
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(spinner, number)
            for _ in range(10):
                await trio.lowlevel.checkpoint()
            schedule.hold("n0")
            count = len(steps)
            for _ in range(10):
                await trio.lowlevel.checkpoint()
            assert len(steps) == count > 0
            nursery.cancel_scope.cancel()
            schedule.release("n0")


async def test_cancel_through_shields_leaves_nobody(autojump_clock: trio.abc.Clock) -> None:
    ends: list[str] = []

    async def stubborn(name: str) -> None:
        try:
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(trio.sleep_forever)
                    with trio.CancelScope(shield=True):
                        await trio.sleep(1000)
        finally:
            ends.append(name)

    scope = trio.CancelScope()

    async def tree() -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stubborn, "a")
                nursery.start_soon(stubborn, "b")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tree)
        await trio.testing.wait_all_tasks_blocked()
        scheduler.cancel_through_shields(scope)
    assert sorted(ends) == ["a", "b"]
    assert trio.current_time() == 0.0
    scheduler.cancel_through_shields(trio.CancelScope())


async def test_an_alarm_rings_once_at_its_time(autojump_clock: trio.abc.Clock) -> None:
    rings: list[float] = []
    alarm = VirtualAlarm(lambda: rings.append(trio.current_time()))
    alarm.set(3.0)
    await trio.sleep(5)
    assert rings == [3.0]
    alarm.set(4.0)  # that has passed
    await trio.sleep(1)
    assert rings == [3.0, 5.0]


async def test_an_alarm_that_is_moved_or_taken_back(autojump_clock: trio.abc.Clock) -> None:
    rings: list[float] = []
    alarm = VirtualAlarm(lambda: rings.append(trio.current_time()))
    for at_s in (9.0, 2.0, 4.0):
        alarm.set(at_s)
    await trio.sleep(3)
    assert rings == []
    await trio.sleep(3)
    assert rings == [4.0]
    for number in range(3000):  # Trio sorts out what is stale, and counts what is not
        alarm.set(10.0 + number % 7)
    alarm.set(math.inf)
    with trio.move_on_after(20) as scope:
        await trio.sleep_forever()
    assert scope.cancelled_caught
    assert rings == [4.0]


async def test_an_alarm_may_set_itself_again(autojump_clock: trio.abc.Clock) -> None:
    rings: list[float] = []

    def ring() -> None:
        rings.append(trio.current_time())
        if len(rings) < 3:
            alarm.set(rings[-1] + 1.5)

    alarm = VirtualAlarm(ring)
    alarm.set(1.0)
    await trio.sleep(60)
    assert rings == [1.0, 2.5, 4.0]
