"""Making connections in the simulated network, its rates and its limits."""

from __future__ import annotations

import errno
import random

import pytest
import trio
from lan_kit import PORT, SERVER, lan

from actors.sim.disk import SimDisk
from actors.sim.network import NetworkOptions, SimNetwork
from actors.sim.network.network import LISTEN_BACKLOG


async def test_connecting_over_a_cut_hangs_until_the_callers_deadline_or_127_s(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        for source, target in [("client", "server"), ("server", "client")]:
            it.net.cut(source, target)
            with trio.move_on_after(5) as scope:
                await it.client.connect(SERVER, PORT)
            assert scope.cancelled_caught
            start_s = trio.current_time()
            with pytest.raises(OSError, match="timed out") as caught:
                await it.client.connect(SERVER, PORT)
            assert caught.value.errno == errno.ETIMEDOUT
            assert trio.current_time() - start_s == pytest.approx(127, abs=0.1)
            it.net.heal(source, target)
        assert it.net.counts["connect_timeout"] == 2
        it.net.cut("client", "server")
        start_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(it.client.connect, SERVER, PORT)
            await trio.sleep(2)
            it.net.heal("client", "server")
        assert trio.current_time() - start_s == pytest.approx(3, abs=0.1)  # the next retry


async def test_unknown_refusing_and_full_hosts(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as it:
        with pytest.raises(OSError, match="No route"):
            await it.client.connect("10.9.9.9", 1)
        it.net.refuse("server")
        with pytest.raises(ConnectionRefusedError):
            await it.client.connect(SERVER, PORT)
        it.net.allow("server")
        for _ in range(LISTEN_BACKLOG):
            await it.client.connect(SERVER, PORT)
        with trio.move_on_after(60) as scope:
            await it.client.connect(SERVER, PORT)
        assert scope.cancelled_caught
        await it.listener.aclose()


async def test_a_connect_cancelled_after_its_arrival_is_accepted_and_reset(
    autojump_clock: trio.abc.Clock,
) -> None:
    options = NetworkOptions(latency_min_s=1.0, latency_mean_s=1.0)
    async with lan(options) as it:
        with trio.move_on_after(1.5):
            await it.client.connect(SERVER, PORT)
        stream = await it.listener.accept()
        with pytest.raises(trio.BrokenResourceError):
            await stream.halves()[0].receive_some(1)


async def test_a_connection_reset_while_it_is_made_is_an_os_error(
    autojump_clock: trio.abc.Clock,
) -> None:
    options = NetworkOptions(latency_min_s=1.0, latency_mean_s=1.0)
    async with lan(options) as it:
        async with trio.open_nursery() as nursery:

            async def connect() -> None:
                with pytest.raises(ConnectionResetError, match=str(PORT)):
                    await it.client.connect(SERVER, PORT)

            nursery.start_soon(connect)
            await it.listener.accept()
            it.net.reset("client", "server")


async def test_a_clogged_link_delays_and_keeps_order(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as it:
        await it.send.send_all(b"1")
        it.net.clog("client", "server", 30.0)
        await it.send.send_all(b"2")
        assert await it.receive.receive_some(10) == b"1"
        start_s = trio.current_time()
        assert await it.receive.receive_some(10) == b"2"
        assert trio.current_time() - start_s == pytest.approx(30, abs=0.1)


async def test_bandwidth_bounds_the_rate(autojump_clock: trio.abc.Clock) -> None:
    async with lan(NetworkOptions(bandwidth_bytes_per_s=1000.0)) as it:
        start_s = trio.current_time()
        await it.send.send_all(b"x" * 10_000)
        got = 0
        while got < 10_000:
            got += len(await it.receive.receive_some(10_000))
        assert trio.current_time() - start_s == pytest.approx(10, abs=0.1)


@pytest.mark.parametrize("late", [False, True])
async def test_files_are_captured_when_sent_or_when_delivered(
    late: bool, autojump_clock: trio.abc.Clock
) -> None:
    disk = SimDisk(random.Random(1))
    file = disk.open("/f", "x")
    file.pwrite(b"old " * 10, 0)
    async with lan(NetworkOptions(late_send_file=late, fragment_share=0.0)) as it:
        await it.send.send_file(file, 0, 40)
        file.pwrite(b"new " * 5, 0)
        file.resize(20)
        expected = b"new " * 5 + bytes(20) if late else b"old " * 10
        assert await it.receive.receive_some(100) == expected
        with pytest.raises(TypeError, match="simulated files"):
            await it.send.send_file(object(), 0, 1)  # type: ignore[arg-type]


async def test_a_socket_file_outlives_its_process_but_nobody_answers(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        await it.server.listen_unix("/s")
        with pytest.raises(FileNotFoundError):
            await it.client.connect_unix("/s")  # another machine
        it.server.end()
        newer = it.net.open("server")
        with pytest.raises(ConnectionRefusedError):
            await newer.connect_unix("/s")
        listener = await newer.listen_unix("/s")
        for _ in range(LISTEN_BACKLOG):
            await newer.connect_unix("/s")
        with pytest.raises(BlockingIOError):
            await newer.connect_unix("/s")
        await listener.aclose()


async def test_ports_of_a_host_run_out(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as it:
        ports = set()
        for _ in range(65536 - 49152):
            ports.add((await it.server.listen(SERVER, 0)).address.port)
        assert len(ports) == 65536 - 49152
        with pytest.raises(OSError, match="in use"):
            await it.server.listen(SERVER, 0)


async def test_packets_need_a_running_network(autojump_clock: trio.abc.Clock) -> None:
    net = SimNetwork(random.Random(1))
    net.add_host("a", SERVER)
    process = net.open("a")
    await process.listen_unix("/s")
    stream = await process.connect_unix("/s")
    with pytest.raises(AssertionError, match="run"):
        await stream.trio_stream().send_all(b"x")
