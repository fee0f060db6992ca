"""Bulk work and others on one loop: who gets how much of it."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from actors.runtime.loop_share import IDLE_S, IDLE_TURNS, OTHERS, TURNS_MAX, let_others_work

WORK_S = 0.001


async def busy(clock: MockClock, took: list[float], each_s: float) -> None:
    """Works in every turn of the loop."""
    while True:
        clock.jump(each_s)
        took.append(each_s)
        await trio.lowlevel.checkpoint()


async def bulk(clock: MockClock, took: list[float], times: int) -> None:
    for _ in range(times):
        clock.jump(WORK_S)
        took.append(WORK_S)
        await let_others_work(WORK_S)


@pytest.mark.parametrize("each_s", [WORK_S / 7, WORK_S, 3 * WORK_S])
async def test_others_get_their_share_of_a_busy_loop(mock_clock: MockClock, each_s: float) -> None:
    others: list[float] = []
    mine: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(busy, mock_clock, others, each_s)
        await bulk(mock_clock, mine, 50)
        nursery.cancel_scope.cancel()
    assert OTHERS * sum(mine) <= sum(others) <= OTHERS * sum(mine) + 51 * 2 * each_s


async def test_an_idle_loop_is_used_at_once(mock_clock: MockClock) -> None:
    others: list[float] = []
    mine: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(busy, mock_clock, others, IDLE_S / 4)  # it only looks
        await bulk(mock_clock, mine, 50)
        nursery.cancel_scope.cancel()
    assert len(others) <= 2 * IDLE_TURNS * 51


async def test_nobody_stays_away_for_ever(mock_clock: MockClock) -> None:
    others: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(busy, mock_clock, others, 2 * IDLE_S)
        await let_others_work(1000.0)
        nursery.cancel_scope.cancel()
    assert len(others) <= TURNS_MAX + 1
