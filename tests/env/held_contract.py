"""What every network and disk must do with bytes that the system keeps."""

from __future__ import annotations

import pytest
import trio
from network_contract import PAYLOAD, Case, Kit, end, pair, read

CASES: list[Case] = []


def case(function: Case) -> Case:
    CASES.append(function)
    return function


@case
async def held_bytes_go_into_files_in_parts(kit: Kit) -> None:
    listener, client, server = await pair(kit)
    receive, _ = server.halves()
    _, send = client.halves()
    file = kit.disk.open(f"{kit.folder}/copy", "x")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send.send_all, PAYLOAD)
        at = 0
        while at < len(PAYLOAD):
            held = await receive.receive_held(len(PAYLOAD) - at)
            assert not isinstance(held, bytes)
            first, size = min(1000, len(held)), len(held)
            file.pwrite_held(held, at, first)
            assert len(held) == size - first
            if len(held):
                file.pwrite_held(held, at + first, len(held))
            at += size
    assert file.pread(0, 2 * len(PAYLOAD)) == PAYLOAD
    await send.send_all(b"and then")
    assert await read(receive, 8) == b"and then"
    await send.aclose()
    assert await receive.receive_held(10) == b""
    file.close()
    await end(listener, client, server)


@case
async def what_is_there_is_received_without_waiting(kit: Kit) -> None:
    listener, client, server = await pair(kit)
    receive, _ = server.halves()
    _, send = client.halves()
    assert receive.receive_now(10) is None
    assert receive.receive_now(10, held=True) is None
    await send.send_all(b"abcdefghij")
    assert await read(receive, 1) == b"a"  # so the rest is there as well, on every network
    assert await read(receive, 1) == b"b"
    data = receive.receive_now(4)
    assert isinstance(data, bytes)
    assert b"cdef".startswith(data)
    rest = b"cdefghij"[len(data) :]
    held = receive.receive_now(len(rest), held=True)
    assert held is not None
    assert not isinstance(held, bytes)
    file = kit.disk.open(f"{kit.folder}/now", "x")
    file.pwrite_held(held, 0, size := len(held))
    assert file.pread(0, 10) == rest[:size]
    file.close()
    assert await read(receive, len(rest) - size) == rest[size:]
    assert receive.receive_now(10) is None
    await send.aclose()
    assert await receive.receive_some(10) == b""
    assert receive.receive_now(10) == b""
    assert receive.receive_now(10, held=True) == b""
    await receive.aclose()
    for held_or_not in (False, True):
        with pytest.raises(trio.ClosedResourceError):
            receive.receive_now(10, held=held_or_not)
    await end(listener, client, server)


@case
async def a_cancelled_wait_for_held_bytes_loses_nothing(kit: Kit) -> None:
    listener, client, server = await pair(kit)
    receive, _ = server.halves()
    _, send = client.halves()
    with trio.move_on_after(0.05):
        await receive.receive_held(100)
    await send.send_all(b"late")
    assert await read(receive, 4) == b"late"
    await end(listener, client, server)
