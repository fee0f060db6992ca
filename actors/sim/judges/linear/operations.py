"""What clients did to one object, and what they saw of it.

Times are positions in the order of all observations, not seconds. In a simulated world virtual time
stands still while much happens, and two operations at one time would count as overlapping although
the first had returned before the second was called.
"""

from __future__ import annotations

from collections.abc import Hashable
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
