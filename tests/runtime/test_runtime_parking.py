"""The parker's two ways out of PARKED, and that nobody can take both."""

import pytest
import trio
import trio.testing

from actors.runtime.parking import Parker


async def test_a_wake_without_a_task_is_no_error(autojump_clock):
    assert Parker().wake() is False


async def test_the_second_wake_finds_nobody(autojump_clock):
    parker, woken = Parker(), []

    async def sleeper() -> None:
        await parker.park()
        woken.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sleeper)
        await trio.testing.wait_all_tasks_blocked()
        assert parker.parked
        assert [parker.wake(), parker.wake()] == [True, False]
        assert not parker.parked
    assert len(woken) == 1


@pytest.mark.parametrize("cancel_first", [True, False])
async def test_a_wake_and_a_cancellation_in_one_tick(autojump_clock, cancel_first):
    """Whichever comes first wins; the other finds nobody."""
    reported: list[str] = []
    parker = Parker(lambda: reported.append("cancelled"))
    scope = trio.CancelScope()

    async def sleeper() -> None:
        with scope:
            await parker.park()
            reported.append("woken")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sleeper)
        await trio.testing.wait_all_tasks_blocked()
        if cancel_first:
            scope.cancel()
            assert parker.wake() is False
        else:
            assert parker.wake() is True
            scope.cancel()
    assert reported == (["cancelled"] if cancel_first else ["woken"])


async def test_a_parker_can_be_used_again_after_both(autojump_clock):
    parker, woken = Parker(), []

    async def sleeper(number: int) -> None:
        with trio.move_on_after(1.0):
            await parker.park()
            woken.append(number)

    for number in range(4):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleeper, number)
            await trio.testing.wait_all_tasks_blocked()
            if number % 2:
                parker.wake()
    assert woken == [1, 3]


async def test_a_parker_holds_one_task(autojump_clock):
    parker = Parker()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(parker.park)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(AssertionError):
            await parker.park()
        parker.wake()
