"""Checks of a DLedger group with a state machine: invariants, at every observation of a run, and
validations, once, when a run has converged.

What a machine has to be comes from the committed entries, applied once more here in their order
(`Replay`), and what a snapshot is comes from the members' disks. No check relies on a member's
word. A validation is a function from plain data to what is wrong with it; `validate_machines`
fetches the data.
"""

from __future__ import annotations

import bisect
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs

from actors.config import DLedgerGroup
from actors.events import store
from actors.events.dledger import CommittedRose, SnapshotLoaded, SnapshotSaved
from actors.sim.disk import SimDisk
from actors.sim.disk.pages import Inode
from actors.sim.dledger.judges.checkers import LOOKED_AT, Chosen
from actors.sim.dledger.ledger_bytes import SimLedgers, body_of, position_of, term_of
from actors.sim.dledger.machine import (
    COUNTERS,
    MachineOptions,
    State,
    decode_command,
    snapshot_bytes,
)
from actors.sim.history import (
    AppendAnswered,
    AppendAsked,
    AppendUnknown,
    ClientAppend,
    FaultInjected,
    History,
    Invariant,
    MachineDid,
    MachineRead,
    Observation,
    client_appends,
    is_of,
)
from actors.sim.judges.linear.judge import judge_object
from actors.sim.judges.linear.operations import Operation
from actors.sim.judges.linear.registers import Add, Counter, Read, Register, Write
from actors.sim.world import SimEvent
from actors.storage.layout import LedgerLayout
from wire.crc import crc32
from wire.dledger.snapshot import DATA, META, decode_meta, folder_name, index_of
from wire.errors import RemoteProtocolError

Stamp: TypeAlias = tuple[Inode, int] | None
Judged: TypeAlias = dict[int, tuple[tuple[Stamp, Stamp], bool]]
"""Snapshots by index: the stamps of the data file and the meta file, and whether both files are
whole."""
SNAPSHOT_FAULTS = ("snapshot_kill", "install_kill", "recovery_kill", "snapshot_rot")


@attrs.frozen
class Applied:
    """The state of a machine after an entry, and the entry's result.

    Attributes:
        state: the encoded state.
        last: the index of the last entry with a body, in that state.
        chain: the state's hash of its entries.
        result: the entry's result; None if it has no body.
    """

    state: bytes
    last: int
    chain: str
    result: Hashable


@attrs.define
class Replay:
    """Yields the state of a machine after each committed entry."""

    chosen: Chosen
    _state: State = attrs.field(factory=State, init=False)
    _steps: list[Applied] = attrs.field(factory=list, init=False)

    def at(self, index: int) -> Applied | None:
        """Return the state after an entry; None if the entry is not committed."""
        if index < 0:
            first = State()
            return Applied(first.encode(), first.last, first.chain, None)
        while len(self._steps) <= min(index, self.chosen.end - 1):
            entry = self.chosen.entries[len(self._steps)]
            body, result = body_of(entry), None
            if body:
                result = self._state.apply(len(self._steps), term_of(entry), body)
            state = self._state
            self._steps.append(Applied(state.encode(), state.last, state.chain, result))
        return self._steps[index] if index < len(self._steps) else None


def machine_invariants(
    replay: Replay, logs: SimLedgers, options: MachineOptions
) -> list[Invariant]:
    """Make the invariants that hold for a DLedger group with a machine, besides those of any
    group.
    """
    group = replay.chosen.group
    return [
        AppliedOnceInOrder(group=group),
        MachineIsReplay(replay=replay),
        ResultsAreReplay(replay=replay),
        SnapshotIsReplay(replay=replay, logs=logs, options=options),
        GoneIsInSnapshot(chosen=replay.chosen, logs=logs),
    ]


@attrs.define(kw_only=True)
class AppliedOnceInOrder:
    """In one incarnation of a member's machine, the indexes that it is given rise, from its
    snapshot on.
    """

    group: DLedgerGroup
    _last: dict[str, tuple[int, int]] = attrs.field(factory=dict, init=False)  # boot, index

    def see(self, seen: Observation) -> Iterator[str]:
        if not isinstance(seen, MachineDid) or seen.group != self.group.name:
            return
        boot, last = self._last.get(seen.node, (0, -1))
        who = f"{seen.node}#{seen.boot}"
        match seen.what:
            case "made" if seen.boot <= boot:
                yield f"{who} was given a second machine"
            case "loaded" if seen.last < last:
                yield f"{who} has applied {last}, and loads a snapshot of {seen.last}"
            case "applied":
                for index in seen.indexes:
                    if index <= last:
                        yield f"{who} applies {index} after {last}"
                    last = index
        self._last[seen.node] = seen.boot, last if seen.what == "applied" else seen.last


@attrs.define(kw_only=True)
class MachineIsReplay:
    """After each batch, and each snapshot, a machine has all committed entries up to its last one,
    and nothing else.

    A leader may give its own machine a committed entry a moment before it reports the entry as
    committed; this is judged at the report.
    """

    replay: Replay
    _early: list[MachineDid] = attrs.field(factory=list, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        match seen:
            case MachineDid(what="applied" | "loaded", group=group):
                if group == self.replay.chosen.group.name:
                    yield from self._judge(seen)
            case SimEvent() if self._early:
                yield from self._judge_early(seen)

    def unfounded(self) -> Iterator[str]:
        """Yield a line for each entry that was applied and never committed; for the end of a
        run.
        """
        for each in self._early:
            yield f"{each.node}#{each.boot} applied {each.last}, which was never committed"

    def _judge_early(self, seen: SimEvent) -> Iterator[str]:
        early, self._early = self._early, []
        for each in early:
            same_boot = (seen.node, seen.boot) == (each.node, each.boot)
            if same_boot and seen.at_s > each.at_s and self.replay.at(each.last) is None:
                who = f"{each.node}#{each.boot}"
                yield f"{who} had {each.last} at {each.at_s:.6f} s, and nobody calls it committed"
            else:
                yield from self._judge(each)

    def _judge(self, seen: MachineDid) -> Iterator[str]:
        ought = self.replay.at(seen.last)
        if ought is None:
            self._early.append(seen)
        elif (ought.last, ought.chain) != (seen.last, seen.chain):
            yield (
                f"{seen.node}#{seen.boot} has {seen.what}, and at {seen.last} is {seen.chain};"
                f" the committed entries make {ought.chain}"
            )


@attrs.define(kw_only=True)
class ResultsAreReplay:
    """An append is answered with the results of its entries in the machine, in their order."""

    replay: Replay
    _asked: dict[int, None] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        match seen:
            case AppendAsked(operation=operation, group=group):
                if group == self.replay.chosen.group.name:
                    self._asked[operation] = None
            case AppendAnswered(operation=operation, receipt=receipt) if operation in self._asked:
                assert receipt is not None
                found = [self.replay.at(each) for each in range(receipt.first, receipt.next)]
                ought = tuple(None if each is None else each.result for each in found)
                if receipt.results != ought:
                    yield (
                        f"{seen.client} was answered {receipt.results} for {receipt.first} to"
                        f" {receipt.last}; they give {ought}"
                    )


@attrs.define(kw_only=True)
class SnapshotIsReplay:
    """A snapshot that a member calls saved holds what the committed entries up to its index make,
    and would survive a loss of power.
    """

    replay: Replay
    logs: SimLedgers
    options: MachineOptions
    _early: list[tuple[str, SnapshotSaved, bytes]] = attrs.field(factory=list, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        group = self.replay.chosen.group
        match seen:
            case SimEvent(event=SnapshotSaved() as saved) if is_of(group, seen):
                layout, disk = self.logs.layout(seen.node), self.logs.disk(seen.node)
                path = f"{layout.snapshot}/{folder_name(saved.index)}/{DATA}"
                found = disk.durable(path)
                if found is None:
                    yield f"{seen.node}'s snapshot of {saved.index} is not on its disk"
                else:
                    yield from self._judge(seen.node, saved, found)
            case SimEvent(event=CommittedRose()) if self._early:
                early, self._early = self._early, []
                for each in early:
                    yield from self._judge(*each)

    def unfounded(self) -> Iterator[str]:
        """Yield a line for each snapshot of entries that were never committed; for the end of a
        run.
        """
        for node, saved, _ in self._early:
            yield f"{node} saved a snapshot of {saved.index}, which was never committed"

    def _judge(self, node: str, saved: SnapshotSaved, found: bytes) -> Iterator[str]:
        ought = self.replay.at(saved.index)
        if ought is None:
            self._early.append((node, saved, found))
            return
        wanted = snapshot_bytes(State.decode(ought.state), self.options)
        if found != wanted:
            yield (
                f"{node}'s snapshot of {saved.index} has {found[:300]!r} ({len(found)} bytes), the"
                f" committed entries make {wanted[:300]!r} ({len(wanted)})"
            )
        term = term_of(self.replay.chosen.entries[saved.index])
        if saved.term != term:
            yield f"{node}'s snapshot of {saved.index} says term {saved.term}, it is of {term}"


@attrs.define(kw_only=True)
class GoneIsInSnapshot:
    """Entries that have left the beginning of a member's log are in a snapshot that would survive a
    loss of power. This is checked when a log's beginning, or a snapshot, has changed or may have
    been lost.
    """

    chosen: Chosen
    logs: SimLedgers
    _reported: dict[str, int] = attrs.field(factory=dict, init=False)
    _known: dict[str, Judged] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        match seen:
            case SimEvent(
                event=store.SegmentExpired()
                | store.RecoveryFinished()
                | SnapshotSaved()
                | SnapshotLoaded()
            ) if is_of(self.chosen.group, seen):
                yield from self._look(seen.node)
            case FaultInjected(kind=kind) if kind in (*LOOKED_AT, *SNAPSHOT_FAULTS):
                for node in self.chosen.group.members:
                    yield from self._look(node)

    def _look(self, node: str) -> Iterator[str]:
        begin = log_begin(self.chosen, self.logs, node)
        if begin == 0 or self.chosen.group.store == "memory":
            return
        known = self._known.setdefault(node, {})
        kept = durable_snapshots(self.logs.disk(node), self.logs.layout(node), known)
        if max(kept, default=-1) < begin - 1 and self._reported.get(node) != begin:
            self._reported[node] = begin
            yield f"{node}'s log begins at {begin}, and it has snapshots of {kept or 'nothing'}"


def log_begin(chosen: Chosen, logs: SimLedgers, node: str) -> int:
    """Return the index of the first committed entry that is still in the member's log."""
    return bisect.bisect_left(
        chosen.entries, True, key=lambda entry: not logs.has_let_go(node, position_of(entry))
    )


def durable_snapshots(
    disk: SimDisk, layout: LedgerLayout, judged: Judged | None = None
) -> list[int]:
    """Return the indexes of a member's snapshots that are whole, and stay so after a loss of power
    now.

    Args:
        judged: the results of earlier calls for that member; a snapshot whose files are unchanged
            is not read again.
    """
    if not disk.exists(layout.snapshot):
        return []
    names = disk.listdir(layout.snapshot)
    indexes = sorted(index for name in names if (index := index_of(name)) is not None)
    judged = {} if judged is None else judged
    for gone in [index for index in judged if index not in indexes]:
        del judged[gone]
    for index in indexes:
        folder = f"{layout.snapshot}/{folder_name(index)}"
        stamps = disk.durable_stamp(f"{folder}/{DATA}"), disk.durable_stamp(f"{folder}/{META}")
        if index not in judged or judged[index][0] != stamps:
            judged[index] = stamps, _is_whole(disk, layout, index)
    return [index for index in indexes if judged[index][1]]


def _is_whole(disk: SimDisk, layout: LedgerLayout, index: int) -> bool:
    folder = f"{layout.snapshot}/{folder_name(index)}"
    data, meta_data = disk.durable(f"{folder}/{DATA}"), disk.durable(f"{folder}/{META}")
    if data is None or meta_data is None:
        return False
    try:
        meta = decode_meta(meta_data)
    except RemoteProtocolError:
        return False
    known = (meta.last_included_index, meta.data_bytes, meta.data_crc)
    return known == (index, len(data), crc32(data))


def validate_machines(
    states: Mapping[str, State],
    chosen: Chosen,
    invariants: Iterable[Invariant],
    history: History,
    *,
    stopped: bool,
) -> None:
    """Judge what clients saw of a group's machines, and the machines' states at the end.

    Args:
        states: the state of each member's machine.
        chosen: the group's committed entries.
        invariants: the run's invariants, whose postponed judgements are due now.
        stopped: whether all members hold the same and were stopped in order.
    """
    seen = register_operations(history.observations, chosen.group.name)
    history.judged("RegistersLinearizable", judge_registers(seen))
    for each in invariants:
        if isinstance(each, MachineIsReplay | SnapshotIsReplay) and each.replay.chosen is chosen:
            history.judged(type(each).__name__, each.unfounded())
    if stopped:
        history.judged("MachinesEqual", machines_equal(states, Replay(chosen)))


def machines_equal(states: Mapping[str, State], replay: Replay) -> Iterator[str]:
    """All members' machines are in the state that all committed entries make."""
    ought = replay.at(replay.chosen.end - 1)
    assert ought is not None
    for name, state in states.items():
        if state.encode() != ought.state:
            yield f"{name}'s machine is {state}, the committed entries make {ought.state!r}"


def judge_registers(operations: Sequence[Operation]) -> list[str]:
    """Return what is wrong with what clients saw of registers and counters, each of them an object
    of its own.
    """
    counters = [each for each in operations if each.key in COUNTERS]
    registers = [each for each in operations if each.key not in COUNTERS]
    found = [*judge_object(Register(), registers), *judge_object(Counter(), counters)]
    return list(map(str, found))


def register_operations(observations: Sequence[Observation], group: str) -> list[Operation]:
    """Return what clients did to a group's registers and counters, for the judge; times are
    positions in the history.
    """
    found: list[Operation] = []
    for each in client_appends(observations, group):
        match each.outcome:
            case AppendAnswered(receipt=receipt):
                assert receipt is not None
                found += _commands(each, each.answered, receipt.results)
            case AppendUnknown():
                found += _commands(each, None, (None,) * len(each.bodies))
    return found + [
        Operation(
            client=seen.node,
            action=Read(),
            called=seen.asked,
            returned=position,
            result=seen.value,
            key=seen.key,
        )
        for position, seen in enumerate(observations)
        if isinstance(seen, MachineRead) and seen.group == group
    ]


def _commands(
    append: ClientAppend, returned: int | None, results: Sequence[object]
) -> Iterator[Operation]:
    for body, result in zip(append.bodies, results, strict=False):
        command = decode_command(body)
        if command is None:
            continue
        key, action = command
        says: Hashable = None  # the result of a write or an addition does not matter
        if not isinstance(action, Write | Add) and isinstance(result, Hashable):
            says = result
        yield Operation(
            client=append.client,
            action=action,
            called=append.asked,
            returned=returned,
            result=says,
            key=key,
        )
