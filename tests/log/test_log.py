"""Log, Appender and Reader over a backend in memory that answers when the test says so."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio

from actors.errors import Closed, NotMaster, NotStored, OutcomeUnknown, ReplicationTimeout
from actors.log import BATCH_RECORDS_MAX, Log
from actors.log_types import Batch, Chain, Message, NewRecord, Offsets, Receipt, Record


@attrs.define
class MemoryBackend:
    """Positions are record numbers. `hold` keeps answers back until `answer` is called."""

    hold: bool = False
    refuse: Exception | None = None
    stored: list[bytes] = attrs.Factory(list)
    batches: list[int] = attrs.Factory(list)
    waiting: list[tuple[Receipt, Callable[[Any], None]]] = attrs.Factory(list)
    acknowledged: int = 0
    held: int | None = None  # by this node, where that is less than what is acknowledged
    reads: int = 0
    grew: trio.Event = attrs.Factory(trio.Event)

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Callable[[Any], None],
        chain: Chain | None = None,
    ) -> None:
        assert group == "orders"
        await trio.lowlevel.checkpoint()
        if self.refuse is not None:
            raise self.refuse
        first = len(self.stored)
        self.stored += [record for record in records if isinstance(record, bytes)]
        self.batches.append(len(records))
        last = len(self.stored) - 1
        receipt = Receipt(
            first=first, last=last, next=last + 1, count=len(records), copies=2, durability="synced"
        )
        self.waiting.append((receipt, on_done))
        if not self.hold:
            self.answer()

    def answer(self, outcome: Exception | None = None) -> None:
        waiting, self.waiting = self.waiting, []
        for receipt, on_done in waiting:
            if outcome is None:
                self.acknowledged = receipt.next
            on_done(outcome or receipt)
        grew, self.grew = self.grew, trio.Event()
        grew.set()

    async def append(self, group: str, records: tuple[NewRecord, ...]) -> Receipt:
        got: list[Any] = []
        await self.submit(group, records, got.append)
        if isinstance(got[0], Exception):
            raise got[0]
        assert isinstance(got[0], Receipt)
        return got[0]

    async def read(self, group: str, start: int, max_bytes: int, fresh: bool) -> Batch:
        await trio.lowlevel.checkpoint()
        self.reads += 1
        end = min(self.acknowledged, start + max_bytes)
        if self.held is not None:
            end = min(end, self.held)
        records = tuple(_record(number, self.stored[number]) for number in range(start, end))
        return Batch(
            records=records,
            next=max(start, end),
            acknowledged=self.acknowledged,
            end=len(self.stored),
            lag_bytes=0,
        )

    async def wait_acknowledged(self, group: str, above: int) -> Offsets:
        while self.acknowledged <= above:
            await self.grew.wait()
        return await self.wait_offsets(group, None)

    async def wait_offsets(self, group: str, known: Offsets | None) -> Offsets:
        while self._offsets() == known:
            await self.grew.wait()
        return self._offsets()

    def _offsets(self) -> Offsets:
        end = len(self.stored) if self.held is None else self.held
        return Offsets(min=0, written=end, synced=end, acknowledged=self.acknowledged, master="n0")


def _record(number: int, body: bytes) -> Record:
    return Record(
        position=number,
        next_position=number + 1,
        topic="orders",
        queue_id=0,
        queue_offset=number,
        body=body,
        tags="",
        keys=(),
        properties=(),
        store_timestamp_ms=0,
        born_timestamp_ms=0,
    )


async def test_append_returns_the_receipt(autojump_clock: trio.testing.MockClock) -> None:
    log = Log(MemoryBackend(), "orders")
    await log.append([b"zero"])
    receipt = await log.append([b"one", b"two"])
    assert (receipt.first, receipt.last, receipt.count) == (1, 2, 2)
    assert (await log.offsets()).acknowledged == 3


@pytest.mark.parametrize("records", [b"bytes", "text", bytearray(b"bytes"), []])
async def test_append_refuses_what_is_not_a_batch(records: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"one record pass|at least one record"):
        await Log(MemoryBackend(), "orders").append(records)


@pytest.mark.parametrize("record", ["text", None, bytearray(b"changes while it is under way"), 5])
async def test_what_is_no_record_never_reaches_the_node(record: Any) -> None:
    backend = MemoryBackend()
    log = Log(backend, "orders")
    expected = f"a record is bytes or a Message, found {type(record).__name__}"
    with pytest.raises(TypeError, match=expected):
        await log.append([b"good", record])
    async with log.appender() as out:
        with pytest.raises(TypeError, match=expected):
            await out.send(record)
        await out.send(b"good")
    assert backend.stored == [b"good"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"topic": 5}, "topic: expected str, found int"),
        ({"body": "text"}, "body: expected bytes, found str"),
        ({"tags": ("one", "two")}, "tags: expected str, found tuple"),
        ({"keys": ["key", 5]}, "keys: expected str, found int"),
        ({"properties": {"name": 5}}, "properties: expected pairs of str, found ('name', 5)"),
        ({"properties": [("name",)]}, "properties: expected pairs of str, found ('name',)"),
        ({"queue_id": "0"}, "queue_id: expected int, found str"),
    ],
)
def test_a_message_of_wrong_types_cannot_be_made(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError) as refused:
        Message(**{"topic": "orders", "body": b"body", **wrong})
    assert str(refused.value) == said


async def test_appender_keeps_order_and_coalesces(autojump_clock: trio.testing.MockClock) -> None:
    backend = MemoryBackend()
    bodies = [b"%d" % number for number in range(10_000)]
    async with Log(backend, "orders").appender() as out:
        for body in bodies:
            await out.send(body)
    assert backend.stored == bodies
    assert out.acknowledged_count == len(bodies)
    assert out.last_receipt is not None
    assert out.last_receipt.last == len(bodies) - 1
    # Batches, not records, cross to the backend.
    assert len(backend.batches) <= 2 * len(bodies) / BATCH_RECORDS_MAX + 1


async def test_send_waits_for_room_and_only_for_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    backend = MemoryBackend(hold=True)
    sent = 0
    async with Log(backend, "orders").appender(in_flight_bytes=10_000) as out:

        async def send_many() -> None:
            nonlocal sent
            for _ in range(20):
                await out.send(bytes(1000))
                sent += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_many)
            await trio.testing.wait_all_tasks_blocked()
            assert sent == 9  # 1,064 bytes each
            backend.hold = False
            backend.answer()
    assert sent == 20
    assert len(backend.stored) == 20


async def test_a_window_is_two_batches(autojump_clock: trio.testing.MockClock) -> None:
    """One is collected while the other is under way: what a batch costs is shared by many."""
    backend = MemoryBackend(hold=True)
    async with Log(backend, "orders").appender(in_flight_bytes=100 * 64) as out:

        async def send_many() -> None:
            for _ in range(200):
                await out.send(b"")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_many)
            await trio.testing.wait_all_tasks_blocked()
            assert backend.batches == [50, 50]
            backend.hold = False
            backend.answer()
    assert sum(backend.batches) == 200


async def test_a_record_above_the_window_goes_alone(autojump_clock: trio.testing.MockClock) -> None:
    backend = MemoryBackend()
    async with Log(backend, "orders").appender(in_flight_bytes=100) as out:
        await out.send(bytes(5000))
        await out.send(b"x")
    assert backend.batches == [1, 1]


async def test_flush_waits_for_everything_sent_before(
    autojump_clock: trio.testing.MockClock,
) -> None:
    backend = MemoryBackend(hold=True)
    async with Log(backend, "orders").appender() as out:
        await out.send(b"one")
        with trio.move_on_after(5) as scope:
            await out.flush()
        assert scope.cancelled_caught
        assert out.acknowledged_count == 0
        backend.hold = False
        backend.answer()
        await out.flush()
        assert out.acknowledged_count == 1


async def test_unknown_outcomes_are_merged_and_end_the_appender(
    autojump_clock: trio.testing.MockClock,
) -> None:
    backend = MemoryBackend(hold=True)
    with pytest.raises(ReplicationTimeout) as caught:
        async with Log(backend, "orders").appender() as out:
            await out.send(b"one")
            await trio.testing.wait_all_tasks_blocked()
            await out.send(b"two")
            await trio.testing.wait_all_tasks_blocked()
            (first, tell_first), (second, tell_second) = backend.waiting
            tell_second(ReplicationTimeout("no", second.first, second.last, second.next))
            tell_first(ReplicationTimeout("no", first.first, first.last, first.next))
            with pytest.raises(OutcomeUnknown):
                await out.send(b"three")
    assert (caught.value.first, caught.value.last, caught.value.next) == (0, 1, 2)
    assert backend.stored == [b"one", b"two"]


async def test_a_refused_batch_is_reported_as_not_stored(
    autojump_clock: trio.testing.MockClock,
) -> None:
    backend = MemoryBackend(refuse=NotMaster("ask n1", hint="n1"))
    with pytest.raises(NotStored) as caught:
        async with Log(backend, "orders").appender() as out:
            await out.send(b"one")
    assert isinstance(caught.value, NotMaster)
    assert caught.value.hint == "n1"


async def test_a_closed_appender_refuses(autojump_clock: trio.testing.MockClock) -> None:
    async with Log(MemoryBackend(), "orders").appender() as out:
        pass
    with pytest.raises(Closed):
        await out.send(b"late")


async def test_leaving_by_an_exception_does_not_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with pytest.raises(RuntimeError, match="mine"):
        async with Log(MemoryBackend(hold=True), "orders").appender() as out:
            await out.send(b"one")
            raise RuntimeError("mine")


async def test_the_window_must_be_positive() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Log(MemoryBackend(), "orders").appender(in_flight_bytes=0)


async def test_a_reader_ends_at_the_acknowledged_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    backend = MemoryBackend()
    log = Log(backend, "orders")
    await log.append([b"%d" % number for number in range(10)])
    backend.stored.append(b"not acknowledged")
    async with log.reader(start=3, batch_bytes=4) as batches:
        bodies = [[record.body for record in batch.records] async for batch in batches]
    assert bodies == [[b"3", b"4", b"5", b"6"], [b"7", b"8", b"9"]]


async def test_a_following_reader_waits_for_more(autojump_clock: trio.testing.MockClock) -> None:
    log = Log(MemoryBackend(), "orders")
    seen: list[bytes] = []

    async def follow() -> None:
        async with log.reader(follow=True) as batches:
            async for batch in batches:
                seen.extend(record.body for record in batch.records)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        for number in range(3):
            await log.append([b"%d" % number])
            await trio.testing.wait_all_tasks_blocked()
            assert seen[-1] == b"%d" % number
        nursery.cancel_scope.cancel()
    assert seen == [b"0", b"1", b"2"]


async def test_a_following_reader_of_a_slave_that_lags_waits_without_asking_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    backend = MemoryBackend(held=0)
    log = Log(backend, "orders")
    await log.append([b"0", b"1"])
    async with log.reader(follow=True) as batches:
        with trio.move_on_after(60) as waited:
            await batches.receive()
        assert waited.cancelled_caught
        assert backend.reads <= 2
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def _() -> None:
                assert [record.body for record in (await batches.receive()).records] == [b"0"]

            await trio.testing.wait_all_tasks_blocked()
            backend.held = 1
            backend.answer()


async def test_a_closed_reader_raises(autojump_clock: trio.testing.MockClock) -> None:
    reader = Log(MemoryBackend(), "orders").reader()
    await reader.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await reader.receive()
