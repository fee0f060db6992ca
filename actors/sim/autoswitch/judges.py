"""The judges of auto-switch groups: what no master, replica or controller may ever do.

Each sees the events of the nodes and the answers of the clients as they come. What is known of the
run is kept once, in `Known`. Invariants about copies rely on disks alone.

In a group with `durability = "written"` a copy is what a node has written, and a power loss may
take it. So who has lost its power may lack what it had until then; nobody may be master without
what was acknowledged while another one that could be elected still has it, and is there. One that
is away for longer than the announced time is not waited for, as nobody can tell that from its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import unpack_from

import attrs

from actors.config import AutoSwitchGroup
from actors.events import broker, controller, ha, store
from actors.log_types import Receipt
from actors.sim.classic.judges.checkers import (
    AcknowledgedMonotonic,
    LogTiles,
    NoDamagedCopyCounts,
    ReadsAgree,
    ReportedIsHeld,
)
from actors.sim.classic.judges.survival import POWER_LOSSES
from actors.sim.classic.log_bytes import LogBytes
from actors.sim.history import FaultInjected, Invariant, Observation, RecordsRead, given_up
from actors.sim.judges.liveness import NoSilentStall, of_any_node
from actors.sim.world import SimEvent
from wire.files.message_record import BLANK_MAGIC


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

    def sound(self, node: str, first: int, held: bytes, wanted: bytes) -> bool:
        """Whether a node's bytes from an offset on are these, but for those that have rotted."""
        spared = self._ranges.get(node, ())
        if held == wanted or len(held) != len(wanted) or not spared:
            return held == wanted
        return all(
            any(start <= first + at < end for start, end in spared)
            for at, (here, there) in enumerate(zip(held, wanted, strict=True))
            if here != there
        )


@attrs.define(kw_only=True)
class Known:
    """What there is to know of a run so far. An invariant that says nothing, ahead of those that
    ask it.

    Attributes:
        acknowledged: all bytes of the log below the end of what was acknowledged, as whoever did
            so had written them.
        nodes: the nodes of the replicas' ids.
        in_sync: the newest sync state set that anybody told of.
        electable: that one, or the one before if an election has made it.
        epochs: in which epoch each node was master last.
        newest: the newest epoch that has begun, and where.
        shown_bytes: up to where anybody has shown the log: to readers it is acknowledged.
        answered: what was acknowledged, as ranges with the epoch of who did.
        is_away: whether a node is off, or hears of no controller.
        behind: who has not followed a master since one of them gave up what a power loss took, and
            from where on. They show what they know as acknowledged until they hear of it.
        power_lost: where power losses count, up to where a node's log may have gone with its last
            one.
    """

    group: AutoSwitchGroup
    logs: LogBytes
    is_away: Callable[[str], bool] = lambda node: False
    damage: Damage = attrs.field(factory=Damage, init=False)
    acknowledged: bytearray = attrs.field(factory=bytearray, init=False)
    nodes: dict[int, str] = attrs.field(factory=dict, init=False)
    in_sync: tuple[int, ...] = attrs.field(default=(), init=False)
    electable: tuple[int, ...] = attrs.field(default=(), init=False)
    epochs: dict[str, int] = attrs.field(factory=dict, init=False)
    newest: tuple[int, int] = attrs.field(default=(0, 0), init=False)
    answered: list[tuple[int, int, int]] = attrs.field(factory=list, init=False)
    behind: dict[str, int] = attrs.field(factory=dict, init=False)
    shown_bytes: int = attrs.field(default=0, init=False)
    power_lost: dict[str, int] = attrs.field(factory=dict, init=False)
    _reported: dict[str, int] = attrs.field(factory=dict, init=False)
    _set: tuple[int, int] = attrs.field(default=(0, 0), init=False)  # epoch, number

    def see(self, seen: Observation) -> Iterator[str]:
        """Take an observation; nothing is wrong with any."""
        yield from ()
        self.damage.learn(seen)
        if (end := given_up(seen)) is not None:
            del self.acknowledged[end:]
            self.shown_bytes = min(self.shown_bytes, end)
            for each in (self.power_lost, self._reported):
                each.update({node: min(had, end) for node, had in each.items()})
        if isinstance(seen, FaultInjected) and seen.kind == "wiped":
            # it comes back as another one
            self.nodes = {key: node for key, node in self.nodes.items() if node != seen.where}
        if isinstance(seen, FaultInjected) and seen.kind in POWER_LOSSES and not self.synced:
            for node in seen.where.partition(" for ")[0].split():
                had = max(self._reported.get(node, 0), len(self.acknowledged))
                self.power_lost[node] = max(self.power_lost.get(node, 0), had)
        if isinstance(seen, RecordsRead):
            self.shown_bytes = max(self.shown_bytes, seen.batch.acknowledged)
        if not isinstance(seen, SimEvent):
            return
        match seen.event:
            case broker.ReplicaIdentified(broker_id=replica):
                self.nodes[replica] = seen.node
            case controller.MasterElected(epoch=epoch, broker_id=replica):
                self._newest((epoch, 0), (replica,))
            case controller.SyncStateSetChanged(master_epoch=epoch, epoch=number, in_sync=in_sync):
                self._newest((epoch, number), in_sync)
            case ha.EpochBegun(epoch=epoch, start_bytes=start) if self.is_of(seen):
                self.epochs[seen.node] = epoch
                self.newest = max(self.newest, (epoch, start))
                self.behind.pop(seen.node, None)
            case ha.HATransferStarted(slave=slave) if self.is_of(seen):
                self.behind.pop(slave, None)
            case ha.OffsetReported(offset_bytes=offset) if self.is_of(seen):
                self._reported[seen.node] = max(self._reported.get(seen.node, 0), offset)
            case ha.SyncStateSetTaken(in_sync=in_sync, set_epoch=number):
                # A controller that has decided may end before it says so.
                self._newest((self.epochs.get(seen.node, 0), number), in_sync)
            case ha.AppendsAcknowledged(first_bytes=first, next_bytes=end) if self.is_of(seen):
                epoch, known = self.epochs.get(seen.node, 0), len(self.acknowledged)
                self.answered.append((first, end, epoch))
                if self.group.all_ack_in_sync_state_set or epoch == self.newest[0]:
                    self.acknowledged += self.logs.written(seen.node, known, end)

    def taken_back(self, receipt: Receipt) -> bool:
        """Whether what an append was answered with is behind the begin of a newer epoch than that
        of who has answered it.
        """
        number, start = self.newest
        epochs = [epoch for first, end, epoch in self.answered if first < receipt.next <= end]
        return receipt.next > start and max(epochs, default=number) < number

    def is_of(self, seen: SimEvent) -> bool:
        """Whether an event is of this group."""
        return group_of(seen) == self.group.name

    @property
    def synced(self) -> bool:
        """Whether a copy is one on a disk."""
        return self.group.durability == "synced"

    def held(self, node: str, start: int, end: int) -> bytes:
        """Return the part of a node's log that counts as a copy."""
        return (self.logs.durable if self.synced else self.logs.written)(node, start, end)

    def has(self, node: str, start: int, wanted: bytes) -> bool:
        """Whether a node has these bytes of the log, but for those that have rotted, and those that
        it may have lost with its power.
        """
        gone = min(max(self.power_lost.get(node, 0) - start, 0), len(wanted))
        wanted, start = wanted[gone:], start + gone
        return self.damage.sound(node, start, self.held(node, start, start + len(wanted)), wanted)

    def lacks(self, node: str, first: int = 0) -> bool:
        """Whether a node lacks some of what was acknowledged, from an offset on, without excuse."""
        if node in self.power_lost and self._is_whole(node):
            del self.power_lost[node]
        return not self.has(node, first, bytes(self.acknowledged[first:]))

    def still_have(self, node: str) -> list[str]:
        """Return the others of whom the master could be elected that are there and have all that
        was acknowledged.
        """
        could = (self.nodes.get(replica, node) for replica in self.electable)
        others = (each for each in could if each != node and not self.is_away(each))
        return [each for each in others if self._is_whole(each)]

    def _is_whole(self, node: str) -> bool:
        wanted = bytes(self.acknowledged)
        return self.damage.sound(node, 0, self.held(node, 0, len(wanted)), wanted)

    def _newest(self, number: tuple[int, int], in_sync: tuple[int, ...]) -> None:
        if number > self._set:
            is_election = number[1] == 0
            self.electable = self.in_sync if is_election else in_sync
            self._set, self.in_sync = number, in_sync


@attrs.define(kw_only=True)
class OneMasterPerEpoch:
    """An epoch has one master, and begins at one offset; controllers elect one in it."""

    known: Known
    _begun: dict[int, tuple[str, int]] = attrs.field(factory=dict, init=False)
    _elected: dict[int, int] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        if not isinstance(seen, SimEvent):
            return
        match seen.event:
            case controller.MasterElected(epoch=epoch, broker_id=replica):
                before = self._elected.setdefault(epoch, replica)
                if before != replica:
                    yield f"replica {replica} is elected in epoch {epoch}, in which {before} was"
            case ha.EpochBegun(epoch=epoch, start_bytes=start) if self.known.is_of(seen):
                node, first = self._begun.setdefault(epoch, (seen.node, start))
                if node != seen.node:
                    yield f"{seen.node} is master in epoch {epoch}, in which {node} was"
                elif start < first:
                    yield f"{node} begins epoch {epoch} at {start}, after it began at {first}"


@attrs.define(kw_only=True)
class AcknowledgedIsInEpochs:
    """Who begins an epoch has all that was acknowledged before, below its begin; or it has lost its
    power where that counts, and nobody has it any more.
    """

    known: Known

    def see(self, seen: Observation) -> Iterator[str]:
        known = self.known
        match seen:
            case SimEvent(event=ha.EpochBegun(epoch=epoch, start_bytes=start), node=node):
                if not known.is_of(seen) or epoch < known.newest[0]:
                    return
                end = len(known.acknowledged)
                if start < end and node in known.power_lost:
                    if others := known.still_have(node):
                        yield (
                            f"{node} begins epoch {epoch} at {start} after a power loss:"
                            f" acknowledged was up to {end}, and {', '.join(others)} has it"
                        )
                elif start < end:
                    yield f"{node} begins epoch {epoch} at {start}: acknowledged was up to {end}"
                elif known.lacks(node):
                    yield f"{node} begins epoch {epoch} without some of what was acknowledged"


@attrs.define(kw_only=True)
class AcknowledgedIsOnTheSet:
    """What is acknowledged is on the disks of all that the controllers could elect now, as many as
    the group needs, and so is whatever was acknowledged before, on who comes into the set.
    """

    known: Known

    def see(self, seen: Observation) -> Iterator[str]:
        known = self.known
        match seen:
            case SimEvent(event=ha.AppendsAcknowledged(first_bytes=first, next_bytes=end)):
                if known.is_of(seen):
                    what = f"{seen.node} acknowledges {first} to {end}"
                    count, least = len(known.in_sync), known.group.least_in_sync
                    if known.in_sync and count < least:
                        yield f"{what}: {count} replicas are in the set, {least} have to be"
                    yield from self._judge(what, first, seen.node)
            case SimEvent(event=controller.SyncStateSetChanged(in_sync=in_sync)):
                yield from self._judge(f"the set is {in_sync}", 0, "")

    def _judge(self, what: str, first: int, master: str) -> Iterator[str]:
        for replica in self.known.in_sync:
            node = self.known.nodes.get(replica, master)
            if node and self.known.lacks(node, first):
                yield f"{what}: {node}, in the set, has not all of it"


@attrs.define(kw_only=True)
class ShownIsOnTheSet:
    """What a node shows is on the disks of all that the controllers could elect now, so no switch
    takes it back.
    """

    known: Known

    def see(self, seen: Observation) -> Iterator[str]:
        if not isinstance(seen, RecordsRead) or not seen.batch.records:
            return
        known, records = self.known, seen.batch.records
        start, end = records[0].position, records[-1].next_position
        end = min(end, known.behind.get(seen.node, end))
        wanted = known.logs.written(seen.node, start, end)
        for replica in known.in_sync:
            node = known.nodes.get(replica, seen.node)
            held = known.held(node, start, end)
            spared = known.has(node, start, wanted)
            if not spared and not known.damage.sound(seen.node, start, wanted, held):
                yield f"{seen.node} shows {start} to {end}: {node}, in the set, has not all of it"


@attrs.define(kw_only=True)
class AcknowledgedIsOnEnough:
    """`in_sync_replicas` replicas, its master among them, have what is acknowledged."""

    known: Known

    def see(self, seen: Observation) -> Iterator[str]:
        known = self.known
        match seen:
            case SimEvent(event=ha.AppendsAcknowledged(first_bytes=first, next_bytes=end)):
                if not known.is_of(seen):
                    return
                wanted = known.logs.written(seen.node, first, end)
                holding = [node for node in known.group.voters if known.has(node, first, wanted)]
                need = known.group.in_sync_replicas
                if len(holding) < need or len(wanted) < end - first:
                    yield (
                        f"{seen.node} acknowledges {first} to {end}, which {len(holding)} of"
                        f" {need} replicas have"
                    )


@attrs.define(kw_only=True)
class NewestMasterAcknowledges:
    """Once a master has acknowledged something, none of an older epoch does; and none does after
    its lease has ended.

    Attributes:
        has_lease: whether no other replica can be master now, by what the node's controllers have
            answered; None: it does not run.
    """

    known: Known
    has_lease: Callable[[str], bool | None]
    _newest: tuple[int, str] = attrs.field(default=(0, ""), init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        if not isinstance(seen, SimEvent) or not self.known.is_of(seen):
            return
        if not isinstance(seen.event, ha.AppendsAcknowledged):
            return
        epoch, node = self.known.epochs.get(seen.node, 0), seen.node
        if (epoch, node) < self._newest:
            yield f"{node} acknowledges in epoch {epoch}, after {self._newest[1]} did in a later"
        self._newest = max(self._newest, (epoch, node))
        if self.has_lease(node) is False:
            yield f"{node} acknowledges without a lease"


@attrs.define(kw_only=True)
class LearnersStayOut:
    """No learner is in a sync state set, or elected."""

    known: Known

    def see(self, seen: Observation) -> Iterator[str]:
        match seen:
            case SimEvent(event=controller.MasterElected(broker_id=replica)):
                told: tuple[int, ...] = (replica,)
            case SimEvent(event=controller.SyncStateSetChanged(in_sync=told)):
                pass
            case _:
                return
        for replica in told:
            node = self.known.nodes.get(replica, "")
            if node in self.known.group.learners:
                yield f"{node} is a learner, and in the set {told}"


@attrs.define(kw_only=True)
class CutsSpareAcknowledged:
    """No replica cuts off what was acknowledged."""

    known: Known

    def see(self, seen: Observation) -> Iterator[str]:
        known = self.known
        match seen:
            case SimEvent(event=ha.LogCutAsked(end_bytes=end), node=node) if known.is_of(seen):
                rest = bytes(known.acknowledged[end:])
                size = int.from_bytes(rest[:4], "big")
                if size and known.logs.written(node, end, end + size) == rest[:size]:
                    yield f"{node} cuts its log at {end}, where it has what was acknowledged"


@attrs.define(kw_only=True)
class SyncedSurvives:
    """A restart ends a log below what was synced only if a handshake with the master has shown
    that this is not the master's, or if an operator has emptied the disk. Who was in the middle of
    a record may cut that off.
    """

    known: Known
    _synced: dict[str, int] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        if isinstance(seen, FaultInjected) and seen.kind == "wiped":
            self._synced.pop(seen.where, None)
        if not isinstance(seen, SimEvent) or not self.known.is_of(seen):
            return
        node = seen.node
        match seen.event:
            case store.LogSynced(offset_bytes=offset):
                self._synced[node] = max(self._synced.get(node, 0), offset)
            case ha.LogCutAsked(end_bytes=end):
                self._synced[node] = min(self._synced.get(node, 0), end)
            case store.RecoveryFinished(end_bytes=end):
                synced = min(self._synced.get(node, 0), len(self.known.acknowledged))
                self._synced[node] = end
                if synced > end and self._behind_next(end) <= synced:
                    yield f"{node} starts with {end}, but {synced} was synced"

    def _behind_next(self, start: int) -> int:
        """Return where the acknowledged record behind an offset, and behind a filler, ends."""
        held = self.known.acknowledged
        for _ in range(2):
            size, magic = unpack_from(">iI", held, start)
            start += size
            if magic != BLANK_MAGIC or start >= len(held):
                break
        return start


def judges(known: Known, has_lease: Callable[[str], bool | None]) -> tuple[Invariant, ...]:
    """Return all invariants of auto-switch groups, in the order in which they have to see."""
    group, logs = known.group, known.logs
    always: tuple[Invariant, ...] = (
        known,
        OneMasterPerEpoch(known=known),
        LearnersStayOut(known=known),
        SyncedSurvives(known=known),
        ReportedIsHeld(group=group, logs=logs),
        NoDamagedCopyCounts(group=group, logs=logs),
        AcknowledgedMonotonic(),
        LogTiles(segment_bytes=group.segment_bytes),
        NoSilentStall(group=group),
        *of_any_node(),
    )
    if not group.all_ack_in_sync_state_set:
        return (*always, AcknowledgedIsOnEnough(known=known))
    return (
        *always,
        ReadsAgree(segment_bytes=group.segment_bytes),
        AcknowledgedIsInEpochs(known=known),
        AcknowledgedIsOnTheSet(known=known),
        ShownIsOnTheSet(known=known),
        NewestMasterAcknowledges(known=known, has_lease=has_lease),
        CutsSpareAcknowledged(known=known),
    )
