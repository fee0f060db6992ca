"""The sink: numbers without a hole, bounds, drops with a name, subscriptions."""

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from actors.events import sink as sink_module
from actors.events.codec import LoggedEvent, decode_line
from actors.events.node import EventRefused, EventsDropped, NodeStarted, NodeStopped
from actors.events.runtime import ActorRestarted
from actors.events.sink import EventSink
from actors.storage.node.event_reader import summarize

STARTED = NodeStarted(cluster="demo", version="0", groups=("orders",))
EVENT = ActorRestarted(restarts=1)


def make_sink(policy: str = "drop", **bounds: int) -> EventSink:
    return EventSink("n0", 1, lambda: 5, STARTED, policy=policy, **bounds)


def take_all(sink: EventSink, count_max: int = 1 << 20) -> list[LoggedEvent]:
    lines = sink.peek(count_max)
    sink.written(len(lines))
    return [decode_line(line) for line in lines]


def test_the_first_event_is_the_start_and_the_last_the_stop() -> None:
    sink = make_sink()
    sink("/n0/x", 1, EVENT)
    sink.close()
    sink("/n0/x", 1, EVENT)
    sink.close()
    events = take_all(sink)
    assert [event.event for event in events] == [STARTED, EVENT, NodeStopped(reason="ordered")]
    assert [event.seq for event in events] == [1, 2, 3]
    assert (events[1].path, events[1].incarnation, events[1].ts_us) == ("/n0/x", 1, 5)


def test_lines_stay_until_they_are_written() -> None:
    sink = make_sink()
    sink("/n0/x", 1, EVENT)
    assert sink.peek(1) == sink.peek(2)[:1]
    assert sink.pending == 2
    sink.written(1)
    assert [event.event for event in take_all(sink)] == [EVENT]


@pytest.mark.parametrize("bounds", [{"pending_max": 3}, {"pending_bytes_max": 400}])
def test_what_finds_no_room_takes_its_number_and_is_named(bounds: dict[str, int]) -> None:
    sink = make_sink(**bounds)
    while sink.dropped < 4:
        sink("/n0/x", 1, EVENT)
    kept = sink.pending
    assert not sink.overflowed
    events = take_all(sink)
    sink("/n0/x", 1, EVENT)
    events += take_all(sink)
    assert events[kept].event == EventsDropped(first_seq=kept + 1, last_seq=kept + 4)
    assert [event.seq for event in events[kept:]] == [kept + 5, kept + 6]
    (boot,) = summarize(events)
    assert boot.problems == ()
    assert boot.dropped == 4


def test_drops_before_the_end_are_named_too() -> None:
    sink = make_sink(pending_max=1)
    sink("/n0/x", 1, EVENT)
    sink.close()
    events = [event.event for event in take_all(sink)]
    assert events[1:] == [EventsDropped(first_seq=2, last_seq=2), NodeStopped(reason="ordered")]


def test_policy_stop_says_that_an_event_found_no_room() -> None:
    woken = []
    sink = make_sink("stop", pending_max=1)
    sink.on_pending(lambda: woken.append(sink.overflowed), 100)
    sink("/n0/x", 1, EVENT)
    assert sink.overflowed
    assert woken == [True]


def test_what_is_no_event_is_reported_in_its_place() -> None:
    sink = make_sink()
    sink("/n0/x", 1, object())
    (_, refused) = take_all(sink)
    assert refused.event == EventRefused(
        type="object", error="object is not in the catalogue of events"
    )
    assert (refused.path, refused.seq) == ("/n0/x", 2)


def test_wake_is_called_once_at_the_number() -> None:
    woken: list[int] = []
    sink = make_sink()
    sink.on_pending(lambda: woken.append(sink.pending), 3)
    for _ in range(5):
        sink("/n0/x", 1, EVENT)
    assert woken == [3]
    sink.on_pending(lambda: woken.append(sink.pending), 6)
    assert woken == [3, 6], "as many wait already"


@given(st.lists(st.sampled_from(["emit", "emit", "emit", "take", "bad"])), st.integers(1, 4))
def test_no_hole_without_a_name(steps: list[str], pending_max: int) -> None:
    sink = make_sink(pending_max=pending_max)
    events: list[LoggedEvent] = []
    for step in steps:
        if step == "take":
            events += take_all(sink, 2)
        else:
            sink("/n0/x", 1, EVENT if step == "emit" else 3)
        assert sink.pending <= pending_max + 1
    sink.close()
    events += take_all(sink)
    (boot,) = summarize(events)
    assert boot.problems == ()
    assert boot.ended
    assert boot.events + boot.dropped == boot.last_seq == sink.next_seq - 1


async def test_a_subscriber_gets_lines_until_the_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    sink = make_sink()
    subscription = sink.subscribe()
    got: list[bytes] = []

    async def listen() -> None:
        with pytest.raises(trio.EndOfChannel):
            while True:
                got.extend((await subscription.receive()).lines)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        for _ in range(3):
            await trio.sleep(1)
            sink("/n0/x", 1, EVENT)
        sink.close()
    assert got == sink.peek(10)[1:]


async def test_a_slow_subscriber_misses_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_module, "SUBSCRIBER_LINES_MAX", 2)
    sink = make_sink()
    subscription = sink.subscribe()
    for _ in range(5):
        sink("/n0/x", 1, EVENT)
    received = await subscription.receive(10)
    assert received.missed == 3
    assert [decode_line(line).seq for line in received.lines] == [5, 6]


async def test_a_closed_subscription_ends_and_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_module, "SUBSCRIBERS_MAX", 1)
    sink = make_sink()
    subscription = sink.subscribe()
    with pytest.raises(RuntimeError, match="1 subscriptions"):
        sink.subscribe()
    subscription.close()
    subscription.close()
    sink.subscribe().close()
    with pytest.raises(trio.EndOfChannel):
        await subscription.receive()


async def test_a_subscription_after_the_end_ends_at_once() -> None:
    sink = make_sink()
    sink.close()
    with pytest.raises(trio.EndOfChannel):
        await sink.subscribe().receive()
