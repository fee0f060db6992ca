"""The invariant that damage does not spread; see `checkers`."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from actors.config import ClassicGroup
from actors.events import ha
from actors.sim.history import FaultInjected, Observation
from actors.sim.log_bytes import LogBytes
from actors.sim.survival import is_of
from actors.sim.world import SimEvent


@attrs.define(kw_only=True)
class NoDamagedCopyCounts:
    """What was damaged on one node is no other's copy: a slave that reports the bytes has them as
    they were before. What lies before its oldest file is no copy of its own: it is shown as any
    node has it that has deleted it for its age.
    """

    group: ClassicGroup
    logs: LogBytes
    _good: dict[str, list[tuple[int, bytes]]] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        match seen:
            case FaultInjected(kind="damaged", where=where, good=good):
                node, start, _, _ = where.split()
                self._good.setdefault(node, []).append((int(start), good))
            case FaultInjected(kind="repaired" | "wiped", where=where):
                self._good.pop(where.split()[0], None)
            case SimEvent(event=ha.OffsetReported(offset_bytes=offset)) if is_of(self.group, seen):
                yield from self._check(seen.node, offset)

    def _check(self, reporter: str, offset: int) -> Iterator[str]:
        for node, damaged in self._good.items():
            for start, good in damaged if node != reporter else ():
                end = start + len(good)
                is_there = self.logs.begin(reporter) <= start and end <= offset
                if is_there and self.logs.written(reporter, start, end) != good:
                    yield (
                        f"{reporter} reported {offset}, and has from {start} to {end} what was"
                        f" damaged on {node}"
                    )
