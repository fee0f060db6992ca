"""Invariants about copies, judged only by the disks: whatever nodes believe or report, what is
acknowledged is where the table of guarantees says, and survives a failure of any n - 1 nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from actors.config import ClassicGroup
from actors.events import ha, store
from actors.sim.classic.log_bytes import LogBytes, no_record_at
from actors.sim.history import FaultInjected, Observation, given_up, is_of
from actors.sim.world import SimEvent

POWER_LOSSES = ("power_loss", "power_loss_all", "power_loss_in_sync", "old_sector")

LOOKED_AT = ("kill", "power_loss", "power_loss_all", "power_loss_in_sync", "heal")
"""The kinds of faults at which `FurthestHolds` judges."""


@attrs.define(kw_only=True)
class _Losses:
    """Knows what was taken from nodes on purpose.

    That is what a slave had reported when a power loss in a `written` group, or an operator, took
    it, because an acknowledgement that counts it may be under way; and damaged ranges, which
    another node has.

    Attributes:
        until_heard: whether a loss is an excuse only until the slave's next session begins.
    """

    group: ClassicGroup
    until_heard: bool
    _reported: dict[str, int] = attrs.field(factory=dict, init=False)
    _lost: dict[str, int] = attrs.field(factory=dict, init=False)
    _damaged: dict[str, list[tuple[int, int]]] = attrs.field(factory=dict, init=False)

    def learn(self, seen: Observation) -> None:
        if (given_end := given_up(seen)) is not None:
            for known in (self._reported, self._lost):
                known.update({node: min(had, given_end) for node, had in known.items()})
        match seen:
            case SimEvent(event=ha.OffsetReported(offset_bytes=offset)) if is_of(self.group, seen):
                self._reported[seen.node] = max(offset, self._reported.get(seen.node, 0))
            case SimEvent(event=ha.HATransferStarted(slave=slave)) if self.until_heard:
                self._lost.pop(slave, None)  # from now on its master knows what it has
            case FaultInjected(kind="wiped", where=node):
                self._lost[node] = self._reported.get(node, 0)
                self._damaged.pop(node, None)
            case FaultInjected(kind="repaired", where=where):
                self._damaged.pop(where.partition(" ")[0], None)
            case FaultInjected(kind="damaged", where=where):
                node, start, _, end = where.split()
                self._damaged.setdefault(node, []).append((int(start), int(end)))
            case FaultInjected(kind=kind, where=where) if kind in POWER_LOSSES:
                if self.group.durability == "written":
                    for node in where.partition(" for ")[0].split():
                        self._lost[node] = self._reported.get(node, 0)

    def had(self, node: str, end: int) -> bool:
        """Whether a node had reported everything below `end` when it lost its bytes."""
        return self._lost.get(node, 0) >= end

    def damage(self, start: int, end: int) -> bool:
        """Whether a node's copy of a part of the range was damaged."""
        return any(
            low < end and start < high for ranges in self._damaged.values() for low, high in ranges
        )


@attrs.define(kw_only=True)
class AcknowledgedIsOnDisks:
    """When an append is acknowledged, `copies` nodes have it and everything before it, byte for
    byte; in a `synced` group on their disks. The master's bytes there are whole records.
    """

    group: ClassicGroup
    logs: LogBytes
    _losses: _Losses = attrs.field(init=False)
    # how far each node's log was compared before
    _good: dict[str, int] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._losses = _Losses(group=self.group, until_heard=True)

    def see(self, seen: Observation) -> Iterator[str]:
        self._losses.learn(seen)
        if (end := given_up(seen)) is not None:
            self._good = {node: min(good, end) for node, good in self._good.items()}
        match seen:
            case SimEvent(event=ha.AppendsAcknowledged(next_bytes=end)) if is_of(self.group, seen):
                yield from self._check(end)
            case SimEvent(event=store.RecoveryFinished(end_bytes=end)) if is_of(self.group, seen):
                self._good[seen.node] = min(end, self._good.get(seen.node, 0))

    def _check(self, end: int) -> Iterator[str]:
        master = self.logs.master
        start = min(self._good.get(master, 0), end)
        bad_at = no_record_at(self.logs, master, start, end, self.group.segment_bytes)
        if bad_at is not None and not self._losses.damage(start, end):
            yield f"all before {end} was acknowledged, but {master} has no record at {bad_at}"
        holding = [name for name in self.group.counting_nodes if self._has(name, end)]
        if len(holding) < self.group.sure_copies:
            yield (
                f"all before {end} was acknowledged, but {len(holding)} of {self.group.sure_copies}"
                f" nodes have it: {', '.join(holding) or 'none'}"
            )

    def _has(self, node: str, end: int) -> bool:
        start = min(self._good.get(node, 0), end)
        wanted = self.logs.written(self.logs.master, start, end)
        held = (
            len(wanted) == end - start and holds(self.group, self.logs, node, start, wanted)
        ) or self._losses.damage(start, end)
        if held:
            self._good[node] = end
        return held or self._losses.had(node, end)


@attrs.define(kw_only=True)
class FurthestHolds:
    """Whichever n - 1 nodes are lost, the furthest of the others has everything that is
    acknowledged.

    It is judged at each kill and power loss, and when cuts are healed.

    Logs are prefixes of the master's, so the furthest one that remains has what any other has.
    """

    group: ClassicGroup
    logs: LogBytes
    _losses: _Losses = attrs.field(init=False)
    _acknowledged: int = attrs.field(default=0, init=False)
    _reported: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._losses = _Losses(group=self.group, until_heard=False)

    def see(self, seen: Observation) -> Iterator[str]:
        self._losses.learn(seen)
        if (end := given_up(seen)) is not None:
            self._acknowledged = min(self._acknowledged, end)
        match seen:
            case SimEvent(event=ha.AppendsAcknowledged(next_bytes=end)) if is_of(self.group, seen):
                self._acknowledged = max(self._acknowledged, end)
            case FaultInjected(kind=kind) if kind in LOOKED_AT:
                yield from self._check()

    def _check(self) -> Iterator[str]:
        """Check that too few nodes lack something acknowledged for them to be all that may
        remain.
        """
        end = self._acknowledged
        tail = max(0, end - self.group.segment_bytes)
        if (
            self._reported
            or self.group.sure_copies < 2
            or not end
            or self._losses.damage(tail, end)
        ):
            return
        wanted = self.logs.written(self.logs.master, tail, end)
        if len(wanted) < end - tail:
            return  # that is the master's own loss, which other invariants report
        lacking = [
            name
            for name in self.group.counting_nodes
            if not holds(self.group, self.logs, name, tail, wanted)
            and not self._losses.had(name, end)
        ]
        left_min = len(self.group.counting_nodes) - (self.group.sure_copies - 1)
        if len(lacking) >= left_min:
            self._reported = True
            yield (
                f"acknowledged up to {end}, but {', '.join(lacking)} lack some of it: the loss of"
                f" {self.group.sure_copies - 1} others would lose it"
            )


def holds(group: ClassicGroup, logs: LogBytes, node: str, start: int, wanted: bytes) -> bool:
    """Whether a node has these bytes, in the way that the group's durability requires."""
    has = logs.durable if group.durability == "synced" else logs.written
    return has(node, start, start + len(wanted)) == wanted
