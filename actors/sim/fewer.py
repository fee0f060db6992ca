"""Delta debugging (Zeller and Hildebrandt 2002): leave out what a failure does not need."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def fewest(items: tuple[T, ...], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Leave out halves, quarters, and so on down to single items, as long as the rest still fails.

    Args:
        items: items that fail together; this is not checked.
        fails: called with ever fewer of them, in their order. An exception from it ends the search.

    Returns: items of which no single one can be left out.
    """
    parts = 2
    while items:
        parts = min(parts, len(items))
        for without in _leave_out(items, parts):
            if fails(without):
                items = without
                parts = max(parts - 1, 2)
                break
        else:
            if parts == len(items):
                break
            parts = min(2 * parts, len(items))
    return items


def _leave_out(items: Sequence[T], parts: int) -> Iterator[tuple[T, ...]]:
    """Yield the items without one of `parts` parts, each in turn, the last part first."""
    bounds = [len(items) * number // parts for number in range(parts + 1)]
    for low, high in reversed(list(itertools.pairwise(bounds))):
        yield (*items[:low], *items[high:])
