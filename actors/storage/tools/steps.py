"""Long work that says how far it is: generators that yield a `Step` between pieces."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

import attrs

T = TypeVar("T")


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


def labelled(work: Generator[None, None, T], step: Step) -> Work[T]:
    """Work that only yields, with `step` for each of its yields."""
    try:
        while True:
            try:
                next(work)
            except StopIteration as done:
                result: T = done.value
                return result
            yield step
    finally:
        work.close()


def finish(work: Generator[object, None, T]) -> T:
    """Run `work` to its end without looking at its steps."""
    try:
        while True:
            next(work)
    except StopIteration as done:
        result: T = done.value
        return result
