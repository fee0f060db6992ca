"""What every network and disk must do with bytes that the system keeps."""

from __future__ import annotations

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
async def a_cancelled_wait_for_held_bytes_loses_nothing(kit: Kit) -> None:
    listener, client, server = await pair(kit)
    receive, _ = server.halves()
    _, send = client.halves()
    with trio.move_on_after(0.05):
        await receive.receive_held(100)
    await send.send_all(b"late")
    assert await read(receive, 4) == b"late"
    await end(listener, client, server)
