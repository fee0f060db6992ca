"""How much of each log goes into a batch: up to the time that all have reached, and always on."""

from __future__ import annotations

import random

import numpy as np
import pytest

from actors.pipeline.sources.log_stream import Offer, admitted, frontier

HOLD = 3


def offer(*times: int, more: bool = False, **fields: object) -> Offer:
    return Offer(times=np.array(times, np.int64), more=more, **fields)  # type: ignore[arg-type]


def test_a_batch_ends_at_the_least_of_the_last_times() -> None:
    ahead, behind = offer(5, 6, 90, 91, more=True), offer(1, 2, 50, more=True)
    until = frontier([ahead, behind], HOLD)
    assert until == 50
    assert admitted(ahead, until) == 2
    assert admitted(behind, until) == 3


def test_equal_times_go_together_and_a_clock_that_went_back_holds_nobody() -> None:
    assert admitted(offer(1, 2, 2, 2, 3), 2) == 4
    assert admitted(offer(1, 9, 2, 3), 3) == 1, "the newest so far counts"
    assert admitted(offer(9, 2, 3), 9) == 3


def test_a_log_with_nothing_new_holds_for_some_looks_only() -> None:
    busy = offer(50, 60, 70)
    for looks in range(1, 6):
        until = frontier([busy, offer(last_time=55, quiet_looks=looks)], HOLD)
        assert until == (55 if looks <= HOLD else 70)
    assert frontier([busy, offer(quiet_looks=1)], HOLD) == 70, "nothing is known of it"
    assert frontier([offer(last_time=5, quiet_looks=9)], HOLD) is None


def test_in_a_run_that_ends_only_who_has_more_holds() -> None:
    done, more = offer(1, 2, is_final=True), offer(10, 11, more=True, is_final=True)
    assert frontier([done, more], HOLD) == 11
    assert frontier([done, offer(last_time=1, quiet_looks=1, is_final=True)], HOLD) is None
    assert admitted(done, None) == 2


@pytest.mark.parametrize("seed", range(20))
def test_all_is_admitted_in_order_of_time_whatever_the_logs(seed: int) -> None:
    """A model: no batch holds a record older than one of the batch before, of any log."""
    rng = random.Random(seed)
    logs = [sorted(rng.choices(range(300), k=rng.randrange(60))) for _ in range(rng.randint(1, 4))]
    at, newest = [0] * len(logs), -1
    for _ in range(400):
        if all(place == len(times) for place, times in zip(at, logs, strict=True)):
            break
        windows = [times[place : place + 5] for place, times in zip(at, logs, strict=True)]
        offers = [
            offer(*window, more=place + 5 < len(times), is_final=True)
            for window, place, times in zip(windows, at, logs, strict=True)
        ]
        until = frontier(offers, HOLD)
        taken = [admitted(each, until) for each in offers]
        assert sum(taken), "FrontierMoves"
        times = [t for window, count in zip(windows, taken, strict=True) for t in window[:count]]
        assert min(times) >= newest
        newest = max(times)
        at = [place + count for place, count in zip(at, taken, strict=True)]
    assert at == [len(times) for times in logs]
