"""Which entries of an index are those that its log's records should have, where some are damaged.

Entries stand in the log's order, so what is damaged shows by what stands around it, whatever it
says itself: a bit or a page that is lost may leave an entry that another record could have. Plain
data.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeAlias

Entry: TypeAlias = tuple[int, int]
"""Hash and offset."""
_Chain: TypeAlias = tuple[int, int, "_Chain | None"]


def anchors(due: Sequence[Entry], stored: Sequence[Entry]) -> list[tuple[int, int]]:
    """The most pairs of places, ascending in both, at which the same entry is due and stored.

    The time that it takes grows little faster than the length, as long as few entries are equal.
    """
    places: dict[Entry, list[int]] = {}
    for at in reversed(range(len(due))):
        places.setdefault(due[at], []).append(at)
    ends: list[int] = []  # by length: the lowest place in `due` at which so many pairs can end
    chains: list[_Chain] = []
    for at, entry in enumerate(stored):
        for place in places.get(entry, ()):
            length = bisect_left(ends, place)
            chain = (place, at, chains[length - 1] if length else None)
            ends[length : length + 1] = [place]
            chains[length : length + 1] = [chain]
    found: list[tuple[int, int]] = []
    last = chains[-1] if chains else None
    while last is not None:
        place, at, last = last
        found.append((place, at))
    return found[::-1]
