"""Works side by side: in order for who waits, and none goes on where nobody waits any more."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Barrier, Event

import pytest

from actors.pipeline.side_by_side import AT_ONCE, both, side_by_side

WAIT_S = 60.0
"""For what comes at once, or never."""


def test_so_many_run_at_once_and_their_answers_come_in_order() -> None:
    all_run, later = Barrier(AT_ONCE), Event()

    def first() -> int:
        all_run.wait(WAIT_S)
        assert later.wait(WAIT_S), "the next one has ended"
        return 0

    def second() -> int:
        all_run.wait(WAIT_S)
        later.set()
        return 1

    heard: list[int] = []
    works: list[Callable[[], int]] = [first, second, partial(int, 2)]
    assert side_by_side(works, heard.append) == heard == [0, 1, 2]
    assert both(partial(int, 3), partial(str, 4)) == (3, "4")


def test_of_what_fails_the_first_is_raised_and_who_runs_ends_before() -> None:
    ended, heard = [], list[int]()
    fails, begun = Event(), Event()

    def fail() -> int:
        assert begun.wait(WAIT_S)
        fails.set()
        raise ValueError("broken")

    def outlast() -> int:
        begun.set()
        assert fails.wait(WAIT_S)
        ended.append("second")
        return 1

    with pytest.raises(ValueError, match="broken"):
        side_by_side([fail, outlast], heard.append)
    assert (ended, heard) == (["second"], [])


def test_an_interrupt_waits_for_nobody() -> None:
    released, runs = Event(), Event()

    def interrupt() -> None:
        assert runs.wait(WAIT_S)
        raise KeyboardInterrupt

    def hang() -> None:
        runs.set()
        assert released.wait(WAIT_S)

    try:
        with pytest.raises(KeyboardInterrupt):
            side_by_side([interrupt, hang])
        assert not released.is_set()
    finally:
        released.set()
