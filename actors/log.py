"""A group's log as a program sees it: append, pipelined append, read, follow.

`Log` stands in front of anything that takes batches and answers reads for a named group: a node in
this process (`actors.service`) or the API socket's client. It has no state of its own but a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Protocol, TypeAlias

import trio

from actors.errors import Closed, NotStored, OutcomeUnknown, TriologError
from actors.log_types import Batch, Chain, Found, Left, Message, NewRecord, Offsets, Receipt
from actors.records import decoded

AppendOutcome: TypeAlias = Receipt | Exception
"""A receipt, or the error of `actors.errors` that `append` would have raised."""

# One batch of an appender: enough to make the cost per batch vanish, small enough to be
# acknowledged while the next one is collected.
BATCH_BYTES_MAX: Final = 256 << 10
BATCH_RECORDS_MAX: Final = 4096
IN_FLIGHT_BYTES_DEFAULT: Final = 8 << 20
# What a record costs besides its body, so that empty bodies are bounded too.
RECORD_COST_BYTES: Final = 64
READ_BYTES_DEFAULT: Final = 256 << 10
# Tuples: a union is made anew, and asked three times as slowly, with each append.
_RECORDS: Final = (bytes, Message)
_NO_BATCHES: Final = (bytes, bytearray, str, Message)


class TakesAppends(Protocol):
    """What takes batches without waiting for their answers."""

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Callable[[AppendOutcome], None],
        chain: Chain | None = None,
    ) -> None:
        """Hand over one batch; what was never handed over is raised, the rest reaches `on_done`."""


class LogBackend(TakesAppends, Protocol):
    """What `Log` needs. `actors.api.handle.NodeHandle` has all of it."""

    async def append(self, group: str, records: tuple[NewRecord, ...]) -> Receipt: ...
    async def read(self, group: str, start: int, max_bytes: int, fresh: bool) -> Found: ...
    async def wait_acknowledged(self, group: str, above: int) -> Offsets: ...
    async def wait_offsets(self, group: str, known: Offsets | None) -> Offsets: ...


class Log:
    """One group's log.

    Attributes:
        name: the group's name.
    """

    def __init__(self, backend: LogBackend, name: str) -> None:
        self._backend = backend
        self.name = name

    async def append(self, records: Iterable[NewRecord]) -> Receipt:
        """Append one batch; return when it is as safe as the group promises.

        Many tasks may append at once: their batches are written and synced together.

        Args:
            records: at least one; `bytes` go to the topic named after the group.

        Raises (the errors are in `actors.errors`):
            NotStored: nothing was written; retry freely. Its subclass says why: NotMaster,
                NotEnoughReplicas, Overloaded, LogFull, TooLarge, Closed.
            OutcomeUnknown: the records may be stored; a retry may duplicate. A cancelled append has
                this outcome too.
            TypeError, ValueError: no records, or something else than bytes and `Message`.
        """
        return await self._backend.append(self.name, _batch(records))

    def appender(self, *, in_flight_bytes: int = IN_FLIGHT_BYTES_DEFAULT) -> Appender:
        """A pipelined appender, to be entered with `async with`.

        Args:
            in_flight_bytes: bodies sent and not yet acknowledged; above it `send` waits.
        """
        return Appender(self._backend, self.name, in_flight_bytes)

    def reader(
        self, start: int = 0, *, follow: bool = False, batch_bytes: int = READ_BYTES_DEFAULT
    ) -> Reader:
        """Batches of acknowledged records from `start` on.

        Args:
            start: a position from a receipt, record or batch; 0 is the oldest there is. Above the
                end it is waited for with `follow`; without it there is nothing to read.
            follow: wait for new records at the end instead of ending there.
            batch_bytes: most log bytes of a batch; a larger record comes alone.
        """
        return Reader(self._backend, self.name, start, follow=follow, batch_bytes=batch_bytes)

    async def read(
        self, start: int, *, max_bytes: int = READ_BYTES_DEFAULT, fresh: bool = False
    ) -> Batch:
        """One batch from `start` on, at once; it may be empty.

        Args:
            start: as for `reader`; below the log's first position it is moved to it.
            max_bytes: most log bytes of the batch; a larger record comes alone.
            fresh: miss nothing that was acknowledged before, by whomever: other members confirm,
                asked since, that nobody has replaced the master or leader, and what it has
                acknowledged is waited for here; both at most as long as an append of the group may
                wait (`slave_timeout_s`, `append_timeout_s`).

        Raises:
            RequestRefused (`actors.api.failures`): no record begins at `start`; with `fresh`, the
                too few members confirm, the master is not open, or what it has acknowledged has
                not come here in time.
            Overloaded: too many fresh reads wait already.
            Closed: the node has been stopped.
        """
        return decoded(await self._backend.read(self.name, start, max_bytes, fresh))

    async def offsets(self) -> Offsets:
        """How far this node is with the group."""
        return await self._backend.wait_offsets(self.name, None)


class Appender:
    """Pipelined appends: records are collected while earlier batches are under way.

    `send` waits only for room. `flush` returns when everything sent before it is acknowledged.
    After a failure nothing more is sent, nothing that is on its way is stored behind it, and `send`
    and `flush` raise it. Leaving the block flushes; leaving it by an exception does not wait: what
    was in flight has an unknown outcome. `left` then says what to give another appender.

    Attributes:
        last_receipt: the newest receipt, None before the first.
        acknowledged_count: records acknowledged.
    """

    def __init__(self, backend: LogBackend, group: str, in_flight_bytes: int) -> None:
        if in_flight_bytes < 1:
            raise ValueError("in_flight_bytes must be at least 1")
        self._backend = backend
        self._group = group
        self._limit_bytes = in_flight_bytes
        # One batch is under way while the next is collected: what a batch costs is shared by many.
        self._batch_bytes = max(1, min(BATCH_BYTES_MAX, in_flight_bytes // 2))
        self._collected: list[NewRecord] = []
        self._collected_bytes = 0
        self._in_flight_bytes = 0
        # By the number of a batch's first record.
        self._in_flight: dict[int, tuple[NewRecord, ...]] = {}
        self._refused: dict[int, tuple[NewRecord, ...]] = {}
        self._in_doubt: dict[int, tuple[NewRecord, ...]] = {}
        self._next_number = 0
        self._failures: list[Exception] = []
        self._chain = Chain()
        self._closed = False
        self._work = trio.Event()
        self._progress = trio.Event()
        self._nursery_manager = trio.open_nursery()
        self.last_receipt: Receipt | None = None
        self.acknowledged_count = 0

    async def __aenter__(self) -> Appender:
        nursery = await self._nursery_manager.__aenter__()
        self._pump_scope = nursery.cancel_scope
        nursery.start_soon(self._pump, name=f"appender {self._group}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        flushing: Exception | None = None
        try:
            if error is None:
                await self.flush()
        except (NotStored, OutcomeUnknown) as failure:
            flushing = failure
        finally:
            self._closed = True
            self._pump_scope.cancel()
            await self._nursery_manager.__aexit__(None, None, None)
        if flushing is not None:
            raise flushing
        return None

    async def send(self, record: NewRecord) -> None:
        """Hand over one record; waits only while `in_flight_bytes` are unanswered.

        Raises: as `Log.append`, for this or an earlier record.
        """
        if self._closed:
            raise Closed(f"the appender of {self._group} is closed")
        size = _cost_bytes(record)
        while (
            self._failures
            or self._collected_bytes >= self._batch_bytes
            or len(self._collected) >= BATCH_RECORDS_MAX
            or (
                self._in_flight_bytes + self._collected_bytes + size > self._limit_bytes
                and self._in_flight_bytes + self._collected_bytes > 0
            )
        ):
            self._raise_failure()
            await self._progress.wait()
        self._collected.append(record)
        self._collected_bytes += size
        self._work.set()

    async def flush(self) -> None:
        """Return when all that was sent before is acknowledged.

        Raises: as `Log.append`; for `OutcomeUnknown`, `first` and `last` span all batches in doubt.
        """
        while self._in_flight_bytes or (self._collected and not self._failures):
            await self._progress.wait()
        self._raise_failure()
        await trio.lowlevel.checkpoint_if_cancelled()

    @property
    def unanswered_from(self) -> int:
        """How many records were sent before the oldest without a receipt."""
        collected = self._next_number
        kinds = self._refused, self._in_doubt, self._in_flight
        return min(min(batches, default=collected) for batches in kinds)

    def left(self) -> list[Left]:
        """What has no receipt, in the order in which it was sent: all of it once the block is left.

        What is not stored may be given to another appender; what is in doubt may then be stored
        twice.
        """
        collected = {self._next_number: tuple(self._collected)}
        batches = [(number, batch, False) for number, batch in (self._refused | collected).items()]
        doubted = (self._in_doubt | self._in_flight).items()
        batches += [(number, batch, True) for number, batch in doubted]
        return [
            Left(number + place, record, in_doubt)
            for number, batch, in_doubt in sorted(batches, key=lambda each: each[0])
            for place, record in enumerate(batch)
        ]

    def _raise_failure(self) -> None:
        """Raise once all answers are in, so that the error spans everything in doubt."""
        if self._failures and not self._in_flight_bytes:
            raise _merged(self._failures)

    async def _pump(self) -> None:
        while not self._failures:
            await self._work.wait()
            self._work = trio.Event()
            batch, size = tuple(self._collected), self._collected_bytes
            if not batch:
                continue
            self._collected, self._collected_bytes = [], 0
            self._in_flight_bytes += size
            number = self._next_number
            self._in_flight[number] = batch
            self._next_number += len(batch)
            self._stir()
            answered = self._answered(number, size)
            try:
                await self._backend.submit(self._group, batch, answered, self._chain)
            except (NotStored, OutcomeUnknown) as error:
                answered(error)

    def _answered(self, number: int, size_bytes: int) -> Callable[[AppendOutcome], None]:
        def on_done(outcome: AppendOutcome) -> None:
            self._in_flight_bytes -= size_bytes
            batch = self._in_flight.pop(number)
            if isinstance(outcome, Receipt):
                self.last_receipt = outcome
                self.acknowledged_count += outcome.count
            else:
                known = isinstance(outcome, TriologError) and not isinstance(
                    outcome, OutcomeUnknown
                )
                (self._refused if known else self._in_doubt)[number] = batch
                self._failures.append(outcome)
                self._chain.broken = True
            self._stir()

        return on_done

    def _stir(self) -> None:
        """Wake who waits for room or answers."""
        progress, self._progress = self._progress, trio.Event()
        progress.set()


class Reader(trio.abc.ReceiveChannel[Batch]):
    """Acknowledged records as a channel of batches, in order, from a start position.

    Without `follow` the channel ends where the acknowledged log ends.

    Attributes:
        position: where the next batch starts.
    """

    def __init__(
        self, backend: LogBackend, group: str, start: int, *, follow: bool, batch_bytes: int
    ) -> None:
        self._backend = backend
        self._group = group
        self._follow = follow
        self._batch_bytes = batch_bytes
        self._closed = False
        self.position = start

    async def receive(self) -> Batch:
        """The next batch, with at least one record.

        Raises:
            trio.EndOfChannel: the end is reached and `follow` is off.
            trio.ClosedResourceError: the reader has been closed.
            RequestRefused, Closed: as `Log.read`.
        """
        known: Offsets | None = None
        while not self._closed:
            batch = decoded(
                await self._backend.read(self._group, self.position, self._batch_bytes, fresh=False)
            )
            self.position = max(self.position, batch.next)
            if batch.records:
                return batch
            if not self._follow:
                raise trio.EndOfChannel
            if known is None:
                known = await self._backend.wait_acknowledged(self._group, self.position)
            else:
                # Acknowledged, but not whole on this node yet: any change may bring it.
                known = await self._backend.wait_offsets(self._group, known)
        raise trio.ClosedResourceError

    async def aclose(self) -> None:
        """No more batches; harmless when closed."""
        self._closed = True
        await trio.lowlevel.checkpoint()


def _batch(records: Iterable[NewRecord]) -> tuple[NewRecord, ...]:
    if isinstance(records, _NO_BATCHES):
        raise TypeError("append takes an iterable of records; for one record pass [record]")
    batch = tuple(records)
    if not batch:
        raise ValueError("an append needs at least one record")
    for record in batch:
        if not isinstance(record, _RECORDS):
            raise _no_record(type(record))
    return batch


def _cost_bytes(record: NewRecord) -> int:
    if isinstance(record, bytes):
        return len(record) + RECORD_COST_BYTES
    if isinstance(record, Message):
        return len(record.body) + RECORD_COST_BYTES
    raise _no_record(type(record))


def _no_record(kind: type) -> TypeError:
    """Found here, in the caller's task: in the store it would end the node."""
    return TypeError(f"a record is bytes or a Message, found {kind.__name__}")


def _merged(failures: list[Exception]) -> Exception:
    """One error for several batches: unknown if any is, spanning all positions in doubt."""
    unknown = [failure for failure in failures if isinstance(failure, OutcomeUnknown)]
    if not unknown:
        return failures[0]
    firsts = [error.first for error in unknown if error.first is not None]
    lasts = [error.last for error in unknown if error.last is not None]
    nexts = [error.next for error in unknown if error.next is not None]
    first, last = min(firsts, default=None), max(lasts, default=None)
    error = type(unknown[0])(str(unknown[0]), first, last, max(nexts, default=None))
    error.__cause__ = unknown[0]
    return error
