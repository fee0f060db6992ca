"""Small objects for which an order can be searched: a register with compare-and-set, and a counter.

Both are the simplest replicated state machines: every command goes through the log, and its answer
shows the state at its turn.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import attrs

from actors.sim.judges.linear.operations import Operation


@attrs.frozen
class Write:
    """Put a value into the register; the result does not matter."""

    value: Hashable

    def __str__(self) -> str:
        return f"write {self.value}"


@attrs.frozen
class Read:
    """Ask for the value of a register or a counter, which is the result."""

    def __str__(self) -> str:
        return "read"


@attrs.frozen
class CompareAndSet:
    """Put `value` in place of `expected`; the result says whether `expected` was there."""

    expected: Hashable
    value: Hashable

    def __str__(self) -> str:
        return f"cas {self.expected} to {self.value}"


@attrs.frozen
class Register:
    """One value. It takes `Write`, `Read` and `CompareAndSet`.

    Attributes:
        initial: the value in it at first.
    """

    initial: Hashable = None

    def step(self, state: Hashable, operation: Operation) -> tuple[Hashable, ...]:
        known = operation.returned is not None
        match operation.action:
            case Write(value=value):
                return (value,)
            case Read():
                return (state,) if not known or operation.result == state else ()
            case CompareAndSet(expected=expected, value=value):
                hit = state == expected
                if known and operation.result is not hit:
                    return ()
                return (value,) if hit else (state,)
        raise TypeError(f"a register knows no {operation.action!r}")

    def only_looks(self, operation: Operation) -> bool:
        return isinstance(operation.action, Read) or _missed(operation)

    def hides(self, later: Operation) -> bool:
        """Whether the value directly before an operation stays unseen: before a write it does."""
        return isinstance(later.action, Write)

    def simplify(self, operations: Sequence[Operation]) -> list[Operation]:
        """Replace all values that no operation asks about by one value. Leave out operations of
        unknown outcome whose value no operation found, unless a compare-and-set failed: that may
        have found nearly any value.
        """
        found = _found(operations)
        anything = any(_missed(each) for each in operations)
        asked = {self.initial: None, **found}
        for each in operations:
            if isinstance(each.action, CompareAndSet):
                asked[each.action.expected] = None
        simple: list[Operation] = []
        for each in operations:
            match each.action:
                case Write(value=value) | CompareAndSet(value=value):
                    if each.returned is None and not anything and value not in found:
                        continue
                    if value not in asked:
                        action = attrs.evolve(each.action, value=_NOT_ASKED)
                        each = attrs.evolve(each, action=action)
                    simple.append(each)
                case _ if each.returned is not None:
                    simple.append(each)
        return simple

    def once(
        self, known: Sequence[Operation], open_ones: Sequence[Operation]
    ) -> dict[Hashable, list[int]]:
        """Return the values that are written once, each with the operations that found it, which
        have to come before the next write.
        """
        written = {self.initial: 1}
        for each in (*known, *open_ones):
            if isinstance(each.action, Write | CompareAndSet):
                written[each.action.value] = written.get(each.action.value, 0) + 1
        finders: dict[Hashable, list[int]] = {}
        for number, each in enumerate(known):
            for value in _finds(each):
                if written.get(value) == 1:
                    finders.setdefault(value, []).append(number)
        return finders


_NOT_ASKED: Final = object()
"""Stands for all values that no operation asks about."""


def _finds(operation: Operation) -> tuple[Hashable, ...]:
    """Return the value that was in the register, if the result shows it."""
    if operation.returned is not None:
        match operation.action:
            case Read():
                return (operation.result,)
            case CompareAndSet(expected=expected) if operation.result is True:
                return (expected,)
    return ()


def _missed(operation: Operation) -> bool:
    return isinstance(operation.action, CompareAndSet) and operation.result is False


def _found(operations: Sequence[Operation]) -> dict[Hashable, None]:
    """Return the values that were found, or that may have been in the register on the way to one
    that was.
    """
    found = {value: None for each in operations for value in _finds(each)}
    steps: dict[Hashable, list[Hashable]] = {}
    for each in operations:
        if isinstance(each.action, CompareAndSet) and each.returned is None:
            steps.setdefault(each.action.value, []).append(each.action.expected)
    waiting = list(found)
    while waiting:
        for expected in steps.get(waiting.pop(), ()):
            if expected not in found:
                found[expected] = None
                waiting.append(expected)
    return found


@attrs.frozen
class Add:
    """Add to the counter; the result does not matter."""

    amount: int

    def __str__(self) -> str:
        return f"add {self.amount}"


@attrs.frozen
class Counter:
    """A number that starts at 0. It takes `Add` and `Read`."""

    initial: int = 0

    def step(self, state: int, operation: Operation) -> tuple[int, ...]:
        match operation.action:
            case Add(amount=amount):
                return (state + amount,)
            case Read():
                known = operation.returned is not None
                return (state,) if not known or operation.result == state else ()
        raise TypeError(f"a counter knows no {operation.action!r}")

    def only_looks(self, operation: Operation) -> bool:
        return isinstance(operation.action, Read)

    def hides(self, later: Operation) -> bool:
        """Always false, because every addition stays visible in the sum."""
        return False

    def simplify(self, operations: Sequence[Operation]) -> list[Operation]:
        """Leave out reads of unknown outcome; any sum may be needed."""
        return [
            each
            for each in operations
            if each.returned is not None or not isinstance(each.action, Read)
        ]

    def once(
        self, known: Sequence[Operation], open_ones: Sequence[Operation]
    ) -> dict[int, list[int]]:
        """Return the sums that were read, if the counter only grows: a read has to come before the
        next addition.
        """
        finders: dict[int, list[int]] = {}
        for each in (*known, *open_ones):
            if isinstance(each.action, Add) and each.action.amount < 0:
                return finders
        for number, each in enumerate(known):
            if isinstance(each.action, Read) and isinstance(each.result, int):
                finders.setdefault(each.result, []).append(number)
        return finders
