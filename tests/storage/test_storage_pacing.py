"""When a slave's dispatching gives way to its copying."""

from __future__ import annotations

import math

import pytest

from actors.storage.log.pacing import (
    DIGEST_GROWTH_OVER_S,
    DIGEST_PAUSE_TIMES,
    DIGEST_REST_TIMES,
    GIVES_WAY_MAX_S,
    PAUSE_MAX_S,
    PAUSE_TIMES,
    Pacing,
)

MIB = 1 << 20
DISPATCH_BYTES_PER_S = 128 * MIB
SLICE_BYTES = MIB // 8


def pause_s(grown_bytes_per_s: int, dispatch_bytes_per_s: int = DISPATCH_BYTES_PER_S) -> float:
    """Behind the second of two slices, one second apart."""
    pacing = Pacing(gives_way=True)
    took_s = SLICE_BYTES / dispatch_bytes_per_s
    pacing.pause_s(10.0, 10.0 + took_s, SLICE_BYTES, 100 * MIB)
    end = 100 * MIB + grown_bytes_per_s
    return pacing.pause_s(11.0, 11.0 + took_s, SLICE_BYTES, end) / took_s


def test_a_log_that_stands_still_is_dispatched_without_a_pause() -> None:
    assert pause_s(0) == 0.0


def test_what_can_be_kept_up_with_is_dispatched_without_a_pause() -> None:
    assert pause_s(DISPATCH_BYTES_PER_S // 2) == 0.0


def test_a_log_that_grows_faster_than_it_can_be_dispatched_comes_first() -> None:
    assert pause_s(DISPATCH_BYTES_PER_S // 2 + 100) == pytest.approx(PAUSE_TIMES)


def test_a_log_that_is_caught_up_with_comes_first_also_with_large_records() -> None:
    assert pause_s(256 * MIB, 4096 * MIB) == 0.0
    assert pause_s(257 * MIB, 4096 * MIB) == pytest.approx(PAUSE_TIMES)


def test_a_master_makes_no_pause() -> None:
    pacing = Pacing()
    pacing.pause_s(10.0, 11.0, SLICE_BYTES, 0)
    assert pacing.pause_s(11.0, 12.0, SLICE_BYTES, 9999 * SLICE_BYTES) == 0.0


def test_a_clock_that_stands_still_makes_no_pause() -> None:
    pacing = Pacing(gives_way=True)
    assert pacing.pause_s(5.0, 5.0, SLICE_BYTES, SLICE_BYTES) == 0.0
    assert pacing.pause_s(5.0, 5.0, SLICE_BYTES, 9 * SLICE_BYTES) == 0.0


def test_a_slice_that_took_long_is_followed_by_a_bounded_pause() -> None:
    pacing = Pacing(gives_way=True)
    pacing.pause_s(10.0, 11.0, SLICE_BYTES, 0)
    assert pacing.pause_s(11.0, 71.0, SLICE_BYTES, 9999 * SLICE_BYTES) == PAUSE_MAX_S


def always_growing(seconds: int, *, at_end_s: int = -1) -> list[float]:
    """The pauses behind one slice a second, while the log grows faster than it is dispatched."""
    pacing, pauses_s = Pacing(gives_way=True), []
    for second in range(seconds):
        if second == at_end_s:
            pacing.at_end()
        pauses_s.append(pacing.pause_s(second, second + 0.01, SLICE_BYTES, (1 + second) << 40))
    return pauses_s


def test_a_log_that_grows_faster_for_ever_is_dispatched_nevertheless() -> None:
    bound = int(GIVES_WAY_MAX_S)
    pauses_s = always_growing(3 * bound)
    assert all(pauses_s[:bound])
    assert not any(pauses_s[bound:])


def test_dispatching_gives_way_again_once_it_was_at_the_end() -> None:
    bound = int(GIVES_WAY_MAX_S)
    pauses_s = always_growing(3 * bound, at_end_s=2 * bound)
    assert not any(pauses_s[bound : 2 * bound])
    assert all(pauses_s[2 * bound :])


@pytest.mark.parametrize("told_every_s", [0.05, 0.099])
def test_growth_that_is_reported_in_steps_is_growth_between_them_too(told_every_s: float) -> None:
    """A synced log grows with each sync, and a note of it may be read late."""
    pacing, now_s, pauses = Pacing(gives_way=True, growth_over_s=0.1), 10.0, []
    while now_s < 12.0:
        steps = int(now_s / told_every_s)
        end = steps * int(DISPATCH_BYTES_PER_S * told_every_s)
        ended_s = now_s + SLICE_BYTES / DISPATCH_BYTES_PER_S
        pauses.append(pacing.pause_s(now_s, ended_s, SLICE_BYTES, end))
        now_s = ended_s
    assert all(pauses[len(pauses) // 2 :])


def test_what_nobody_waits_for_gives_way_for_ever() -> None:
    pacing = Pacing(gives_way=True, gives_way_max_s=math.inf)
    times_s = range(1, 3 * int(GIVES_WAY_MAX_S))
    pauses = [pacing.pause_s(at, at + 0.01, SLICE_BYTES, at << 40) for at in times_s]
    assert all(pauses)


def test_digesting_gives_way_more_than_dispatching() -> None:
    digesting, dispatching = Pacing.of_digests(gives_way=True), Pacing(gives_way=True)
    for at_s in range(1, 4):
        now = at_s, at_s + 0.001, SLICE_BYTES, at_s << 40
        assert digesting.pause_s(*now) > dispatching.pause_s(*now) > 0.0


def digest_pauses(end_bytes: int, *, slices: int) -> list[float]:
    """In parts of a slice's length, for a log that stands still from the first slice on."""
    pacing, now_s, pauses = Pacing.of_digests(gives_way=True), 10.0, []
    for _ in range(slices):
        pauses.append(pacing.pause_s(now_s, now_s + 0.001, SLICE_BYTES, end_bytes) / 0.001)
        now_s += 0.001 * (1 + pauses[-1])
    return pauses


def test_digesting_gives_way_until_it_has_seen_whether_the_log_grows() -> None:
    """Otherwise the first 100 ms of each catch-up were its own."""
    pauses = digest_pauses(1 << 30, slices=2)
    assert pauses == pytest.approx([DIGEST_PAUSE_TIMES] * 2)


def test_digesting_a_log_that_stands_still_leaves_most_of_the_time_to_others() -> None:
    pauses = digest_pauses(1 << 30, slices=20)
    assert pauses[-10:] == pytest.approx([DIGEST_REST_TIMES] * 10)


def test_digesting_gives_way_again_to_what_comes_behind_a_silence() -> None:
    pacing = Pacing.of_digests(gives_way=True)
    for at_s in (10.0, 10.0 + DIGEST_GROWTH_OVER_S, 11.0):
        pacing.pause_s(at_s, at_s + 0.001, SLICE_BYTES, MIB)
    pacing.at_end()
    pause_s = pacing.pause_s(99.0, 99.001, SLICE_BYTES, 2 * MIB)
    assert pause_s == pytest.approx(DIGEST_PAUSE_TIMES * 0.001)


def test_a_master_digests_without_a_rest() -> None:
    pacing = Pacing.of_digests(gives_way=False)
    for at_s in range(10, 14):
        assert pacing.pause_s(at_s, at_s + 0.001, SLICE_BYTES, at_s << 30) == 0.0
