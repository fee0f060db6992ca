"""The checkers against every order, tried one after the other."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_kit import (
    COUNTER_ACTIONS,
    REGISTER_ACTIONS,
    counter,
    did,
    executions,
    has_order,
    log_executions,
    log_model,
    mutated,
    mutated_log,
    register,
    steps_of,
)

from actors.sim.judges.linear.log import Append, ReadLog, Shown, judge_one_log
from actors.sim.judges.linear.operations import Operation
from actors.sim.judges.linear.registers import Counter, Read, Register, Write
from actors.sim.judges.linear.search import Outcome, search

EVERY_ORDER = 6
"""Most operations of which every order is tried."""
MANY = 30

OBJECTS: list[Any] = [
    pytest.param(Register(), register, REGISTER_ACTIONS, id="register"),
    pytest.param(Counter(), counter, COUNTER_ACTIONS, id="counter"),
]
examples = settings(max_examples=150, deadline=None)


def ordered(model: Any, history: list[Operation]) -> bool:
    outcome = search(model, history).outcome
    assert outcome is not Outcome.GAVE_UP
    return outcome is Outcome.ORDERED


@pytest.mark.parametrize(("model", "sequential", "actions"), OBJECTS)
def test_what_a_correct_object_shows_has_an_order(
    model: Any, sequential: Any, actions: Any
) -> None:
    @examples
    @given(executions(model.initial, sequential, actions, MANY))
    def check(history: list[Operation]) -> None:
        assert ordered(model, history)

    check()


@pytest.mark.parametrize(("model", "sequential", "actions"), OBJECTS)
def test_the_search_finds_what_trying_every_order_finds(
    model: Any, sequential: Any, actions: Any
) -> None:
    seen = {True: 0, False: 0}

    @examples
    @given(executions(model.initial, sequential, actions, EVERY_ORDER), st.data())
    def check(history: list[Operation], data: st.DataObject) -> None:
        for _ in range(2):
            history = mutated(data.draw, history)
        expected = has_order(model.initial, steps_of(sequential), history)
        seen[expected] += 1
        assert ordered(model, history) is expected

    check()
    assert all(seen.values()), "both kinds were judged"


@examples
@given(log_executions(MANY))
def test_what_a_correct_log_shows_is_accepted(history: list[Operation]) -> None:
    assert judge_one_log(history) is None


def test_the_log_is_judged_as_by_search_and_by_trying_every_order() -> None:
    seen = {True: 0, False: 0}

    @settings(max_examples=400, deadline=None)
    @given(log_executions(EVERY_ORDER), st.data())
    def check(history: list[Operation], data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(1, 2))):
            history = mutated_log(data.draw, history)
        model = log_model(history)
        expected = has_order(model.initial, model.step, history)
        seen[expected] += 1
        assert ordered(model, history) is expected
        assert (judge_one_log(history) is None) is expected

    check()
    assert all(seen.values()), "both kinds were judged"


@examples
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3)), max_size=6))
def test_a_session_never_goes_back(drawn: list[tuple[int, int, int]]) -> None:
    reads = [
        did("c", called, called + long, ReadLog(0, session="n1"), Shown((), 0, end))
        for called, long, end in drawn
    ]
    back = any(
        reads[a].precedes(reads[b]) and drawn[a][2] > drawn[b][2]
        for a in range(len(drawn))
        for b in range(len(drawn))
    )
    assert (judge_one_log(reads) is not None) is back
    alone = [attrs.evolve(each, action=ReadLog(0)) for each in reads]
    assert judge_one_log(alone) is None


def test_a_search_that_takes_too_long_says_so() -> None:
    history = [did(f"c{number}", 0, None, Write(number)) for number in range(9)]
    history += [did("r", 1, 2 + number, Read(), number) for number in range(9)]
    full = search(Register(), history)
    assert full.outcome is Outcome.ORDERED
    assert search(Register(), history, steps_max=full.steps).outcome is Outcome.ORDERED
    short = search(Register(), history, steps_max=full.steps // 2)
    assert short.outcome is Outcome.GAVE_UP


def test_a_broken_history_that_takes_too_long_is_not_called_good() -> None:
    history = [did(f"c{number}", 0, None, Write(number % 3)) for number in range(9)]
    history += [did("r", 1, 2, Read(), 2), did("r", 3, 4, Read(), 7)]
    assert search(Register(), history).outcome is Outcome.NO_ORDER
    assert search(Register(), history, steps_max=1).outcome is Outcome.GAVE_UP


def test_nothing_known_has_an_order() -> None:
    assert ordered(Register(), [])
    assert ordered(Register(), [did("a", 1, None, Write(1)), did("b", 1, None, Read())])
    assert judge_one_log([]) is None


@pytest.mark.parametrize("model", [Register(), Counter()])
def test_a_foreign_action_is_a_type_error(model: Any) -> None:
    with pytest.raises(TypeError, match="Append"):
        search(model, [did("a", 1, 2, Append(b"x"), 0)])
