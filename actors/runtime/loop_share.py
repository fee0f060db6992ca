"""Lets all other tasks on the loop have several times as much time as bulk work took.

Trio runs every task that is ready in each turn of its loop. What has to pass through many tasks one
after the other (an append passes some twelve) waits one whole turn for each of them, so bulk work
that has something to do in every turn slows it down out of all proportion. Whoever does bulk work
therefore does a little of it and then stays away for as many turns as its share asks for. On a loop
that nobody else needs it goes on at once, also while everybody waits for a disk: so a larger share
for the others than OTHERS changes little. Measured by `tests/bench/bench_loop_share.py`: 200
readers leave appends 0.81 of what they are alone for each second of the processor, without this
0.66.
"""

from __future__ import annotations

from typing import Final

import trio

OTHERS: Final = 4.0
"""The seconds that all other tasks get for each second of bulk work, if they have work: the bulk
work gets a fifth of a busy loop."""
IDLE_S: Final = 50e-6
"""The seconds below which a turn of the loop counts as idle."""
IDLE_TURNS: Final = 2
"""How many idle turns in a row show that no task has work. Trio runs the tasks of a turn in any
order: a task that ran last in one turn and first in the next has seen no other in between.
"""
TURNS_MAX: Final = 64
"""The most turns for which bulk work pauses, however busy the loop is."""


async def let_others_work(took_s: float) -> None:
    """Wait until the other tasks have had their share of the loop.

    On a clock that stands still while tasks run, as in tests, these are two checkpoints.

    Args:
        took_s: how many seconds the bulk work took, without a checkpoint in it.
    """
    owed_s, idle_turns = took_s * OTHERS, 0
    for _ in range(TURNS_MAX):
        began_s = trio.current_time()
        await trio.lowlevel.checkpoint()
        turn_s = trio.current_time() - began_s
        owed_s -= turn_s
        idle_turns = idle_turns + 1 if turn_s < IDLE_S else 0
        if idle_turns == IDLE_TURNS or owed_s <= 0:
            return
