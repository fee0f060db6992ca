"""A pool with two lines: who takes first does, and its part is kept for it."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from actors.runtime.pool import Pool


async def test_who_takes_first_overtakes_and_has_its_part(autojump_clock: object) -> None:
    pool = Pool(10, reserved_bytes=4)
    order: list[tuple[int, bool]] = []

    async def take(size_bytes: int, first: bool) -> None:
        await pool.take(size_bytes, first=first)
        order.append((size_bytes, first))

    async with trio.open_nursery() as nursery:
        await pool.take(5)
        assert not pool.take_now(2), "the rest is reserved"
        nursery.start_soon(take, 2, False)
        await trio.sleep(1)
        assert not pool.take_now(1), "another waits already"
        await pool.take(4, first=True)
        nursery.start_soon(take, 3, True)
        await trio.sleep(1)
        assert (order, pool.free_bytes) == ([], 1)
        assert not pool.take_now(1, first=True), "who came before waits"
        pool.give_back(1)
        await trio.sleep(1)
        assert order == [], "nor does the other get what the first waits for"
        pool.give_back(4)
        await trio.sleep(1)
        assert (order, pool.free_bytes) == ([(3, True)], 3)
        pool.give_back(3)
        await trio.sleep(1)
        assert (order, pool.free_bytes) == ([(3, True), (2, False)], 4)


async def test_who_gives_up_makes_way_for_the_other_line(autojump_clock: object) -> None:
    pool = Pool(10, reserved_bytes=2)
    await pool.take(6, first=True)
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(2):
            nursery.start_soon(trio.sleep, 1)
            async with trio.open_nursery() as inner:
                inner.start_soon(lambda: pool.take(5, first=True))
                await trio.sleep(1)
                nursery.start_soon(lambda: pool.take(2))
                await trio.sleep(0.5)
                assert pool.free_bytes == 4
    assert pool.free_bytes == 2


async def test_more_than_there_ever_is_cannot_be_taken() -> None:
    pool = Pool(10, reserved_bytes=4)
    with pytest.raises(AssertionError):
        await pool.take(7)
    await pool.take(7, first=True)


async def test_what_is_granted_to_a_cancelled_task_is_given_back() -> None:
    """Between the cancellation and the task's next step the bytes may have become its own."""
    pool = Pool(10)
    await pool.take(10)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(pool.take, 10)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        pool.give_back(10)
    assert pool.free_bytes == 10
    assert pool.take_now(10)
