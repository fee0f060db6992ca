"""Long synchronous work as generators: plain code yields, the actor that runs it checkpoints."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import trio

T = TypeVar("T")


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
