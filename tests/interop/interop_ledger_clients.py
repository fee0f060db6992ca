"""Clients of a mixed group, several at a time, that write down all they ask for and hear.

What they wrote down is judged by `actors.sim.judges.linear`, which takes no part in the group.
Reads count from members of ours alone: a Java leader answers GET with entries that are not
committed (bug B13).
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import attrs
from interop_ledger_wire import ADDRESSES, GROUP

from actors.sim.judges.linear.judge import Finding, judge_log
from actors.sim.judges.linear.log import Append, ReadLog, Shown
from actors.sim.judges.linear.operations import Operation
from wire.dledger.codes import ResponseCode
from wire.dledger.rpc import (
    AppendEntryRequest,
    AppendEntryResponse,
    GetEntriesRequest,
    GetEntriesResponse,
    Request,
    Response,
)

ANSWER_S = 2.0
"""Who has not answered by then is not waited for: the outcome is unknown."""
PAUSE_S = 0.02
"""Of each client between an answer and its next request."""
READS_SHARE = 0.1
REPEATS_MAX = 60


class Members(Protocol):
    """Who is asked: a `MixedGroup`."""

    @property
    def ours(self) -> Sequence[str]: ...
    def ask(self, name: str, request: Request, *, timeout_s: float) -> Response | None: ...


@attrs.define(eq=False)
class Clients:
    """Threads that append to a group and read from it, from `start` to `stop`.

    Attributes:
        operations: what each append and each counted read asked for and heard, in any order.
        by_leader: acknowledged appends of each member.
        reads: how many counted reads there are.
        newest: the highest index that was acknowledged.
    """

    group: Members
    operations: list[Operation] = attrs.field(factory=list, init=False)
    by_leader: Counter[str] = attrs.field(factory=Counter, init=False)
    reads: int = attrs.field(default=0, init=False)
    newest: int = attrs.field(default=0, init=False)
    _stopped: threading.Event = attrs.field(factory=threading.Event, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _pool: ThreadPoolExecutor = attrs.field(factory=ThreadPoolExecutor, init=False)
    _threads: list[Future[None]] = attrs.field(factory=list, init=False)

    def start(self, seeds: Sequence[int]) -> None:
        """One client for each seed."""
        for number, seed in enumerate(seeds):
            self._threads.append(self._pool.submit(self._run, f"c{number}", random.Random(seed)))

    def stop(self) -> None:
        """Returns when all have their last answer. Raises what a client raised."""
        self._stopped.set()
        self._pool.shutdown()
        for thread in self._threads:
            thread.result()

    def check(self) -> None:
        """Raises what a client raised: none ends by itself."""
        for thread in self._threads:
            if thread.done():
                thread.result()

    @property
    def acknowledged(self) -> dict[int, bytes]:
        """Bodies by index. The judge says it if two have one index."""
        return {
            each.result: each.action.payload
            for each in self.operations
            if isinstance(each.action, Append) and isinstance(each.result, int)
        }

    @property
    def in_doubt(self) -> list[bytes]:
        """Bodies of appends without an answer."""
        return [
            each.action.payload
            for each in self.operations
            if isinstance(each.action, Append) and each.returned is None
        ]

    def judge(
        self, bodies: Sequence[bytes], written_as: Mapping[bytes, bytes] | None = None
    ) -> list[Finding]:
        """Why this is not the history of one log.

        Args:
            bodies: all that lies in the files after `stop`, which counts as one more read.
            written_as: bodies in doubt that somebody made others of.
        """
        now_s = time.monotonic()
        files = Operation(
            client="the files",
            action=ReadLog(0, fresh=True),
            called=now_s,
            returned=now_s,
            result=entries_shown(0, bodies),
        )
        return judge_log([*_renamed(self.operations, written_as or {}), files])

    # ---- a client ----

    def _run(self, name: str, rng: random.Random) -> None:
        asked, number = rng.choice(list(ADDRESSES)), 0
        while not self._stopped.wait(PAUSE_S):
            if rng.random() < READS_SHARE:
                self._read(name, asked, max(0, self.newest + rng.randint(-20, 3)))
                continue
            number += 1
            body = f"{name} {number} ".encode() * rng.randint(1, REPEATS_MAX)
            answer = self._append(name, asked, body)
            if answer is None or answer.code != ResponseCode.SUCCESS:
                leader = answer.leader_id if answer is not None else None
                known = leader in ADDRESSES and leader != asked
                asked = str(leader) if known else rng.choice(list(ADDRESSES))

    def _append(self, client: str, member: str, body: bytes) -> AppendEntryResponse | None:
        request = AppendEntryRequest(group=GROUP, remote_id=member, body=body)
        called = time.monotonic()
        answer = self.group.ask(member, request, timeout_s=ANSWER_S)
        returned = time.monotonic()
        found = answer if isinstance(answer, AppendEntryResponse) else None
        known = found is not None and found.code == ResponseCode.SUCCESS
        if found is not None and found.code == ResponseCode.NOT_LEADER:
            return found  # nothing was appended
        operation = Operation(
            client=client,
            action=Append(body),
            called=called,
            returned=returned if known else None,
            result=found.index if found is not None and known else None,
        )
        with self._lock:
            self.operations.append(operation)
            if found is not None and known:
                self.by_leader[member] += 1
                self.newest = max(self.newest, found.index)
        return found

    def _read(self, client: str, member: str, index: int) -> None:
        request = GetEntriesRequest(group=GROUP, remote_id=member, begin_index=index)
        called = time.monotonic()
        answer = self.group.ask(member, request, timeout_s=ANSWER_S)
        returned = time.monotonic()
        good = isinstance(answer, GetEntriesResponse) and answer.code == ResponseCode.SUCCESS
        if not good or member not in self.group.ours:
            return
        assert isinstance(answer, GetEntriesResponse)
        shown = entries_shown(index, [entry.body for entry in answer.entries])
        operation = Operation(
            client=client, action=ReadLog(index), called=called, returned=returned, result=shown
        )
        with self._lock:
            self.operations.append(operation)
            self.reads += 1


def _renamed(
    operations: Sequence[Operation], written_as: Mapping[bytes, bytes]
) -> Iterator[Operation]:
    """With the bodies in doubt as they were written."""
    for each in operations:
        action = each.action
        if isinstance(action, Append) and each.returned is None and action.payload in written_as:
            yield attrs.evolve(each, action=Append(written_as[action.payload]))
        else:
            yield each


def entries_shown(start: int, bodies: Sequence[bytes]) -> Shown:
    """What a read saw that ended at the last of these; a term's own empty entry is nobody's."""
    end = start + len(bodies)
    entries = tuple((index, body) for index, body in enumerate(bodies, start) if body)
    return Shown(entries=entries, next=end, end=end)
