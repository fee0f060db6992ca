"""What every Network must do: cases that run on real sockets and on simulated ones."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio
import trio_websocket

from actors.env import Disk, Listener, Network, ReceiveHalf, Stream

PAYLOAD = bytes(range(256)) * 4096  # 1 MiB
FLOOD = bytes(32 << 20)  # more than any buffer on the way holds


@attrs.frozen(kw_only=True)
class Kit:
    """A network with two own addresses, and a disk with a folder."""

    network: Network
    disk: Disk
    host: str
    other_host: str
    folder: str


Case = Callable[[Kit], Awaitable[None]]
CASES: list[Case] = []


def case(function: Case) -> Case:
    CASES.append(function)
    return function


async def pair(kit: Kit) -> tuple[Listener, Stream, Stream]:
    """A listener and both ends of one connection to it: client, then server."""
    listener = await kit.network.listen(kit.host, 0)
    ends: list[Stream] = []

    async def connect() -> None:
        ends.append(await kit.network.connect(kit.host, listener.address.port))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect)
        server = await listener.accept()
    return listener, ends[0], server


async def read_all(stream: Stream) -> bytes:
    receive, _ = stream.halves()
    data = bytearray()
    while part := await receive.receive_some(65536):
        data += part
    return bytes(data)


async def read(receive: ReceiveHalf | trio.abc.ReceiveStream, size: int) -> bytes:
    """Exactly `size` bytes, however they are cut."""
    data = b""
    while len(data) < size:
        part = await receive.receive_some(size - len(data))
        assert part, data
        data += part
    return data


def end(listener: Listener, *streams: Stream) -> Awaitable[None]:
    for stream in streams:
        stream.abort()
    return listener.aclose()


@case
async def bytes_arrive_whole_and_in_order(kit: Kit) -> None:
    listener, client, server = await pair(kit)
    assert client.remote == server.local == listener.address
    assert client.local == server.remote
    got: list[bytes] = []

    async def read() -> None:
        got.append(await read_all(server))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        _, send = client.halves()
        await send.send_all(PAYLOAD)
        await send.send_all(b"")
        await send.send_all(memoryview(PAYLOAD)[:1000])
        await send.send_all(bytearray(b"end"))
        await send.aclose()
    assert got == [PAYLOAD + PAYLOAD[:1000] + b"end"]
    await end(listener, client, server)


@case
async def halves_end_on_their_own(kit: Kit) -> None:
    listener, client, server = await pair(kit)
    client_receive, client_send = client.halves()
    server_receive, server_send = server.halves()
    await client_send.aclose()
    await client_send.aclose()
    assert await server_receive.receive_some(10) == b""
    await server_send.send_all(b"still here")
    assert await read(client_receive, 4) == b"stil"
    assert await read(client_receive, 6) == b"l here"
    await server_send.aclose()
    assert await client_receive.receive_some(10) == b""
    with pytest.raises(trio.ClosedResourceError):
        await client_send.send_all(b"x")
    await client_receive.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await client_receive.receive_some(1)
    await server_receive.aclose()
    await listener.aclose()


@case
async def closing_a_half_wakes_whoever_waits_in_it_and_not_the_other(kit: Kit) -> None:
    listener, client, server = await pair(kit)
    receive, send = client.halves()

    async def wait_for_bytes() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await receive.receive_some(10)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for_bytes)
        await trio.testing.wait_all_tasks_blocked()
        await receive.aclose()
    await send.send_all(b"sending goes on")
    server_receive, server_send = server.halves()
    assert await read(server_receive, 15) == b"sending goes on"

    async def fill() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await server_send.send_all(FLOOD)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fill)
        await trio.sleep(0.1)
        await server_send.aclose()
    await end(listener, client, server)


@case
async def abort_breaks_the_peer_and_wakes_own_waiters(kit: Kit) -> None:
    listener, client, server = await pair(kit)
    receive, _ = client.halves()

    async def wait_for_bytes() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await receive.receive_some(10)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for_bytes)
        await trio.testing.wait_all_tasks_blocked()
        client.abort()
        client.abort()
    server_receive, server_send = server.halves()
    with pytest.raises(trio.BrokenResourceError):
        await server_receive.receive_some(10)
    with pytest.raises(trio.BrokenResourceError):
        await server_send.send_all(b"x")
    await server_receive.aclose()
    await server_send.aclose()
    await end(listener)


@case
async def the_peer_sees_the_address_that_was_chosen(kit: Kit) -> None:
    listener = await kit.network.listen(kit.host, 0)

    async def connect() -> None:
        stream = await kit.network.connect(
            kit.host, listener.address.port, local_host=kit.other_host
        )
        assert stream.local.host == kit.other_host
        stream.abort()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect)
        server = await listener.accept()
        assert server.remote.host == kit.other_host
    await end(listener, server)


@case
async def refused_connections_name_the_address(kit: Kit) -> None:
    listener = await kit.network.listen(kit.host, 0)
    port = listener.address.port
    await listener.aclose()
    await listener.aclose()
    with pytest.raises(ConnectionRefusedError) as refused:
        await kit.network.connect(kit.host, port)
    assert str(refused.value).count(str(port)) == 1, refused.value
    with pytest.raises(trio.ClosedResourceError):
        await listener.accept()


@case
async def bad_addresses_name_themselves(kit: Kit) -> None:
    listener = await kit.network.listen(kit.host, 0)
    port = listener.address.port
    with pytest.raises(OSError, match=str(port)) as caught:
        await kit.network.listen(kit.host, port)
    assert caught.value.errno == errno.EADDRINUSE
    with pytest.raises(OSError, match=r"192\.0\.2\.1") as caught:
        await kit.network.listen("192.0.2.1", port)
    assert caught.value.errno == errno.EADDRNOTAVAIL
    with pytest.raises(OSError, match=kit.host) as caught:
        await kit.network.connect(kit.host, port, local_host="192.0.2.1")
    assert caught.value.errno == errno.EADDRNOTAVAIL
    await listener.aclose()
    again = await kit.network.listen(kit.host, port)
    await again.aclose()


@case
async def a_cancelled_wait_loses_nothing(kit: Kit) -> None:
    listener, client, server = await pair(kit)
    receive, _ = server.halves()
    with trio.move_on_after(0.05):
        await receive.receive_some(10)
    with trio.move_on_after(0.05):
        await listener.accept()
    _, send = client.halves()
    await send.send_all(b"late")
    assert await read(receive, 4) == b"late"
    second = await kit.network.connect(kit.host, listener.address.port)
    accepted = await listener.accept()
    assert accepted.remote == second.local
    await end(listener, client, server, second, accepted)


@case
async def libraries_get_a_trio_stream(kit: Kit) -> None:
    listener, client, server = await pair(kit)
    client_stream, server_stream = client.trio_stream(), server.trio_stream()
    await client_stream.send_all(b"hello")
    await client_stream.wait_send_all_might_not_block()
    assert await read(server_stream, 5) == b"hello"
    await server_stream.send_all(b"to you")
    assert await read(client_stream, 2) == b"to"
    await client_stream.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await client_stream.send_all(b"x")
    server.abort()
    with pytest.raises(trio.ClosedResourceError):
        await server_stream.receive_some()
    await listener.aclose()


@case
async def websockets_run_over_it(kit: Kit) -> None:
    path = f"{kit.folder}/ws.sock"
    listener = await kit.network.listen_unix(path)

    async def serve(nursery: trio.Nursery) -> None:
        stream = await listener.accept()
        request = await trio_websocket.wrap_server_stream(nursery, stream.trio_stream())
        async with await request.accept() as connection:
            await connection.send_message(await connection.get_message() + b" back")
        stream.abort()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, nursery)
        stream = await kit.network.connect_unix(path)
        connection = await trio_websocket.wrap_client_stream(
            nursery, stream.trio_stream(), "localhost", "/"
        )
        async with connection:
            await connection.send_message(b"there and")
            assert await connection.get_message() == b"there and back"
        stream.abort()
    await listener.aclose()


@case
async def unix_sockets_are_streams_too(kit: Kit) -> None:
    path = f"{kit.folder}/api.sock"
    with pytest.raises(FileNotFoundError, match=path):
        await kit.network.connect_unix(path)
    listener = await kit.network.listen_unix(path)
    assert str(listener.address) == path
    with pytest.raises(OSError, match=path) as caught:
        await kit.network.listen_unix(path)
    assert caught.value.errno == errno.EADDRINUSE
    client = await kit.network.connect_unix(path)
    server = await listener.accept()
    _, send = client.halves()
    await send.send_all(b"over the file")
    await send.aclose()
    assert await read_all_accepted(listener, server) == b"over the file"
    await listener.aclose()
    with pytest.raises(FileNotFoundError):
        await kit.network.connect_unix(path)
    await end(listener, client, server)


async def read_all_accepted(listener: Listener, server: Stream) -> bytes:
    """Everything of the first connection that says anything: a probe of the path says nothing."""
    while not (data := await read_all(server)):
        server.abort()
        server = await listener.accept()
    server.abort()
    return data
