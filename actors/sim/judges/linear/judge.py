"""Judges whole histories, object by object, and shows the part that has no order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

import attrs

from actors.sim.fewer import fewest
from actors.sim.judges.linear.log import ReadLog, judge_one_log
from actors.sim.judges.linear.operations import Operation, freed
from actors.sim.judges.linear.search import STEPS_MAX, Model, Outcome, search

S = TypeVar("S", bound=Hashable)

PART_STEPS_MAX: Final = 50_000
"""How many steps one part of a bad history may take; a part that takes more is no short reason."""
SHRINK_STEPS_MAX: Final = 1_000_000
"""How many steps all parts together may take: some seconds, spent only on a bad history."""
LINES_MAX: Final = 20
"""How many operations of one finding are printed; a short reason has two to six."""


@attrs.frozen(kw_only=True)
class NotLinearizable:
    """No order of these operations fits, whatever the other operations did.

    Attributes:
        key: the object.
        reason: what does not fit.
        operations: the operations that contradict each other, in the order of their calls; if
            `minimal`, each is needed.
        others: how many other operations there were; they may have happened at any time or never,
            and so explain nothing.
        minimal: False: a bound was reached, and there may be a shorter part.
    """

    key: str
    reason: str
    operations: tuple[Operation, ...]
    others: int
    minimal: bool

    def __str__(self) -> str:
        size = "" if self.minimal else "; perhaps fewer are enough"
        lines = [
            f"not linearizable{_of(self.key)}: {self.reason}",
            *(f"  {each}" for each in self.operations[-LINES_MAX:]),
            f"  ({self.others} other operations do not help{size})",
        ]
        if len(self.operations) > LINES_MAX:
            lines.insert(1, f"  ({len(self.operations) - LINES_MAX} before these)")
        return "\n".join(lines)


@attrs.frozen(kw_only=True)
class NotDecided:
    """The search was given up: the history may be good or bad. This is never the same as good.

    Attributes:
        key: the object.
        steps: how many steps were tried.
        operations: how many operations there were.
    """

    key: str
    steps: int
    operations: int

    def __str__(self) -> str:
        return (
            f"not decided{_of(self.key)}: no order of {self.operations} operations"
            f" found in {self.steps} steps"
        )


Finding: TypeAlias = NotLinearizable | NotDecided


def _of(key: str) -> str:
    return f" ({key})" if key else ""


@attrs.frozen
class _Judged:
    """What is known of operations on one object.

    Attributes:
        steps: how many steps it took to know.
        reason: why they have no order; None: they have one, or the search was given up.
        gave_up: whether the bound on steps was reached.
    """

    steps: int
    reason: str | None = None
    gave_up: bool = False


@attrs.frozen
class _Judge:
    """How to judge one object.

    Attributes:
        ask: judges operations on it, within a number of steps.
        looks: whether an operation surely changed nothing.
    """

    ask: Callable[[Sequence[Operation], int], _Judged]
    looks: Callable[[Operation], bool]


def judge_log(operations: Sequence[Operation]) -> list[Finding]:
    """Return what is wrong with the logs that clients appended to and read, one log for each key.

    Args:
        operations: the operations of all clients, in any order, in the form that `log.py` demands.
    """

    def ask(some: Sequence[Operation], _: int) -> _Judged:
        return _Judged(len(some), judge_one_log(some))

    def looks(each: Operation) -> bool:
        return isinstance(each.action, ReadLog)

    return _judge_each(_Judge(ask, looks), operations, 0)


def judge_object(
    model: Model[S], operations: Sequence[Operation], *, steps_max: int = STEPS_MAX
) -> list[Finding]:
    """Return what is wrong with objects that `model` describes, one for each key.

    Each object is judged alone: a history has an order if and only if that of each object has one
    (Herlihy and Wing 1990).

    Args:
        model: the object.
        operations: the operations of all clients, in any order.
        steps_max: the bound on each search; reaching it is a finding.
    """

    def ask(some: Sequence[Operation], most: int) -> _Judged:
        verdict = search(model, some, steps_max=most)
        if verdict.outcome is Outcome.NO_ORDER:
            return _Judged(verdict.steps, "no order of these fits")
        return _Judged(verdict.steps, gave_up=verdict.outcome is Outcome.GAVE_UP)

    return _judge_each(_Judge(ask, model.only_looks), operations, steps_max)


def _judge_each(judge: _Judge, operations: Sequence[Operation], steps_max: int) -> list[Finding]:
    objects: dict[str, list[Operation]] = {}
    for each in sorted(operations, key=lambda each: each.called):
        objects.setdefault(each.key, []).append(each)
    findings: list[Finding] = []
    for key, own in objects.items():
        judged = judge.ask(own, steps_max)
        if judged.gave_up:
            findings.append(NotDecided(key=key, steps=judged.steps, operations=len(own)))
        elif judged.reason is not None:
            findings.append(_shortest(judge, key, own, judged.reason))
    return findings


def _shortest(
    judge: _Judge, key: str, operations: Sequence[Operation], reason: str
) -> NotLinearizable:
    """Return the shortest part found that has no order, whatever the other operations did."""
    parts = _Parts(judge, operations)
    kept = list(range(len(operations)))
    for start in _starts(judge, operations, _wrong_since(judge, operations)):
        if parts.fail(start):
            kept = sorted(fewest(start, parts.fail))
            reason = parts.reason
            break
    else:
        parts.gave_up = True
    return NotLinearizable(
        key=key,
        reason=reason,
        operations=tuple(operations[number] for number in kept),
        others=len(operations) - len(kept),
        minimal=not parts.gave_up,
    )


def _wrong_since(judge: _Judge, operations: Sequence[Operation]) -> float:
    """Return the first return time up to which the operations seem to have no order. Together they
    have none.
    """
    returns = sorted(each.returned for each in operations if each.returned is not None)
    low, high = 0, len(returns) - 1
    while low < high:
        middle = (low + high) // 2
        judged = judge.ask(_until(operations, returns[middle]), PART_STEPS_MAX)
        # Finding an order is usually easy: when it takes long, there is none.
        if judged.reason is not None or judged.gave_up:
            high = middle
        else:
            low = middle + 1
    return returns[high]


def _starts(
    judge: _Judge, operations: Sequence[Operation], wrong_since: float
) -> Iterator[tuple[int, ...]]:
    """Yield parts to begin with, as numbers of operations, ever larger, and in the end all.

    A part of few operations is judged sooner, and most reasons are as short as the first parts: the
    operation that returned when no order was left, those that concern the same values, and some
    that were called shortly before.
    """
    numbers = range(len(operations))
    last = next(number for number in numbers if operations[number].returned == wrong_since)
    values = _values(operations[last])
    first = {last: None}
    for number in numbers:
        each = operations[number]
        if not values.isdisjoint(_values(each)) and not judge.looks(each):
            first[number] = None
    before = [number for number in numbers if operations[number].called <= wrong_since]
    for some in ([number for number in before if not judge.looks(operations[number])], before):
        count = 1
        while count < 2 * len(some):
            yield tuple(first | dict.fromkeys(some[-count:]))
            count *= 2
    yield tuple(numbers)


def _values(operation: Operation) -> frozenset[Hashable]:
    """Return the values that an operation concerns, to find operations that concern the same."""
    action = operation.action
    asked = attrs.astuple(action) if attrs.has(type(action)) else ()  # type: ignore[arg-type]
    return frozenset((*asked, operation.result)) - {None, False, True}


def _until(operations: Sequence[Operation], at: float) -> list[Operation]:
    """Return what was seen up to a time: an operation that had not returned by then has an unknown
    outcome.
    """
    return [
        each
        if each.returned is None or each.returned <= at
        else attrs.evolve(each, returned=None, result=None)
        for each in operations
        if each.called <= at
    ]


@attrs.define
class _Parts:
    """Judges parts of a history on one object.

    Attributes:
        judge: how to judge the object.
        history: all operations, which have no order.
        gave_up: whether some part could not be judged.
        reason: why the last part that failed has no order.
    """

    judge: _Judge
    history: Sequence[Operation]
    gave_up: bool = attrs.field(default=False, init=False)
    reason: str = attrs.field(default="", init=False)
    _left: int = attrs.field(factory=lambda: SHRINK_STEPS_MAX, init=False)

    def only(self, kept: Sequence[int]) -> list[Operation]:
        """Return all operations; those without a number in `kept` are freed."""
        some = [freed(each) for each in self.history]
        for number in kept:
            some[number] = self.history[number]
        return some

    def fail(self, kept: tuple[int, ...]) -> bool:
        """Whether these operations are known to have no order, whatever the others did."""
        if self._left <= 0:
            self.gave_up = True
            return False
        judged = self.judge.ask(self.only(kept), PART_STEPS_MAX)
        self._left -= judged.steps
        self.gave_up |= judged.gave_up
        if judged.reason is None:
            return False
        self.reason = judged.reason
        return True
