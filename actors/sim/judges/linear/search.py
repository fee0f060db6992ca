"""Searches an order in which operations on one object make sense.

Wing and Gong (1993): take operations one after the other, each only when every operation that had
returned before it was called has been taken; go back when a result does not fit. Lowe (2017):
remember the positions already reached (what was taken, and the state), and take an operation that
has not returned yet only when the one that returns next has not found its turn ("just in time").

An operation of unknown outcome may be left out for ever, which makes the search hard: with n of
them 2**n sets may have been taken. Three rules keep it small; each leaves an order if there is one:

- A position is dead if the same position was dead with fewer unknown operations taken: those that
  are not taken can still be.
- Of unknown operations that ask for the same, the one that was called first is taken first.
- An unknown operation is not taken if it changes nothing, if no result can show it (`simplify`), or
  if the next operation hides it (`hides`): leaving it out is as good.

Two more rules shorten the search: an operation that `only_looks` is taken as soon as it fits, and a
state that comes only `once` is not left while an operation still has to find it.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

import attrs

from actors.sim.judges.linear.operations import Operation

S = TypeVar("S", bound=Hashable)

STEPS_MAX: Final = 1_000_000
"""How many steps one search may try, which takes some seconds. An ordinary history of 2,000
operations takes some thousand."""


class Model(Protocol[S]):
    """An object that does one thing at a time."""

    @property
    def initial(self) -> S:
        """The first state."""

    def step(self, state: S, operation: Operation) -> tuple[S, ...]:
        """Return the states to which the operation may lead; none if its result does not fit.

        Raises:
            TypeError: the object has no such action.
        """

    def only_looks(self, operation: Operation) -> bool:
        """Whether an operation with this known result changes no state, ever."""

    def hides(self, later: Operation) -> bool:
        """Whether state and results after `later` never depend on what came directly before it."""

    def simplify(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        """Return operations that have an order if and only if these have one.

        Operations may be made equal if no result shows their difference, and unknown ones may be
        left out if no result needs them.
        """

    def once(
        self, known: Sequence[Operation], open_ones: Sequence[Operation]
    ) -> Mapping[S, Sequence[int]]:
        """Return states that never come again once they are left, each with the known operations,
        by their position in `known`, that fit only there. Any of them may be left out.
        """


class Outcome(enum.Enum):
    """How a search ended."""

    ORDERED = "ordered"
    NO_ORDER = "no order"
    GAVE_UP = "gave up"


@attrs.frozen(kw_only=True)
class Verdict:
    """What a search found.

    Attributes:
        outcome: GAVE_UP says nothing about the history.
        steps: how many steps of the object were tried.
    """

    outcome: Outcome
    steps: int


def search(
    model: Model[S], operations: Sequence[Operation], *, steps_max: int = STEPS_MAX
) -> Verdict:
    """Look for an order of the operations of one object.

    Args:
        model: the object.
        operations: the operations on it, in any order.
        steps_max: after how many tried steps to give up.

    Raises:
        TypeError: the model has no such action.
    """
    return _Search(model, operations, steps_max).run()


@attrs.frozen
class _Position(Generic[S]):
    """How far an order has come.

    Attributes:
        turn: the number of known operations, in the order of their returns, that are all taken.
        ahead: bit n: also the known operation `turn + n` is taken.
        state: the object's state.
        last: the unknown operation that was taken last, if nothing was taken since; else -1.
        taken: bit n: the n-th unknown operation is taken.
    """

    turn: int
    ahead: int
    state: S
    last: int
    taken: int


class _Search(Generic[S]):
    def __init__(self, model: Model[S], operations: Sequence[Operation], steps_max: int) -> None:
        self._model = model
        simple = model.simplify(operations)
        known = [(each.returned, each) for each in simple if each.returned is not None]
        known.sort(key=lambda pair: pair[0])
        self._returns = [returned for returned, _ in known]
        self._known = [each for _, each in known]
        self._open = sorted(
            (each for each in simple if each.returned is None), key=lambda each: each.called
        )
        self._twins = _twins(self._open)
        self._looks = [model.only_looks(each) for each in self._known]
        self._near = _near(self._known)
        self._once = model.once(self._known, self._open)
        self._tried: dict[tuple[int, int, S, int], list[int]] = {}
        self._steps = 0
        self._steps_max = steps_max

    def run(self) -> Verdict:
        if not self._known:
            return Verdict(outcome=Outcome.ORDERED, steps=0)
        path = [self._next(_Position(0, 0, self._model.initial, -1, 0))]
        while path:
            position = next(path[-1], None)
            if self._steps > self._steps_max:
                return Verdict(outcome=Outcome.GAVE_UP, steps=self._steps)
            if position is None:
                path.pop()
                continue
            if position.turn == len(self._known):
                return Verdict(outcome=Outcome.ORDERED, steps=self._steps)
            if self._is_new(position):
                path.append(self._next(position))
        return Verdict(outcome=Outcome.NO_ORDER, steps=self._steps)

    def _is_new(self, position: _Position[S]) -> bool:
        """Whether no position that is at least as good was tried, and record this one."""
        tried = self._tried.setdefault(
            (position.turn, position.ahead, position.state, position.last), []
        )
        if any(less & ~position.taken == 0 for less in tried):
            return False
        tried.append(position.taken)
        return True

    def _next(self, position: _Position[S]) -> Iterator[_Position[S]]:
        """Yield the positions to which one more operation leads: the one that returns next, those
        that overlap it, and the unknown ones that were called before it returned.
        """
        turn, ahead = position.turn, position.ahead
        changing = []
        for number in self._near[turn]:
            if ahead >> (number - turn) & 1:
                continue
            if not self._looks[number]:
                changing.append(number)
                continue
            for after in self._take_known(position, number):
                # It can come now as well as later, and hinders no other operation.
                yield after
                return
        for number in changing:
            yield from self._take_known(position, number)
        for number, operation in enumerate(self._open):
            if operation.called > self._returns[turn]:
                return
            twin = self._twins[number]
            if position.taken >> number & 1 or not (twin < 0 or position.taken >> twin & 1):
                continue
            yield from self._take_open(position, number)

    def _take_known(self, position: _Position[S], number: int) -> Iterator[_Position[S]]:
        operation = self._known[number]
        if position.last >= 0 and self._model.hides(operation):
            return
        turn, ahead = position.turn, position.ahead | 1 << (number - position.turn)
        while ahead & 1:
            turn, ahead = turn + 1, ahead >> 1
        self._steps += 1
        for state in self._model.step(position.state, operation):
            after = _Position(turn, ahead, state, -1, position.taken)
            if state == position.state or not self._missing(position.state, after):
                yield after

    def _take_open(self, position: _Position[S], number: int) -> Iterator[_Position[S]]:
        operation = self._open[number]
        if position.last >= 0 and self._model.hides(operation):
            return
        self._steps += 1
        for state in self._model.step(position.state, operation):
            after = _Position(
                position.turn, position.ahead, state, number, position.taken | 1 << number
            )
            if state != position.state and not self._missing(position.state, after):
                yield after

    def _missing(self, left: S, position: _Position[S]) -> bool:
        """Whether an operation that fits only into the state that was left is still to be taken."""
        return any(
            number >= position.turn and not position.ahead >> (number - position.turn) & 1
            for number in self._once.get(left, ())
        )


def _twins(operations: Sequence[Operation]) -> list[int]:
    """Return, for each operation, the number of the last one before it that asks for the same; else
    -1.
    """
    newest: dict[Hashable, int] = {}
    twins = []
    for number, each in enumerate(operations):
        twins.append(newest.get(each.action, -1))
        newest[each.action] = number
    return twins


def _near(known: Sequence[Operation]) -> list[list[int]]:
    """Return, for each operation, itself and the later ones, by their returns, that it overlaps."""
    calls = sorted(range(len(known)), key=lambda number: known[number].called)
    under_way: list[int] = []
    called = 0
    found = []
    for turn, each in enumerate(known):
        assert each.returned is not None
        under_way = [number for number in under_way if number >= turn]
        while called < len(calls) and known[calls[called]].called <= each.returned:
            under_way.append(calls[called])
            called += 1
        found.append(sorted(under_way))
    return found
