"""Clients of all groups that write down what they ask for and hear, and the judge of it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
import trio
from kills_nodes import DLEDGER, GROUPS, LOST
from recorder import Recorder

from actors.api.failures import RequestRefused
from actors.client import connect_group
from actors.errors import NotStored, OutcomeUnknown
from actors.log import Log
from actors.log_types import Batch
from actors.sim.judges.linear.judge import judge_log
from actors.sim.judges.linear.log import Append, ReadLog, Shown
from actors.sim.judges.linear.operations import Operation

APPENDERS = 4
"""Of each group."""
PAUSE_S = 0.005
READ_PAUSE_S = 0.05
FRESH_SHARE = 0.5
WAIT_S = 10.0
BACK_MAX = 40
"""A read begins at most so many known places before the newest."""
BODY_REPEATS_MAX = 40
PLACES_MAX = 1_000


@attrs.define(eq=False)
class Clients:
    """Appenders and readers of each group, until they are asked to stop.

    Attributes:
        file: the cluster file.
        groups: the names of the groups.
        acknowledged: is told of each acknowledged append when it was asked for, in Trio's time.
        recorder: what they asked for and heard; the group is the operation's key.
        outcomes: how many appends and reads ended how.
        newest: per group the position behind the last acknowledged record.
    """

    file: str
    groups: tuple[str, ...] = GROUPS
    acknowledged: Callable[[float], None] = lambda asked_s: None
    recorder: Recorder = attrs.field(factory=Recorder)
    outcomes: Counter[str] = attrs.field(factory=Counter)
    newest: dict[str, int] = attrs.field(factory=dict)
    stopped: bool = False
    _places: dict[str, list[int]] = attrs.field(
        default=attrs.Factory(lambda own: {group: [0] for group in own.groups}, takes_self=True)
    )

    async def run(self, seed: int) -> None:
        """Returns when all have their last answer after `stopped` was set."""
        rng = random.Random(seed)
        async with trio.open_nursery() as nursery:
            for group in self.groups:
                for number in range(APPENDERS):
                    own = random.Random(rng.getrandbits(32))
                    nursery.start_soon(self._append_on, group, f"{group}-{number}", own)
                nursery.start_soon(self._read_on, group, random.Random(rng.getrandbits(32)))

    async def _append_on(self, group: str, name: str, rng: random.Random) -> None:
        number = 0
        async with connect_group(self.file, group, name=name, wait_s=WAIT_S) as log:
            while not self.stopped:
                number += 1
                body = f"{name} {number} ".encode() * rng.randint(1, BODY_REPEATS_MAX)
                await self._append(log, group, name, body.strip())
                await trio.sleep(PAUSE_S)

    async def append_one(self, group: str, name: str) -> int:
        """Until one is acknowledged. Returns: the position behind it."""
        number = 0
        async with connect_group(self.file, group, name=name, wait_s=WAIT_S) as log:
            while True:
                number += 1
                if await self._append(log, group, name, f"{name} {number}".encode()):
                    return self.newest[group]
                await trio.sleep(PAUSE_S)

    async def _append(self, log: Log, group: str, name: str, body: bytes) -> bool:
        call = self.recorder.call(name, Append(body), key=group)
        asked_s = trio.current_time()
        try:
            receipt = await log.append([body])
        except NotStored as error:
            self.recorder.refuse(call)
            self.outcomes[f"{group} not stored: {type(error).__name__}"] += 1
            return False
        except OutcomeUnknown as error:
            self.outcomes[f"{group} unknown: {type(error).__name__}"] += 1
            return False
        self.recorder.answer(call, receipt.next - 1)
        self.acknowledged(asked_s)
        self.outcomes[f"{group} acknowledged"] += 1
        self.newest[group] = max(receipt.next, self.newest.get(group, 0))
        places = self._places[group]
        places.append(receipt.first)
        if len(places) > PLACES_MAX:
            del places[: PLACES_MAX // 2]
        return True

    async def _read_on(self, group: str, rng: random.Random) -> None:
        async with connect_group(self.file, group, name=f"{group} reader", wait_s=WAIT_S) as log:
            while not self.stopped:
                start = rng.choice(self._places[group][-BACK_MAX:])
                await self._read(log, group, start, rng.random() < FRESH_SHARE)
                await trio.sleep(READ_PAUSE_S)

    async def _read(self, log: Log, group: str, start: int, fresh: bool) -> None:
        action = ReadLog(start, fresh=fresh)
        kind = f"{group} {'fresh reads' if fresh else 'reads'}"
        call = self.recorder.call(f"{group} reader", action, key=group)
        try:
            batch = await log.read(start, fresh=fresh)
        except (RequestRefused, *LOST) as error:
            self.recorder.refuse(call)
            self.outcomes[f"{kind} refused: {type(error).__name__}"] += 1
            return
        self.recorder.answer(call, shown(start, batch))
        self.outcomes[kind] += 1


def shown(start: int, batch: Batch) -> Shown:
    """What a read saw. An entry's index is that of its record's last byte, or its own (DLedger)."""
    entries = tuple((each.next_position - 1, each.body) for each in batch.records)
    end = batch.acknowledged - batch.lag_bytes
    return Shown(entries=entries, next=max(start, min(batch.next, end)), end=end)


@attrs.frozen
class Files:
    """What a stopped node's files show of a group.

    Attributes:
        begin: where its log begins; older files have been deleted for want of room.
        shown: all that is there.
    """

    begin: int
    shown: Shown

    @classmethod
    def of(cls, group: str, records: Iterable[Mapping[str, Any]]) -> Files:
        begin, end, entries = None, 0, []
        for each in records:
            first = each["index"] if group == DLEDGER else each["offset"]
            end = first + 1 if group == DLEDGER else first + each["size_bytes"]
            begin = first if begin is None else begin
            if each["body"]:
                entries.append((end - 1, each["body"].encode()))
        return cls(begin or 0, Shown(entries=tuple(entries), next=end, end=end))


def judged(clients: Clients, files: Mapping[tuple[str, str], Files]) -> list[str]:
    """Why what was heard, and lies in the files, is not the history of one log for each group.

    Args:
        files: by group and node; each counts as a fresh read after all else.
    """
    begins: dict[str, int] = {}
    for (group, _), found in files.items():
        begins[group] = max(found.begin, begins.get(group, 0))
    heard = clients.recorder.operations()
    operations = [each for each in heard if not _passed_over(each, begins[each.key])]
    for (group, node), found in files.items():
        call = clients.recorder.call(f"{node}'s files", ReadLog(found.begin, fresh=True), key=group)
        clients.recorder.answer(call, found.shown)
    operations += clients.recorder.operations()[len(heard) :]
    wrong = [str(finding) for finding in judge_log(operations)]
    for (group, node), found in files.items():
        there = dict(found.shown.entries)
        known = acknowledged_in(operations, group)
        lost = [at for at, body in known.items() if at >= found.begin and there.get(at) != body]
        if lost:
            wrong.append(f"{node} lacks {len(lost):,} acknowledged records of {group}: {lost[:5]}")
    return wrong


def _passed_over(operation: Operation, begin: int) -> bool:
    """A read from a place that was deleted: it may have begun behind it."""
    action = operation.action
    return isinstance(action, ReadLog) and action.start < begin


def acknowledged_in(operations: Iterable[Operation], group: str) -> dict[int, bytes]:
    """Bodies by index, of the appends that were acknowledged."""
    return {
        each.result: each.action.payload
        for each in operations
        if each.key == group and isinstance(each.action, Append) and isinstance(each.result, int)
    }
