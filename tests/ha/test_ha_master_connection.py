"""A master's connection as a slave sees it: start, frames, heartbeats, refusals, ends."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from ha_kit import PORT, SEGMENT, cluster, kit_on, node, until
from ha_peer import Peer

from actors.errors import ConfigError
from actors.events import ha as events
from actors.ha import read_socket
from actors.ha.core.states import HAConnectionState, Lost
from actors.ha.write_socket import WriteSocket
from actors.storage.commitlog import store_messages

LOG = bytes(n % 253 for n in range(3 * SEGMENT - 500))


async def silence(peer: Peer, seconds: float) -> None:
    """Nothing arrives for so long."""
    with trio.move_on_after(seconds) as scope:
        data = await peer.receive.receive_some(1)
        raise AssertionError(f"{data!r} came")
    assert scope.cancelled_caught


@pytest.mark.checklist(1)
async def test_listens_on_the_node_s_own_address_and_port(autojump_clock: object) -> None:
    async with node("n0", cluster()) as kit:
        assert kit.of(events.HAListening) == [events.HAListening(address="127.0.0.1", port=PORT)]
        peer = await kit.connect("n1")
        await peer.report(0)
        await kit.append(b"x")
        assert await peer.next_frame() == (0, b"x")


@pytest.mark.checklist(1)
async def test_a_used_port_fails_the_start_and_says_which(autojump_clock: object) -> None:
    async with node("n0", cluster()) as kit:
        with pytest.RaisesGroup(
            pytest.RaisesExc(ConfigError, match=r"groups\.orders\.port: cannot listen on 127\.0"),
            flatten_subgroups=True,
            allow_unwrapped=True,
        ):
            async with kit_on("n0", cluster(), kit.network):
                pass


@pytest.mark.checklist(2)
async def test_no_byte_before_eight_have_arrived(autojump_clock: object) -> None:
    async with node("n0", cluster()) as kit:
        await kit.append(LOG)
        peer = await kit.connect("n1")
        await silence(peer, 7.0)
        await peer.send.send_all(b"\0" * 7)
        await silence(peer, 7.0)
        await peer.send.send_all(b"\0")
        assert (await peer.next_frame())[0] == 0


@pytest.mark.checklist(3, 5)
async def test_an_empty_slave_gets_everything_in_frames_within_files(
    autojump_clock: object,
) -> None:
    async with node("n0", cluster("frame_bytes = 1500")) as kit:
        await kit.append(LOG)
        peer = await kit.connect("n1")
        await peer.report(0)
        body, expected = b"", 0
        while expected < len(LOG):
            offset, data = await peer.next_frame()
            assert offset == expected
            assert 0 < len(data) <= 1500
            assert offset // SEGMENT == (offset + len(data) - 1) // SEGMENT
            body += data
            expected += len(data)
        assert body == LOG


@pytest.mark.checklist(3)
@pytest.mark.parametrize(
    ("size", "start"), [(100, 0), (2 * SEGMENT + 100, 2 * SEGMENT), (2 * SEGMENT, 2 * SEGMENT)]
)
async def test_with_compat_an_empty_slave_gets_the_last_file(
    autojump_clock: object, size: int, start: int
) -> None:
    async with node("n0", cluster('compat = "upstream"')) as kit:
        await kit.append(LOG[:size])
        peer = await kit.connect("n1")
        await peer.report(0)
        assert await peer.next_frame() == (start, LOG[start:size])  # or a heartbeat there


@pytest.mark.checklist(4)
async def test_a_slave_goes_on_exactly_where_it_is(autojump_clock: object) -> None:
    async with node("n0", cluster()) as kit:
        await kit.append(LOG)
        peer = await kit.connect("n1")
        await peer.report(4321)
        assert await peer.next_frame() == (4321, LOG[4321 : 2 * SEGMENT])


@pytest.mark.checklist(6)
async def test_heartbeats_at_the_next_offset_when_idle(autojump_clock: object) -> None:
    async with node("n0", cluster()) as kit:
        await kit.append(LOG[:100])
        peer = await kit.connect("n1")
        await peer.report(100)
        for _ in range(3):
            before_s = trio.current_time()
            assert await peer.next_frame() == (100, b"")
            assert trio.current_time() - before_s == pytest.approx(5.0, abs=0.1)
            await peer.report(100)
        for end in range(101, 121):  # data every 2.5 s: no heartbeat between
            await trio.sleep(2.5)
            await kit.append(LOG[end - 1 : end])
            assert await peer.next_frame() == (end - 1, LOG[end - 1 : end])
            await peer.report(end)


@pytest.mark.checklist(7)
async def test_reports_split_and_coalesced(autojump_clock: object) -> None:
    async with node("n0", cluster()) as kit:
        await kit.append(LOG)
        peer = await kit.connect("n1")
        await peer.report(0, 300)  # one write: the last one counts
        assert (await peer.next_frame())[0] == 300
        for byte in (400).to_bytes(8) + (500).to_bytes(8):
            await peer.send.send_all(bytes((byte,)))
            await trio.sleep(0.01)

        async def acked() -> bool:
            return (await kit.status()).slaves[0].ack_bytes == 500

        await until(acked)


@pytest.mark.checklist(8)
@pytest.mark.parametrize("report", [-5, len(LOG) + 1, int.from_bytes(b"GET / HT")])
@pytest.mark.parametrize("first", [True, False])
async def test_impossible_reports_close_and_acknowledge_nothing(
    autojump_clock: object, report: int, first: bool
) -> None:
    async with node("n0", cluster()) as kit:
        await kit.append(LOG)
        peer = await kit.connect("n1")
        if not first:
            await peer.report(200)
            await peer.body(1)
        await peer.report(report)
        assert await peer.ended()
        await until(lambda: bool(kit.of(events.HAConnectionClosed)))
        status = (await kit.status()).slaves[0]
        assert status.state == HAConnectionState.SHUTDOWN
        assert "reported" in status.last_error
        acked = [event.offset_bytes for event in kit.of(events.SlaveAcked)]
        assert acked == ([] if first else [200])
        await until(lambda: kit.shown == ([] if first else [200]))


@pytest.mark.checklist(9)
async def test_a_slave_that_needs_deleted_bytes_is_refused_visibly(
    autojump_clock: object,
) -> None:
    async with node("n0", cluster()) as kit:
        await kit.append(LOG, min_bytes=SEGMENT)
        peer = await kit.connect("n1")
        await peer.report(SEGMENT - 1)
        assert await peer.ended()
        await until(lambda: bool(kit.of(events.HAConnectionClosed)))
        last_error = (await kit.status()).slaves[0].last_error
        assert last_error.startswith(Lost.REPORT_BELOW_MIN.value)
        assert str(SEGMENT - 1) in last_error
        assert [event.reason for event in kit.of(events.HAReportRefused)] == [
            Lost.REPORT_BELOW_MIN.value
        ]


@pytest.mark.checklist(13)
async def test_an_append_wakes_an_idle_writer_at_once(autojump_clock: object) -> None:
    async with node("n0", cluster()) as kit:
        peer = await kit.connect("n1")
        await peer.report(0)
        for number in range(20):
            await trio.sleep(1.0)
            before_s = trio.current_time()
            await kit.append(b"x")
            assert await peer.next_frame() == (number, b"x")
            assert trio.current_time() - before_s < 0.05
            await peer.report(number + 1)


async def test_synced_groups_send_only_synced_bytes(autojump_clock: object) -> None:
    async with node("n0", cluster()) as kit:
        await kit.append(LOG[:100])
        peer = await kit.connect("n1")
        await peer.report(0)
        assert await peer.next_frame() == (0, LOG[:100])
        await kit.append(LOG[100:200], synced=False)
        await silence(peer, 3.0)
        await kit.became(synced_bytes=150)
        assert await peer.next_frame() == (100, LOG[100:150])


@pytest.mark.parametrize(("durability", "woken"), [("synced", False), ("written", True)])
async def test_growth_that_lets_nothing_leave_wakes_no_writer(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, durability: str, woken: bool
) -> None:
    """In a synced group each append is published when it is written and when it is synced."""
    seen: list[object] = []
    handle_batch = WriteSocket.handle_batch

    async def seeing(self: WriteSocket, messages: list[Any]) -> None:
        seen.extend(message for message in messages if isinstance(message, store_messages.LogGrew))
        await handle_batch(self, messages)

    monkeypatch.setattr(WriteSocket, "handle_batch", seeing)
    async with node("n0", cluster(f'durability = "{durability}"')) as kit:
        peer = await kit.connect("n1")
        await peer.report(0)
        await trio.sleep(1.0)
        seen.clear()
        await kit.append(LOG[:100], synced=False)
        await trio.sleep(1.0)
        assert bool(seen) == woken
        await kit.became(synced_bytes=100)
        assert await peer.next_frame() == (0, LOG[:100])


async def test_written_groups_send_at_once(autojump_clock: object) -> None:
    async with node("n0", cluster('durability = "written"')) as kit:
        peer = await kit.connect("n1")
        await peer.report(0)
        await kit.append(LOG[:100], synced=False)
        assert await peer.next_frame() == (0, LOG[:100])


async def test_a_long_turn_looks_at_its_mailbox(autojump_clock: object) -> None:
    """A deletion is seen although the writer never runs out of bytes to send."""
    mib = 1 << 20
    config = cluster(f"segment_bytes = {mib}", drop=f"segment_bytes = {SEGMENT}")
    async with node("n0", config) as kit:
        await kit.append(bytes(6 * mib))
        peer = await kit.connect("n1")
        await peer.report(0)
        received = len((await peer.next_frame())[1])
        await kit.became(min_bytes=5 * mib)
        with pytest.raises((AssertionError, trio.BrokenResourceError)):
            while True:
                received += len((await peer.next_frame())[1])
        assert received < 4 * mib


@pytest.mark.checklist(46)
async def test_a_slave_whose_file_was_deleted_ends_cleanly(autojump_clock: object) -> None:
    async with node("n0", cluster("max_ha_transfer_bytes_per_s = 1000")) as kit:
        await kit.append(LOG)
        peer = await kit.connect("n1")
        await peer.report(0)
        await peer.next_frame()
        await kit.became(min_bytes=2 * SEGMENT)  # while the writer waits for its next second
        assert await peer.ended()
        await until(lambda: bool(kit.of(events.HAConnectionClosed)))
        assert kit.of(events.HAConnectionClosed)[0].reason.startswith(Lost.EXPIRED.value)


async def test_a_file_that_vanished_ends_cleanly(autojump_clock: object) -> None:
    """Deleted between the store's news and the open."""
    async with node("n0", cluster()) as kit:
        await kit.append(LOG)
        kit.disk.unlink(f"{kit.setup.layout.commit_log}/{0:020d}")
        peer = await kit.connect("n1")
        await peer.report(0)
        assert await peer.ended()
        await until(lambda: bool(kit.of(events.HAConnectionClosed)))
        assert kit.of(events.HAConnectionClosed)[0].reason.startswith(Lost.EXPIRED.value)


@pytest.mark.checklist(46)
async def test_an_idle_connection_lets_go_of_files_that_expired(autojump_clock: object) -> None:
    """An open handle keeps a deleted file's room taken, so that cleaning would free nothing."""
    async with node("n0", cluster()) as kit:
        await kit.append(LOG)
        peer = await kit.connect("n1")
        await peer.report(0)
        received = 0
        while received < len(LOG):
            received += len((await peer.next_frame())[1])
        await peer.report(len(LOG))
        folder = kit.setup.layout.commit_log
        assert kit.disk.readers() == [f"{folder}/{n * SEGMENT:020d}" for n in range(3)]
        await kit.became(min_bytes=2 * SEGMENT)
        await until(lambda: kit.disk.readers() == [f"{folder}/{2 * SEGMENT:020d}"])


async def test_a_report_that_waits_is_judged_by_the_growth_before_it(
    autojump_clock: object,
) -> None:
    """The log grows on meanwhile: the newer news must not take the older's place before it."""
    async with node("n0", cluster('durability = "written"')) as kit:
        peer = await kit.connect("n1")
        await peer.report(0)
        await trio.sleep(1.0)
        await kit.append(LOG[:100])
        assert await peer.next_frame() == (0, LOG[:100])
        path = f"{kit.setup.paths.connections}/n1-1/read_socket"
        reports = kit.system.ref(path)
        reports.offer(read_socket._Received(data=(100).to_bytes(8, "big")))
        reports.defer(store_messages.LogGrew(min_bytes=0, written_bytes=100, synced_bytes=100))
        await trio.sleep(1.0)
        acked = [event.offset_bytes for event in kit.of(events.SlaveAcked)]
        assert acked == [0, 100]
