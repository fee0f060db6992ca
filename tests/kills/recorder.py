"""Records what clients did and saw, for the judges of linearizability."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator

import attrs

from actors.sim.judges.linear.operations import Operation


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
