"""Time as pictures show it: what is idle for long is cut out.

A data directory may hold an hour of each of three days, and a clock that jumped puts events into
another year. Drawn to scale both would be a line at each edge. So time consists of stretches in
which some node was running, and between them each picture has a narrow gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import attrs

US = 1_000_000
STRETCHES_MAX = 12
"""The most stretches that are drawn, those with the most events. The page says how many events
the others have."""
IDLE_MIN_S = 60
"""A shorter idle time is drawn to scale, as it may be an outage."""
IDLE_SHARE = 0.05
"""An idle time that is shorter than this share of all active time is drawn to scale as well."""
GAP_SHARE = 0.03
"""The width of a gap, as a share of all active time."""
STEPS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200, 86_400),
)
"""The seconds that may be between two labels."""


@attrs.frozen(order=True)
class Stretch:
    """A time from one moment to another, in microseconds since 1970, and how many events it has."""

    first_us: int
    last_us: int
    events: int = attrs.field(default=0, order=False)


@attrs.frozen
class Tick:
    """A label below a picture, at a place as `TimeAxis.at` returns it."""

    at: float
    label: str


@attrs.frozen
class TimeAxis:
    """A scale from moments to places on the x axis, without long idle times.

    Attributes:
        stretches: the times that are drawn, at least one, in rising order. They begin and end
            with whole seconds and do not touch each other.
    """

    stretches: tuple[Stretch, ...]

    @property
    def active_s(self) -> float:
        return sum(each.last_us - each.first_us for each in self.stretches) / US

    @property
    def gap_s(self) -> float:
        return self.active_s * GAP_SHARE

    @property
    def width_s(self) -> float:
        """The highest place; the lowest is 0."""
        return self.active_s + self.gap_s * (len(self.stretches) - 1)

    @property
    def starts(self) -> tuple[float, ...]:
        """The place of each stretch's first moment."""
        found, at = [], 0.0
        for each in self.stretches:
            found.append(at)
            at += (each.last_us - each.first_us) / US + self.gap_s
        return tuple(found)

    def at(self, us: int) -> float | None:
        """Return the place of a moment, or None if it is outside of all stretches."""
        for start, each in zip(self.starts, self.stretches, strict=True):
            if each.first_us <= us <= each.last_us:
                return start + (us - each.first_us) / US
        return None

    def spans(self, first_us: int, last_us: int) -> list[tuple[float, float]]:
        """Return where an interval begins and ends, as a pair for each stretch that it touches."""
        found = []
        for start, each in zip(self.starts, self.stretches, strict=True):
            low, high = max(first_us, each.first_us), min(last_us, each.last_us)
            if low <= high:
                begin = start + (low - each.first_us) / US
                found.append((begin, begin + (high - low) / US))
        return found

    def bucket_s(self, buckets_max: int) -> int:
        """Return how many whole seconds a bucket has if all stretches have about `buckets_max`."""
        return max(1, -(-int(self.active_s) // buckets_max))

    def ticks(self, count_max: int) -> list[Tick]:
        """Return about `count_max` labels at round moments, none of which overlap."""
        apart = self.width_s / count_max
        step_s = next((step for step in STEPS_S if step >= apart), None)
        step_s = step_s or STEPS_S[-1] * -(-int(apart) // STEPS_S[-1])
        form = "%H:%M:%S" if step_s < 60 else "%H:%M" if step_s < 86_400 else "%d %b"
        found: list[Tick] = []
        for start, each in zip(self.starts, self.stretches, strict=True):
            first_s = -(-each.first_us // (step_s * US)) * step_s
            moments = list(range(first_s, each.last_us // US + 1, step_s))
            for moment_s in moments or [each.first_us // US]:
                place = start + max(moment_s - each.first_us / US, 0)
                if not found or place - found[-1].at >= 0.8 * apart:
                    found.append(Tick(place, shown(moment_s * US, form)))
        return found

    @property
    def label(self) -> str:
        """The text below the labels."""
        first, last = self.stretches[0].first_us, self.stretches[-1].last_us
        days = [shown(us, "%Y-%m-%d") for us in (first, last)]
        day = days[0] if days[0] == days[1] else f"{days[0]} to {days[1]}"
        cut = "; idle time is cut out" if len(self.stretches) > 1 else ""
        return f"{day}, UTC{cut}"


def shown(us: int, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Return a moment in UTC as text, or its number of seconds if no calendar has such a date."""
    try:
        return datetime.fromtimestamp(us // US, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return f"{us // US:,} s"


def time_axis(active: Iterable[Stretch]) -> tuple[TimeAxis, int]:
    """Return the axis for intervals in which a node ran, and how many events are outside of it.

    Args:
        active: the intervals, at least one. They can be in any order and overlap.
    """
    parts = sorted(_whole_seconds(each) for each in active)
    found = joined(parts, IDLE_MIN_S * US)
    active_us = sum(each.last_us - each.first_us for each in found)
    found = joined(found, max(IDLE_MIN_S * US, int(active_us * IDLE_SHARE)))
    kept = sorted(sorted(found, key=lambda each: -each.events)[:STRETCHES_MAX])
    outside = sum(each.events for each in found) - sum(each.events for each in kept)
    return TimeAxis(tuple(kept)), outside


def _whole_seconds(stretch: Stretch) -> Stretch:
    first, last = stretch.first_us // US * US, -(-stretch.last_us // US) * US
    return Stretch(first, max(last, first + US), stretch.events)


def joined(parts: Sequence[Stretch], idle_us: int) -> list[Stretch]:
    """Return the parts, with neighbours joined that have at most `idle_us` between them.

    Args:
        parts: the parts, in rising order.
    """
    found: list[Stretch] = []
    for each in parts:
        if found and each.first_us - found[-1].last_us <= idle_us:
            before = found.pop()
            last = max(before.last_us, each.last_us)
            each = Stretch(before.first_us, last, before.events + each.events)
        found.append(each)
    return found
