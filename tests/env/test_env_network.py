"""The network contract on real sockets, and what only real sockets show."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import threading
from pathlib import Path

import network_cases
import network_contract
import pytest
import trio

from actors.env import HostUnknown
from actors.env.local_disk import LocalDisk
from actors.env.tcp import TcpNetwork

pytestmark = pytest.mark.real_io


def real_kit(folder: Path) -> network_contract.Kit:
    return network_contract.Kit(
        network=TcpNetwork(),
        disk=LocalDisk(),
        host="127.0.0.1",
        other_host="127.0.0.7",
        folder=str(folder),
    )


@pytest.mark.parametrize("case", network_cases.CASES, ids=lambda case: case.__name__)
async def test_real_network_keeps_the_contract(case: network_contract.Case, tmp_path: Path) -> None:
    with trio.fail_after(60):
        await case(real_kit(tmp_path))


async def test_connections_have_nodelay(tmp_path: Path) -> None:
    listener, client, server = await network_contract.pair(real_kit(tmp_path))
    for stream in (client, server):
        option = stream.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert option == 1
    await network_contract.end(listener, client, server)


async def test_every_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    network = TcpNetwork()
    listener = await network.listen("127.0.0.1", 0)
    port = listener.address.port

    def two_addresses(host: str, *_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, 0, 0, "", (address, port)) for address in ("127.0.0.9", host)]

    monkeypatch.setattr("socket.getaddrinfo", two_addresses)
    client = await network.connect("127.0.0.1", port)
    assert client.remote == listener.address
    await network_contract.end(listener, client)


async def test_an_address_that_does_not_answer_keeps_nobody_from_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its machine is off, and its name has a second one."""
    network = TcpNetwork()
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(socket.socket())
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        for _ in range(3):  # there is no more room in its backlog
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(silent.getsockname())
        listener = await network.listen("127.0.0.1", 0)
        found = [silent.getsockname(), (listener.address.host, listener.address.port)]

        def two_addresses(*_: object, **__: object) -> list[object]:
            return [(socket.AF_INET, 0, 0, "", address) for address in found]

        monkeypatch.setattr("socket.getaddrinfo", two_addresses)
        with trio.fail_after(30):
            client = await network.connect("127.0.0.1", 1)
        assert client.remote == listener.address
        await network_contract.end(listener, client)


async def test_a_name_is_resolved_at_each_connect_and_for_the_own_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also one with `_`, as container names have it."""
    network, now, asked = TcpNetwork(), ["127.0.0.7"], []
    real = socket.getaddrinfo

    def resolver(host: str, port: int, family: int, *rest: int, **more: int) -> list[object]:
        if host != "rocketmq_namesrv" or more:
            return [*real(host, port, family, *rest, **more)]
        asked.append(family)
        return [(socket.AF_INET, 0, 0, "", (address, port)) for address in now]

    monkeypatch.setattr("socket.getaddrinfo", resolver)
    for address in ("127.0.0.7", "127.0.0.8"):
        now[:] = [address]
        listener = await network.listen(address, 0)
        port = listener.address.port
        client = await network.connect("rocketmq_namesrv", port, local_host="127.0.0.3")
        assert (client.remote, client.local.host) == (listener.address, "127.0.0.3")
        await network_contract.end(listener, client)
    assert asked == [socket.AF_INET] * 2, "none that cannot be reached from the own address"


@pytest.mark.parametrize("name", ["no-such.invalid", "a" * 70, "0.0.0.0.0"])
async def test_a_name_that_cannot_be_resolved_is_one_line(name: str) -> None:
    with trio.fail_after(60), pytest.raises(HostUnknown) as caught:
        await TcpNetwork().connect(name, 1)
    assert str(caught.value).startswith(f"host name {name} cannot be resolved (")
    assert "\n" not in str(caught.value)


async def test_lookups_without_an_answer_take_no_other_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that synced files need, for example."""
    answered = threading.Event()
    real = socket.getaddrinfo

    def hangs(host: str, *rest: int, **more: int) -> list[object]:
        if not more:
            answered.wait(60)
        return [*real(host, *rest, **more)]

    monkeypatch.setattr("socket.getaddrinfo", hangs)
    for _ in range(50):
        with trio.move_on_after(0.001):
            await TcpNetwork().connect("no-such.invalid", 1)
    free = trio.to_thread.current_default_thread_limiter().available_tokens
    answered.set()
    assert free == trio.to_thread.current_default_thread_limiter().total_tokens


@pytest.mark.parametrize("local_host", [None, "::1", "127.0.0.3"])
async def test_ipv6(local_host: str | None) -> None:
    """Also from a host whose own address is IPv4, and cannot be the one to connect from."""
    network = TcpNetwork()
    listener = await network.listen("::1", 0)
    client = await network.connect("::1", listener.address.port, local_host=local_host)
    server = await listener.accept()
    assert server.remote.host == "::1"
    assert str(listener.address) == f"[::1]:{listener.address.port}"
    await network_contract.end(listener, client, server)


async def test_an_unknown_name_is_an_os_error() -> None:
    network = TcpNetwork()
    with pytest.raises(OSError, match="no-such-host"):
        await network.connect("no-such-host.invalid", 1)
    with pytest.raises(OSError, match="no-such-host"):
        await network.listen("no-such-host.invalid", 1)


async def test_a_free_port_does_not_connect_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends on one port: Linux answers such a connect with a connection to oneself."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with trio.socket.socket() as sample:
        kind = type(sample)
    connect = kind.connect

    async def connect_from_target(self: trio.socket.SocketType, address: object) -> None:
        await self.bind(("127.0.0.1", port))
        await connect(self, address)

    monkeypatch.setattr(kind, "connect", connect_from_target)
    with pytest.raises(ConnectionRefusedError):
        await TcpNetwork().connect("127.0.0.1", port)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ECONNABORTED])
async def test_accept_outlives_passing_errors(
    code: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    network = TcpNetwork()
    listener = await network.listen("127.0.0.1", 0)
    kind = type(listener._socket)
    accept = kind.accept
    failures = [code, code]

    async def failing(self: trio.socket.SocketType) -> object:
        if failures:
            await trio.lowlevel.checkpoint()
            raise OSError(failures.pop(), "planted")
        return await accept(self)

    monkeypatch.setattr(kind, "accept", failing)
    client = await network.connect("127.0.0.1", listener.address.port)
    with caplog.at_level(logging.WARNING, "triolog.env.tcp"), trio.fail_after(30):
        server = await listener.accept()
    assert failures == []
    assert len(caplog.records) == (2 if code == errno.EMFILE else 0)
    await network_contract.end(listener, client, server)


async def test_accept_raises_what_will_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = await TcpNetwork().listen("127.0.0.1", 0)

    async def failing(_self: object) -> object:
        await trio.lowlevel.checkpoint()
        raise OSError(errno.EOPNOTSUPP, "planted")

    monkeypatch.setattr(type(listener._socket), "accept", failing)
    with pytest.raises(OSError, match="planted"):
        await listener.accept()
    await listener.aclose()


async def test_accept_skips_a_connection_that_is_dead_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = TcpNetwork()
    listener = await network.listen("127.0.0.1", 0)
    first = await network.connect("127.0.0.1", listener.address.port)
    second = await network.connect("127.0.0.1", listener.address.port)
    kind = type(listener._socket)
    setsockopt = kind.setsockopt
    dead = [True]

    def failing(self: trio.socket.SocketType, *arguments: int) -> None:
        if dead:
            dead.pop()
            raise OSError(errno.EINVAL, "planted")
        setsockopt(self, *arguments)

    monkeypatch.setattr(kind, "setsockopt", failing)
    server = await listener.accept()
    assert server.remote == second.local
    await network_contract.end(listener, first, second, server)


def exists(path: str) -> bool:
    return os.path.exists(path)


async def test_a_cancelled_connect_leaves_no_socket() -> None:
    network = TcpNetwork()
    before = len(os.listdir("/proc/self/fd"))
    with trio.CancelScope() as scope:
        scope.cancel()
        await network.connect("127.0.0.1", 9, local_host="127.0.0.1")
    assert scope.cancelled_caught
    assert len(os.listdir("/proc/self/fd")) == before


async def test_only_local_files_are_sent(tmp_path: Path) -> None:
    listener, client, server = await network_contract.pair(real_kit(tmp_path))
    _, send = client.halves()
    with pytest.raises(TypeError, match="local files"):
        await send.send_file(object(), 0, 1)  # type: ignore[arg-type]
    await send.send_all(b"nothing was begun")
    await network_contract.end(listener, client, server)


async def test_a_large_file_waits_for_its_reader(tmp_path: Path) -> None:
    listener, client, server = await network_contract.pair(real_kit(tmp_path))
    size = 64 << 20  # more than socket buffers hold
    file = LocalDisk().open(str(tmp_path / "big"), "x")
    file.resize(size)
    file.pwrite(b"end", size - 3)
    _, send = client.halves()
    receive, _ = server.halves()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send.send_file, file, 0, size)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(nursery.child_tasks) == 1
        got, last = 0, b""
        while got < size:
            part = await receive.receive_some(1 << 20)
            got += len(part)
            last = (last + part)[-3:]
        assert last == b"end"
    file.close()
    await network_contract.end(listener, client, server)


async def test_a_reset_in_the_middle_of_a_file_breaks_the_stream(tmp_path: Path) -> None:
    listener, client, server = await network_contract.pair(real_kit(tmp_path))
    file = LocalDisk().open(str(tmp_path / "big"), "x")
    file.resize(64 << 20)
    _, send = client.halves()

    async def send_file() -> None:
        with pytest.raises(trio.BrokenResourceError):
            await send.send_file(file, 0, 64 << 20)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_file)
        receive, _ = server.halves()
        await receive.receive_some(100_000)
        server.abort()
    file.close()
    await network_contract.end(listener, client)


async def test_small_reads_wait_first_and_miss_nothing() -> None:
    """Also the end of the stream, a close by another task, and a wake-up for nothing."""
    network = TcpNetwork()
    listener = await network.listen("127.0.0.1", 0)
    client = await network.connect("127.0.0.1", listener.address.port)
    server = await listener.accept()
    (receive, _), (_, send) = server.halves(), client.halves()
    for data in (b"one", b"two", bytes(10_000), b"three"):
        await send.send_all(data)
        got = b""
        while len(got) < len(data):
            got += await receive.receive_some(65536)
        assert got == data
    async with trio.open_nursery() as nursery:

        async def closed() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await receive.receive_some(100)

        nursery.start_soon(closed)
        await trio.testing.wait_all_tasks_blocked()
        await receive.aclose()
    server.abort()
    with pytest.raises(trio.BrokenResourceError):
        while True:
            send.send_now(b"x")
            await trio.sleep(0.01)
    client.abort()
    with pytest.raises(trio.ClosedResourceError):
        send.send_now(b"x")
    await listener.aclose()


async def test_a_small_read_that_was_woken_for_nothing_waits_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = TcpNetwork()
    listener = await network.listen("127.0.0.1", 0)
    client = await network.connect("127.0.0.1", listener.address.port)
    server = await listener.accept()
    (receive, _), (_, send) = server.halves(), client.halves()
    await send.send_all(b"one")
    assert await receive.receive_some(100) == b"one"

    async def at_once(_socket: object) -> None:
        await trio.lowlevel.checkpoint()
        monkeypatch.undo()

    monkeypatch.setattr("trio.lowlevel.wait_readable", at_once)
    async with trio.open_nursery() as nursery:

        async def read() -> None:
            assert await receive.receive_some(100) == b"two"

        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        await send.send_all(b"two")
    client.abort()
    server.abort()
    await listener.aclose()
