"""Counts what happened in a run, by name, from its observations alone.

A mark is a moment for which rules of ours exist, and which no fault is sure to bring about. A sweep
in which it never came has not tested the rule. `sweep` says which marks have to come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final, assert_never

import attrs

from actors.sim.history import (
    AppendAnswered,
    AppendAsked,
    AppendRefused,
    AppendUnknown,
    FaultInjected,
    MachineDid,
    MachineRead,
    NodeLooked,
    Observation,
    OffsetsSeen,
    RecordsRead,
)
from actors.sim.world import SimEvent

INJECTED: Final = {
    "felt": "disk errors",
    "refused to start": "refused starts",
    "wiped": "slaves emptied",
    "resynced": "logs resynced",
    "lost": "mark acknowledged records given up",
    "damage found": "mark damage found by a check",
    "transferred": "transfers",
}
"""The counts of things that were done to a run, besides its faults."""
ALWAYS: Final = (
    *("restarts", "recoveries after a crash", "disk errors", "catch-ups", "connections lost"),
    *("acknowledged records", "unknown records", "refused records", "read records", "fresh reads"),
)
"""What a sweep has to have seen, in any mode."""


@attrs.define(kw_only=True)
class Tally:
    """Counts the observations of one run; each mode has a subclass that counts its events.

    Attributes:
        named: the event classes that count once for each event, whatever its fields are.
    """

    named: ClassVar[Mapping[type, str]] = {}
    _asked: dict[int, int] = attrs.field(factory=dict, init=False)  # operation -> records

    def count(self, observations: Iterable[Observation]) -> dict[str, int]:
        """Return what nodes and clients did, by name; names that did not occur are left out."""
        counts: dict[str, int] = {}
        for seen in observations:
            for name, number in self._see(seen):
                counts[name] = counts.get(name, 0) + number
        return {name: number for name, number in counts.items() if number}

    def event(self, seen: SimEvent) -> Iterator[tuple[str, int]]:
        """Yield the counts of an event that depend on its fields."""
        yield from ()

    def fault(self, seen: FaultInjected) -> Iterator[tuple[str, int]]:
        """Yield the counts of something that was done to the run, besides INJECTED."""
        yield from ()

    def _see(self, seen: Observation) -> Iterator[tuple[str, int]]:
        match seen:
            case SimEvent(event=event):
                if type(event) in self.named:
                    yield self.named[type(event)], 1
                yield from self.event(seen)
            case AppendAsked(operation=number, bodies=bodies):
                self._asked[number] = len(bodies)
            case AppendAnswered(operation=number):
                yield "acknowledged records", self._asked[number]
            case AppendUnknown(operation=number, error=error):
                yield "unknown records", self._asked[number]
                yield f"mark append unknown: {_class_of(error)}", 1
            case AppendRefused(operation=number, error=error):
                yield "refused records", self._asked[number]
                yield f"mark append refused: {_class_of(error)}", 1
            case RecordsRead(batch=batch, fresh=fresh):
                yield "read records", len(batch.records)
                yield "fresh reads", fresh
            case MachineRead():
                yield "machine reads", 1
            case FaultInjected(kind=kind):
                if kind in INJECTED:
                    yield INJECTED[kind], 1
                yield from self.fault(seen)
            case OffsetsSeen() | NodeLooked() | MachineDid():
                pass
            case _:
                assert_never(seen)


def _class_of(error: str) -> str:
    """Return the class of an error, from its repr."""
    return error.partition("(")[0]
