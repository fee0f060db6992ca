"""Which time is drawn, and where a moment stands."""

from __future__ import annotations

from itertools import pairwise

import pytest

from actors.pipeline.report.time_axis import (
    STRETCHES_MAX,
    US,
    Stretch,
    TimeAxis,
    shown,
    time_axis,
)

DAY_S = 86_400


def stretch(first_s: float, last_s: float, events: int = 1) -> Stretch:
    return Stretch(int(first_s * US), int(last_s * US), events)


def test_what_overlaps_and_what_is_idle_for_moments_is_one_stretch() -> None:
    axis, outside = time_axis([stretch(100, 130), stretch(10.2, 40), stretch(20, 60.5)])
    assert axis.stretches == (stretch(10, 130, events=3),)
    assert outside == 0
    assert [axis.at(s * US) for s in (9, 10, 70, 130, 131)] == [None, 0, 60, 120, None]


def test_idle_days_and_a_clock_that_jumped_are_cut_out() -> None:
    years = 30 * 365 * DAY_S
    axis, _ = time_axis([stretch(0, 60), stretch(years, years + 1), stretch(DAY_S, DAY_S + 39)])
    assert axis.active_s == 100
    assert axis.starts == (0, 63, 105)
    assert axis.width_s == 106
    assert axis.at((DAY_S + 10) * US) == 73
    assert axis.spans(30 * US, (DAY_S + 10) * US) == [(30, 60), (63, 73)]
    assert "cut out" in axis.label


def test_a_long_day_keeps_its_short_silences() -> None:
    """Five minutes are idle time beside one minute, and may be an outage in a day."""
    assert len(time_axis([stretch(0, 60), stretch(360, 420)])[0].stretches) == 2
    assert len(time_axis([stretch(0, 40_000), stretch(40_300, 80_000)])[0].stretches) == 1


def test_of_too_many_stretches_the_busiest_are_kept_and_the_others_counted() -> None:
    many = [stretch(n * DAY_S, n * DAY_S + 60, events=n) for n in range(1, STRETCHES_MAX + 4)]
    axis, outside = time_axis(many)
    assert axis.stretches == tuple(many[3:])
    assert outside == 1 + 2 + 3


def test_a_single_moment_has_a_width() -> None:
    axis, _ = time_axis([Stretch(5, 5, 1)])
    assert axis.width_s == 1


@pytest.mark.parametrize("seconds", [1, 3, 59, 61, 3_000, 90_000, 40 * DAY_S, 4_000 * DAY_S])
@pytest.mark.parametrize("count", [3, 12])
def test_ticks_are_few_and_stand_at_what_they_say(seconds: int, count: int) -> None:
    axis = TimeAxis((stretch(1_800_000_007, 1_800_000_007 + seconds),))
    ticks = axis.ticks(count)
    assert 1 <= len(ticks) <= count + 1
    assert all(0 <= tick.at <= axis.width_s for tick in ticks)
    assert all(two.at - one.at >= 0.8 * axis.width_s / count for one, two in pairwise(ticks))
    if seconds == 61:
        first_us = axis.stretches[0].first_us
        assert [shown(first_us + int(t.at * US), "%H:%M:%S") for t in ticks] == [
            tick.label for tick in ticks
        ]


def test_each_stretch_with_room_has_a_label() -> None:
    axis, _ = time_axis([stretch(0, 100), stretch(DAY_S, DAY_S + 100)])
    places = [tick.at for tick in axis.ticks(12)]
    assert min(places) < 10
    assert axis.starts[1] <= max(places)


def test_buckets_are_whole_seconds_and_as_many_as_asked_for() -> None:
    assert TimeAxis((stretch(0, 60),)).bucket_s(400) == 1
    assert TimeAxis((stretch(0, 4_001),)).bucket_s(400) == 11


def test_a_moment_that_no_calendar_has_is_shown_all_the_same() -> None:
    assert shown(2**63 - 1).endswith(" s")
    assert shown(0) == "1970-01-01 00:00:00"
