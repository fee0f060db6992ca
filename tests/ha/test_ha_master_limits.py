"""A master under peers that stall, probe, fall silent or are too many; and what its status says."""

from __future__ import annotations

import pytest
import trio
from ha_kit import ADDRESSES, SEGMENT, STRANGER, Kit, cluster, node, until

from actors.events import ha as events
from actors.ha.core.states import HAConnectionState, Lost
from actors.sim.network import NetworkOptions

LOG = bytes(n % 253 for n in range(3 * SEGMENT - 500))
PROBES = 2_000


@pytest.mark.checklist(10)
@pytest.mark.parametrize("reports", [0, 1])
async def test_silence_closes_within_21_s_and_frees_everything(
    autojump_clock: object, reports: int
) -> None:
    async with node("n0", cluster()) as kit:
        before = trio.lowlevel.current_statistics().tasks_living
        peer = await kit.connect("n1")
        for _ in range(reports):
            await peer.report(0)
        await trio.sleep(19.5)
        assert (await kit.status()).connections_count == 1
        await trio.sleep(1.4)
        assert (await kit.status()).connections_count == 0
        assert await peer.ended()
        peer.stream.abort()
        await trio.sleep(1.0)
        assert trio.lowlevel.current_statistics().tasks_living <= before
        assert sorted(kit.growth.paths) == [
            kit.setup.paths.connection_state,
            kit.setup.paths.group_transfer,
        ]
        assert kit.of(events.HAConnectionClosed) == [
            events.HAConnectionClosed(slave="n1", connection=1, reason=Lost.SILENT.value)
        ]


@pytest.mark.checklist(10)
async def test_a_stalled_slave_is_closed_too(autojump_clock: object) -> None:
    """It takes no bytes and reports nothing: the writer is stuck in its send."""
    options = NetworkOptions(fragment_share=0.0, window_bytes=1000)
    async with node("n0", cluster(), options=options) as kit:
        await kit.append(LOG)
        peer = await kit.connect("n1")
        await peer.report(0)
        await trio.sleep(20.9)
        assert (await kit.status()).connections_count == 0
        assert await peer.ended()


async def test_probes_leave_nothing_behind(autojump_clock: object) -> None:
    """10,000 real ones: `tests/service/test_service_hostile.py`."""
    async with node("n0", cluster()) as kit:
        await kit.append(LOG)
        slave = await kit.connect("n1")
        await slave.report(len(LOG))
        await until(lambda: kit.shown == [len(LOG)])
        before = trio.lowlevel.current_statistics().tasks_living
        children = len(connections_of(kit))
        for number in range(PROBES):
            host = "stranger" if number % 2 else "n2"
            try:
                peer = await kit.connect(host)
                if number % 3 == 0:
                    await peer.send.send_all(b"GET / HTTP/1.0\r\n\r\n"[: number % 19])
                peer.stream.abort()
            except (OSError, trio.BrokenResourceError):
                pass  # turned away already
        await trio.sleep(1.0)
        status = await kit.status()
        assert status.connections_count == 1
        assert len(connections_of(kit)) == children == 1
        assert trio.lowlevel.current_statistics().tasks_living == before
        assert status.refused_count == PROBES // 2
        assert status.slaves[0].ack_bytes == len(LOG)  # the real slave is still there
        assert len(kit.of(events.HAConnectionRefused)) < 40
        await kit.append(b"more")
        assert await slave.body(4) == b"more"


def connections_of(kit: Kit) -> tuple[object, ...]:
    found = kit.system.tree().find(kit.setup.paths.connections)
    assert found is not None
    return found.children


async def test_a_stranger_is_closed_and_counted(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with node("n0", cluster()) as kit:
        assert await kit.turned_away("stranger")
        [said] = refusals(caplog)
        assert said.startswith(f"n0: orders: refused {STRANGER} (1 so far): the cluster file names")
        assert said.endswith(
            "stands in its [nodes] and in the group's `slaves` (OPERATING.md, Another member)"
        )
        for _ in range(6):
            assert await kit.turned_away("stranger")
        assert [each.partition("(")[2][0] for each in refusals(caplog)] == ["1", "2", "4"]
        assert (await kit.status()).refused_count == 7
        assert (await kit.status()).refused_host == STRANGER
        refused = kit.of(events.HAConnectionRefused)[0]
        assert refused.address.startswith(STRANGER)
        assert (refused.reason, refused.count) == ("unknown address", 1)


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [record.getMessage() for record in caplog.records]
    return [each for each in said if ": refused " in each]


async def test_the_number_of_silent_connections_is_bounded(autojump_clock: object) -> None:
    async with node("n0", cluster()) as kit:
        peers = [await kit.connect("n1") for _ in range(18)]
        for _ in range(7):
            assert await kit.turned_away("n1")
        status = await kit.status()
        assert status.connections_count == 2 + 16
        assert status.full_count == 7
        for peer in peers:
            peer.stream.abort()
        await trio.sleep(1.0)
        assert (await kit.status()).connections_count == 0


@pytest.mark.checklist(12)
async def test_a_stalled_slave_slows_nobody(autojump_clock: object) -> None:
    options = NetworkOptions(fragment_share=0.0, window_bytes=2000)
    async with node("n0", cluster("copies = 1"), options=options) as kit:
        stalled = await kit.connect("n1")
        await stalled.report(0)  # and reads nothing
        quick = await kit.connect("n2")
        await quick.report(0)
        for position in range(0, len(LOG), 500):
            data = LOG[position : position + 500]
            with trio.fail_after(0.5):
                await kit.append(data)
                assert await quick.body(len(data)) == data
                await quick.report(position + len(data))
        await until(lambda: kit.shown[-1] == len(LOG))  # one copy: producers were never held up


@pytest.mark.checklist(60)
async def test_flow_control(autojump_clock: object) -> None:
    async with node("n0", cluster("max_ha_transfer_bytes_per_s = 1000")) as kit:
        await kit.append(LOG)
        peer = await kit.connect("n1")
        await peer.report(0)
        began_s, received, frames = trio.current_time(), 0, 0
        while received < 8000:
            _, data = await peer.next_frame()
            assert data
            received += 12 + len(data)
            frames += 1
            elapsed_s = trio.current_time() - began_s
            assert received <= 1000 * (elapsed_s + 1) + 12
            await peer.report(0)
        assert trio.current_time() - began_s == pytest.approx(7.0, abs=0.1)
        assert frames <= 20


@pytest.mark.checklist(59)
async def test_the_status_of_every_slave(autojump_clock: object) -> None:
    config = cluster(slaves='["n1", { node = "n2", kind = "java" }]')
    async with node("n0", config) as kit:
        await kit.append(LOG[:1000])
        peer = await kit.connect("n1")
        await peer.report(0)
        await peer.body(1000)
        await peer.report(400)
        await trio.sleep(0.5)
        status = await kit.status()
        first, second = status.slaves
        assert status.role == "master"
        assert (status.written_bytes, status.in_sync_count) == (1000, 1)
        assert first.address.startswith(ADDRESSES["n1"])
        assert (first.ack_bytes, first.lag_bytes, first.next_bytes) == (400, 600, 1000)
        assert (first.state, first.in_sync) == (HAConnectionState.TRANSFER, True)
        assert first.counts
        assert (second.kind, second.counts, second.state) == (
            "java",
            False,
            HAConnectionState.SHUTDOWN,
        )
        await trio.sleep(0.6)
        assert (await kit.status()).slaves[0].bytes_per_s == 1012
        peer.stream.abort()
        await until(lambda: bool(kit.of(events.HAConnectionClosed)))
        gone = (await kit.status()).slaves[0]
        assert gone.state == HAConnectionState.SHUTDOWN
        assert gone.last_error


async def test_a_crash_of_the_listener_leaves_the_connections_alone(
    autojump_clock: object,
) -> None:
    async with node("n0", cluster()) as kit:
        peer = await kit.connect("n1")
        await peer.report(0)
        await kit.append(b"one")
        assert await peer.body(3) == b"one"
        await kit.crash(f"{kit.setup.paths.base}/accept_socket")
        await until(lambda: len(kit.of(events.HAListening)) == 2)
        await kit.append(b"two")
        assert await peer.body(3) == b"two"
        other = await kit.connect("n2")
        await other.report(0)
        assert await other.body(6) == b"onetwo"
        opened = [event.connection for event in kit.of(events.HAConnectionOpened)]
        assert opened == [1, 2]  # numbers go on


async def test_a_crash_of_one_socket_ends_its_connection_alone(autojump_clock: object) -> None:
    async with node("n0", cluster()) as kit:
        peer = await kit.connect("n1")
        await peer.report(0)
        other = await kit.connect("n2")
        await other.report(0)
        await until(lambda: len(kit.of(events.HATransferStarted)) == 2)
        await kit.crash(f"{kit.setup.paths.connections}/n1-1/write_socket")
        assert await peer.ended()
        await until(lambda: bool(kit.of(events.HAConnectionClosed)))
        await kit.append(b"on")
        assert await other.body(2) == b"on"
        assert len(connections_of(kit)) == 1
