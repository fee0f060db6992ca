"""How bytes become frames in steps, and frames bytes in few pieces; and the table of open calls."""

from __future__ import annotations

import math

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from rpc_kit import frame_of, lan, request

from actors.remoting.open_calls import OPAQUE_MAX, STALE_MIN, OpenCalls
from actors.remoting.stream import (
    DOES_NOT_READ,
    SEND_BYTES,
    SEND_TIMEOUT_S,
    SMALL_BYTES,
    STEP_FRAMES,
    FrameStream,
    News,
    Received,
    StreamEnded,
)


@attrs.define
class Halves:
    """Both halves of a stream in the hands of a test.

    Attributes:
        coming: what each receive returns, then the end.
        room_bytes: what `send_now` takes.
        pieces: what was given to each send.
    """

    coming: list[bytes] = attrs.field(factory=list)
    room_bytes: int = 1 << 30
    pieces: list[bytes] = attrs.field(factory=list)
    breaks: bool = False
    gate: trio.Event = attrs.field(factory=trio.Event)

    def halves(self) -> tuple[Halves, Halves]:
        return self, self

    async def receive_some(self, max_bytes: int) -> bytes:
        await trio.lowlevel.checkpoint()
        return self.coming.pop(0) if self.coming else b""

    def send_now(self, data: bytes) -> int:
        if self.breaks:
            raise trio.BrokenResourceError("broken")
        sent = min(len(data), self.room_bytes)
        self.room_bytes -= sent
        self.pieces.append(bytes(data[:sent]))
        return sent

    async def send_all(self, data: bytes | memoryview) -> None:
        await self.gate.wait()
        self.pieces.append(bytes(data))


def over(halves: Halves, reported: list[News], sent: list[int] | None = None) -> FrameStream:
    async def tell(news: News) -> None:
        reported.append(news)

    return FrameStream(
        1,
        halves,  # type: ignore[arg-type]
        0.0,
        tell,
        on_sent=lambda: sent.append(1) if sent is not None else None,
    )


async def test_all_frames_of_one_receive_come_in_one_step(autojump_clock: object) -> None:
    data = b"".join(frame_of(request(), number) for number in range(1000))
    reported: list[News] = []
    stream = over(Halves(coming=[data[:-10], data[-10:] + data]), reported)
    await stream.receive()
    first, second, last = reported
    assert isinstance(first, Received)
    assert isinstance(second, Received)
    assert [len(each.frames) for each in (first, second)] == [999, 1001]
    assert isinstance(last, StreamEnded)


async def test_very_many_frames_of_one_receive_come_in_steps(autojump_clock: object) -> None:
    """Between two of them it may wait for room; a frame's size is known before it is read."""
    large = frame_of(request(group="x" * SMALL_BYTES * 4), 1)
    data = b"".join(frame_of(request(), number) for number in range(STEP_FRAMES * 2 + 5))
    reported: list[News] = []
    begun: list[int] = []

    async def before_read(begun_bytes: int) -> int:
        begun.append(begun_bytes)
        return STEP_FRAMES

    async def tell(news: News) -> None:
        reported.append(news)

    halves = Halves(coming=[data + large[:20], large[20:]])
    await FrameStream(1, halves, 0.0, tell, before_read=before_read).receive()  # type: ignore[arg-type]
    counts = [len(each.frames) for each in reported if isinstance(each, Received)]
    assert counts == [STEP_FRAMES, STEP_FRAMES, 5, 1]
    assert begun == [0, 0, 0, len(large), 0]


async def test_all_frames_of_a_flush_leave_in_one_piece(autojump_clock: object) -> None:
    halves, reported = Halves(), list[News]()
    stream = over(halves, reported)
    for _ in range(3):
        for number in range(100):
            stream.put(b"%03d" % number)
        stream.flush()
    stream.flush()  # there is nothing
    assert halves.pieces == [b"".join(b"%03d" % number for number in range(100))] * 3
    assert stream.unsent_bytes == 0


async def test_large_frames_are_not_joined(autojump_clock: object) -> None:
    halves = Halves()
    stream = over(halves, [])
    frames = [b"a", b"b" * SEND_BYTES, b"c", b"d" * (SEND_BYTES - 1), b"e"]
    for frame in frames:
        stream.put(frame)
    stream.flush()
    assert halves.pieces == [b"a", b"b" * SEND_BYTES, b"c" + b"d" * (SEND_BYTES - 1), b"e"]


async def test_what_has_no_room_follows(autojump_clock: object) -> None:
    """In order, and what is put in meanwhile leaves behind it in one piece."""
    halves, reported, sent = Halves(room_bytes=4), list[News](), list[int]()
    stream = over(halves, reported, sent)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.send)
        await trio.sleep(1)
        for frame in (b"one", b"two"):
            stream.put(frame)
        stream.flush()
        for frame in (b"three", b"four"):
            stream.put(frame)
            stream.flush()
        assert stream.unsent_bytes == len("wothreefour")
        assert sent == []
        await trio.sleep(1)
        halves.gate.set()
        await trio.sleep(1)
        assert halves.pieces == [b"onet", b"wo", b"threefour"]
        assert stream.unsent_bytes == 0
        assert sent == [1, 1]
        halves.room_bytes = 100
        stream.put(b"five")
        stream.flush()
        assert halves.pieces[-1] == b"five"
        assert reported == []
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("started", [True, False])
async def test_a_failed_flush_is_news(started: bool, autojump_clock: object) -> None:
    reported = list[News]()
    stream = over(Halves(breaks=True), reported)
    async with trio.open_nursery() as nursery:
        if started:
            nursery.start_soon(stream.send)
            await trio.sleep(1)
        stream.put(b"one")
        stream.flush()
        stream.flush()
        if not started:
            nursery.start_soon(stream.send)
    assert reported == [StreamEnded(number=1, reason="broken")]


async def test_a_peer_that_reads_nothing_is_news(autojump_clock: object) -> None:
    reported = list[News]()
    stream = over(Halves(room_bytes=0), reported)
    begun_s = trio.current_time()
    stream.put(b"one")
    stream.flush()
    await stream.send()
    assert reported == [StreamEnded(number=1, reason=DOES_NOT_READ)]
    assert trio.current_time() - begun_s == pytest.approx(SEND_TIMEOUT_S)


@pytest.mark.parametrize("waits", [True, False])
async def test_an_abort_ends_both_feeders(waits: bool, autojump_clock: object) -> None:
    """Whether one of them waits for room or not: a peer's actor outlives many streams."""
    async with lan() as network, trio.open_nursery() as nursery:
        listener = await network.open("n0").listen("127.0.0.1", 1)
        stream = await network.open("n1").connect("127.0.0.1", 1)
        accepted = await listener.accept()
        reported = list[News]()

        async def tell(news: News) -> None:
            reported.append(news)

        frames = FrameStream(1, stream, 0.0, tell)
        nursery.start_soon(frames.receive)
        nursery.start_soon(frames.send)
        await trio.sleep(1)
        if waits:
            frames.put(bytes(1 << 20))
            frames.flush()
            await trio.sleep(1)
        frames.abort()
        await trio.sleep(1)
        assert [type(news) for news in reported] == [StreamEnded] * 2
        assert not nursery.child_tasks
        accepted.abort()


# --- open calls -----------------------------------------------------------------------------------


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 5)),
            st.tuples(st.just("take"), st.integers(0, 12)),
            st.tuples(st.just("wait"), st.integers(0, 3)),
            st.tuples(st.just("clear"), st.just(0)),
        ),
        max_size=200,
    )
)
def test_open_calls_against_a_plain_dict(steps: list[tuple[str, int]]) -> None:
    calls: OpenCalls[int] = OpenCalls(limit=8)
    model: dict[int, float] = {}
    now_s = 0.0
    last = 0
    for what, value in steps:
        if what == "add":
            number = calls.add(last + 1, now_s + value)
            assert (number is None) == (len(model) == 8)
            if number is not None:
                assert number == last + 1
                last = number
                model[number] = now_s + value
        elif what == "take":
            number = last - value
            found = calls.take(number)
            assert found == (number if model.pop(number, None) is not None else None)
        elif what == "wait":
            now_s += value
            due = [each for each in model if model[each] <= now_s]
            assert calls.expire(now_s) == sorted(due, key=lambda each: (model[each], each))
            for each in due:
                del model[each]
        else:
            assert calls.clear() == list(model)
            model.clear()
        assert len(calls) == len(model)
        assert all(number in calls for number in model)
        assert calls.deadline_s == min(model.values(), default=math.inf)


def test_answered_calls_leave_no_deadlines_behind() -> None:
    calls: OpenCalls[None] = OpenCalls()
    kept = calls.add(None, 0.5)
    for at in range(10_000):
        number = calls.add(None, float(at + 1))
        assert number is not None
        calls.take(number)
        assert len(calls._heap) <= 2 * (len(calls) + 1) + STALE_MIN
    assert calls.deadline_s == 0.5
    assert kept in calls


def test_numbers_begin_again_and_spare_those_in_use() -> None:
    calls: OpenCalls[str] = OpenCalls()
    assert calls.add("first", 1.0) == 1
    calls._opaque = OPAQUE_MAX - 1
    assert calls.add("last", 2.0) == OPAQUE_MAX
    assert calls.add("again", 3.0) == 2
    assert calls.take(1) == "first"
