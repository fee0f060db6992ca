"""What Python holds for a request that waits at a port, and what the port counts for it."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import trio
from frame_client import FrameClient

from actors.remoting.connection import RPCConnection
from actors.remoting.requests import Channel

FRAMES = 500


async def look_at_costs(
    client: FrameClient, channel: Channel, kept: Callable[[], int], shape: Callable[[int], bytes]
) -> None:
    """Send requests that nobody answers: they take no more than the port counts.

    Nor does it count much more, for then it would read fewer than it has room for.

    Args:
        channel: the port's end of the client's connection.
        kept: returns how many requests have come.
        shape: makes a request's frame; the number is for its texts, which it shares with no other.
    """
    assert isinstance(channel, RPCConnection)

    async def ask(first: int) -> tuple[int, int]:
        count = kept() + FRAMES
        await client.put(*map(shape, range(first, first + FRAMES)))
        await trio.sleep(10)
        assert kept() == count
        gc.collect()
        return tracemalloc.get_traced_memory()[0], channel._held_bytes()

    tracemalloc.start()
    try:
        held_before, counted_before = await ask(FRAMES)  # all buffers are as large from now on
        held, counted = await ask(2 * FRAMES)
    finally:
        tracemalloc.stop()
    takes, counts = (held - held_before) // FRAMES, (counted - counted_before) // FRAMES
    assert takes <= counts <= 3 * takes
