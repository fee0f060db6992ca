"""Faults of the simulated network, each seen through what an application notices."""

from __future__ import annotations

import errno
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from actors.env import Listener, ReceiveHalf, SendHalf, Stream
from actors.sim.disk import SimDisk
from actors.sim.network import NetworkOptions, SimNetwork
from actors.sim.sockets import LISTEN_BACKLOG, HostNetwork

PORT = 100
SERVER = "10.0.0.1"


@attrs.frozen(kw_only=True)
class Lan:
    """Hosts "server" and "client" with one connection; the client sends, the server receives."""

    net: SimNetwork
    server: HostNetwork
    client: HostNetwork
    listener: Listener
    ends: tuple[Stream, Stream]  # client, server
    send: SendHalf
    receive: ReceiveHalf


@asynccontextmanager
async def lan(options: NetworkOptions | None = None) -> AsyncIterator[Lan]:
    net = SimNetwork(random.Random(1), options or NetworkOptions(fragment_share=0.0))
    net.add_host("server", SERVER)
    net.add_host("client", "10.0.0.2")
    async with trio.open_nursery() as nursery:
        await nursery.start(net.run)
        server, client = net.open("server"), net.open("client")
        listener = await server.listen(SERVER, PORT)
        near = await client.connect(SERVER, PORT)
        far = await listener.accept()
        yield Lan(
            net=net,
            server=server,
            client=client,
            listener=listener,
            ends=(near, far),
            send=near.halves()[1],
            receive=far.halves()[0],
        )
        nursery.cancel_scope.cancel()


async def silent(receive: ReceiveHalf, seconds: float) -> bool:
    with trio.move_on_after(seconds):
        await receive.receive_some(1)
        return False
    return True


async def test_a_cut_holds_bytes_back_until_it_is_healed(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        it.net.cut("client", "server")
        await it.send.send_all(b"held")
        assert await silent(it.receive, 60)
        _, back = it.ends[1].halves()
        await back.send_all(b"the other way works")
        assert await it.ends[0].halves()[0].receive_some(100) == b"the other way works"
        it.net.heal("client", "server")
        assert await it.receive.receive_some(100) == b"held"
        await it.send.send_all(b"and on")
        assert await it.receive.receive_some(100) == b"and on"


async def test_a_cut_way_back_fills_the_window(autojump_clock: trio.abc.Clock) -> None:
    async with lan(NetworkOptions(window_bytes=1000, fragment_share=0.0)) as it:
        it.net.cut("server", "client")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(it.send.send_all, b"x" * 2000)
            await trio.sleep(10)
            assert len(await it.receive.receive_some(5000)) == 1000
            assert await silent(it.receive, 60)
            it.net.heal("server", "client")
            assert len(await it.receive.receive_some(5000)) == 1000


async def test_unacknowledged_bytes_break_the_sender_after_a_quarter_of_an_hour(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        it.net.cut_both("client", "server")
        start_s = trio.current_time()
        await it.send.send_all(b"into the void")
        near_receive, _ = it.ends[0].halves()
        with pytest.raises(trio.BrokenResourceError, match="timed out"):
            await near_receive.receive_some(1)
        assert trio.current_time() - start_s == pytest.approx(924.6, abs=0.1)
        it.net.heal_all()
        assert await silent(it.receive, 60)  # the server knows nothing ...
        _, back = it.ends[1].halves()
        await back.send_all(b"x")  # ... until it says something
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await it.receive.receive_some(1)
        assert it.net.counts["retransmit_timeout"] == 1


async def test_what_a_closed_side_had_sent_before_a_cut_arrives_after_it(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        it.net.cut("client", "server")
        await it.send.send_all(b"my last")
        for half in it.ends[0].halves():
            await half.aclose()
        await trio.sleep(60)
        it.net.heal("client", "server")
        assert await it.receive.receive_some(100) == b"my last"
        assert await it.receive.receive_some(100) == b""


async def test_a_listener_that_is_closed_leaves_its_port_to_another_process(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        await it.listener.aclose()
        other = await it.net.open("server").listen(SERVER, PORT)
        it.server.end()
        await it.client.connect(SERVER, PORT)
        await other.accept()


async def test_an_idle_connection_outlives_any_cut(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as it:
        it.net.isolate("server")
        await trio.sleep(86_400)
        it.net.heal_both("client", "server")
        await it.send.send_all(b"still here")
        assert await it.receive.receive_some(100) == b"still here"


async def test_a_second_cut_starts_a_new_count_of_the_time_out(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        for _ in range(3):
            it.net.cut("client", "server")
            await it.send.send_all(b"x")
            await trio.sleep(900)
            it.net.heal("client", "server")
            assert await it.receive.receive_some(1) == b"x"


async def test_reset_breaks_both_sides_and_keeps_what_has_arrived(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        await it.send.send_all(b"arrived")
        await trio.sleep(1)
        await it.send.send_all(b"under way")
        assert it.net.reset("server", "client") == 1
        with pytest.raises(trio.BrokenResourceError):
            await it.send.send_all(b"x")
        assert await it.receive.receive_some(100) == b"arrived"
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await it.receive.receive_some(100)


async def test_a_reset_is_lost_in_a_cut(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as it:
        it.net.cut("client", "server")
        it.ends[0].abort()
        await trio.sleep(10)
        it.net.heal("client", "server")
        assert await silent(it.receive, 100)
        _, back = it.ends[1].halves()
        await back.send_all(b"anyone?")
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await it.receive.receive_some(1)


async def test_closing_with_unread_bytes_resets(autojump_clock: trio.abc.Clock) -> None:
    async with lan() as it:
        await it.send.send_all(b"unread")
        await trio.sleep(1)
        for half in it.ends[1].halves():
            await half.aclose()
        near_receive, _ = it.ends[0].halves()
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await near_receive.receive_some(1)


async def test_a_closed_receiving_half_still_fills_its_window(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan(NetworkOptions(window_bytes=1000)) as it:
        await it.receive.aclose()
        with trio.move_on_after(10) as scope:
            await it.send.send_all(b"x" * 2000)
        assert scope.cancelled_caught


async def test_a_powerless_machine_is_silent_and_its_successor_resets(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        it.net.power_off("server")
        near_receive, _ = it.ends[0].halves()
        assert await silent(near_receive, 100)
        await it.send.send_all(b"x")
        assert await silent(near_receive, 100)
        it.net.power_on("server")
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await near_receive.receive_some(1)
        with pytest.raises(OSError, match="Network is down"):
            await it.server.listen(SERVER, PORT)
        with pytest.raises(trio.ClosedResourceError):
            await it.listener.accept()
        again = await it.net.open("server").listen(SERVER, PORT)
        await it.client.connect(SERVER, PORT)
        await again.accept()
        assert it.net.counts == {"power_off": 1}


async def test_what_a_powerless_machine_had_not_got_through_is_lost(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        await it.send.send_all(b"on the wire")
        it.net.power_off("client")
        assert await it.receive.receive_some(100) == b"on the wire"
    async with lan() as it:
        it.net.cut("client", "server")
        await it.send.send_all(b"nobody repeats this")
        it.net.power_off("client")
        await trio.sleep(1)
        it.net.power_on("client")
        it.net.heal("client", "server")
        assert await silent(it.receive, 100)


async def test_a_killed_process_ends_its_connections_properly(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with lan() as it:
        await it.send.send_all(b"last words")
        waiting = await it.client.connect(SERVER, PORT)
        it.client.end()
        it.client.end()
        assert await it.receive.receive_some(100) == b"last words"
        assert await it.receive.receive_some(100) == b""
        with pytest.raises(trio.ClosedResourceError):
            await it.send.send_all(b"zombie")
        with pytest.raises(OSError, match="Network is down"):
            await it.client.connect(SERVER, PORT)
        with pytest.raises(OSError, match="Network is down"):
            await it.client.connect_unix("/x")
        waiting.abort()
        it.server.end()
        newer = it.net.open("client")
        with pytest.raises(ConnectionRefusedError):
            await newer.connect(SERVER, PORT)


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
