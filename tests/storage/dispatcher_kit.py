"""What the tests of the dispatcher share."""

import trio
from store_kit import Kit


async def received(kit: Kit, data: bytes, at: int) -> None:
    await kit.receive(1, at, data)
    held = await kit.range()
    assert held.written_bytes == at + len(data)
    await trio.sleep(1)
