"""What a register and a counter may show, and each thing they may not."""

from __future__ import annotations

from typing import Any

import pytest
from linear_kit import did

from actors.sim.judges.linear.judge import judge_object
from actors.sim.judges.linear.operations import Operation
from actors.sim.judges.linear.registers import Add, CompareAndSet, Counter, Read, Register, Write

READ = Read()

BROKEN: dict[str, list[Operation]] = {
    "stale read": [
        did("a", 1, 2, Write(1)),
        did("a", 3, 4, Write(2)),
        did("b", 5, 6, READ, 1),
    ],
    "stale read of the initial value": [did("a", 1, 2, Write(1)), did("b", 3, 4, READ)],
    "future read": [did("b", 1, 2, READ, 1), did("a", 3, 4, Write(1))],
    "read of what nobody wrote": [did("a", 1, 4, Write(1)), did("b", 2, 3, READ, 7)],
    "read of a value that vanished": [
        did("a", 1, None, Write(1)),
        did("b", 2, 3, READ, 1),
        did("c", 4, 5, READ),
    ],
    "two reads in two orders": [
        did("a", 1, 20, Write(1)),
        did("b", 1, 20, Write(2)),
        did("c", 2, 3, READ, 1),
        did("c", 4, 5, READ, 2),
        did("d", 2, 3, READ, 2),
        did("d", 4, 5, READ, 1),
    ],
    "new then old": [
        did("a", 1, 2, Write(1)),
        did("a", 3, 10, Write(2)),
        did("b", 4, 5, READ, 2),
        did("c", 6, 7, READ, 1),
    ],
    "lost write": [
        did("a", 1, 2, Write(1)),
        did("b", 3, 4, Write(2)),
        did("c", 5, 6, CompareAndSet(1, 3), True),
    ],
    "lost update": [
        did("a", 1, 2, Write(1)),
        did("b", 3, 6, CompareAndSet(1, 2), True),
        did("c", 4, 5, CompareAndSet(1, 3), True),
    ],
    "compare-and-set that succeeded twice": [
        did("a", 1, 2, Write(1)),
        did("b", 3, 4, CompareAndSet(1, 2), True),
        did("b", 5, 6, CompareAndSet(1, 2), True),
    ],
    "compare-and-set that failed without a reason": [
        did("a", 1, 2, Write(1)),
        did("b", 3, 4, CompareAndSet(1, 2), False),
    ],
    "failed compare-and-set that took effect": [
        did("a", 1, 2, Write(1)),
        did("b", 3, 4, CompareAndSet(9, 2), False),
        did("c", 5, 6, READ, 2),
    ],
    "unknown outcome that took effect before its call": [
        did("b", 1, 2, READ, 1),
        did("a", 3, None, Write(1)),
    ],
    "unknown outcome that took effect twice": [
        did("a", 1, None, Write(1)),
        did("b", 2, 3, READ, 1),
        did("c", 4, 5, Write(2)),
        did("b", 6, 7, READ, 1),
    ],
    "unknown chain without its first link": [
        did("a", 1, None, CompareAndSet(1, 2)),
        did("b", 2, 3, READ, 2),
    ],
}

GOOD: dict[str, list[Operation]] = {
    "reads on both sides of a slow write": [
        did("a", 1, 20, Write(1)),
        did("b", 2, 3, READ),
        did("c", 4, 5, READ, 1),
    ],
    "hidden write": [
        did("a", 1, 10, Write(1)),
        did("b", 2, 3, Write(2)),
        did("c", 4, 5, READ, 2),
        did("c", 11, 12, READ, 2),
    ],
    "unknown outcome that never took effect": [
        did("a", 1, None, Write(1)),
        did("b", 2, 3, READ),
    ],
    "unknown outcome that took effect late": [
        did("a", 1, None, Write(1)),
        did("b", 2, 3, READ),
        did("b", 4, 5, Write(2)),
        did("c", 6, 7, READ, 2),
        did("c", 8, 9, READ, 1),
    ],
    "unknown chain": [
        did("a", 1, None, CompareAndSet(1, 2)),
        did("b", 2, None, Write(1)),
        did("c", 3, 4, READ, 2),
    ],
    "compare-and-set that failed because of an unknown write": [
        did("a", 1, 2, Write(1)),
        did("b", 3, None, Write(7)),
        did("c", 4, 5, CompareAndSet(1, 2), False),
    ],
    "two compare-and-sets, one wins": [
        did("a", 1, 2, Write(1)),
        did("b", 3, 6, CompareAndSet(1, 2), False),
        did("c", 4, 7, CompareAndSet(1, 3), True),
    ],
    "one client goes on after an unknown outcome": [
        did("a", 1, None, Write(1)),
        did("a", 2, 3, Write(2)),
        did("a", 4, 5, READ, 1),
    ],
    "return and call at one time overlap": [did("a", 1, 2, Write(1)), did("b", 2, 3, READ)],
}

COUNTER_BROKEN: dict[str, list[Operation]] = {
    "lost addition": [
        did("a", 1, 4, Add(1)),
        did("b", 2, 3, Add(1)),
        did("c", 5, 6, READ, 1),
    ],
    "addition twice": [did("a", 1, None, Add(1)), did("c", 2, 3, READ, 2)],
    "going back": [
        did("a", 1, None, Add(1)),
        did("b", 2, 3, READ, 1),
        did("c", 4, 5, READ, 0),
    ],
}

COUNTER_GOOD: dict[str, list[Operation]] = {
    "some of the unknown additions": [
        *(did(f"a{number}", 1, None, Add(1)) for number in range(6)),
        did("b", 2, 3, READ, 2),
        did("b", 4, 5, READ, 5),
    ],
    "down again": [
        did("a", 1, None, Add(1)),
        did("a", 1, 9, Add(-1)),
        did("b", 2, 3, READ, 1),
        did("b", 4, 5, READ, 0),
    ],
}


def cases(model: Any, histories: dict[str, list[Operation]]) -> list[Any]:
    return [pytest.param(model, history, id=name) for name, history in histories.items()]


@pytest.mark.parametrize(
    ("model", "history"), [*cases(Register(), BROKEN), *cases(Counter(), COUNTER_BROKEN)]
)
def test_each_anomaly_is_rejected(model: Any, history: list[Operation]) -> None:
    assert len(judge_object(model, history)) == 1


@pytest.mark.parametrize(
    ("model", "history"), [*cases(Register(), GOOD), *cases(Counter(), COUNTER_GOOD)]
)
def test_what_may_be_is_accepted(model: Any, history: list[Operation]) -> None:
    assert judge_object(model, history) == []


def test_a_register_may_begin_with_a_value() -> None:
    assert judge_object(Register(5), [did("a", 1, 2, READ, 5)]) == []
    assert len(judge_object(Register(5), [did("a", 1, 2, READ)])) == 1
