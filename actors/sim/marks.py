"""What happened in a run, counted by name, from what was seen of it alone.

A mark is a moment that rules of ours exist for and that no fault can be sure to bring about: a
sweep in which one never came has not tried the rule. `sweep` says which have to come.
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
"""What counts of what was done to a run, besides its faults."""
ALWAYS: Final = (
    *("restarts", "recoveries after a crash", "disk errors", "catch-ups", "connections lost"),
    *("acknowledged records", "unknown records", "refused records", "read records", "fresh reads"),
)
"""What a sweep has to have seen, whatever the mode."""


@attrs.define(kw_only=True)
class Tally:
    """Goes through one run; a mode's own says what its events are.

    Attributes:
        named: events that each count once, whatever they say.
    """

    named: ClassVar[Mapping[type, str]] = {}
    _asked: dict[int, int] = attrs.field(factory=dict, init=False)  # operation -> records

    def count(self, observations: Iterable[Observation]) -> dict[str, int]:
        """What nodes and clients did, by name; names that did not come are left out."""
        counts: dict[str, int] = {}
        for seen in observations:
            for name, number in self._see(seen):
                counts[name] = counts.get(name, 0) + number
        return {name: number for name, number in counts.items() if number}

    def event(self, seen: SimEvent) -> Iterator[tuple[str, int]]:
        """What an event counts as, by what it says."""
        yield from ()

    def fault(self, seen: FaultInjected) -> Iterator[tuple[str, int]]:
        """What counts of something done to the run, besides INJECTED."""
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
    """The class of an error, from its repr."""
    return error.partition("(")[0]
