"""Long work of plain code as generators: it yields, and whoever runs it lets others have a turn, or
shows how far it is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Generic, TypeAlias, TypeVar

import attrs
import trio

from actors.env.protocols import RunBeside

T = TypeVar("T")
A = TypeVar("A")
Y = TypeVar("Y")


@attrs.frozen
class Step:
    """How far a piece of work is.

    Attributes:
        what: what is being done, for people.
        done_bytes, total_bytes: of it; the total may turn out to be more than was needed.
    """

    what: str
    done_bytes: int
    total_bytes: int


Work: TypeAlias = Generator[Step, None, T]


@attrs.define
class Running(Generic[Y, T]):
    """What `work` yields, for a loop.

    Attributes:
        result: what it returned; set when the loop has ended.
    """

    work: Generator[Y, None, T]
    result: T = attrs.field(init=False)

    def __iter__(self) -> Generator[Y, None, None]:
        self.result = yield from self.work


def labelled(work: Generator[None, None, T], step: Step) -> Work[T]:
    """Work that only yields, with `step` for each of its yields."""
    with closing(work):
        running = Running(work)
        for _ in running:
            yield step
        return running.result


def finish(work: Generator[object, None, T]) -> T:
    """Run `work` to its end without looking at its steps."""
    running = Running(work)
    for _ in running:
        pass
    return running.result


async def stepped(work: Generator[None, None, T]) -> T:
    """Run `work` to its end with a checkpoint at each yield. A cancellation closes it."""
    with closing(work):
        running = Running(work)
        for _ in running:
            await trio.lowlevel.checkpoint()
        return running.result


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
