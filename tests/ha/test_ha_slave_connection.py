"""A slave's client as its master sees it: connect, reports, frames, refusals, silence."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from ha_kit import ADDRESSES, PORT, SEGMENT, Kit, cluster, node, until
from ha_peer import Peer

from actors.config import ClusterConfig
from actors.env import Address, Listener
from actors.events import ha as events
from actors.ha import client_messages, ha_client
from actors.ha.core.states import HAConnectionState, Lost
from actors.storage.commitlog.store_messages import LogGrew
from wire.ha.classic import FRAME_BODY_MAX, encode_frame_header

LOG = bytes(range(250)) * 40
SYNCED = cluster()
WRITTEN = cluster('durability = "written"')


@attrs.frozen
class Master:
    """The test's master: its listener."""

    kit: Kit
    listener: Listener

    async def accept(self, within_s: float = 30.0) -> Peer:
        with trio.fail_after(within_s):
            return Peer.of(await self.listener.accept())


@asynccontextmanager
async def slave_of_test(config: ClusterConfig, holding: bytes = b"") -> AsyncIterator[Master]:
    """n1 with its client; the master is the test."""
    async with node("n1", config, holding=holding) as kit:
        listener = await kit.network.open("n0").listen(ADDRESSES["n0"], PORT)
        yield Master(kit, listener)
        await listener.aclose()


async def nothing_from(peer: Peer, seconds: float) -> None:
    with trio.move_on_after(seconds) as scope:
        data = await peer.receive.receive_some(1)
        raise AssertionError(f"{data!r} came")
    assert scope.cancelled_caught


@pytest.mark.checklist(14)
async def test_connects_from_its_own_address_and_retries_for_ever(
    autojump_clock: object,
) -> None:
    async with node("n1", SYNCED) as kit:
        await trio.sleep(12.0)  # after 0.2, 0.4, 0.8, 1.6, 3.2, 5 s
        lost = kit.of(events.MasterLost)
        assert [event.session for event in lost] == [1, 2, 3, 4, 5, 6, 7]
        assert {event.reason for event in lost} == {Lost.CONNECT_FAILED.value}
        assert lost[0].detail.count("127.0.0.1") == 1, lost[0].detail
        listener = await kit.network.open("n0").listen(ADDRESSES["n0"], PORT)
        stream = await listener.accept()
        assert 16.0 < trio.current_time() < 17.0
        assert stream.remote.host == ADDRESSES["n1"]


@pytest.mark.checklist(14)
async def test_a_connect_is_given_up_after_5_s(autojump_clock: object) -> None:
    async with node("n1", SYNCED, before=lambda net: net.cut("n1", "n0")) as kit:
        await trio.sleep(5.5)
        lost = kit.of(events.MasterLost)
        assert [event.reason for event in lost] == [Lost.CONNECT_FAILED.value]
        assert "5.0 s" in lost[0].detail


@pytest.mark.checklist(15)
@pytest.mark.parametrize("holding", [b"", LOG[:1234]])
async def test_the_first_report_comes_at_once_and_is_the_end_of_the_log(
    autojump_clock: object, holding: bytes
) -> None:
    async with slave_of_test(SYNCED, holding) as master:
        peer = await master.accept()
        with trio.fail_after(1.0):
            assert await peer.next_report() == len(holding)


@pytest.mark.checklist(15)
async def test_a_synced_slave_reports_first_when_a_sync_has_ended(
    autojump_clock: object,
) -> None:
    async with slave_of_test(SYNCED, LOG[:500]) as master:
        await master.kit.became(synced_bytes=200)
        peer = await master.accept()
        await nothing_from(peer, 3.0)
        await master.kit.became(synced_bytes=500)
        with trio.fail_after(1.0):
            assert await peer.next_report() == 500


@pytest.mark.checklist(16)
async def test_a_wrong_offset_appends_nothing_closes_and_is_counted(
    autojump_clock: object,
) -> None:
    async with slave_of_test(SYNCED, LOG[:100]) as master:
        peer = await master.accept()
        await peer.next_report()
        await peer.frame(101, b"wrong")
        assert await peer.ended()
        status = (await master.kit.status()).client
        assert status is not None
        assert (status.mismatches_count, status.diverged) == (1, False)
        assert status.state == HAConnectionState.READY
        assert "expected 100, got 101" in status.last_error
        assert bytes(master.kit.log) == LOG[:100]
        assert master.kit.of(events.OffsetMismatched) == [
            events.OffsetMismatched(session=1, expected_bytes=100, got_bytes=101, consecutive=1)
        ]


async def test_repeated_wrong_offsets_are_called_diverged_and_slow_down(
    autojump_clock: object,
) -> None:
    async with slave_of_test(SYNCED, LOG[:100]) as master:
        times = []
        for _ in range(5):
            peer = await master.accept()
            times.append(trio.current_time())
            await peer.next_report()
            await peer.frame(0, b"another log")
            assert await peer.ended()
        pauses = [round(b - a) for a, b in itertools.pairwise(times)]
        assert pauses == [5, 5, 10, 20]
        assert master.kit.of(events.SlaveDiverged) == [
            events.SlaveDiverged(session=3, mismatches=3)
        ]
        status = (await master.kit.status()).client
        assert status is not None
        assert status.diverged
        peer = await master.accept(60.0)
        await peer.next_report()
        await peer.frame(100, LOG[100:150])
        assert await peer.next_report() == 150
        status = (await master.kit.status()).client
        assert status is not None
        assert not status.diverged


@pytest.mark.checklist(17)
async def test_an_empty_log_begins_at_a_file_start_only(autojump_clock: object) -> None:
    async with slave_of_test(SYNCED) as master:
        peer = await master.accept()
        assert await peer.next_report() == 0
        await peer.frame(SEGMENT + 1, b"x")
        assert await peer.ended()
        assert master.kit.of(events.MasterLost)[0].reason == Lost.UNALIGNED.value
        assert not master.kit.log
        peer = await master.accept()
        await peer.next_report()
        await peer.frame(SEGMENT, b"abc")
        assert await peer.next_report() == SEGMENT + 3
        assert (master.kit.base_bytes, bytes(master.kit.log)) == (SEGMENT, b"abc")


@pytest.mark.checklist(18)
async def test_frames_cut_anywhere_are_applied_once(autojump_clock: object) -> None:
    async with slave_of_test(WRITTEN) as master:
        peer = await master.accept()
        await peer.next_report()
        stream = b"".join(
            encode_frame_header(at, min(70, 700 - at)) + LOG[at : at + 70]
            for at in range(0, 700, 70)
        )
        for byte in stream[:400]:  # one by one
            await peer.send.send_all(bytes((byte,)))
        await peer.send.send_all(stream[400:])  # and many frames in one write
        while await peer.next_report() != 700:
            pass
        assert bytes(master.kit.log) == LOG[:700]


@pytest.mark.checklist(19)
@pytest.mark.parametrize("size", [-1, FRAME_BODY_MAX + 1, -(2**31), 2**31 - 1])
async def test_impossible_sizes_close(autojump_clock: object, size: int) -> None:
    async with slave_of_test(SYNCED, LOG[:100]) as master:
        peer = await master.accept()
        await peer.next_report()
        await peer.send.send_all((100).to_bytes(8) + size.to_bytes(4, signed=True) + b"x" * 50)
        assert await peer.ended()
        assert master.kit.of(events.MasterLost)[0].reason == Lost.BAD_FRAME.value
        assert bytes(master.kit.log) == LOG[:100]


@pytest.mark.checklist(19, 30)
async def test_the_largest_frame_is_taken(autojump_clock: object) -> None:
    config = cluster("segment_bytes = 8388608", drop="segment_bytes = 4096")
    async with slave_of_test(config) as master:
        peer = await master.accept()
        await peer.next_report()
        body = bytes(FRAME_BODY_MAX)
        await peer.frame(0, body)
        while (report := await peer.next_report()) < len(body):
            pass
        assert report == len(body)


@pytest.mark.checklist(20)
async def test_written_reports_every_frame_s_end_and_no_heartbeat(
    autojump_clock: object,
) -> None:
    async with slave_of_test(WRITTEN) as master:
        master.kit.sync_hangs = True
        peer = await master.accept()
        assert await peer.next_report() == 0
        end = 0
        for size in (10, 1, 300):
            await peer.frame(end, LOG[end : end + size])
            end += size
            assert await peer.next_report() == end
            await peer.frame(end)
            await nothing_from(peer, 0.5)


@pytest.mark.checklist(20, 21)
async def test_synced_reports_each_sync_and_repeats_while_one_hangs(
    autojump_clock: object,
) -> None:
    async with slave_of_test(SYNCED) as master:
        peer = await master.accept()
        assert await peer.next_report() == 0
        master.kit.sync_hangs = True
        await peer.frame(0, LOG[:300])
        for _ in range(3):
            before_s = trio.current_time()
            assert await peer.next_report() == 0
            assert trio.current_time() - before_s == pytest.approx(5.0, abs=0.1)
            await peer.frame(300)  # heartbeats change nothing
        await master.kit.became(synced_bytes=200)
        assert await peer.next_report() == 200
        await master.kit.became(synced_bytes=300)
        assert await peer.next_report() == 300


async def test_a_synced_slave_hears_of_its_log_once_it_is_synced(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[int, int]] = []
    real = ha_client.HAClient._grew

    async def grew(client: ha_client.HAClient, log: LogGrew) -> None:
        heard.append((log.written_bytes, log.synced_bytes))
        await real(client, log)

    monkeypatch.setattr(ha_client.HAClient, "_grew", grew)
    async with slave_of_test(SYNCED) as master:
        peer = await master.accept()
        assert await peer.next_report() == 0
        master.kit.sync_hangs = True
        await peer.frame(0, LOG[:300])
        await trio.sleep(1.0)
        assert heard == [(0, 0)]
        await master.kit.became(synced_bytes=300)
        assert await peer.next_report() == 300
        assert heard == [(0, 0), (300, 300)]


@pytest.mark.checklist(22)
async def test_a_silent_master_is_left_after_20_s(autojump_clock: object) -> None:
    async with slave_of_test(SYNCED) as master:
        peer = await master.accept()
        began_s = trio.current_time()
        await peer.next_report()
        assert await peer.ended()
        assert trio.current_time() - began_s == pytest.approx(20.0, abs=0.2)
        assert master.kit.of(events.MasterLost)[0].reason == Lost.SILENT.value
        again = await master.accept(1.0)
        assert await again.next_report() == 0


@pytest.mark.checklist(23)
async def test_another_address_closes_the_old_connection(autojump_clock: object) -> None:
    async with slave_of_test(SYNCED) as master:
        peer = await master.accept()
        await peer.next_report()
        other = await master.kit.network.open("n2").listen(ADDRESSES["n2"], 7777)
        client = master.kit.ref(master.kit.setup.paths.ha_client)
        await client.tell(
            client_messages.SetMaster(address=Address(ADDRESSES["n0"], PORT))
        )  # the same
        await nothing_from(peer, 1.0)
        await client.tell(client_messages.SetMaster(address=Address(ADDRESSES["n2"], 7777)))
        with trio.fail_after(1.0):
            assert await peer.ended()
            moved = Peer.of(await other.accept())
            assert await moved.next_report() == 0
        assert master.kit.of(events.MasterLost)[0].reason == Lost.MASTER_CHANGED.value


async def test_an_attempt_at_an_old_address_that_succeeds_late_is_dropped(
    autojump_clock: object,
) -> None:
    async with node("n1", SYNCED, before=lambda net: net.cut("n1", "n0")) as kit:
        old = await kit.network.open("n0").listen(ADDRESSES["n0"], PORT)
        new = await kit.network.open("n2").listen(ADDRESSES["n2"], 7777)
        await trio.sleep(0.5)
        client = kit.ref(kit.setup.paths.ha_client)
        await client.tell(client_messages.SetMaster(address=Address(ADDRESSES["n2"], 7777)))
        peer = Peer.of(await new.accept())
        assert await peer.next_report() == 0
        kit.network.heal("n1", "n0")
        late = Peer.of(await old.accept())
        assert await late.ended()
        assert late.got == b""
        await peer.frame(0, LOG[:10])
        assert await peer.next_report() == 10


async def test_another_address_ends_the_pause(autojump_clock: object) -> None:
    async with node("n1", SYNCED) as kit:
        await trio.sleep(1.0)  # the first attempt was refused
        other = await kit.network.open("n2").listen(ADDRESSES["n2"], 7777)
        client = kit.ref(kit.setup.paths.ha_client)
        await client.tell(client_messages.SetMaster(address=Address(ADDRESSES["n2"], 7777)))
        with trio.fail_after(0.5):
            await other.accept()


@pytest.mark.checklist(24)
async def test_a_failed_append_is_not_acknowledged_and_visible(autojump_clock: object) -> None:
    async with slave_of_test(SYNCED) as master:
        peer = await master.accept()
        await peer.next_report()
        master.kit.refusing = True
        await peer.frame(0, LOG[:10])
        assert await peer.ended()
        assert peer.got == b""
        status = (await master.kit.status()).client
        assert status is not None
        assert status.last_error == f"{Lost.APPEND_FAILED.value}: no space left on device"
        master.kit.refusing = False
        again = await master.accept()
        assert await again.next_report() == 0


async def test_a_lost_master_is_tried_again_soon(autojump_clock: object) -> None:
    async with slave_of_test(SYNCED) as master:
        peer = await master.accept()
        await peer.next_report()
        await peer.frame(0, LOG[:100])
        assert await peer.next_report() == 100
        await peer.send.send_all(encode_frame_header(100, 50) + LOG[100:120])  # half a frame
        peer.stream.abort()
        began_s = trio.current_time()
        again = await master.accept()
        assert trio.current_time() - began_s == pytest.approx(0.2, abs=0.1)
        assert await again.next_report() == master.kit.written_bytes


async def test_bytes_before_the_first_report_close(autojump_clock: object) -> None:
    async with slave_of_test(SYNCED, LOG[:500]) as master:
        master.kit.synced_bytes = 0
        master.kit.answers_range = False
        peer = await master.accept()
        await peer.frame(500)
        assert await peer.ended()
        assert master.kit.of(events.MasterLost)[0].reason == Lost.BAD_FRAME.value


async def test_a_store_that_does_not_answer_is_visible(autojump_clock: object) -> None:
    async with slave_of_test(SYNCED) as master:
        master.kit.answers_range = False
        peer = await master.accept()
        assert await peer.ended()
        lost = master.kit.of(events.MasterLost)[0]
        assert lost.reason == Lost.APPEND_FAILED.value
        assert "did not answer" in lost.detail


@pytest.mark.checklist(59)
async def test_the_status_of_the_slave_s_own_side(autojump_clock: object) -> None:
    async with slave_of_test(SYNCED) as master:
        status = await master.kit.status()
        assert status.role == "slave"
        peer = await master.accept()
        await peer.next_report()
        await peer.frame(0, LOG[:100])
        await peer.next_report()
        await trio.sleep(1.0)
        await peer.frame(100)
        await trio.sleep(0.1)
        status = await master.kit.status()
        client = status.client
        assert client is not None
        assert (client.master, client.state) == ("127.0.0.1:10912", HAConnectionState.TRANSFER)
        assert (client.reported_bytes, client.received_bytes) == (100, 124)
        assert client.bytes_per_s == 112
        assert client.last_read_s == pytest.approx(status.asked_s - 0.1, abs=0.05)
        assert client.last_write_s == pytest.approx(status.asked_s - 1.1, abs=0.05)
        assert (client.last_error, client.next_attempt_s) == ("", None)
        assert (status.written_bytes, status.synced_bytes) == (100, 100)


async def test_a_restarted_client_opens_a_new_session(autojump_clock: object) -> None:
    """A crash of the client restarts it alone, with a session that the store has not seen."""
    async with slave_of_test(SYNCED) as master:
        peer = await master.accept()
        await peer.next_report()
        await master.kit.crash(master.kit.setup.paths.ha_client)
        assert await peer.ended()
        again = await master.accept()
        assert await again.next_report() == 0
        assert master.kit.session == 2
        await until(lambda: [e.session for e in master.kit.of(events.MasterConnected)] == [1, 2])


@pytest.mark.checklist(61)
async def test_a_stop_closes_the_connection_and_says_so(autojump_clock: object) -> None:
    async with slave_of_test(SYNCED) as master:
        peer = await master.accept()
        with trio.fail_after(3.0):
            await master.kit.system.stop()
            assert await peer.ended()
