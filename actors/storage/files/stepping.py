"""Long synchronous work as generators: plain code yields, the actor that runs it checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

import trio

from actors.env.protocols import RunBeside

T = TypeVar("T")
A = TypeVar("A")


async def stepped(work: Generator[None, None, T]) -> T:
    """Run `work` to its end with a checkpoint at each yield. A cancellation closes it."""
    try:
        while True:
            try:
                next(work)
            except StopIteration as done:
                result: T = done.value
                return result
            await trio.lowlevel.checkpoint()
    finally:
        work.close()


async def answered(work: Generator[Callable[[], A], A, T], run_beside: RunBeside) -> T:
    """Run `work` to its end; what it yields runs beside the loop, and it is sent what that gives. A
    cancellation closes it.
    """
    try:
        asked = next(work)
        while True:
            asked = work.send(await run_beside(asked))
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        work.close()
