"""The judges of auto-switch groups: what no master, replica or controller may ever do.

Each sees the events of the nodes and the answers of the clients as they come.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from actors.config import AutoSwitchGroup
from actors.events import broker, controller, ha
from actors.sim.classic.log_bytes import LogBytes
from actors.sim.history import FaultInjected, Observation
from actors.sim.world import SimEvent


def group_of(seen: SimEvent) -> str:
    """Return the group that an actor's event is of; "" if it is of none."""
    _, _, *parts = seen.path.split("/")
    return parts[1] if len(parts) > 1 and parts[0] in ("owners", "replicas") else "".join(parts[:1])


@attrs.define
class Damage:
    """Knows which bytes of which node's log have rotted and were not put back."""

    _ranges: dict[str, list[tuple[int, int]]] = attrs.field(factory=dict, init=False)

    def learn(self, seen: Observation) -> None:
        """Take an observation."""
        match seen:
            case FaultInjected(kind="damaged", where=where):
                node, start, _, end = where.split()
                self._ranges.setdefault(node, []).append((int(start), int(end)))
            case FaultInjected(kind="repaired" | "wiped", where=where):
                self._ranges.pop(where.partition(" ")[0], None)

    def sound(self, nodes: tuple[str, ...], first: int, one: bytes, other: bytes) -> bool:
        """Whether two nodes' bytes from an offset on are equal, but for those that have rotted on
        either.
        """
        if len(one) != len(other):
            return False
        spared = [each for node in nodes for each in self._ranges.get(node, ())]
        return all(
            any(start <= first + at < end for start, end in spared)
            for at, (here, there) in enumerate(zip(one, other, strict=True))
            if here != there
        )


@attrs.define(kw_only=True)
class OneMasterPerEpoch:
    """An epoch has one master, and begins at one offset."""

    group: AutoSwitchGroup
    _begun: dict[int, tuple[str, int]] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        if not isinstance(seen, SimEvent) or group_of(seen) != self.group.name:
            return
        if isinstance(seen.event, ha.EpochBegun):
            epoch, start = seen.event.epoch, seen.event.start_bytes
            node, first = self._begun.setdefault(epoch, (seen.node, start))
            if node != seen.node:
                yield f"{seen.node} is master in epoch {epoch}, in which {node} was"
            elif start < first:
                yield f"{node} begins epoch {epoch} at {start}, after it began at {first}"


@attrs.define(kw_only=True)
class AcknowledgedIsInEpochs:
    """A later epoch begins at or behind the end of all that was acknowledged before."""

    group: AutoSwitchGroup
    _acknowledged: tuple[int, str] = attrs.field(default=(0, ""), init=False)
    _epoch: int = attrs.field(default=0, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        if not isinstance(seen, SimEvent) or group_of(seen) != self.group.name:
            return
        match seen.event:
            case ha.AppendsAcknowledged(next_bytes=end):
                self._acknowledged = max(self._acknowledged, (end, seen.node))
            case ha.EpochBegun(epoch=epoch, start_bytes=start):
                end, node = self._acknowledged
                if epoch > self._epoch and start < end:
                    yield (
                        f"{seen.node} begins epoch {epoch} at {start}, although {node} has"
                        f" acknowledged up to {end}"
                    )
                self._epoch = max(self._epoch, epoch)


@attrs.define(kw_only=True)
class AcknowledgedIsOnTheSet:
    """What is acknowledged is on the disks of all that the controllers could elect now.

    Bytes that have rotted there since are not compared.
    """

    group: AutoSwitchGroup
    logs: LogBytes
    _nodes: dict[int, str] = attrs.field(factory=dict, init=False)
    _epochs: dict[str, int] = attrs.field(factory=dict, init=False)
    _set: tuple[tuple[int, int], tuple[int, ...]] = attrs.field(default=((0, 0), ()), init=False)
    _damage: Damage = attrs.field(factory=Damage, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        self._damage.learn(seen)
        if not isinstance(seen, SimEvent):
            return
        match seen.event:
            case broker.ReplicaIdentified(broker_id=replica):
                self._nodes[replica] = seen.node
            case controller.MasterElected(epoch=epoch, broker_id=replica):
                self._newest((epoch, 0), (replica,))
            case controller.SyncStateSetChanged(master_epoch=epoch, epoch=number, in_sync=in_sync):
                self._newest((epoch, number), in_sync)
            case ha.EpochBegun(epoch=epoch) if group_of(seen) == self.group.name:
                self._epochs[seen.node] = epoch
            case ha.SyncStateSetTaken(in_sync=in_sync, set_epoch=number):
                # A controller that has decided may end before it says so.
                self._newest((self._epochs.get(seen.node, 0), number), in_sync)
            case ha.AppendsAcknowledged(first_bytes=first, next_bytes=end):
                if group_of(seen) == self.group.name:
                    yield from self._judge(seen.node, first, end)

    def _newest(self, number: tuple[int, int], in_sync: tuple[int, ...]) -> None:
        if number > self._set[0]:
            self._set = number, in_sync

    def _judge(self, master: str, first: int, end: int) -> Iterator[str]:
        held = self.logs.durable(master, first, end)
        for replica in self._set[1]:
            node = self._nodes.get(replica, master)
            theirs = self.logs.durable(node, first, end)
            is_same = self._damage.sound((master, node), first, held, theirs)
            if not is_same or len(held) < end - first:
                yield f"{master} acknowledges {first} to {end}, which {node}, in the set, has not"
