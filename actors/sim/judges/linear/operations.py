"""What clients did to one object, and what they saw of it.

Times are positions in the order of all observations, not seconds. In a simulated world virtual time
stands still while much happens, and two operations at one time would count as overlapping although
the first had returned before the second was called.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from typing import Final

import attrs

BEFORE_ALL: Final = float("-inf")


@attrs.frozen(kw_only=True)
class Operation:
    """One operation of one client.

    Attributes:
        client: the client that called it. A client may go on after an unknown outcome, so its
            operations may overlap.
        action: what the client asked for, a frozen value with a text for people.
        called: when it was called; any number that grows.
        returned: when it returned; None: the outcome is unknown. It may have taken effect at any
            time since `called`, may still do so, or never. An operation that is known not to have
            taken effect is no operation: leave it out.
        result: what it returned; without meaning while `returned` is None.
        key: the object, of several independent ones.
    """

    client: str
    action: Hashable
    called: float
    returned: float | None = attrs.field(default=None)
    result: Hashable = None
    key: str = ""

    @returned.validator
    def _not_before_the_call(self, _: object, returned: float | None) -> None:
        if returned is not None and returned < self.called:
            raise ValueError(f"returned at {returned} before it was called at {self.called}")

    def precedes(self, other: Operation) -> bool:
        """Whether it had returned before the other was called."""
        return self.returned is not None and self.returned < other.called

    def __str__(self) -> str:
        known = self.returned is not None
        until = f"{self.returned:g}" if self.returned is not None else "..."
        seen = f" -> {self.result}" if known else " -> unknown"
        return f"{self.client} [{self.called:g} .. {until}] {self.action}{seen}"


def freed(operation: Operation) -> Operation:
    """Return the operation without anything that is known about it: it may take effect at any time,
    or never.

    A history that has an order keeps one when some of its operations are freed. So if it has none
    with freed operations, those are not to blame. (Leaving a write out could make a false reason: a
    read that found it.)
    """
    return attrs.evolve(operation, called=BEFORE_ALL, returned=None, result=None)


@attrs.define
class Recorder:
    """Records operations as they happen, and numbers calls and returns in one order."""

    _seen: dict[int, Operation] = attrs.field(factory=dict, init=False)
    _numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1), init=False)

    def call(self, client: str, action: Hashable, *, key: str = "") -> int:
        """Record the call of an operation. Until it returns, its outcome is unknown.

        Returns: its number, for `answer` or `refuse`.
        """
        number = next(self._numbers)
        self._seen[number] = Operation(client=client, action=action, called=number, key=key)
        return number

    def answer(self, number: int, result: Hashable) -> None:
        """Record the result of an operation.

        Args:
            number: from `call`.
            result: what it returned.

        Raises:
            ValueError: it has returned already, or was refused.
        """
        begun = self._begun(number)
        self._seen[number] = attrs.evolve(begun, returned=next(self._numbers), result=result)

    def refuse(self, number: int) -> None:
        """Remove an operation that surely never takes effect.

        Raises:
            ValueError: it has returned already, or was refused.
        """
        self._begun(number)
        del self._seen[number]

    def operations(self) -> tuple[Operation, ...]:
        """Return all operations, in the order of their calls."""
        return tuple(self._seen.values())

    def _begun(self, number: int) -> Operation:
        begun = self._seen.get(number)
        if begun is None or begun.returned is not None:
            raise ValueError(f"operation {number} is not under way")
        return begun
