"""The feeder against a api in memory: every line until it is acknowledged, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from group_states import status_of

from actors.cluster import feed as feed_module
from actors.cluster.feed import Feed
from actors.cluster.feed_record import digest
from actors.errors import Closed, NotMaster, OutcomeUnknown, ReplicationTimeout, TooLarge
from actors.log import BATCH_BYTES_MAX, RECORD_COST_BYTES, AppendOutcome
from actors.log_types import Chain, NewRecord, Receipt

Answer = Callable[[AppendOutcome], None]


@attrs.define
class Record:
    """A feed record in memory."""

    noted: list[tuple[int, int]] = attrs.field(factory=list)
    crcs: list[int] = attrs.field(factory=list)
    ended: bool = False
    closed: bool = False

    async def note(self, receipts: list[tuple[int, Receipt, int]]) -> None:
        await trio.sleep(0.01)
        self.noted += [(line, receipt.count) for line, receipt, _ in receipts]
        self.crcs += [crc for _, _, crc in receipts]

    async def end(self) -> None:
        self.ended = True

    def close(self) -> None:
        assert not self.closed
        self.closed = True


@attrs.define
class FakeApi:
    """Takes batches; a script says what becomes of each, by the number of the batch from 0.

    `hold` keeps answers back until `release`.
    """

    script: dict[int, Exception | str] = attrs.field(factory=dict)
    delay_s: float = 0.1
    log: list[bytes] = attrs.field(factory=list)
    times_s: list[float] = attrs.field(factory=list)
    sizes: list[int] = attrs.field(factory=list)
    connections: int = 0
    calls: int = 0
    in_flight: int = 0
    in_flight_max: int = 0
    refuse_connections: int = 0
    nursery: trio.Nursery | None = None
    submit_s: float = 0.0
    kept: list[Answer] = attrs.field(factory=list)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[FakeApi]:
        if self.refuse_connections:
            self.refuse_connections -= 1
            raise ConnectionRefusedError("nobody listens")
        self.connections += 1
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            yield self
            nursery.cancel_scope.cancel()

    async def status(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"groups": {"g": status_of()}}

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Answer,
        chain: Chain | None = None,
    ) -> None:
        await trio.sleep(self.submit_s)
        number, self.calls = self.calls, self.calls + 1
        self.times_s.append(trio.current_time())
        self.sizes.append(len(records))
        outcome = self.script.get(number)
        if isinstance(outcome, Exception) and not isinstance(outcome, OutcomeUnknown):
            raise outcome
        if outcome == "break":
            raise trio.BrokenResourceError("the connection broke")
        first = len(self.log)
        if outcome is None or outcome == "lost":
            self.log += [record for record in records if isinstance(record, bytes)]
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        if outcome == "lost":
            self.kept.append(on_done)
            return
        receipt = Receipt(
            first=first,
            last=len(self.log) - 1,
            next=len(self.log),
            count=len(records),
            copies=2,
            durability="synced",
        )
        assert self.nursery is not None
        self.nursery.start_soon(self._answer, on_done, outcome or receipt)

    async def _answer(self, on_done: Answer, outcome: AppendOutcome) -> None:
        await trio.sleep(self.delay_s)
        self.in_flight -= 1
        on_done(outcome)


def lines(count: int, start: int = 0) -> tuple[bytes, ...]:
    return tuple(b"%d" % number for number in range(start, start + count))


def make(
    api: FakeApi, record: Record, rate_per_s: int = 0, first_line: int = 0
) -> tuple[Feed, trio.MemorySendChannel[tuple[bytes, ...]]]:
    send, receive = trio.open_memory_channel[tuple[bytes, ...]](100)
    feed = Feed(
        group="g",
        source="s",
        lines=receive,
        connect=api.connect,
        record=record,  # type: ignore[arg-type]
        rate_per_s=rate_per_s,
        first_line=first_line,
    )
    return feed, send


async def fed(api: FakeApi, chunks: list[tuple[bytes, ...]], **keys: int) -> tuple[Feed, Record]:
    record = Record()
    feed, send = make(api, record, **keys)
    for chunk in chunks:
        send.send_nowait(chunk)
    send.close()
    await feed.run()
    return feed, record


async def test_all_lines_in_order(autojump_clock: trio.abc.Clock) -> None:
    api = FakeApi()
    feed, record = await fed(api, [lines(3), lines(4, 3)])
    assert api.log == list(lines(7))
    assert api.in_flight_max == 2  # pipelined
    view = feed.view()
    assert (view.sent_count, view.acknowledged_count, view.unknown_count) == (7, 7, 0)
    assert (view.acknowledged_bytes, view.in_flight_count, view.state) == (7, 0, "ended")
    assert sorted(record.noted) == [(0, 3), (3, 4)]
    assert sorted(record.crcs) == sorted(map(digest, (api.log[:3], api.log[3:])))
    assert record.ended
    assert record.closed
    assert feed.seconds == pytest.approx(0.1)


async def test_no_lines(autojump_clock: trio.abc.Clock) -> None:
    api = FakeApi()
    feed, record = await fed(api, [])
    assert feed.view().sent_count == 0
    assert feed.seconds == 0.0
    assert record.ended


async def test_goes_on_at_a_line(autojump_clock: trio.abc.Clock) -> None:
    feed, record = await fed(FakeApi(), [lines(2, 10)], first_line=10)
    assert record.noted == [(10, 2)]
    assert feed.view().sent_count == 2


@pytest.mark.parametrize(
    ("error", "unknown", "log"),
    [
        (NotMaster("a slave"), 0, 9),
        (Closed("stopping"), 0, 9),
        (ReplicationTimeout("too late"), 3, 9),
        (OutcomeUnknown("who knows"), 3, 9),
    ],
)
async def test_failed_batch_is_sent_again(
    autojump_clock: trio.abc.Clock, error: Exception, unknown: int, log: int
) -> None:
    api = FakeApi(script={1: error})
    feed, record = await fed(api, [lines(3), lines(3, 3), lines(3, 6)])
    assert sorted(api.log) == sorted(lines(9))
    assert len(api.log) == log
    view = feed.view()
    assert (view.sent_count, view.acknowledged_count, view.unknown_count) == (9, 9, unknown)
    assert sorted(record.noted) == [(0, 3), (3, 3), (6, 3)]
    assert api.connections == 2


async def test_nothing_new_is_sent_after_a_failure_before_the_answers(
    autojump_clock: trio.abc.Clock,
) -> None:
    api = FakeApi(script={0: NotMaster("no")})
    await fed(api, [lines(3), lines(3, 3)])
    assert api.log == list(lines(6))  # still in order: the first was alone when it failed


async def test_connection_that_breaks_leaves_an_unknown_outcome(
    autojump_clock: trio.abc.Clock,
) -> None:
    api = FakeApi(script={0: "lost", 1: "break"})
    feed, _ = await fed(api, [lines(2), lines(2, 2)])
    assert api.log == [*lines(2), *lines(2), *lines(2, 2)]  # at least once
    assert feed.view().unknown_count == 4
    assert feed.view().acknowledged_count == 4


async def test_answer_that_comes_after_all_is_not_counted_twice(
    autojump_clock: trio.abc.Clock,
) -> None:
    api = FakeApi(script={0: "lost", 1: "break"})
    feed, _ = await fed(api, [lines(2), lines(2, 2)])
    before = feed.view()
    receipt = Receipt(first=0, last=1, next=2, count=2, copies=2, durability="synced")
    for late in api.kept:
        late(receipt)
        late(OutcomeUnknown("?"))
    assert feed.view() == before


async def test_retry_does_not_wait_for_the_next_line(autojump_clock: trio.abc.Clock) -> None:
    api = FakeApi(script={0: ReplicationTimeout("late")})
    feed, send = make(api, Record())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(feed.run)
        await send.send(lines(1))
        await trio.sleep(5)  # the source is open and silent
        assert feed.view().acknowledged_count == 1
        feed.stop()


async def test_stop_during_a_slow_append_ends_a_silent_feed(
    autojump_clock: trio.abc.Clock,
) -> None:
    api = FakeApi(submit_s=2.0)
    feed, send = make(api, Record())
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed.run)
            await send.send(lines(1))
            await trio.sleep(1)
            feed.stop()
    assert feed.view().acknowledged_count == 1


async def test_connects_again_until_it_works(autojump_clock: trio.abc.Clock) -> None:
    api = FakeApi(refuse_connections=4)
    await fed(api, [lines(1)])
    pauses_s = (1 + 2 + 4 + 8) * feed_module.RETRY_S
    assert trio.current_time() == pytest.approx(pauses_s + 0.1 + 0.01, abs=0.05)


async def test_line_that_can_never_be_taken_ends_the_feed(autojump_clock: trio.abc.Clock) -> None:
    api = FakeApi(script={0: TooLarge("too large")})
    with pytest.RaisesGroup(TooLarge, flatten_subgroups=True):
        await fed(api, [lines(1)])


async def test_answer_that_is_our_bug_ends_the_feed(autojump_clock: trio.abc.Clock) -> None:
    api = FakeApi(script={0: RuntimeError("?")})
    with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True):
        await fed(api, [lines(1)])


async def test_rate(autojump_clock: trio.abc.Clock) -> None:
    api = FakeApi(delay_s=0.0)
    await fed(api, [lines(1000), lines(1000, 1000)], rate_per_s=1000)
    assert api.times_s[-1] - api.times_s[0] == pytest.approx(1.95, abs=0.01)
    assert set(api.sizes) == {50}


async def test_slow_rate_sends_single_lines(autojump_clock: trio.abc.Clock) -> None:
    api = FakeApi(delay_s=0.0)
    await fed(api, [lines(3)], rate_per_s=2)
    assert api.sizes == [1, 1, 1]
    assert api.times_s[-1] - api.times_s[0] == pytest.approx(1.0)


async def test_long_pause_is_not_made_up_for(autojump_clock: trio.abc.Clock) -> None:
    api = FakeApi(delay_s=0.0)
    record = Record()
    feed, send = make(api, record, rate_per_s=100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(feed.run)
        await send.send(lines(100))
        await trio.sleep(60)
        await send.send(lines(1000))
        send.close()
    late = [time for time in api.times_s if time >= 59]
    assert late[-1] - late[0] > 8.9 - feed_module.LATE_S_MAX


async def test_bytes_in_flight_are_bounded(
    autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost = 3 * (1 + RECORD_COST_BYTES)
    monkeypatch.setattr(feed_module, "IN_FLIGHT_BYTES_MAX", 2 * cost)
    api = FakeApi()
    await fed(api, [(b"x", b"y", b"z")] * 7)
    assert api.in_flight_max == 2
    assert len(api.log) == 21


async def test_batches_are_bounded_in_bytes(autojump_clock: trio.abc.Clock) -> None:
    big = b"x" * (BATCH_BYTES_MAX // 2)
    api = FakeApi()
    await fed(api, [(big, big, b"a", big * 3, b"b")])
    assert api.sizes == [1, 2, 1, 1]
    assert api.log == [big, big, b"a", big * 3, b"b"]


async def test_stop_waits_for_answers_only(autojump_clock: trio.abc.Clock) -> None:
    api = FakeApi(delay_s=1.0)
    record = Record()
    feed, send = make(api, record)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(feed.run)
        await send.send(lines(2))
        await trio.sleep(0.5)
        assert feed.view().in_flight_count == 2
        feed.stop()
    assert trio.current_time() == pytest.approx(1.01, abs=0.05)
    assert record.noted == [(0, 2)]
    assert not record.ended  # the source had not ended: the next run goes on
    assert feed.view().state == "stopped"


async def test_stop_while_it_waits_for_a_connection(autojump_clock: trio.abc.Clock) -> None:
    feed, send = make(FakeApi(refuse_connections=10**6), Record())
    send.send_nowait(lines(1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(feed.run)
        await trio.sleep(100)
        assert "ConnectionRefusedError" in feed.view().state
        feed.stop()
    assert feed.view().sent_count == 0
    assert trio.current_time() == pytest.approx(100, abs=0.01)


async def test_stop_before_the_start(autojump_clock: trio.abc.Clock) -> None:
    api = FakeApi()
    feed, send = make(api, Record())
    send.send_nowait(lines(1))
    feed.stop()
    await feed.run()
    assert api.calls == 0
