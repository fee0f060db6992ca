"""What every Network must do with what is sent: files, slow readers, ends in the middle."""

from __future__ import annotations

import pytest
import trio
from network_contract import FLOOD, PAYLOAD, Case, Kit, end, pair, read_all

CASES: list[Case] = []


def case(function: Case) -> Case:
    CASES.append(function)
    return function


@case
async def files_are_sent_from_any_offset(kit: Kit) -> None:
    listener, client, server = await pair(kit)
    file = kit.disk.open(f"{kit.folder}/data", "x")
    file.pwrite(PAYLOAD, 0)
    got: list[bytes] = []

    async def read() -> None:
        got.append(await read_all(server))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        _, send = client.halves()
        await send.send_all(b"head")
        await send.send_file(file, 1001, 600_000)
        await send.send_file(file, 5, 0)
        await send.send_all(b"tail")
        await send.aclose()
    assert got == [b"head" + PAYLOAD[1001:601_001] + b"tail"]
    file.close()
    await end(listener, client, server)


@case
async def a_file_that_ends_early_makes_the_stream_unusable(kit: Kit) -> None:
    listener, client, server = await pair(kit)
    file = kit.disk.open(f"{kit.folder}/short", "x")
    file.pwrite(b"x" * 100, 0)
    _, send = client.halves()
    with pytest.raises(OSError, match="ends before"):
        await send.send_file(file, 0, 101)
    with pytest.raises(trio.BrokenResourceError):
        await send.send_all(b"x")
    file.close()
    _, other_send = server.halves()
    with pytest.raises(OSError, match="Bad file descriptor"):
        await other_send.send_file(file, 0, 1)
    await end(listener, client, server)


@case
async def a_sender_waits_for_a_slow_reader(kit: Kit) -> None:
    listener, client, server = await pair(kit)
    _, send = client.halves()
    with trio.move_on_after(0.2) as scope:
        await send.send_all(FLOOD)
    assert scope.cancelled_caught
    with pytest.raises(trio.BrokenResourceError):
        await send.send_all(b"cancelled sends cannot be continued")
    receive, _ = server.halves()
    part = await receive.receive_some(1000)
    assert part == bytes(len(part)) != b""
    await end(listener, client, server)


@case
async def one_sender_at_a_time(kit: Kit) -> None:
    listener, client, server = await pair(kit)
    _, send = client.halves()
    with trio.move_on_after(5) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send.send_all, FLOOD)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError):
                await send.send_all(b"x")
            scope.cancel()
    await end(listener, client, server)


@case
async def sending_to_a_peer_that_closed_breaks(kit: Kit) -> None:
    listener, client, server = await pair(kit)
    for half in server.halves():
        await half.aclose()
    receive, send = client.halves()
    assert await receive.receive_some(10) == b""

    async def keep_sending() -> None:
        for _ in range(100):
            await send.send_all(b"x")
            await trio.sleep(0.01)

    with pytest.raises(trio.BrokenResourceError):
        await keep_sending()
    await end(listener, client)


@case
async def what_is_sent_now_comes_before_the_rest(kit: Kit) -> None:
    """Nothing waits, however much there is; a closed half refuses."""
    listener, client, server = await pair(kit)
    _, send = client.halves()
    receive, _ = server.halves()
    sent = send.send_now(PAYLOAD)
    assert 0 <= sent <= len(PAYLOAD)
    got = bytearray()

    async def read() -> None:
        while len(got) < len(PAYLOAD):
            got.extend(await receive.receive_some(1000))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await send.send_all(PAYLOAD[sent:])
    assert bytes(got) == PAYLOAD
    full = sum(iter(lambda: send.send_now(FLOOD), 0))
    assert full < len(FLOOD)
    await send.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await send.send_all(b"x")
    client.abort()
    server.abort()
    await listener.aclose()
