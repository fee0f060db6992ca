"""Which entries of an index are those that its log's records should have, where some are damaged.

Entries stand in the log's order, so what is damaged shows by what stands around it, whatever it
says itself: a bit or a page that is lost may leave an entry that another record could have. Plain
data.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Generator, Sequence
from typing import TypeAlias

Entry: TypeAlias = tuple[int, int]
"""Hash and offset."""
_Chain: TypeAlias = tuple[int, int, "_Chain | None"]

EQUAL_MAX = 4
"""Places that are all tried for one entry. A record that names a key more often has so many equal
entries: those are paired from both ends, for the time would grow with the square of their number.
"""
ENTRIES_PER_STEP = 128
"""Looked at between two turns of others: some 2 us each, with few places to try."""


def anchors(
    due: Sequence[Entry], stored: Sequence[Entry]
) -> Generator[None, None, list[tuple[int, int]]]:
    """The most pairs of places, ascending in both, at which the same entry is due and stored; among
    more than EQUAL_MAX equal entries that are damaged in two places there may be fewer.

    The time that it takes grows little faster than the length. Yields after every few entries.
    """
    places: dict[Entry, list[int]] = {}
    for at, entry in enumerate(due, 1):
        places.setdefault(entry, []).append(at - 1)
        if at % ENTRIES_PER_STEP == 0:
            yield
    counts, seen = Counter(stored), Counter[Entry]()
    yield
    ends: list[int] = []  # by length: the lowest place in `due` at which so many pairs can end
    chains: list[_Chain] = []
    for at, entry in enumerate(stored):
        for place in _candidates(places.get(entry, ()), seen[entry], counts[entry]):
            length = bisect_left(ends, place)
            chain = (place, at, chains[length - 1] if length else None)
            ends[length : length + 1] = [place]
            chains[length : length + 1] = [chain]
        seen[entry] += 1
        if at % ENTRIES_PER_STEP == 0:
            yield
    found: list[tuple[int, int]] = []
    last = chains[-1] if chains else None
    while last is not None:
        place, at, last = last
        found.append((place, at))
    return _spread(due, found[::-1])


def _spread(due: Sequence[Entry], pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same, but of equal entries those that are due as far behind the pair before as they are
    stored: so what is missing is missing where a damaged one stands.
    """
    number, before = 0, (-1, -1)
    while number < len(pairs):
        place, at = pairs[number]
        by, end = before[0] + at - before[1] - place, number + 1
        if by > 0:
            while end < len(pairs) and due[pairs[end][0]] == due[place]:
                end += 1
            behind = pairs[end][0] if end < len(pairs) else len(due)
            moved = [(each + by, where) for each, where in pairs[number:end]]
            if moved[-1][0] < behind and all(due[each] == due[place] for each, _ in moved):
                pairs[number:end] = moved
        number, before = end, pairs[end - 1]
    return pairs


def _candidates(places: Sequence[int], number: int, count: int) -> Sequence[int]:
    """Where the equal entry `number` of `count` that are stored may be due, the last first."""
    if len(places) <= EQUAL_MAX:
        return places[::-1]
    behind = len(places) - count + number
    tried = sorted({number, behind}, reverse=True)
    return [places[each] for each in tried if 0 <= each < len(places)]
