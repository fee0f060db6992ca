"""The store actor on a simulated disk: appends, refusals, sessions, its life."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
from store_kit import ROOT, local_reply, log_of, running, sim_disk, small_group, until

from actors.env import Held
from actors.errors import (
    NotMaster,
    NotStored,
    Overloaded,
    TooLarge,
)
from actors.events import store as events
from actors.log_types import Message
from actors.runtime import ActorDown
from actors.sim.disk import EPOCH_MS
from actors.sim.disk.disk import SimHeld
from actors.storage.commitlog import group_commit, store_messages
from actors.storage.log import growth
from actors.storage.log.growth import Subscribe, Unsubscribe
from wire.files.commit_log import decode_record, scan

S = 4096
HOUR_MS = 3_600_000


async def test_one_append_is_answered_when_it_is_synced(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        answer = await kit.append(b"one", b"two")
        assert answer == store_messages.Appended(
            first_bytes=0, last_bytes=100, next_bytes=200, copies=1, durability="synced"
        )
        held = await kit.range()
        assert (held.min_bytes, held.written_bytes, held.synced_bytes) == (0, 200, 200)
        assert held.folder == f"{ROOT}/commitlog"
        records = [decode_record(log_of(disk), at) for at in (0, 100)]
        assert [(r.body, r.topic, r.queue_offset) for r in records] == [
            (b"one", "orders", 0),
            (b"two", "orders", 1),
        ]
        assert {r.store_ts for r in records} == {EPOCH_MS}
        assert records[0].store_host == ("127.0.0.1", 10912)


async def test_the_acknowledger_hears_of_appends_before_their_bytes(autojump_clock: Any) -> None:
    async with running(sim_disk()) as kit:
        for _ in range(20):
            await kit.append(b"x")
        written = 0
        for message in kit.heard:
            if isinstance(message, store_messages.RecordsWritten):
                written = message.waits[-1].next_bytes
            else:
                assert isinstance(message, store_messages.LogGrew)
                assert message.written_bytes <= written


async def test_appends_that_wait_are_written_together(autojump_clock: Any) -> None:
    async with running(sim_disk()) as kit:
        answers: list[Any] = []
        for number in range(50):
            await kit.store.tell(
                store_messages.Append(
                    records=(b"%d" % number, b"x"),
                    deadline_s=trio.current_time() + 1,
                    reply_to=local_reply(answers),
                )
            )
        await until(lambda: len(answers) == 50)
        assert [event.appends for event in kit.of(events.RecordsAppended)] == [50]
        assert [answer.first_bytes for answer in answers] == sorted(
            answer.first_bytes for answer in answers
        )


async def test_a_group_is_bounded(autojump_clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "GROUP_BYTES", 1000)
    async with running(sim_disk()) as kit:
        answers: list[Any] = []
        for _ in range(30):
            await kit.store.tell(
                store_messages.Append(
                    records=(b"x" * 300,),
                    deadline_s=trio.current_time() + 1,
                    reply_to=local_reply(answers),
                )
            )
        await until(lambda: len(answers) == 30)
        assert [event.appends for event in kit.of(events.RecordsAppended)] == [3] * 10


@pytest.mark.checklist(38)
async def test_segments_roll_and_nothing_crosses_them(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        for size in (700, 1500, 1900, 10, 3000, 1, 900):
            await kit.append(*[b"x" * size] * 3)
        end = (await kit.range()).written_bytes
        rolled = [event.base_bytes for event in kit.of(events.SegmentRolled)]
        assert rolled == list(range(S, end, S))
    raw = log_of(disk)
    assert sum(len(scan(raw[at : at + S], physical_offset=at)[0]) for at in range(0, end, S)) == 21


@pytest.mark.parametrize(
    "records",
    [
        (b"x" * (S - 91 - 8 - len("orders") + 1),),  # fits no segment
        (b"x" * 4001,),  # max_message_bytes
        (Message("t" * 256, b"x"),),
        (Message("a/b", b"x"),),
        (Message("..", b"x"),),
        (Message("t\n", b"x"),),
        (Message("t", b"x", queue_id=-1),),
        (Message("t", b"x", queue_id=1 << 31),),
        (Message("t", b"x", "tag\x02"),),
        (Message("t", b"x", properties=(("a", "b\0c"),)),),
        (Message("t", b"x", properties=(("a", "b" * 40_000),)),),
        (Message("t", b"x", properties=(("", "b"),)),),
    ],
)
async def test_an_append_that_breaks_a_limit_leaves_nothing(
    autojump_clock: Any, records: tuple[Any, ...]
) -> None:
    disk = sim_disk()
    async with running(disk, small_group(max_message_bytes=4000)) as kit:
        await kit.append(b"first")
        end = (await kit.range()).written_bytes
        with pytest.raises(TooLarge):
            await kit.append(b"good", Message("new", b"good"), *records, b"good")
        with pytest.raises(NotStored):
            await kit.append()
        assert (await kit.range()).written_bytes == end
        assert not any(log_of(disk)[end:])
        answer = await kit.append(b"second", Message("new", b"x"))
        assert answer.first_bytes == end
        raw = log_of(disk)
        assert decode_record(raw, end).queue_offset == 1
        assert decode_record(raw, answer.last_bytes).queue_offset == 0


async def test_a_bad_append_does_not_disturb_its_neighbours(autojump_clock: Any) -> None:
    async with running(sim_disk()) as kit:
        outcomes: list[Any] = []
        for records in ((b"x" * 3000,), (b"a", b"y" * 3901), (b"z" * 1500,), (b"b",)):
            await kit.store.tell(
                store_messages.Append(
                    records=records,
                    deadline_s=trio.current_time() + 1,
                    reply_to=local_reply(outcomes),
                )
            )
        await until(lambda: len(outcomes) == 4)
        refused = [each for each in outcomes if isinstance(each, Exception)]
        assert [type(each) for each in refused] == [TooLarge]
        await kit.dispatched((await kit.range()).written_bytes)
        assert (await kit.units("orders")).next_offset == 3


async def test_queues_are_bounded(autojump_clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "QUEUES_MAX", 2)
    async with running(sim_disk()) as kit:
        await kit.append(Message("t", b"x"), Message("t", b"x", queue_id=1))
        with pytest.raises(TooLarge, match="2 queues exist"):
            await kit.append(Message("t", b"x", queue_id=2))
        await kit.append(Message("t", b"x", queue_id=1))


async def test_many_topics_keep_their_offsets(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "ENCODERS_MAX", 2)
    async with running(sim_disk()) as kit:
        for number in range(12):
            await kit.append(Message(f"t{number % 4}", b"x"))
        await kit.dispatched((await kit.range()).written_bytes)
        for number in range(4):
            assert (await kit.units(f"t{number}")).next_offset == 3


@pytest.mark.checklist(58)
async def test_a_slave_takes_no_append(autojump_clock: Any) -> None:
    async with running(sim_disk(), is_master=False) as kit:
        with pytest.raises(NotMaster) as caught:
            await kit.append(b"x")
        assert caught.value.hint == "n0"
        assert (await kit.range()).written_bytes == 0


async def test_an_append_after_its_deadline_is_not_written(autojump_clock: Any) -> None:
    async with running(sim_disk()) as kit:
        outcomes: list[Any] = []
        await kit.store.tell(
            store_messages.Append(
                records=(b"x",),
                deadline_s=trio.current_time(),
                reply_to=local_reply(outcomes),
            )
        )
        await until(lambda: outcomes)
        assert isinstance(outcomes[0], Overloaded)
        assert (await kit.range()).written_bytes == 0


async def test_timestamps_never_fall(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.append(b"x")
        kit.wall_ms -= HOUR_MS
        await kit.append(b"x")
        kit.wall_ms += 2 * HOUR_MS
        await kit.append(b"x")
    async with running(disk) as kit:
        kit.wall_ms = 5
        await kit.append(b"x")
    found, _ = scan(log_of(disk))
    stamps = [decode_record(log_of(disk), at).store_ts for at, _ in found]
    assert stamps == [EPOCH_MS, EPOCH_MS, EPOCH_MS + HOUR_MS, EPOCH_MS + HOUR_MS]


# ---- received bytes ----


@pytest.mark.checklist(17)
@pytest.mark.parametrize("of", [bytes, SimHeld])
async def test_a_session_appends_where_the_log_ends(
    autojump_clock: Any, of: Callable[[bytes], bytes | Held]
) -> None:
    disk = sim_disk()
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, 3 * S, of(b"x" * 100))
        await kit.receive(1, 3 * S + 100, of(b"y" * (2 * S)))
        held = await kit.range()
        assert (held.min_bytes, held.written_bytes) == (3 * S, 5 * S + 100)
        # Both were there when the store looked: what it wrote at once is reported at once.
        (reported,) = kit.of(events.BytesReceived)
        assert (reported.first_bytes, reported.next_bytes) == (3 * S, 5 * S + 100)
        assert kit.refused == []
    assert log_of(disk)[: 2 * S + 101] == b"x" * 100 + b"y" * (2 * S) + b"\0"


@pytest.mark.checklist(16, 17)
@pytest.mark.parametrize("offset", [1, S + 1, -S])
async def test_an_impossible_first_offset_is_refused(autojump_clock: Any, offset: int) -> None:
    async with running(sim_disk(), is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, offset, b"x")
        await kit.receive(1, 0, b"x")  # the session is over, whatever follows
        await until(lambda: kit.refused)
        assert [r.session for r in kit.refused] == [1]
        assert "multiple" in kit.refused[0].reason
        assert (await kit.range()).written_bytes == 0
        assert len(kit.of(events.RawAppendRefused)) == 1


async def test_older_sessions_are_fenced(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk, is_master=False) as kit:
        await kit.receive(1, 0, b"x")  # never opened
        await kit.range()
        await kit.open_session(2)
        await kit.receive(2, 0, b"abc")
        await kit.range()
        await kit.open_session(1)  # too late to count
        await kit.receive(1, 3, b"d")
        await kit.receive(2, 3, b"e")
        await kit.range()
        await kit.receive(2, 4, b"lost")  # the next session is opened before this is read
        await kit.open_session(3)
        await kit.receive(2, 4, b"f")
        assert (await kit.range()).written_bytes == 4
        assert kit.refused == []
    assert log_of(disk)[:5] == b"abce\0"


async def test_a_mismatch_ends_the_session_and_a_new_one_goes_on(autojump_clock: Any) -> None:
    async with running(sim_disk(), is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, 0, b"abc")
        await kit.receive(1, 4, b"d")
        await until(lambda: kit.refused)
        assert kit.refused[0].reason == "expected 3, offered 4"
        await kit.open_session(2)
        await kit.receive(2, 3, b"d")
        assert (await kit.range()).written_bytes == 4


async def test_a_master_takes_no_received_bytes(autojump_clock: Any) -> None:
    async with running(sim_disk()) as kit:
        await kit.open_session(1)
        await kit.receive(1, 0, b"abc")
        await until(lambda: kit.refused)
        assert "is the master" in kit.refused[0].reason


@pytest.mark.checklist(20)
async def test_growth_is_reported_at_the_end_of_a_frame(autojump_clock: Any) -> None:
    group = small_group(durability="written", flush_interval_s=1000.0)
    async with running(sim_disk(), group, is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, 0, b"abc", ends_frame=False)
        await trio.sleep(0.5)
        before = [m.written_bytes for m in kit.heard if isinstance(m, store_messages.LogGrew)]
        assert set(before) <= {0, 3}  # at most with the first sync's end
        await kit.receive(1, 3, b"def", ends_frame=False)
        await trio.sleep(0.5)
        assert kit.grown is not None
        assert kit.grown.written_bytes < 6
        await kit.receive(1, 6, b"", ends_frame=True)
        await until(lambda: kit.grown is not None and kit.grown.written_bytes == 6)


# ---- life ----


async def test_an_ordered_stop_leaves_a_clean_store(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        answer = await kit.append(b"x" * 3000)
        assert disk.exists(f"{ROOT}/abort")
        assert disk.listdir(f"{ROOT}/commitlog") == [f"{0:020d}", f"{S:020d}"]
    assert not disk.exists(f"{ROOT}/abort")
    assert disk.listdir(f"{ROOT}/commitlog") == [f"{0:020d}"]
    async with running(disk) as kit:
        (finished,) = kit.of(events.RecoveryFinished)
        assert finished.was_clean
        assert finished.end_bytes == answer.next_bytes


@pytest.mark.checklist(43)
async def test_abort_and_checkpoint(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        end = (await kit.append(b"x")).next_bytes
        assert disk.open(f"{ROOT}/abort", "r").pread(0, 10) == b"n0"
        await trio.sleep(3)
        assert disk.stat(f"{ROOT}/checkpoint").size_bytes == 4096
    raw = disk.open(f"{ROOT}/checkpoint", "r").pread(0, 4096)
    stamp = EPOCH_MS.to_bytes(8, "big")
    assert raw == stamp + stamp + bytes(24) + end.to_bytes(8, "big") + bytes(4096 - 48)
    assert not disk.exists(f"{ROOT}/abort")


async def test_a_subscriber_is_notified_at_once_and_no_more_after_leaving(
    autojump_clock: Any,
) -> None:
    async with running(sim_disk()) as kit:
        await until(lambda: kit.grown is not None)
        await kit.store.tell(Unsubscribe(subscriber=kit.registry.ref("/n0/listener")))
        await kit.range()
        before = len(kit.heard)
        with pytest.raises(Exception, match="did not answer"):
            await kit.append(b"x")
        assert not any(isinstance(m, store_messages.LogGrew) for m in kit.heard[before:])


async def test_subscribers_that_were_killed_do_not_fill_the_list(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "SUBSCRIBERS_MAX", 4)
    async with running(sim_disk()) as kit:
        for number in range(10):
            killed = kit.registry.ref(f"/n0/connections/{number}")
            await kit.store.tell(Subscribe(subscriber=killed))
        await kit.append(b"x")
        assert kit.grown is not None  # and those that run are notified as before


async def test_an_append_to_a_stopped_acknowledger_has_an_unknown_outcome(
    autojump_clock: Any,
) -> None:
    async with running(sim_disk()) as kit:
        gone = kit.registry.ref("/n0/nobody")
        outcomes: list[Any] = []
        append = store_messages.Append(
            records=(b"x",), deadline_s=trio.current_time() + 1, reply_to=local_reply(outcomes)
        )
        moved = attrs.evolve(append, reply_to=append.reply_to.bound_to(gone))
        await kit.store.tell(moved)
        assert isinstance(outcomes[0], ActorDown)
        assert (await kit.range()).written_bytes > 0


async def test_what_the_start_has_parsed_is_said_once(autojump_clock: Any) -> None:
    """It proves nothing to a scrubber that is started again while the store goes on."""
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.append(Message("t", b"one"), Message("t", b"two"))
    async with running(disk) as kit:

        async def taken() -> tuple[int, int]:
            held = await kit.store.ask(
                store_messages.LogRange,
                lambda reply: store_messages.GetRange(reply_to=reply, takes_parsed=True),
                timeout_s=5.0,
            )
            return held.parsed

        end = (await kit.range()).written_bytes
        assert (await kit.range()).parsed == (end, end)
        assert await taken() == (0, end)
        assert await taken() == (end, end)
