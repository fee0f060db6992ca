"""Whole histories: written down, judged object by object, cut down to what contradicts itself."""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_kit import (
    REGISTER_ACTIONS,
    did,
    executions,
    has_order,
    mutated,
    register,
    steps_of,
)

sys.path.append(str(Path(__file__).parents[1] / "kills"))

from recorder import Recorder

from actors.sim.fewer import fewest
from actors.sim.judges.linear.judge import (
    LINES_MAX,
    NotDecided,
    NotLinearizable,
    judge_log,
    judge_object,
)
from actors.sim.judges.linear.log import Append, ReadLog, Shown
from actors.sim.judges.linear.operations import Operation, freed
from actors.sim.judges.linear.registers import CompareAndSet, Read, Register, Write

CLIENTS = 6


def busy_history(seed: int, count: int) -> list[Operation]:
    """A correct register under clients that always wait for something; one in ten gives up."""
    rng, recorder, value = random.Random(seed), Recorder(), None
    waiting: dict[str, tuple[int, Any]] = {}
    numbers = itertools.count(1)
    for _ in range(count):
        client = f"c{rng.randrange(CLIENTS)}"
        if client not in waiting:
            number = next(numbers)
            drawn = [Write(number), Read(), Read(), CompareAndSet(value, number)]
            action = rng.choice(drawn)
            waiting[client] = recorder.call(client, action), action
            continue
        under_way, action = waiting.pop(client)
        if rng.random() < 0.1:
            continue
        result, value = register(value, action)
        recorder.answer(under_way, result)
    return list(recorder.operations())


@pytest.mark.parametrize("seed", range(3))
def test_one_stale_read_in_a_long_history_is_shown_with_what_it_contradicts(seed: int) -> None:
    history = busy_history(seed, 800)
    assert judge_object(Register(), history) == []
    known = [each.action for each in history if each.returned is not None]
    old = next(action.value for action in known if isinstance(action, Write))
    at = history[-1].called + 1
    history.append(did("late", at, at + 1, Write("last")))
    history.append(did("late", at + 2, at + 3, Read(), old))
    (finding,) = judge_object(Register(), history)
    assert isinstance(finding, NotLinearizable)
    assert finding.minimal
    assert history[-1] in finding.operations
    assert len(finding.operations) <= 3
    assert finding.others == len(history) - len(finding.operations)


def test_a_lost_append_in_a_long_history_is_shown_with_the_read_that_misses_it() -> None:
    appends = [did("c", 2 * n, 2 * n + 1, Append(b"%d" % n), n) for n in range(200)]
    entries = tuple((n, b"%d" % n) for n in range(200) if n != 77)
    reads = [did("r", 2 * n + 1, 2 * n + 2, ReadLog(n), Shown((), n, n)) for n in range(200)]
    broken = did("r", 500, 501, ReadLog(0), Shown(entries, 200, 200))
    (finding,) = judge_log([broken, *appends, *reads])
    assert str(finding).splitlines() == [
        "not linearizable: a read from 0 up to 200 leaves out index 77 (b'77')",
        "  c [154 .. 155] append b'77' -> 77",
        "  r [500 .. 501] read from 0 -> 0=b'0', 1=b'1', 2=b'2', 3=b'3', 4=b'4', 5=b'5',"
        " and 193 more; next 200, end 200",
        "  (399 other operations do not help)",
    ]


def test_what_is_shown_has_no_order_and_needs_all_of_it() -> None:
    found = 0

    @settings(max_examples=100, deadline=None)
    @given(executions(None, register, REGISTER_ACTIONS, 6), st.data())
    def check(history: list[Operation], data: st.DataObject) -> None:
        nonlocal found
        for _ in range(2):
            history = mutated(data.draw, history)
        for finding in judge_object(Register(), history):
            found += 1
            assert isinstance(finding, NotLinearizable)
            assert finding.minimal
            kept = finding.operations
            assert kept == tuple(sorted(kept, key=lambda each: each.called))
            rest = [freed(each) for each in history if each not in kept]
            assert not has_order(None, steps_of(register), [*kept, *rest])
            for one in kept:
                fewer = [each for each in history if each in kept and each is not one]
                others = [freed(each) for each in history if each not in fewer]
                assert has_order(None, steps_of(register), [*fewer, *others])

    check()
    assert found


def test_each_key_is_an_object_of_its_own() -> None:
    history = [
        did("a", 1, 2, Write(1), key="x"),
        did("a", 3, 4, Read(), key="y"),
        did("a", 5, 6, Read(), key="x"),
    ]
    (finding,) = judge_object(Register(), history)
    assert str(finding).splitlines() == [
        "not linearizable (x): no order of these fits",
        "  a [1 .. 2] write 1 -> None",
        "  a [5 .. 6] read -> None",
        "  (0 other operations do not help)",
    ]


def test_a_search_that_was_given_up_is_a_finding() -> None:
    history = [did("a", 1, 2, Write(1)), did("b", 3, 4, Read(), 1)]
    assert judge_object(Register(), history) == []
    (finding,) = judge_object(Register(), history, steps_max=1)
    assert isinstance(finding, NotDecided)
    assert str(finding) == "not decided: no order of 2 operations found in 2 steps"


def test_when_parts_take_too_long_all_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.sim.judges.linear.judge.PART_STEPS_MAX", 0)
    history = [did("c", n, n + 1, Write(n)) for n in range(0, 60, 2)]
    history.append(did("d", 70, 71, Read(), 7))
    (finding,) = judge_object(Register(), history)
    assert isinstance(finding, NotLinearizable)
    assert not finding.minimal
    assert finding.operations == tuple(history)
    lines = str(finding).splitlines()
    assert lines[1] == f"  ({len(history) - LINES_MAX} before these)"
    assert lines[-2] == "  d [70 .. 71] read -> 7"
    assert lines[-1] == "  (0 other operations do not help; perhaps fewer are enough)"
    assert len(lines) == LINES_MAX + 3


def test_parts_are_not_judged_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    history = [did("c", n, n + 1, Write(n)) for n in range(0, 60, 2)]
    history.append(did("d", 70, 71, Read(), 4))
    (short,) = judge_object(Register(), history)
    monkeypatch.setattr("actors.sim.judges.linear.judge.SHRINK_STEPS_MAX", 1)
    (long,) = judge_object(Register(), history)
    assert isinstance(short, NotLinearizable)
    assert isinstance(long, NotLinearizable)
    assert (short.minimal, long.minimal) == (True, False)


def test_the_recorder_numbers_what_it_sees() -> None:
    recorder = Recorder()
    one = recorder.call("a", Write(1), key="x")
    two = recorder.call("b", Read())
    recorder.call("c", Read())
    gone = recorder.call("d", Write(2))
    recorder.answer(two, 7)
    recorder.answer(one, None)
    recorder.refuse(gone)
    assert recorder.operations() == (
        did("a", 1, 6, Write(1), key="x"),
        did("b", 2, 5, Read(), 7),
        did("c", 3, None, Read()),
    )
    for number in (one, gone, 99):
        with pytest.raises(ValueError, match="not under way"):
            recorder.answer(number, 1)
        with pytest.raises(ValueError, match="not under way"):
            recorder.refuse(number)


def test_nothing_returns_before_it_is_called() -> None:
    with pytest.raises(ValueError, match="returned at 1 before"):
        did("a", 2, 1, Read())


@given(st.sets(st.integers(0, 40)), st.integers(41, 60))
def test_fewest_keeps_what_is_needed_and_nothing_else(needed: set[int], count: int) -> None:
    asked: list[tuple[int, ...]] = []

    def fails(items: tuple[int, ...]) -> bool:
        asked.append(items)
        return needed <= set(items)

    assert fewest(tuple(range(count)), fails) == tuple(sorted(needed))
    assert fewest((), fails) == ()
