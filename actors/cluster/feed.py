"""The feed of one group: it appends lines, and sends each until it is acknowledged.

It is outside of the nodes and uses the master's API like any other client. Appends are pipelined.
The master or leader is searched for anew after each failure (`heed`), so the feed goes on after a
promotion or an election. Every line is in the log at least once, in order as long as nothing fails.

- A batch that was not stored is sent again, after a pause that doubles.
- A batch that the master stored but that was not copied in time is not sent again while the
  connection is open. A master that is running, and is master by the same promotion (leads in the
  same term), keeps what it has, so the feed waits until all of that is acknowledged.
- A batch whose outcome is unknown for another reason, such as the loss of the connection, is sent
  again, but only once the group has its copies, and one batch at a time until a receipt comes. So
  an outage can store twice what was in flight when it began, and one batch for each further loss.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from operator import attrgetter
from typing import Any, Protocol, TypeAlias

import attrs
import trio

from actors.client.lines import Chunk
from actors.cluster.feed_record import FeedRecord, digest
from actors.cluster.view import FeedView, leads
from actors.errors import (
    NodeStopped,
    NotEnoughReplicas,
    NotStored,
    OutcomeUnknown,
    ReplicationTimeout,
    TooLarge,
    leaves,
)
from actors.group_status import FENCED, GroupStatus
from actors.log import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    IN_FLIGHT_BYTES_DEFAULT,
    RECORD_COST_BYTES,
    AppendOutcome,
    TakesAppends,
)
from actors.log_types import Chain, Receipt

IN_FLIGHT_BYTES_MAX = IN_FLIGHT_BYTES_DEFAULT
TICK_S = 0.05
"""With a set rate, a batch holds the lines that are due within this time."""
RETRY_S = 0.25
"""The first pause after a failure, and between two checks of copies that are missing."""
RETRY_S_MAX = 2.0
"""Each further pause is twice as long, up to this; one feed per group needs no jitter."""
PAUSES_MAX = 8
"""How many pauses in a row are counted; the longest pause is reached before."""
LATE_S_MAX = 1.0
"""If the feed is later than this, the rest of what was due is not made up for."""
RETRIED = (OSError, NotStored, OutcomeUnknown, trio.BrokenResourceError)
"""Failures that another connection, a moment later, may not have."""


class AppendTarget(TakesAppends, Protocol):
    """The methods of a client that the feed needs."""

    async def status(self) -> dict[str, Any]: ...


Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[AppendTarget]]


@attrs.frozen
class _Batch:
    """Consecutive lines that are sent together.

    Attributes:
        line: the number of the first line in its source, from 0.
    """

    line: int
    records: Chunk
    size_bytes: int


@attrs.define
class Feed:
    """The feed of one group.

    `run` returns when the source has ended and all lines are acknowledged, or after `stop`, when
    everything in flight is answered.

    Empty lines are sent only to a group that `takes_empty` records.

    Attributes:
        started_s, ended_s: the time (Trio's) of the first append and of the last answer; NaN
            before.
    """

    group: str
    source: str
    _lines: trio.MemoryReceiveChannel[Chunk]
    _connect: Connect
    _record: FeedRecord
    _first_line: int = 0
    _rate_per_s: int = 0
    _heed: Callable[[Sequence[Exception]], None] = lambda failures: None
    _watch: Callable[[int], Awaitable[None]] | None = None
    _takes_empty: bool = True
    _epoch: int = 0
    _queue: deque[_Batch] = attrs.field(factory=deque)
    _in_flight: dict[int, _Batch] = attrs.field(factory=dict)
    _in_flight_bytes: int = 0
    _receipts: list[tuple[int, Receipt, int]] = attrs.field(factory=list)
    _uncopied: list[tuple[_Batch, ReplicationTimeout]] = attrs.field(factory=list)
    _in_doubt: bool = False
    _pauses: int = 0
    _pending: deque[bytes] = attrs.field(factory=deque)
    _failures: list[Exception] = attrs.field(factory=list)
    _chain: Chain = attrs.field(factory=Chain)
    _changed: trio.Event = attrs.field(factory=trio.Event)
    _pause: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _stopping: bool = False
    _source_ended: bool = False
    _next_line: int = attrs.field(default=attrs.Factory(lambda s: s._first_line, takes_self=True))
    _sent_to_line: int = attrs.field(
        default=attrs.Factory(lambda s: s._first_line, takes_self=True)
    )
    _acknowledged_count: int = 0
    _acknowledged_bytes: int = 0
    _unknown_count: int = 0
    _state: str = "connecting"
    started_s: float = math.nan
    ended_s: float = math.nan

    def view(self) -> FeedView:
        """Return the present figures."""
        return FeedView(
            group=self.group,
            source=self.source,
            sent_count=self._sent_to_line - self._first_line,
            acknowledged_count=self._acknowledged_count,
            acknowledged_bytes=self._acknowledged_bytes,
            unknown_count=self._unknown_count,
            in_flight_count=sum(len(batch.records) for batch in self._waiting()),
            state=self._state,
        )

    @property
    def seconds(self) -> float:
        """The time from the first append to the last answer, in seconds; 0 before both."""
        return 0.0 if math.isnan(self.started_s) else self.ended_s - self.started_s

    @property
    def waiting(self) -> bool:
        """Whether there are lines that were read but not sent, or that have to be sent again."""
        left = self._lines.statistics().current_buffer_used
        return bool(self._queue or self._pending or left)

    def stop(self) -> None:
        """Send nothing more. What is in flight is still waited for."""
        self._stopping = True
        self._pause.cancel()

    async def run(self) -> None:
        """Run the feed. If it is cancelled, what was in flight has an unknown outcome.

        Raises:
            Exception: a failure that no retry can change: `TooLarge`, an unknown group.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._keep_record)
                while not self._stopping and not self._done():
                    await self._use_one_connection()
                while self._receipts:
                    await self._changed.wait()
                nursery.cancel_scope.cancel()
            self._state = "stopped"
            if self._done():
                await self._record.end()
                self._state = "ended"
        finally:
            self._record.close()

    def _waiting(self) -> list[_Batch]:
        """Return the batches whose answer is still to come, from the master or from its offsets."""
        return [*self._in_flight.values(), *(batch for batch, _ in self._uncopied)]

    def _done(self) -> bool:
        return self._source_ended and not (self._queue or self._in_flight or self._pending)

    async def _use_one_connection(self) -> None:
        """Feed until something fails, and wait for the answer of every append of this
        connection.
        """
        self._failures, self._chain = [], Chain()
        try:
            async with self._connect() as target, trio.open_nursery() as nursery:
                self._epoch = (await self._leader(target)).epoch
                if self._watch is not None:
                    nursery.start_soon(self._watch, self._epoch)
                if self._in_doubt:
                    await self._see_copies(target)
                self._state = "feeding"
                await self._send_all(target)
                while self._in_flight:
                    await self._changed.wait()
                if self._uncopied:
                    await self._settle(target)
                nursery.cancel_scope.cancel()
        except* RETRIED as group:
            self._failures += leaves(group)
        finally:
            for batch in list(self._in_flight.values()):
                self._answer(batch, NodeStopped("the connection ended before the answer"))
            while self._uncopied:
                self._send_again(*self._uncopied.pop())
        for failure in self._failures:
            if not isinstance(failure, RETRIED) or isinstance(failure, TooLarge):
                raise failure
        if self._failures:
            failure = self._failures[0]
            self._state = f"waits after {type(failure).__name__}: {failure}"
            self._heed(self._failures)
            with self._interruptible():
                await self._wait_a_while()

    async def _wait_a_while(self) -> None:
        """Wait, each time in a row twice as long; a receipt resets that."""
        await trio.sleep(min(RETRY_S_MAX, RETRY_S * 2**self._pauses))
        self._pauses = min(self._pauses + 1, PAUSES_MAX)

    async def _settle(self, target: AppendTarget) -> None:
        """Learn from the master's offsets what became of the batches that it has stored.

        The connection has not ended since they were stored, so the master still has them, and they
        are acknowledged when everything up to its log's present end is.
        """
        end = await self._see_copies(target)
        if end is None:
            return
        settled, self._uncopied = self._uncopied, []
        learnt = [error for _, error in settled]
        self._failures = [each for each in self._failures if each not in learnt]
        for batch, error in settled:
            assert error.first is not None
            assert error.last is not None
            self._acknowledge(
                batch,
                Receipt(
                    first=error.first,
                    last=error.last,
                    next=end,
                    count=len(batch.records),
                    copies=0,
                    durability="",
                ),
            )
        self._wake()

    async def _see_copies(self, target: AppendTarget) -> int | None:
        """Wait until the group has its copies, and everything up to the log's end at the first
        answer is acknowledged.

        Returns: that end; None after `stop`.

        Raises: as `_leader`. NotEnoughReplicas: the master takes no appends, or leads in another
            epoch now.
        """
        end: int | None = None
        with self._interruptible():
            while True:
                found = await self._leader(target)
                closed = f" {found.state} {found.reason}" if found.state == FENCED else ""
                if found.epoch != self._epoch or closed:
                    by = f"{found.terms.by(found.epoch)}{closed}"
                    raise NotEnoughReplicas(f"the {found.terms.leader} is another one now:{by}")
                end = found.written if end is None else end
                if found.has_copied(end):
                    return end
                self._state = f"waits for copies, {found.copies_count} of {found.copies}"
                await self._wait_a_while()
        return None

    async def _leader(self, target: AppendTarget) -> GroupStatus:
        """Return the node's status of the group. Raises: NotMaster, with the leader that the node
        names.
        """
        return leads(await target.status(), self.group)

    def _interruptible(self) -> trio.CancelScope:
        """Return a scope for waits that `stop` or a failure may end; it is never around an
        append.
        """
        self._pause = trio.CancelScope()
        if self._stopping:
            self._pause.cancel()
        return self._pause

    async def _send_all(self, target: AppendTarget) -> None:
        due_s = trio.current_time()
        while True:
            with self._interruptible() as waiting:
                await self._fill_queue()
                while self._queue and self._full(self._queue[0]):
                    await self._changed.wait()
                await trio.sleep_until(due_s)
            if waiting.cancelled_caught or not self._queue or self._failures or self._stopping:
                return
            batch = self._queue.popleft()
            if self._rate_per_s:
                due_s = max(due_s, trio.current_time() - LATE_S_MAX)
                due_s += len(batch.records) / self._rate_per_s
            await self._submit(target, batch)

    def _full(self, batch: _Batch) -> bool:
        if self._in_doubt:
            return bool(self._in_flight)
        return (
            bool(self._in_flight) and self._in_flight_bytes + batch.size_bytes > IN_FLIGHT_BYTES_MAX
        )

    async def _fill_queue(self) -> None:
        """Read lines until there is a batch to send, or the source has ended."""
        while not self._queue and not self._source_ended:
            if not self._pending:
                try:
                    chunk = await self._lines.receive()
                    self._pending.extend(chunk if self._takes_empty else filter(None, chunk))
                    continue
                except trio.EndOfChannel:
                    self._source_ended = True
                    return
            self._queue.append(self._next_batch())

    def _next_batch(self) -> _Batch:
        count_max = (
            max(1, int(self._rate_per_s * TICK_S)) if self._rate_per_s else BATCH_RECORDS_MAX
        )
        records: list[bytes] = []
        size_bytes = 0
        while self._pending and len(records) < count_max:
            size_bytes += len(self._pending[0]) + RECORD_COST_BYTES
            if records and size_bytes > BATCH_BYTES_MAX:
                size_bytes -= len(self._pending[0]) + RECORD_COST_BYTES
                break
            records.append(self._pending.popleft())
        batch = _Batch(self._next_line, tuple(records), size_bytes)
        self._next_line += len(records)
        return batch

    async def _submit(self, target: AppendTarget, batch: _Batch) -> None:
        if math.isnan(self.started_s):
            self.started_s = self.ended_s = trio.current_time()
        self._in_flight[batch.line] = batch
        self._in_flight_bytes += batch.size_bytes
        self._sent_to_line = max(self._sent_to_line, batch.line + len(batch.records))
        try:
            await target.submit(
                self.group, batch.records, partial(self._answer, batch), self._chain
            )
        except (NotStored, OutcomeUnknown) as error:
            self._answer(batch, error)

    def _answer(self, batch: _Batch, outcome: AppendOutcome) -> None:
        """Take the outcome of an append. The target calls it once, or the feed if the target is
        gone.
        """
        if self._in_flight.get(batch.line) is not batch:
            return
        del self._in_flight[batch.line]
        self._in_flight_bytes -= batch.size_bytes
        self.ended_s = trio.current_time()
        if isinstance(outcome, Receipt):
            self._acknowledge(batch, outcome)
        else:
            self._failures.append(outcome)
            if isinstance(outcome, ReplicationTimeout) and outcome.last is not None:
                self._uncopied.append((batch, outcome))
            else:
                self._send_again(batch, outcome)
            self._pause.cancel()
        self._wake()

    def _acknowledge(self, batch: _Batch, receipt: Receipt) -> None:
        self._in_doubt, self._pauses = False, 0
        self._acknowledged_count += len(batch.records)
        self._acknowledged_bytes += sum(map(len, batch.records))
        self._receipts.append((batch.line, receipt, digest(batch.records)))

    def _send_again(self, batch: _Batch, outcome: Exception) -> None:
        self._chain.broken = True
        if isinstance(outcome, OutcomeUnknown):
            self._in_doubt = True
            self._unknown_count += len(batch.records)
        self._queue = deque(sorted([*self._queue, batch], key=attrgetter("line")))

    async def _keep_record(self) -> None:
        while True:
            while not self._receipts:
                await self._changed.wait()
            taken = len(self._receipts)
            await self._record.note(self._receipts[:taken])
            del self._receipts[:taken]
            self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
