"""Appends are answered when enough distinct nodes hold them, in time, and never too early."""

from __future__ import annotations

import re
from typing import Any

import pytest
import trio
from ha_kit import SEGMENT, Kit, cluster, node, until, waiting
from ha_peer import Peer

from actors.errors import NodeStopped, ReplicationTimeout
from actors.events import ha as events
from actors.storage.commitlog import store_messages

LOG = bytes(n % 253 for n in range(SEGMENT))


async def put(kit: Kit, answers: list[Any], size: int = 10, timeout_s: float = 3.0) -> None:
    """One append of `size` bytes, synced on the master at once."""
    first = kit.written_bytes
    wait = waiting(first, first + size, trio.current_time() + timeout_s, answers)
    await kit.append(LOG[:size], waits=(wait,))


async def slave(kit: Kit, name: str, report: int = 0) -> Peer:
    peer = await kit.connect(name)
    await peer.report(report)
    return peer


async def nothing_for(answers: list[Any], seconds: float) -> None:
    before = list(answers)
    await trio.sleep(seconds)
    assert answers == before


@pytest.mark.checklist(26)
async def test_put_ok_only_after_enough_distinct_slaves(autojump_clock: object) -> None:
    async with node("n0", cluster("copies = 3")) as kit:
        one, two = await slave(kit, "n1"), await slave(kit, "n2")
        answers: list[Any] = []
        await put(kit, answers, timeout_s=100.0)
        await one.report(10)
        await two.report(9)
        await nothing_for(answers, 1.0)
        twin = await slave(kit, "n1", 10)  # the same node once more
        await nothing_for(answers, 1.0)
        await two.report(10)
        await until(lambda: bool(answers))
        assert answers == [
            store_messages.Appended(
                first_bytes=0, last_bytes=0, next_bytes=10, copies=3, durability="synced"
            )
        ]
        assert twin.got == b""
        await until(lambda: kit.shown[-1:] == [10])


@pytest.mark.checklist(26)
async def test_a_java_slave_of_a_synced_group_is_no_copy(autojump_clock: object) -> None:
    config = cluster("copies = 2", slaves='["n1", { node = "n2", kind = "java" }]')
    async with node("n0", config) as kit:
        answers: list[Any] = []
        java = await slave(kit, "n2")
        await put(kit, answers)
        await java.report(10)
        await nothing_for(answers, 1.0)
        await slave(kit, "n1", 10)
        await until(lambda: bool(answers))
        assert answers[0].copies == 2


async def test_a_java_slave_of_a_written_group_is_a_copy(autojump_clock: object) -> None:
    config = cluster('durability = "written"', slaves='[{ node = "n1", kind = "java" }]')
    async with node("n0", config) as kit:
        answers: list[Any] = []
        java = await slave(kit, "n1")
        await put(kit, answers)
        await java.report(10)
        await until(lambda: bool(answers))
        assert (answers[0].copies, answers[0].durability) == (2, "written")


@pytest.mark.checklist(26)
async def test_the_master_s_own_sync_is_needed_too(autojump_clock: object) -> None:
    async with node("n0", cluster("copies = 1")) as kit:
        answers: list[Any] = []
        wait = waiting(0, 10, trio.current_time() + 3.0, answers)
        await kit.append(LOG[:10], synced=False, waits=(wait,))
        await nothing_for(answers, 1.0)
        await kit.became(synced_bytes=10)
        await until(lambda: bool(answers))
        assert answers[0].copies == 1


@pytest.mark.checklist(27)
async def test_a_slave_down_is_flush_slave_timeout_in_time_and_readable_later(
    autojump_clock: object,
) -> None:
    async with node("n0", cluster("copies = 2")) as kit:
        answers: list[Any] = []
        began_s = trio.current_time()
        await put(kit, answers)
        await until(lambda: bool(answers))
        assert trio.current_time() - began_s == pytest.approx(3.0, abs=0.1)
        error = answers[0]
        assert isinstance(error, ReplicationTimeout)
        assert error.status == "FLUSH_SLAVE_TIMEOUT"
        assert (error.first, error.last, error.next) == (0, 0, 10)
        assert "not on 2 nodes" in str(error)
        assert str(error).endswith("(no other node is connected)")
        assert kit.shown == []  # not readable yet
        assert kit.of(events.AppendsTimedOut) == [
            events.AppendsTimedOut(first_bytes=0, next_bytes=10, appends=1, held_bytes=-1)
        ]
        peer = await slave(kit, "n1")
        assert await peer.body(10) == LOG[:10]  # it is stored
        await peer.report(10)
        await until(lambda: kit.shown == [10])


@pytest.mark.checklist(28)
async def test_a_hundred_puts_with_a_dead_slave_end_together(autojump_clock: object) -> None:
    async with node("n0", cluster("copies = 2")) as kit:
        answers: list[Any] = []
        began_s = trio.current_time()
        for _ in range(100):
            await put(kit, answers)
        await until(lambda: len(answers) == 100)
        assert trio.current_time() - began_s < 3.2
        assert all(isinstance(answer, ReplicationTimeout) for answer in answers)


async def test_one_slow_put_delays_no_other(autojump_clock: object) -> None:
    async with node("n0", cluster("copies = 2")) as kit:
        slow: list[Any] = []
        quick: list[Any] = []
        await put(kit, slow, timeout_s=100.0)
        await trio.sleep(0.1)
        await put(kit, quick, timeout_s=1.0)
        await trio.sleep(1.1)
        assert isinstance(quick[0], ReplicationTimeout)
        peer = await slave(kit, "n1", 10)
        await until(lambda: bool(slow))
        assert slow[0].next_bytes == 10
        assert peer.got == b""


@pytest.mark.checklist(29)
async def test_acknowledged_when_examined_is_ok_though_the_deadline_has_passed(
    autojump_clock: object,
) -> None:
    async with node("n0", cluster("copies = 2")) as kit:
        await slave(kit, "n1", 0)
        answers: list[Any] = []
        peer = await slave(kit, "n2", 0)
        await kit.append(LOG[:10])
        await peer.report(10)
        await until(lambda: kit.shown == [10])
        late = waiting(0, 10, trio.current_time() - 5.0, answers)
        await kit.became(waits=(late,))
        await until(lambda: bool(answers))
        assert isinstance(answers[0], store_messages.Appended)


@pytest.mark.checklist(30)
async def test_a_large_append_is_acknowledged_once(autojump_clock: object) -> None:
    """4 MiB in many frames with a report after each: only the last one completes it."""
    config = cluster("segment_bytes = 8388608", drop=f"segment_bytes = {SEGMENT}")
    async with node("n0", config) as kit:
        peer = await slave(kit, "n1")
        answers: list[Any] = []
        size = 4 << 20
        kit.write(bytes(size))
        wait = waiting(0, size, trio.current_time() + 3.0, answers)
        await kit.became(synced_bytes=size, waits=(wait,))
        received = 0
        while received < size:
            assert answers == []
            offset, body = await peer.next_frame()
            assert offset == received
            received += len(body)
            await peer.report(received)
        await until(lambda: bool(answers))
        await trio.sleep(5.0)
        assert [answer.next_bytes for answer in answers] == [size]


@pytest.mark.checklist(31)
async def test_one_copy_waits_for_nobody(autojump_clock: object) -> None:
    async with node("n0", cluster("copies = 1")) as kit:
        answers: list[Any] = []
        with trio.fail_after(0.1):
            await put(kit, answers)
            await until(lambda: bool(answers))
        assert answers[0].copies == 1
        await until(lambda: kit.shown == [10])


@pytest.mark.checklist(34)
async def test_a_reconnect_is_not_a_second_copy_and_ends_the_first(
    autojump_clock: object,
) -> None:
    async with node("n0", cluster("copies = 3")) as kit:
        first = await slave(kit, "n1", 0)
        answers: list[Any] = []
        await put(kit, answers, timeout_s=100.0)
        await first.report(10)
        second = await slave(kit, "n1", 10)
        assert await first.ended()
        await nothing_for(answers, 2.0)
        await until(lambda: bool(kit.of(events.HAConnectionClosed)))
        assert "newer connection" in kit.of(events.HAConnectionClosed)[0].reason
        status = (await kit.status()).slaves[0]
        assert (status.connection, status.ack_bytes) == (2, 10)
        assert second.got == b""


@pytest.mark.checklist(35)
async def test_the_loss_of_all_slaves_is_felt_at_once(autojump_clock: object) -> None:
    async with node("n0", cluster("copies = 2")) as kit:
        peer = await slave(kit, "n1", 0)
        answers: list[Any] = []
        await put(kit, answers)
        await peer.report(10)
        await until(lambda: bool(answers))
        peer.stream.abort()
        await until(lambda: bool(kit.of(events.HAConnectionClosed)))
        again = waiting(0, 10, trio.current_time() + 1.0, answers)  # held once, not any more
        await kit.became(waits=(again,))
        await until(lambda: len(answers) == 2)
        assert isinstance(answers[1], ReplicationTimeout)
        assert str(answers[1]).endswith("(no other node is connected)")
        assert kit.shown == [10]  # what readers have seen stays


@pytest.mark.parametrize(
    ("slaves", "report", "words", "held_bytes"),
    [
        (("n1",), 10, "other nodes that count: 1 connected, 2 needed", -1),
        (("n1", "n2"), 5, "hold up to 5, 10 .*; n1 .* 5, .*; n2 .* 5, heard [0-9.]+ s ago", 5),
    ],
)
async def test_what_an_append_lacked_at_its_deadline(
    autojump_clock: object, slaves: tuple[str, ...], report: int, words: str, held_bytes: int
) -> None:
    async with node("n0", cluster("copies = 3")) as kit:
        for name in slaves:
            await slave(kit, name, 0)
        answers: list[Any] = []
        await put(kit, answers, timeout_s=1.0)
        for name in slaves:
            await slave(kit, name, report)
        await until(lambda: bool(answers))
        assert isinstance(answers[0], ReplicationTimeout)
        assert re.search(rf"\(.*{words}\)$", str(answers[0]))
        assert [event.held_bytes for event in kit.of(events.AppendsTimedOut)] == [held_bytes]


async def test_a_connected_slave_that_is_no_copy_is_not_called_away(
    autojump_clock: object,
) -> None:
    config = cluster("copies = 2", slaves='["n1", { node = "n2", kind = "java" }]')
    async with node("n0", config) as kit:
        answers: list[Any] = []
        java = await slave(kit, "n2")
        await put(kit, answers, timeout_s=1.0)
        await java.report(10)
        await until(lambda: bool(answers))
        assert str(answers[0]).endswith("(other nodes that count: 0 connected, 1 needed)")


@pytest.mark.checklist(61)
async def test_a_stop_answers_what_still_waits(autojump_clock: object) -> None:
    async with node("n0", cluster("copies = 2")) as kit:
        answers: list[Any] = []
        await put(kit, answers, timeout_s=100.0)
        await slave(kit, "n1", 0)
        with trio.fail_after(3.0):
            await kit.system.stop()
        assert len(answers) == 1
        assert isinstance(answers[0], NodeStopped)
        assert (answers[0].first, answers[0].last) == (0, 0)


async def test_a_crash_of_group_transfer_starts_all_connections_anew(
    autojump_clock: object,
) -> None:
    async with node("n0", cluster("copies = 2")) as kit:
        answers: list[Any] = []
        peer = await slave(kit, "n1", 0)
        await put(kit, answers, timeout_s=100.0)
        await peer.body(10)
        await kit.crash(kit.setup.paths.group_transfer)
        await until(lambda: bool(answers))
        assert isinstance(answers[0], NodeStopped)
        assert await peer.ended()
        await slave(kit, "n1", 10)
        await until(lambda: kit.shown == [10])


async def test_with_compat_a_slave_of_the_last_file_is_a_copy(autojump_clock: object) -> None:
    """Upstream counts it; without compat no slave begins there."""
    async with node("n0", cluster('compat = "upstream"', "copies = 2")) as kit:
        await kit.append(LOG + LOG[:100])
        peer = await slave(kit, "n1", 0)
        assert (await peer.next_frame())[0] == SEGMENT
        answers: list[Any] = []
        await put(kit, answers)
        await peer.report(SEGMENT + 110)
        await until(lambda: bool(answers))
        assert answers[0].copies == 2


async def test_events_of_a_batch(autojump_clock: object) -> None:
    async with node("n0", cluster("copies = 2")) as kit:
        answers: list[Any] = []
        now_s = trio.current_time()
        waits = tuple(waiting(n, n + 10, now_s + 3, answers) for n in range(0, 50, 10))
        await kit.append(LOG[:50], waits=waits)
        await slave(kit, "n1", 50)
        await until(lambda: len(answers) == 5)
        assert kit.of(events.AppendsAcknowledged) == [
            events.AppendsAcknowledged(first_bytes=0, next_bytes=50, appends=5, records=5)
        ]
        assert kit.of(events.SlaveAcked) == [
            events.SlaveAcked(slave="n1", connection=1, offset_bytes=50)
        ]
